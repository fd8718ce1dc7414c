import { type KubeObject, resource } from '#internal/kube/index.ts'
import { tenantApiVersion } from '../model.ts'
import type { ProviderStatus } from '../status-schemas.ts'

/** A declaration in force. `text` is its JSON, which intake compiles; this room does not read it. */
export interface StoredDeclaration {
  readonly name: string
  readonly aliases: readonly string[]
  /** Whether tenants must accept that no call of the vendor was compared with it. */
  readonly isUnverified: boolean
  readonly text: string
}

/** A Provider resource. Its spec is not validated. */
export interface ProviderObject extends KubeObject {
  readonly spec?: unknown
  readonly status?: ProviderStatus
}

/** The Kubernetes resource of Providers. */
export const providerObjects = resource<ProviderObject>({
  apiVersion: tenantApiVersion,
  kind: 'Provider',
  plural: 'providers',
  namespaced: false,
})

/** Result of validating a Provider. `message` says what is wrong, where, and what is allowed. */
export type ValidatedProvider =
  | { readonly kind: 'valid'; readonly declaration: StoredDeclaration; readonly vectorsPassed: number }
  | {
      readonly kind: 'invalid'
      readonly reason: 'SpecInvalid' | 'VectorsFailed' | 'NameReserved'
      readonly message: string
    }

/** What intake knows about declarations; `cmd` hands it in, since this room is below intake. */
export interface DeclarationRules {
  /** Validates a Provider and runs its vectors. Pure; takes up to a second. */
  validate(name: string, spec: unknown): ValidatedProvider
  /** Finds a declaration that is part of the program, by its name or an alias. */
  findShipped(name: string): StoredDeclaration | undefined
  /** Names and aliases of all declarations that are part of the program. */
  readonly shippedNames: readonly string[]
}

/** Source of Providers: a cluster or a folder of manifests. Reads use memory; writes change the resource. */
export interface ProviderSource {
  /** Returns all Providers; undefined while they cannot be read. */
  all(): readonly ProviderObject[] | undefined
  /** Returns whether a Provider that `all` does not contain can be treated as absent. */
  isComplete(): boolean
  /** Returns whether a declaration belongs to this source, so that two sources never remove each other's. */
  owns(stored: { readonly uid: string }): boolean
  /** Calls `listener` after each change. The returned function removes the listener. */
  follow(listener: () => void): () => void
  /** Adds the finalizer. Returns false if the Provider has changed since it was read. @throws when the write fails */
  hold(object: ProviderObject): Promise<boolean>
  /** Removes the finalizer. Idempotent. @throws when the write fails */
  release(object: ProviderObject): Promise<void>
  /** Writes the status. @throws when the write fails */
  applyStatus(object: ProviderObject, status: ProviderStatus): Promise<void>
}
