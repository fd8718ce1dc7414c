import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { Tenant } from './model.ts'
import { neutralProviderName, parseTenant } from './parse.ts'

type Manifest = {
  apiVersion: string
  kind: string
  metadata: Record<string, unknown>
  spec: Record<string, unknown>
}

function minimal(spec: Record<string, unknown> = {}): Manifest {
  return {
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme' },
    spec: { slug: 'acme', callback: { url: 'https://hooks.example/' }, ...spec },
  }
}

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
  test('are filled for everything but slug and callback.url', () => {
    expect(specOf(minimal())).toEqual({
      slug: 'acme',
      suspended: false,
      deletionPolicy: 'Retain',
      callback: {
        url: 'https://hooks.example/',
        timeoutSeconds: 15,
        allowedCIDRs: [],
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
      retention: { payloadDays: 30, eventDays: 90 },
      redaction: { fields: [] },
    })
  })

  test('of list entries and partly given blocks are filled too', () => {
    const spec = specOf(
      minimal({
        providers: [{ name: 'card', secretRef: { name: 'a' } }],
        limits: { eventsPerMonth: { hard: 5 } },
        records: { requireLockToken: true },
      }),
    )
    expect(spec.providers[0]?.enabled).toBe(true)
    expect(spec.limits.eventsPerMonth).toEqual({ hard: 5, over: 'accept' })
    expect(spec.records.ttlSecondsMax).toBe(2_592_000)
  })

  test('leave the given value as it was', () => {
    const given = minimal()
    parseTenant(given)
    expect(given).toEqual(minimal())
  })
})

