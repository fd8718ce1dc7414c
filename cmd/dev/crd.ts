import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { stringify } from 'yaml'
import { timestampPattern } from '#internal/base/index.ts'
import { type FieldRule, tenantApiVersion } from '#internal/tenants/index.ts'
import type { Schema } from './reference/schema-text.ts'

interface Resource {
  readonly kind: string
  readonly plural: string
  readonly shortName: string
  readonly scope: 'Cluster' | 'Namespaced'
  readonly columns: readonly Schema[]
  readonly selectableFields?: readonly { readonly jsonPath: string }[]
  readonly description: string
  readonly name: Schema
  readonly spec: Schema
  readonly status: Schema
  readonly rules?: readonly Schema[]
}

/** Returns the YAML text of a resource's definition. `source` names the file with the schema of its spec. */
export function crdText(resource: Resource, source: string): string {
  const [group = '', version = ''] = tenantApiVersion.split('/')
  const { kind, plural, columns, selectableFields, rules } = resource
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: resource.scope,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [resource.shortName],
        categories: ['latchkey'],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          ...(selectableFields && { selectableFields }),
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: resource.description,
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string', description: `Always ${tenantApiVersion}.` },
                kind: { type: 'string', description: `Always ${kind}.` },
                metadata: { type: 'object', properties: { name: resource.name } },
                spec: resource.spec,
                status: resource.status,
              },
              ...(rules && { 'x-kubernetes-validations': rules }),
            },
          },
        },
      ],
    },
  }
  const heading = `# Written by \`npm run generate\` from the schema in ${source}, with which a folder’s manifests are checked.\n`
  // Writes YAML 1.1, which kubectl reads and in which an unquoted `off` is false.
  return heading + stringify(definition, { version: '1.1', lineWidth: 0, aliasDuplicateObjects: false })
}

export function column(name: string, type: string, description: string, jsonPath: string) {
  return { name, type, description, jsonPath }
}

const bounds = [
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
]

/**
 * Converts a schema of TypeBox to a structural schema. A union of scalars becomes a value of any type, which the operator checks.
 * @param isComplete whether integers have formats, and descriptions end with the bounds and the default
 */
export function structural(schema: Schema, isComplete: boolean): Schema {
  const text = isComplete ? `${String(schema['description'])}${factsOf(schema)}` : schema['description']
  const described = schema['description'] === undefined ? {} : { description: text }
  if (schema['anyOf'] !== undefined) return { ...described, 'x-kubernetes-preserve-unknown-fields': true }
  const kept = keywordsOf(schema, [...bounds, 'enum'])
  const value = defaultOf(schema)
  const shared: Schema = {
    type: schema['type'],
    ...described,
    ...kept,
    ...rulesOf(schema),
    ...(value !== undefined && { default: value }),
  }
  if (schema['enum'] !== undefined) {
    const { minLength: _min, maxLength: _max, ...rest } = shared
    return rest
  }
  switch (schema['type']) {
    case 'array':
      return { ...shared, ...listTypeOf(schema), items: structural(schema['items'] as Schema, isComplete) }
    case 'object':
      return { ...shared, ...fieldsOf(schema, isComplete) }
    case 'integer':
      return {
        ...shared,
        ...keywordsOf(schema, ['format']),
        ...(isComplete && { format: Number(schema['maximum']) > int32Max ? 'int64' : 'int32' }),
      }
    default:
      return {
        ...shared,
        ...keywordsOf(schema, ['pattern', 'format']),
        // Adds the format `date-time`, by which the API server also refuses 30 February.
        ...(isComplete && schema['pattern'] === timestampPattern && { format: 'date-time' }),
      }
  }
}

const int32Max = 2_147_483_647

function keywordsOf(schema: Schema, names: readonly string[]): Schema {
  return Object.fromEntries(
    names.flatMap((name) => (schema[name] === undefined ? [] : [[name, schema[name]]])),
  )
}

/** Returns the rules that have an expression, without the functions that make the same checks for manifests in a folder. */
function rulesOf(schema: Schema): Schema {
  const all = (schema['x-kubernetes-validations'] ?? []) as readonly FieldRule<never>[]
  const rules = all.filter(({ rule }) => rule !== undefined).map(({ holds: _holds, ...rest }) => rest)
  return rules.length === 0 ? {} : { 'x-kubernetes-validations': rules }
}

/** The default of an object includes the defaults of its fields, since the API server does not fill them in. */
function defaultOf(schema: Schema): unknown {
  return schema['default'] === undefined ? undefined : Value.Default(schema as unknown as TSchema, undefined)
}

function listTypeOf(schema: Schema): Schema {
  const keys = schema['x-kubernetes-list-map-keys']
  if (keys !== undefined) return { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys }
  return { 'x-kubernetes-list-type': schema['uniqueItems'] === true ? 'set' : 'atomic' }
}

/** Returns bounds and default as text, because `kubectl explain` does not show them otherwise. */
function factsOf(schema: Schema): string {
  const { minimum, maximum, minItems, maxItems, maxLength, default: value } = schema
  const bound = (each: unknown) => Number(each).toLocaleString('en-US')
  switch (schema['type']) {
    case 'integer':
      if (Number(maximum) >= 1e15) return ` ${bound(minimum)} or more.`
      return ` ${bound(minimum)} to ${bound(maximum)}${value === undefined ? '' : `, by default ${bound(value)}`}.`
    case 'array': {
      const entries =
        minItems === undefined ? `At most ${bound(maxItems)}` : `${bound(minItems)} to ${bound(maxItems)}`
      if (!Array.isArray(value)) return ` ${entries} entries.`
      return ` ${entries} entries, ${value.length === 0 ? 'none by default' : `by default ${value.join(' ')}`}.`
    }
    case 'string':
      if (schema['pattern'] === timestampPattern) return ' RFC 3339, such as 2026-11-01T09:00:00Z.'
      if (schema['enum'] === undefined) return ` At most ${bound(maxLength)} characters.`
      return value === undefined ? '' : ` By default ${String(value)}.`
    default:
      return typeof value === 'boolean' ? ` By default ${value}.` : ''
  }
}

function fieldsOf(schema: Schema, isComplete: boolean): Schema {
  const [values] = Object.values((schema['patternProperties'] ?? {}) as Record<string, Schema>)
  if (values) return { additionalProperties: structural(values, isComplete) }
  const fields = (schema['properties'] ?? {}) as Record<string, Schema>
  // A field with a default is not required, since the API server fills in defaults before it checks required fields.
  const required = ((schema['required'] ?? []) as readonly string[]).filter(
    (name) => fields[name]?.['default'] === undefined,
  )
  return {
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(
      Object.entries(fields).map(([name, field]) => [name, structural(field, isComplete)]),
    ),
  }
}
