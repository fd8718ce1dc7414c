import type { AnyLimitName } from '#internal/tenants/index.ts'
import type { LimitBounds } from './limits.ts'

/** Decisions of a guardrail check. */
export const usageDecisions = ['allow', 'warn', 'deny'] as const
export type UsageDecision = (typeof usageDecisions)[number]

/** Reasons of a decision. `hard_limit` with `warn`: the hard limit is exceeded, and Latchkey accepts and marks the excess. */
export const decisionReasons = [
  'no_limit',
  'within_limits',
  'soft_limit',
  'hard_limit',
  'tenant_suspended',
] as const

export interface Decided {
  readonly decision: UsageDecision
  readonly reason: (typeof decisionReasons)[number]
  readonly limit: AnyLimitName | null
}

/** Decision for a suspended tenant, whatever its limits are. */
export const suspendedDecision: Decided = { decision: 'deny', reason: 'tenant_suspended', limit: null }

/** Decides by the first limit that denies, else by the first that warns. Pure. */
export function decideUsage(
  demands: readonly (LimitBounds & {
    readonly limit: AnyLimitName
    readonly used: number
    readonly added: number
    readonly isOverAccepted?: boolean
  })[],
): Decided {
  const over = demands.filter(({ used, added, hard }) => hard !== null && used + added > hard)
  const denying = over.find(({ isOverAccepted }) => isOverAccepted !== true)
  if (denying) return { decision: 'deny', reason: 'hard_limit', limit: denying.limit }
  if (over[0]) return { decision: 'warn', reason: 'hard_limit', limit: over[0].limit }
  const warning = demands.find(({ used, added, soft }) => soft !== null && used + added >= soft)
  return toDecided(warning ? 'warn' : 'allow', warning?.limit ?? null, demands)
}

/** Adds the reason to a decision whose counts are no longer known. Pure. */
export function toDecided(
  decision: UsageDecision,
  limit: AnyLimitName | null,
  bounds: readonly LimitBounds[],
): Decided {
  if (decision === 'deny') return { decision, reason: 'hard_limit', limit }
  if (decision === 'warn') return { decision, reason: 'soft_limit', limit }
  const isLimited = bounds.some(({ soft, hard }) => soft !== null || hard !== null)
  return { decision, reason: isLimited ? 'within_limits' : 'no_limit', limit: null }
}
