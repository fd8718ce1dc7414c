import type { Holding } from '#internal/http/body-budget.ts'

/** Builds the memory charge of a body before its first byte; without a declared length the body is chunked. */
export function holding(
  owner: string,
  { source = owner, bytesDeclared = null }: { source?: string; bytesDeclared?: number | null } = {},
): Holding {
  return { owner, bytesDeclared, bytes: 0, arrival: undefined, sourceOf: () => source }
}
