import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { ensurePartitions, partitionName } from './partitions.ts'
import { createPool, numberArrayParam, type Pool, textArrayParam } from './pool.ts'
import { classifySqlError } from './sql-failure.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const insert = `INSERT INTO event_payloads VALUES ('evt_1', $1, '{}')`

describe('partitions', () => {
  test('partitions: a row without a partition is distinguished from an invalid row', async () => {
    const missing = await pool.query(insert, ['2031-05-05']).catch((error: unknown) => error)
    expect(classifySqlError(missing).kind).toBe('partition_missing')
    const wrong = await pool.query(insert, ['no day']).catch((error: unknown) => error)
    expect(classifySqlError(wrong).kind).toBe('rejected')
  })

  test('partitions: concurrent callers create each partition once, with the indexes of its parent table', async () => {
    const wanted = [
      { table: 'event_payloads', day: '2031-05-05' },
      { table: 'events', day: '2031-05-05' },
    ] as const
    const made = await Promise.all([ensurePartitions(pool, wanted), ensurePartitions(pool, wanted)])
    expect(Math.max(...made)).toBe(2)
    expect(await ensurePartitions(pool, wanted)).toBe(0)
    await pool.query(insert, ['2031-05-05'])
    const { rows } = await pool.query<{ name: string; count: number }>(
      `SELECT indrelid::regclass::text AS name, count(*) FROM pg_index
       WHERE indrelid IN ('events'::regclass, 'events_20310505'::regclass) GROUP BY 1 ORDER BY 1`,
    )
    const count = expect.any(Number)
    expect(rows).toEqual([
      { name: 'events', count },
      { name: 'events_20310505', count: rows[0]?.count },
    ])
  })

  test('partitions: creating a partition does not block the table', async () => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT * FROM event_payloads')
      await client.query(`INSERT INTO event_payloads VALUES ('evt_2', '2031-05-05', '{}')`)
      expect(await ensurePartitions(pool, [{ table: 'event_payloads', day: '2031-05-06' }])).toBe(1)
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
  })

  test('partitions: names can be built only from valid days', () => {
    expect(partitionName({ table: 'attempts', day: '2031-05-05' })).toBe('attempts_20310505')
    expect(() => partitionName({ table: 'attempts', day: `2031-05-05'; --` })).toThrow(RangeError)
  })
})

test('textArrayParam: encodes any text so that Postgres returns the same text', async () => {
  const values = ['', '{"a":"\\"b\\""}', 'NULL', null, '日本 🎉', '{1,2}', "it's", '\\', ' a ']
  const { rows } = await pool.query<{ v: string | null }>('SELECT unnest($1::text[]) AS v', [
    textArrayParam(values),
  ])
  expect(rows.map(({ v }) => v)).toEqual(values)
  const none = await pool.query('SELECT unnest($1::text[])', [textArrayParam([])])
  expect(none.rows).toEqual([])
})

test('numberArrayParam: encodes numbers so that Postgres returns the same numbers', async () => {
  const values = [0, -1, 1.5, Number.MAX_SAFE_INTEGER, 1_795_255_200_123, Number.NaN]
  const { rows } = await pool.query<{ v: number }>('SELECT unnest($1::float8[]) AS v', [
    numberArrayParam(values),
  ])
  expect(rows.map(({ v }) => v)).toEqual(values)
  expect((await pool.query('SELECT unnest($1::float8[])', [numberArrayParam([])])).rows).toEqual([])
})
