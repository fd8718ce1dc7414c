import type { Day } from '#internal/base/index.ts'
import type { Pool, PoolClient } from './pool.ts'
import { withTx } from './tx.ts'

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
