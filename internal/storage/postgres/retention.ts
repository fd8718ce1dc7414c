import type { Day } from '#internal/base/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import {
  dropExpiredPartitions,
  type ExpiredPartition,
  expiredAgeMs,
  listExpiredPartitions,
} from './partitions.ts'
import type { Pool, PoolClient } from './pool.ts'

/** Rows deleted by one statement. */
export interface RemovedRows {
  readonly removed: number
  /** True if more may remain. */
  readonly hasMore: boolean
}

/** Time-based removal of one table's rows, in batches. */
export interface RetentionStep {
  readonly table: string
  /** Removes at most some thousand rows. Safe to repeat and to run concurrently. */
  readonly removeBatch: (nowMs: number) => Promise<RemovedRows>
}

/** Callbacks of retention. Must not throw. */
export interface RetentionObserver {
  partitionDropped(partition: ExpiredPartition, durationMs: number): void
  partitionBlocked(partition: ExpiredPartition): void
  rowsRemoved(table: string, count: number): void
  /** A step failed; the others went on. */
  failed(table: string, error: unknown): void
  /** Milliseconds since the oldest remaining partition expired; 0 for none. Called in every process. */
  expiredAgeSeen(ageMs: number): void
}

/** Options of a retention turn. */
export interface RetentionTurn {
  /** Pool with at least two connections. Its statement time-out bounds each statement. */
  readonly pool: Pool
  readonly nowMs: number
  /** Ends the turn between two statements. */
  readonly signal: AbortSignal
  /** Steps for tables that refer to rows of partitions; run before the partitions are dropped. */
  readonly before: readonly RetentionStep[]
  readonly after: readonly RetentionStep[]
  readonly observer: RetentionObserver
  /** Replaced in tests only. */
  readonly pause?: Sleep
}

/** `elsewhere`: another process runs retention. `more`: the signal or a step's bound ended the turn early. */
export type RetentionResult = 'done' | 'more' | 'elsewhere'

/** Any number that nothing else in this database locks. */
const advisoryLock = 7_205_759_403_792_795
/** Maximum batches per step and turn, so that no step delays the others for long. */
const batchesMax = 100

/**
 * Runs one turn of retention: drops expired partitions, then removes rows of the other tables in batches. Pauses after each batch
 * for its duration, so that it uses at most half of one connection. An advisory lock of its session admits one process at a
 * time. A failed step does not stop the others.
 * @throws the first failure, after the other steps; whatever Postgres throws without a session
 */
export async function runRetention(turn: RetentionTurn): Promise<RetentionResult> {
  const failures: unknown[] = []
  const attempt = async (table: string, work: () => Promise<boolean>): Promise<boolean> => {
    try {
      return !turn.signal.aborted && (await work())
    } catch (error) {
      turn.observer.failed(table, error)
      failures.push(error)
      return false
    }
  }
  const result = await withLock(turn.pool, async (session) => {
    let hasMore = false
    const runAll = async (steps: readonly RetentionStep[]) => {
      for (const step of steps) if (await attempt(step.table, () => removeRows(step, turn))) hasMore = true
    }
    await runAll(turn.before)
    if (await attempt('partitions', () => dropPartitions(session, turn))) hasMore = true
    await runAll(turn.after)
    return hasMore || turn.signal.aborted ? 'more' : 'done'
  })
  turn.observer.expiredAgeSeen(expiredAgeMs(await listExpiredPartitions(turn.pool, turn.nowMs), turn.nowMs))
  if (failures.length > 0) throw failures[0]
  return result ?? 'elsewhere'
}

async function dropPartitions(session: PoolClient, turn: RetentionTurn): Promise<boolean> {
  const { nowMs, signal, observer } = turn
  const { blocked, hasMore } = await dropExpiredPartitions({
    ...{ session, nowMs, signal },
    onDropped: (partition, durationMs) => observer.partitionDropped(partition, durationMs),
  })
  for (const partition of blocked) observer.partitionBlocked(partition)
  return hasMore
}

/** Returns true if rows may remain beyond the bound. */
async function removeRows(step: RetentionStep, turn: RetentionTurn): Promise<boolean> {
  const { nowMs, signal, observer, pause = sleep } = turn
  for (let batch = 0; batch < batchesMax; batch += 1) {
    const startedAt = performance.now()
    const { removed, hasMore } = await step.removeBatch(nowMs)
    if (removed > 0) observer.rowsRemoved(step.table, removed)
    if (!hasMore) return false
    if (signal.aborted) return true
    await pause(performance.now() - startedAt, signal)
  }
  return true
}

/** Returns undefined if another session has the lock. Closes the session afterwards, which ends the lock in any case. */
async function withLock<T>(pool: Pool, work: (session: PoolClient) => Promise<T>): Promise<T | undefined> {
  const session = await pool.connect()
  // A checked-out connection has no listener of the pool; a broken one also rejects its query.
  const ignore = () => undefined
  session.on('error', ignore)
  try {
    const { rows } = await session.query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [
      advisoryLock,
    ])
    if (rows[0]?.locked !== true) return undefined
    const result = await work(session)
    await session.query('SELECT pg_advisory_unlock($1)', [advisoryLock])
    return result
  } finally {
    session.off('error', ignore)
    session.release(true)
  }
}

/** Expiry day of each table's rows. Indexed, like the columns below. */
const dayColumns = { dedupe_keys: 'expires_on', failed_events: 'expires_on' } as const
/** Time of each table's rows. */
const timeColumns = {
  stats_hourly: 'at',
  stats_minutely: 'at',
  stats_queue: 'at',
  stats_writers: 'written_at',
  usage_emissions: 'recorded_at',
  usage_hourly: 'hour',
} as const

/** Rows to delete: up to and including a day, or before a time. */
export type OldestRows =
  | { readonly table: keyof typeof dayColumns; readonly lastDay: Day; readonly rowsMax?: number }
  | { readonly table: keyof typeof timeColumns; readonly before: Date; readonly rowsMax?: number }

const rowsMaxDefault = 5_000

/**
 * Removes the oldest rows of a table, at most `rowsMax`, default 5 000, by the index over their time. Safe to repeat and to run
 * concurrently. @throws whatever Postgres throws
 */
export async function removeOldest(pool: Pool, rows: OldestRows): Promise<RemovedRows> {
  const { table, rowsMax = rowsMaxDefault } = rows
  const [column, isOver, value] =
    'lastDay' in rows
      ? [dayColumns[rows.table], '<= $1::date', rows.lastDay]
      : [timeColumns[rows.table], '< $1', rows.before]
  // SKIP LOCKED neither waits for other processes nor counts a row twice. A locked row cannot move, so ctid identifies it. One
  // text per name, so rowsMax is a parameter.
  const { rowCount } = await pool.query({
    name: `remove_oldest_${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${column} ${isOver} ORDER BY ${column} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [value, rowsMax],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}
