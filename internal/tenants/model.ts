import { type Static, type TObject, type TProperties, Type as t } from '@sinclair/typebox'
import { timestampPattern } from '#internal/base/index.ts'
import {
  callbackRules,
  cidrRule,
  emittedKindRule,
  limitRule,
  notificationRules,
  providerRules,
  providersRule,
  retentionRule,
  retryWaitRule,
  slugRule,
  urlRules,
  validatedBy,
  walletRolloutRule,
} from './cel-rules.ts'
import {
  type EmittedLimitName,
  emittedKindOf,
  emittedKindsMax,
  usageKindCharsMax,
  usageKindPattern,
} from './usage-kinds.ts'

/** API group and version of the Tenant resource. */
export const tenantApiVersion = 'latchkey.dev/v1alpha1'

/** Neutral names of built-in providers. */
export const providerNames = ['card', 'storefront', 'codehost', 'generic', 'wallet', 'gateway'] as const
/** The neutral name of a built-in provider. */
export type BuiltInProviderName = (typeof providerNames)[number]
declare const declared: unique symbol
/** Name of a provider: of a built-in one, or of one that is declared. Events, columns and secrets use only these names. */
export type ProviderName = BuiltInProviderName | (string & { readonly [declared]: true })

/** Form of the names and aliases of all providers. */
export const providerNamePattern = '^[a-z][a-z0-9_-]{1,39}$'
/** Name of the provider of notifications, which no provider of a tenant can have. */
export const reservedProviderName = 'latchkey'
/** Maximum providers of a tenant. */
const providersMax = 50

/** Vendor names of providers, which are accepted wherever a neutral name is accepted. */
export const providerAliases = {
  stripe: 'card',
  shopify: 'storefront',
  github: 'codehost',
  paypal: 'wallet',
  braintree: 'gateway',
} as const satisfies Record<string, BuiltInProviderName>

/** A neutral name or a vendor's name of a built-in provider. `neutralProviderName` converts it. */
export type AcceptedProviderName = BuiltInProviderName | keyof typeof providerAliases
/** All names of built-in providers, neutral names first. */
export const acceptedProviderNames = [
  ...providerNames,
  ...(Object.keys(providerAliases) as (keyof typeof providerAliases)[]),
] as const satisfies readonly AcceptedProviderName[]
/** Documentation of the vendors' names. */
export const providerAliasText = Object.entries(providerAliases)
  .map(([alias, name]) => `${alias} for ${name}`)
  .join(', ')

/**
 * Scopes of API keys. `dashboard:read` opens the same pages as `dashboard`, but permits no raw payloads and no changes. `events:read` reads
 * the tenant's own events over the public API; `events` also delivers them again; `payloads:read` adds their payloads as received to
 * either.
 */
export const apiKeyScopes = [
  ...(['records', 'webhooks', 'simulations', 'dashboard', 'dashboard:read'] as const),
  ...(['events:read', 'events', 'payloads:read'] as const),
] as const
/** A scope of an API key. */
export type ApiKeyScope = (typeof apiKeyScopes)[number]

/** Declares an object schema that refuses unknown fields, so that a misspelt field is not ignored. */
function strict<P extends TProperties>(
  properties: P,
  options: { description: string; default?: unknown; 'x-kubernetes-validations'?: readonly unknown[] },
): TObject<P> {
  return t.Object(properties, { additionalProperties: false, ...options })
}

/** Declares a string with a closed set of values. TypeBox checks the pattern; `enum` documents the values in the schema. */
function oneOf<const V extends readonly string[]>(
  values: V,
  options: { description: string; default?: V[number] },
) {
  return t.Unsafe<V[number]>(t.String({ enum: [...values], pattern: `^(${values.join('|')})$`, ...options }))
}

/** Pattern of an RFC 1123 label, such as the name of a namespace. */
export const dnsLabel = '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'

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

