import { type KubeObject, resource } from '#internal/kube/index.ts'
import { tenantApiVersion } from '../model.ts'
import type { ProviderStatus } from '../status-schemas.ts'

/** A declaration in force. `text` is its JSON, which intake compiles; this room does not read it. */
export interface StoredDeclaration {
  readonly name: string
  readonly aliases: readonly string[]
  /** True if no call of the vendor was compared with the declaration, which tenants must accept. */
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
  /** Runs the vectors. Pure; takes up to a second. */
  validate(name: string, spec: unknown): ValidatedProvider
  /** Accepts a name or an alias. Shipped declarations are part of the program. */
  findShipped(name: string): StoredDeclaration | undefined
  /** Includes aliases. */
  readonly shippedNames: readonly string[]
}

/** Reads use memory; writes change the resource. */
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
