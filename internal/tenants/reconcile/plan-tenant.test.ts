import { describe, expect, test } from 'bun:test'
import {
  type Case,
  conditionOf as condition,
  found,
  planNow as now,
  planOf as plan,
  planUid as uid,
  whsec,
} from '#test/support/tenants/tenant-plans.ts'
import { tenantIdOfUid } from '../tenant-object.ts'
import type { SecretRead } from '../tenant-source.ts'
import type { ConditionType } from './conditions.ts'
import type { StoredKey, TenantFacts } from './gather-tenant.ts'
import { hashApiKey } from './plan-keys.ts'
import { changesTenant } from './plan-tenant.ts'

const day = 86_400_000
const other = tenantIdOfUid('uid-other')
const keyA = `lk_${'a'.repeat(40)}`
const keyB = `lk_${'b'.repeat(40)}`

const [s1, s2] = ['first-provider-secret', 'second-provider-secret']
const secretsOf = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_none, at) => [`k${at}`, `${s1}-${at}`]))
const cardSpec = { providers: [{ name: 'card', secretRef: { name: 'acme-card' } }] }
const keySpec = { apiKeys: [{ name: 'default', scopes: ['records'] }] }
const broughtSpec = { apiKeys: [{ name: 'default', scopes: ['records'], secretRef: { name: 'brought' } }] }
const twoBrought = {
  apiKeys: [
    { name: 'one', scopes: ['records'], secretRef: { name: 's1' } },
    { name: 'two', scopes: ['records'], secretRef: { name: 's2' } },
  ],
}
const held = (slug: Partial<TenantFacts['slug']>) => ({ slug, stored: { slug: null } })
const rival = { namespace: 'shops', name: 'rival' }

test.each<[string, Case]>([
  ['holds the slug', held({ holder: { namespace: 'elsewhere', name: 'rival', id: other } })],
  ['had the slug', held({ reservation: { namespace: 'elsewhere', name: 'rival', untilMs: now + 1 } })],
  ['waits for the slug', held({ olderClaimant: { namespace: 'elsewhere', name: 'rival' } })],
])(
  'slug refusal: the message names a rival that %s only if the rival is in the same namespace',
  (_what, given) => {
    const { message } = condition(plan(given), 'SlugReserved')
    expect(message).toContain('a tenant of another namespace')
    expect(message).not.toMatch(/elsewhere|rival/)
    const near = JSON.parse(JSON.stringify(given).replace('elsewhere', 'shops')) as Case
    expect(condition(plan(near), 'SlugReserved').message).toContain('shops/rival')
  },
)

const slackSpec = { notifications: { urlSecretRef: { name: 'acme-slack' }, format: 'slack' } }

