import type { AuditTrail } from './audit-trail.ts'
import type { Callbacks } from './callbacks.ts'
import type { EventDesk } from './events.ts'
import type { ExecutionDesk } from './executions.ts'
import type { RefusedDesk } from './refused.ts'
import type { ReplayDesk } from './replays.ts'
import type { SettingDesk } from './settings.ts'
import type { SimulationDesk } from './simulations.ts'
import type { TenantDesk } from './tenants.ts'
import type { UsageDesk } from './usage.ts'

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
}
