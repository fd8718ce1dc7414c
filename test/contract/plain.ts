import type { Schema } from './schema-diff.ts'

const prose = new Set([
  'description',
  'summary',
  'title',
  'example',
  'examples',
  'externalDocs',
  '$comment',
  '$schema',
  '$id',
])
/** Keywords whose members are names that the schema's author chose. */
const named = new Set(['properties', 'patternProperties', 'definitions'])

/**
 * Returns a schema without prose, with sorted keys, and with one spelling of equal meanings: constants as a set of one value, constants
 * among alternatives as one set, `oneOf` as `anyOf`, references by name.
 */
export function plainSchema(schema: unknown): Schema {
  return plainValue(schema) as Schema
}

function plainValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainValue)
  if (typeof value !== 'object' || value === null) return value
  const fields: Record<string, unknown> = {}
  for (const [keyword, inner] of Object.entries(value)) {
    if (prose.has(keyword) || inner === undefined) continue
    if (named.has(keyword)) fields[keyword] = mapValues(inner as Record<string, unknown>, plainValue)
    else if (keyword === 'oneOf' || keyword === 'anyOf') fields['anyOf'] = alternatives(inner)
    else if (keyword === 'const') fields['enum'] = [inner]
    else if (keyword === '$ref') fields['$ref'] = String(inner).split('/').at(-1)
    else if (keyword === 'required' || keyword === 'enum')
      fields[keyword] = (inner as unknown[]).toSorted(byText)
    else if (keyword === 'default') fields['default'] = inner
    else fields[keyword] = plainValue(inner)
  }
  return sortKeys(withoutSingleAlternative(fields))
}

/** Returns alternatives of which those with closed sets of one type are one. */
function alternatives(value: unknown): unknown {
  const others: unknown[] = []
  const sets = new Map<string, unknown[]>()
  for (const each of (value as unknown[]).map(plainValue)) {
    const { enum: values, ...rest } = each as { enum?: unknown[] }
    if (values === undefined) others.push(each)
    else {
      const key = JSON.stringify(rest)
      sets.set(key, [...(sets.get(key) ?? []), ...values])
    }
  }
  const merged = [...sets].map(([rest, values]) =>
    sortKeys({ ...(JSON.parse(rest) as object), enum: values.toSorted(byText) }),
  )
  return [...merged, ...others].toSorted(byText)
}

function withoutSingleAlternative(fields: Record<string, unknown>): Record<string, unknown> {
  const { anyOf, ...rest } = fields
  return Array.isArray(anyOf) && anyOf.length === 1 ? { ...rest, ...(anyOf[0] as object) } : fields
}

/** Returns an object with `change` applied to its values, and with sorted keys. */
export function mapValues<Value, Result>(
  of: Readonly<Record<string, Value>>,
  change: (value: Value, key: string) => Result,
): Record<string, Result> {
  const entries = Object.entries(of)
  return sortKeys(Object.fromEntries(entries.map(([key, value]) => [key, change(value, key)])))
}

/** Returns an object with its keys in order. */
export function sortKeys<Value>(of: Readonly<Record<string, Value>>): Record<string, Value> {
  return Object.fromEntries(Object.entries(of).toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

function byText(one: unknown, other: unknown): number {
  const [first, second] = [JSON.stringify(one), JSON.stringify(other)]
  return first < second ? -1 : first > second ? 1 : 0
}

const lineCharsMax = 110

/** Formats JSON such that a difference shows few lines: a value that fits in a line takes one, a longer one a line per member. */
export function jsonText(value: unknown, indent = ''): string {
  const line = JSON.stringify(value)
  if (typeof value !== 'object' || value === null || indent.length + line.length <= lineCharsMax) return line
  const inner = `${indent}  `
  if (Array.isArray(value))
    return `[\n${value.map((each) => inner + jsonText(each, inner)).join(',\n')}\n${indent}]`
  const members = Object.entries(value).map(
    ([key, each]) => `${inner}${JSON.stringify(key)}: ${jsonText(each, inner)}`,
  )
  return `{\n${members.join(',\n')}\n${indent}}`
}
