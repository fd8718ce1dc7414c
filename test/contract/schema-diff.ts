// Classifies differences between two versions of a JSON Schema as compatible or breaking.

/** JSON Schema in the form of `plainSchema`. */
export type Schema = { readonly [keyword: string]: unknown }

/** Named schemas that a `$ref` refers to. */
export type Schemas = Readonly<Record<string, Schema>>

/**
 * Sender of the values. A `request` comes from callers: what the older schema accepts must stay accepted. An `answer` comes from
 * Latchkey: its values must stay such that a reader of the older schema understands them.
 */
export type Direction = 'request' | 'answer'

/** Difference between two versions. */
export interface Difference {
  /** Place, such as `GET /internal/v1/events answer 200 EventPage.items`. */
  readonly at: string
  readonly change: string
  readonly breaking: boolean
}

/** What a comparison needs at every place. */
export interface Comparison {
  readonly direction: Direction
  readonly older: Schemas
  readonly newer: Schemas
  /** Named schemas that are already compared; each is compared once per direction. */
  readonly compared: Set<string>
  report(difference: Difference): void
}

const unlimited = Number.POSITIVE_INFINITY
/** Limits by keyword; a smaller value of an upper limit narrows a schema, and a larger value of a lower limit does. */
const upperBounds = ['maxLength', 'maximum', 'exclusiveMaximum', 'maxItems', 'maxProperties']
const lowerBounds = ['minLength', 'minimum', 'exclusiveMinimum', 'minItems', 'minProperties']
/** Keywords that restrict values in a way that is only compared as equal or different. */
const constraints = [
  'pattern',
  'format',
  'multipleOf',
  'uniqueItems',
  'contentMediaType',
  'contentEncoding',
  'propertyNames',
  'patternProperties',
  'not',
  'dependentRequired',
]
/** Keywords of CustomResourceDefinitions that change how the API server stores or merges values. */
const kubernetes = [
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-int-or-string',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-embedded-resource',
]
const handled = new Set([
  ...upperBounds,
  ...lowerBounds,
  ...constraints,
  ...kubernetes,
  '$ref',
  'type',
  'nullable',
  'enum',
  'x-may-grow',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'anyOf',
  'allOf',
  'default',
  'deprecated',
  'x-kubernetes-validations',
])

/** Compares two versions of a schema and reports every difference. */
export function compareSchemas(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const name = refOf(older)
  if (name !== undefined && name === refOf(newer)) {
    const key = `${how.direction} ${name}`
    if (how.compared.has(key)) return
    how.compared.add(key)
    compareSchemas(resolve(older, how.older), resolve(newer, how.newer), `${name} (${how.direction})`, how)
    return
  }
  const before = resolve(older, how.older)
  const after = resolve(newer, how.newer)
  if (before['anyOf'] !== undefined || after['anyOf'] !== undefined) {
    compareAlternatives(before, after, at, how)
    return
  }
  compareTypes(before, after, at, how)
  compareEnums(before, after, at, how)
  // Skips bounds if both versions have a closed set, which says more than the bounds and patterns of its values.
  if (before['enum'] === undefined || after['enum'] === undefined) {
    compareBounds(before, after, at, how)
    compareConstraints(before, after, at, how)
  }
  compareProperties(before, after, at, how)
  if (isSchema(before['items']) || isSchema(after['items']))
    compareSchemas(elementsOf(before), elementsOf(after), `${at}[]`, how)
  compareOthers(before, after, at, how)
}

function refOf(schema: Schema): string | undefined {
  return typeof schema['$ref'] === 'string' ? schema['$ref'] : undefined
}

