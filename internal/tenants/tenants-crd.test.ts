import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import { parseAllDocuments } from 'yaml'
import { Tenant } from './model.ts'
import { adoptAnnotation } from './tenant-object.ts'

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
