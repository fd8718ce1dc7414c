import { sqlErrorOf } from './sql-error.ts'

/** Data that a statement cannot take, and statements that are none: https://www.postgresql.org/docs/15/errcodes-appendix.html (read 2026-11). */
const mistakes = /^(22|23|42)/

/**
 * Whether what a use case threw is a mistake of ours. Whatever else comes out of one that only talks to Postgres is Postgres being
 * away, slow or full: its driver has no type for that.
 */
export function isMistake(cause: unknown): boolean {
  const isBug =
    cause instanceof TypeError ||
    cause instanceof RangeError ||
    cause instanceof ReferenceError ||
    cause instanceof SyntaxError
  return !(cause instanceof Error) || isBug || mistakes.test(sqlErrorOf(cause)?.code ?? '')
}