const timeoutSeconds = t.Integer({
  minimum: 1,
  maximum: 30,
  default: 15,
  description: 'Time limit of one delivery attempt, including the connection.',
})

const allowedCIDRs = t.Array(
  t.String({
    minLength: 3,
    maxLength: 43,
    description: 'A network such as 10.20.0.0/16.',
    ...validatedBy(cidrRule),
  }),
  {
    maxItems: 32,
    uniqueItems: true,
    default: [],
    description: 'Non-public addresses that may be called, as far as the platform permits them.',
  },
)

const callback = strict(
  {
    url: t.String({
      minLength: 1,
      maxLength: 2048,
      description: 'URL that receives events: https, or http to addresses in allowedCIDRs.',
      ...validatedBy(...urlRules),
    }),
    timeoutSeconds,
    allowedCIDRs,
    signingSecretRef: t.Optional(
      secretRef(
        'Secret whose 1 to 3 values (whsec_<base64>) all sign. Generated as <tenant>-callback when absent.',
      ),
    ),
    retryOnRedelivery: t.Boolean({
      default: false,
      description:
        'true: when a provider sends an event again whose delivery has failed, one new delivery cycle begins, except while Postgres is unavailable (the redelivery is answered 202). false: such a duplicate changes nothing.',
    }),
    retry: strict(
      {
        schedule: t.Array(
          t.String({
            maxLength: 32,
            // Each unit allows enough digits for a day. More digits would overflow CEL's duration().
            pattern: '^([0-9]{1,8}ms|[0-9]{1,5}s|[0-9]{1,4}m|[0-9]{1,2}h)+$',
            description: 'A duration such as 30m.',
            ...validatedBy(retryWaitRule),
          }),
          {
            minItems: 1,
            maxItems: 20,
            default: ['0s', '5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'],
            description: 'Pause before each attempt since the previous one, each 0s to 24h.',
          },
        ),
        jitterPercent: t.Integer({
          minimum: 0,
          maximum: 50,
          default: 20,
          description: 'Random deviation from the schedule, in both directions.',
        }),
      },
      { default: {}, description: 'Retry schedule of failed deliveries.' },
    ),
  },
  {
    description: 'Receiver of events. Absent: events wait until a subscription acknowledges them.',
    ...validatedBy(...callbackRules),
  },
)

/** Schema of the name of a tenant's provider. */
export const ProviderNameSchema = t.String({
  pattern: providerNamePattern,
  maxLength: 40,
  description: `${providerNames.join(', ')}; a vendor's name: ${providerAliasText}; or the name of a shipped declaration or of a Provider.`,
})

/** Types of notifications: events about a tenant's operation, which are sent to its `spec.notifications`. */
export const notificationTypes = [
  'latchkey.callback.suspended',
  'latchkey.callback.failing',
  'latchkey.callback.recovered',
  'latchkey.limit.near',
  'latchkey.replay.finished',
] as const
/** Type of a notification; one of `notificationTypes`. */
export type NotificationType = (typeof notificationTypes)[number]

const notifications = strict(
  {
    url: t.Optional(
      t.String({
        minLength: 1,
        maxLength: 2048,
        description: 'URL that receives notifications: https, or http to addresses in allowedCIDRs.',
        ...validatedBy(...urlRules),
      }),
    ),
    urlSecretRef: t.Optional(
      secretRef(
        'Secret whose only value is the URL, for a URL that is itself a secret, such as that of a Slack webhook.',
      ),
    ),
    format: oneOf(['event', 'slack'], {
      default: 'event',
      description:
        'event: signed events, like those of the callback. slack: unsigned messages for a Slack webhook.',
    }),
    signingSecretRef: t.Optional(
      secretRef(
        'Secret whose 1 to 3 values (whsec_<base64>) all sign. Generated as <tenant>-notifications when absent.',
      ),
    ),
    events: t.Optional(
      t.Array(oneOf(notificationTypes, { description: 'A type of notification.' }), {
        minItems: 1,
        maxItems: notificationTypes.length,
        uniqueItems: true,
        description: 'Types of notifications to send. Absent: all types.',
      }),
    ),
    timeoutSeconds,
    allowedCIDRs,
  },
  {
    description:
      'Receiver of notifications about this tenant’s operation, which never go to the callback. Absent: there are none.',
    ...validatedBy(...notificationRules),
  },
)

