export interface SqlError {
  /** SQLSTATE (https://www.postgresql.org/docs/15/errcodes-appendix.html, read 2026-11), or a Node.js code for a lost connection. */
  readonly code: string
  readonly constraint: string | undefined
  /** Must not be logged, since it can contain values of rows. */
  readonly detail: string | undefined
}

/** Classified failure, safe to log. */
export interface SqlFailure {
  /**
   * - `retry`: deadlock or serialization failure; an immediate retry may succeed.
   * - `partition_missing`: no partition exists yet for the day of a row.
   * - `rejected`: Postgres will never accept this data. A retry is useless, but other rows of the batch can be valid.
   * - `mistake`: the statement is wrong, or our code threw. A rollout or a migration may fix this.
   * - `unavailable`: all other failures: Postgres is unreachable, slow, full or read-only. Retry later.
   */
  readonly kind: 'retry' | 'partition_missing' | 'rejected' | 'mistake' | 'unavailable'
  /** SQLSTATE or Node.js code, or the name of the error if it has no code. */
  readonly code: string
}

const retryCodes: ReadonlySet<string> = new Set(['40P01', '40001'])
/**
 * SQLSTATE classes that depend only on the rows, so that a retry fails again: data exceptions (22), constraint violations (23) and program
 * limits (54, such as a too large index entry). Class 42 is excluded: a missing table, column or grant affects every row, and the rows must
 * be kept until it exists.
 */
const rejectedClasses = /^(22|23|54)[0-9A-Z]{3}$/
const mistakeClasses = /^42[0-9A-Z]{3}$/
const checkViolation = '23514'

/** Finds the error of Postgres in `error` or its chain of causes, because Drizzle wraps the error of the driver. */
export function sqlErrorOf(error: unknown): SqlError | undefined {
  if (!(error instanceof Error)) return undefined
  if (!('code' in error && typeof error.code === 'string')) return sqlErrorOf(error.cause)
  const textOf = (field: 'constraint' | 'detail') => {
    const value: unknown = Reflect.get(error, field)
    return typeof value === 'string' ? value : undefined
  }
  return { code: error.code, constraint: textOf('constraint'), detail: textOf('detail') }
}

/** Classifies the error of a failed statement. No other function decides which failures are final. */
export function classifySqlError(error: unknown): SqlFailure {
  const cause = rootCauseOf(error)
  // A value has no text form, such as an invalid date, or an array exceeds the maximum buffer size.
  if (cause instanceof RangeError) return { kind: 'rejected', code: cause.name }
  // Node.js sets a `code` on some of these errors, but that code is not an SQLSTATE.
  if (cause instanceof TypeError || cause instanceof ReferenceError || cause instanceof SyntaxError)
    return { kind: 'mistake', code: cause.name }
  const found = sqlErrorOf(error)
  if (found !== undefined) return { kind: kindOf(found), code: found.code }
  return cause instanceof Error
    ? { kind: 'unavailable', code: cause.name }
    : { kind: 'mistake', code: 'unknown' }
}

/** Returns whether faulty code or data in Latchkey caused an error; false for failures of Postgres. */
export function isMistake(error: unknown): boolean {
  const { kind } = classifySqlError(error)
  return kind !== 'unavailable' && kind !== 'retry'
}

/** Unwraps an error of Drizzle, whose message and stack contain parameters, before it is logged. Returns other errors unchanged. */
export function withoutParameters(error: unknown): unknown {
  const isWrapped = error instanceof Error && 'query' in error && 'params' in error
  return isWrapped ? (error.cause ?? new Error('A query failed')) : error
}

function kindOf({ code, constraint }: SqlError): SqlFailure['kind'] {
  if (retryCodes.has(code)) return 'retry'
  // Postgres reports a missing partition as a check_violation without a constraint name:
  // https://www.postgresql.org/docs/15/ddl-partitioning.html (read 2026-11).
  if (code === checkViolation && !constraint) return 'partition_missing'
  if (rejectedClasses.test(code)) return 'rejected'
  return mistakeClasses.test(code) ? 'mistake' : 'unavailable'
}

function rootCauseOf(error: unknown): unknown {
  const inner = withoutParameters(error)
  return inner === error ? error : rootCauseOf(inner)
}
