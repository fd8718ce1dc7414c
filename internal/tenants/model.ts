import { type Static, type TObject, type TProperties, Type as t } from '@sinclair/typebox'

/** The API group and version of the Tenant resource. */
export const tenantApiVersion = 'latchkey.dev/v1alpha1'

/** Neutral provider names; only these appear in events, columns and metrics. */
export const providerNames = ['card', 'storefront', 'codehost', 'generic', 'wallet', 'gateway'] as const
/** A provider by its neutral name. */
export type ProviderName = (typeof providerNames)[number]

/** Vendors' names that may stand wherever a neutral name may. */
export const providerAliases = {
  stripe: 'card',
  shopify: 'storefront',
  github: 'codehost',
  paypal: 'wallet',
  braintree: 'gateway',
} as const satisfies Record<string, ProviderName>

/** What an API key may be used for. `dashboard:read` opens the same pages as `dashboard`, without payloads as received and without any change. */
export const apiKeyScopes = ['records', 'webhooks', 'simulations', 'dashboard', 'dashboard:read'] as const
/** One of the things an API key may be used for. */
export type ApiKeyScope = (typeof apiKeyScopes)[number]

/** An object that refuses unknown fields, so that a misspelt one never passes for absent. */
function strict<P extends TProperties>(
  properties: P,
  options: { description: string; default?: unknown },
): TObject<P> {
  return t.Object(properties, { additionalProperties: false, ...options })
}

/** `enum` is for readers of the schema; TypeBox itself checks the pattern, which says the same. */
function oneOf<const V extends readonly string[]>(
  values: V,
  options: { description: string; default?: V[number] },
) {
  return t.Unsafe<V[number]>(t.String({ enum: [...values], pattern: `^(${values.join('|')})$`, ...options }))
}

/** A label of RFC 1123, as Kubernetes names namespaces. */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'
/** A moment as RFC 3339 writes it, without leap seconds. Whether the month has that day, a pattern cannot say. */
export const timestampPattern =
  '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'

const timestamp = (description: string) => t.String({ pattern: timestampPattern, maxLength: 40, description })

const secretRef = (description: string) =>
  strict(
    {
      name: t.String({
        pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$',
        maxLength: 253,
        description: 'Name of a Secret in the namespace of this tenant.',
      }),
    },
    { description },
  )

const callback = strict(
  {
    url: t.String({
      minLength: 1,
      maxLength: 2048,
      description: 'Where events are sent. https; http only to addresses that allowedCIDRs lists.',
    }),
    timeoutSeconds: t.Integer({
      minimum: 1,
      maximum: 30,
      default: 15,
      description: 'How long one delivery may take, connecting included.',
    }),
    allowedCIDRs: t.Array(
      t.String({ minLength: 3, maxLength: 43, description: 'A network such as 10.20.0.0/16.' }),
      {
        maxItems: 32,
        uniqueItems: true,
        default: [],
        description:
          'Addresses that are not public and yet may be called, as far as the platform permits them.',
      },
    ),
    signingSecretRef: t.Optional(
      secretRef(
        'Secret whose 1 to 3 values (whsec_<base64>) all sign. Generated as <tenant>-callback when absent.',
      ),
    ),
    retryOnRedelivery: t.Boolean({
      default: false,
      description:
        'true: when a provider sends an event again whose delivery has failed, one new delivery cycle begins, except while Postgres is away (the redelivery is answered 202). false: such a duplicate changes nothing.',
    }),
    retry: strict(
      {
        schedule: t.Array(
          t.String({
            maxLength: 32,
            // Digits for a day in each unit: more could not be valid, and would overflow where it is calculated.
            pattern: '^([0-9]{1,8}ms|[0-9]{1,5}s|[0-9]{1,4}m|[0-9]{1,2}h)+$',
            description: 'A duration such as 30m.',
          }),
          {
            minItems: 1,
            maxItems: 20,
            default: ['0s', '5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'],
            description: 'Waits since the attempt before, one per attempt, each 0s to 24h.',
          },
        ),
        jitterPercent: t.Integer({
          minimum: 0,
          maximum: 50,
          default: 20,
          description: 'How far a wait may be off its schedule, in both directions.',
        }),
      },
      { default: {}, description: 'When a failed delivery is tried again.' },
    ),
  },
  { description: 'The receiver of events.' },
)

