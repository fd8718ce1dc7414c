import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type {
  SimulateChargebackRequest,
  Simulation,
  SimulationId,
  SimulationState,
} from '#internal/simulations/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'
import type { Whose } from './reach.ts'

/** Which simulations are listed. */
export interface SimulationListRequest extends PageRequest, Whose {
  readonly state?: SimulationState | undefined
}

/** What a simulation is started with. */
export interface SimulationStart {
  readonly tenantId: TenantId
  /** `dryRun` is not for this call. */
  readonly chargeback: Omit<SimulateChargebackRequest, 'dryRun'>
  /** Makes repeats the same simulation: 1 to 255 characters of ASCII. */
  readonly idempotencyKey: string
}

/** A simulation after a change; `isNew` is false where nothing had to be done. */
export interface SimulationChanged {
  readonly simulation: Simulation
  readonly isNew: boolean
}

/** Made-up disputes. */
export interface SimulationDesk {
  /** Newest first. */
  list(actor: Actor, request: SimulationListRequest): Promise<Outcome<Page<Simulation>>>
  read(actor: Actor, id: SimulationId): Promise<Outcome<Simulation>>
  start(actor: Actor, start: SimulationStart): Promise<Outcome<SimulationChanged>>
  /** Makes its next event due now: the one that is named by its id, so that a repeat does not hasten the one after it. */
  advance(actor: Actor, id: SimulationId, eventId: string): Promise<Outcome<SimulationChanged>>
  cancel(actor: Actor, id: SimulationId): Promise<Outcome<SimulationChanged>>
}
