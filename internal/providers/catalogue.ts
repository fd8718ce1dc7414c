import areas from '#config/providers/built-in/vocabulary.yaml'
import { isJsonObject, type JsonObject } from '#internal/base/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { typeLookup } from './declared/event.ts'

// Tables that lead from a provider's raw types to normalized types, and the catalogue that publishes them.

/** Row of a provider's `types.yaml`. Rows of a raw type are tried in order; a call without a matching row is unlisted. */
export interface TypeRow {
  readonly raw: string
  readonly type: string
  /** Conditions that the payload must all match. Default: the row always applies. */
  readonly when?: readonly Condition[]
  /** First version of Latchkey that has this row. Default: `firstVersion`. */
  readonly since?: string
  /** Further members of the example payload by dotted path, for values that the conditions do not determine. */
  readonly example?: Readonly<Record<string, unknown>>
  /** Members by dotted path that the example payload lacks. */
  readonly without?: readonly string[]
}

/** Entry of a provider's `samples.yaml`: the vendor's payload for a raw type, either whole or as changes to an earlier entry's payload. */
export interface Sample {
  readonly raw: string
  /** Set if only the payloads of this normalized type have this shape. */
  readonly type?: string
  readonly payload?: JsonObject
  /** Raw type of an earlier entry, whose payload is used with the changes in `with` (values by dotted path). */
  readonly like?: string
  readonly with?: Readonly<Record<string, unknown>>
}

/** First version of Latchkey that published the catalogue. */
export const firstVersion = '0.1.0'

/** `values` lists the accepted values, `isPresent` accepts any value except null. */
export type Condition =
  | { readonly path: string; readonly values: readonly (string | number | boolean)[] }
  | { readonly path: string; readonly isPresent: boolean }

export interface CatalogueCase {
  readonly rawType: string
  readonly type: string
  readonly conditions: readonly Condition[]
  readonly since: string
  readonly example: readonly (readonly [path: string, value: unknown])[]
}

export interface EventTypes {
  readonly provider: ProviderName
  /** Cases of a raw type are in the order in which they are tried. */
  readonly cases: readonly CatalogueCase[]
  /** Returns the normalized type; undefined if the raw type is unlisted or no case applies. Never throws. */
  typeOf(rawType: string, body: JsonObject): string | undefined
  sampleOf(one: CatalogueCase): JsonObject
}

/** Makes the table of a provider's event types. The sample of each case is a payload that matches the conditions of the case. */
export function eventTypes(
  provider: ProviderName,
  rows: readonly TypeRow[],
  samples: readonly Sample[],
): EventTypes {
  const cases = rows.map(({ raw, type, when = [], since = firstVersion, example = {}, without = [] }) => ({
    rawType: raw,
    type,
    conditions: when,
    since,
    example: [...Object.entries(example), ...without.map((path): [string, unknown] => [path, undefined])],
  }))
  const payloadOf = samplePayloads(samples)
  return {
    provider,
    cases,
    typeOf: typeLookup(cases),
    sampleOf: ({ rawType, type, conditions, example }) =>
      withMembers(conditions.reduce(fulfil, payloadOf(rawType, type)), example),
  }
}

/** Returns a function that finds the sample payload of a raw type and type; it returns an empty payload if there is none. */
function samplePayloads(samples: readonly Sample[]): (rawType: string, type: string) => JsonObject {
  const payloads = new Map<string, JsonObject>()
  const keyOf = (raw: string, type = '') => `${raw}\n${type}`
  for (const { raw, type, payload, like = '', with: members = {} } of samples) {
    const base = payload ?? payloads.get(keyOf(like)) ?? {}
    payloads.set(keyOf(raw, type), withMembers(base, Object.entries(members)))
  }
  return (rawType, type) => payloads.get(keyOf(rawType, type)) ?? payloads.get(keyOf(rawType)) ?? {}
}

function withMembers(base: JsonObject, members: CatalogueCase['example']): JsonObject {
  return members.reduce((payload, [path, value]) => replace(payload, path.split('.'), () => value), base)
}

