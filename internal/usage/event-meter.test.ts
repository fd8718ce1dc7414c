import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { type RedisConnection, RedisUnavailable } from '#internal/storage/index.ts'
import { labStartMs, movableClock, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { createTestRedis, type TestRedis } from '#test/support/stores.ts'
import { type EffectiveLimits, effectiveLimits } from './limits.ts'
import { forgetMeters, Meter } from './meter.ts'
import { countAt, defineUsageScript, meterKeys, readMeters } from './reading.ts'

let redis: TestRedis
let lab: RecordLab
beforeAll(async () => {
  // A separate Redis, because tests delete all of its data.
  redis = await createTestRedis()
  lab = await openRecordLab({ redisUrl: redis.url })
}, 30_000)
afterAll(async () => {
  await lab.close()
  await redis.stop()
})

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Connection that on request loses replies or is unavailable. */
class FaultyRedis {
  fault: 'none' | 'away' | 'answers lost' = 'none'
  readonly connection: RedisConnection

  constructor(inner: RedisConnection) {
    this.connection = {
      ...inner,
      evaluate: async (script, keys, args) => {
        if (this.fault === 'away') throw new RedisUnavailable('disconnected')
        const reply = await inner.evaluate(script, keys, args)
        if (this.fault === 'answers lost') throw new RedisUnavailable('timeout')
        return reply
      },
    }
  }
}

/** Simulates a process: its event meter, its clock and its connection. */
function openProcess() {
  const clock = { nowMs: labStartMs }
  const faulty = new FaultyRedis(lab.redis)
  const roll = new Meter({
    actor: 'test',
    redis: faulty.connection,
    pool: lab.pool,
    clockSource: movableClock,
    clock: { now: () => clock.nowMs },
    onEpochLost: () => undefined,
  })
  return { clock, faulty, roll, meter: roll.events }
}
type Process = ReturnType<typeof openProcess>

const eventsOf = (tenantId: TenantId, count: number, receivedAtMs: number) =>
  Array.from({ length: count }, () => ({ tenantId, receivedAtMs }))

/** Counts events and waits until they are counted. */
async function count(
  process: Process,
  tenantId: TenantId,
  events: number,
  receivedAtMs = process.clock.nowMs,
) {
  process.meter.countStored(eventsOf(tenantId, events, receivedAtMs))
  await process.meter.refresh()
}

async function moveTo(tenantId: TenantId, nowMs: number, ...processes: readonly Process[]): Promise<void> {
  await lab.setClock(tenantId, nowMs)
  for (const { clock } of processes) clock.nowMs = nowMs
}

async function writeDeleted(tenantId: TenantId): Promise<void> {
  await lab.pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now(), now())`,
    [tenantId],
  )
}

const script = defineUsageScript(movableClock)
async function readNow(tenantId: TenantId) {
  const { events, nowMs } = await readMeters(lab.redis, script, tenantId)
  return events && { minute: countAt(events.minutes, nowMs), month: countAt(events.months, nowMs) }
}

async function hoursOf(tenantId: TenantId): Promise<Record<string, number>> {
  const { rows } = await lab.pool.query<{ hour: Date; amount: number }>(
    `SELECT hour, amount FROM usage_hourly WHERE tenant_id = $1 AND meter = 'events' ORDER BY hour`,
    [tenantId],
  )
  return Object.fromEntries(rows.map(({ hour, amount }) => [hour.toISOString().slice(5, 13), amount]))
}

const limits = (perMinute: number | undefined, perMonth?: number): EffectiveLimits =>
  effectiveLimits({
    overrides: [],
    spec: {
      eventsPerMinute: { ...(perMinute !== undefined && { hard: perMinute }) },
      eventsPerMonth: { ...(perMonth !== undefined && { hard: perMonth }), over: 'refuse' },
    },
    defaults: {},
    nowMs: labStartMs,
  })

describe('counts of events', () => {
  test('event counts: several processes add to one count, which is rolled up once', async () => {
    const tenantId = await lab.createTenant()
    const [one, other] = [openProcess(), openProcess()]
    await Promise.all([count(one, tenantId, 3), count(other, tenantId, 4)])
    expect(await readNow(tenantId)).toEqual({ minute: 7, month: 7 })
    for (const { roll } of [other, one, other]) {
      roll.markUsed(tenantId)
      await roll.flush()
      expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 7 })
    }
  })

  test('event counts: windows are UTC minutes, hours and months', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await count(one, tenantId, 1)
    await moveTo(tenantId, labStartMs + minuteMs, one)
    await count(one, tenantId, 2)
    expect(await readNow(tenantId)).toEqual({ minute: 2, month: 3 })
    await moveTo(tenantId, labStartMs + hourMs, one)
    await count(one, tenantId, 4)
    await moveTo(tenantId, Date.UTC(2026, 11, 1) - 1, one)
    expect(await readNow(tenantId)).toEqual({ minute: 0, month: 7 })
    await count(one, tenantId, 8)
    await moveTo(tenantId, Date.UTC(2026, 11, 1), one)
    expect(await readNow(tenantId)).toEqual({ minute: 0, month: 0 })
    await count(one, tenantId, 16)
    expect(await readNow(tenantId)).toEqual({ minute: 16, month: 16 })
    await one.roll.flush()
    expect(await hoursOf(tenantId)).toMatchObject({ '11-30T23': 8, '12-01T00': 16 })
  })

  test('event counts: a call with a lost reply counts once', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await count(one, tenantId, 1)
    one.faulty.fault = 'answers lost'
    await expect(count(one, tenantId, 5)).rejects.toBeInstanceOf(RedisUnavailable)
    one.faulty.fault = 'none'
    await count(one, tenantId, 2)
    expect(await readNow(tenantId)).toEqual({ minute: 8, month: 8 })
  })

  test('event counts: events during a Redis outage count towards the hour of their receipt', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await count(one, tenantId, 1)
    one.faulty.fault = 'away'
    await expect(count(one, tenantId, 10)).rejects.toBeInstanceOf(RedisUnavailable)
    await moveTo(tenantId, labStartMs + 2 * hourMs, one)
    await expect(count(one, tenantId, 100)).rejects.toBeInstanceOf(RedisUnavailable)
    await moveTo(tenantId, labStartMs + 3 * hourMs, one)
    one.faulty.fault = 'none'
    await count(one, tenantId, 1000)
    expect(await readNow(tenantId)).toEqual({ minute: 1000, month: 1111 })
    await one.roll.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 11, '11-21T12': 100, '11-21T13': 1000 })
  })

  test('event counts: late events of a closed month do not count towards the running month', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await moveTo(tenantId, Date.UTC(2026, 11, 1) - minuteMs, one)
    await count(one, tenantId, 1)
    await moveTo(tenantId, Date.UTC(2026, 11, 1) + minuteMs, one)
    await count(one, tenantId, 5, Date.UTC(2026, 11, 1) - 30_000)
    await count(one, tenantId, 2)
    expect(await readNow(tenantId)).toEqual({ minute: 2, month: 2 })
    await one.roll.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-30T23': 6, '12-01T00': 2 })
  })

  test('event counts: late events of an hour unknown to Redis count towards the running hour', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await count(one, tenantId, 7)
    await one.roll.flush()
    await lab.raw.del(meterKeys(tenantId).events)
    await moveTo(tenantId, labStartMs + hourMs, one)
    await count(one, tenantId, 3, labStartMs)
    await one.roll.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 7, '11-21T11': 3 })
    expect(await readNow(tenantId)).toEqual({ minute: 0, month: 10 })
  })

  test('event counts: a failing tenant does not delay other tenants', async () => {
    const [broken, asked] = [await lab.createTenant(), await lab.createTenant()]
    const others = await Promise.all(Array.from({ length: 70 }, () => lab.createTenant()))
    await lab.raw.set(meterKeys(broken).events, 'no hash')
    const [one, other] = [openProcess(), openProcess()]
    await count(other, asked, 1)
    one.meter.check(asked, limits(1))
    for (const each of [broken, ...others]) one.meter.countStored(eventsOf(each, 2, labStartMs))
    await expect(one.meter.refresh()).rejects.toThrow('WRONGTYPE')
    for (const each of others) expect(await readNow(each)).toEqual({ minute: 2, month: 2 })
    expect(one.meter.check(asked, limits(1)).kind).toBe('limited')
    await lab.raw.del(meterKeys(broken).events)
    await one.meter.refresh()
    expect(await readNow(broken)).toEqual({ minute: 2, month: 2 })
  })

  test('event counts: a deleted tenant gets no meter', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    await count(one, tenantId, 1)
    await writeDeleted(tenantId)
    await forgetMeters(lab.redis, tenantId)
    await count(one, tenantId, 1)
    expect(await lab.raw.keys(`{${tenantId}}:*`)).toEqual([`{${tenantId}}:clock`])
  })

  test('event counts: closed hours and ended processes are removed', async () => {
    const tenantId = await lab.createTenant()
    for (let visit = 0; visit < 60; visit += 1) {
      const one = openProcess()
      await moveTo(tenantId, labStartMs + visit * 3 * hourMs, one)
      await count(one, tenantId, 1)
    }
    const fields = Object.keys(await lab.raw.hgetall(meterKeys(tenantId).events))
    expect(fields.filter((field) => field.startsWith('H')).length).toBeWithin(15, 18)
    expect(fields.filter((field) => field.startsWith('p')).length).toBeLessThanOrEqual(2)
  })

  test('event counts: any order of losses, flushes and lost replies loses at most the unflushed counts', async () => {
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant('count' as const),
          by: fc.nat(1),
          events: fc.integer({ min: 1, max: 9 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('flush' as const), by: fc.nat(1) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const) }) },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant('move' as const),
          byMs: fc.integer({ min: 1, max: 90 * minuteMs }),
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('lose an answer' as const), by: fc.nat(1) }) },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const tenantId = await lab.createTenant()
        const processes = [openProcess(), openProcess()]
        let [nowMs, total, unflushed, lost] = [labStartMs, 0, 0, 0]
        for (const one of steps) {
          const process = processes['by' in one ? one.by : 0]
          if (!process) throw new Error('there are two processes')
          if (one.do === 'count' || one.do === 'lose an answer') {
            const events = one.do === 'count' ? one.events : 3
            if (one.do === 'lose an answer') {
              process.faulty.fault = 'answers lost'
              await count(process, tenantId, events).catch(() => undefined)
              process.faulty.fault = 'none'
              await process.meter.refresh()
            } else await count(process, tenantId, events)
            total += events
            unflushed += events
          } else if (one.do === 'flush') {
            process.roll.markUsed(tenantId)
            await process.roll.flush()
            unflushed = 0
          } else if (one.do === 'lose') {
            await lab.raw.send('FLUSHALL', [])
            lost += unflushed
            unflushed = 0
            await moveTo(tenantId, nowMs, ...processes)
          } else await moveTo(tenantId, (nowMs += one.byMs), ...processes)
        }
        processes[0]?.roll.markUsed(tenantId)
        await processes[0]?.roll.flush()
        const counted = Object.values(await hoursOf(tenantId)).reduce((sum, amount) => sum + amount, 0)
        expect(counted).toBe(total - lost)
      }),
      { numRuns: 20 },
    )
  }, 60_000)
})

describe('limits of events', () => {
  test('event limits: events committed by this process count before Redis replies', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    expect(one.meter.check(tenantId, limits(2))).toEqual({ kind: 'free' })
    await one.meter.refresh()
    one.meter.countStored(eventsOf(tenantId, 2, labStartMs))
    expect(one.meter.check(tenantId, limits(2))).toMatchObject({ kind: 'limited', retryAfterMs: 30_000 })
    await one.meter.refresh()
    expect(one.meter.check(tenantId, limits(2))).toMatchObject({ kind: 'limited', quota: 2 })
    await moveTo(tenantId, labStartMs + 30_000, one)
    expect(one.meter.check(tenantId, limits(2))).toEqual({ kind: 'free' })
  })

  test('event limits: counts of other processes apply after they are read from Redis', async () => {
    const tenantId = await lab.createTenant()
    const [one, other] = [openProcess(), openProcess()]
    one.meter.check(tenantId, limits(undefined, 5))
    await count(other, tenantId, 5)
    await one.meter.refresh()
    expect(one.meter.check(tenantId, limits(undefined, 5))).toMatchObject({
      kind: 'limited',
      limit: 'eventsPerMonth',
      retryAfterMs: Date.UTC(2026, 11, 1) - labStartMs,
    })
  })

  test('event limits: the monthly count is restored from Postgres if Redis has no counts', async () => {
    const tenantId = await lab.createTenant()
    await lab.pool.query(
      `INSERT INTO usage_hourly VALUES ($1, 'events', '2026-10-31T23:00Z', 50), ($1, 'events', '2026-11-01T00:00Z', 5)`,
      [tenantId],
    )
    const one = openProcess()
    one.meter.check(tenantId, limits(undefined, 6))
    await count(one, tenantId, 1)
    expect(one.meter.check(tenantId, limits(undefined, 7))).toEqual({ kind: 'free' })
    expect(one.meter.check(tenantId, limits(undefined, 6))).toMatchObject({ kind: 'limited', quota: 6 })
  })

  test('event limits: no event is refused if Redis has not replied for a second', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    one.meter.check(tenantId, limits(1))
    await count(one, tenantId, 1)
    one.faulty.fault = 'away'
    one.clock.nowMs += 1_000
    expect(one.meter.check(tenantId, limits(1)).kind).toBe('limited')
    one.clock.nowMs += 1
    await expect(one.meter.refresh()).rejects.toBeInstanceOf(RedisUnavailable)
    expect(one.meter.check(tenantId, limits(1)).kind).toBe('free')
    one.faulty.fault = 'none'
    await one.meter.refresh()
    expect(one.meter.check(tenantId, limits(1)).kind).toBe('limited')
  })

  test('event limits: limits apply to a tenant that had no events for hours', async () => {
    const [tenantId, other] = [await lab.createTenant(), await lab.createTenant()]
    const one = openProcess()
    one.meter.check(tenantId, limits(undefined, 1))
    await count(one, tenantId, 1)
    await moveTo(other, labStartMs + 5 * hourMs, one)
    await moveTo(tenantId, labStartMs + 5 * hourMs, one)
    await one.meter.refresh()
    expect(one.meter.check(tenantId, limits(undefined, 1)).kind).toBe('limited')
  })

  test('event limits: limits still apply after the deletion of the tenant whose counts are read to check Redis', async () => {
    const [gone, tenantId] = [await lab.createTenant(), await lab.createTenant()]
    const one = openProcess()
    one.meter.check(gone, limits(undefined, 1))
    one.meter.check(tenantId, limits(undefined, 1))
    await count(one, tenantId, 1)
    await writeDeleted(gone)
    await forgetMeters(lab.redis, gone)
    for (const _turn of ['one that finds it deleted', 'one that asks by another']) {
      for (const each of [gone, tenantId]) await moveTo(each, one.clock.nowMs + 5 * hourMs, one)
      await one.meter.refresh()
      expect(one.meter.check(tenantId, limits(undefined, 1)).kind).toBe('limited')
    }
  })

  test('event limits: if the read that checks Redis fails, limits apply again from the next refresh on', async () => {
    const [broken, tenantId] = [await lab.createTenant(), await lab.createTenant()]
    const one = openProcess()
    one.meter.check(broken, limits(undefined, 1))
    one.meter.check(tenantId, limits(undefined, 1))
    await count(one, tenantId, 1)
    await lab.raw.set(meterKeys(broken).events, 'no hash')
    one.clock.nowMs += 5 * hourMs
    await expect(one.meter.refresh()).rejects.toThrow('WRONGTYPE')
    await one.meter.refresh()
    expect(one.meter.check(tenantId, limits(undefined, 1)).kind).toBe('limited')
  })

  test('event limits: windows follow the clock of Redis', async () => {
    const tenantId = await lab.createTenant()
    const one = openProcess()
    one.clock.nowMs = labStartMs - 20 * minuteMs
    one.meter.check(tenantId, limits(1))
    await count(one, tenantId, 1)
    expect(one.meter.check(tenantId, limits(1))).toMatchObject({ kind: 'limited', retryAfterMs: 30_000 })
    one.clock.nowMs += 30_000
    expect(one.meter.check(tenantId, limits(1)).kind).toBe('free')
  })
})
