import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import type { AcquireInput, RecordStore } from '#internal/records/store.ts'
import { openRedis, withTx } from '#internal/storage/index.ts'
import type { Limits } from '#internal/tenants/index.ts'
import { labStartMs, movableClock, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import {
  countDurableLocks,
  moveRecordHours,
  readDurableMeters,
  recordEntryId,
  returnExpiredBytes,
  withMissingPartitions,
} from './durable-meters.ts'
import { effectiveLimits, LimitsInForce } from './limits.ts'
import { Meter, type SoftCrossing } from './meter.ts'
import { readUsage } from './read-usage.ts'
import { defineUsageScript } from './reading.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

let lab: RecordLab
let inRedis: RecordStore
beforeAll(async () => {
  lab = await openRecordLab({ durability: 'postgres' })
  inRedis = lab.stores.redis
}, 30_000)
afterAll(() => lab.close())

let keys = 0
/** Acquires locks of new keys, and returns how many were granted. */
async function lock(
  tenantId: TenantId,
  count: number,
  { store = lab.store, ...changes }: Partial<AcquireInput> & { readonly store?: RecordStore } = {},
): Promise<number> {
  let granted = 0
  for (let nth = 0; nth < count; nth += 1) {
    const key = `k-${keys++}`
    const { kind } = await store.acquire(acquireInput(tenantId, { key, lockToken: key, ...changes }))
    if (kind === 'locked') granted += 1
  }
  return granted
}

/** Creates a tenant whose records are still in Redis. */
async function createTenantInRedis(): Promise<TenantId> {
  const tenantId = await lab.createTenant()
  await lab.pool.query("UPDATE tenants SET record_store = 'redis' WHERE id = $1", [tenantId])
  return tenantId
}

async function moveTo(tenantId: TenantId, store: 'redis' | 'postgres') {
  const { rows } = await lab.pool.query(
    `UPDATE tenants SET record_store = $2, record_store_before = record_store, record_store_generation = record_store_generation + 1
     WHERE id = $1 RETURNING record_store_generation AS generation`,
    [tenantId, store],
  )
  return { place: { generation: Number(rows[0]?.generation), isCurrent: true } }
}

const unreachable = () => openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })

async function read(tenantId: TenantId, { redis = lab.redis, nowMs = labStartMs } = {}) {
  const clock = { now: () => nowMs }
  const limits = new LimitsInForce({ pool: lab.pool, clock })
  const report = await readUsage(
    { pool: lab.pool, redis, clock, limits, usageScript: defineUsageScript(movableClock) },
    { id: tenantId, limits: {} },
    { fromMs: labStartMs - 30 * dayMs, toMs: labStartMs + 30 * dayMs },
  )
  const used = new Map(report.limits.map(({ limit, used }) => [limit, used]))
  return {
    minute: used.get('locksPerMinute'),
    month: used.get('locksPerMonth'),
    bytes: used.get('recordBytes'),
    hours: report.hours.map(({ hourMs: atMs, kind, amount }) => [(atMs - labStartMs) / hourMs, kind, amount]),
  }
}

/** Sums of the rows of a tenant. */
async function sums(tenantId: TenantId) {
  const { rows } = await lab.pool.query<{ meter: number; buckets: number; entries: number }>(
    `SELECT (SELECT coalesce(sum(bytes), 0) FROM record_meters WHERE tenant_id = $1)::float8 AS meter,
       (SELECT coalesce(sum(bytes), 0) FROM record_bytes WHERE tenant_id = $1)::float8 AS buckets,
       (SELECT coalesce(sum(bytes), 0) FROM record_entries WHERE tenant_id = $1 AND expires_at > record_clock() / 1000)::float8 AS entries`,
    [tenantId],
  )
  return rows[0]
}

const startHour = -30 / 3600

test('readUsage: for a tenant with records in Postgres, returns locks per minute and month and record bytes, even without Redis', async () => {
  const tenantId = await lab.createTenant()
  await lock(tenantId, 3)
  await lab.setClock(tenantId, labStartMs + minuteMs)
  await Promise.all([lock(tenantId, 2), lock(tenantId, 2)])
  const away = unreachable()
  try {
    const { entries } = (await sums(tenantId)) ?? {}
    expect(entries).toBeGreaterThan(7 * 256)
    expect(await read(tenantId)).toMatchObject({ minute: 4, month: 7, bytes: entries })
    expect(await read(tenantId, { redis: away })).toMatchObject({ minute: 4, month: 7, bytes: entries })
    await lab.setClock(tenantId, labStartMs + 2 * minuteMs)
    expect(await read(tenantId, { redis: away })).toMatchObject({ minute: 0, month: 7 })
    await lab.setClock(tenantId, Date.UTC(2026, 11, 1))
    expect(await read(tenantId, { nowMs: Date.UTC(2026, 11, 1) })).toMatchObject({ minute: 0, month: 0 })
  } finally {
    await away.close()
  }
})

