import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { openRedis } from '#internal/storage/index.ts'
import { openRecordLab, type RecordLab, randomTenantId } from '#test/support/records/record-lab.ts'
import { LimitsInForce } from './limits.ts'
import { Meter } from './meter.ts'
import { type ReadUsageParts, readLimits, readUsage } from './read-usage.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const clock = { now: () => Date.now() }
const hourMs = 3_600_000
const spec = { eventsPerMonth: { soft: 2, hard: 5, over: 'refuse' as const }, locksPerMonth: { hard: 7 } }

function partsOf(more: Partial<ReadUsageParts> = {}): ReadUsageParts {
  const limits = new LimitsInForce({ pool: lab.pool, clock })
  return { pool: lab.pool, redis: lab.redis, clock, limits, ...more }
}

function read(tenantId: TenantId, more: Partial<ReadUsageParts> = {}) {
  const span = { fromMs: Date.now() - 24 * hourMs, toMs: Date.now() + hourMs }
  return readUsage(partsOf(more), { id: tenantId, limits: spec }, span)
}

/** Creates a tenant with three events and two locks rolled up in the current hour, and the events also in Redis. */
async function usedTenant(): Promise<TenantId> {
  const tenantId = randomTenantId()
  const nowMs = Date.now()
  const meter = new Meter({
    redis: lab.redis,
    pool: lab.pool,
    clock,
    actor: 'test',
    onEpochLost: () => undefined,
  })
  meter.events.countStored([1, 2, 3].map(() => ({ tenantId, receivedAtMs: nowMs })))
  await meter.events.refresh()
  await meter.flush()
  await lab.pool.query(
    `INSERT INTO usage_hourly VALUES ($1, 'locks', date_trunc('hour', now()), 2), ($1, 'locks', now() - interval '70 days', 9)`,
    [tenantId],
  )
  return tenantId
}

test('readUsage: returns current counts of Redis with the limits in force, and hours of Postgres', async () => {
  const tenantId = await usedTenant()
  const report = await read(tenantId)
  expect(report.over).toBe('refuse')
  const limits = Object.fromEntries(report.limits.map((each) => [each.limit, each]))
  expect(limits['eventsPerMonth']).toMatchObject({ used: 3, soft: 2, hard: 5, override: undefined })
  expect(limits['locksPerMonth']).toMatchObject({ used: 2, soft: null, hard: 7 })
  expect(limits['recordBytes']).toMatchObject({ used: 0, hard: 1024 ** 3, resetsAtMs: undefined })
  expect([0, 3]).toContain(limits['eventsPerMinute']?.used ?? -1)
  expect(limits['eventsPerMinute']?.resetsAtMs).toBeWithin(Date.now(), Date.now() + 60_001)
  const now = new Date()
  expect(limits['locksPerMonth']?.resetsAtMs).toBe(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1))
  const hours = report.hours.map(({ kind, amount }) => [kind, amount])
  expect(hours).toEqual([
    ['events', 3],
    ['locks', 2],
  ])
})

/** The lab's pool, which counts the queries of `usage_hourly`. */
function countingPool() {
  let count = 0
  const pool = new Proxy(lab.pool, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        if (name === 'query' && JSON.stringify(args[0]).includes('usage_hourly')) count += 1
        return Reflect.apply(member, target, args) as unknown
      }
    },
  })
  return { pool, hourQueries: () => count }
}

test('readLimits: returns the limits of readUsage, and queries no hours', async () => {
  const tenantId = await usedTenant()
  const nowMs = Date.now()
  const still = { now: () => nowMs }
  const [forUsage, forLimits] = [countingPool(), countingPool()]
  const { hours, ...expected } = await read(tenantId, { pool: forUsage.pool, clock: still })
  const parts = partsOf({ pool: forLimits.pool, clock: still })
  expect(await readLimits(parts, { id: tenantId, limits: spec })).toEqual(expected)
  expect(hours).not.toEqual([])
  expect(forUsage.hourQueries() - forLimits.hourQueries()).toBe(1)
})

test('readUsage: without Redis, months come from Postgres, and counts that only Redis knows are null', async () => {
  const tenantId = await usedTenant()
  const away = openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })
  try {
    const { limits } = await read(tenantId, { redis: away })
    expect(limits.map(({ limit, used }) => [limit, used])).toEqual([
      ['locksPerMinute', null],
      ['locksPerMonth', 2],
      ['eventsPerMinute', null],
      ['eventsPerMonth', 3],
      ['recordBytes', null],
    ])
  } finally {
    await away.close()
  }
})
