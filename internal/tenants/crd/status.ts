import { type Static, Type as t } from '@sinclair/typebox'
import { idPattern } from '#internal/base/index.ts'
import { providerNames, timestampPattern } from '../model.ts'
import { messageCharactersMax } from '../reconcile/conditions.ts'
import type { KubernetesNotes } from './structural.ts'

const strict = { additionalProperties: false }
const providersMax = providerNames.length
const apiKeysMax = 20
const callbackSecrets = 1

const condition = t.Object(
  {
    type: t.String({
      pattern: '^[A-Z][A-Za-z]{0,63}$',
      maxLength: 64,
      description:
        'Ready, SlugReserved, SecretsSynced, CallbackAllowed, WalletEnabled or ApiKeysIssued; DeletionWaiting while a deleted Tenant cannot go yet.',
    }),
    status: t.String({
      enum: ['True', 'False', 'Unknown'],
      description: 'Whether it holds.',
    }),
    reason: t.String({
      minLength: 1,
      maxLength: 128,
      pattern: '^[A-Z][A-Za-z0-9]*$',
      description: 'Why, in one word.',
    }),
    message: t.String({ maxLength: messageCharactersMax, description: 'Why, and what to do about it.' }),
    lastTransitionTime: t.String({
      pattern: timestampPattern,
      maxLength: 40,
      description: 'When status last changed.',
    }),
    observedGeneration: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'The generation that it is about.',
      }),
    ),
  },
  { ...strict, description: 'One thing that holds or does not.' },
)

/** What the operator tells of a tenant; never a secret's value. The one place that says which fields there are. */
export const TenantStatus = t.Object(
  {
    observedGeneration: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'The metadata.generation that this status is about.',
      }),
    ),
    tenantId: t.Optional(
      t.String({
        pattern: idPattern('ten'),
        maxLength: 30,
        description: 'The tenant’s id, by which its data can be taken over later (latchkey.dev/adopt).',
      }),
    ),
    conditions: t.Optional(
      t.Array(condition, { maxItems: 16, description: 'What holds and what does not. Ready sums it up.' }),
    ),
    urls: t.Optional(
      t.Array(
        t.Object(
          {
            provider: t.String({ enum: [...providerNames], description: 'The provider.' }),
            url: t.String({ minLength: 1, maxLength: 2048, description: 'What to enter at the provider.' }),
          },
          { ...strict, description: 'Where one provider calls.' },
        ),
        { maxItems: providersMax, description: 'The webhook URLs to hand to the providers.' },
      ),
    ),
    secrets: t.Optional(
      t.Array(
        t.Object(
          {
            name: t.String({ minLength: 1, maxLength: 253, description: 'Name of the Secret.' }),
            version: t.Optional(
              t.String({
                maxLength: 128,
                description: 'resourceVersion that was read last. Absent: none was.',
              }),
            ),
            generated: t.Optional(
              t.Boolean({ description: 'true: made for this tenant, and repaired when edited by hand.' }),
            ),
          },
          { ...strict, description: 'One Secret.' },
        ),
        {
          maxItems: providersMax + apiKeysMax + callbackSecrets,
          description: 'The Secrets that are read, and which version of each is in force.',
        },
      ),
    ),
  },
  { ...strict, description: 'What the operator made of it.' },
)
/** What the operator tells of a tenant. */
export type TenantStatus = Static<typeof TenantStatus>

/** What TypeBox does not say of the status. */
export const statusNotes: KubernetesNotes = {
  keys: { 'status.conditions': 'type', 'status.urls': 'provider', 'status.secrets': 'name' },
  rules: {},
}
