import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores/database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { createRanking } from './stats.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = createPool({
    url: database.url,
    applicationName: 'test ranking',
    connectionsMax: 2,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
  })
}, 30_000)
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const minuteMs = 60_000
const startMs = Date.parse('2026-11-21T12:00:00Z')
/** One event that a tenant has accepted; all else is 0. */
const count = () =>
  pool.query(
    `INSERT INTO stats_minutely SELECT (jsonb_populate_record(NULL::stats_minutely, $1 || (
       SELECT jsonb_object_agg(column_name, 0) FROM information_schema.columns
       WHERE table_name = 'stats_minutely' AND data_type = 'integer') || $2)).*`,
    [{ tenant_id: someTenantId(), at: new Date(startMs - 5 * minuteMs) }, { accepted: 1 }],
  )

test('tenant ranking: a ranking of all tenants is queried once per 15 s for each length of the time range', async () => {
  let nowMs = startMs
  const rank = createRanking({ readPool: pool, clock: { now: () => nowMs } })
  const ranked = async (spanMs = 60 * minuteMs) =>
    (await rank({ fromMs: nowMs - spanMs, toMs: nowMs })).length
  await count()
  expect(await Promise.all([ranked(), ranked()])).toEqual([1, 1])
  await count()
  nowMs += 14_999
  expect(await ranked()).toBe(1)
  expect(await ranked(30 * minuteMs)).toBe(2)
  nowMs += 1
  expect(await ranked()).toBe(2)
  // A ranking for a range of the same length that ends at another time is not taken from the cache.
  expect(await rank({ fromMs: startMs - 180 * minuteMs, toMs: startMs - 120 * minuteMs })).toEqual([])
})
