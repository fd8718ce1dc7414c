import { type Declarations, type ProviderName, parseProviderName } from '#internal/tenants/index.ts'
import { findProvider } from './built-in/registry.ts'
import { compileDeclaration } from './declared/compile.ts'
import { findStored, parseStored } from './find-declaration.ts'
import type { AnyProvider } from './provider.ts'

/** A provider whose calls tenants can accept. */
export interface KnownProvider {
  readonly name: ProviderName
  readonly adapter: AnyProvider
  /** Whether tenants must accept that no call of the vendor was compared with the declaration. */
  readonly isUnverified: boolean
  /** The declaration as JSON, of a declared provider. */
  readonly declared?: string
}

/** A known provider whose declaration this version cannot compile; another version stored it. */
export const unusable = Symbol('unusable declaration')

/** Called once for each declaration that cannot be compiled, until any declaration changes. Must not throw. */
export type OnUnusable = (name: ProviderName, cause: unknown) => void

/**
 * All providers by name: built-in ones first, then those of Provider resources, then shipped declarations. A declaration is compiled when it
 * is first used.
 */
export class KnownProviders {
  readonly #current: () => Declarations
  #declarations: Declarations
  readonly #onUnusable: OnUnusable | undefined
  #found = new Map<string, KnownProvider | typeof unusable>()

  /** @param current returns the declarations in force; called for every webhook call */
  constructor(current: () => Declarations, onUnusable?: OnUnusable) {
    this.#current = current
    this.#onUnusable = onUnusable
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

  /** Finds a provider by its name or an alias. Returns undefined for an unknown name. */
  find(name: string): KnownProvider | typeof unusable | undefined {
    this.revision()
    const known = this.#found.get(name)
    if (known !== undefined) return known
    const made = this.#make(name)
    // Unknown names are not kept, since callers choose them.
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
