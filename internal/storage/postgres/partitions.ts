import { type Day, dayAfter } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from './pool.ts'
import { sqlErrorOf } from './sql-failure.ts'

/** The tables that are partitioned by the day on which a row may go. */
export const partitionedTables = [
  'events',
  'event_payloads',
  'attempts',
  'refused_calls',
  'executions',
] as const
/** One of the partitioned tables. */
export type PartitionedTable = (typeof partitionedTables)[number]

/** A day that a table must have a partition for. */
export interface WantedPartition {
  readonly table: PartitionedTable
  readonly day: Day
}

/** Any constant serves, as long as nothing else in this database locks the same number. */
const advisoryLock = 7_205_759_403_792_794
const wantedMax = 1_000
/**
 * Events change once or twice, soon after they came and many in one statement, which cannot use the room of the versions that it
 * replaces: with half a page to spare each finds its place there, and none of the indexes is written.
 */
const fillFactors: Partial<Record<PartitionedTable, number>> = { events: 50 }

/**
 * Makes the partitions that are missing. A table is made beside its parent and then attached, which blocks neither readers nor
 * writers of the parent; one transaction a partition, each under an advisory lock, so that any number of processes may call
 * this at once. Gives how many were missing and are there now; a signal ends it between two of them. Repeating it is safe and
 * costs one query when all are there.
 */
export async function ensurePartitions(
  pool: Pool,
  wanted: readonly WantedPartition[],
  signal?: AbortSignal,
): Promise<number> {
  if (wanted.length > wantedMax)
    throw new RangeError(`at most ${wantedMax} partitions a call, got ${wanted.length}`)
  let made = 0
  for (const one of await listMissing(pool, wanted)) {
    if (signal?.aborted) break
    await withTx(pool, (client) => createPartition(client, one))
    made += 1
  }
  return made
}

/** The partition's own name, such as `events_20270219`. */
export function partitionName({ table, day }: WantedPartition): string {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('not a day')
  return `${table}_${day.replaceAll('-', '')}`
}

async function listMissing(
  pool: Pool | PoolClient,
  wanted: readonly WantedPartition[],
): Promise<WantedPartition[]> {
  const byName = new Map(wanted.map((one) => [partitionName(one), one]))
  const { rows } = await pool.query<{ relname: string }>(
    `SELECT c.relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
     WHERE c.relname = ANY($1) AND c.relnamespace = current_schema()::regnamespace`,
    [[...byName.keys()]],
  )
  for (const { relname } of rows) byName.delete(relname)
  return [...byName.values()]
}

async function createPartition(client: PoolClient, wanted: WantedPartition): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock($1)', [advisoryLock])
  if ((await listMissing(client, [wanted])).length === 0) return
  const { table, day } = wanted
  const name = partitionName(wanted)
  const fillFactor = fillFactors[table]
  await client.query(
    `CREATE TABLE ${name} (LIKE ${table} INCLUDING ALL)${fillFactor ? ` WITH (fillfactor = ${fillFactor})` : ''}`,
  )
  await client.query(
    `ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${day}') TO (date '${day}' + 1)`,
  )
}

/** Retention of an active tenant's data. */
interface RetentionPair {
  readonly payloadDays: number
  readonly eventDays: number
}

/** Receipt days that partitions are there for: today and the two after it, so that a day without any of us does no harm. */
const receiptDays = 3
const dayMs = 86_400_000
/** As the schema of the resource has it: so there are at most 90 × 90 pairs, and with three receipt days 460 partitions. */
const daysMax = 90

/**
 * Makes the partitions that whatever is received from now until the end of the day after tomorrow (UTC) will need, so that no
 * call at midnight has to make its own. A tenant that comes later than this is served all the same: intake makes what it misses.
 * Gives how many it made; a signal ends it early. Any number of processes may call this at once; again, it costs two queries.
 * @throws whatever Postgres throws; then the partitions made so far are there
 */
export async function ensurePartitionsAhead(
  pool: Pool,
  nowMs: number,
  signal?: AbortSignal,
): Promise<number> {
  return await ensurePartitions(pool, partitionsAhead(await listRetentionPairs(pool), nowMs), signal)
}

function partitionsAhead(pairs: readonly RetentionPair[], nowMs: number): WantedPartition[] {
  const wanted = new Map<string, WantedPartition>()
  const add = (table: PartitionedTable, day: Day) => wanted.set(partitionName({ table, day }), { table, day })
  // Day by day, since today's are the ones that somebody may be waiting for.
  for (let days = 0; days < receiptDays; days += 1) {
    for (const { payloadDays, eventDays } of pairs) {
      const receivedAtMs = nowMs + days * dayMs
      add('events', dayAfter(receivedAtMs, eventDays))
      add('attempts', dayAfter(receivedAtMs, eventDays))
      add('executions', dayAfter(receivedAtMs, eventDays))
      add('event_payloads', dayAfter(receivedAtMs, Math.min(payloadDays, eventDays)))
      add('refused_calls', dayAfter(receivedAtMs, Math.min(payloadDays, eventDays)))
    }
  }
  return [...wanted.values()]
}

// One look at all live tenants, without locks: a hundred thousand are read in a moment. What a tenant leaves open is as intake
// fills it: by the runtime settings, and its own word counts before them. A row whose days are none that the schema allows keeps
// the others from nothing.
async function listRetentionPairs(pool: Pool): Promise<RetentionPair[]> {
  const { rows } = await pool.query<RetentionPair>(
    `WITH defaults AS (
       SELECT coalesce((SELECT value::integer FROM settings WHERE tenant_id = '' AND name = 'retention.payloadDays'), 30),
         coalesce((SELECT value::integer FROM settings WHERE tenant_id = '' AND name = 'retention.eventDays'), 90)
     )
     SELECT DISTINCT "payloadDays", "eventDays" FROM tenants, defaults AS d(payload_days, event_days), LATERAL (
       SELECT (spec -> 'retention' ->> 'payloadDays')::integer, (spec -> 'retention' ->> 'eventDays')::integer
     ) AS own(payload_days, event_days), LATERAL (
       SELECT coalesce(own.event_days, greatest(d.event_days, own.payload_days))
     ) AS events("eventDays"), LATERAL (
       SELECT least(coalesce(own.payload_days, d.payload_days), "eventDays")
     ) AS payloads("payloadDays")
     WHERE deleted_at IS NULL AND "payloadDays" BETWEEN 1 AND $1 AND "eventDays" BETWEEN 1 AND $1`,
    [daysMax],
  )
  return rows
}

/** A table of rows whose day has come. `detaching`: cut short before its parent had let go; `detached`: before it was dropped. */
export interface ExpiredPartition {
  readonly table: PartitionedTable
  readonly day: Day
  readonly state: 'attached' | 'detaching' | 'detached'
}

/** Result of dropping expired partitions. */
export interface DroppedPartitions {
  readonly dropped: readonly ExpiredPartition[]
  /** Those that somebody used for longer than is waited for; the next turn tries them again. */
  readonly blocked: readonly ExpiredPartition[]
  /** Whether the signal ended it before all were tried. */
  readonly hasMore: boolean
}

/** Options of dropping expired partitions. */
export interface DropOptions {
  /** A session that nobody else uses, outside of a transaction, and that alone in this database drops partitions. */
  readonly session: PoolClient
  readonly nowMs: number
  readonly signal: AbortSignal
  /** Called for each dropped partition with the duration in milliseconds. Must not throw. */
  readonly onDropped?: (partition: ExpiredPartition, durationMs: number) => void
}

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

/** Returns the milliseconds since the oldest of these partitions expired; 0 for none. Pure. */
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
