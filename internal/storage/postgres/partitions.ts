import { type Day, dayAfter } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from './pool.ts'
import { sqlErrorOf } from './sql-failure.ts'

/** Tables partitioned by the day on which a row expires. */
export const partitionedTables = [
  'events',
  'event_payloads',
  'attempts',
  'refused_calls',
  'executions',
  'record_entries',
] as const
/** Name of a partitioned table. */
export type PartitionedTable = (typeof partitionedTables)[number]

/** Partition that rows need. */
export interface WantedPartition {
  readonly table: PartitionedTable
  readonly day: Day
}

/** Key of the advisory lock: arbitrary, but unique in this database. */
const advisoryLock = 7_205_759_403_792_794
const wantedMax = 1_000
/**
 * Fill factors in percent. Each event is updated once or twice soon after its insertion, and each lock by the save of its record. With half
 * of each page free, these are heap-only tuple (HOT) updates, which write no index.
 */
const fillFactors: Partial<Record<PartitionedTable, number>> = { events: 50, record_entries: 50 }

/**
 * Creates missing partitions and returns how many were created. Creates each as a separate table and then attaches it, which blocks neither
 * readers nor writers. One transaction per partition under an advisory lock makes concurrent calls of any number of processes safe. Stops
 * between two partitions when `signal` aborts. Idempotent. Costs one query if all partitions exist.
 */
export async function ensurePartitions(
  pool: Pool,
  wanted: readonly WantedPartition[],
  signal?: AbortSignal,
): Promise<number> {
  if (wanted.length > wantedMax)
    throw new RangeError(
      `ensurePartitions accepts at most ${wantedMax} partitions per call, got ${wanted.length}`,
    )
  let made = 0
  for (const one of await listMissing(pool, wanted)) {
    if (signal?.aborted) break
    await withTx(pool, (client) => createPartition(client, one))
    made += 1
  }
  return made
}

/** Returns the partitions that an error of `run_record_steps` names as missing, at most one for each of its steps. */
export function missingRecordPartitions(error: unknown): readonly WantedPartition[] {
  const days = sqlErrorOf(error)?.detail?.split(' ') ?? []
  return days.map((day) => ({ table: 'record_entries', day }))
}

