import {
  acceptedProviderNames,
  type Declarations,
  type ProviderName,
  parseProviderName,
  type StoredDeclaration,
} from '#internal/tenants/index.ts'
import type { BuiltIn } from './built-in/declared.ts'
import { findProvider, providers } from './built-in/registry.ts'
import { findPack, packNames, packNamesAndAliases } from './declared/packs.ts'
import type { RunningDeclaration } from './declared/samples.ts'
import type { Declaration } from './declared/schema.ts'
import type { AnyProvider } from './provider.ts'

/** Returns the names of all providers that are declared: built in, in force as resources, and shipped. In alphabetical order. */
export function declaredNames(declarations: Declarations): readonly string[] {
  return [
    ...new Set([
      ...providers.filter(isDeclared).map(({ name }) => name),
      ...ownNames(declarations),
      ...packNames,
    ]),
  ].toSorted()
}

/** Returns the names, without aliases, of the providers that are in force as resources. In alphabetical order. */
export function ownNames(declarations: Declarations): readonly string[] {
  return [...new Set([...declarations.values()].map(({ name }) => name))].toSorted()
}

/** Returns the provider's own name for its name or an alias, under which its events are stored; undefined for an unknown provider. */
export function findProviderName(name: string, declarations: Declarations): ProviderName | undefined {
  const own = findProvider(name)?.name ?? findStored(name, declarations)?.name
  return own === undefined ? undefined : parseProviderName(own)
}

/** Returns the names and aliases of all providers: built in, in force as resources, and shipped. */
export function allProviderNames(declarations: Declarations): readonly string[] {
  const packs = packNamesAndAliases.filter((name) => findStored(name, declarations) !== undefined)
  return [...new Set([...acceptedProviderNames, ...declarations.keys(), ...packs])]
}

/** Finds a declaration by the name or an alias of its provider. Undefined for `wallet` and `gateway`, which are code. */
export function findDeclaration(name: string, declarations: Declarations): Declaration | undefined {
  const builtIn = findProvider(name)
  if (builtIn) return isDeclared(builtIn) ? builtIn.declaration : undefined
  const stored = findStored(name, declarations)
  return stored && parseStored(stored.text)
}

/**
 * Finds the text of a declaration that is not built in, by the name or an alias of its provider: a resource first, then a shipped
 * declaration, unless a resource with its name replaces it, with its aliases.
 */
export function findStored(name: string, declarations: Declarations): StoredDeclaration | undefined {
  const own = declarations.get(name)
  if (own) return own
  const pack = findPack(name)
  return pack && pack.name !== name && declarations.has(pack.name) ? undefined : pack
}

/** Parses the stored text of a declaration, which was validated before it was stored. @throws for text of another version */
export function parseStored(text: string): RunningDeclaration {
  return JSON.parse(text) as RunningDeclaration
}

function isDeclared(provider: AnyProvider): provider is AnyProvider & BuiltIn {
  return 'declaration' in provider
}
