import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { TProperties, TSchema } from '@sinclair/typebox'
import { parse } from 'yaml'
import { acceptedSpecs, refusedSpecs, tenantWith } from '#test/support/tenants/tenant-manifests.ts'
import { parseFile } from './folder/parse-file.ts'
import { Tenant } from './model.ts'
import { parseTenant } from './parse-tenant.ts'
import { retryScheduleDefault } from './spec-destinations.ts'
import type { FieldRule } from './spec-fields.ts'
import { neutralProviderName } from './spec-providers.ts'

function problemsOf(value: unknown): string[] {
  const parsed = parseTenant(value)
  return parsed.kind === 'ok' ? [] : parsed.problems.map(({ path }) => path)
}

function specOf(value: unknown) {
  const parsed = parseTenant(value)
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.tenant.spec
}

describe('defaults', () => {
  test('parseTenant: all fields except slug and callback.url have a default', () => {
    expect(specOf(tenantWith())).toEqual({
      slug: 'acme',
      suspended: false,
      deletionPolicy: 'Retain',
      callback: {
        url: 'https://hooks.example/',
        timeoutSeconds: 15,
        allowedCIDRs: [],
        retryOnRedelivery: false,
        retry: {
          schedule: ['0s', '5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'],
          jitterPercent: 20,
        },
      },
      providers: [],
      walletRollout: { stage: 'off' },
      apiKeys: [],
      records: { requireLockToken: false, ttlSecondsMax: 2_592_000, bodyBytesMax: 262_144 },
      limits: {},
      retention: {},
      redaction: { fields: [] },
    })
  })

  test('parseTenant: fills in defaults in list entries and in incomplete objects', () => {
    const spec = specOf(
      tenantWith({
        providers: [{ name: 'card', secretRef: { name: 'a' } }],
        limits: { eventsPerMonth: { hard: 5 } },
        records: { requireLockToken: true },
      }),
    )
    expect(spec.providers[0]?.enabled).toBe(true)
    expect(spec.limits.eventsPerMonth).toEqual({ hard: 5, over: 'accept' })
    expect(spec.records.ttlSecondsMax).toBe(2_592_000)
  })

  test('parseTenant: does not modify the given value', () => {
    const given = tenantWith()
    parseTenant(given)
    expect(given).toEqual(tenantWith())
  })
})

describe('annotated sample', () => {
  const sample: unknown = parse(
    readFileSync(new URL('../../config/samples/tenant.yaml', import.meta.url), 'utf8'),
  )

  test('annotated sample: the sample Tenant is valid', () => {
    expect(problemsOf(sample)).toEqual([])
  })

  test('annotated sample: the sample file of Secrets contains exactly the Secrets that the Tenant references', () => {
    const text = readFileSync(new URL('../../config/samples/tenant-secrets.yaml', import.meta.url), 'utf8')
    const { documents, problems } = parseFile(text, { file: 'tenant-secrets.yaml', version: '1' })
    const found = documents.flatMap((each) => (each.kind === 'secret' ? [each.secret.name] : []))
    const named = JSON.stringify(sample).matchAll(/"(?:signingS|s)ecretRef":\{"name":"([^"]+)"/g)
    expect(problems).toEqual([])
    expect(found.toSorted()).toEqual([...named].map(([, name]) => name ?? '').toSorted())
  })

  test('annotated sample: has the default retry schedule', () => {
    expect(specOf(sample).callback?.retry.schedule).toEqual([...retryScheduleDefault])
  })

  test('annotated sample: contains every field of the schema, and only one of two fields that exclude each other', () => {
    expect(missingFields(Tenant.properties.spec, (sample as { spec: object }).spec, 'spec')).toEqual([
      'spec.notifications.urlSecretRef',
    ])
  })
})

/** Fields of an object schema that no example shows; entries of a list count together. */
function missingFields(schema: object, value: unknown, path: string): string[] {
  if ('items' in schema && Array.isArray(value)) {
    const merged: object = Object.assign({}, ...value.filter((one) => typeof one === 'object'))
    return missingFields(schema.items as object, merged, `${path}[]`)
  }
  if (!('properties' in schema)) return []
  return Object.entries(schema.properties as Record<string, object>).flatMap(([name, inner]) => {
    const shown = (value as Record<string, unknown> | undefined)?.[name]
    return shown === undefined ? [`${path}.${name}`] : missingFields(inner, shown, `${path}.${name}`)
  })
}

function rulesIn(schema: TSchema): FieldRule<never>[] {
  const inner: TSchema[] = [
    ...Object.values((schema.properties ?? {}) as TProperties),
    schema.items ?? [],
  ].flat()
  const own = (schema['x-kubernetes-validations'] ?? []) as FieldRule<never>[]
  return [...own, ...inner.flatMap(rulesIn)]
}

