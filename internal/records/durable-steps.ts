import type { Day } from '#internal/base/index.ts'
import { numberArrayParam, type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { type LockLimits, recordEntryId } from '#internal/usage/index.ts'
import type { RecordAddress } from './record.ts'
import { entryKey, RecordsElsewhere, RecordsUnavailable } from './store.ts'

const unlimited = Number.POSITIVE_INFINITY
/** Stands for null in a parameter. */
export const none = -1

/** One step on one key. */
export interface Step {
  readonly kind: 'acquire' | 'save' | 'remove' | 'extend' | 'forget'
  readonly address: RecordAddress
  readonly token: string
  readonly ttlMs: number
  readonly lockMs: number
  /** Fingerprint of an acquisition, or the record of a save. */
  readonly text: string
  readonly attemptId: string
  readonly waits: boolean
  readonly limits: LockLimits | undefined
  readonly inlineBytesMax: number
}

/** Result of a step, in the order of the columns of `record_result`. */
export type Result = readonly [
  kind: string,
  value: string | null,
  fence: number,
  ms: number,
  takenOver: boolean,
  atMs: number | null,
  endedFence: number | null,
  wake: boolean,
  expiresOn: Day | null,
  minuteLocks: number | null,
]

const stepsText = `SELECT kind, value, fence, ms, taken_over, at_ms, ended_fence, wake, expires_on::text, minute_locks
FROM run_record_steps($1, $2::text[], $3::text[], $4::float8[], $5::text[], $6::text[], $7::float8[], $8::text[], $9::text[],
  $10::float8[], $11::float8[], $12::text[], $13::text[], $14::float8[], $15::float8[], $16::float8[], $17::float8[], $18::float8[], $19::float8[],
  $20::float8[], $21::float8[])`

/** Runs steps in one transaction, and returns a result for each. @throws errors of Postgres, after which no step has changed anything */
export async function runSteps(
  client: PoolClient,
  stripe: number,
  steps: readonly Step[],
): Promise<readonly Result[]> {
  const tenants = [...new Set(steps.map(({ address }) => address.tenantId))].sort()
  const tenantAt = new Map(tenants.map((tenant, at) => [tenant, at + 1]))
  const byEntry = new Map(steps.map(({ address }) => [entryKey(address), address]))
  // In ascending order of their ids, in which all transactions lock them.
  const keys = [...byEntry]
    .map(([entry, address]) => ({ entry, address, id: recordEntryId(address.tenantId, entry) }))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
  const keyAt = new Map(keys.map(({ entry }, at) => [entry, at + 1]))
  const texts = (pick: (step: Step) => string) => textArrayParam(steps.map(pick))
  const numbers = (pick: (step: Step) => number) => numberArrayParam(steps.map(pick))
  const { rows } = await client.query<Result & unknown[]>({
    name: 'run_record_steps',
    text: stepsText,
    rowMode: 'array',
    values: [
      stripe,
      textArrayParam(tenants),
      textArrayParam(keys.map(({ id }) => id)),
      numberArrayParam(keys.map(({ address }) => tenantAt.get(address.tenantId) ?? 0)),
      textArrayParam(keys.map(({ address }) => address.scope)),
      textArrayParam(keys.map(({ address }) => address.key)),
      numbers(({ address }) => keyAt.get(entryKey(address)) ?? 0),
      texts(({ kind }) => kind),
      // A text in Postgres cannot contain NUL, and no lock has a token with it or with its replacement.
      texts(({ token }) => token.replaceAll('\0', '\u{FFFD}')),
      numbers(({ ttlMs }) => ttlMs),
      numbers(({ lockMs }) => lockMs),
      texts(({ text }) => text),
      texts(({ attemptId }) => attemptId),
      numbers(({ waits }) => (waits ? 1 : 0)),
      numbers(({ limits }) => limits?.locksPerMinute ?? unlimited),
      numbers(({ limits }) => limits?.locksPerMonth ?? unlimited),
      numbers(({ limits }) => limits?.recordBytes ?? unlimited),
      numbers(({ inlineBytesMax }) => inlineBytesMax),
      numbers(({ address }) => address.place?.generation ?? 0),
      numbers(({ address }) => address.place?.fence ?? none),
      numbers(({ address }) => (address.place?.isTakeover ? 1 : 0)),
    ],
  })
  return rows
}

/** Returns the error for a step whose tenant's records have moved, or undefined. */
export function refusalOf(result: Result): Error | undefined {
  const [kind, fingerprint, fence, bytes, , , markFence, , , minuteLocks] = result
  if (kind === 'moved') return new RecordsUnavailable('moved')
  if (kind !== 'elsewhere') return undefined
  const mark = markFence !== null && { fence: markFence, fingerprint: fingerprint ?? '' }
  return new RecordsElsewhere({ fence, bytes, minuteLocks: minuteLocks ?? 0, ...(mark && { mark }) })
}

/** Read of the record of one key. */
export interface Read {
  readonly address: RecordAddress
  readonly bytesMax: number
  /** Partition of the record; null if it is not known. */
  readonly day: Day | null
}

/** Row of a record: its fingerprint, bytes and, unless it is too long, the record itself. */
export type FoundRecord = readonly [at: number, fingerprint: string, bytes: number, record: string | null]
/** Row of a read. Without a record, the generation says whether it may be elsewhere. */
type ReadRow = readonly [...(FoundRecord | [at: number, null, null, null]), generation: number | null]

const readText = (ofPartition: string) => `
SELECT u.n - 1, e.fingerprint, octet_length(e.record), CASE WHEN octet_length(e.record) <= $3 THEN e.record END,
  CASE WHEN e.id IS NULL THEN (SELECT record_store_generation FROM tenants WHERE id = u.tenant_id) END
FROM unnest($1::text[], $2::text[], $4::text[]) WITH ORDINALITY AS u (id, tenant_id, day, n)
LEFT JOIN record_entries AS e ON e.id = u.id::uuid ${ofPartition}
  AND e.record IS NOT NULL AND e.expires_at > (SELECT record_clock() / 1000)`

const readAnywhere = { name: 'read_records', text: readText('') }
const readInPartition = { name: 'read_records_of_days', text: readText('AND e.expires_on = u.day::date') }

/**
 * Reads records, all in known partitions or all in unknown ones, and with the same `bytesMax`. Returns for each its row, undefined for none, or
 * the error if the caller's view of where the tenant's records are is old.
 */
export async function readRecords(
  pool: Pool,
  reads: readonly Read[],
): Promise<readonly (FoundRecord | undefined | Error)[]> {
  const [first] = reads
  if (!first) return []
  const { rows } = await pool.query<ReadRow & unknown[]>({
    ...(first.day === null ? readAnywhere : readInPartition),
    rowMode: 'array',
    values: [
      textArrayParam(reads.map(({ address }) => recordEntryId(address.tenantId, entryKey(address)))),
      textArrayParam(reads.map(({ address }) => address.tenantId)),
      first.bytesMax,
      textArrayParam(reads.map(({ day }) => day)),
    ],
  })
  const found = new Map(rows.map((row) => [row[0], row]))
  return reads.map(({ address }, at) => recordIn(found.get(at), address))
}

function recordIn(row: ReadRow | undefined, { place }: RecordAddress): FoundRecord | undefined | Error {
  const [at, fingerprint, bytes, record, generation] = row ?? []
  if (at !== undefined && typeof fingerprint === 'string')
    return [at, fingerprint, bytes ?? 0, record ?? null]
  return generation === (place?.generation ?? 0) ? undefined : new RecordsUnavailable('moved')
}
