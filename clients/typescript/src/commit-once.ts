import { type Database, type Transaction, withDeadline } from './database.ts'
import type { Codec } from './options.ts'
import type { Json, StoredRecord, UnknownCommit } from './outcome.ts'
import { decidePauseMs, sleep } from './repeat.ts'

const ttlSecondsDefault = 86_400
const commitMsDefault = 10_000
/** Maximum number of attempts to claim a row that another transaction deletes between the claim and the SELECT. */
const claimsMax = 3

/** Operation that is committed at most once per scope and key. */
export interface Claim {
  readonly scope: string
  readonly key: string
  readonly fingerprint?: string | undefined
  /** Seconds that the row is kept from the commit on. Default one day. */
  readonly ttlSeconds?: number | undefined
  /** Milliseconds to wait for a concurrent transaction of the same key. Default 5 000. */
  readonly claimMs?: number | undefined
  /** Milliseconds to wait for the answer to the commit; without an answer, as long again to find out the result. Default 10 000. */
  readonly commitMs?: number | undefined
}

/** Result of `commitOnce`. */
export type Committed<T> =
  | { readonly kind: 'ran'; readonly value: T }
  /** An earlier transaction's result; `work` did not run, or was rolled back. */
  | { readonly kind: 'found'; readonly value: T }
  | { readonly kind: 'reused_key' }
  /** A concurrent transaction of the same key did not end in time. */
  | { readonly kind: 'busy' }
  | UnknownCommit

interface Row {
  readonly fingerprint: string | null
  readonly status: number | null
  readonly headers: string | null
  readonly body: string | null
}

/** Thrown to roll the transaction back without an exception of `work`. */
class Stop extends Error {
  readonly end:
    | { readonly kind: 'row'; readonly row: Row }
    | { readonly kind: 'busy' }
    | { readonly kind: 'free' }

  constructor(end: Stop['end']) {
    super('Latchkey: the transaction is rolled back')
    this.end = end
  }
}

const lockTimeoutText = `WITH before AS MATERIALIZED (SELECT current_setting('lock_timeout') AS value)
SELECT value, set_config('lock_timeout', $1, true) FROM before`

const claimText = `INSERT INTO latchkey_outcomes AS held (scope, key, fingerprint, expires_at)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
ON CONFLICT (scope, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = NULL, headers = NULL, body = NULL, expires_at = excluded.expires_at
WHERE held.expires_at <= clock_timestamp()
RETURNING set_config('lock_timeout', $5, true)`

const findText = `SELECT fingerprint, status::int AS status, headers, body
FROM latchkey_outcomes WHERE scope = $1 AND key = $2`

const writeText = `UPDATE latchkey_outcomes
SET status = $3, headers = $4, body = $5, expires_at = clock_timestamp() + make_interval(secs => $6)
WHERE scope = $1 AND key = $2
RETURNING scope`

const forgetText = 'DELETE FROM latchkey_outcomes WHERE scope = $1 AND key = $2'

/**
 * Runs `work` in a transaction that also writes its result, unless the table already has one.
 * @throws the exception of `work` or of the database, after which nothing is committed
 */
export async function commitOnce<Tx, T>(
  database: Database<Tx>,
  claim: Claim,
  codec: Codec<T>,
  work: (tx: Tx) => T | Promise<T>,
): Promise<Committed<T>> {
  const { commitMs = commitMsDefault } = claim
  let written: { readonly value: T; readonly record: StoredRecord } | undefined
  try {
    await withDeadline(commitMs, (onWritten) =>
      database.transaction(async (transaction) => {
        await claimRow(transaction, claim)
        const value = await work(transaction.tx)
        const record = codec.toRecord(value)
        await writeOutcome(transaction, claim, record)
        written = { value, record }
        onWritten()
      }, commitMs),
    )
  } catch (error) {
    if (error instanceof Stop) return endOf(error.end, claim, codec)
    // The exception was thrown before the commit, so the transaction was rolled back: rethrow it.
    if (written === undefined) throw error
    return resolveCommit(database, claim, codec, written, error)
  }
  database.prune()
  return { kind: 'ran', value: (written as unknown as { value: T }).value }
}

/** Deletes the row of an operation, so that it can run again. */
export async function forgetRow<Tx>(
  database: Database<Tx>,
  { scope, key }: Pick<Claim, 'scope' | 'key'>,
): Promise<void> {
  await database.transaction(({ query }) => query(forgetText, [scope, key]))
}