const provider = strict(
  {
    name: oneOf([...providerNames, ...(Object.keys(providerAliases) as (keyof typeof providerAliases)[])], {
      description: `${providerNames.join(', ')}; or a vendor's name: ${Object.entries(providerAliases)
        .map(([alias, name]) => `${alias} for ${name}`)
        .join(', ')}.`,
    }),
    enabled: t.Boolean({ default: true, description: 'false refuses calls of this provider.' }),
    secretRef: t.Optional(secretRef('Secret whose 1 to 5 values are all live signing secrets.')),
    storefront: t.Optional(
      strict(
        {
          shopDomain: t.String({
            pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$',
            maxLength: 253,
            description: 'Calls of another shop are refused.',
          }),
        },
        { description: 'Settings of the storefront provider.' },
      ),
    ),
    wallet: t.Optional(
      strict(
        {
          webhookId: t.String({
            pattern: '^[A-Za-z0-9_-]{1,64}$',
            maxLength: 64,
            description: 'The id that the provider shows for the webhook; part of what is signed.',
          }),
          environment: oneOf(['live', 'sandbox'], { description: 'Which of the provider’s systems calls.' }),
        },
        { description: 'Settings of the wallet provider.' },
      ),
    ),
    gateway: t.Optional(
      strict(
        {
          publicKey: t.String({
            pattern: '^[A-Za-z0-9_-]{1,128}$',
            maxLength: 128,
            description: 'The account’s public key.',
          }),
        },
        { description: 'Settings of the gateway provider, which is reserved and refused.' },
      ),
    ),
  },
  { description: 'One provider that may call.' },
)

const walletRollout = strict(
  {
    stage: oneOf(['off', 'verify', 'enabled'], {
      default: 'off',
      description:
        'off refuses wallet calls, verify checks and stores them, enabled delivers them too. Quote "off": bare, YAML may read it as false.',
    }),
    review: t.Optional(
      strict(
        {
          approvedBy: t.String({
            minLength: 1,
            maxLength: 256,
            description: 'Who reviewed the verification.',
          }),
          approvedAt: timestamp('When the review was approved.'),
          note: t.Optional(t.String({ maxLength: 1024, description: 'Where the review is written down.' })),
        },
        { description: 'The review without which stage enabled is refused.' },
      ),
    ),
  },
  { default: {}, description: 'How far wallet traffic is rolled out to this tenant.' },
)

const apiKey = strict(
  {
    name: t.String({
      pattern: dnsLabel,
      maxLength: 63,
      description: 'Name of the key, for people and for its Secret.',
    }),
    scopes: t.Array(oneOf(apiKeyScopes, { description: 'A scope.' }), {
      minItems: 1,
      maxItems: apiKeyScopes.length,
      uniqueItems: true,
      description:
        'What the key may be used for. dashboard opens the dashboard and /internal/v1 for this tenant alone; dashboard:read does so without payloads as received and without any change. A key with both has the rights of dashboard.',
    }),
    expiresAt: t.Optional(timestamp('When the key stops working; never if it is absent.')),
    secretRef: t.Optional(
      secretRef('Secret that brings the key under apiKey. Generated as <tenant>-key-<name> when absent.'),
    ),
  },
  { description: 'One API key.' },
)

const records = strict(
  {
    requireLockToken: t.Boolean({ default: false, description: 'true refuses to save without a lockToken.' }),
    ttlSecondsMax: t.Integer({
      minimum: 1,
      maximum: 31_536_000,
      default: 2_592_000,
      description: 'Longest life of a record; the platform’s own maximum holds as well.',
    }),
    bodyBytesMax: t.Integer({
      minimum: 1,
      maximum: 16_777_216,
      default: 262_144,
      description: 'Largest saved body; the platform’s own maximum holds as well.',
    }),
  },
  { default: {}, description: 'Rules of the record API for this tenant.' },
)

/** The highest amount that a limit can be set to. */
export const limitAmountMax = 1_000_000_000_000_000
const amount = (description: string) =>
  t.Optional(t.Integer({ minimum: 0, maximum: limitAmountMax, description }))
const bounds = {
  soft: amount('From here on the tenant is marked and warned of.'),
  hard: amount('From here on calls are limited.'),
}
const limit = (description: string) => t.Optional(strict(bounds, { description }))

const limits = strict(
  {
    locksPerMinute: limit('Locks acquired in a UTC minute.'),
    locksPerMonth: limit('Locks acquired in a UTC month.'),
    eventsPerMinute: limit('Events accepted in a UTC minute.'),
    eventsPerMonth: t.Optional(
      strict(
        {
          ...bounds,
          over: oneOf(['accept', 'refuse'], {
            default: 'accept',
            description: 'Whether events over hard are accepted and marked, or refused.',
          }),
        },
        { description: 'Events accepted in a UTC month.' },
      ),
    ),
    recordBytes: limit('Memory that records and locks may take, in bytes: key, text and 144 bytes for each.'),
  },
  { default: {}, description: 'Limits of usage. An absent one is the platform’s default.' },
)

const retention = strict(
  {
    payloadDays: t.Optional(
      t.Integer({ minimum: 1, maximum: 90, description: 'Days that payloads are kept.' }),
    ),
    eventDays: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: 90,
        description: 'Days that events and attempts are kept; not fewer than payloadDays.',
      }),
    ),
  },
  {
    default: {},
    description:
      'How long data is kept. What is absent is the platform’s default: 30 and 90 days unless it was changed.',
  },
)

const redaction = strict(
  {
    fields: t.Array(t.String({ minLength: 1, maxLength: 128, description: 'Name of a field.' }), {
      maxItems: 100,
      uniqueItems: true,
      default: [],
      description: 'Names of fields that are hidden beside the built-in list.',
    }),
  },
  { default: {}, description: 'What is hidden where payloads are shown.' },
)