test.each([
  ['redis', () => createTenantInRedis(), () => inRedis],
  ['postgres', () => lab.createTenant(), () => lab.store],
] as const)(
  'readUsage: bytes of expired entries in %s do not count, even before a call frees the bytes',
  async (_store, create, storeOf) => {
    const tenantId = await create()
    const store = storeOf()
    await store.save(saveInput(tenantId, { key: 'short', ttlMs: minuteMs }))
    await store.save(saveInput(tenantId, { key: 'long', ttlMs: 3 * hourMs }))
    const { bytes: both } = await read(tenantId)
    await lab.setClock(tenantId, labStartMs + 2 * minuteMs)
    const { bytes: one } = await read(tenantId)
    expect(both).toBeWithin(2 * (one ?? 0) - 4, 2 * (one ?? 0) + 4)
    await lab.setClock(tenantId, labStartMs + 5 * hourMs)
    expect((await read(tenantId)).bytes).toBe(0)
  },
)

test('locks per month: after a move to Postgres the count of Redis is included, and after a move back the counts of both stores', async () => {
  const tenantId = await createTenantInRedis()
  const limits = { locksPerMinute: null, locksPerMonth: 10, recordBytes: null }
  expect(await lock(tenantId, 4, { store: inRedis, limits })).toBe(4)
  await lab.meter.flush()
  const toPostgres = await moveTo(tenantId, 'postgres')
  expect(await read(tenantId)).toMatchObject({ minute: 0, month: 4 })
  const both = (await sums(tenantId))?.entries
  expect(both).toBe(0)
  expect(await lock(tenantId, 3, { ...toPostgres, limits })).toBe(3)
  expect(await read(tenantId)).toMatchObject({ minute: 3, month: 7 })
  const { bytes } = await read(tenantId)
  expect(bytes).toBeGreaterThan((await sums(tenantId))?.entries ?? Infinity)
  const toRedis = await moveTo(tenantId, 'redis')
  expect(await read(tenantId)).toMatchObject({ month: 7 })
  expect(await lock(tenantId, 2, { ...toRedis, store: inRedis, limits })).toBe(2)
  await lab.meter.flush()
  const again = await moveTo(tenantId, 'postgres')
  expect(await lock(tenantId, 5, { ...again, limits })).toBe(1)
  expect(await read(tenantId)).toMatchObject({ month: 10 })
  await lab.meter.flush()
  expect((await read(tenantId)).hours).toEqual([[startHour, 'locks', 10]])
})

test('readUsage: hourly locks counted in Postgres are added to hours flushed earlier from Redis, even while Redis is unavailable', async () => {
  const tenantId = await lab.createTenant()
  const away = unreachable()
  const hours = async () => (await read(tenantId, { redis: away })).hours
  try {
    await lock(tenantId, 3)
    expect(await hours()).toEqual([[startHour, 'locks', 3]])
    await lab.pool.query("INSERT INTO usage_hourly VALUES ($1, 'locks', $2, 5)", [
      tenantId,
      new Date(labStartMs - 30_000),
    ])
    await lab.setClock(tenantId, labStartMs + hourMs)
    await Promise.all([lock(tenantId, 1), lock(tenantId, 1)])
    const both = [
      [startHour, 'locks', 8],
      [startHour + 1, 'locks', 2],
    ]
    expect(await hours()).toEqual(both)
    await lab.setClock(tenantId, labStartMs + 51 * hourMs)
    while ((await moveRecordHours(lab.pool)).hasMore);
    expect(await hours()).toEqual(both)
  } finally {
    await away.close()
  }
})

test('soft limits: crossings for locks and bytes in Postgres are reported, also for the minute and month that have just ended', async () => {
  const tenantId = await lab.createTenant()
  const spec: Limits = { locksPerMinute: { soft: 3 }, locksPerMonth: { soft: 4 }, recordBytes: { soft: 1 } }
  const told: SoftCrossing[] = []
  const meter = new Meter({
    redis: lab.redis,
    pool: lab.pool,
    clock: { now: () => labStartMs },
    clockSource: movableClock,
    actor: 'test',
    onEpochLost: () => undefined,
    limitsOf: () => effectiveLimits({ overrides: [], spec, defaults: {}, nowMs: labStartMs }),
    onSoftCrossing: (crossing) => told.push(crossing),
  })
  const endMs = Date.UTC(2026, 11, 1)
  await lab.setClock(tenantId, endMs - 1)
  await Promise.all([lock(tenantId, 2), lock(tenantId, 2)])
  await lab.setClock(tenantId, endMs)
  await lock(tenantId, 1)
  meter.markUsed(tenantId)
  await meter.flush()
  expect(
    told.map(({ limit, periodMs, used }) => [limit, periodMs, limit === 'recordBytes' ? 0 : used]),
  ).toEqual([
    ['locksPerMinute', endMs - minuteMs, 4],
    ['locksPerMonth', Date.UTC(2026, 10, 1), 4],
    ['recordBytes', endMs, 0],
  ])
})

