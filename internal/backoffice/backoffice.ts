import { type AuditTrail, createAuditTrail } from './audit-trail.ts'
import { type Callbacks, createCallbacks } from './callbacks.ts'
import { createEventDesk, type EventDesk } from './events.ts'
import { createExecutionDesk, type ExecutionDesk } from './executions.ts'
import { createFigureDesk, type FigureDesk } from './figures.ts'
import type { BackofficeParts } from './parts.ts'
import { createRedactors } from './redaction.ts'
import { createRefusedDesk, type RefusedDesk } from './refused.ts'
import { createReplayDesk, type ReplayDesk } from './replays.ts'
import { createSettingDesk, type SettingDesk } from './settings.ts'
import { createSimulationDesk, type SimulationDesk } from './simulations.ts'
import { createTenantDesk, type TenantDesk } from './tenants.ts'
import { createUsageDesk, type UsageDesk } from './usage.ts'

/**
 * Everything that is done in the backoffice, by whoever asks: the pages and `/internal/v1` call nothing else. Each use case asks what
 * the actor may do, limits what it gives to the tenants that the actor may see, hides secrets, and leaves a line in the audit
 * log with every deed and every payload that was read. What was expected to go wrong is a `Refusal`; only a bug throws.
 */
export interface Backoffice {
  readonly tenants: TenantDesk
  readonly events: EventDesk
  readonly replays: ReplayDesk
  readonly refused: RefusedDesk
  readonly usage: UsageDesk
  readonly settings: SettingDesk
  readonly simulations: SimulationDesk
  readonly executions: ExecutionDesk
  readonly callbacks: Callbacks
  readonly audit: AuditTrail
  readonly figures: FigureDesk
}

/** Makes the backoffice of a process. Holds nothing but what it makes of the tenants' rules. */
export function createBackoffice(parts: BackofficeParts): Backoffice {
  const redactorOf = createRedactors()
  return {
    tenants: createTenantDesk(parts, redactorOf),
    events: createEventDesk(parts, redactorOf),
    replays: createReplayDesk(parts),
    refused: createRefusedDesk(parts, redactorOf),
    usage: createUsageDesk(parts),
    settings: createSettingDesk(parts),
    simulations: createSimulationDesk(parts),
    executions: createExecutionDesk(parts),
    callbacks: createCallbacks(parts, redactorOf),
    audit: createAuditTrail(parts),
    figures: createFigureDesk(parts),
  }
}
