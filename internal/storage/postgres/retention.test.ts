import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { ensurePartitions, partitionName } from './partitions.ts'
import { createPool, type Pool } from './pool.ts'
import { type RetentionStep, type RetentionTurn, runRetention } from './retention.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 6, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const nowMs = Date.parse('2031-05-06T12:00:00Z')

interface Told {
  readonly events: string[]
  ageMs: number | undefined
}

interface TurnParts extends Partial<Pick<RetentionTurn, 'before' | 'after' | 'signal' | 'pause'>> {
  readonly told?: Told
}

const nothing = (): Told => ({ events: [], ageMs: undefined })

async function run({ told = nothing(), ...parts }: TurnParts): ReturnType<typeof runRetention> {
  return await runRetention({
    pool,
    nowMs,
    before: [],
    after: [],
    pause: async () => undefined,
    signal: new AbortController().signal,
    ...parts,
    observer: {
      partitionDropped: (partition) => told.events.push(`dropped ${partitionName(partition)}`),
      partitionBlocked: (partition) => told.events.push(`blocked ${partitionName(partition)}`),
      rowsRemoved: (table, count) => told.events.push(`${table} ${count}`),
      failed: (table) => told.events.push(`failed ${table}`),
      expiredAgeSeen: (ageMs) => void (told.ageMs = ageMs),
    },
  })
}

/** Has so many batches of ten rows. */
function stepOf(table: string, batches: number): RetentionStep {
  let left = batches
  return {
    table,
    removeBatch: async () => {
      left -= 1
      return { removed: 10, hasMore: left > 0 }
    },
  }
}

test('retention: a run removes rows that refer to partitions, then drops partitions, then removes other rows', async () => {
  await ensurePartitions(pool, [{ table: 'events', day: '2031-05-05' }])
  const told = nothing()
  expect(await run({ told, before: [stepOf('queue', 2)], after: [stepOf('a', 1), stepOf('b', 1)] })).toBe(
    'done',
  )
  expect(told.events).toEqual(['queue 10', 'queue 10', 'dropped events_20310505', 'a 10', 'b 10'])
  expect(told.ageMs).toBe(0)
})

test('retention: pauses after each batch for as much time as the batch took', async () => {
  const paused: number[] = []
  const slow: RetentionStep = {
    table: 'slow',
    removeBatch: async () => {
      await pool.query('SELECT pg_sleep(0.05)')
      return { removed: 1, hasMore: paused.length < 2 }
    },
  }
  await run({ after: [slow], pause: async (ms) => void paused.push(ms) })
  expect(paused).toHaveLength(2)
  expect(Math.min(...paused)).toBeGreaterThanOrEqual(50)
})

test('retention: a step that reaches the maximum of a run continues in the next run, after the other steps', async () => {
  const told = nothing()
  expect(await run({ told, after: [stepOf('large', 101), stepOf('small', 1)] })).toBe('more')
  expect(told.events.filter((event) => event === 'large 10')).toHaveLength(100)
  expect(told.events.at(-1)).toBe('small 10')
})

test('retention: a failed step does not block the other steps, but the run fails', async () => {
  await ensurePartitions(pool, [{ table: 'attempts', day: '2031-05-05' }])
  const broken: RetentionStep = { table: 'broken', removeBatch: () => Promise.reject(new Error('broken')) }
  const told = nothing()
  await expect(run({ told, before: [broken], after: [stepOf('a', 1)] })).rejects.toThrow('broken')
  expect(told.events).toEqual(['failed broken', 'dropped attempts_20310505', 'a 10'])
})

test('retention: an abort signal stops the run, and the next run continues', async () => {
  expect(await run({ signal: AbortSignal.abort(), after: [stepOf('a', 1)] })).toBe('more')
})

test('retention: runs in one process at a time; a second process reports the age of the oldest partition and runs later', async () => {
  await ensurePartitions(pool, [{ table: 'events', day: '2031-05-05' }])
  const gate = Promise.withResolvers<void>()
  const inside = Promise.withResolvers<void>()
  const held: RetentionStep = {
    table: 'held',
    removeBatch: async () => {
      inside.resolve()
      await gate.promise
      return { removed: 0, hasMore: false }
    },
  }
  const first = run({ before: [held] })
  await inside.promise
  const told = nothing()
  expect(await run({ told, after: [stepOf('a', 1)] })).toBe('elsewhere')
  expect(told).toEqual({ events: [], ageMs: 35 * 3_600_000 })
  gate.resolve()
  expect(await first).toBe('done')
  expect(await run({ told, after: [stepOf('a', 1)] })).toBe('done')
})

test('retention: the lock of a killed process is released when its session ends', async () => {
  const gate = Promise.withResolvers<never>()
  const inside = Promise.withResolvers<void>()
  const stuck: RetentionStep = {
    table: 'stuck',
    removeBatch: () => {
      inside.resolve()
      return gate.promise
    },
  }
  const dying = run({ before: [stuck] }).catch(() => 'died')
  await inside.promise
  expect(await run({})).toBe('elsewhere')
  await pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()`,
  )
  await until('the lock to be free', async () => (await run({})) === 'done')
  gate.reject(new Error('too late'))
  expect(await dying).toBe('died')
})