const provider = strict(
  {
    name: ProviderNameSchema,
    enabled: t.Boolean({ default: true, description: 'false refuses webhook calls of this provider.' }),
    secretRef: t.Optional(secretRef('Secret with 1 to 5 live signing secrets.')),
    acceptUnverified: t.Optional(
      t.Boolean({
        description:
          'true accepts a declaration that was not compared with a call of the vendor; without it, its calls are refused.',
      }),
    ),
    storefront: t.Optional(
      strict(
        {
          shopDomain: t.String({
            pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$',
            maxLength: 253,
            description: 'Shop domain; calls of other shops are refused.',
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
            description: 'Webhook id at the provider, part of the signed content.',
          }),
          environment: oneOf(['live', 'sandbox'], { description: 'Environment of the provider.' }),
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
            description: 'Public key of the account.',
          }),
        },
        { description: 'Settings of the gateway provider, which is reserved: its calls are refused.' },
      ),
    ),
  },
  { description: 'A provider that may call.', ...validatedBy(...providerRules(providerAliases)) },
)

const walletRollout = strict(
  {
    stage: oneOf(['off', 'verify', 'enabled'], {
      default: 'off',
      description:
        'off refuses wallet calls, verify verifies and stores them, enabled delivers them too. Quote "off": unquoted, YAML may read it as false.',
    }),
    review: t.Optional(
      strict(
        {
          approvedBy: t.String({
            minLength: 1,
            maxLength: 256,
            description: 'Person who approved the review.',
          }),
          approvedAt: timestamp('Time of the approval.'),
          note: t.Optional(t.String({ maxLength: 1024, description: 'Reference to the written review.' })),
        },
        { description: 'Approved review, required for stage enabled.' },
      ),
    ),
  },
  {
    default: {},
    description: 'Rollout of wallet traffic to this tenant.',
    ...validatedBy(walletRolloutRule),
  },
)

const apiKey = strict(
  {
    name: t.String({
      pattern: dnsLabel,
      maxLength: 63,
      description: 'Name of the key, part of its Secret’s name.',
    }),
    scopes: t.Array(oneOf(apiKeyScopes, { description: 'A scope.' }), {
      minItems: 1,
      maxItems: apiKeyScopes.length,
      uniqueItems: true,
      description:
        'Rights of the key. dashboard opens the dashboard and /internal/v1 for this tenant alone; dashboard:read does so without raw payloads and without changes. A key with both has the rights of dashboard. events:read reads the tenant’s events over the public API, events also replays them, payloads:read adds payloads as received to either.',
    }),
    expiresAt: t.Optional(timestamp('Expiry of the key; absent: it does not expire.')),
    secretRef: t.Optional(
      secretRef('Secret with the key under apiKey. Generated as <tenant>-key-<name> when absent.'),
    ),
  },
  { description: 'An API key.' },
)

/** Stores in which a tenant's records can be kept. */
export const recordDurabilities = ['redis', 'postgres'] as const
/** Store of a tenant's records. */
export type RecordDurability = (typeof recordDurabilities)[number]