const spec = strict(
  {
    slug: t.String({
      pattern: dnsLabel,
      maxLength: 63,
      description: 'The tenant’s part of its webhook URLs: unique in the installation, never changed.',
    }),
    displayName: t.Optional(
      t.String({ minLength: 1, maxLength: 128, description: 'The name that people see.' }),
    ),
    suspended: t.Boolean({ default: false, description: 'true refuses all calls and stops deliveries.' }),
    deletionPolicy: oneOf(['Retain', 'Delete'], {
      default: 'Retain',
      description: 'What becomes of the tenant’s data when the resource is deleted.',
    }),
    callback,
    providers: t.Array(provider, {
      maxItems: providerNames.length,
      default: [],
      description: 'The providers that may call.',
    }),
    walletRollout,
    apiKeys: t.Array(apiKey, {
      maxItems: 20,
      default: [],
      description: 'The keys of the tenant’s API clients.',
    }),
    records,
    limits,
    retention,
    redaction,
  },
  { description: 'What the tenant asks for.' },
)

/** Metadata is Kubernetes' own; the fields that a server adds are accepted so that `kubectl get -o yaml` reads back. */
const metadata = strict(
  {
    name: t.String({
      pattern: '^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$',
      maxLength: 63,
      description: 'Name of the tenant, short since it is also a label’s value.',
    }),
    namespace: t.String({ pattern: dnsLabel, maxLength: 63, default: 'default' }),
    uid: t.Optional(t.String({ minLength: 1, maxLength: 128 })),
    creationTimestamp: t.Optional(t.Union([timestamp('Set by the server.'), t.Null()])),
    labels: t.Optional(t.Record(t.String(), t.String())),
    annotations: t.Optional(t.Record(t.String(), t.String())),
    generation: t.Optional(t.Integer()),
    resourceVersion: t.Optional(t.String()),
    deletionTimestamp: t.Optional(t.String()),
    deletionGracePeriodSeconds: t.Optional(t.Integer()),
    finalizers: t.Optional(t.Array(t.String())),
    ownerReferences: t.Optional(t.Array(t.Unknown())),
    managedFields: t.Optional(t.Array(t.Unknown())),
  },
  { description: 'Name and namespace of the tenant.' },
)

/** The whole Tenant resource. The one place that says which fields there are, their bounds and defaults. */
export const Tenant = strict(
  {
    apiVersion: t.Literal(tenantApiVersion),
    kind: t.Literal('Tenant'),
    metadata,
    spec,
    status: t.Optional(t.Unknown({ description: 'Written by the operator; ignored when read.' })),
  },
  { description: 'A tenant of Latchkey: who may call, with which secrets, and where events go.' },
)

type ParsedProvider = Omit<Static<typeof provider>, 'name'> & { name: ProviderName }

/** What a tenant asks for: checked, defaults filled, providers by their neutral names. */
export type TenantSpec = Omit<Static<typeof spec>, 'providers'> & { providers: ParsedProvider[] }
/** A checked Tenant resource. */
export interface Tenant extends Omit<Static<typeof Tenant>, 'spec'> {
  spec: TenantSpec
}
/** Limits of usage; an absent limit or bound is the platform's default. */
export type Limits = Static<typeof limits>
/** The name of a limit. */
export type LimitName = keyof Limits
/** All limits, in the order of `spec.limits`. */
export const limitNames = [
  'locksPerMinute',
  'locksPerMonth',
  'eventsPerMinute',
  'eventsPerMonth',
  'recordBytes',
] as const satisfies readonly LimitName[]
/** Rules of the record API, defaults filled. */
export type RecordRules = Static<typeof records>

/** Retention in days after receipt. */
export interface RetentionDays {
  readonly payloadDays: number
  /** Of events and attempts; not fewer than `payloadDays`. */
  readonly eventDays: number
}

/** Merges a tenant's retention with the platform's defaults; the tenant's own values take precedence. Pure. */
export function retentionOf(own: TenantSpec['retention'], defaults: RetentionDays): RetentionDays {
  const eventDays = own.eventDays ?? Math.max(defaults.eventDays, own.payloadDays ?? 0)
  return { payloadDays: Math.min(own.payloadDays ?? defaults.payloadDays, eventDays), eventDays }
}

/** Webhook URL of one provider. */
export interface WebhookUrl {
  readonly provider: string
  readonly url: string
}

/**
 * Returns the webhook URLs of a tenant's enabled providers; none while it has no slug. Pure.
 * @param publicUrl prefix of `/v1/t/…`; without it the URLs are paths
 */
export function webhookUrls(
  slug: string | null,
  { providers }: Pick<TenantSpec, 'providers'>,
  publicUrl = '',
): readonly WebhookUrl[] {
  if (slug === null) return []
  const base = publicUrl.replace(/\/+$/, '')
  return providers
    .filter(({ enabled }) => enabled)
    .map(({ name }) => ({ provider: name, url: `${base}/v1/t/${slug}/webhooks/${name}` }))
}
