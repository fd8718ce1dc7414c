import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import { parseAllDocuments } from 'yaml'
import { timestampPattern } from '#internal/base/index.ts'
import { portsBlocked } from '#internal/egress/index.ts'
import { limitNames, providerAliases, Tenant, tenantApiVersion } from './model.ts'
import { conditionTypes } from './reconcile/conditions.ts'
import { adoptAnnotation } from './tenant-object.ts'
import { ownKinds } from './usage-kinds.ts'

const folder = resolve(import.meta.dir, '../../crds')

type Schema = Readonly<Record<string, unknown>>
type Fields = Readonly<Record<string, Schema>>

/** As kubectl reads it, whose YAML is that of 1.1: a bare `off` would be false. */
function documentsOf(name: string): Record<string, unknown>[] {
  const documents = parseAllDocuments(readFileSync(resolve(folder, name), 'utf8'), { version: '1.1' })
  return 'empty' in documents ? [] : documents.map((each) => each.toJS() as Record<string, unknown>)
}

const definition = documentsOf('latchkey.dev_tenants.yaml')[0] as {
  spec: {
    group: string
    versions: [{ name: string; schema: { openAPIV3Schema: { properties: Fields } } }]
  }
}
const [version] = definition.spec.versions
const served = version.schema.openAPIV3Schema.properties
const model = Tenant.properties.spec as Schema
const spec = served['spec'] ?? {}
const status = served['status'] ?? {}

test('crds folder: contains the definitions and the admission policies', () => {
  expect(readdirSync(folder).toSorted()).toEqual([
    'latchkey.dev_providers.yaml',
    'latchkey.dev_tenants.yaml',
    'providers-platform.latchkey.dev.yaml',
    'tenants-platform.latchkey.dev.yaml',
  ])
})

test('Tenant definition: group and version equal the schema’s apiVersion', () => {
  expect(`${definition.spec.group}/${version.name}`).toBe(tenantApiVersion)
})

/** Schema facts of one value; undefined where a side has none. */
interface Facts {
  readonly type: unknown
  readonly bounds: readonly unknown[]
  readonly pattern: unknown
  readonly enum: unknown
  readonly default: unknown
  readonly required: readonly string[]
  readonly unique: boolean
  readonly format: unknown
}

const boundNames = ['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems']

/** All values of a schema by their path, `spec.providers[].name`; `read` takes one side's way of saying things. */
function flatten(schema: Schema, path: string, read: (schema: Schema) => Facts): [string, Facts][] {
  const fields = Object.entries((schema['properties'] ?? {}) as Fields)
  const items = schema['items'] as Schema | undefined
  return [
    [path, read(schema)],
    ...fields.flatMap(([name, field]) => flatten(field, `${path}.${name}`, read)),
    ...(items === undefined ? [] : flatten(items, `${path}[]`, read)),
  ]
}

function ofTypeBox(schema: Schema): Facts {
  const fields = (schema['properties'] ?? {}) as Fields
  return {
    type: schema['type'],
    bounds: boundNames.map((name) => schema[name]),
    // TypeBox itself does not know `enum`, and checks the pattern that says the same.
    pattern: schema['enum'] === undefined ? schema['pattern'] : undefined,
    enum: schema['enum'],
    default: emptied(schema['default'], schema),
    required: ((schema['required'] ?? []) as string[]).filter((name) => !('default' in (fields[name] ?? {}))),
    unique: schema['uniqueItems'] === true,
    format: formatOf(schema),
  }
}

function ofKubernetes(schema: Schema): Facts {
  return {
    type: schema['type'],
    bounds: boundNames.map((name) => schema[name]),
    pattern: schema['pattern'],
    enum: schema['enum'],
    default: emptied(schema['default'], schema),
    required: (schema['required'] ?? []) as string[],
    unique: schema['x-kubernetes-list-type'] === 'set',
    format: schema['format'],
  }
}

/** The API server's date-time also refuses 30 February. */
function formatOf(schema: Schema): string | undefined {
  if (schema['pattern'] === timestampPattern) return 'date-time'
  if (schema['type'] !== 'integer') return undefined
  return Number(schema['maximum']) > 2_147_483_647 ? 'int64' : 'int32'
}

/** Replaces the default of an object with `{}`, since the defaults of its fields are compared one by one. */
function emptied(value: unknown, { type }: Schema): unknown {
  return type === 'object' && value !== undefined ? {} : value
}

test('Tenant definition: spec has the same fields, types, limits, enums and defaults as the schema', () => {
  const kubernetes = Object.fromEntries(flatten(spec, 'spec', ofKubernetes))
  const typeBox = Object.fromEntries(flatten(model, 'spec', ofTypeBox))
  expect(Object.keys(kubernetes)).toEqual(Object.keys(typeBox))
  expect(kubernetes).toEqual(typeBox)
})

test('Tenant definition: each description of spec starts with the schema’s description and states maximum and default', () => {
  const all = new Map(values(spec, 'spec'))
  for (const [path, schema] of values(model, 'spec')) {
    const { maximum, maxItems, default: value } = schema
    const description = String(all.get(path)?.['description'])
    expect(description).toStartWith(String(schema['description']))
    const facts = [Number(maximum) < 1e15 ? maximum : undefined, maxItems, value]
    for (const fact of facts.filter((each) => ['number', 'string', 'boolean'].includes(typeof each)))
      expect(description).toContain(typeof fact === 'number' ? fact.toLocaleString('en-US') : String(fact))
  }
})