const records = strict(
  {
    durability: t.Optional(
      oneOf(recordDurabilities, {
        description:
          'Where records and locks are kept: redis is faster, postgres survives the loss of Redis. Absent: the setting records.durability.',
      }),
    ),
    requireLockToken: t.Boolean({ default: false, description: 'true refuses saves without a lockToken.' }),
    ttlSecondsMax: t.Integer({
      minimum: 1,
      maximum: 31_536_000,
      default: 2_592_000,
      description: 'Maximum lifetime of a record; the platform’s maximum applies too.',
    }),
    bodyBytesMax: t.Integer({
      minimum: 1,
      maximum: 16_777_216,
      default: 262_144,
      description: 'Maximum size of a saved body; the platform’s maximum applies too.',
    }),
  },
  { default: {}, description: 'Rules of the record API for this tenant.' },
)

/** Maximum value of a limit. */
export const limitAmountMax = 1_000_000_000_000_000
const amount = (description: string) =>
  t.Optional(t.Integer({ minimum: 0, maximum: limitAmountMax, description }))
const bounds = {
  soft: amount('Threshold of a warning.'),
  hard: amount('Threshold from which calls are limited.'),
}
const limit = (description: string) => t.Optional(strict(bounds, { description, ...validatedBy(limitRule) }))

const emittedLimit = strict(
  {
    kind: t.String({
      pattern: usageKindPattern,
      maxLength: usageKindCharsMax,
      description: 'Kind of usage: dotted lowercase, neither locks nor events.',
      ...validatedBy(emittedKindRule),
    }),
    ...bounds,
  },
  { description: 'Limit on a kind of usage in a UTC month.', ...validatedBy(limitRule) },
)

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
            description: 'Accepts and marks, or refuses, events over hard.',
          }),
        },
        { description: 'Events accepted in a UTC month.', ...validatedBy(limitRule) },
      ),
    ),
    recordBytes: limit(
      'Size of records and locks in bytes: key, text and 144 bytes (in Postgres 256) for each.',
    ),
    emitted: t.Optional(
      t.Array(emittedLimit, {
        maxItems: emittedKindsMax,
        description:
          'Limits on usage that other services report, each for a UTC month. A kind is listed once.',
        'x-kubernetes-list-map-keys': ['kind'],
      }),
    ),
  },
  { default: {}, description: 'Usage limits. An absent limit has the platform’s default.' },
)

const retention = strict(
  {
    payloadDays: t.Optional(
      t.Integer({ minimum: 1, maximum: 90, description: 'Retention of payloads in days.' }),
    ),
    eventDays: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: 90,
        description: 'Retention of events and attempts in days; not fewer than payloadDays.',
      }),
    ),
  },
  {
    default: {},
    description: 'Retention. Absent values have the platform’s defaults: 30 and 90 days unless changed.',
    ...validatedBy(retentionRule),
  },
)

const redaction = strict(
  {
    fields: t.Array(t.String({ minLength: 1, maxLength: 128, description: 'Name of a field.' }), {
      maxItems: 100,
      uniqueItems: true,
      default: [],
      description: 'Names of hidden fields, beside the built-in list.',
    }),
  },
  { default: {}, description: 'Fields hidden in shown payloads.' },
)

const spec = strict(
  {
    slug: t.String({
      pattern: dnsLabel,
      maxLength: 63,
      description: 'Path segment of its webhook URLs: unique in the installation, immutable.',
      ...validatedBy(slugRule),
    }),
    displayName: t.Optional(
      t.String({ minLength: 1, maxLength: 128, description: 'Name shown in the dashboard.' }),
    ),
    suspended: t.Boolean({ default: false, description: 'true refuses all calls and stops deliveries.' }),
    deletionPolicy: oneOf(['Retain', 'Delete'], {
      default: 'Retain',
      description: 'Retain keeps, Delete removes the tenant’s data when the resource is deleted.',
    }),
    callback: t.Optional(callback),
    notifications: t.Optional(notifications),
    providers: t.Array(provider, {
      maxItems: providersMax,
      default: [],
      description: 'Providers that may call.',
      'x-kubernetes-list-map-keys': ['name'],
      ...validatedBy(providersRule(providerAliases)),
    }),
    walletRollout,
    apiKeys: t.Array(apiKey, {
      maxItems: 20,
      default: [],
      description: 'API keys of the tenant.',
      'x-kubernetes-list-map-keys': ['name'],
    }),
    records,
    limits,
    retention,
    redaction,
  },
  { description: 'Desired state of the tenant.' },
)

