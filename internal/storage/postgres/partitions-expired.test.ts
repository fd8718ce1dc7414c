import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import {
  dropExpiredPartitions,
  ensurePartitions,
  expiredAgeMs,
  lastExpiredDay,
  listExpiredPartitions,
  type PartitionedTable,
  partitionedTables,
  partitionName,
} from './partitions.ts'
import { createPool, type Pool, type PoolClient } from './pool.ts'

let database: TestDatabase
let pool: Pool
/** Connection that holds a conflicting transaction. */
let other: PoolClient
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  other = await pool.connect()
})
afterAll(async () => {
  other.release()
  await pool.end()
  await database.drop()
})
afterEach(async () => {
  await other.query('ROLLBACK')
  await drop(Date.parse('2099-01-01T00:00:00Z'))
  expect(await tablesNow()).toEqual([])
})

const hourMs = 3_600_000
const midnightMs = (day: string) => Date.parse(`${day}T00:00:00Z`)
/** The first moment at which rows of the day may go. */
const overMs = (day: string) => midnightMs(day) + hourMs

async function make(day: string, tables: readonly PartitionedTable[] = partitionedTables): Promise<void> {
  await ensurePartitions(
    pool,
    tables.map((table) => ({ table, day })),
  )
}

async function drop(nowMs: number, signal = new AbortController().signal) {
  const session = await pool.connect()
  try {
    return await dropExpiredPartitions({ session, nowMs, signal })
  } finally {
    session.release(true)
  }
}

/** Tables that have a partition's name, whether they are attached or not. */
async function tablesNow(): Promise<string[]> {
  const { rows } = await pool.query<{ relname: string }>(
    `SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '_[0-9]{8}$' ORDER BY 1`,
  )
  return rows.map(({ relname }) => relname)
}

const namesOf = ({ dropped }: Awaited<ReturnType<typeof drop>>) => dropped.map(partitionName)
const insertPayload = (day: string, id = 'evt_1') =>
  pool.query('INSERT INTO event_payloads VALUES ($1, $2, $3)', [id, day, '{}'])

describe('lastExpiredDay', () => {
  test.each([
    ['returns a day from one hour after its midnight on', '2031-05-05T01:00:00Z', '2031-05-05'],
    ['returns the previous day until one hour after midnight', '2031-05-05T00:59:59.999Z', '2031-05-04'],
    ['returns a day until the day ends', '2031-05-05T23:59:59Z', '2031-05-05'],
    ['returns the last day of the previous year', '2032-01-01T00:30:00Z', '2031-12-31'],
  ])('lastExpiredDay: %s', (_case, now, day) => {
    expect(lastExpiredDay(Date.parse(now))).toBe(day)
  })
})

