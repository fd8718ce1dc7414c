import {
  acceptedProviderNames,
  type Declarations,
  type ProviderName,
  parseProviderName,
  type StoredDeclaration,
} from '#internal/tenants/index.ts'
import type { BuiltIn } from './built-in/declarations.ts'
import { findProvider, providers } from './built-in/registry.ts'
import { compileDeclaration } from './declared/compile.ts'
import type { Declaration } from './declared/schema.ts'
import {
  findShipped,
  type RunningDeclaration,
  shippedNames,
  shippedNamesAndAliases,
} from './declared/shipped-declarations.ts'
import type { AnyProvider } from './provider.ts'

/** Provider whose calls tenants can accept. */
export interface KnownProvider {
  readonly name: ProviderName
  readonly adapter: AnyProvider
  /** True if the declaration was not compared with a real call of the vendor. Tenants must accept this explicitly. */
  readonly isUnverified: boolean
  readonly declared?: string
}

/** Known provider whose declaration, stored by another version, cannot be compiled. */
export const unusable = Symbol('unusable declaration')

/** Called for a declaration that cannot be compiled: once, and again after any declaration has changed. Must not throw. */
export type OnUnusable = (name: ProviderName, cause: unknown) => void

/** All providers by name: built-in ones, then Provider resources, then shipped declarations. A declaration is compiled at first use. */
export class KnownProviders {
  readonly #current: () => Declarations
  #declarations: Declarations
  readonly #onUnusable: OnUnusable | undefined
  #found = new Map<string, KnownProvider | typeof unusable>()

  /** @param current returns the active declarations of Provider resources; called for every webhook call */
  constructor(current: () => Declarations, onUnusable?: OnUnusable) {
    this.#current = current
    this.#onUnusable = onUnusable
    this.#declarations = current()
  }

  /** Returns a different object after each change of a declaration. */
  revision(): object {
    const current = this.#current()
    if (current !== this.#declarations) {
      this.#declarations = current
      this.#found = new Map()
    }
    return current
  }

  /** Finds by name or alias. */
  find(name: string): KnownProvider | typeof unusable | undefined {
    this.revision()
    const known = this.#found.get(name)
    if (known !== undefined) return known
    const made = this.#make(name)
    // Does not cache unknown names, since callers could invent any number of them.
    if (made !== undefined) this.#found.set(name, made)
    return made
  }

  #make(name: string): KnownProvider | typeof unusable | undefined {
    const builtIn = findProvider(name)
    if (builtIn) return { name: builtIn.name, adapter: builtIn, isUnverified: false }
    const declaration = findStored(name, this.#declarations)
    const own = declaration && parseProviderName(declaration.name)
    if (declaration === undefined || own === undefined) return undefined
    if (name !== own) return this.find(own)
    const { text, isUnverified } = declaration
    try {
      return { name: own, adapter: adapterOf(text), isUnverified, declared: text }
    } catch (cause) {
      this.#onUnusable?.(own, cause)
      return unusable
    }
  }
}

/** Compiles the stored text of a declaration, which was validated before it was stored. */
export function adapterOf(text: string): AnyProvider {
  return compileDeclaration(parseStored(text))
}

/** Returns the names of all declared providers in alphabetical order: built-in ones, active Provider resources, and shipped ones. */
export function declaredNames(declarations: Declarations): readonly string[] {
  return [
    ...new Set([
      ...providers.filter(isDeclared).map(({ name }) => name),
      ...ownNames(declarations),
      ...shippedNames,
    ]),
  ].toSorted()
}

/** Returns the names of active Provider resources in alphabetical order, without aliases. */
export function ownNames(declarations: Declarations): readonly string[] {
  return [...new Set([...declarations.values()].map(({ name }) => name))].toSorted()
}

/** Converts a name or alias to the name under which the provider's events are stored. Returns undefined for an unknown provider. */
export function findProviderName(name: string, declarations: Declarations): ProviderName | undefined {
  const own = findProvider(name)?.name ?? findStored(name, declarations)?.name
  return own === undefined ? undefined : parseProviderName(own)
}

/** Returns the names and aliases of all providers: built-in ones, active Provider resources, and shipped ones. */
export function allProviderNames(declarations: Declarations): readonly string[] {
  const shipped = shippedNamesAndAliases.filter((name) => findStored(name, declarations) !== undefined)
  return [...new Set([...acceptedProviderNames, ...declarations.keys(), ...shipped])]
}

/** Finds a declaration by the name or an alias of its provider. Undefined for `wallet` and `gateway`, which are code. */
export function findDeclaration(name: string, declarations: Declarations): Declaration | undefined {
  const builtIn = findProvider(name)
  if (builtIn) return isDeclared(builtIn) ? builtIn.declaration : undefined
  const stored = findStored(name, declarations)
  return stored && parseStored(stored.text)
}

/** Finds a declaration by name or alias: first among resources, then among shipped ones that no resource of the same name replaces. */
export function findStored(name: string, declarations: Declarations): StoredDeclaration | undefined {
  const own = declarations.get(name)
  if (own) return own
  const shipped = findShipped(name)
  return shipped && shipped.name !== name && declarations.has(shipped.name) ? undefined : shipped
}

/** Parses the stored text of a declaration, which was validated before it was stored. @throws for text of another version */
export function parseStored(text: string): RunningDeclaration {
  return JSON.parse(text) as RunningDeclaration
}

function isDeclared(provider: AnyProvider): provider is AnyProvider & BuiltIn {
  return 'declaration' in provider
}
