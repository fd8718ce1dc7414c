/** Part of a Tenant's spec, added to the required fields. */
export type SpecPart = Readonly<Record<string, unknown>>

/** Returns the smallest valid Tenant with this part of its spec; undefined fields are omitted. */
export function tenantWith(part: SpecPart = {}) {
  return {
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme' },
    spec: { slug: 'acme', callback: { url: 'https://hooks.example/' }, ...part } as Record<string, unknown>,
  }
}

const card = { name: 'card', secretRef: { name: 'a' } }
const wallet = { name: 'wallet', wallet: { webhookId: 'W1', environment: 'live' } }
const gateway = { name: 'gateway', secretRef: { name: 'a' }, gateway: { publicKey: 'k' } }
const key = { name: 'default', scopes: ['records'] }
const review = { approvedBy: 'a', approvedAt: '2026-01-01T00:00:00Z' }
const callback = (fields: SpecPart) => ({ callback: { url: 'https://hooks.example/', ...fields } })
const notifications = (fields: SpecPart) => ({ notifications: { url: 'https://ops.example/', ...fields } })
const emitted = (...limits: object[]) => ({ limits: { emitted: limits } })
const expiring = (expiresAt: string) => ({ apiKeys: [{ ...key, expiresAt }] })
const retry = (schedule: readonly string[]) => callback({ retry: { schedule } })