describe('the annotated sample', () => {
  const sample: unknown = parse(
    readFileSync(new URL('../../config/samples/tenant.yaml', import.meta.url), 'utf8'),
  )

  test('is valid', () => {
    expect(problemsOf(sample)).toEqual([])
  })

  test('shows every field that the schema has', () => {
    expect(missingFields(Tenant.properties.spec, (sample as Manifest).spec, 'spec')).toEqual([])
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

test('every field of the spec is described', () => {
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

const card = { name: 'card', secretRef: { name: 'a' } }
const wallet = { name: 'wallet', wallet: { webhookId: 'W1', environment: 'live' } }
const key = { name: 'default', scopes: ['records'] }
const cb = (fields: object) => ({ callback: { url: 'https://hooks.example/', ...fields } })

describe('a manifest is refused, with the field named', () => {
  test.each<[string, Record<string, unknown>, string]>([
    ['an unknown field', { sluggish: true }, 'spec.sluggish'],
    ['an unknown field deep inside', cb({ retry: { jitter: 5 } }), 'spec.callback.retry.jitter'],
    ['no slug', { slug: undefined }, 'spec.slug'],
    ['an upper-case slug', { slug: 'Acme' }, 'spec.slug'],
    ['a slug that ends in a hyphen', { slug: 'acme-' }, 'spec.slug'],
    ['a slug of 64 characters', { slug: 'a'.repeat(64) }, 'spec.slug'],
    ['an empty display name', { displayName: '' }, 'spec.displayName'],
    ['suspended as text', { suspended: 'yes' }, 'spec.suspended'],
    ['an unknown deletion policy', { deletionPolicy: 'Keep' }, 'spec.deletionPolicy'],
    ['no callback', { callback: undefined }, 'spec.callback'],
    ['a callback without a URL', { callback: {} }, 'spec.callback.url'],
    ['a callback that is no URL', cb({ url: 'hooks' }), 'spec.callback.url'],
    ['plain http without CIDRs', cb({ url: 'http://hooks.example/' }), 'spec.callback.url'],
    [
      'another scheme',
      cb({ url: 'ftp://hooks.example/', allowedCIDRs: ['10.0.0.0/8'] }),
      'spec.callback.url',
    ],
    ['credentials in the URL', cb({ url: 'https://a:b@hooks.example/' }), 'spec.callback.url'],
    ['a fragment in the URL', cb({ url: 'https://hooks.example/#a' }), 'spec.callback.url'],
    ['a time-out of 31 s', cb({ timeoutSeconds: 31 }), 'spec.callback.timeoutSeconds'],
    ['a time-out of half a second', cb({ timeoutSeconds: 0.5 }), 'spec.callback.timeoutSeconds'],
    ['an address without a prefix', cb({ allowedCIDRs: ['10.0.0.1'] }), 'spec.callback.allowedCIDRs[0]'],
    ['a prefix too long', cb({ allowedCIDRs: ['::/0', '10.0.0.0/33'] }), 'spec.callback.allowedCIDRs[1]'],
    ['no attempt', cb({ retry: { schedule: [] } }), 'spec.callback.retry.schedule'],
    ['21 attempts', cb({ retry: { schedule: Array(21).fill('1s') } }), 'spec.callback.retry.schedule'],
    ['a wait over a day', cb({ retry: { schedule: ['24h1s'] } }), 'spec.callback.retry.schedule[0]'],
    ['a wait without a unit', cb({ retry: { schedule: ['5'] } }), 'spec.callback.retry.schedule[0]'],
    ['too much jitter', cb({ retry: { jitterPercent: 51 } }), 'spec.callback.retry.jitterPercent'],
    [
      'a Secret name with a slash',
      cb({ signingSecretRef: { name: 'a/b' } }),
      'spec.callback.signingSecretRef.name',
    ],
    ['an unknown provider', { providers: [{ ...card, name: 'cards' }] }, 'spec.providers[0].name'],
    ['a provider twice', { providers: [card, card] }, 'spec.providers[1].name'],
    [
      'a provider twice by its alias',
      { providers: [card, { ...card, name: 'stripe' }] },
      'spec.providers[1].name',
    ],
    ['a provider without a Secret', { providers: [{ name: 'generic' }] }, 'spec.providers[0]'],
    ['a wallet without its block', { providers: [{ name: 'wallet' }] }, 'spec.providers[0]'],
    [
      'a wallet with a Secret',
      { providers: [{ ...wallet, secretRef: { name: 'a' } }] },
      'spec.providers[0].secretRef',
    ],
    [
      'another provider’s block',
      { providers: [{ ...card, wallet: wallet.wallet }] },
      'spec.providers[0].wallet',
    ],
    ['a gateway without its block', { providers: [{ ...card, name: 'gateway' }] }, 'spec.providers[0]'],
    ['wallet enabled without review', { walletRollout: { stage: 'enabled' } }, 'spec.walletRollout.review'],
    [
      'a review on a date that does not exist',
      { walletRollout: { review: { approvedBy: 'a', approvedAt: '2026-13-01T00:00:00Z' } } },
      'spec.walletRollout.review.approvedAt',
    ],
    [
      'a review without a name',
      { walletRollout: { review: { approvedAt: '2026-01-01T00:00:00Z' } } },
      'spec.walletRollout.review.approvedBy',
    ],
    ['a key twice', { apiKeys: [key, key] }, 'spec.apiKeys[1].name'],
    ['a key without scopes', { apiKeys: [{ ...key, scopes: [] }] }, 'spec.apiKeys[0].scopes'],
    ['an unknown scope', { apiKeys: [{ ...key, scopes: ['admin'] }] }, 'spec.apiKeys[0].scopes[0]'],
    ['a scope twice', { apiKeys: [{ ...key, scopes: ['records', 'records'] }] }, 'spec.apiKeys[0].scopes'],
    ['an expiry that is no date', { apiKeys: [{ ...key, expiresAt: 'soon' }] }, 'spec.apiKeys[0].expiresAt'],
    ['a ttl of 0', { records: { ttlSecondsMax: 0 } }, 'spec.records.ttlSecondsMax'],
    ['a body cap as text', { records: { bodyBytesMax: '1Mi' } }, 'spec.records.bodyBytesMax'],
    ['an unknown limit', { limits: { locksPerDay: { hard: 1 } } }, 'spec.limits.locksPerDay'],
    ['a negative limit', { limits: { locksPerMinute: { hard: -1 } } }, 'spec.limits.locksPerMinute.hard'],
    ['soft over hard', { limits: { recordBytes: { soft: 2, hard: 1 } } }, 'spec.limits.recordBytes.soft'],
    [
      'over on another limit',
      { limits: { locksPerMonth: { over: 'accept' } } },
      'spec.limits.locksPerMonth.over',
    ],
    ['payloads kept 91 days', { retention: { payloadDays: 91 } }, 'spec.retention.payloadDays'],
    ['payloads kept longer than events', { retention: { eventDays: 7 } }, 'spec.retention.payloadDays'],
    ['an empty field to hide', { redaction: { fields: [''] } }, 'spec.redaction.fields[0]'],
  ])('%s', (_case, spec, path) => {
    expect(problemsOf(minimal(spec))).toContain(path)
  })

  test.each<[string, unknown, string]>([
    ['nothing', null, ''],
    ['a list', [], ''],
    ['another version', { ...minimal(), apiVersion: 'latchkey.dev/v2' }, 'apiVersion'],
    ['another kind', { ...minimal(), kind: 'Tennant' }, 'kind'],
    ['a name too long for a label', { ...minimal(), metadata: { name: 'a'.repeat(64) } }, 'metadata.name'],
    ['a misspelt namespace', { ...minimal(), metadata: { name: 'a', namspace: 'b' } }, 'metadata.namspace'],
    ['a field beside spec', { ...minimal(), specs: {} }, 'specs'],
  ])('%s', (_case, value, path) => {
    expect(problemsOf(value)).toContain(path)
  })

  test('without quoting a value, at most 50 problems', () => {
    const misplaced = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`f${index}`, 'hunter2']))
    const parsed = parseTenant(minimal({ ...misplaced, slug: 'HUNTER2', suspended: 'hunter2' }))
    expect(parsed.kind === 'invalid' && parsed.problems.length).toBe(50)
    expect(JSON.stringify(parsed).toLowerCase()).not.toContain('hunter2')
  })
})

describe('a manifest is accepted with', () => {
  test.each<[string, Record<string, unknown>]>([
    ['http to listed addresses', cb({ url: 'http://10.1.2.3/', allowedCIDRs: ['10.0.0.0/8', 'fd00::/8'] })],
    ['waits in any order', cb({ retry: { schedule: ['24h', '0s', '1h30m', '250ms'] } })],
    ['a limit of 0', { limits: { locksPerMinute: { hard: 0 } } }],
    [
      'wallet enabled after review',
      {
        walletRollout: {
          stage: 'enabled',
          review: { approvedBy: 'a', approvedAt: '2026-01-01T00:00:00+02:00' },
        },
      },
    ],
    ['a one-letter slug', { slug: 'a' }],
  ])('%s', (_case, spec) => {
    expect(problemsOf(minimal(spec))).toEqual([])
  })

  test('what a server adds to it', () => {
    const metadata = {
      name: 'a',
      uid: 'u',
      creationTimestamp: null,
      generation: 1,
      managedFields: [{}],
      annotations: { 'a/b': 'c' },
    }
    expect(problemsOf({ ...minimal(), metadata, status: { conditions: [] } })).toEqual([])
  })
})

test.each([
  ['stripe', 'card'],
  ['shopify', 'storefront'],
  ['github', 'codehost'],
  ['paypal', 'wallet'],
  ['braintree', 'gateway'],
  ['generic', 'generic'],
] as const)('provider %s is known as %s', (given, neutral) => {
  expect(neutralProviderName(given)).toBe(neutral)
  const blocks = { wallet: wallet.wallet, gateway: { publicKey: 'k' } }
  const block = neutral === 'wallet' || neutral === 'gateway' ? { [neutral]: blocks[neutral] } : {}
  const secretRef = neutral === 'wallet' ? {} : { secretRef: { name: 'a' } }
  expect(specOf(minimal({ providers: [{ name: given, ...block, ...secretRef }] })).providers[0]?.name).toBe(
    neutral,
  )
})

test.each(['toString', '__proto__', 'cards', ''])('provider %p is unknown', (name) => {
  expect(neutralProviderName(name)).toBeUndefined()
})
