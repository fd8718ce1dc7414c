import type { Holding } from '#internal/http/body-budget.ts'

/** A body of a test that holds nothing yet; without a declared length it comes in chunks. */
export function holding(
  owner: string,
  { source = owner, bytesDeclared = null }: { source?: string; bytesDeclared?: number | null } = {},
): Holding {
  return { owner, bytesDeclared, bytes: 0, arrival: undefined, sourceOf: () => source }
}
