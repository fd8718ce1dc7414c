import type { ObjectPlace, Occurrence } from '#internal/kube/index.ts'
import type { TenantSpec } from './model.ts'
import type { SecretManifest } from './secret-manifest.ts'
import type { TenantObject, TenantStatus } from './tenant-object.ts'

/** A validated Tenant. */
export interface TenantManifest {
  /** The resource's uid; a folder derives it from namespace and name. */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Decides which of two claimants to a slug is older; undefined where a folder's manifest does not say. */
  readonly createdAtMs: number | undefined
  readonly spec: TenantSpec
}

/**
 * Result of reading a Secret. `unreadable`: it may or may not exist. `unlabelled`: it exists, but its label assigns it to no tenant,
 * or to the tenant `labelled`.
 */
export type SecretRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | { readonly kind: 'missing' }
  | { readonly kind: 'unlabelled'; readonly labelled: string | undefined }
  | { readonly kind: 'unreadable'; readonly reason: string; readonly message: string }

/** Reason of an `unreadable` Secret whose namespace is beyond the limit of watches. */
export const tooManyNamespaces = 'TooManyNamespaces'

/** Reason for writing a generated Secret. */
export type GenerationCause = 'missing' | 'rotation' | 'edited' | 'previousEnded'

/** A Secret generated for a tenant. */
export interface GeneratedSecret {
  readonly namespace: string
  readonly name: string
  /** All entries of Latchkey; foreign ones stay and are ignored. */
  readonly values: Readonly<Record<string, string>>
  /** All annotations of Latchkey. */
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: { readonly uid: string; readonly name: string }
  readonly cause: GenerationCause
  /** Version of the Secret to replace; undefined to create one. */
  readonly replaces: string | undefined
}

/** Result of writing a generated Secret. `taken`: the name belongs to a foreign Secret, or it changed meanwhile; nothing was written. */
export type SecretWritten =
  | { readonly kind: 'written' }
  | { readonly kind: 'taken' }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string }

/** The Secrets of one tenant, during one reconciliation. */
export interface TenantSecrets {
  readSecret(namespace: string, name: string): Promise<SecretRead>
  /** Creates the Secret or replaces one generated for the same owner. Idempotent. */
  writeSecret(secret: GeneratedSecret): Promise<SecretWritten>
  /** Restores the label on generated Secrets that lost it, so that their changes are seen. Returns their names. */
  relabel(): Promise<string[]>
}

/**
 * Source of Tenants and their Secrets: a cluster, or a folder of manifests. The controller treats both alike; reads are from memory
 * and writes go to the resource.
 */
export interface TenantSource {
  /** Data of a tenant whose resource vanished without a deletion that this source could see. */
  readonly vanishedData: 'keep' | 'asPolicySays'
  /** Resumes a suspended callback when its URL changes; a cluster has an annotation for it. */
  readonly resumesMovedCallback: boolean
  /** Whether a live row belongs to this source, so that two sources never remove each other's tenants. */
  owns(live: { readonly uid: string }): boolean
  /** Resolves once everything readable has been read, or when the signal fires. */
  settled(signal: AbortSignal): Promise<void>
  tenant(place: ObjectPlace): TenantObject | undefined
  tenants(): Iterable<TenantObject>
  /** Tenants that ask for a slug, whether or not one of them holds it. */
  claimants(slug: string): Iterable<TenantObject>
  /** True if a Tenant of this namespace that is not in `tenants` may be treated as absent. */
  isComplete(namespace: string): boolean
  /** Checks against the source itself that a Tenant is absent. @throws when it does not answer */
  isAbsent(place: ObjectPlace): Promise<boolean>
  /** Calls `listener` with the key of each Tenant that may need work, or without one if any may, until the returned function is called. */
  follow(listener: (key?: string) => void): () => Promise<void>
  /** Returns the Secrets of a tenant; `mayWrite` is checked before each write. */
  secretsOf(manifest: TenantManifest, mayWrite: () => boolean): TenantSecrets
  /** Adds the finalizer. Undefined if the Tenant changed meanwhile. @throws when the write fails */
  hold(object: TenantObject): Promise<TenantObject | undefined>
  /** Removes the finalizer. False if the Tenant changed meanwhile. @throws when the write fails */
  release(object: TenantObject): Promise<boolean>
  /** Writes the status. False if the Tenant is gone. @throws when the write fails */
  applyStatus(object: TenantObject, status: TenantStatus): Promise<boolean>
  /** Removes an annotation of a Tenant. @throws when the write fails */
  removeAnnotation(object: TenantObject, name: string): Promise<void>
  /** Records an event. Never throws. */
  record(occurrence: Occurrence): void
}