test('Tenant schema: every field of the spec has a description', () => {
  const undescribed: string[] = []
  const visit = (schema: object, path: string): void => {
    if (!('description' in schema)) undescribed.push(path)
    if ('properties' in schema) {
      for (const [name, inner] of Object.entries(schema.properties as object)) visit(inner, `${path}.${name}`)
    }
    if ('items' in schema && 'properties' in (schema.items as object))
      visit(schema.items as object, `${path}[]`)
  }
  visit(Tenant.properties.spec, 'spec')
  expect(undescribed).toEqual([])
})

describe('refused manifests', () => {
  test.each(refusedSpecs)('parseTenant: refuses %s and names the field', (_case, spec, path) => {
    expect(problemsOf(tenantWith(spec))).toContain(path)
  })

  test('parseTenant: the table of refused specs violates every rule that the API server also checks', () => {
    const rules = rulesIn(Tenant.properties.spec).filter(({ rule, holds }) => rule && holds)
    const parsed = refusedSpecs.map(([, spec]) => parseTenant(tenantWith(spec)))
    const messages = new Set(
      parsed.flatMap((each) => (each.kind === 'ok' ? [] : each.problems)).map(({ message }) => message),
    )
    expect(rules.length).toBeGreaterThan(30)
    expect(rules.filter(({ message }) => !messages.has(message))).toEqual([])
  })

  test.each<[string, unknown, string]>([
    ['null', null, ''],
    ['a list', [], ''],
    ['another version', { ...tenantWith(), apiVersion: 'latchkey.dev/v2' }, 'apiVersion'],
    ['another kind', { ...tenantWith(), kind: 'Tennant' }, 'kind'],
    ['a name too long for a label', { ...tenantWith(), metadata: { name: 'a'.repeat(64) } }, 'metadata.name'],
    [
      'a misspelt namespace',
      { ...tenantWith(), metadata: { name: 'a', namspace: 'b' } },
      'metadata.namspace',
    ],
    ['an unknown field next to `spec`', { ...tenantWith(), specs: {} }, 'specs'],
  ])('parseTenant: refuses %s and names the field', (_case, value, path) => {
    expect(problemsOf(value)).toContain(path)
  })

  test('parseTenant: returns at most 50 problems, and none of them contains a value', () => {
    const misplaced = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`f${index}`, 'hunter2']))
    const parsed = parseTenant(tenantWith({ ...misplaced, slug: 'HUNTER2', suspended: 'hunter2' }))
    expect(parsed.kind === 'invalid' && parsed.problems.length).toBe(50)
    expect(JSON.stringify(parsed).toLowerCase()).not.toContain('hunter2')
  })
})

describe('accepted manifests', () => {
  test.each(acceptedSpecs)('parseTenant: accepts %s', (_case, spec) => {
    expect(problemsOf(tenantWith(spec))).toEqual([])
  })

  test('parseTenant: accepts the fields that an API server adds', () => {
    const metadata = {
      name: 'a',
      uid: 'u',
      creationTimestamp: null,
      generation: 1,
      managedFields: [{}],
      annotations: { 'a/b': 'c' },
    }
    expect(problemsOf({ ...tenantWith(), metadata, status: { conditions: [] } })).toEqual([])
  })
})

test.each([
  ['stripe', 'card'],
  ['shopify', 'storefront'],
  ['github', 'codehost'],
  ['paypal', 'wallet'],
  ['braintree', 'gateway'],
  ['generic', 'generic'],
] as const)('neutralProviderName: converts %s to %s', (given, neutral) => {
  expect(neutralProviderName(given)).toBe(neutral)
  const blocks = { wallet: { webhookId: 'W1', environment: 'live' }, gateway: { publicKey: 'k' } }
  const block = neutral === 'wallet' || neutral === 'gateway' ? { [neutral]: blocks[neutral] } : {}
  const secretRef = neutral === 'wallet' ? {} : { secretRef: { name: 'a' } }
  expect(
    specOf(tenantWith({ providers: [{ name: given, ...block, ...secretRef }] })).providers[0]?.name,
  ).toBe(neutral)
})

test.each(['toString', '__proto__', 'cards', ''])('neutralProviderName: returns undefined for %p', (name) => {
  expect(neutralProviderName(name)).toBeUndefined()
})

test('parseTenant: refuses a provider with the name that is reserved for notifications', () => {
  const provider = { name: 'latchkey', secretRef: { name: 'a' } }
  expect(problemsOf(tenantWith({ providers: [provider] }))).toEqual(['spec.providers[0].name'])
})
