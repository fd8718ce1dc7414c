import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { timestampPattern } from '../model.ts'

/** A CEL rule on the value `self`; `fieldPath` names the field to fix, relative to it. */
export interface CelRule {
  readonly rule: string
  readonly message: string
  readonly fieldPath?: string
  readonly reason?: 'FieldValueRequired' | 'FieldValueForbidden'
}

/** A structural schema of Kubernetes: OpenAPI with a closed set of fields. */
export interface StructuralSchema {
  readonly type: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  readonly description?: string
  readonly default?: unknown
  readonly format?: 'date-time' | 'int32' | 'int64'
  readonly enum?: readonly string[]
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly properties?: Readonly<Record<string, StructuralSchema>>
  readonly required?: readonly string[]
  readonly items?: StructuralSchema
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-validations'?: readonly CelRule[]
}

/** Additions to the TypeBox schema by path; `spec.providers[]` is an entry of `spec.providers`. */
export interface KubernetesNotes {
  readonly rules: Readonly<Record<string, readonly CelRule[]>>
  /** Key field of lists of objects. */
  readonly keys: Readonly<Record<string, string>>
}

type Draft = { -readonly [K in keyof StructuralSchema]: StructuralSchema[K] }

const bounds = ['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems'] as const
const known = new Set<string>([
  ...bounds,
  ...['type', 'description', 'default', 'enum', 'pattern', 'uniqueItems'],
  ...['properties', 'required', 'additionalProperties', 'items'],
])
/** Maximum that descriptions leave out. */
const boundUnsaid = 1_000_000_000_000_000
const int32Max = 2_147_483_647

/**
 * Converts a TypeBox schema of objects, lists, texts, integers and booleans to a structural schema. Adds bounds and defaults to the
 * descriptions, since `kubectl explain` shows nothing else of them. @throws for an unknown keyword, and for a list of objects without a key
 */
export function structuralSchema(schema: TSchema, path: string, notes: KubernetesNotes): StructuralSchema {
  const lost = Object.keys(schema).find((keyword) => !known.has(keyword))
  if (lost !== undefined) throw new Error(`${path}: keyword ${lost} is not supported`)
  const draft: Draft = { type: schema['type'], description: described(schema) }
  for (const name of bounds) if (schema[name] !== undefined) draft[name] = schema[name]
  if (schema.default !== undefined) draft.default = Value.Default(schema, undefined)
  if (draft.type === 'string') addText(draft, schema)
  if (draft.type === 'integer') draft.format = (schema['maximum'] ?? 0) > int32Max ? 'int64' : 'int32'
  if (draft.type === 'array') addEntries(draft, { schema, path, notes })
  if (draft.type === 'object') addFields(draft, { schema, path, notes })
  const rules = notes.rules[path]
  if (rules !== undefined) draft['x-kubernetes-validations'] = rules
  return draft
}

/** An enum makes the pattern redundant. */
function addText(draft: Draft, schema: TSchema): void {
  if (schema['enum'] !== undefined) draft.enum = schema['enum']
  else if (schema['pattern'] !== undefined) draft.pattern = schema['pattern']
  // The API server's format also refuses 30 February.
  if (schema['pattern'] === timestampPattern) draft.format = 'date-time'
}

interface Place {
  readonly schema: TSchema
  readonly path: string
  readonly notes: KubernetesNotes
}

function addEntries(draft: Draft, { schema, path, notes }: Place): void {
  const items = structuralSchema(schema['items'], `${path}[]`, notes)
  draft.items = items
  if (items.type === 'object') {
    const key = notes.keys[path]
    if (key === undefined) throw new Error(`${path}: list of objects without a key`)
    draft['x-kubernetes-list-type'] = 'map'
    draft['x-kubernetes-list-map-keys'] = [key]
    return
  }
  draft['x-kubernetes-list-type'] = schema['uniqueItems'] === true ? 'set' : 'atomic'
}

/** A field with a default is not asked for: TypeBox fills it before it checks, and so does the server. */
function addFields(draft: Draft, { schema, path, notes }: Place): void {
  const fields = Object.entries<TSchema>(schema['properties'])
  const asked = new Set<string>(schema['required'] ?? [])
  const required = fields
    .filter(([name, field]) => asked.has(name) && field.default === undefined)
    .map(([name]) => name)
  if (required.length > 0) draft.required = required
  draft.properties = Object.fromEntries(
    fields.map(([name, field]) => [name, structuralSchema(field, `${path}.${name}`, notes)]),
  )
}

function described(schema: TSchema): string {
  const facts = [boundsText(schema), defaultText(schema.default)].filter((text) => text !== '')
  const added = facts.join(', ')
  const text = schema.description ?? ''
  return added === '' ? text : `${text} ${added[0]?.toUpperCase()}${added.slice(1)}.`.trim()
}

function boundsText(schema: TSchema): string {
  const number = (value: number) => value.toLocaleString('en-US')
  if (schema['maximum'] !== undefined) {
    const open = schema['maximum'] >= boundUnsaid
    return open
      ? `${number(schema['minimum'])} or more`
      : `${number(schema['minimum'])} to ${number(schema['maximum'])}`
  }
  if (schema['maxItems'] !== undefined) {
    const least = schema['minItems'] === undefined ? 'at most ' : `${schema['minItems']} to `
    return `${least}${schema['maxItems']} entries`
  }
  if (schema['pattern'] === timestampPattern) return 'RFC 3339, such as 2026-11-01T09:00:00Z'
  return schema['maxLength'] === undefined ? '' : `at most ${number(schema['maxLength'])} characters`
}

function defaultText(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'none by default' : `by default ${value.join(' ')}`
  if (typeof value === 'number') return `by default ${value.toLocaleString('en-US')}`
  return typeof value === 'string' || typeof value === 'boolean' ? `by default ${value}` : ''
}
