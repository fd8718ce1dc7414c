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
      description: 'True, False or Unknown.',
    }),
    reason: t.String({
      minLength: 1,
      maxLength: 128,
      pattern: '^[A-Z][A-Za-z0-9]*$',
      description: 'Reason of the status, one CamelCase word.',
    }),
    message: t.String({ maxLength: messageCharactersMax, description: 'Explanation, and what to do next.' }),
    lastTransitionTime: t.String({
      pattern: timestampPattern,
      maxLength: 40,
      description: 'When status last changed.',
    }),
    observedGeneration: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'metadata.generation that the condition is about.',
      }),
    ),
  },
  { ...strict, description: 'A condition.' },
)

/** Schema of a Tenant's status, written by the operator. Contains no value of a secret. */
export const TenantStatus = t.Object(
  {
    observedGeneration: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'metadata.generation that the status is about.',
      }),
    ),
    tenantId: t.Optional(
      t.String({
        pattern: idPattern('ten'),
        maxLength: 30,
        description: 'Tenant id; the annotation latchkey.dev/adopt adopts its retained data by it.',
      }),
    ),
    conditions: t.Optional(
      t.Array(condition, { maxItems: 16, description: 'Conditions; Ready summarizes the others.' }),
    ),
    urls: t.Optional(
      t.Array(
        t.Object(
          {
            provider: t.String({ enum: [...providerNames], description: 'Provider.' }),
            url: t.String({
              minLength: 1,
              maxLength: 2048,
              description: 'URL to configure at the provider.',
            }),
          },
          { ...strict, description: 'Webhook URL of one provider.' },
        ),
        { maxItems: providersMax, description: 'Webhook URLs to configure at the providers.' },
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
                description: 'resourceVersion last read; absent if none was read.',
              }),
            ),
            generated: t.Optional(
              t.Boolean({ description: 'true: generated for this tenant, and repaired after manual edits.' }),
            ),
          },
          { ...strict, description: 'A Secret of the tenant.' },
        ),
        {
          maxItems: providersMax + apiKeysMax + callbackSecrets,
          description: 'Secrets of the tenant and their versions in force.',
        },
      ),
    ),
  },
  { ...strict, description: 'State of the tenant, written by the operator.' },
)
/** Status of a Tenant. */
export type TenantStatus = Static<typeof TenantStatus>

/** Additions to the TypeBox schema of the status. */
export const statusNotes: KubernetesNotes = {
  keys: { 'status.conditions': 'type', 'status.urls': 'provider', 'status.secrets': 'name' },
  rules: {},
}
