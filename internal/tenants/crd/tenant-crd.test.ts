import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { Tenant } from '../model.ts'
import { tenantNotes } from './rules.ts'
import { statusNotes, TenantStatus } from './status.ts'
import { structuralSchema } from './structural.ts'
import { crdFiles, platformPolicy, tenantCrd } from './tenant-crd.ts'

const folder = resolve(import.meta.dir, '../../../crds')

type Schema = Readonly<Record<string, unknown>>
type Fields = Readonly<Record<string, Schema>>

/** As kubectl reads it, whose YAML is that of 1.1: a bare `off` would be false. */
function documentsOf(text: string): Record<string, unknown>[] {
  const documents = parseAllDocuments(text, { version: '1.1' })
  return 'empty' in documents ? [] : documents.map((each) => each.toJS() as Record<string, unknown>)
}

const definition = documentsOf(readFileSync(resolve(folder, 'latchkey.dev_tenants.yaml'), 'utf8'))[0] as {
  spec: { versions: { schema: { openAPIV3Schema: { properties: Fields } } }[] }
}
const served = definition.spec.versions[0]?.schema.openAPIV3Schema.properties ?? {}

describe('crds/', () => {
  test.each(crdFiles().map(({ name, text }) => [name, text] as const))(
    'crds/%s is up to date (npm run generate)',
    (name, text) => {
      expect(readFileSync(resolve(folder, name), 'utf8')).toBe(text)
    },
  )

  test('crds/: contains no other files', () => {
    expect(readdirSync(folder).toSorted()).toEqual(
      crdFiles()
        .map(({ name }) => name)
        .toSorted(),
    )
  })

  test('crds/: a YAML 1.1 parser reads the intended values', () => {
    const said = crdFiles().flatMap(({ text }) => documentsOf(text))
    expect(said).toEqual([tenantCrd(), ...platformPolicy()] as Record<string, unknown>[])
  })
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
  }
}

/** An object's default is told field by field, below it. */
function emptied(value: unknown, { type }: Schema): unknown {
  return type === 'object' && value !== undefined ? {} : value
}

describe.each([
  ['spec', Tenant.properties.spec as Schema],
  ['status', TenantStatus as Schema],
])('%s', (name, model) => {
  const here = served[name] ?? {}

  test(`definition of ${name}: same fields, types, bounds, enums and defaults as the schema`, () => {
    const kubernetes = Object.fromEntries(flatten(here, name, ofKubernetes))
    const typeBox = Object.fromEntries(flatten(model, name, ofTypeBox))
    expect(Object.keys(kubernetes)).toEqual(Object.keys(typeBox))
    expect(kubernetes).toEqual(typeBox)
  })

  test(`definition of ${name}: same descriptions as the schema`, () => {
    const said = new Map(values(here, name))
    for (const [path, { description }] of values(model, name)) {
      expect(String(said.get(path)?.['description'])).toStartWith(String(description))
    }
  })

  test(`definition of ${name}: every field has bounds and a description`, () => {
    const loose = values(here, name).filter(([, schema]) => !isBounded(schema) || !isDescribed(schema))
    expect(loose.map(([path]) => path)).toEqual([])
  })

  test(`definition of ${name}: every list has a merge type`, () => {
    const lists = values(here, name).filter(([, { type }]) => type === 'array')
    for (const [path, list] of lists) {
      const entries = list['items'] as Schema
      const keys = list['x-kubernetes-list-map-keys'] as string[] | undefined
      const isMap = list['x-kubernetes-list-type'] === 'map'
      expect([path, isMap]).toEqual([path, entries['type'] === 'object'])
      for (const key of keys ?? []) expect(entries['required']).toContain(key)
    }
  })

  test(`definition of ${name}: uses structural keywords only`, () => {
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
  test('CEL rules: each is in the definition, so its field exists', () => {
    const all = [...values(served['spec'] ?? {}, 'spec'), ...values(served['status'] ?? {}, 'status')]
    const found = all.flatMap(([path, schema]) => {
      const rules = schema['x-kubernetes-validations']
      return rules === undefined ? [] : ([[path, rules]] as const)
    })
    expect(Object.fromEntries(found) as object).toEqual(tenantNotes.rules)
  })

  test('CEL rules: each names an existing field and has a one-line message', () => {
    const all = new Map(values(served['spec'] ?? {}, 'spec'))
    for (const [path, rules] of Object.entries(tenantNotes.rules)) {
      for (const { fieldPath, message } of rules) {
        if (fieldPath !== undefined) expect(all.has(`${path}${fieldPath}`)).toBe(true)
        expect(message).toMatch(/^\S.{8,200}\S$/)
      }
    }
  })
})

describe('structuralSchema', () => {
  test.each<[string, Schema]>([
    ['a union', { anyOf: [{ type: 'string' }, { type: 'null' }] }],
    ['a list of objects without a key', { type: 'array', items: { type: 'object', properties: {} } }],
    ['one deep inside', { type: 'object', properties: { a: { type: 'string', format: 'email' } } }],
  ])('structuralSchema: throws for %s', (_case, schema) => {
    expect(() => structuralSchema(schema as never, 'spec', { ...statusNotes, keys: {} })).toThrow('spec')
  })
})
