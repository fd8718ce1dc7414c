import type { EventSources } from './event-sources.generated.ts'

/** Normalized type of the catalogue. */
export type EventType = keyof EventSources

/** Neutral name of a provider. Later versions may add names. */
export type Provider = 'card' | 'storefront' | 'codehost' | 'generic' | 'wallet' | 'gateway'

/** Fields of every event. */
export interface EventFields {
  /** The same in every delivery of the event. */
  readonly id: string
  readonly provider: string
  /** The provider's name of the type. */
  readonly providerRawType: string
  readonly type: string
  readonly tenantId: string
  /** Time given by the provider, otherwise `receivedAt`. UTC. */
  readonly occurredAt: string
  /** Time at which Latchkey received the event. UTC. */
  readonly receivedAt: string
  /** The provider's JSON. */
  readonly payload: Readonly<Record<string, unknown>>
  /** Headers of the provider's call. Without a provider, `latchkey-origin` is `service`, `simulation` or `test`. */
  readonly headers: Readonly<Record<string, string>>
}

/** Event of one type and provider. */
export interface ListedEvent<Type, From, RawType>
  extends Omit<EventFields, 'type' | 'provider' | 'providerRawType'> {
  readonly type: Type
  readonly provider: From
  readonly providerRawType: RawType
}

type EventsOf<T extends EventType> = {
  readonly [P in keyof EventSources[T]]: ListedEvent<T, P, EventSources[T][P]>
}

/** Event of a type of the catalogue, by its type. A sender of `generic` can use any type. */
export type EventOf<T extends EventType> = EventsOf<T>[keyof EventsOf<T>] | ListedEvent<T, 'generic', string>

/** Event whose raw type is not in the catalogue, and the test event of the dashboard. */
export interface UnlistedEvent extends EventFields {
  readonly type: `${Provider}.${string}` | 'latchkey.test'
}

/**
 * Event of any type. `event.type === 'payment.succeeded'` narrows it to the providers and raw types that lead to this type. Types of later
 * versions, and types that a sender of `generic` chooses, arrive as well: handle them in a `default` branch.
 */
export type LatchkeyEvent = { readonly [T in EventType]: EventOf<T> }[EventType] | UnlistedEvent

/** Returns whether a parsed JSON value is an event. */
export function isEvent(value: unknown): value is EventFields {
  if (typeof value !== 'object' || value === null) return false
  const { payload, headers, ...texts } = value as Record<string, unknown>
  return (
    ['id', 'provider', 'providerRawType', 'type', 'tenantId'].every(
      (name) => typeof texts[name] === 'string',
    ) && [payload, headers].every((each) => typeof each === 'object' && each !== null)
  )
}
