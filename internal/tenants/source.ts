import type { SecretManifest } from './manifest.ts'
import type { TenantSpec } from './model.ts'

/** A checked Tenant as its source holds it. */
export interface TenantManifest {
  /** The resource's uid; a folder derives it from namespace and name. */
  readonly uid: string
  readonly namespace: string
  readonly name: string
  /** When the resource was made; undefined where the source does not know. Decides who is older. */
  readonly createdAtMs: number | undefined
  readonly spec: TenantSpec
}

/**
 * What reading a Secret gave. `unreadable` says nothing about whether it exists; `unlabelled`: it exists, but its label gives it
 * to nobody, or to the tenant `labelled`.
 */
export type SecretRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | { readonly kind: 'missing' }
  | { readonly kind: 'unlabelled'; readonly labelled: string | undefined }
  | { readonly kind: 'unreadable'; readonly reason: string; readonly message: string }

/** Reason of a Secret that is `unreadable` since its namespace is one more than a process can follow. */
export const tooManyNamespaces = 'TooManyNamespaces'

/** Why a generated Secret is written. */
export type GenerationCause = 'missing' | 'rotation' | 'edited' | 'previousEnded'

/** A Secret that we make for a tenant, whole. */
export interface GeneratedSecret {
  readonly namespace: string
  readonly name: string
  /** All entries that are ours; what others put beside them stays and means nothing. */
  readonly values: Readonly<Record<string, string>>
  /** All annotations that are ours. */
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: { readonly uid: string; readonly name: string }
  readonly cause: GenerationCause
  /** The version that was read and is replaced; undefined when there was none. */
  readonly replaces: string | undefined
}

/**
 * What writing a generated Secret gave. `taken`: the name belongs to a Secret that is not ours, or somebody was faster; it was
 * left alone. `refused`: we may not write there.
 */
export type SecretWritten =
  | { readonly kind: 'written' }
  | { readonly kind: 'taken' }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string }

/** Where a tenant's Secrets are: a folder, or a cluster. */
export interface SecretSource {
  readSecret(namespace: string, name: string): Promise<SecretRead>
  /** Creates the Secret or replaces one that we made for the same owner. Repeating it is safe. */
  writeSecret(secret: GeneratedSecret): Promise<SecretWritten>
}

/** One thing that a source could not use, and where it stands. `line` counts from 1. */
export interface SourceProblem {
  readonly file: string
  readonly line: number | undefined
  readonly field: string
  readonly message: string
}

/** All that a source holds at one moment. */
export interface SourceState {
  /** Grows when something changed; equal revisions hold the same. */
  readonly revision: number
  readonly tenants: readonly TenantManifest[]
  readonly problems: readonly SourceProblem[]
  /** Uids of tenants that are there but cannot be used: their absence from `tenants` is no deletion. */
  readonly heldUids: ReadonlySet<string>
  /** False while something unreadable may hide tenants that were never read well: then no absence is a deletion. */
  readonly complete: boolean
}

/** Where tenants come from as a whole. */
export interface TenantSource extends SecretSource {
  /** All uids of this source begin with it, so that two sources never remove each other's tenants. */
  readonly uidPrefix: string
  /** The present state; cheap when nothing changed. Never fails: what cannot be read is among the problems. */
  read(): Promise<SourceState>
  /** Calls `listener` when something may have changed, until the returned function is called. May miss changes. */
  onHint(listener: () => void): () => void
}
