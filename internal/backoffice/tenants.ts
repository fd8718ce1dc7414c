import type { Action, Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { ApiKeyScope, Condition, TenantSpec } from '#internal/tenants/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'
import type { Whose } from './reach.ts'

/** Which tenant is meant. */
export type TenantRef =
  | { readonly by: 'id' | 'slug'; readonly text: string }
  /** The first 11 characters of an API key at least, `lk_` included; the whole key is not to be sent. */
  | { readonly by: 'keyPrefix'; readonly text: string }
  | { readonly by: 'name'; readonly namespace: string; readonly name: string }

/** A tenant in a list. */
export interface TenantSummary {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** null while another tenant holds the one that it wants. */
  readonly slug: string | null
  readonly displayName: string | null
  readonly isSuspended: boolean
  /** Its condition `Ready`. */
  readonly isReady: boolean
  /** Why it is not ready, in one word; null while it is. */
  readonly reason: string | null
  readonly createdAtMs: number
}

/** An API key, without the key. */
export interface TenantKeyView {
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  /** How it begins; null for one that was issued before this was kept. */
  readonly prefix: string | null
  readonly createdAtMs: number
  /** When it stops, by expiry or because it was rotated out; null for never. */
  readonly endsAtMs: number | null
}

/** A live signing secret, without its value. */
export interface TenantSecretView {
  /** `callback`, or `provider:card` and its kin. */
  readonly field: string
  /** The Secret that it came from. */
  readonly secretName: string
  readonly createdAtMs: number
}

/** Everything about a tenant. */
export interface TenantDetail extends TenantSummary {
  readonly conditions: readonly Condition[]
  /** What it asks for; the callback's URL without credentials. */
  readonly spec: TenantSpec
  /** What to enter at each provider; only paths while no public URL is configured. */
  readonly urls: readonly { readonly provider: string; readonly url: string }[]
  readonly keys: readonly TenantKeyView[]
  readonly secrets: readonly TenantSecretView[]
  /** Why its deliveries stand still, and since when; undefined while they do not. */
  readonly suspendedCallback: { readonly cause: string; readonly sinceMs: number } | undefined
  /** Until when no delivery is tried because most failed; undefined while the breaker is closed. */
  readonly breakerUntilMs: number | undefined
}

/** Which tenants are listed. */
export interface TenantListRequest extends PageRequest, Pick<Whose, 'namespaces'> {
  /** Part of a slug, a name or a display name, in any case; at most 100 characters. */
  readonly search?: string | undefined
}

/** Tenants, as whoever asks may see them. */
export interface TenantDesk {
  /** By namespace and name. */
  list(actor: Actor, request: TenantListRequest): Promise<Outcome<Page<TenantSummary>>>
  find(actor: Actor, ref: TenantRef): Promise<Outcome<TenantSummary>>
  read(actor: Actor, id: TenantId): Promise<Outcome<TenantDetail>>
  /** What may be done with a tenant, or with all of them: for pages, so that they offer no button in vain. */
  permissions(actor: Actor, tenant: TenantId | 'all'): Promise<Outcome<Readonly<Record<Action, boolean>>>>
}
