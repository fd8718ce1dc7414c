import { reservedProviderName } from '#internal/tenants/index.ts'

/** Provider of notifications, which this service makes itself. */
export const ownProvider = reservedProviderName
/** Provider of notifications. */
export type OwnProvider = typeof ownProvider

/**
 * Kinds of origins. `provider`: a provider called, and the signature of its call was verified. `service`: another service handed the event
 * in over the internal API. `simulation`: a simulation made it. `test`: it tests a callback. `notification`: this service made it, about the
 * tenant's operation; only its `spec.notifications` receives it. Versions before the column `origin` stored every
 * event as `provider`.
 */
export const originKinds = ['provider', 'service', 'simulation', 'test', 'notification'] as const
/** Kind of an event's origin; one of `originKinds`. */
export type OriginKind = (typeof originKinds)[number]

/** Origin of an event. `actor` is the name under which the audit log records who handed the event in, or who sent the test event. */
export type EventOrigin =
  | { readonly kind: 'provider' }
  | { readonly kind: 'notification' }
  | { readonly kind: 'service' | 'test'; readonly actor: string }
  | { readonly kind: 'simulation'; readonly simulationId: string }

/** Origin of a provider's call. */
export const fromProvider: EventOrigin = { kind: 'provider' }

/** Header with the kind of an event's origin, absent for a provider's call. Callers cannot set headers that begin with `latchkey-`. */
const originHeader = 'latchkey-origin'
/** Header with the id of the simulation that made an event. */
const simulationHeader = 'latchkey-simulation'

/** Returns the headers that tell the receiver of an event about its origin. Pure. */
export function originHeaders(origin: EventOrigin): Readonly<Record<string, string>> {
  if (origin.kind === 'provider') return {}
  const simulation = origin.kind === 'simulation' ? { [simulationHeader]: origin.simulationId } : {}
  return { [originHeader]: origin.kind, ...simulation }
}

/** Returns the value of the column `origin_by`: the actor, or the id of the simulation. Pure. */
export function originByOf(origin: EventOrigin): string | null {
  if (origin.kind === 'provider' || origin.kind === 'notification') return null
  return origin.kind === 'simulation' ? origin.simulationId : origin.actor
}

/** Creates an origin from the columns `origin` and `origin_by`. Pure. */
export function originOf(kind: OriginKind, by: string | null): EventOrigin {
  if (kind === 'provider') return fromProvider
  if (kind === 'notification') return { kind }
  return kind === 'simulation' ? { kind, simulationId: by ?? '' } : { kind, actor: by ?? '' }
}

/**
 * Finds the simulation of an event in its stored headers (JSON text). Versions before the column `origin` stored only this header.
 * Quotation marks inside a JSON string are escaped, so no header value can look like a member. Pure.
 */
export function originInHeaders(headers: string): EventOrigin | undefined {
  const simulationId = /"latchkey-simulation":"(sim_[0-9a-z]{26})"/.exec(headers)?.[1]
  return simulationId === undefined ? undefined : { kind: 'simulation', simulationId }
}