/** Accepts the fields that an API server adds, so that a user can apply the output of `kubectl get -o yaml`. */
const metadata = strict(
  {
    name: t.String({
      pattern: '^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$',
      maxLength: 63,
      description: 'Name of the tenant; limited in length since it is a label’s value too.',
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

/** Schema of the Tenant resource. It is the only definition of its fields, limits and defaults. */
export const Tenant = strict(
  {
    apiVersion: t.Literal(tenantApiVersion),
    kind: t.Literal('Tenant'),
    metadata,
    spec,
    status: t.Optional(t.Unknown({ description: 'Written by the operator; ignored when read.' })),
  },
  { description: 'A tenant of Latchkey: its callers, their secrets, and the receiver of its events.' },
)

type ParsedProvider = Omit<Static<typeof provider>, 'name'> & { name: ProviderName }

/** Validated spec of a tenant, with defaults filled in and with neutral provider names. */
export type TenantSpec = Omit<Static<typeof spec>, 'providers'> & { providers: ParsedProvider[] }
/** A validated Tenant resource. */
export interface Tenant extends Omit<Static<typeof Tenant>, 'spec'> {
  spec: TenantSpec
}
/** Receiver of a tenant's events, with defaults filled in. */
export type CallbackSpec = Static<typeof callback>
/** Receiver of a tenant's notifications, with defaults filled in. */
export type NotificationsSpec = Static<typeof notifications>
/** Usage limits of a tenant. An absent limit has the platform's default. */
export type Limits = Static<typeof limits>
/** Name of a limit on what Latchkey counts itself. */
export type LimitName = Exclude<keyof Limits, 'emitted'>
/** Name of any limit, those on emitted kinds included. */
export type AnyLimitName = LimitName | EmittedLimitName
/** Names of all limits on what Latchkey counts itself, in the order of `spec.limits`. */
export const limitNames = [
  'locksPerMinute',
  'locksPerMonth',
  'eventsPerMinute',
  'eventsPerMonth',
  'recordBytes',
] as const satisfies readonly LimitName[]

/** Names that `parseLimitName` accepts, for error texts and documentation. */
export const limitNameText = `${limitNames.join(', ')}, or the kind of usage that another service reports with PerMonth, such as exports.rowsPerMonth`
/** Pattern of the names that `parseLimitName` accepts. */
export const limitNamePattern = `^(${limitNames.join('|')}|${usageKindPattern.slice(1, -1)}PerMonth)$`
/** Maximum length of the name of a limit. */
export const limitNameCharsMax = usageKindCharsMax + 'PerMonth'.length

/** Parses the name of a limit; returns undefined for any other text. Pure. */
export function parseLimitName(text: string): AnyLimitName | undefined {
  const own = limitNames.find((name) => name === text)
  return own ?? (emittedKindOf(text) === undefined ? undefined : (text as EmittedLimitName))
}

/** Rules of the record API, with defaults filled in. */
export type RecordRules = Static<typeof records>

/** Retention times in days after receipt. */
export interface RetentionDays {
  readonly payloadDays: number
  /** Retention of events and delivery attempts; not less than `payloadDays`. */
  readonly eventDays: number
}

/** Merges a tenant's retention with the platform's defaults. The tenant's own values take precedence. Pure. */
export function retentionOf(own: TenantSpec['retention'], defaults: RetentionDays): RetentionDays {
  const eventDays = own.eventDays ?? Math.max(defaults.eventDays, own.payloadDays ?? 0)
  return { payloadDays: Math.min(own.payloadDays ?? defaults.payloadDays, eventDays), eventDays }
}
