/** Breaking differences with one reason. */
export interface BreakingChange {
  /** Reason for users, as in the section "Breaking" of CHANGELOG.md. */
  readonly reason: string
  /** Lines of differences; `*` stands for any text. Each must match a difference. */
  readonly lines: readonly string[]
}

/**
 * Breaking differences from the recorded version that are intended. `npm run record`, at a release, empties the list. What may break in
 * which version: docs/change-policy.md.
 */
export const breakingChanges: readonly BreakingChange[] = []