function resolve(schema: Schema, named: Schemas): Schema {
  const name = refOf(schema)
  if (name === undefined) return schema
  const found = named[name]
  if (found === undefined) throw new Error(`the schema ${name} does not exist`)
  return found
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Schema of the elements; a list without one has any elements. */
function elementsOf({ items }: Schema): Schema {
  return isSchema(items) ? items : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined ? [] : [value]
}

/** Reports a narrower schema as breaking for requests, and a wider one as breaking for answers. */
function classify(kind: 'narrower' | 'wider' | 'other', at: string, change: string, how: Comparison): void {
  const safe = how.direction === 'request' ? 'wider' : 'narrower'
  how.report({ at, change, breaking: kind !== safe })
}

/** Types that a schema allows; undefined: any. */
function typesOf(schema: Schema): readonly unknown[] | undefined {
  if (schema['type'] === undefined) return undefined
  return [...listOf(schema['type']), ...(schema['nullable'] === true ? ['null'] : [])]
}

function compareTypes(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const [before, after] = [typesOf(older), typesOf(newer)]
  const accepts = (types: typeof before, type: unknown) =>
    types === undefined || types.includes(type) || (type === 'integer' && types.includes('number'))
  const isNarrower = before === undefined ? after !== undefined : before.some((each) => !accepts(after, each))
  const isWider = after === undefined ? before !== undefined : after.some((each) => !accepts(before, each))
  if (!isNarrower && !isWider) return
  const kind = isNarrower && isWider ? 'other' : isNarrower ? 'narrower' : 'wider'
  classify(kind, at, `type ${textOf(before)} became ${textOf(after)}`, how)
}

function compareEnums(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const [before, after] = [older['enum'], newer['enum']]
  if (before === undefined && after === undefined) return
  if (after === undefined) {
    // Allows a new value of a set that is documented as extensible.
    if (how.direction === 'answer' && older['x-may-grow'] === true) return
    classify('wider', at, 'the closed set of values became open', how)
    return
  }
  if (before === undefined) {
    classify('narrower', at, 'the open set of values became closed', how)
    return
  }
  for (const value of listOf(before))
    if (!listOf(after).includes(value)) classify('narrower', at, `value ${textOf(value)} removed`, how)
  const mayGrow = how.direction === 'answer' && newer['x-may-grow'] === true
  reportGrowing(older, newer, at, how)
  for (const value of listOf(after)) {
    if (listOf(before).includes(value)) continue
    if (mayGrow) how.report({ at, change: `value ${textOf(value)} added`, breaking: false })
    else classify('wider', at, `value ${textOf(value)} added`, how)
  }
}

/** Reports a mark by which values may be added of which an older reader does not expect that. */
function reportGrowing(older: Schema, newer: Schema, at: string, how: Comparison): void {
  if (how.direction === 'answer' && newer['x-may-grow'] === true && older['x-may-grow'] !== true)
    classify('wider', at, 'the set of values may grow', how)
}

function compareBounds(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const numberOf = (value: unknown, absent: number) => (typeof value === 'number' ? value : absent)
  for (const [keywords, absent, sign] of [
    [upperBounds, unlimited, 1],
    [lowerBounds, -unlimited, -1],
  ] as const)
    for (const keyword of keywords) {
      const before = numberOf(older[keyword], absent)
      const after = numberOf(newer[keyword], absent)
      if (before === after) continue
      const kind = (after - before) * sign < 0 ? 'narrower' : 'wider'
      classify(kind, at, `${keyword} ${textOf(older[keyword])} became ${textOf(newer[keyword])}`, how)
    }
}

function compareConstraints(older: Schema, newer: Schema, at: string, how: Comparison): void {
  for (const keyword of constraints) {
    const [before, after] = [older[keyword], newer[keyword]]
    if (isEqual(before, after)) continue
    const kind = before === undefined ? 'narrower' : after === undefined ? 'wider' : 'other'
    classify(kind, at, `${keyword} ${verbOf(kind)}`, how)
  }
  const rulesOf = (schema: Schema) =>
    listOf(schema['x-kubernetes-validations']).map((each) => (isSchema(each) ? each['rule'] : each))
  const [before, after] = [rulesOf(older), rulesOf(newer)]
  for (const rule of before)
    if (!after.includes(rule)) classify('wider', at, `validation ${textOf(rule)} removed`, how)
  for (const rule of after)
    if (!before.includes(rule)) classify('narrower', at, `validation ${textOf(rule)} added`, how)
}

function verbOf(kind: 'narrower' | 'wider' | 'other'): string {
  return { narrower: 'added', wider: 'removed', other: 'changed' }[kind]
}

function compareProperties(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const before = (older['properties'] ?? {}) as Schemas
  const after = (newer['properties'] ?? {}) as Schemas
  const wasRequired = (name: string) => listOf(older['required']).includes(name)
  const isRequired = (name: string) => listOf(newer['required']).includes(name)
  const isRequest = how.direction === 'request'
  for (const [name, schema] of Object.entries(before)) {
    const place = `${at}.${name}`
    const next = after[name]
    if (next === undefined) {
      how.report({ at: place, change: 'removed', breaking: true })
      continue
    }
    if (wasRequired(name) && !isRequired(name))
      how.report({ at: place, change: 'became optional', breaking: !isRequest })
    if (!wasRequired(name) && isRequired(name))
      how.report({ at: place, change: 'became required', breaking: isRequest })
    compareSchemas(schema, next, place, how)
  }
  for (const name of Object.keys(after)) {
    if (before[name] !== undefined) continue
    const change = isRequired(name) ? 'added, required' : 'added'
    how.report({ at: `${at}.${name}`, change, breaking: isRequest && isRequired(name) })
  }
  compareAdditional(older, newer, at, how)
}

/** Compares `additionalProperties`. Readers must ignore unknown fields, so that a boolean says nothing about answers. */
function compareAdditional(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const before = older['additionalProperties'] ?? true
  const after = newer['additionalProperties'] ?? true
  if (isSchema(before) && isSchema(after)) {
    compareSchemas(before, after, `${at}{}`, how)
    return
  }
  if (isEqual(before, after) || (how.direction === 'answer' && !isSchema(before) && !isSchema(after))) return
  const rank = (value: unknown) => (value === true ? 2 : value === false ? 0 : 1)
  const kind = rank(after) < rank(before) ? 'narrower' : 'wider'
  classify(kind, at, `unknown fields: ${textOf(before)} became ${textOf(after)}`, how)
}

function compareOthers(older: Schema, newer: Schema, at: string, how: Comparison): void {
  if (how.direction === 'request' && !isEqual(older['default'], newer['default']))
    how.report({
      at,
      change: `default ${textOf(older['default'])} became ${textOf(newer['default'])}`,
      breaking: true,
    })
  for (const keyword of kubernetes)
    if (!isEqual(older[keyword], newer[keyword]))
      how.report({ at, change: `${keyword} changed`, breaking: true })
  if (older['deprecated'] !== newer['deprecated'])
    how.report({ at, change: newer['deprecated'] ? 'deprecated' : 'no longer deprecated', breaking: false })
  if (older['x-may-grow'] === true && newer['x-may-grow'] !== true)
    how.report({ at, change: 'the set of values may no longer grow', breaking: false })
  compareAll(older, newer, at, how)
  for (const keyword of new Set([...Object.keys(older), ...Object.keys(newer)]))
    if (!handled.has(keyword) && !isEqual(older[keyword], newer[keyword]))
      how.report({ at, change: `${keyword} changed, for which there is no rule`, breaking: true })
}

function compareAll(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const before = listOf(older['allOf']).filter(isSchema)
  const after = listOf(newer['allOf']).filter(isSchema)
  if (before.length !== after.length) {
    classify(after.length > before.length ? 'narrower' : 'wider', at, 'parts of allOf changed', how)
    return
  }
  for (const [index, each] of before.entries()) compareSchemas(each, after[index] ?? {}, at, how)
}

/**
 * Compares alternatives. For a request every older alternative needs a newer one that accepts it, for an answer every newer alternative
 * needs an older one that a reader knows. An alternative without a counterpart is compared with the one at the same place among those
 * that are left, so that the report names the difference.
 */
function compareAlternatives(older: Schema, newer: Schema, at: string, how: Comparison): void {
  const before = alternativesOf(older)
  const after = alternativesOf(newer)
  const isRequest = how.direction === 'request'
  const fits = (one: Schema, other: Schema) =>
    !differencesOf(one, other, at, how).some((each) => each.breaking)
  const missing = isRequest
    ? before.filter((each) => !after.some((other) => fits(each, other)))
    : after.filter((each) => !before.some((other) => fits(other, each)))
  const free = isRequest
    ? after.filter((each) => !before.some((other) => fits(other, each)))
    : before.filter((each) => !after.some((other) => fits(each, other)))
  const mayGrow = !isRequest && newer['x-may-grow'] === true
  reportGrowing(older, newer, at, how)
  for (const [index, each] of missing.entries()) {
    const other = free[index]
    if (other === undefined && mayGrow)
      how.report({ at, change: `alternative ${labelOf(each)} added`, breaking: false })
    else if (other !== undefined)
      compareSchemas(...(isRequest ? ([each, other] as const) : ([other, each] as const)), at, how)
    else
      classify(
        isRequest ? 'narrower' : 'wider',
        at,
        `alternative ${labelOf(each)} ${isRequest ? 'removed' : 'added'}`,
        how,
      )
  }
  for (const each of free.slice(missing.length))
    classify(
      isRequest ? 'wider' : 'narrower',
      at,
      `alternative ${labelOf(each)} ${isRequest ? 'added' : 'removed'}`,
      how,
    )
}

function alternativesOf(schema: Schema): readonly Schema[] {
  const { anyOf, ...rest } = schema
  return anyOf === undefined
    ? [schema]
    : listOf(anyOf)
        .filter(isSchema)
        .map((each) => ({ ...rest, ...each }))
}

/** Returns the differences without reporting them. */
function differencesOf(older: Schema, newer: Schema, at: string, how: Comparison): readonly Difference[] {
  const found: Difference[] = []
  compareSchemas(older, newer, at, {
    ...how,
    compared: new Set(),
    report: (difference) => void found.push(difference),
  })
  return found
}

function labelOf(schema: Schema): string {
  if (refOf(schema) !== undefined) return String(refOf(schema))
  if (isSchema(schema['properties'])) return `{${Object.keys(schema['properties']).join(', ')}}`
  return textOf(schema['enum'] ?? schema['type'])
}

function textOf(value: unknown): string {
  return value === undefined ? 'none' : typeof value === 'string' ? `"${value}"` : JSON.stringify(value)
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
