import type { Day } from '#internal/base/index.ts'
import { numberArrayParam, type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { type LockLimitName, type LockLimits, recordEntryId } from '#internal/usage/index.ts'
import type { RecordAddress } from './record.ts'
import { entryKey, RecordsElsewhere, RecordsUnavailable } from './store.ts'

const unlimited = Number.POSITIVE_INFINITY
const none = -1

/** Step on one key. `run_record_steps` documents the fields of each kind. */
export interface Step {
  readonly kind: 'acquire' | 'save' | 'remove' | 'extend' | 'forget'
  readonly address: RecordAddress
  readonly token: string
  readonly ttlMs?: number | null
  readonly lockMs?: number | null
  readonly defaultTtlMs?: number
  readonly fingerprint?: string
  readonly record?: string
  readonly attemptId?: string
  readonly waits?: boolean
  readonly limits?: LockLimits
  readonly inlineBytesMax?: number
  readonly markFence?: number
}

/** Result of a step. `record_result` documents the fields of each kind. */
export interface Result {
  readonly kind: string
  readonly isWritten: boolean
  readonly atMs: number
  readonly record: string | null
  readonly recordBytes: number | null
  readonly expiresOn: Day | null
  readonly fence: number | null
  readonly token: string | null
  readonly takenOver: boolean | null
  readonly isReentry: boolean | null
  readonly remainingMs: number | null
  readonly endedFence: number | null
  readonly wake: boolean | null
  readonly limitName: LockLimitName | null
  readonly retryMs: number | null
  readonly markFence: number | null
  readonly fingerprint: string | null
  readonly otherBytes: number | null
  readonly minuteLocks: number | null
}

const resultColumns = `kind, is_written AS "isWritten", at_ms AS "atMs", record, record_bytes AS "recordBytes", expires_on::text AS "expiresOn",
  fence, token, taken_over AS "takenOver", is_reentry AS "isReentry", remaining_ms AS "remainingMs", ended_fence AS "endedFence", wake,
  limit_name AS "limitName", retry_ms AS "retryMs", mark_fence AS "markFence", fingerprint, other_bytes AS "otherBytes",
  minute_locks AS "minuteLocks"`

interface StepParam {
  readonly type: 'text[]' | 'float8[]'
  encode(steps: readonly Step[]): Buffer
}

function texts(pick: (step: Step) => string | undefined): StepParam {
  return { type: 'text[]', encode: (steps) => textArrayParam(steps.map((step) => pick(step) ?? '')) }
}

function numbers(pick: (step: Step) => number | null | undefined): StepParam {
  return { type: 'float8[]', encode: (steps) => numberArrayParam(steps.map((step) => pick(step) ?? none)) }
}

/** Array parameters of `run_record_steps` that have one element per step, without `s_key`. */
const stepParams: Readonly<Record<string, StepParam>> = {
  s_kind: texts(({ kind }) => kind),
  s_generation: numbers(({ address }) => address.place?.generation ?? 0),
  // Replaces NUL, which Postgres cannot store in a text. No lock has a token with NUL or with the replacement.
  s_token: texts(({ token }) => token.replaceAll('\0', '\u{FFFD}')),
  s_ttl_ms: numbers(({ ttlMs }) => ttlMs),
  s_lock_ms: numbers(({ lockMs }) => lockMs),
  s_default_ttl_ms: numbers(({ defaultTtlMs }) => defaultTtlMs),
  s_fingerprint: texts(({ fingerprint }) => fingerprint),
  s_record: texts(({ record }) => record),
  s_attempt: texts(({ attemptId }) => attemptId),
  s_waits: numbers(({ waits }) => (waits ? 1 : 0)),
  s_locks_per_minute: numbers(({ limits }) => limits?.locksPerMinute ?? unlimited),
  s_locks_per_month: numbers(({ limits }) => limits?.locksPerMonth ?? unlimited),
  s_record_bytes_max: numbers(({ limits }) => limits?.recordBytes ?? unlimited),
  s_inline_bytes_max: numbers(({ inlineBytesMax }) => inlineBytesMax),
  s_earlier_fence: numbers(({ address }) => address.place?.fence),
  s_ended_earlier: numbers(({ address }) => (address.place?.isTakeover ? 1 : 0)),
  s_mark_fence: numbers(({ markFence }) => markFence),
}

const stepsText = `SELECT ${resultColumns} FROM run_record_steps(p_stripe => $1, t_id => $2::text[], k_id => $3::text[],
  k_tenant => $4::float8[], k_scope => $5::text[], k_key => $6::text[], s_key => $7::float8[], ${Object.entries(
    stepParams,
  )
    .map(([name, { type }], nth) => `${name} => $${nth + 8}::${type}`)
    .join(', ')})`

/** Runs steps in one transaction. @throws errors of Postgres, after which no step has changed anything */
export async function runSteps(
  client: PoolClient,
  stripe: number,
  steps: readonly Step[],
): Promise<readonly Result[]> {
  const tenants = [...new Set(steps.map(({ address }) => address.tenantId))].sort()
  const tenantAt = new Map(tenants.map((tenant, at) => [tenant, at + 1]))
  const byEntry = new Map(steps.map(({ address }) => [entryKey(address), address]))
  // Sorts by id, so that all transactions take their locks in the same order.
  const keys = [...byEntry]
    .map(([entry, address]) => ({ entry, address, id: recordEntryId(address.tenantId, entry) }))
    .sort((one, other) => (one.id < other.id ? -1 : 1))
  const keyAt = new Map(keys.map(({ entry }, at) => [entry, at + 1]))
  const { rows } = await client.query<Result>({
    name: 'run_record_steps',
    text: stepsText,
    values: [
      stripe,
      textArrayParam(tenants),
      textArrayParam(keys.map(({ id }) => id)),
      numberArrayParam(keys.map(({ address }) => tenantAt.get(address.tenantId) ?? 0)),
      textArrayParam(keys.map(({ address }) => address.scope)),
      textArrayParam(keys.map(({ address }) => address.key)),
      numberArrayParam(steps.map(({ address }) => keyAt.get(entryKey(address)) ?? 0)),
      ...Object.values(stepParams).map((param) => param.encode(steps)),
    ],
  })
  return rows
}

export function refusalOf(result: Result): Error | undefined {
  if (result.kind === 'moved') return new RecordsUnavailable('moved')
  if (result.kind !== 'elsewhere') return undefined
  const { fence, otherBytes, minuteLocks, markFence, fingerprint } = result
  const mark = markFence !== null && { fence: markFence, fingerprint: fingerprint ?? '' }
  return new RecordsElsewhere({
    fence: fence ?? 0,
    bytes: otherBytes ?? 0,
    minuteLocks: minuteLocks ?? 0,
    ...(mark && { mark }),
  })
}

export interface Read {
  readonly address: RecordAddress
  readonly bytesMax: number
  /** Partition of the record; null if unknown. */
  readonly day: Day | null
}

/** The record itself is null if it is too long. */
export type FoundRecord = readonly [at: number, fingerprint: string, bytes: number, record: string | null]
/** Without a record, the generation of the records' place shows whether the record may be in another store. */
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
 * Reads records, all in known partitions or all in unknown ones, and with the same `bytesMax`. Returns an error for a read whose caller
 * does not know that the tenant's records have moved.
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
