import { type Static, Type as t } from '@sinclair/typebox'
import { callback, notifications } from './spec-destinations.ts'
import { dnsLabel, oneOf, ruled, secretRef, strict, timestamp } from './spec-fields.ts'
import { limits } from './spec-limits.ts'
import { type ProviderName, providers } from './spec-providers.ts'

/** API group and version of the Tenant resource. */
export const tenantApiVersion = 'latchkey.dev/v1alpha1'

/**
 * Scopes of API keys. `dashboard:read` opens the same pages as `dashboard`, but permits no raw payloads and no changes. `events:read`
 * permits reading the tenant's own events over the public API; `events` permits delivering them again as well. `payloads:read` extends
 * either scope to payloads as received.
 */
export const apiKeyScopes = [
  'records',
  'webhooks',
  'simulations',
  'dashboard',
  'dashboard:read',
  'events:read',
  'events',
  'payloads:read',
] as const
/** A scope of an API key. */
export type ApiKeyScope = (typeof apiKeyScopes)[number]

const walletRollout = ruled(
  strict(
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
    { default: {}, description: 'Rollout of wallet traffic to this tenant.' },
  ),
  {
    rule: "self.stage != 'enabled' || has(self.review)",
    message: 'the stage `enabled` needs a review with approvedBy and approvedAt',
    fieldPath: '.review',
    reason: 'FieldValueRequired',
    holds: ({ stage, review }) => stage !== 'enabled' || review !== undefined,
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

const retention = ruled(
  strict(
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
    },
  ),
  {
    rule: '!has(self.payloadDays) || !has(self.eventDays) || self.payloadDays <= self.eventDays',
    message: 'must not exceed eventDays',
    fieldPath: '.payloadDays',
    holds: ({ payloadDays, eventDays }) =>
      payloadDays === undefined || eventDays === undefined || payloadDays <= eventDays,
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
    slug: ruled(
      t.String({
        pattern: dnsLabel,
        maxLength: 63,
        description: 'Path segment of its webhook URLs: unique in the installation, immutable.',
      }),
      {
        rule: 'self == oldSelf',
        message: 'cannot be changed, since providers call URLs with the slug: create another Tenant instead',
      },
    ),
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
    providers,
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

/** Validated spec of a tenant, with defaults filled in and with neutral provider names. */
export type TenantSpec = Omit<Static<typeof spec>, 'providers'> & {
  providers: (Omit<Static<typeof providers>[number], 'name'> & { name: ProviderName })[]
}
/** A validated Tenant resource. */
export interface Tenant extends Omit<Static<typeof Tenant>, 'spec'> {
  spec: TenantSpec
}
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
