import type { TenantId } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { ApiKeyScope, TenantSpec } from '../model.ts'
import type { SecretRead, TenantManifest } from '../source.ts'
import type { Condition } from './conditions.ts'

/** An API key as it is stored. Times in milliseconds since the epoch. */
export interface StoredKey {
  readonly sha256Hex: string
  /** How it begins; null where it was stored before this was kept. */
  readonly prefix: string | null
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  readonly expiresAtMs: number | null
  /** Set once the key was rotated out. */
  readonly endsAtMs: number | null
}

/** A live secret as it is stored, opened. `value` is undefined when no key of the ring opens it. */
export interface StoredSecret {
  readonly field: string
  readonly ordinal: number
  readonly keyId: string
  readonly value: string | undefined
  readonly createdAtMs: number
}

/** A tenant as Postgres has it. */
export interface StoredTenant {
  readonly id: TenantId
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  /** undefined once the data of a deleted tenant was removed. */
  readonly spec: TenantSpec | undefined
  readonly conditions: readonly Condition[]
  readonly resourceCreatedAtMs: number
  readonly deletedAtMs: number | null
  readonly keys: readonly StoredKey[]
  readonly secrets: readonly StoredSecret[]
}

/** A resource by its name. */
export interface ResourceName {
  readonly namespace: string
  readonly name: string
}

/** Who else has a claim on the wanted slug. */
export interface SlugFacts {
  readonly holder: (ResourceName & { readonly id: TenantId }) | undefined
  readonly reservation: (ResourceName & { readonly untilMs: number }) | undefined
  /** Another tenant without a slug that wants the same one and is older. */
  readonly olderClaimant: ResourceName | undefined
}

/** A callback that asked to be left alone; no delivery is sent until somebody resumes it. */
export interface CallbackSuspension {
  /** `gone`: it answered 410; `disabled`: it said so in the header `webhook-delivery`. */
  readonly cause: string
  readonly sinceMs: number
}

/** All that `planTenant` decides from. */
export interface TenantFacts {
  readonly manifest: TenantManifest
  readonly tenantId: TenantId
  readonly stored: StoredTenant | undefined
  readonly slug: SlugFacts
  /** What reading each referenced or generated Secret gave, by its name. */
  readonly secrets: ReadonlyMap<string, SecretRead>
  /** SHA-256 (hex) of wanted keys that another tenant has. */
  readonly keysOfOthers: ReadonlySet<string>
  readonly currentKeyId: string
  /** Platform limits on callback networks and ports. */
  readonly callbackBounds: CallbackBounds
  readonly callbackSuspension: CallbackSuspension | undefined
}