describe('conditions', () => {
  test.each<[string, Case, ConditionType, string, 'True' | 'False']>([
    ['everything in force', {}, 'Ready', 'InForce', 'True'],
    ['spec.suspended', { spec: { suspended: true } }, 'Ready', 'Suspended', 'False'],
    ['a free slug', {}, 'SlugReserved', 'Held', 'True'],
    [
      'a slug that another tenant has',
      held({ holder: { ...rival, id: other } }),
      'SlugReserved',
      'SlugTaken',
      'False',
    ],
    [
      'a slug that another tenant has (condition Ready)',
      held({ holder: { ...rival, id: other } }),
      'Ready',
      'SlugTaken',
      'False',
    ],
    [
      'a slug kept for another',
      held({ reservation: { ...rival, untilMs: now + 1 } }),
      'SlugReserved',
      'SlugKept',
      'False',
    ],
    [
      'an expired slug reservation',
      held({ reservation: { ...rival, untilMs: now } }),
      'SlugReserved',
      'Held',
      'True',
    ],
    [
      'a slug reserved for this name',
      held({ reservation: { namespace: 'shops', name: 'acme', untilMs: now + day } }),
      'SlugReserved',
      'Held',
      'True',
    ],
    ['an older claimant', held({ olderClaimant: rival }), 'SlugReserved', 'SlugAwaited', 'False'],
    [
      'a slug reserved for this name and an older claimant',
      held({ reservation: { namespace: 'shops', name: 'acme', untilMs: now + 1 }, olderClaimant: rival }),
      'SlugReserved',
      'Held',
      'True',
    ],
    [
      'an expired reservation for this name and an older claimant',
      held({ reservation: { namespace: 'shops', name: 'acme', untilMs: now }, olderClaimant: rival }),
      'SlugReserved',
      'SlugAwaited',
      'False',
    ],
    ['a slug that changed', { stored: { slug: 'before' } }, 'SlugReserved', 'SlugImmutable', 'False'],
    ['a missing Secret', { spec: cardSpec }, 'SecretsSynced', 'SecretMissing', 'False'],
    [
      'a Secret that may not be read',
      {
        spec: cardSpec,
        secrets: { 'acme-card': { kind: 'unreadable', reason: 'Forbidden', message: 'grant it' } },
      },
      'SecretsSynced',
      'Forbidden',
      'False',
    ],
    [
      'an empty Secret',
      { spec: cardSpec, secrets: { 'acme-card': found({}) } },
      'SecretsSynced',
      'SecretInvalid',
      'False',
    ],
    [
      'six values',
      { spec: cardSpec, secrets: { 'acme-card': found(secretsOf(6)) } },
      'SecretsSynced',
      'SecretInvalid',
      'False',
    ],
    [
      'an empty value',
      { spec: cardSpec, secrets: { 'acme-card': found({ a: '\n' }) } },
      'SecretsSynced',
      'SecretTooShort',
      'False',
    ],
    [
      'five values',
      { spec: cardSpec, secrets: { 'acme-card': found(secretsOf(5)) } },
      'SecretsSynced',
      'Synced',
      'True',
    ],
    [
      'a signing secret of another form',
      { secrets: { 'acme-callback': found({ a: 'whsec_short' }, uid) } },
      'SecretsSynced',
      'SecretInvalid',
      'False',
    ],
    [
      'a generated name that is taken',
      { secrets: { 'acme-callback': found({ a: whsec(1) }) } },
      'SecretsSynced',
      'NameTaken',
      'False',
    ],
    [
      'a generated name of another tenant',
      { secrets: { 'acme-callback': found({ a: whsec(1) }, 'uid-other') } },
      'SecretsSynced',
      'NameTaken',
      'False',
    ],
    ['a callback over https', {}, 'CallbackAllowed', 'FormAccepted', 'True'],
    [
      'http to an address outside the list',
      { spec: { callback: { url: 'http://192.0.2.1/', allowedCIDRs: ['10.0.0.0/8'] } } },
      'CallbackAllowed',
      'AddressNotAllowed',
      'False',
    ],
    [
      'http to a public address, which may be listed but is not',
      { spec: { callback: { url: 'http://8.8.8.8/', allowedCIDRs: ['10.0.0.0/8'] } } },
      'CallbackAllowed',
      'AddressNotListed',
      'False',
    ],
    [
      'http to a listed IPv6 address',
      { spec: { callback: { url: 'http://[fd00::1]:80/', allowedCIDRs: ['fd00::/8'] } } },
      'CallbackAllowed',
      'FormAccepted',
      'True',
    ],
    [
      'http to an address that the tenant lists and the platform does not permit',
      { spec: { callback: { url: 'http://192.168.0.1/', allowedCIDRs: ['192.168.0.0/16'] } } },
      'CallbackAllowed',
      'AddressNotAllowed',
      'False',
    ],
    [
      'https to a metadata address, regardless of the lists',
      { spec: { callback: { url: 'https://169.254.169.254/', allowedCIDRs: ['169.254.0.0/16'] } } },
      'CallbackAllowed',
      'AddressNotAllowed',
      'False',
    ],
    [
      'a callback that responded 410',
      { callbackSuspension: { cause: 'gone', suspendedAtMs: now } },
      'CallbackAllowed',
      'CallbackSuspended',
      'False',
    ],
    ['no callback', { spec: { callback: undefined } }, 'CallbackAllowed', 'NoCallback', 'True'],
    ['no callback (condition Ready)', { spec: { callback: undefined } }, 'Ready', 'InForce', 'True'],
    [
      'a callback removed after it responded 410',
      { spec: { callback: undefined }, callbackSuspension: { cause: 'gone', suspendedAtMs: now } },
      'CallbackAllowed',
      'NoCallback',
      'True',
    ],
    [
      'notifications over https',
      { spec: { notifications: { url: 'https://ops.example/' } } },
      'NotificationsAllowed',
      'FormAccepted',
      'True',
    ],
    [
      'notifications to a metadata address',
      { spec: { notifications: { url: 'https://169.254.169.254/' } } },
      'NotificationsAllowed',
      'AddressNotAllowed',
      'False',
    ],
    [
      'notifications to a URL in a Secret',
      { spec: slackSpec, secrets: { 'acme-slack': found({ url: 'https://hooks.example/T0/B0/secret' }) } },
      'NotificationsAllowed',
      'FormAccepted',
      'True',
    ],
    [
      'notifications to an address in a Secret',
      { spec: slackSpec, secrets: { 'acme-slack': found({ url: 'https://169.254.169.254/secret' }) } },
      'NotificationsAllowed',
      'AddressNotAllowed',
      'False',
    ],
    ['notifications to a missing Secret', { spec: slackSpec }, 'NotificationsAllowed', 'UrlMissing', 'False'],
    [
      'also notifications to a missing Secret',
      { spec: slackSpec },
      'SecretsSynced',
      'SecretMissing',
      'False',
    ],
    [
      'notifications to a Secret without a URL',
      { spec: slackSpec, secrets: { 'acme-slack': found({ url: 'hooks' }) } },
      'SecretsSynced',
      'SecretInvalid',
      'False',
    ],
    [
      'notifications whose receiver responded 410',
      {
        spec: { notifications: { url: 'https://ops.example/' } },
        notificationsSuspension: { cause: 'gone', suspendedAtMs: now },
      },
      'NotificationsAllowed',
      'NotificationsSuspended',
      'False',
    ],
    ['no wallet', {}, 'WalletEnabled', 'NotConfigured', 'False'],
    ['no keys', {}, 'ApiKeysIssued', 'NoneAsked', 'True'],
    ['a generated key', { spec: keySpec }, 'ApiKeysIssued', 'Issued', 'True'],
    [
      'a brought key',
      { spec: broughtSpec, secrets: { brought: found({ apiKey: keyA }) } },
      'ApiKeysIssued',
      'Issued',
      'True',
    ],
    ['a missing key Secret', { spec: broughtSpec }, 'ApiKeysIssued', 'SecretMissing', 'False'],
    ['also a missing key Secret', { spec: broughtSpec }, 'SecretsSynced', 'SecretMissing', 'False'],
    [
      'a Secret without the key',
      { spec: broughtSpec, secrets: { brought: found({ key: keyA }) } },
      'ApiKeysIssued',
      'KeyMissing',
      'False',
    ],
    [
      'a key of 31 characters',
      { spec: broughtSpec, secrets: { brought: found({ apiKey: `lk_${'a'.repeat(28)}` }) } },
      'ApiKeysIssued',
      'KeyInvalid',
      'False',
    ],
    [
      'a key of 32 characters',
      { spec: broughtSpec, secrets: { brought: found({ apiKey: `lk_${'a'.repeat(29)}` }) } },
      'ApiKeysIssued',
      'Issued',
      'True',
    ],
    [
      'a key without its prefix',
      { spec: broughtSpec, secrets: { brought: found({ apiKey: 'a'.repeat(40) }) } },
      'ApiKeysIssued',
      'KeyInvalid',
      'False',
    ],
    [
      'a key of another tenant',
      { spec: broughtSpec, secrets: { brought: found({ apiKey: keyA }) }, keysOfOthers: [hashApiKey(keyA)] },
      'ApiKeysIssued',
      'KeyInUse',
      'False',
    ],
    [
      'one key for two entries',
      { spec: twoBrought, secrets: { s1: found({ apiKey: keyA }), s2: found({ apiKey: keyA }) } },
      'ApiKeysIssued',
      'KeyInUse',
      'False',
    ],
  ])(
    'conditions: a tenant with %s has the expected reason and status',
    (_case, given, type, reason, status) => {
      expect(condition(plan(given), type)).toMatchObject({ reason, status })
    },
  )

  test.each([
    ['off', 'StageOff', 'False'],
    ['verify', 'Verifying', 'False'],
    ['enabled', 'Reviewed', 'True'],
  ] as const)('conditions: wallet stage %s does not affect Ready', (stage, reason, status) => {
    const review = { approvedBy: 'ops', approvedAt: '2026-01-01T00:00:00Z' }
    const providers = [{ name: 'wallet', wallet: { webhookId: 'W', environment: 'live' } }]
    const planned = plan({ spec: { providers, walletRollout: { stage, review } } })
    expect(condition(planned, 'WalletEnabled')).toMatchObject({ reason, status })
    expect(condition(planned, 'Ready').status).toBe('True')
  })

  test('conditions: lastTransitionTime stays unchanged while the status stays unchanged', () => {
    const before = plan({}, now - day).conditions
    expect(plan({ stored: { conditions: before } }).conditions).toEqual(before)
    const after = plan({ spec: { suspended: true }, stored: { conditions: before } })
    expect(condition(after, 'Ready').lastTransitionTime).toBe('2026-11-01T00:00:00Z')
    expect(condition(after, 'SlugReserved').lastTransitionTime).toBe('2026-10-31T00:00:00Z')
  })
})

