/** What Postgres said of a statement that failed. */
export interface SqlError {
  /** SQLSTATE, https://www.postgresql.org/docs/15/errcodes-appendix.html (read 2026-11); a lost connection has its own words. */
  readonly code: string
  /** The constraint that was violated, of those that have a name. */
  readonly constraint: string | undefined
}

/** Finds what Postgres said, in the error or in what it wraps: drizzle has the driver's error as its cause. */
export function sqlErrorOf(error: unknown): SqlError | undefined {
  if (!(error instanceof Error)) return undefined
  if (!('code' in error && typeof error.code === 'string')) return sqlErrorOf(error.cause)
  const constraint =
    'constraint' in error && typeof error.constraint === 'string' ? error.constraint : undefined
  return { code: error.code, constraint }
}
