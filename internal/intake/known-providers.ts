import {
  type Declarations,
  type ProviderName,
  parseProviderName,
  type StoredDeclaration,
} from '#internal/tenants/index.ts'
import { compileDeclaration } from './declared/compile.ts'
import { findPack } from './declared/packs.ts'
import type { Declaration } from './declared/schema.ts'
import type { AnyProvider } from './provider.ts'
import { findProvider } from './providers/registry.ts'

/** A provider whose calls tenants can accept. */
export interface KnownProvider {
  readonly name: ProviderName
  readonly adapter: AnyProvider
  /** Whether tenants must accept that no call of the vendor was compared with the declaration. */
  readonly isUnverified: boolean
  /** The declaration as JSON, of a declared provider. */
  readonly declared?: string
}

/**
 * All providers by name: built-in ones first, then those of Provider resources, then shipped declarations. A declaration is compiled when it
 * is first used.
 */
export class KnownProviders {
  readonly #current: () => Declarations
  #declarations: Declarations
  #found = new Map<string, KnownProvider>()

  /** @param current returns the declarations in force; called for every webhook call */
  constructor(current: () => Declarations) {
    this.#current = current
    this.#declarations = current()
  }

  /** Returns an object that is another one after each change of a declaration. */
  revision(): object {
    const current = this.#current()
    if (current !== this.#declarations) {
      this.#declarations = current
      this.#found = new Map()
    }
    return current
  }

  /** Finds a provider by its name or an alias. Returns undefined for an unknown name. @throws if a declaration cannot be compiled */
  find(name: string): KnownProvider | undefined {
    this.revision()
    const known = this.#found.get(name)
    if (known !== undefined) return known
    const made = this.#make(name)
    // Unknown names are not kept, since callers choose them.
    if (made !== undefined) this.#found.set(name, made)
    return made
  }

  #make(name: string): KnownProvider | undefined {
    const builtIn = findProvider(name)
    if (builtIn) return { name: builtIn.name, adapter: builtIn, isUnverified: false }
    const declaration = this.#declarations.get(name) ?? this.#shipped(name)
    const own = declaration && parseProviderName(declaration.name)
    if (declaration === undefined || own === undefined) return undefined
    if (name !== own) return this.find(own)
    const { text, isUnverified } = declaration
    return { name: own, adapter: adapterOf(text), isUnverified, declared: text }
  }

  /** A resource with the name of a shipped declaration replaces it, with its aliases. */
  #shipped(name: string): StoredDeclaration | undefined {
    const pack = findPack(name)
    return pack && pack.name !== name && this.#declarations.has(pack.name) ? undefined : pack
  }
}

/** Compiles the stored text of a declaration, which was validated before it was stored. */
export function adapterOf(text: string): AnyProvider {
  return compileDeclaration(JSON.parse(text) as Declaration)
}
