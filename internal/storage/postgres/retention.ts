import type { Day, TenantId } from '#internal/base/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import {
  dropExpiredPartitions,
  type ExpiredPartition,
  expiredAgeMs,
  listExpiredPartitions,
} from './partitions.ts'
import { type Pool, type PoolClient, tryAdvisoryLock } from './pool.ts'

/** Outcome of one DELETE statement. */
export interface RemovedRows {
  readonly removed: number
  /** True if more expired rows may remain. */
  readonly hasMore: boolean
}

/** Step that deletes the expired rows of one table in batches. */
export interface RetentionStep {
  readonly table: string
  /** Deletes at most a few thousand rows. Safe to repeat and to run concurrently. */
  readonly removeBatch: (nowMs: number) => Promise<RemovedRows>
}

/** Callbacks of retention. They must not throw. */
export interface RetentionObserver {
  partitionDropped(partition: ExpiredPartition, durationMs: number): void
  partitionBlocked(partition: ExpiredPartition): void
  rowsRemoved(table: string, count: number): void
  /** Reports a failed step. The other steps still run. */
  failed(table: string, error: unknown): void
  /** Reports, in every process, the age of the oldest remaining expired partition, or 0 if none remains. */
  expiredAgeSeen(ageMs: number): void
}

export interface RetentionTurn {
  /** Pool with at least two connections. Its statement time-out applies to each statement. */
  readonly pool: Pool
  readonly nowMs: number
  readonly signal: AbortSignal
  /** Steps for tables that refer to rows of partitions. Run before the partitions are dropped. */
  readonly before: readonly RetentionStep[]
  readonly after: readonly RetentionStep[]
  readonly observer: RetentionObserver
  readonly pause?: Sleep
}

/** Key of the advisory lock: arbitrary, but unique in this database. */
const advisoryLock = 7_205_759_403_792_795
/** Maximum batches per step and run, so that no step delays the others for long. */
const batchesMax = 100

/**
 * Drops expired partitions, then deletes expired rows of the other tables in batches. Pauses after each batch for as long as it took, so
 * that retention uses one connection for at most half of the time. A session-level advisory lock admits one process at a time. A failed
 * step does not stop the others. `elsewhere`: another process runs retention. `more`: the signal, or the maximum batches of a step, ended
 * the run early.
 * @throws the first error of a step, after the other steps have run; any error of Postgres if no session can be opened
 */
export async function runRetention(turn: RetentionTurn): Promise<'done' | 'more' | 'elsewhere'> {
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
    session,
    nowMs,
    signal,
    onDropped: (partition, durationMs) => observer.partitionDropped(partition, durationMs),
  })
  for (const partition of blocked) observer.partitionBlocked(partition)
  return hasMore
}

/** Returns true if expired rows may remain, after the maximum number of batches or because the signal has aborted. */
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

/** Runs `work` under the lock. Returns undefined if another session holds it. */
async function withLock<T>(pool: Pool, work: (session: PoolClient) => Promise<T>): Promise<T | undefined> {
  const lock = await tryAdvisoryLock(pool, advisoryLock)
  if (!lock) return undefined
  try {
    const result = await work(lock.session)
    // Unlocks explicitly, since the lock is freed only some time after the connection is closed.
    await lock.session.query('SELECT pg_advisory_unlock($1)', [advisoryLock])
    return result
  } finally {
    lock.close()
  }
}

/** Indexed columns with the expiry day, by table. */
const dayColumns = {
  dedupe_keys: 'expires_on',
  failed_deliveries: 'expires_on',
  pulls_due: 'expires_on',
} as const
/** Indexed columns with the time of a row, by table. */
const timeColumns = {
  feed_marks: 'at',
  stats_hourly: 'at',
  stats_minutely: 'at',
  stats_queue: 'at',
  stats_writers: 'written_at',
  usage_emissions: 'recorded_at',
  usage_hourly: 'hour',
} as const

const rowsMaxDefault = 5_000

/**
 * Deletes the oldest rows of a table, at most `rowsMax` (default 5 000), through its index. Safe to repeat and to run concurrently.
 * @throws any error of Postgres
 */
export async function removeOldest(
  pool: Pool,
  rows:
    | { readonly table: keyof typeof dayColumns; readonly lastDay: Day; readonly rowsMax?: number }
    | { readonly table: keyof typeof timeColumns; readonly before: Date; readonly rowsMax?: number },
): Promise<RemovedRows> {
  const { table, rowsMax = rowsMaxDefault } = rows
  const [column, isOver, value] =
    'lastDay' in rows
      ? [dayColumns[rows.table], '<= $1::date', rows.lastDay]
      : [timeColumns[rows.table], '< $1', rows.before]
  // SKIP LOCKED avoids waiting for other processes and counting a row twice. A locked row cannot move, so ctid identifies it. rowsMax is a
  // parameter, because a named prepared statement must always have the same text.
  const { rowCount } = await pool.query({
    name: `remove_oldest_${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${column} ${isOver} ORDER BY ${column} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [value, rowsMax],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

/** Deletes at most `rowsMax` rows of a deleted tenant. Returns their approximate number; 0 means that no row is left. Idempotent. */
export type PurgeStep = (pool: Pool, id: TenantId, rowsMax: number) => Promise<number>

/** Purges a table by a key, not by ctid: a concurrent update, for which the DELETE waits, changes the ctid of its row. */
export function purgeByKey(table: string, columns: readonly string[]): PurgeStep {
  const key = columns.join(', ')
  const isSame = columns.map((name) => `t.${name} = old.${name}`).join(' AND ')
  return async (pool, id, rowsMax) => {
    const { rowCount } = await pool.query(
      `DELETE FROM ${table} AS t USING (SELECT ${key} FROM ${table} WHERE tenant_id = $1 ORDER BY ${key} LIMIT $2) AS old
       WHERE t.tenant_id = $1 AND ${isSame}`,
      [id, rowsMax],
    )
    return rowCount ?? 0
  }
}

/** Purges a partitioned table by a key. Reads only the partitions in which the tenant's rows are stored. */
export function purgeByPartition(table: string, column: string): PurgeStep {
  return async (pool, id, rowsMax) => {
    const { rows } = await pool.query<{ key: unknown; day: Day }>(
      `SELECT ${column} AS key, expires_on::text AS day FROM ${table} WHERE tenant_id = $1 ORDER BY ${column} LIMIT $2`,
      [id, rowsMax],
    )
    for (const [day, ofDay] of Map.groupBy(rows, (row) => row.day))
      await pool.query(
        `DELETE FROM ${table} WHERE expires_on = $1::date AND tenant_id = $2 AND ${column} = ANY($3)`,
        [day, id, ofDay.map((row) => row.key)],
      )
    return rows.length
  }
}
