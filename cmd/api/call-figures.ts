import type { TenantId } from '#internal/base/index.ts'
import type { CallOutcome } from '#internal/intake/index.ts'
import type { StepReport } from '#internal/simulations/index.ts'
import type { FigureTally } from '#internal/usage/index.ts'

/** Counts a provider's call among its tenant's figures. Memory only; never throws. */
export function countCall(figures: FigureTally, tenantId: TenantId, outcome: CallOutcome): void {
  switch (outcome) {
    case 'stored':
      return figures.count(tenantId, 'accepted')
    case 'queued':
      figures.count(tenantId, 'accepted')
      return figures.count(tenantId, 'spooled')
    case 'duplicate':
      return figures.count(tenantId, 'duplicates')
    case 'unavailable':
      return figures.countRefused(tenantId, 'stores_unavailable')
    case 'refused':
      return figures.countRefused(tenantId, 'event_unwritable')
    default:
      return figures.countRefused(tenantId, outcome)
  }
}

/** Counts what a simulation sent, as a call: not what is sent again until it arrives. Memory only; never throws. */
export function countStep(figures: FigureTally, { step, outcome }: StepReport): void {
  if (outcome === 'stored' || outcome === 'duplicate' || outcome === 'queued')
    countCall(figures, step.tenantId, outcome)
}