/** Specs that the manifest parser and the API server must both refuse, each with the field named in the refusal. */
export const refusedSpecs: readonly (readonly [what: string, part: SpecPart, field: string])[] = [
  ['an unknown field', { sluggish: true }, 'spec.sluggish'],
  ['an unknown field deep inside', callback({ retry: { jitter: 5 } }), 'spec.callback.retry.jitter'],
  ['an unknown field of an entry', { apiKeys: [{ ...key, scope: 'a' }] }, 'spec.apiKeys[0].scope'],
  ['no slug', { slug: undefined }, 'spec.slug'],
  ['an upper-case slug', { slug: 'Acme' }, 'spec.slug'],
  ['a slug that ends in a hyphen', { slug: 'acme-' }, 'spec.slug'],
  ['a slug of 64 characters', { slug: 'a'.repeat(64) }, 'spec.slug'],
  ['an empty slug', { slug: '' }, 'spec.slug'],
  ['an empty display name', { displayName: '' }, 'spec.displayName'],
  ['a display name of 129 characters', { displayName: 'a'.repeat(129) }, 'spec.displayName'],
  ['suspended as text', { suspended: 'yes' }, 'spec.suspended'],
  ['an unknown deletion policy', { deletionPolicy: 'Keep' }, 'spec.deletionPolicy'],
  ['a callback as text', { callback: 'https://hooks.example/' }, 'spec.callback'],
  ['a callback without a URL', { callback: {} }, 'spec.callback.url'],
  ['a callback that is no URL', callback({ url: 'hooks' }), 'spec.callback.url'],
  ['a callback without slashes', callback({ url: 'https:hooks.example' }), 'spec.callback.url'],
  ['a callback without a host', callback({ url: 'https:///hooks' }), 'spec.callback.url'],
  ['a callback with a blank', callback({ url: ' https://hooks.example/' }), 'spec.callback.url'],
  ['a callback with a backslash', callback({ url: 'https://hooks.example\\a' }), 'spec.callback.url'],
  ['a callback of 2049 characters', callback({ url: `https://h/${'a'.repeat(2039)}` }), 'spec.callback.url'],
  ['plain http without CIDRs', callback({ url: 'http://hooks.example/' }), 'spec.callback.url'],
  ['plain http in capitals', callback({ url: 'HTTP://hooks.example/' }), 'spec.callback.url'],
  [
    'another scheme',
    callback({ url: 'ftp://hooks.example/', allowedCIDRs: ['10.0.0.0/8'] }),
    'spec.callback.url',
  ],
  ['a user in the URL', callback({ url: 'https://a@hooks.example/' }), 'spec.callback.url'],
  ['credentials in the URL', callback({ url: 'https://a:b@hooks.example/' }), 'spec.callback.url'],
  ['a fragment in the URL', callback({ url: 'https://hooks.example/#a' }), 'spec.callback.url'],
  ['an empty fragment', callback({ url: 'https://hooks.example/#' }), 'spec.callback.url'],
  ['another protocol’s port', callback({ url: 'https://hooks.example:25/' }), 'spec.callback.url'],
  ['a port that does not exist', callback({ url: 'https://hooks.example:65536/' }), 'spec.callback.url'],
  ['a time-out of 31 s', callback({ timeoutSeconds: 31 }), 'spec.callback.timeoutSeconds'],
  ['a time-out of nothing', callback({ timeoutSeconds: 0 }), 'spec.callback.timeoutSeconds'],
  ['a time-out of half a second', callback({ timeoutSeconds: 0.5 }), 'spec.callback.timeoutSeconds'],
  ['an address without a prefix', callback({ allowedCIDRs: ['10.0.0.1'] }), 'spec.callback.allowedCIDRs[0]'],
  ['a prefix too long', callback({ allowedCIDRs: ['::/0', '10.0.0.0/33'] }), 'spec.callback.allowedCIDRs[1]'],
  [
    'a prefix with a leading zero',
    callback({ allowedCIDRs: ['10.0.0.0/08'] }),
    'spec.callback.allowedCIDRs[0]',
  ],
  [
    'IPv4 written as IPv6',
    callback({ allowedCIDRs: ['::ffff:10.0.0.0/104'] }),
    'spec.callback.allowedCIDRs[0]',
  ],
  ['a network twice', callback({ allowedCIDRs: ['10.0.0.0/8', '10.0.0.0/8'] }), 'spec.callback.allowedCIDRs'],
  [
    '33 networks',
    callback({ allowedCIDRs: Array.from({ length: 33 }, (_, index) => `10.${index}.0.0/16`) }),
    'spec.callback.allowedCIDRs',
  ],
  ['no attempt', retry([]), 'spec.callback.retry.schedule'],
  ['21 attempts', retry(Array<string>(21).fill('1s')), 'spec.callback.retry.schedule'],
  ['a wait over a day', retry(['24h1s']), 'spec.callback.retry.schedule[0]'],
  ['a wait over a day in milliseconds', retry(['0s', '86400001ms']), 'spec.callback.retry.schedule[1]'],
  ['a wait of more digits than a day has', retry(['9999999999h']), 'spec.callback.retry.schedule[0]'],
  ['a wait without a unit', retry(['5']), 'spec.callback.retry.schedule[0]'],
  ['a wait below zero', retry(['-5s']), 'spec.callback.retry.schedule[0]'],
  ['a wait in parts of seconds', retry(['1.5s']), 'spec.callback.retry.schedule[0]'],
  ['too much jitter', callback({ retry: { jitterPercent: 51 } }), 'spec.callback.retry.jitterPercent'],
  [
    'a Secret name with a slash',
    callback({ signingSecretRef: { name: 'a/b' } }),
    'spec.callback.signingSecretRef.name',
  ],
  ['a Secret without a name', callback({ signingSecretRef: {} }), 'spec.callback.signingSecretRef.name'],
  ['a name that no provider can have', { providers: [{ ...card, name: 'Cards' }] }, 'spec.providers[0].name'],
  ['notifications without a URL', { notifications: {} }, 'spec.notifications'],
  ['notifications with two URLs', notifications({ urlSecretRef: { name: 'a' } }), 'spec.notifications'],
  ['notifications over plain http', notifications({ url: 'http://ops.example/' }), 'spec.notifications.url'],
  [
    'notifications with credentials',
    notifications({ url: 'https://a:b@ops.example/' }),
    'spec.notifications.url',
  ],
  [
    'notifications to a mail server',
    notifications({ url: 'https://ops.example:25/' }),
    'spec.notifications.url',
  ],
  ['notifications in another format', notifications({ format: 'teams' }), 'spec.notifications.format'],
  ['an unknown notification', notifications({ events: ['latchkey.test'] }), 'spec.notifications.events[0]'],
  ['no notification', notifications({ events: [] }), 'spec.notifications.events'],
  [
    'signed Slack messages',
    notifications({ format: 'slack', signingSecretRef: { name: 'a' } }),
    'spec.notifications.signingSecretRef',
  ],
  [
    'notifications to no network',
    notifications({ allowedCIDRs: ['10.0.0.1'] }),
    'spec.notifications.allowedCIDRs[0]',
  ],
  ['a provider without a name', { providers: [{ secretRef: { name: 'a' } }] }, 'spec.providers[0].name'],
  ['a provider twice', { providers: [card, card] }, 'spec.providers[1].name'],
  [
    'a provider twice by its alias',
    { providers: [card, { ...card, name: 'stripe' }] },
    'spec.providers[1].name',
  ],
  [
    'a wallet twice by its alias',
    { providers: [wallet, { ...wallet, name: 'paypal' }] },
    'spec.providers[1].name',
  ],
  ['a provider without a Secret', { providers: [{ name: 'generic' }] }, 'spec.providers[0].secretRef'],
  ['a wallet without its block', { providers: [{ name: 'wallet' }] }, 'spec.providers[0].wallet'],
  ['a wallet’s alias without its block', { providers: [{ name: 'paypal' }] }, 'spec.providers[0].wallet'],
  [
    'a wallet with a Secret',
    { providers: [{ ...wallet, secretRef: { name: 'a' } }] },
    'spec.providers[0].secretRef',
  ],
  [
    'a card with the wallet’s block',
    { providers: [{ ...card, wallet: wallet.wallet }] },
    'spec.providers[0].wallet',
  ],
  [
    'a card with the storefront’s block',
    { providers: [{ ...card, storefront: { shopDomain: 'a.example' } }] },
    'spec.providers[0].storefront',
  ],
  [
    'a card with the gateway’s block',
    { providers: [{ ...card, gateway: gateway.gateway }] },
    'spec.providers[0].gateway',
  ],
  ['a gateway without its block', { providers: [{ ...card, name: 'gateway' }] }, 'spec.providers[0].gateway'],
  ['wallet enabled without review', { walletRollout: { stage: 'enabled' } }, 'spec.walletRollout.review'],
  ['an unknown stage', { walletRollout: { stage: 'on' } }, 'spec.walletRollout.stage'],
  [
    'a review in the 13th month',
    { walletRollout: { review: { ...review, approvedAt: '2026-13-01T00:00:00Z' } } },
    'spec.walletRollout.review.approvedAt',
  ],
  [
    'a review without a name',
    { walletRollout: { review: { ...review, approvedBy: undefined } } },
    'spec.walletRollout.review.approvedBy',
  ],
  [
    'a review without a date',
    { walletRollout: { review: { ...review, approvedAt: undefined } } },
    'spec.walletRollout.review.approvedAt',
  ],
  ['a key twice', { apiKeys: [key, key] }, 'spec.apiKeys[1].name'],
  ['a key without scopes', { apiKeys: [{ ...key, scopes: [] }] }, 'spec.apiKeys[0].scopes'],
  ['an unknown scope', { apiKeys: [{ ...key, scopes: ['admin'] }] }, 'spec.apiKeys[0].scopes[0]'],
  ['a scope twice', { apiKeys: [{ ...key, scopes: ['records', 'records'] }] }, 'spec.apiKeys[0].scopes'],
  ['an expiry that is no date', expiring('soon'), 'spec.apiKeys[0].expiresAt'],
  ['an expiry on 30 February', expiring('2027-02-30T00:00:00Z'), 'spec.apiKeys[0].expiresAt'],
  ['an expiry on 29 February, out of turn', expiring('2027-02-29T00:00:00Z'), 'spec.apiKeys[0].expiresAt'],
  ['an expiry at 24 o’clock', expiring('2027-02-28T24:00:00Z'), 'spec.apiKeys[0].expiresAt'],
  ['an expiry without a zone', expiring('2027-02-28T00:00:00'), 'spec.apiKeys[0].expiresAt'],
  ['an expiry a day beyond any zone', expiring('2027-02-28T00:00:00+24:00'), 'spec.apiKeys[0].expiresAt'],
  ['a ttl of 0', { records: { ttlSecondsMax: 0 } }, 'spec.records.ttlSecondsMax'],
  ['a body cap as text', { records: { bodyBytesMax: '1Mi' } }, 'spec.records.bodyBytesMax'],
  ['an unknown limit', { limits: { locksPerDay: { hard: 1 } } }, 'spec.limits.locksPerDay'],
  ['a negative limit', { limits: { locksPerMinute: { hard: -1 } } }, 'spec.limits.locksPerMinute.hard'],
  ...['locksPerMinute', 'locksPerMonth', 'eventsPerMinute', 'eventsPerMonth', 'recordBytes'].map(
    (name) =>
      [
        `soft over hard: ${name}`,
        { limits: { [name]: { soft: 2, hard: 1 } } },
        `spec.limits.${name}.soft`,
      ] as const,
  ),
  [
    'over on another limit',
    { limits: { locksPerMonth: { over: 'accept' } } },
    'spec.limits.locksPerMonth.over',
  ],
  ['an emitted kind twice', emitted({ kind: 'a.b' }, { kind: 'a.b' }), 'spec.limits.emitted[1].kind'],
  ['an emitted kind in capitals', emitted({ kind: 'Rows' }), 'spec.limits.emitted[0].kind'],
  ['an emitted kind of 65 characters', emitted({ kind: 'a'.repeat(65) }), 'spec.limits.emitted[0].kind'],
  [
    'an emitted kind that Latchkey counts',
    emitted({ kind: 'locks', hard: 1 }),
    'spec.limits.emitted[0].kind',
  ],
  ['an emitted limit without its kind', emitted({ hard: 1 }), 'spec.limits.emitted[0].kind'],
  [
    'soft over hard: an emitted kind',
    emitted({ kind: 'a.b', soft: 2, hard: 1 }),
    'spec.limits.emitted[0].soft',
  ],
  [
    'limits on 51 emitted kinds',
    emitted(...Array.from({ length: 51 }, (_none, nth) => ({ kind: `k${nth}` }))),
    'spec.limits.emitted',
  ],
  ['payloads kept 91 days', { retention: { payloadDays: 91 } }, 'spec.retention.payloadDays'],
  [
    'payloads kept longer than events',
    { retention: { payloadDays: 8, eventDays: 7 } },
    'spec.retention.payloadDays',
  ],
  ['an empty field to hide', { redaction: { fields: [''] } }, 'spec.redaction.fields[0]'],
  ['a field to hide twice', { redaction: { fields: ['iban', 'iban'] } }, 'spec.redaction.fields'],
]