test('Tenant definition: the description of the status lists every condition type', () => {
  const all = new Map(values(status, 'status'))
  const description = String(all.get('status.conditions[].type')?.['description'])
  for (const type of [...conditionTypes, 'DeletionWaiting']) expect(description).toContain(type)
})

describe.each([
  ['spec', spec],
  ['status', status],
])('%s', (name, here) => {
  test(`Tenant definition: every field of ${name} has limits and a description`, () => {
    const loose = values(here, name).filter(([, schema]) => !isBounded(schema) || !isDescribed(schema))
    expect(loose.map(([path]) => path)).toEqual([])
  })

  test(`Tenant definition: every list in ${name} has a merge type`, () => {
    const lists = values(here, name).filter(([, { type }]) => type === 'array')
    for (const [path, list] of lists) {
      const entries = list['items'] as Schema
      const keys = list['x-kubernetes-list-map-keys'] as string[] | undefined
      const isMap = list['x-kubernetes-list-type'] === 'map'
      expect([path, isMap]).toEqual([path, entries['type'] === 'object'])
      for (const key of keys ?? []) expect(entries['required']).toContain(key)
    }
  })

  test(`Tenant definition: ${name} uses structural keywords only`, () => {
    const odd = ['$ref', 'additionalProperties', 'anyOf', 'allOf', 'oneOf', 'not', 'uniqueItems', 'const']
    const found = values(here, name).flatMap(([path, schema]) =>
      odd.filter((keyword) => keyword in schema).map((keyword) => `${path}: ${keyword}`),
    )
    expect(found).toEqual([])
  })
})

function values(schema: Schema, path: string): [string, Schema][] {
  const fields = Object.entries((schema['properties'] ?? {}) as Fields)
  const items = schema['items'] as Schema | undefined
  return [
    [path, schema],
    ...fields.flatMap(([name, field]) => values(field, `${path}.${name}`)),
    ...(items === undefined ? [] : values(items, `${path}[]`)),
  ]
}

function isBounded(schema: Schema): boolean {
  switch (schema['type']) {
    case 'string':
      return 'maxLength' in schema || 'enum' in schema
    case 'integer':
      return 'minimum' in schema && 'maximum' in schema
    case 'array':
      return 'maxItems' in schema
    default:
      return true
  }
}

function isDescribed({ description }: Schema): boolean {
  return typeof description === 'string' && /[.]$/.test(description)
}

describe('rules', () => {
  interface Rule {
    readonly rule: string
    readonly message: string
    readonly fieldPath?: string
  }
  const fields = new Map(values(spec, 'spec'))
  const rulesOf = (path: string) => (fields.get(path)?.['x-kubernetes-validations'] ?? []) as Rule[]

  test('CEL rules: every rule names an existing field and has a one-line message', () => {
    for (const path of fields.keys()) {
      for (const { fieldPath, message } of rulesOf(path)) {
        if (fieldPath !== undefined) expect(fields.has(`${path}${fieldPath}`)).toBe(true)
        expect(message).toMatch(/^\S.{8,200}\S$/)
      }
    }
  })

  test('CEL rules: every limit refuses a soft value above the hard value', () => {
    for (const name of [...limitNames, 'emitted[]'])
      expect(rulesOf(`spec.limits.${name}`).map(({ message }) => message)).toEqual(['must not exceed hard'])
  })

  test('CEL rules: a limit on an emitted kind is refused for every kind that Latchkey counts itself', () => {
    const [rule] = rulesOf('spec.limits.emitted[].kind')
    expect(rule?.rule).toBe(`!(self in [${ownKinds.map((kind) => `'${kind}'`).join(', ')}])`)
  })

  test('CEL rules: a provider listed under its neutral name and its alias counts as listed twice', () => {
    const pairs = Object.entries(providerAliases).map(([alias, name]) => `['${name}', '${alias}']`)
    expect(rulesOf('spec.providers')[0]?.rule).toStartWith(`[${pairs.join(', ')}].all(`)
    const ofEntry = rulesOf('spec.providers[]').map(({ rule }) => rule)
    for (const [alias, name] of Object.entries(providerAliases))
      for (const rule of ofEntry.filter((each) => each.includes(`'${name}'`)))
        expect(rule).toContain(`self.name in ['${name}', '${alias}']`)
  })

  test('CEL rules: a callback URL with a blocked port is refused', () => {
    const rule = rulesOf('spec.callback.url').find(({ message }) => message.includes('port'))?.rule
    expect(rule).toContain(`:0*(${[...portsBlocked].join('|')}|`)
  })
})

test('admission policy: compares each field owned by the platform with its default, and restricts the adopt annotation', () => {
  const [policy] = documentsOf('tenants-platform.latchkey.dev.yaml') as [
    { spec: { variables: { expression: string }[]; validations: { expression: string }[] } },
  ]
  const { properties } = Tenant.properties.spec
  const compared = policy.spec.validations.flatMap(({ expression }) => {
    const [, field, standard] =
      /^dyn\(object\.spec\.(\w+)\) == \(oldObject == null \? dyn\((.*)\) : /.exec(expression) ?? []
    if (field === undefined || standard === undefined) return []
    return [[field, JSON.parse(standard.replaceAll(/dyn\(([^)]*)\)/g, '$1').replaceAll("'", '"'))] as const]
  })
  const fields = ['limits', 'walletRollout', 'retention', 'records'] as const
  const defaults = fields.map((name) => [name, Value.Default(properties[name], undefined)] as const)
  expect(compared).toEqual(defaults)
  expect(
    policy.spec.variables.filter(({ expression }) => expression.includes(`'${adoptAnnotation}' in `)),
  ).toHaveLength(2)
})