describe('slugs', () => {
  test('slugs: a tenant whose slug is refused has no slug', () => {
    expect(plan(held({ holder: { ...rival, id: other } })).row.slug).toBeNull()
  })

  test('slugs: a granted slug stays in force when the manifest claims another slug', () => {
    expect(plan({ stored: { slug: 'before' } }).row.slug).toBe('before')
  })

  test('slugs: a restored tenant claims its slug again', () => {
    const stored = { slug: null, deletedAtMs: now - 1 }
    expect(plan({ stored }).rowChange).toBe('restored')
    expect(plan({ stored, slug: { holder: { ...rival, id: other } } }).row.slug).toBeNull()
  })
})

test('planTenant: an unchanged tenant has a plan without changes', () => {
  const secrets = { 'acme-key-default': found({ apiKey: keyA }, uid), 'acme-card': found({ b: s2, a: s1 }) }
  const spec = { ...cardSpec, ...keySpec }
  const first = plan({ spec, secrets })
  const stored = {
    conditions: first.conditions,
    keys: first.keys.put,
    secrets: first.secrets.put.map((secret) => ({ ...secret, keyId: 'k1' })),
  }
  const second = plan({ spec, secrets, stored }, now + day)
  expect(changesTenant(first)).toBe(true)
  expect(second).toMatchObject({
    rowChange: 'none',
    keys: { put: [], remove: [] },
    secrets: { put: [], remove: [] },
  })
  expect(second.conditionsChanged).toBe(false)
  expect(second.generate).toEqual([])
})

