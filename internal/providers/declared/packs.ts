import type { StoredDeclaration } from '#internal/tenants/index.ts'
import { packAliases, packs, unverifiedPacks } from './packs.generated.ts'
import { samplesOf } from './samples.ts'
import type { Declaration } from './schema.ts'

/** Names of all shipped declarations in alphabetical order. */
export const packNames: readonly string[] = Object.keys(packs)

/** Names and aliases of all shipped declarations. */
export const packNamesAndAliases: readonly string[] = [...packNames, ...Object.keys(packAliases)]

/** Finds a shipped declaration by its name or an alias. It is parsed when a tenant uses it, so that many of them cost little. */
export function findPack(name: string): StoredDeclaration | undefined {
  const own = Object.hasOwn(packAliases, name) ? packAliases[name] : name
  const text = own !== undefined && Object.hasOwn(packs, own) ? packs[own] : undefined
  if (own === undefined || text === undefined) return undefined
  const aliases = Object.keys(packAliases).filter((alias) => packAliases[alias] === own)
  return { name: own, aliases, text, isUnverified: unverifiedPacks.includes(own) }
}

/**
 * Returns a valid declaration as it is stored and compiled: JSON without the vectors, whose secrets are for tests only, but with the
 * payloads that they lead to.
 */
export function declarationText(declaration: Declaration): string {
  const samples = samplesOf(declaration)
  return JSON.stringify({ ...declaration, vectors: undefined, ...(samples.length > 0 && { samples }) })
}
