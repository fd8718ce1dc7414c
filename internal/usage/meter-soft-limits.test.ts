import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import type { AnyLimitName, Limits } from '#internal/tenants/index.ts'
import { labStartMs, movableClock, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { effectiveLimits } from './limits.ts'
import { Meter, type SoftCrossing, softCrossings } from './meter.ts'
import type { MeterReading, UsageReading } from './reading.ts'

const minuteMs = 60_000
const limitsOf = (spec: Limits) => effectiveLimits({ overrides: [], spec, defaults: {}, nowMs: labStartMs })

describe('soft limits that are reached', () => {
  const tenantId = 'ten_any' as TenantId
  const minuteStartMs = labStartMs - 30_000
  const monthStartMs = Date.UTC(2026, 10, 1)
  const reading = (locks?: MeterReading, events?: MeterReading, recordBytes = 0): UsageReading => ({
    tenantId,
    nowMs: labStartMs,
    epoch: 'e',
    recordBytes,
    locks,
    events,
  })
  const meter = (minuteCount: number, monthCount: number, closedCount?: number): MeterReading => ({
    minutes: [
      { startMs: minuteStartMs, endMs: minuteStartMs + minuteMs, count: minuteCount },
      ...(closedCount === undefined
        ? []
        : [{ startMs: minuteStartMs - minuteMs, endMs: minuteStartMs, count: closedCount }]),
    ],
    months: [{ startMs: monthStartMs, endMs: Date.UTC(2026, 11, 1), count: monthCount }],
    hours: [],
  })

  test.each<[string, Limits, UsageReading, [AnyLimitName, number, number][]]>([
    ['no limit is reached if none is set', {}, reading(meter(9, 9), meter(9, 9), 9), []],
    ['a limit is not reached below its value', { locksPerMinute: { soft: 10 } }, reading(meter(9, 99)), []],
    [
      'a limit is reached at its value',
      { locksPerMinute: { soft: 9 } },
      reading(meter(9, 9)),
      [['locksPerMinute', minuteStartMs, 9]],
    ],
    ['a limit of 0 is not reached without usage', { locksPerMinute: { soft: 0 } }, reading(meter(0, 1)), []],
    [
      'a limit can be reached in the previous minute',
      { eventsPerMinute: { soft: 5 } },
      reading(undefined, meter(1, 9, 7)),
      [['eventsPerMinute', minuteStartMs - minuteMs, 7]],
    ],
    [
      'a monthly limit is reached at its value',
      { eventsPerMonth: { soft: 5, over: 'accept' } },
      reading(meter(0, 9), meter(0, 6)),
      [['eventsPerMonth', monthStartMs, 6]],
    ],
    [
      'a limit of bytes is reached per day',
      { recordBytes: { soft: 5 } },
      reading(meter(0, 0), undefined, 6),
      [['recordBytes', Date.UTC(2026, 10, 21), 6]],
    ],
  ])('softCrossings: %s', (_case, spec, given, expected) => {
    const crossings = softCrossings(given, limitsOf(spec))
    expect(
      crossings.map(({ limit, periodMs, used }): (typeof expected)[number] => [limit, periodMs, used]),
    ).toEqual(expected)
  })
})

describe('reaching a soft limit', () => {
  let lab: RecordLab
  beforeAll(async () => {
    lab = await openRecordLab()
  }, 30_000)
  afterAll(() => lab.close())

  let keys = 0
  async function lock(tenantId: TenantId): Promise<void> {
    await lab.store.acquire({
      tenantId,
      scope: 's',
      key: `k-${keys++}`,
      ttlMs: 60_000,
      lockMs: 60_000,
      lockToken: `t-${keys}`,
      fingerprint: '',
      attemptId: '',
      waits: false,
      limits: { locksPerMinute: null, locksPerMonth: null, recordBytes: null },
    })
  }

  /** Simulates a process that rolls up usage, and collects the crossings that it reports. */
  function openRollUp(spec: Limits) {
    const told: SoftCrossing[] = []
    const meter = new Meter({
      actor: 'backoffice',
      redis: lab.redis,
      pool: lab.pool,
      clock: { now: () => labStartMs },
      clockSource: movableClock,
      onEpochLost: () => undefined,
      limitsOf: () => limitsOf(spec),
      onSoftCrossing: (crossing) => told.push(crossing),
    })
    return { meter, told }
  }

  async function auditOf(tenantId: TenantId): Promise<unknown[]> {
    const { rows } = await lab.pool.query<{ detail: unknown }>(
      `SELECT detail || jsonb_build_object('actor', actor) AS detail FROM audit WHERE tenant_id = $1 AND action = 'usage.soft_limit_crossed' ORDER BY id`,
      [tenantId],
    )
    return rows.map(({ detail }) => detail)
  }

  test('soft limit: a crossing is reported once per period by all processes together, with one audit row', async () => {
    const tenantId = await lab.createTenant()
    const processes = [1, 2, 3].map(() => openRollUp({ locksPerMinute: { soft: 2 } }))
    const flushAll = () =>
      Promise.all(
        processes.map(({ meter }) => {
          meter.markUsed(tenantId)
          return meter.flush()
        }),
      )
    const told = () => processes.flatMap((each) => each.told)
    await lock(tenantId)
    await flushAll()
    expect(told()).toEqual([])
    for (const _more of [1, 2]) await lock(tenantId)
    await flushAll()
    await flushAll()
    const period = '2026-11-21T10:00:00.000Z'
    expect(told()).toEqual([
      { tenantId, limit: 'locksPerMinute', periodMs: Date.parse(period), used: 3, soft: 2 },
    ])
    expect(await auditOf(tenantId)).toEqual([
      { actor: 'backoffice', limit: 'locksPerMinute', period, used: 3, soft: 2 },
    ])

    await lab.setClock(tenantId, labStartMs + minuteMs)
    for (const _lock of [1, 2]) await lock(tenantId)
    await flushAll()
    expect(told()).toHaveLength(2)
    expect(await auditOf(tenantId)).toHaveLength(2)
  })

  test('soft limit: a process reports only those crossings of a flush that no other process has reported', async () => {
    const [known, fresh] = [await lab.createTenant(), await lab.createTenant()]
    const [first, second] = [
      openRollUp({ locksPerMinute: { soft: 1 } }),
      openRollUp({ locksPerMinute: { soft: 1 } }),
    ]
    await lock(known)
    first.meter.markUsed(known)
    await first.meter.flush()
    await lock(fresh)
    for (const tenantId of [known, fresh]) second.meter.markUsed(tenantId)
    await second.meter.flush()
    expect(first.told.map(({ tenantId }) => tenantId)).toEqual([known])
    expect(second.told.map(({ tenantId }) => tenantId)).toEqual([fresh])
  })

  test('soft limit: a crossing at the end of a minute is detected in the next minute', async () => {
    const tenantId = await lab.createTenant()
    const { meter, told } = openRollUp({
      locksPerMinute: { soft: 2 },
      eventsPerMinute: { soft: 3 },
      eventsPerMonth: { soft: 3, over: 'accept' },
    })
    const events = async (count: number) => {
      meter.events.countStored(Array.from({ length: count }, () => ({ tenantId, receivedAtMs: labStartMs })))
      await meter.events.refresh()
    }
    for (const _lock of [1, 2]) await lock(tenantId)
    await events(3)
    await lab.setClock(tenantId, Date.UTC(2026, 11, 1))
    await lock(tenantId)
    await events(1)
    meter.markUsed(tenantId)
    await meter.flush()
    expect(told.map(({ limit, periodMs, used }) => [limit, new Date(periodMs).toISOString(), used])).toEqual([
      ['locksPerMinute', '2026-11-21T10:00:00.000Z', 2],
      ['eventsPerMinute', '2026-11-21T10:00:00.000Z', 3],
      ['eventsPerMonth', '2026-11-01T00:00:00.000Z', 3],
    ])
  })

  test('soft limit: the next flush reports a crossing that could not be stored', async () => {
    const tenantId = await lab.createTenant()
    const { meter, told } = openRollUp({ locksPerMonth: { soft: 1 } })
    await lock(tenantId)
    meter.markUsed(tenantId)
    await lab.pool.query('ALTER TABLE audit RENAME TO taken_away')
    try {
      await expect(meter.flush()).rejects.toThrow()
    } finally {
      await lab.pool.query('ALTER TABLE taken_away RENAME TO audit')
    }
    expect(told).toEqual([])
    await meter.flush()
    expect(told).toMatchObject([{ limit: 'locksPerMonth', used: 1 }])
  })
})
