import { createEventId, idPattern, type TenantId } from '#internal/base/index.ts'
import type { RefusedCause } from '#internal/intake/index.ts'
import { sourceEventId, stepTypes } from './chargeback.ts'
import type { Chargeback } from './request.ts'

/** `scheduled`: not begun; the last three are ends. */
export const simulationStates = ['scheduled', 'running', 'completed', 'cancelled', 'failed'] as const
/** Where a simulation stands. */
export type SimulationState = (typeof simulationStates)[number]

/** Why a simulation failed, or what it waits for just now. */
export type SimulationCause =
  | RefusedCause
  | 'tenant_unknown'
  | 'store_unavailable'
  | 'event_refused'
  | 'signing_unavailable'
  | 'too_late'
  | 'internal'

/** A simulation's id: `sim_` and 26 characters. Sorts by time of its start. */
export type SimulationId = string & { readonly __brand: 'SimulationId' }

/** One event of a simulation. */
export interface SimulatedEvent {
  /** The provider's id of the event: `id` of its payload. */
  readonly id: string
  readonly type: string
  /** Milliseconds since the epoch, as are all times here. */
  readonly dueAtMs: number
  /** When it came in; null until then. */
  readonly sentAtMs: number | null
}

/** A simulated dispute. */
export interface Simulation {
  readonly id: SimulationId
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** Who asked for it, as the audit has it. */
  readonly requestedBy: string
  readonly state: SimulationState
  readonly events: readonly SimulatedEvent[]
  readonly cause: SimulationCause | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** A row of `simulationColumns`. */
export type SimulationRow = [
  id: SimulationId,
  tenantId: TenantId,
  chargeback: Chargeback,
  requestedBy: string,
  state: SimulationState,
  dueAtMs: number[],
  sentAtMs: number[],
  cause: SimulationCause | null,
  createdAtMs: number,
  startedAtMs: number | null,
  endedAtMs: number | null,
]

const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::bigint`
/** Milliseconds of each time of an array, in its order. */
const allMs = (column: string) =>
  `ARRAY(SELECT floor(extract(epoch FROM at) * 1000) FROM unnest(${column}) WITH ORDINALITY u(at, nth) ORDER BY nth)::float8[]`

/** What is selected of simulations for `simulationOf`. */
export const simulationColumns = `id, tenant_id, request, requested_by, state, ${allMs('due_at')}, ${allMs('sent_at')}, cause,
  ${ms('created_at')}, ${ms('started_at')}, ${ms('ended_at')}`

/** Makes a simulation of its row. Pure. */
export function simulationOf(row: SimulationRow): Simulation {
  const [id, tenantId, chargeback, requestedBy, state, dueAtMs, sentAtMs] = row
  const [, , , , , , , cause, createdAtMs, startedAtMs, endedAtMs] = row
  return {
    ...{ id, tenantId, chargeback, requestedBy, state, cause, createdAtMs, startedAtMs, endedAtMs },
    events: eventsOf(id, chargeback, { dueAtMs, sentAtMs }),
  }
}

/** The events of a simulation with their times. Pure. */
export function eventsOf(
  id: SimulationId,
  chargeback: Chargeback,
  times: { readonly dueAtMs: readonly number[]; readonly sentAtMs: readonly number[] },
): SimulatedEvent[] {
  return stepTypes(chargeback).map((type, step) => ({
    id: sourceEventId(id, chargeback.provider, step),
    type,
    dueAtMs: times.dueAtMs[step] ?? 0,
    sentAtMs: times.sentAtMs[step] ?? null,
  }))
}

/** Makes the id of a simulation that is started at a time. */
export function createSimulationId(nowMs: number): SimulationId {
  return createEventId(nowMs, 0).replace('evt_', 'sim_') as SimulationId
}

const simulationIdForm = new RegExp(idPattern('sim'))

/** Reads a simulation's id from text; undefined for anything else, also from outside. */
export function parseSimulationId(text: string): SimulationId | undefined {
  return simulationIdForm.test(text) ? (text as SimulationId) : undefined
}
