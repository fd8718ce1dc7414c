import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { openRedis } from '#internal/storage/index.ts'
import { openRecordLab, type RecordLab, randomTenantId } from '#test/support/record-lab.ts'
import { LimitsInForce } from './limits.ts'
import { Meter } from './meter.ts'
import { readLimits, readUsage } from './read-usage.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const clock = { now: () => Date.now() }
const hourMs = 3_600_000
const spec = { eventsPerMonth: { soft: 2, hard: 5, over: 'refuse' as const }, locksPerMonth: { hard: 7 } }

function read(tenantId: TenantId, redis = lab.redis) {
  const limits = new LimitsInForce({ pool: lab.pool, clock })
  const span = { fromMs: Date.now() - 24 * hourMs, toMs: Date.now() + hourMs }
  return readUsage({ pool: lab.pool, redis, clock, limits }, { id: tenantId, limits: spec }, span)
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

test('readLimits: returns the limits of readUsage, and no hours', async () => {
  const tenantId = await usedTenant()
  const limits = new LimitsInForce({ pool: lab.pool, clock })
  const report = await readLimits(
    { pool: lab.pool, redis: lab.redis, clock, limits },
    { id: tenantId, limits: spec },
  )
  expect(Object.keys(report)).toEqual(['limits', 'over'])
  expect(report.limits.map(({ limit, used }) => [limit, used])).toContainEqual(['eventsPerMonth', 3])
})

test('readUsage: without Redis, months come from Postgres, and counts that only Redis knows are null', async () => {
  const tenantId = await usedTenant()
  const away = openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })
  try {
    const { limits } = await read(tenantId, away)
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