describe('API keys', () => {
  const stored = (key: string, fields: Partial<StoredKey> = {}): StoredKey => {
    return {
      sha256Hex: hashApiKey(key),
      prefix: key.slice(0, 11),
      name: 'default',
      scopes: ['records'],
      expiresAtMs: null,
      endsAtMs: null,
      ...fields,
    }
  }
  const brought = (key: string, keys: StoredKey[], at = now) =>
    plan({ spec: broughtSpec, secrets: { brought: found({ apiKey: key }) }, stored: { keys } }, at).keys

  test('API keys: a generated key has 256 random bits and is stored as SHA-256', () => {
    const planned = plan({ spec: keySpec })
    const value = `lk_${Buffer.alloc(32, 7).toString('base64url')}`
    expect(planned.generate).toMatchObject([
      { name: 'acme-key-default', values: { apiKey: value }, owner: { uid } },
    ])
    expect(planned.keys.put).toMatchObject([
      { sha256Hex: hashApiKey(value), prefix: 'lk_BwcHBwcH', name: 'default', endsAtMs: null },
    ])
  })

  test('API keys: a replaced key stays valid for 24 hours', () => {
    const { put, remove } = brought(keyB, [stored(keyA)])
    expect(put).toEqual([stored(keyB), stored(keyA, { endsAtMs: now + day })])
    expect(remove).toEqual([])
  })

  test('API keys: planning again does not change the expiry of a replaced key', () => {
    const keys = [stored(keyB), stored(keyA, { endsAtMs: now + day })]
    expect(brought(keyB, keys, now + day - 1)).toEqual({ put: [], remove: [] })
    expect(brought(keyB, keys, now + day)).toEqual({ put: [], remove: [hashApiKey(keyA)] })
  })

  test('API keys: a replaced key that its Secret contains again has no expiry', () => {
    const keys = [stored(keyB), stored(keyA, { endsAtMs: now + day })]
    expect(brought(keyA, keys).put).toEqual([stored(keyA), stored(keyB, { endsAtMs: now + day })])
  })

  test('API keys: removing an entry invalidates its keys immediately, including replaced ones', () => {
    const keys = [stored(keyB), stored(keyA, { endsAtMs: now + day })]
    expect(plan({ stored: { keys } }).keys.remove).toEqual([hashApiKey(keyB), hashApiKey(keyA)])
  })

  test.each<[string, Record<string, SecretRead>]>([
    ['missing', {}],
    ['unreadable', { brought: { kind: 'unreadable', reason: 'Forbidden', message: '' } }],
    ['without a usable key', { brought: found({ apiKey: 'lk_short' }) }],
  ])('API keys: stored keys stay while their Secret is %s', (_case, secrets) => {
    expect(plan({ spec: broughtSpec, secrets, stored: { keys: [stored(keyA)] } }).keys).toEqual({
      put: [],
      remove: [],
    })
  })

  test('API keys: new scopes and a new expiry also apply to replaced keys', () => {
    const spec = {
      apiKeys: [{ ...broughtSpec.apiKeys[0], scopes: ['webhooks'], expiresAt: '2027-01-01T00:00:00Z' }],
    }
    const keys = [stored(keyA), stored(keyB, { endsAtMs: now + 1 })]
    const { put } = plan({ spec, secrets: { brought: found({ apiKey: keyA }) }, stored: { keys } }).keys
    const rules = { scopes: ['webhooks'] as const, expiresAtMs: Date.parse('2027-01-01T00:00:00Z') }
    expect(put).toEqual([stored(keyA, rules), stored(keyB, { ...rules, endsAtMs: now + 1 })])
  })

  test('API keys: one trailing newline is ignored', () => {
    expect(brought(`${keyA}\n`, [stored(keyA)])).toEqual({ put: [], remove: [] })
  })
})

