/** Error fields that Postgres reported for a failed statement. */
export interface SqlError {
  /** SQLSTATE, https://www.postgresql.org/docs/15/errcodes-appendix.html (read 2026-11); a lost connection has a Node.js code. */
  readonly code: string
  /** Name of the violated constraint, of those that have one. */
  readonly constraint: string | undefined
}

/**
 * Consequence of a failed statement.
 * - `retry`: deadlock or serialization failure; the same statement may succeed at once.
 * - `partition_missing`: a row's day has no partition yet.
 * - `rejected`: Postgres will never accept this data. Retrying is useless; other rows of the batch may be fine.
 * - `mistake`: the statement itself is wrong, or code threw; a rollout or a migration may fix it.
 * - `unavailable`: everything else. Postgres is away, slow, full or read-only; retry later.
 */
export type SqlFailureKind = 'retry' | 'partition_missing' | 'rejected' | 'mistake' | 'unavailable'

/** A classified failure, safe to log. */
export interface SqlFailure {
  readonly kind: SqlFailureKind
  /** SQLSTATE or Node.js code; the error's name where it has none. */
  readonly code: string
}

const retryCodes: ReadonlySet<string> = new Set(['40P01', '40001'])
/**
 * Data exceptions (22), constraint violations (23) and program limits (54, such as an index entry that is too large) depend on the
 * rows alone, so that they fail again. Class 42 does not: a missing table, column or grant fails for every row alike, and rows
 * must survive until it is there.
 */
const rejectedClasses = /^(22|23|54)[0-9A-Z]{3}$/
const mistakeClasses = /^42[0-9A-Z]{3}$/
const checkViolation = '23514'

/** Finds the error that Postgres reported in `error` or in its causes: Drizzle wraps the driver's error. */
export function sqlErrorOf(error: unknown): SqlError | undefined {
  if (!(error instanceof Error)) return undefined
  if (!('code' in error && typeof error.code === 'string')) return sqlErrorOf(error.cause)
  const constraint =
    'constraint' in error && typeof error.constraint === 'string' ? error.constraint : undefined
  return { code: error.code, constraint }
}

/** Classifies what a statement threw. The only place that decides which failures of Postgres are final. Pure. */
export function classifySqlError(error: unknown): SqlFailure {
  const cause = rootCauseOf(error)
  // A value that has no text form, such as an invalid date or an array beyond the largest buffer.
  if (cause instanceof RangeError) return { kind: 'rejected', code: cause.name }
  // Node.js gives some of these a code, which is no SQLSTATE.
  if (cause instanceof TypeError || cause instanceof ReferenceError || cause instanceof SyntaxError)
    return { kind: 'mistake', code: cause.name }
  const found = sqlErrorOf(error)
  if (found !== undefined) return { kind: kindOf(found), code: found.code }
  return cause instanceof Error
    ? { kind: 'unavailable', code: cause.name }
    : { kind: 'mistake', code: 'unknown' }
}

/** Returns whether an error means that our code or data is wrong, rather than Postgres being unavailable. Pure. */
export function isMistake(error: unknown): boolean {
  const { kind } = classifySqlError(error)
  return kind !== 'unavailable' && kind !== 'retry'
}

/**
 * Returns the driver's error in place of Drizzle's `DrizzleQueryError`, whose message and stack contain the statement's parameters;
 * other errors as they are. Call it before an error from Drizzle is logged.
 */
export function withoutParameters(error: unknown): unknown {
  const isWrapped = error instanceof Error && 'query' in error && 'params' in error
  return isWrapped ? (error.cause ?? new Error('A query failed')) : error
}

function kindOf({ code, constraint }: SqlError): SqlFailureKind {
  if (retryCodes.has(code)) return 'retry'
  // A check_violation without a constraint: https://www.postgresql.org/docs/15/ddl-partitioning.html (read 2026-11).
  if (code === checkViolation && !constraint) return 'partition_missing'
  if (rejectedClasses.test(code)) return 'rejected'
  return mistakeClasses.test(code) ? 'mistake' : 'unavailable'
}

function rootCauseOf(error: unknown): unknown {
  const inner = withoutParameters(error)
  return inner === error ? error : rootCauseOf(inner)
}
