import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { forgetDedupeKeys } from './retention.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE dedupe_keys')
})

const day = '2031-05-06'
const overMs = Date.parse(`${day}T01:00:00Z`)

async function fill(expiresOn: string, count: number): Promise<void> {
  await pool.query(
    `INSERT INTO dedupe_keys SELECT md5($1 || nth)::uuid, 'evt_' || nth, $1::date FROM generate_series(1, $2) nth`,
    [expiresOn, count],
  )
}

const daysLeft = async () =>
  (await pool.query(`SELECT expires_on::text AS day, count(*) FROM dedupe_keys GROUP BY 1 ORDER BY 1`)).rows

test('forgetDedupeKeys: removes expired keys on their day, 5 000 per call', async () => {
  await fill('2031-05-05', 10)
  await fill(day, 6_000)
  await fill('2031-05-07', 20)
  expect(await forgetDedupeKeys(pool, overMs - 1)).toEqual({ removed: 10, hasMore: false })
  expect(await forgetDedupeKeys(pool, overMs)).toEqual({ removed: 5_000, hasMore: true })
  expect(await forgetDedupeKeys(pool, overMs)).toEqual({ removed: 1_000, hasMore: false })
  expect(await daysLeft()).toEqual([{ day: '2031-05-07', count: 20 }])
})

test('forgetDedupeKeys: concurrent calls remove each key once without waiting', async () => {
  await fill(day, 12_000)
  let removed = 0
  for (let turn = 0; turn < 2; turn += 1) {
    const both = await Promise.all([forgetDedupeKeys(pool, overMs), forgetDedupeKeys(pool, overMs)])
    removed += both.reduce((sum, one) => sum + one.removed, 0)
  }
  expect(removed).toBe(12_000)
  await fill(day, 3)
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('SELECT FROM dedupe_keys LIMIT 1 FOR UPDATE')
    expect(await forgetDedupeKeys(pool, overMs)).toEqual({ removed: 2, hasMore: false })
    await client.query('ROLLBACK')
  } finally {
    client.release()
  }
})