describe('expired partitions', () => {
  test('expired partitions: are dropped on the day they expire, oldest first, and those of `events` as the last of each day', async () => {
    for (const day of ['2031-05-05', '2031-05-04', '2031-05-06']) await make(day)
    expect(namesOf(await drop(overMs('2031-05-04') - 1))).toEqual([])
    const tables = ['event_payloads', 'attempts', 'refused_calls', 'executions', 'record_entries', 'events']
    const of = (day: string) => tables.map((table) => `${table}_${day}`)
    expect(namesOf(await drop(overMs('2031-05-05')))).toEqual([...of('20310504'), ...of('20310505')])
    expect(await tablesNow()).toEqual(of('20310506').toSorted())
    expect(namesOf(await drop(overMs('2031-05-06') - 1))).toEqual([])
  })

  test('expired partitions: are dropped with their rows, while the partition of the next day remains', async () => {
    for (const day of ['2031-05-05', '2031-05-06']) {
      await make(day, ['event_payloads'])
      await insertPayload(day, day)
    }
    await drop(overMs('2031-05-05'))
    const { rows } = await pool.query('SELECT event_id FROM event_payloads')
    expect(rows).toEqual([{ event_id: '2031-05-06' }])
  })

  test('expired partitions: a partition that was detached before a crash is dropped', async () => {
    await make('2031-05-05', ['events'])
    await pool.query('ALTER TABLE events DETACH PARTITION events_20310505 CONCURRENTLY')
    expect(await listExpiredPartitions(pool, overMs('2031-05-05') - 1)).toEqual([])
    expect(await listExpiredPartitions(pool, overMs('2031-05-05'))).toMatchObject([{ state: 'detached' }])
    expect(namesOf(await drop(overMs('2031-05-05')))).toEqual(['events_20310505'])
  })

  test('expired partitions: an interrupted detach is completed, and its partition is dropped before others of the same table', async () => {
    for (const day of ['2031-05-04', '2031-05-05']) await make(day, ['events'])
    await other.query('BEGIN')
    await other.query('SELECT * FROM events')
    const session = await pool.connect()
    await session.query(`SET statement_timeout = 100`)
    const cut = await session
      .query('ALTER TABLE events DETACH PARTITION events_20310505 CONCURRENTLY')
      .catch((error: unknown) => error)
    session.release(true)
    expect(cut).toMatchObject({ code: '57014' })
    expect(await listExpiredPartitions(pool, overMs('2031-05-05'))).toMatchObject([
      { day: '2031-05-05', state: 'detaching' },
      { day: '2031-05-04', state: 'attached' },
    ])
    await other.query('ROLLBACK')
    expect(namesOf(await drop(overMs('2031-05-05')))).toEqual(['events_20310505', 'events_20310504'])
  })

  test('expired partitions: a partition in use is dropped after the reading transaction ends, and intake is not blocked', async () => {
    for (const day of ['2031-05-04', '2031-05-05', '2031-08-08'])
      await make(day, ['event_payloads', 'attempts', 'events'])
    await insertPayload('2031-05-04')
    await other.query('BEGIN')
    await other.query('SELECT * FROM event_payloads')
    let isOver = false
    const dropping = drop(overMs('2031-05-05')).finally(() => (isOver = true))
    let written = 0
    let slowestMs = 0
    while (!isOver) {
      const startedAt = performance.now()
      await insertPayload('2031-08-08', `evt_${written}`)
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      written += 1
    }
    const result = await dropping
    expect(result.blocked.map(partitionName)).toEqual(['event_payloads_20310504'])
    // The partitions of `events` remain as well, so that no payload remains without its event.
    expect(namesOf(result)).toEqual(['attempts_20310504', 'attempts_20310505'])
    expect(written).toBeGreaterThan(10)
    expect(slowestMs).toBeLessThan(1_000)
    // The table still exists, but new statements no longer read it.
    expect(await tablesNow()).toContain('event_payloads_20310504')
    expect((await pool.query('SELECT * FROM event_payloads')).rowCount).toBe(written)
    await other.query('COMMIT')
    const names = ['event_payloads_20310504', 'events_20310504', 'event_payloads_20310505', 'events_20310505']
    expect(namesOf(await drop(overMs('2031-05-05')))).toEqual(names)
    expect((await pool.query('SELECT * FROM event_payloads')).rowCount).toBe(written)
  })

  test('expired partitions: a partition that was created again for a late row is dropped again', async () => {
    await make('2031-05-05', ['attempts'])
    await drop(overMs('2031-05-05'))
    await make('2031-05-05', ['attempts'])
    expect(namesOf(await drop(overMs('2031-05-05')))).toEqual(['attempts_20310505'])
  })

  test('expired partitions: an abort signal stops the run between two drops', async () => {
    await make('2031-05-05', ['attempts', 'events'])
    const result = await drop(overMs('2031-05-05'), AbortSignal.abort())
    expect(result).toEqual({ dropped: [], blocked: [], hasMore: true })
  })

  test('expired partitions: tables with similar names are not dropped', async () => {
    await pool.query(
      'CREATE TABLE events_20319999 (); CREATE TABLE my_events_20310505 (); CREATE TABLE events_old ()',
    )
    expect(await listExpiredPartitions(pool, overMs('2031-05-05'))).toEqual([])
    await pool.query('DROP TABLE events_20319999, my_events_20310505, events_old')
  })

  test('expired partitions: retention reports the age of the oldest expired partition', async () => {
    for (const day of ['2031-05-05', '2031-05-06']) await make(day, ['events'])
    const ageAt = async (nowMs: number) => expiredAgeMs(await listExpiredPartitions(pool, nowMs), nowMs)
    expect(await ageAt(overMs('2031-05-05') - 1)).toBe(0)
    expect(await ageAt(overMs('2031-05-05') + 5_000)).toBe(5_000)
    expect(await ageAt(overMs('2031-05-07'))).toBe(48 * hourMs)
  })
})
