import type { Day } from '#internal/base/index.ts'
import { type PartitionedTable, partitionedTables, partitionName } from './partitions.ts'
import type { Pool, PoolClient } from './pool.ts'
import { sqlErrorOf } from './sql-failure.ts'

/** A table of rows whose day has come. `detaching`: cut short before its parent had let go; `detached`: before it was dropped. */
export interface ExpiredPartition {
  readonly table: PartitionedTable
  readonly day: Day
  readonly state: 'attached' | 'detaching' | 'detached'
}

/** What a turn of dropping came to. */
export interface DroppedPartitions {
  readonly dropped: readonly ExpiredPartition[]
  /** Those that somebody used for longer than is waited for; the next turn tries them again. */
  readonly blocked: readonly ExpiredPartition[]
  /** Whether the signal ended it before all were tried. */
  readonly hasMore: boolean
}

/** What dropping is done with. */
export interface DropOptions {
  /** A session that nobody else uses, outside of a transaction, and that alone in this database drops partitions. */
  readonly session: PoolClient
  readonly nowMs: number
  readonly signal: AbortSignal
  /** Told of each as it is gone, with how long that took in milliseconds. Must not throw. */
  readonly onDropped?: (partition: ExpiredPartition, durationMs: number) => void
}

const dayMs = 86_400_000
/** Clocks differ, calls and leases last for minutes: whoever began before midnight has ended by then. */
const marginMs = 3_600_000
/** Longer than autovacuum takes to make way (deadlock_timeout, 1 s), and shorter than intake waits for a partition that it makes. */
const lockWaitMs = 1_500
/** Events after all that is found through them. */
const dropOrder: readonly PartitionedTable[] = [
  ...partitionedTables.filter((table) => table !== 'events'),
  'events',
]

/** The latest day whose rows may go: its midnight (UTC) was an hour ago or more. Pure. */
export function lastExpiredDay(nowMs: number): Day {
  return new Date(nowMs - marginMs).toISOString().slice(0, 10)
}

/** How long ago in milliseconds the oldest of these could have gone; 0 for none. Pure. */
export function expiredAgeMs(partitions: readonly ExpiredPartition[], nowMs: number): number {
  const oldest = partitions.map(({ day }) => day).toSorted()[0]
  return oldest === undefined ? 0 : Math.max(0, nowMs - marginMs - Date.parse(oldest))
}

/**
 * The partitions whose day has come, those first whose dropping was begun, then the oldest; of a day events come last. A table
 * that has a partition's name and no parent counts as one that was detached: rename what is to be kept. A read, no locks.
 */
export async function listExpiredPartitions(
  connection: Pick<Pool | PoolClient, 'query'>,
  nowMs: number,
): Promise<ExpiredPartition[]> {
  const { rows } = await connection.query<{ name: string; attached: boolean; detaching: boolean }>(
    `SELECT c.relname AS name, i.inhrelid IS NOT NULL AS attached, coalesce(i.inhdetachpending, false) AS detaching
     FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
     WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname ~ $1`,
    [`^(${partitionedTables.join('|')})_[0-9]{8}$`],
  )
  const last = lastExpiredDay(nowMs)
  const expired = rows.flatMap(({ name, attached, detaching }) => {
    const place = placeOf(name)
    if (place === undefined || place.day > last) return []
    const state = detaching ? ('detaching' as const) : ('attached' as const)
    return [{ ...place, state: attached ? state : ('detached' as const) }]
  })
  return expired.toSorted(compareTurns)
}

/**
 * Drops the partitions whose day has come, one after the other, without keeping anybody from their tables: a partition is detached
 * while others go on, and dropped once nobody knows it any more. It waits a second and a half for those who use one, then leaves
 * it for the next turn, its table too, and events with any. What was cut short is found by its state and ended. Repeating it is safe.
 * @throws whatever else Postgres throws; then what was dropped before stays so
 */
export async function dropExpiredPartitions(options: DropOptions): Promise<DroppedPartitions> {
  const { session, nowMs, signal, onDropped } = options
  await session.query(`SET lock_timeout = ${lockWaitMs}`)
  const dropped: ExpiredPartition[] = []
  const blocked: ExpiredPartition[] = []
  for (const partition of await listExpiredPartitions(session, nowMs)) {
    if (signal.aborted) return { dropped, blocked, hasMore: true }
    const waits = blocked.some(({ table }) => table === partition.table || partition.table === 'events')
    if (waits) continue
    const startedAt = performance.now()
    if (await dropPartition(session, partition)) {
      dropped.push(partition)
      onDropped?.(partition, performance.now() - startedAt)
    } else blocked.push(partition)
  }
  return { dropped, blocked, hasMore: false }
}

// DETACH CONCURRENTLY locks its parent against other changes of its partitions alone (SHARE UPDATE EXCLUSIVE), not against readers
// and writers. It says that the partition goes, waits until all have ended that may not have heard, and lets go of it; cut short
// between the two it is ended by FINALIZE. What is dropped has no parent any more, so DROP locks nothing else.
// https://www.postgresql.org/docs/15/sql-altertable.html (read 2026-11)
async function dropPartition(session: PoolClient, partition: ExpiredPartition): Promise<boolean> {
  const { table, state } = partition
  const name = partitionName(partition)
  try {
    if (state !== 'detached') {
      const how = state === 'detaching' ? 'FINALIZE' : 'CONCURRENTLY'
      await session.query(`ALTER TABLE ${table} DETACH PARTITION ${name} ${how}`)
    }
    await session.query(`DROP TABLE ${name}`)
    return true
  } catch (error) {
    if (!waitedInVain.has(sqlErrorOf(error)?.code)) throw error
    return false
  }
}

/** lock_not_available, query_canceled (its time was over) and deadlock_detected. */
const waitedInVain: ReadonlySet<string | undefined> = new Set(['55P03', '57014', '40P01'])

function placeOf(name: string): Pick<ExpiredPartition, 'table' | 'day'> | undefined {
  const table = partitionedTables.find((each) => name.slice(0, -'_00000000'.length) === each)
  const day = name.slice(-8).replace(/^(\d{4})(\d{2})(\d{2})$/, '$1-$2-$3')
  const dayStartMs = Date.parse(day)
  if (table === undefined || Number.isNaN(dayStartMs) || dayStartMs % dayMs !== 0) return undefined
  return { table, day }
}

/** A table lets go of one partition at a time, so what was begun is ended first. */
function compareTurns(one: ExpiredPartition, other: ExpiredPartition): number {
  const begun = Number(one.state === 'attached') - Number(other.state === 'attached')
  if (begun !== 0) return begun
  if (one.day !== other.day) return one.day < other.day ? -1 : 1
  return dropOrder.indexOf(one.table) - dropOrder.indexOf(other.table)
}
