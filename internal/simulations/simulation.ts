import { Type } from '@sinclair/typebox'
import { createEventId, idPattern, type TenantId } from '#internal/base/index.ts'
import { oneOf, plainText } from '#internal/http/index.ts'
import type { RefusedCause } from '#internal/intake/index.ts'
import {
  type AcceptedProviderName,
  acceptedProviderNames,
  neutralProviderName,
} from '#internal/tenants/index.ts'
import { sourceEventId, stepsCount, stepTypes } from './chargeback.ts'
import type { SimulationRow } from './tables.ts'

/** Maximum seconds between two events. */
export const stepSecondsMax = 86_400
/** Maximum amount, in smallest units of the currency. */
const amountMax = 999_999_999_999

/** Reasons of a dispute, normalized across providers. */
export const chargebackReasons = [
  'fraudulent',
  'unrecognized',
  'duplicate',
  'product_not_received',
  'product_unacceptable',
  'credit_not_processed',
  'subscription_cancelled',
  'general',
] as const
export type ChargebackReason = (typeof chargebackReasons)[number]

/** Providers whose disputes can be simulated. */
export const simulatedProviders = ['card', 'wallet'] as const
export type SimulatedProvider = (typeof simulatedProviders)[number]
const simulatedProviderOf = (name: AcceptedProviderName) =>
  simulatedProviders.find((each) => each === neutralProviderName(name))
const acceptedNames = acceptedProviderNames.filter((name) => simulatedProviderOf(name) !== undefined)

/** Outcomes of a dispute. */
export const chargebackOutcomes = ['won', 'lost'] as const

/** Maximum size of the request in bytes, for every API that starts simulations. */
export const simulationBytesMax = 16 * 1024

/** Body of POST /v1/simulate/chargeback. */
export const SimulateChargebackRequest = Type.Object(
  {
    provider: Type.Optional(
      oneOf(acceptedNames, 'Provider of the dispute, or its vendor’s name. Default `card`.'),
    ),
    amount: Type.Integer({
      minimum: 1,
      maximum: amountMax,
      description:
        'Disputed amount in the smallest unit of its currency: 4200 is 42.00 EUR, or 4200 JPY. The events carry it in the provider’s format.',
    }),
    currency: Type.RegExp(/^[A-Za-z]{3,3}$/, {
      expected: 'an ISO 4217 code of 3 letters, such as EUR',
      description: 'ISO 4217 code, in either case.',
    }),
    reason: Type.Optional(
      oneOf(
        chargebackReasons,
        'Reason of the dispute; the events carry the provider’s term for it. Default `fraudulent`.',
      ),
    ),
    reference: Type.Optional(
      plainText(127, {
        description:
          'Your reference of the payment: `metadata.reference` of the dispute for `card`, `invoice_number` of the transaction for `wallet`.',
      }),
    ),
    outcome: Type.Optional(oneOf(chargebackOutcomes, 'Outcome of the dispute. Default `lost`.')),
    stepSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: stepSecondsMax,
        description: 'Seconds from one event to the next; the first is due at once. Default 1.',
      }),
    ),
    dryRun: Type.Optional(
      Type.Boolean({
        description:
          'true: returns the events without starting a simulation. Nothing is stored, and the ids refer to nothing.',
      }),
    ),
  },
  { additionalProperties: false, $id: 'SimulateChargebackRequest' },
)
export type SimulateChargebackRequest = typeof SimulateChargebackRequest.static

/** Request as stored, with the defaults applied. */
export interface Chargeback {
  readonly provider: SimulatedProvider
  readonly amount: number
  /** Code in capitals. */
  readonly currency: string
  readonly reason: ChargebackReason
  readonly reference: string | null
  readonly outcome: (typeof chargebackOutcomes)[number]
  readonly stepSeconds: number
}

/** Applies the defaults to a request. Pure. */
export function chargebackOf(request: SimulateChargebackRequest): Chargeback {
  return {
    provider: simulatedProviderOf(request.provider ?? 'card') ?? 'card',
    amount: request.amount,
    currency: request.currency.toUpperCase(),
    reason: request.reason ?? 'fraudulent',
    reference: request.reference ?? null,
    outcome: request.outcome ?? 'lost',
    stepSeconds: request.stepSeconds ?? 1,
  }
}

/** States of a simulation. `scheduled`: not started. `completed`, `cancelled` and `failed` are final. */
export const simulationStates = ['scheduled', 'running', 'completed', 'cancelled', 'failed'] as const
/** One of `simulationStates`. */
export type SimulationState = (typeof simulationStates)[number]

/** Reason why a simulation failed or waits. */
export type SimulationCause =
  | RefusedCause
  | 'tenant_unknown'
  | 'store_unavailable'
  | 'event_refused'
  | 'signing_unavailable'
  | 'too_late'
  | 'internal'

/** Id of a simulation: `sim_` and 26 characters. Ids sort by the start time of the simulation. */
export type SimulationId = string & { readonly __brand: 'SimulationId' }

/** Event of a simulation. */
export interface SimulatedEvent {
  /** `id` of the payload. */
  readonly id: string
  readonly type: string
  readonly dueAtMs: number
  /** Time when intake accepted the event. */
  readonly sentAtMs: number | null
}

/** A simulated dispute. */
export interface Simulation {
  readonly simulationId: SimulationId
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** Actor as recorded in the audit log. */
  readonly requestedBy: string
  readonly state: SimulationState
  readonly events: readonly SimulatedEvent[]
  readonly cause: SimulationCause | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

export function simulationOf(row: SimulationRow): Simulation {
  const { id: simulationId, tenantId, request: chargeback, requestedBy, state, cause } = row
  const times = { dueAtMs: row.dueAt.map(Number), sentAtMs: row.sentAt.map(Number) }
  return {
    simulationId,
    tenantId,
    chargeback,
    requestedBy,
    state,
    cause,
    events: eventsOf(simulationId, chargeback, times),
    createdAtMs: row.createdAt.getTime(),
    startedAtMs: row.startedAt?.getTime() ?? null,
    endedAtMs: row.endedAt?.getTime() ?? null,
  }
}

/** Returns the simulation that a request would start, for a dry run. Nothing is stored. */
export function rehearseSimulation(
  { tenantId, chargeback, by }: { tenantId: TenantId; chargeback: Chargeback; by: string },
  nowMs: number,
): Simulation {
  const simulationId = createSimulationId(nowMs)
  const stepMs = chargeback.stepSeconds * 1000
  const dueAtMs = Array.from({ length: stepsCount }, (_none, step) => nowMs + step * stepMs)
  return {
    simulationId,
    tenantId,
    chargeback,
    requestedBy: by,
    state: 'scheduled',
    cause: null,
    events: eventsOf(simulationId, chargeback, { dueAtMs, sentAtMs: [] }),
    createdAtMs: nowMs,
    startedAtMs: null,
    endedAtMs: null,
  }
}

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

export function createSimulationId(nowMs: number): SimulationId {
  return createEventId(nowMs, 0).replace('evt_', 'sim_') as SimulationId
}

const simulationIdForm = new RegExp(idPattern('sim'))

/** Parses a simulation id from outside. Returns undefined for any other text. */
export function parseSimulationId(text: string): SimulationId | undefined {
  return simulationIdForm.test(text) ? (text as SimulationId) : undefined
}
