import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayAfter, type TenantId } from '#internal/base/index.ts'
import { createPool, ensurePartitions, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { randomTenantId } from '#test/support/records/record-lab.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import { insertDurableTenant } from '#test/support/records/record-tenants.ts'
import { DurableRecordStore, durableSessionSettings, purgeRecords } from './durable-store.ts'

const entries = 200_000
/** Index and table pages of one key in each of the partitions, and of the meters. */
const pagesPerKeyMax = 200

let pool: Pool
let close: () => Promise<void>

beforeAll(async () => {
  const database = await createMigratedDatabase()
  // All statements run in one session, which prepares them while the tables are nearly empty.
  pool = createPool({
    url: database.url,
    applicationName: 'test plan',
    sessionSettings: durableSessionSettings,
    connectionsMax: 1,
    queryTimeoutMs: 60_000,
    connectTimeoutMs: 5_000,
  })
  // Creates the partitions first, since creation on demand needs another connection.
  const days = Array.from({ length: 12 }, (_, day) => dayAfter(Date.now(), day - 1))
  await ensurePartitions(
    pool,
    days.map((day) => ({ table: 'record_entries', day })),
  )
  close = async () => {
    await pool.end()
    await database.drop()
  }
}, 30_000)
afterAll(() => close())

function openStore(): DurableRecordStore {
  const redis = { publish: async () => 0 }
  return new DurableRecordStore({
    pool,
    redis,
    meter: { markUsed: () => undefined },
  })
}

/** Adds entries of other keys to all partitions. */
async function pile(tenantId: TenantId): Promise<void> {
  await pool.query(
    `INSERT INTO record_entries SELECT gen_random_uuid(), current_date + n % 8, (extract(epoch FROM now()) * 1000)::bigint + 86400000 * 8,
       $1, 's', 'k' || n, 0, '', n, 1000, 1000, false, false, '', '', 300, 0, '{"status":200,"headers":{},"body":1}'
     FROM generate_series(1, $2::integer) AS n`,
    [tenantId, entries],
  )
}

interface Reads {
  readonly scans: number
  readonly pages: number
}

/** Returns the sequential scans and the pages read of all tables of records since the start of the session. */
async function readsOf(): Promise<Reads> {
  await pool.query('SELECT pg_stat_force_next_flush()')
  const { rows } = await pool.query<Reads>(
    `SELECT sum(t.seq_scan)::integer AS scans,
       sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::integer AS pages
     FROM pg_stat_user_tables AS t JOIN pg_statio_user_tables AS io USING (relid) WHERE t.relname LIKE 'record\\_%'`,
  )
  return rows[0] as Reads
}

test('durable records: statements prepared on empty tables use only index scans after the table has grown to 200 000 entries', async () => {
  const tenantId = randomTenantId()
  await insertDurableTenant(pool, tenantId)
  const store = openStore()
  const runAll = async (name: string) => {
    const keys = Array.from({ length: 20 }, (_, n) => `${name}-${n}`)
    await Promise.all(keys.map((key) => store.acquire(acquireInput(tenantId, { key, lockToken: key }))))
    await Promise.all(keys.map((key) => store.extend(acquireInput(tenantId, { key }), key, null)))
    await Promise.all(keys.map((key) => store.save(saveInput(tenantId, { key, lockToken: key }))))
    await Promise.all(keys.map((key) => store.acquire(acquireInput(tenantId, { key }))))
    await Promise.all(keys.map((key) => store.fetch(acquireInput(tenantId, { key }))))
    await Promise.all(keys.map((key) => store.remove(acquireInput(tenantId, { key }), '')))
    return keys.length * 6
  }
  await runAll('small')
  await pile(tenantId)
  const before = await readsOf()
  const calls = await runAll('large')
  const after = await readsOf()
  expect(after.scans - before.scans).toBe(0)
  expect((after.pages - before.pages) / calls).toBeWithin(1, pagesPerKeyMax)
}, 60_000)

test('durable records: the purge of a tenant finds its records through the primary key, even with default session settings', async () => {
  const tenantId = randomTenantId()
  await insertDurableTenant(pool, tenantId)
  const store = openStore()
  const keys = Array.from({ length: 20 }, (_, n) => `gone-${n}`)
  await Promise.all(keys.map((key) => store.acquire(acquireInput(tenantId, { key, lockToken: key }))))
  await pool.query('RESET ALL')
  await pool.query('ANALYZE record_entries')
  const before = await readsOf()
  expect(await purgeRecords(pool, tenantId, 5_000)).toBe(20)
  const after = await readsOf()
  expect(after.scans - before.scans).toBe(0)
  expect(after.pages - before.pages).toBeLessThan(20 * pagesPerKeyMax)
}, 60_000)

test('durable records: saves update their locks without writing an index', async () => {
  const tenantId = randomTenantId()
  await insertDurableTenant(pool, tenantId)
  const redis = { publish: async () => 0 }
  const meter = { markUsed: () => undefined }
  const store = new DurableRecordStore({ pool, redis, meter })
  const updates = async () => {
    await pool.query('SELECT pg_stat_force_next_flush()')
    const { rows } = await pool.query<{ all: number; hot: number }>(
      `SELECT sum(n_tup_upd)::integer AS all, sum(n_tup_hot_upd)::integer AS hot
       FROM pg_stat_user_tables WHERE relname LIKE 'record\\_entries\\_%'`,
    )
    return rows[0] as { all: number; hot: number }
  }
  const before = await updates()
  const keys = Array.from({ length: 400 }, (_, n) => `hot-${n}`)
  await Promise.all(keys.map((key) => store.acquire(acquireInput(tenantId, { key, lockToken: key }))))
  await Promise.all(keys.map((key) => store.save(saveInput(tenantId, { key, lockToken: key }))))
  const after = await updates()
  expect(after.all - before.all).toBe(keys.length)
  expect(after.hot - before.hot).toBeGreaterThan(0.95 * keys.length)
}, 60_000)