test('retention: frees expired bytes of a tenant without calls, and the sums stay correct', async () => {
  const tenantId = await lab.createTenant()
  const gone = await lab.createTenant()
  for (const id of [tenantId, gone]) {
    await lab.store.save(saveInput(id, { key: 'short', ttlMs: minuteMs }))
    await lab.store.save(saveInput(id, { key: 'long', ttlMs: dayMs }))
  }
  await lab.pool.query('UPDATE tenants SET deleted_at = now() WHERE id = $1', [gone])
  const before = await sums(gone)
  await lab.setClock(tenantId, labStartMs + 30 * minuteMs)
  await returnExpiredBytes(lab.pool)
  expect(await sums(tenantId)).toMatchObject({ meter: before?.meter, buckets: before?.buckets })
  await lab.setClock(tenantId, labStartMs + 2 * hourMs)
  while ((await returnExpiredBytes(lab.pool)).hasMore);
  const after = await sums(tenantId)
  expect(after?.entries).toBeWithin(1, before?.meter ?? 0)
  expect(after).toEqual({
    meter: after?.entries ?? 0,
    buckets: after?.entries ?? 0,
    entries: after?.entries ?? 0,
  })
  // The sums of the deleted tenant do not change here: its purge removes them.
  expect(await sums(gone)).toMatchObject({ meter: before?.meter, buckets: before?.buckets })
  expect(await returnExpiredBytes(lab.pool)).toEqual({ removed: 0, hasMore: false })
  await lab.store.remove(acquireInput(tenantId, { key: 'long' }), '')
  expect(await sums(tenantId)).toEqual({ meter: 0, buckets: 0, entries: 0 })
})

test('retention: moves hourly counts of locks to a separate column of `usage_hourly` after two days', async () => {
  const tenantId = await lab.createTenant()
  await lock(tenantId, 3)
  const left = async () => {
    const { rows } = await lab.pool.query('SELECT FROM record_hours WHERE tenant_id = $1', [tenantId])
    return rows.length
  }
  const move = async (afterMs: number) => {
    await lab.setClock(tenantId, labStartMs + afterMs)
    while ((await moveRecordHours(lab.pool)).hasMore);
  }
  await move(48 * hourMs)
  expect(await left()).toBeGreaterThan(0)
  await move(49 * hourMs)
  expect(await left()).toBe(0)
  await lab.setClock(tenantId, labStartMs)
  await lock(tenantId, 2)
  await move(49 * hourMs)
  expect((await read(tenantId)).hours).toEqual([[startHour, 'locks', 5]])
  const { rows } = await lab.pool.query('SELECT meter, amount FROM usage_hourly WHERE tenant_id = $1', [
    tenantId,
  ])
  expect(rows).toEqual([{ meter: 'locks', amount: 0 }])
})

test.each([1, 3])(
  'committed locks: the partition of an entry that is kept %i days is created',
  async (days) => {
    const tenantId = await lab.createTenant()
    await lab.setClock(tenantId, labStartMs + (90 + 10 * days) * dayMs)
    const locks = { generation: 0, entryId: recordEntryId(tenantId, 'commit'), key: 'commit' }
    const more = { amount: 2, keptMs: days * dayMs, text: 'commit' }
    await withMissingPartitions(lab.pool, () =>
      withTx(lab.pool, (client) => countDurableLocks(client, tenantId, { ...locks, ...more })),
    )
    expect((await readDurableMeters(lab.pool, [tenantId])).get(tenantId)?.locks?.minutes[0]?.count).toBe(2)
    await lab.setClock(tenantId, labStartMs)
  },
)

test('durable meters: an unknown or deleted tenant can be read, and a refused lock of a deleted tenant creates no row', async () => {
  const [unknown, gone] = ['ten_unknown' as TenantId, await lab.createTenant()]
  await lab.pool.query('UPDATE tenants SET deleted_at = now() WHERE id = $1', [gone])
  await expect(lock(gone, 1)).rejects.toMatchObject({ reason: 'moved' })
  const readings = await readDurableMeters(lab.pool, [unknown, gone])
  expect(readings.get(unknown)).toMatchObject({ store: 'redis', generation: 0, recordBytes: 0 })
  expect(readings.get(gone)).toMatchObject({ store: 'postgres', recordBytes: 0 })
  const { rowCount } = await lab.pool.query('SELECT FROM record_meters WHERE tenant_id = $1', [gone])
  expect(rowCount).toBe(0)
})
