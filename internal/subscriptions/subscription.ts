import type { TenantId } from '#internal/base/index.ts'
import type { FeedPosition } from '#internal/events/index.ts'

/** Maximum subscriptions of a tenant. */
export const subscriptionsMax = 20
/** Maximum days without use after which a subscription is deleted. */
export const idleDaysMax = 90
/** Maximum providers, and maximum types, in the filter of a subscription. */
export const filterTextsMax = 50

/** Pattern of the name of a subscription. */
export const subscriptionNamePattern = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'

declare const branded: unique symbol
/** Name of a subscription, unique in a tenant: 1 to 63 lowercase letters, digits and hyphens. */
export type SubscriptionName = string & { readonly [branded]: 'SubscriptionName' }

const nameForm = new RegExp(subscriptionNamePattern)

/** Returns undefined for a text that is not a name. */
export function parseSubscriptionName(text: string): SubscriptionName | undefined {
  return nameForm.test(text) ? (text as SubscriptionName) : undefined
}

/** Tenant and name of a subscription. */
export interface SubscriptionPlace {
  readonly tenantId: TenantId
  readonly name: SubscriptionName
}

export interface SubscriptionFilter {
  /** Names of providers; empty for all. */
  readonly providers: readonly string[]
  /** Normalized types; empty for all. `payment.*` stands for all types that begin with `payment.`. */
  readonly types: readonly string[]
}

/** Cursor in the events of a tenant, with its own filter. */
export interface Subscription extends SubscriptionFilter {
  readonly name: SubscriptionName
  readonly createdAtMs: number
  /** Days without use after which it is deleted when the tenant creates another subscription; null: never. */
  readonly deleteAfterIdleDays: number | null
  /** Time from which the unused subscription may be deleted; use moves this time. Null: never. */
  readonly expiresAtMs: number | null
  /** Null before the first acknowledgement. */
  readonly acknowledgedAtMs: number | null
  /** True if the latest lease was neither acknowledged nor released, even if its time has ended. */
  readonly isLeased: boolean
  /** Time before which a pull returns no events: the end of a lease or of the delay after a `nack`. Null if it has passed. */
  readonly availableAtMs: number | null
}

export interface StoredSubscription extends Subscription {
  readonly position: FeedPosition
  /** Lowest event id that belongs to the subscription. An id begins with its time of receipt. */
  readonly receivedFrom: string
  readonly version: string
}
