import { type KubeObject, resource } from '#internal/kube/index.ts'
import { tenantApiVersion } from '../model.ts'
import type { ProviderStatus } from '../status-schemas.ts'

/** An active declaration. `text` is its JSON, which only intake reads and compiles. */
export interface StoredDeclaration {
  readonly name: string
  readonly aliases: readonly string[]
  /** True if the declaration was not compared with a real call of the vendor. A tenant that uses it must accept this explicitly. */
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

/** Functions of intake for declarations. `cmd` passes them in, since this module must not import intake. */
export interface DeclarationRules {
  /** Validates a declaration and runs its test vectors. Pure; takes up to a second. */
  validate(name: string, spec: unknown): ValidatedProvider
  /** Accepts a name or an alias. Shipped declarations are part of the program. */
  findShipped(name: string): StoredDeclaration | undefined
  /** Names and aliases of all shipped declarations. */
  readonly shippedNames: readonly string[]
}

/** Source of Providers. Reads use memory; writes change the resource. */
export interface ProviderSource {
  /** Returns all Providers; undefined while they cannot be read. */
  all(): readonly ProviderObject[] | undefined
  /** True if a Provider that `all` does not contain can be treated as absent. */
  isComplete(): boolean
  /** Returns whether a declaration is from this source, so that two sources do not remove each other's declarations. */
  owns(stored: { readonly uid: string }): boolean
  /** The returned function removes the listener. */
  follow(listener: () => void): () => void
  /** Adds the finalizer. Returns false if the Provider has changed since it was read. @throws when the write fails */
  hold(object: ProviderObject): Promise<boolean>
  /** Removes the finalizer. Idempotent. @throws when the write fails */
  release(object: ProviderObject): Promise<void>
  /** @throws when the write fails */
  applyStatus(object: ProviderObject, status: ProviderStatus): Promise<void>
}