function fulfil(payload: JsonObject, condition: Condition): JsonObject {
  return replace(payload, condition.path.split('.'), (value) => {
    if ('values' in condition)
      return condition.values.some((each) => each === value) ? value : condition.values[0]
    return condition.isPresent ? (value ?? {}) : null
  })
}

/** Returns a copy with another value at the path. Creates missing objects on the path. */
function replace(
  payload: JsonObject,
  [first = '', ...rest]: readonly string[],
  valueOf: (value: unknown) => unknown,
): JsonObject {
  const inner = payload[first]
  if (rest.length === 0) return { ...payload, [first]: valueOf(inner) }
  return { ...payload, [first]: replace(isJsonObject(inner) ? inner : {}, rest, valueOf) }
}

/** Raw type that leads to a normalized type. */
export interface TypeSource {
  readonly providerRawType: string
  /** Conditions that the payload must all match. */
  readonly conditions: readonly Condition[]
  /** Types of the same raw type that take precedence if their conditions hold. */
  readonly unless: readonly string[]
  readonly since: string
}

/** Normalized type of the catalogue. */
export interface CatalogueEntry {
  readonly type: string
  readonly description: string
  readonly since: string
  readonly providers: readonly {
    readonly provider: ProviderName
    readonly since: string
    readonly sources: readonly TypeSource[]
    readonly providerRawType: string
    readonly example: JsonObject
  }[]
}

/** Sorts the types in alphabetical order. */
export function catalogueOf(tables: readonly EventTypes[]): readonly CatalogueEntry[] {
  const types = new Set(tables.flatMap(({ cases }) => cases.map(({ type }) => type)))
  return [...types].sort().map((type) => {
    const providers = tables.flatMap((table) => {
      const own = table.cases.filter((each) => each.type === type)
      const [first] = own
      if (first === undefined) return []
      const sources = own.map((one) => sourceOf(table, one))
      const example = { providerRawType: first.rawType, example: table.sampleOf(first) }
      return [{ provider: table.provider, since: earliest(own), sources, ...example }]
    })
    return { type, description: eventTypeTexts.get(type) ?? '', since: earliest(providers), providers }
  })
}

function sourceOf({ cases }: EventTypes, one: CatalogueCase): TypeSource {
  const { rawType, type, conditions, since } = one
  const unless = cases
    .slice(0, cases.indexOf(one))
    .filter((each) => each.rawType === rawType && each.type !== type && canBothHold(each, one))
    .map((each) => each.type)
  return { providerRawType: rawType, conditions, unless: [...new Set(unless)], since }
}

function canBothHold(one: CatalogueCase, other: CatalogueCase): boolean {
  return !one.conditions.some((a) => other.conditions.some((b) => excludes(a, b) || excludes(b, a)))
}

function excludes(a: Condition, b: Condition): boolean {
  const isSame = a.path === b.path
  if ('values' in a) return isSame && 'values' in b && !a.values.some((value) => b.values.includes(value))
  // If a member must be absent, no condition can require a value of this member or of a member below it.
  return !a.isPresent && ('values' in b || b.isPresent) && (isSame || b.path.startsWith(`${a.path}.`))
}

function earliest(all: readonly { readonly since: string }[]): string {
  return all.map(({ since }) => since).sort(Bun.semver.order)[0] ?? firstVersion
}

/** Returns the conditions of a source as text, without its `unless`; empty if it has none. */
export function conditionsText({ conditions }: TypeSource): string {
  return conditions.map(conditionText).join(' and ')
}

function conditionText(condition: Condition): string {
  if ('isPresent' in condition) return `${condition.path} is ${condition.isPresent ? 'present' : 'absent'}`
  return `${condition.path} is ${condition.values.map(String).join(' or ')}`
}

/** Areas of the vocabulary with their nouns in alphabetical order. */
export const eventAreas = Object.entries(areas).map(([title, nouns]) => ({
  title,
  nouns: Object.keys(nouns).sort(),
}))

/** Meaning of each normalized type in one sentence. */
export const eventTypeTexts: ReadonlyMap<string, string> = new Map(
  Object.values(areas).flatMap((each) =>
    Object.entries(each).flatMap(([noun, meanings]) =>
      Object.entries(meanings).map(([verb, text]): [string, string] => [`${noun}.${verb}`, text]),
    ),
  ),
)
