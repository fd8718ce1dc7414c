import type { ObjectPlace, Occurrence } from '#internal/kube/index.ts'
import type { TenantSpec } from './model.ts'
import type { ProviderSource } from './providers/provider-object.ts'
import type { SecretManifest } from './secret-manifest.ts'
import type { TenantStatus } from './status-schemas.ts'
import type { TenantObject } from './tenant-object.ts'

/** Prefix of uids that a folder of manifests derives from namespace and name. A uid of a cluster never has it. */
export const folderUidPrefix = 'folder:'

/** A validated Tenant. */
export interface TenantManifest {
  /** The uid of the resource. For a folder of manifests, it is derived from namespace and name. */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** Creation time, which decides between two claimants of a slug. Undefined if a manifest in a folder does not state its creation time. */
  readonly createdAtMs: number | undefined
  readonly spec: TenantSpec
}

/**
 * `mayBeElsewhere`: another machine may have the Secret. `unreadable`: the Secret could not be read and may not exist. `unlabelled`: the
 * Secret exists, but has no tenant label, or the label of the tenant `labelled`.
 */
export type SecretRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | { readonly kind: 'missing'; readonly mayBeElsewhere?: true }
  | { readonly kind: 'unlabelled'; readonly labelled: string | undefined }
  | { readonly kind: 'unreadable'; readonly reason: string; readonly message: string }

/** Reason of an `unreadable` Secret whose namespace is not watched, because the maximum number of watches is reached. */
export const tooManyNamespaces = 'TooManyNamespaces'

export interface GeneratedSecret {
  readonly namespace: string
  readonly name: string
  /** Other entries of the Secret are kept and ignored. */
  readonly values: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: { readonly uid: string; readonly name: string }
  readonly cause: 'missing' | 'rotation' | 'edited' | 'previousEnded'
  /** Version of the Secret to replace; undefined to create a Secret. */
  readonly replaces: string | undefined
}

/** `taken`: nothing was written, because another owner has the name or the Secret has changed. */
export type SecretWritten =
  | { readonly kind: 'written' }
  | { readonly kind: 'taken' }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string }

export interface TenantSecrets {
  readSecret(namespace: string, name: string): Promise<SecretRead>
  /** Replaces only a Secret that was generated for the same owner. Idempotent. */
  writeSecret(secret: GeneratedSecret): Promise<SecretWritten>
  /** Restores the tenant label on generated Secrets that lost it, so that watches report their changes. Returns their names. */
  relabel(): Promise<string[]>
}

/**
 * Source of Tenants and their Secrets: a cluster or a folder of manifests. The controller treats both in the same way. Reads use memory;
 * writes change the resource.
 */
export interface TenantSource {
  readonly providers: ProviderSource
  /** Policy for the data of a tenant whose resource vanished without a deletion that this source could observe. */
  readonly vanishedData: 'keep' | 'asPolicySays'
  /** Whether a new callback URL resumes a suspended callback. A cluster uses an annotation instead. */
  readonly resumesMovedCallback: boolean
  /** Returns whether a tenant is from this source, so that two sources do not remove each other's tenants. */
  owns(live: { readonly uid: string }): boolean
  /** Resolves when all readable Tenants and Secrets have been read, or when the signal fires. */
  settled(signal: AbortSignal): Promise<void>
  tenant(place: ObjectPlace): TenantObject | undefined
  tenants(): Iterable<TenantObject>
  /** Lists the Tenants that claim a slug, including the Tenant that holds it. */
  claimants(slug: string): Iterable<TenantObject>
  /** True if a Tenant of this namespace that `tenants` does not contain can be treated as absent. */
  isComplete(namespace: string): boolean
  /** Returns whether a Tenant does not exist. Asks the cluster or folder, not the cache. @throws if the source is unavailable */
  isAbsent(place: ObjectPlace): Promise<boolean>
  /** Calls `listener` with the key of a Tenant to reconcile, or without a key to reconcile all. The returned function removes it. */
  follow(listener: (key?: string) => void): () => Promise<void>
  /** Calls `mayWrite` before each write. */
  secretsOf(manifest: TenantManifest, mayWrite: () => boolean): TenantSecrets
  /** Adds the finalizer. Returns undefined if the Tenant has changed since it was read. @throws when the write fails */
  hold(object: TenantObject): Promise<TenantObject | undefined>
  /** Removes the finalizer. Returns false if the Tenant has changed since it was read. @throws when the write fails */
  release(object: TenantObject): Promise<boolean>
  /** Returns false if the Tenant no longer exists. @throws when the write fails */
  applyStatus(object: TenantObject, status: TenantStatus): Promise<boolean>
  /** @throws when the write fails */
  removeAnnotation(object: TenantObject, name: string): Promise<void>
  /** Never throws. */
  record(occurrence: Occurrence): void
}
