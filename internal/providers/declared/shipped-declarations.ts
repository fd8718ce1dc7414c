import { isJsonObject } from '#internal/base/index.ts'
import type { StoredDeclaration } from '#internal/tenants/index.ts'

import { compileDeclaration } from './compile.ts'
import type { Declaration } from './schema.ts'
import { shippedAliases, shippedTexts, unverifiedShipped } from './shipped-declarations.generated.ts'
import { callOf, outcomeOf } from './vectors.ts'

/** Names of all shipped declarations in alphabetical order. */
export const shippedNames: readonly string[] = Object.keys(shippedTexts)

export const shippedNamesAndAliases: readonly string[] = [...shippedNames, ...Object.keys(shippedAliases)]

/** Finds a shipped declaration by its name or an alias. */
export function findShipped(name: string): StoredDeclaration | undefined {
  const own = Object.hasOwn(shippedAliases, name) ? shippedAliases[name] : name
  const text = own !== undefined && Object.hasOwn(shippedTexts, own) ? shippedTexts[own] : undefined
  if (own === undefined || text === undefined) return undefined
  const aliases = Object.keys(shippedAliases).filter((alias) => shippedAliases[alias] === own)
  return { name: own, aliases, text, isUnverified: unverifiedShipped.includes(own) }
}

/** Returns a declaration as stored: JSON without its test vectors, whose secrets are for tests only, but with their payloads as samples. */
export function declarationText(declaration: Declaration): string {
  const samples = samplesOf(declaration)
  return JSON.stringify({ ...declaration, vectors: undefined, ...(samples.length > 0 && { samples }) })
}

/** Payload of a recorded call, on which simulated calls are based. Contains no headers and no secret of a test vector. */
export interface DeclaredSample {
  readonly rawType: string
  readonly type: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** Declaration as stored and compiled: with samples and without test vectors. */
export interface RunningDeclaration extends Declaration {
  readonly samples?: readonly DeclaredSample[]
}

const samplesMax = 20
/** Maximum characters of one sample (`sampleCharsMax`), and of all samples of a declaration in total (`allCharsMax`). */
const sampleCharsMax = 16_384
const allCharsMax = 65_536

/** Returns one payload per normalized type, taken from the test vectors that lead to an event. */
export function samplesOf(declaration: Declaration): readonly DeclaredSample[] {
  const { vectors = [] } = declaration
  if (vectors.length === 0) return []
  const provider = compileDeclaration(declaration)
  const samples = new Map<string, DeclaredSample>()
  let chars = 0
  for (const vector of vectors) {
    const outcome = outcomeOf(provider, callOf(vector), vector)
    if (outcome.kind !== 'event' || samples.has(outcome.type) || samples.size === samplesMax) continue
    const { rawType, type, payload: text } = outcome
    chars += text.length
    if (text.length > sampleCharsMax || chars > allCharsMax) continue
    const payload: unknown = JSON.parse(text)
    if (isJsonObject(payload)) samples.set(type, { rawType, type, payload })
  }
  return [...samples.values()]
}