/** Inserts the row of an operation or replaces an expired one. @throws Stop if there is a live row, or another transaction holds it */
async function claimRow<Tx>({ query }: Transaction<Tx>, claim: Claim): Promise<void> {
  const { scope, key, fingerprint = null, ttlSeconds = ttlSecondsDefault, claimMs = 5000 } = claim
  try {
    const [before] = await query(lockTimeoutText, [`${Math.max(1, Math.ceil(claimMs))}ms`])
    const values = [scope, key, fingerprint, ttlSeconds, String(before?.['value'])]
    for (let claims = 0; claims < claimsMax; claims += 1) {
      const claimed = await query(claimText, values)
      if (claimed.length > 0) return
      const [row] = await query(findText, [scope, key])
      if (row) throw new Stop({ kind: 'row', row: row as unknown as Row })
    }
    throw new Stop({ kind: 'busy' })
  } catch (error) {
    throw isContention(error) ? new Stop({ kind: 'busy' }) : error
  }
}

async function writeOutcome<Tx>(
  { query }: Transaction<Tx>,
  claim: Claim,
  record: StoredRecord,
): Promise<void> {
  const { scope, key, ttlSeconds = ttlSecondsDefault } = claim
  const { status, headers, body } = record
  const values = [scope, key, status, JSON.stringify(headers), JSON.stringify(body), ttlSeconds]
  const written = await query(writeText, values)
  if (written.length !== 1) throw new Error('Latchkey: `work` must not commit or roll back')
}

/** Returns whether an error of Postgres means that a concurrent transaction blocks this one: lock_not_available, serialization_failure. */
function isContention(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: unknown }
  return code === '55P03' || code === '40001' || (cause !== undefined && isContention(cause))
}

function endOf<T>(end: Stop['end'], claim: Claim, codec: Codec<T>): Committed<T> {
  if (end.kind !== 'row') return { kind: 'busy' }
  const { fingerprint } = end.row
  if (fingerprint !== null && claim.fingerprint !== undefined && fingerprint !== claim.fingerprint)
    return { kind: 'reused_key' }
  return { kind: 'found', value: codec.fromRecord(recordOf(end.row)) }
}

function recordOf({ status, headers, body }: Row): StoredRecord {
  const parse = (text: string | null, other: Json) => (text === null ? other : (JSON.parse(text) as Json))
  return {
    status: status ?? 200,
    headers: parse(headers, {}) as Record<string, string>,
    body: parse(body, null),
  }
}

/**
 * Finds out whether a transaction was committed after the answer to its commit was lost: a new claim waits for it to end.
 * @throws the exception of the commit if it was not committed
 */
async function resolveCommit<Tx, T>(
  database: Database<Tx>,
  claim: Claim,
  codec: Codec<T>,
  written: { readonly value: T; readonly record: StoredRecord },
  error: unknown,
): Promise<Committed<T>> {
  const untilMs = performance.now() + (claim.commitMs ?? commitMsDefault)
  for (let failures = 0; ; failures += 1) {
    const end = await probe(database, claim, untilMs)
    if (end.kind === 'free') throw error
    if (end.kind === 'row') {
      const found = endOf(end, claim, codec)
      const isOwn = found.kind === 'found' && end.row.body === JSON.stringify(written.record.body)
      return isOwn ? { kind: 'ran', value: written.value } : found
    }
    const pauseMs = decidePauseMs(failures, undefined, Math.random())
    if (performance.now() + pauseMs >= untilMs) return { kind: 'unknown_commit', error }
    await sleep(pauseMs, undefined)
  }
}

/** Claims the row and rolls back. `busy` if the database does not answer. */
async function probe<Tx>(database: Database<Tx>, claim: Claim, untilMs: number): Promise<Stop['end']> {
  const busy = { kind: 'busy' } as const
  const claimMs = Math.min(claim.claimMs ?? 5000, Math.max(1, untilMs - performance.now()))
  const asked = database.transaction(async (transaction) => {
    await claimRow(transaction, { ...claim, claimMs })
    throw new Stop({ kind: 'free' })
  })
  const answered = asked.catch((error: unknown) => (error instanceof Stop ? error.end : busy))
  let timer: ReturnType<typeof setTimeout> | undefined
  const expired = new Promise<Stop['end']>((resolve) => {
    timer = setTimeout(() => resolve(busy), Math.max(1, untilMs - performance.now()))
  })
  const end = await Promise.race([answered, expired])
  clearTimeout(timer)
  return end
}