/** Formats a name such as `events_20270219`. */
export function partitionName({ table, day }: WantedPartition): string {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('a day must have the form YYYY-MM-DD')
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

interface RetentionPair {
  readonly payloadDays: number
  readonly eventDays: number
}

/** Days of receipt with partitions: today and the next two, so that intake works even if no process creates partitions for a day. */
const receiptDays = 3
/** Expiry days with partitions of records, since a lock's entry is kept for a day. The first record that is kept longer creates its own. */
const recordDays = receiptDays + 1
const dayMs = 86_400_000
/** Maximum retention in the Tenant CRD. Events of three days then expire on at most 92 days: 460 partitions of five tables. */
const daysMax = 90

/**
 * Creates the partitions needed until the end of the day after tomorrow (UTC), so that no request after midnight has to create one, and
 * returns how many were created. Intake and records create the partitions of a tenant that is added later. Stops early when `signal`
 * aborts. Safe to run concurrently in any number of processes. Costs three queries if all partitions exist.
 * @throws any error of Postgres; partitions created before the error remain
 */
export async function ensurePartitionsAhead(
  pool: Pool,
  nowMs: number,
  signal?: AbortSignal,
): Promise<number> {
  const wanted = partitionsAhead(await listRetentionPairs(pool), nowMs)
  return await ensurePartitions(pool, [...wanted, ...(await recordPartitionsAhead(pool, nowMs))], signal)
}

/** Returns the partitions that records need; none if no tenant has records in Postgres. */
async function recordPartitionsAhead(pool: Pool, nowMs: number): Promise<WantedPartition[]> {
  const { rowCount } = await pool.query(
    "SELECT FROM tenants WHERE record_store = 'postgres' AND deleted_at IS NULL LIMIT 1",
  )
  return Array.from({ length: rowCount === 0 ? 0 : recordDays }, (_, days) => ({
    table: 'record_entries',
    day: dayAfter(nowMs, days),
  }))
}

function partitionsAhead(pairs: readonly RetentionPair[], nowMs: number): WantedPartition[] {
  const wanted = new Map<string, WantedPartition>()
  const add = (table: PartitionedTable, day: Day) => wanted.set(partitionName({ table, day }), { table, day })
  // Creates today's partitions first, because requests may already wait for them.
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

// Takes no row locks. Falls back to the platform's settings, as intake does. Ignores rows with values that the schema does not allow.
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

/** Expired partition. `detaching`: its detach was interrupted. `detached`: its drop was interrupted. */
export interface ExpiredPartition {
  readonly table: PartitionedTable
  readonly day: Day
  readonly state: 'attached' | 'detaching' | 'detached'
}

/** Time from the start of a day (UTC) until it counts as expired: a margin for clock skew, and for calls and leases that last minutes. */
const marginMs = 3_600_000
/**
 * Maximum wait for a lock on a table in use: later queries queue behind the statement that waits. Longer than the time after which
 * autovacuum yields (deadlock_timeout, 1 s), shorter than the time for which intake waits for a new partition.
 */
export const lockWaitMs = 1_500
/** Events come last within a day, because the rows of the other tables are found through them. */
const dropOrder: readonly PartitionedTable[] = [
  ...partitionedTables.filter((table) => table !== 'events'),
  'events',
]

/** Returns the last day whose partition has expired. Its rows expire when the day starts (UTC); the partition, one hour later. */
export function lastExpiredDay(nowMs: number): Day {
  return new Date(nowMs - marginMs).toISOString().slice(0, 10)
}

/** Returns the time since the oldest partition expired, or 0 for an empty list. */
export function expiredAgeMs(partitions: readonly ExpiredPartition[], nowMs: number): number {
  const oldest = partitions.map(({ day }) => day).toSorted()[0]
  return oldest === undefined ? 0 : Math.max(0, nowMs - marginMs - Date.parse(oldest))
}

/**
 * Lists those with an interrupted detach or drop first, then the oldest, and `events` last within a day. A table with the name of a
 * partition but without a parent counts as a detached partition and is dropped later; rename a table to keep it. Takes no locks.
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
 * Drops expired partitions one by one: detaches each concurrently, then drops it, without blocking readers and writers of the table. Waits
 * 1.5 s for a partition in use, then leaves the remaining partitions of its table and of `events` to the next run. Continues an interrupted
 * detach or drop. Idempotent.
 * @throws any other error of Postgres; partitions dropped before the error stay dropped
 */
export async function dropExpiredPartitions(options: {
  /** Session outside a transaction. No other session in this database may drop partitions meanwhile. */
  readonly session: PoolClient
  readonly nowMs: number
  readonly signal: AbortSignal
  /** Called after each drop. Must not throw. */
  readonly onDropped?: (partition: ExpiredPartition, durationMs: number) => void
}): Promise<{
  readonly dropped: readonly ExpiredPartition[]
  /** Partitions that stayed in use longer than the lock time-out. The next run retries them. */
  readonly blocked: readonly ExpiredPartition[]
  /** True if `signal` ended the run before every partition was tried. */
  readonly hasMore: boolean
}> {
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

// Detaches and drops a partition; returns false if it stayed in use. DETACH CONCURRENTLY takes SHARE UPDATE EXCLUSIVE on the parent,
// which blocks neither readers nor writers, and waits for earlier transactions. FINALIZE completes an interrupted DETACH. A detached
// table has no parent, so DROP locks no other table.
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

/** Codes of lock_not_available, query_canceled (statement time-out) and deadlock_detected. */
const waitedInVain: ReadonlySet<string | undefined> = new Set(['55P03', '57014', '40P01'])

function placeOf(name: string): Pick<ExpiredPartition, 'table' | 'day'> | undefined {
  const table = partitionedTables.find((each) => name.slice(0, -'_00000000'.length) === each)
  const day = name.slice(-8).replace(/^(\d{4})(\d{2})(\d{2})$/, '$1-$2-$3')
  const dayStartMs = Date.parse(day)
  if (table === undefined || Number.isNaN(dayStartMs) || dayStartMs % dayMs !== 0) return undefined
  return { table, day }
}

/** Sorts partitions with an interrupted detach first, because Postgres detaches only one partition of a table at a time. */
function compareTurns(one: ExpiredPartition, other: ExpiredPartition): number {
  const begun = Number(one.state === 'attached') - Number(other.state === 'attached')
  if (begun !== 0) return begun
  if (one.day !== other.day) return one.day < other.day ? -1 : 1
  return dropOrder.indexOf(one.table) - dropOrder.indexOf(other.table)
}
