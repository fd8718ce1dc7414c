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
  /** Whether there may be more of them. */
  readonly hasMore: boolean
}

/** Rows of one table that go by time, a batch at a time. */
export interface RetentionStep {
  readonly table: string
  /** Removes at most some thousand rows. Repeating it is safe, also while another process does the same. */
  readonly removeBatch: (nowMs: number) => Promise<RemovedRows>
}

/** Hears what retention does; must not throw. */
export interface RetentionObserver {
  partitionDropped(partition: ExpiredPartition, durationMs: number): void
  partitionBlocked(partition: ExpiredPartition): void
  rowsRemoved(table: string, count: number): void
  /** A step failed; the others went on. */
  failed(table: string, error: unknown): void
  /** Called with the age since expiry of the oldest remaining expired partition in milliseconds; 0 for none. Called in every process. */
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

/** `elsewhere`: another process is at it. `more`: the signal, or a step's bound, ended the turn before all was gone. */
export type RetentionResult = 'done' | 'more' | 'elsewhere'

/** Any constant serves, as long as nothing else in this database locks the same number. */
const advisoryLock = 7_205_759_403_792_795
/** Batches of one step in one turn, so that no step keeps the others waiting for long. */
const batchesMax = 100

/**
 * One turn of retention: drops what has expired, then removes rows of the other tables in batches. After each batch it pauses for as
 * long as that took, so that it never has more than half of one connection. One process at a time does it, by an advisory lock
 * that ends with its session. A step that fails keeps none of the others from theirs.
 * @throws the first failure, after the other steps; whatever Postgres throws where there is no session
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

/** Whether the bound was reached before all were gone. */
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

/** Gives undefined where another session has the lock. The session is closed afterwards, and with it the lock goes in any case. */
async function withLock<T>(pool: Pool, work: (session: PoolClient) => Promise<T>): Promise<T | undefined> {
  const session = await pool.connect()
  // A checked-out connection has no listener of the pool's; its breaking also rejects the query under way.
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

/** By which day the rows of each table go. Each of these columns has an index, as below. */
const dayColumns = { dedupe_keys: 'expires_on', failed_events: 'expires_on' } as const
/** By which time. */
const timeColumns = {
  stats_hourly: 'at',
  stats_minutely: 'at',
  stats_queue: 'at',
  stats_writers: 'written_at',
  usage_emissions: 'recorded_at',
  usage_hourly: 'hour',
} as const

/** Bound of the rows to delete: up to and including a day, or before a moment. */
export type OldestRows =
  | { readonly table: keyof typeof dayColumns; readonly lastDay: Day; readonly rowsMax?: number }
  | { readonly table: keyof typeof timeColumns; readonly before: Date; readonly rowsMax?: number }

const rowsMaxDefault = 5_000

/**
 * Removes the oldest rows of a table, at most `rowsMax`, default 5 000, by the index over their time. Repeating it is safe, also
 * while another process does the same. @throws whatever Postgres throws
 */
export async function removeOldest(pool: Pool, rows: OldestRows): Promise<RemovedRows> {
  const { table, rowsMax = rowsMaxDefault } = rows
  const [column, isOver, value] =
    'lastDay' in rows
      ? [dayColumns[rows.table], '<= $1::date', rows.lastDay]
      : [timeColumns[rows.table], '< $1', rows.before]
  // Rows that another process removes or changes at this moment are passed by, so that nobody waits and none is counted twice.
  // A locked row stays where it is, so that it is found by its place, without a key. One text for a name, so rowsMax is a parameter.
  const { rowCount } = await pool.query({
    name: `remove_oldest_${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${column} ${isOver} ORDER BY ${column} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [value, rowsMax],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}