test.each([
  ['no label', undefined, /kubectl label secret -n shops card latchkey\.dev\/tenant=acme$/],
  ['the label of another tenant', 'other', /has the label of another tenant and is not used/],
])(
  'SecretNotLabelled: for a Secret with %s, the message suggests no command that takes over another tenant’s Secret',
  (_case, labelled, told) => {
    const spec = { providers: [{ name: 'card', secretRef: { name: 'card' } }] }
    const { message, reason } = condition(
      plan({ spec, secrets: { card: { kind: 'unlabelled', labelled } } }),
      'SecretsSynced',
    )
    expect(reason).toBe('SecretNotLabelled')
    expect(message).toMatch(told)
    expect(message).not.toContain('--overwrite')
    expect(message.includes('kubectl')).toBe(labelled === undefined)
  },
)

test('planTenant: conditions and warnings contain no secret', () => {
  const secrets = {
    'acme-card': found({ a: 'hunter2\n' }),
    'acme-callback': found({ a: 'whsec_hunter2' }, uid),
    brought: found({ apiKey: 'hunter2' }),
  }
  const { conditions, warnings } = plan({ spec: { ...cardSpec, ...broughtSpec }, secrets })
  expect(JSON.stringify({ conditions, warnings })).not.toContain('hunter2')
})

describe('notifications', () => {
  test('planTenant: a tenant with notifications gets a separate signing secret for the notifications', () => {
    const { generate, secrets } = plan({ spec: { notifications: { url: 'https://ops.example/' } } })
    expect(generate.map(({ name }) => name)).toEqual(['acme-notifications'])
    const own = secrets.put.find(({ field }) => field === 'notifications')
    expect(own?.value).toStartWith('whsec_')
    expect(own?.value).not.toBe(whsec(1))
  })

  test('planTenant: Slack messages need no signing secret, and their URL is stored as a secret', () => {
    const url = 'https://hooks.example/T0/B0/secret'
    const made = plan({ spec: slackSpec, secrets: { 'acme-slack': found({ url: `${url}\n` }) } })
    expect(made.generate).toEqual([])
    expect(made.secrets.put.filter(({ field }) => field.startsWith('notifications'))).toMatchObject([
      { field: 'notifications:url', value: url, sourceName: 'acme-slack' },
    ])
    expect(JSON.stringify([made.conditions, made.warnings, made.row])).not.toContain('T0/B0')
  })

  test('planTenant: no condition quotes a URL from a Secret', () => {
    for (const url of ['https://169.254.169.254/T0/B0', 'https://T0B0@hooks.example/', 'T0/B0'])
      expect(
        JSON.stringify(plan({ spec: slackSpec, secrets: { 'acme-slack': found({ url }) } }).conditions),
      ).not.toMatch(/T0.?B0/)
  })

  test('planTenant: a tenant without notifications has no condition about notifications', () => {
    expect(plan({}).conditions.map(({ type }) => type)).not.toContain('NotificationsAllowed')
  })
})