/** Specs that both must accept. */
export const acceptedSpecs: readonly (readonly [what: string, part: SpecPart])[] = [
  ['notifications', notifications({})],
  ['notifications of one type', notifications({ events: ['latchkey.limit.near'], timeoutSeconds: 5 })],
  [
    'notifications to a Slack webhook in a Secret',
    { notifications: { urlSecretRef: { name: 'a' }, format: 'slack' } },
  ],
  [
    'notifications over http to a listed network',
    notifications({ url: 'http://ops/', allowedCIDRs: ['10.0.0.0/8'] }),
  ],
  ['the least', {}],
  ['no callback', { callback: undefined }],
  ['a one-letter slug', { slug: 'a' }],
  ['a slug of 63 characters', { slug: 'a'.repeat(63) }],
  ['a scheme and a host in capitals', callback({ url: 'HTTPS://Hooks.Example/Path' })],
  ['a URL with port, path and query', callback({ url: 'https://hooks.example:8443/in/box?a=b%20c&d=@' })],
  ['a URL of IPv6', callback({ url: 'https://[2606:4700::1]:8443/' })],
  [
    'http to listed addresses',
    callback({ url: 'http://10.1.2.3/', allowedCIDRs: ['10.0.0.0/8', 'fd00::/8'] }),
  ],
  ['https to listed addresses', callback({ allowedCIDRs: ['10.20.30.40/32', '::/0'] })],
  ['waits in any order', retry(['24h', '0s', '1h30m', '250ms', '86400000ms', '86400s', '1440m'])],
  ['one attempt', retry(['0s'])],
  [
    'every provider by its neutral name',
    {
      providers: [
        card,
        { ...card, name: 'storefront', storefront: { shopDomain: 'a.example' } },
        { ...card, name: 'codehost' },
        { ...card, name: 'generic', enabled: false },
        wallet,
        gateway,
      ],
    },
  ],
  [
    'declared providers, one of them unverified',
    {
      providers: [
        { ...card, name: 'slack' },
        { ...card, name: 'stripe-connect', acceptUnverified: true },
      ],
    },
  ],
  [
    'every provider by its vendor’s name',
    {
      providers: [
        { ...card, name: 'stripe' },
        { ...card, name: 'shopify', storefront: { shopDomain: 'a.example' } },
        { ...card, name: 'github' },
        { ...wallet, name: 'paypal' },
        { ...gateway, name: 'braintree' },
      ],
    },
  ],
  ['a storefront without its block', { providers: [{ ...card, name: 'storefront' }] }],
  ['wallet verified without review', { walletRollout: { stage: 'verify' } }],
  ['a review before its stage', { walletRollout: { review } }],
  [
    'wallet enabled after review',
    {
      walletRollout: {
        stage: 'enabled',
        review: { ...review, approvedAt: '2026-01-01T00:00:00.123+02:00', note: 'LK-1' },
      },
    },
  ],
  ['an expiry on 29 February of a leap year', expiring('2028-02-29T23:59:59Z')],
  [
    'keys with all scopes, and of a Secret',
    {
      apiKeys: [
        { ...key, scopes: ['records', 'webhooks', 'simulations', 'dashboard', 'dashboard:read'] },
        { ...key, name: 'own', secretRef: { name: 'a' } },
      ],
    },
  ],
  ['a limit of 0', { limits: { locksPerMinute: { hard: 0 } } }],
  [
    'soft as high as hard',
    { limits: { recordBytes: { soft: 1_000_000_000_000_000, hard: 1_000_000_000_000_000 } } },
  ],
  ['soft without hard', { limits: { eventsPerMonth: { soft: 5, over: 'refuse' } } }],
  [
    'limits on emitted kinds',
    emitted({ kind: 'exports.rows', soft: 1, hard: 2 }, { kind: 'a', hard: 0 }, { kind: 'a.b' }),
  ],
  ['payloads kept as long as events', { retention: { payloadDays: 7, eventDays: 7 } }],
  ['events kept fewer days than payloads by default', { retention: { eventDays: 7 } }],
  ['fields to hide', { redaction: { fields: ['iban', 'dateOfBirth'] } }],
  ['a tenant that is suspended and deleted with its data', { suspended: true, deletionPolicy: 'Delete' }],
]
