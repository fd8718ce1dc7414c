// Event types: the tables that lead from a provider's raw types to normalized types, and the catalogue that publishes them.
import type { ProviderName } from '#internal/tenants/index.ts'
import { isObject, type JsonObject, memberReader } from './normalize.ts'
import { eventTypeTexts } from './vocabulary.ts'

/** JSON value that a condition compares with. */
export type Scalar = string | number | boolean

/** Expected member: one value, one of several, or only whether the member is present. null counts as absent. */
export type Expectation = Scalar | readonly Scalar[] | { readonly isPresent: boolean }

/** A normalized type of a raw type, and when it applies. */
export interface TypeCase {
  readonly type: string
  /** Expected members of the payload by dotted path. All must match. Default: the case always applies. */
  readonly when?: Readonly<Record<string, Expectation>>
  /** First version of Latchkey that has this case. Default: `firstVersion`. */
  readonly since?: string
  /** Further members of the example payload by dotted path, for values that the conditions do not determine. */
  readonly example?: Readonly<Record<string, unknown>>
}

/**
 * Normalized types by raw type: the type, or cases in the order in which they are tried. A raw type without a matching case is treated as
 * unlisted.
 */
export type TypeRows = Readonly<Record<string, string | readonly (string | TypeCase)[]>>

/** Version of Latchkey that published the catalogue first. */
export const firstVersion = '0.1.0'

/** Condition as published: `values` lists the accepted values, `isPresent` accepts any value except null. */
export type Condition =
  | { readonly path: string; readonly values: readonly Scalar[] }
  | { readonly path: string; readonly isPresent: boolean }

/** A case of a table with its raw type. */
export interface CatalogueCase {
  readonly rawType: string
  readonly type: string
  readonly conditions: readonly Condition[]
  readonly since: string
  readonly example: readonly (readonly [path: string, value: unknown])[]
}

/** Table of a provider's event types. */
export interface EventTypes {
  readonly provider: ProviderName
  /** Every case. The cases of a raw type are in the order in which they are tried. */
  readonly cases: readonly CatalogueCase[]
  /** Returns the normalized type of a verified call; undefined for an unlisted raw type and if no case applies. Never throws. */
  typeOf(rawType: string, body: JsonObject): string | undefined
  /** Returns a payload that leads to the case. */
  sampleOf(one: CatalogueCase): JsonObject
}

/** Case of a table as the lookup needs it. */
export type LookupCase = Pick<CatalogueCase, 'rawType' | 'type' | 'conditions'>

interface CompiledCase {
  readonly type: string
  applies(body: JsonObject): boolean
}

/** Compiles cases, in the order in which they are tried, to `EventTypes.typeOf`. */
export function typeLookup(cases: readonly LookupCase[]): EventTypes['typeOf'] {
  // A Map, since a raw type can be called `constructor`.
  const compiled = new Map<string, CompiledCase[]>()
  for (const { rawType, type, conditions } of cases) {
    const known = compiled.get(rawType) ?? []
    compiled.set(rawType, [...known, { type, applies: compileConditions(conditions) }])
  }
  return (rawType, body) => compiled.get(rawType)?.find(({ applies }) => applies(body))?.type
}

/**
 * Creates a provider's table.
 * @param baseOf returns a payload of the vendor's shape for a raw type and a normalized type; the conditions of a case are then written
 * into it
 */
export function eventTypes(
  provider: ProviderName,
  rows: TypeRows,
  baseOf: (rawType: string, type: string) => JsonObject,
): EventTypes {
  const cases = Object.entries(rows).flatMap(([rawType, row]) =>
    (typeof row === 'string' ? [row] : row).map((each) => catalogueCase(rawType, each)),
  )
  return {
    provider,
    cases,
    typeOf: typeLookup(cases),
    sampleOf: ({ rawType, type, conditions, example }) => {
      const base = conditions.reduce(fulfil, baseOf(rawType, type))
      return example.reduce((payload, [path, value]) => replace(payload, path.split('.'), () => value), base)
    },
  }
}

function catalogueCase(rawType: string, one: string | TypeCase): CatalogueCase {
  const {
    type,
    when = {},
    since = firstVersion,
    example = {},
  } = typeof one === 'string' ? { type: one } : one
  const conditions = Object.entries(when).map(conditionOf)
  return { rawType, type, conditions, since, example: Object.entries(example) }
}

function conditionOf([path, expected]: [string, Expectation]): Condition {
  if (typeof expected !== 'object') return { path, values: [expected] }
  return 'isPresent' in expected ? { path, isPresent: expected.isPresent } : { path, values: expected }
}

/** Compiles conditions to a check of whether a body fulfils all of them. */
export function compileConditions(conditions: readonly Condition[]): (body: JsonObject) => boolean {
  const compiled = conditions.map((condition) => ({
    read: memberReader(condition.path),
    matches:
      'values' in condition
        ? (value: unknown) => condition.values.some((each) => each === value)
        : (value: unknown) => (value !== null) === condition.isPresent,
  }))
  return (body) => compiled.every(({ read, matches }) => matches(read(body) ?? null))
}

/** Returns a copy of a payload that fulfils a condition. */
function fulfil(payload: JsonObject, condition: Condition): JsonObject {
  return replace(payload, condition.path.split('.'), (value) => {
    if ('values' in condition)
      return condition.values.some((each) => each === value) ? value : condition.values[0]
    return condition.isPresent ? (value ?? {}) : null
  })
}

/** Returns a copy of a payload with another value at a path. Creates the objects on the way. */
function replace(
  payload: JsonObject,
  [first = '', ...rest]: readonly string[],
  valueOf: (value: unknown) => unknown,
): JsonObject {
  const inner = payload[first]
  if (rest.length === 0) return { ...payload, [first]: valueOf(inner) }
  return { ...payload, [first]: replace(isObject(inner) ? inner : {}, rest, valueOf) }
}

/** Creates the cases of a raw type whose payload names an action. The cases of an action are in the order in which they are tried. */
export function byAction(
  actions: Readonly<Record<string, string | readonly (string | TypeCase)[]>>,
): readonly TypeCase[] {
  return Object.entries(actions).flatMap(([action, row]) =>
    (typeof row === 'string' ? [row] : row).map((each) => {
      const one = typeof each === 'string' ? { type: each } : each
      return { ...one, when: { action, ...one.when } }
    }),
  )
}

/** A provider's raw type that leads to a normalized type. */
export interface TypeSource {
  readonly providerRawType: string
  /** All must match the payload. */
  readonly conditions: readonly Condition[]
  /** Types of the same raw type that apply instead where their conditions hold, too. */
  readonly unless: readonly string[]
  readonly since: string
}

/** A normalized type of the catalogue. */
export interface CatalogueEntry {
  readonly type: string
  readonly description: string
  readonly since: string
  readonly providers: readonly {
    readonly provider: ProviderName
    readonly since: string
    readonly sources: readonly TypeSource[]
    /** Raw type of the example. */
    readonly providerRawType: string
    /** Payload of an event of this type. */
    readonly example: JsonObject
  }[]
}

/** Returns the normalized types of the given tables in alphabetical order. */
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

/** Returns whether a payload can fulfil the conditions of both cases. */
function canBothHold(one: CatalogueCase, other: CatalogueCase): boolean {
  return !one.conditions.some((a) => other.conditions.some((b) => excludes(a, b) || excludes(b, a)))
}

function excludes(a: Condition, b: Condition): boolean {
  const isSame = a.path === b.path
  if ('values' in a) return isSame && 'values' in b && !a.values.some((value) => b.values.includes(value))
  // An absent member has no members.
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
