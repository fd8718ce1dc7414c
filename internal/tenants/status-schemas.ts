import { type Static, Type as t } from '@sinclair/typebox'
import { recordDurabilities } from './model.ts'
import { conditionTypes } from './reconcile/conditions.ts'
import { oneOf, timestamp } from './spec-fields.ts'

const text = (maxLength: number, description: string, more: { minLength?: number; pattern?: string } = {}) =>
  t.String({ ...more, maxLength, description })
const count = (description: string, more: { maximum?: number; format?: string }) =>
  t.Optional(t.Integer({ minimum: 0, ...more, description }))
const generation = (description: string) => count(description, { maximum: Number.MAX_SAFE_INTEGER })

const statusOfCondition = oneOf(['True', 'False', 'Unknown'], { description: 'True, False or Unknown.' })
const message = text(1024, 'Explanation, and what to do next.')
const lastTransitionTime = timestamp('When status last changed.')
const reasonText = 'Reason of the status, one CamelCase word.'
const [firstType, ...moreTypes] = conditionTypes
const lastType = moreTypes.pop()

/** Status of a Tenant, which the operator writes. Contains no value of a secret. */
export const TenantStatus = t.Object(
  {
    observedGeneration: generation('metadata.generation that the status is about.'),
    tenantId: t.Optional(
      text(30, 'Tenant id; the annotation latchkey.dev/adopt adopts its retained data by it.', {
        pattern: '^ten_[0-9a-hjkmnp-tv-z]{26}$',
      }),
    ),
    conditions: t.Optional(
      t.Array(
        t.Object(
          {
            type: text(
              64,
              `${[firstType, ...moreTypes].join(', ')} or ${lastType}; DeletionWaiting while a deleted Tenant cannot go yet.`,
              { pattern: '^[A-Z][A-Za-z]{0,63}$' },
            ),
            status: statusOfCondition,
            reason: text(128, reasonText, { minLength: 1, pattern: '^[A-Z][A-Za-z0-9]*$' }),
            message,
            lastTransitionTime,
            observedGeneration: generation('metadata.generation that the condition is about.'),
          },
          { description: 'A condition.' },
        ),
        {
          maxItems: 16,
          'x-kubernetes-list-map-keys': ['type'],
          description: 'Conditions; Ready summarizes the others.',
        },
      ),
    ),
    urls: t.Optional(
      t.Array(
        t.Object(
          {
            provider: text(40, 'Name of the provider in the URL.'),
            url: text(2048, 'URL to configure at the provider.', { minLength: 1 }),
          },
          { description: 'Webhook URL of one provider.' },
        ),
        {
          maxItems: 300,
          'x-kubernetes-list-map-keys': ['provider'],
          description: 'Webhook URLs to configure at the providers, with those of aliases.',
        },
      ),
    ),
    records: t.Optional(
      t.Object(
        {
          store: oneOf(recordDurabilities, { description: 'Store of new records and locks.' }),
          earlierStore: t.Optional(
            oneOf(recordDurabilities, {
              description: 'Store that had them before and can still have some of them.',
            }),
          ),
        },
        { description: 'Where records and locks of the tenant are kept.' },
      ),
    ),
    secrets: t.Optional(
      t.Array(
        t.Object(
          {
            name: text(253, 'Name of the Secret.', { minLength: 1 }),
            version: t.Optional(text(128, 'resourceVersion last read; absent if none was read.')),
            generated: t.Optional(
              t.Boolean({ description: 'true: generated for this tenant, and repaired after manual edits.' }),
            ),
          },
          { description: 'A Secret of the tenant.' },
        ),
        {
          maxItems: 27,
          'x-kubernetes-list-map-keys': ['name'],
          description: 'Secrets of the tenant and their versions in force.',
        },
      ),
    ),
  },
  { description: 'State of the tenant, written by the operator.' },
)
/** Status of a Tenant. */
export type TenantStatus = Static<typeof TenantStatus>

/** Status of a Provider, which the operator writes. */
export const ProviderStatus = t.Object(
  {
    observedGeneration: count('metadata.generation that the status is about.', { format: 'int64' }),
    inForceGeneration: count('Generation whose declaration is in force. Absent: none is.', {
      format: 'int64',
    }),
    vectorsPassed: count('Recorded calls that were run and hold.', { format: 'int32' }),
    names: t.Optional(
      t.Array(text(40, 'Name.'), {
        maxItems: 6,
        description: 'Names in paths: the name and its aliases.',
      }),
    ),
    conditions: t.Optional(
      t.Array(
        t.Object(
          {
            type: text(64, 'Ready; DeletionWaiting while a deleted Provider cannot go yet.'),
            status: statusOfCondition,
            reason: text(128, reasonText),
            message,
            lastTransitionTime: { ...lastTransitionTime, format: 'date-time' },
          },
          { description: 'A condition.' },
        ),
        { maxItems: 8, 'x-kubernetes-list-map-keys': ['type'], description: 'Conditions.' },
      ),
    ),
  },
  { description: 'Written by the operator.' },
)
/** Status of a Provider. */
export type ProviderStatus = Static<typeof ProviderStatus>
