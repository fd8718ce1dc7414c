import { Type as t } from '@sinclair/typebox'
import { timestampPattern } from '#internal/base/index.ts'
import { conditionTypes, recordDurabilities, Tenant } from '#internal/tenants/index.ts'
import { column, crdText, structural } from './crd.ts'

/** Path of the generated definition of Tenants. */
export const tenantCrdPath = 'crds/latchkey.dev_tenants.yaml'

/** Returns the definition of Tenants, whose spec is the schema that a folder's manifests are checked with. */
export function tenantCrdText(): string {
  const { metadata, spec } = Tenant.properties
  return crdText(
    {
      kind: 'Tenant',
      plural: 'tenants',
      shortName: 'lkt',
      scope: 'Namespaced',
      columns,
      selectableFields: [{ jsonPath: '.spec.slug' }],
      description: `${Tenant.description}`,
      name: structural(metadata.properties.name, true),
      spec: structural(spec, true),
      status: structural(status, true),
    },
    'internal/tenants/model.ts',
  )
}

const ready = '.status.conditions[?(@.type=="Ready")]'
const columns = [
  column('Ready', 'string', 'Whether the whole spec is in force.', `${ready}.status`),
  column('Reason', 'string', 'Reason of the condition Ready.', `${ready}.reason`),
  column('Slug', 'string', 'Path segment of its webhook URLs.', '.spec.slug'),
  column('Wallet', 'string', 'Stage of the wallet rollout.', '.spec.walletRollout.stage'),
  column('Age', 'date', 'Time since creation.', '.metadata.creationTimestamp'),
  ...[
    column('Suspended', 'boolean', 'Whether its calls are refused.', '.spec.suspended'),
    column('Deletion', 'string', 'Whether a deletion keeps or removes its data.', '.spec.deletionPolicy'),
    column('Callback', 'string', 'URL that receives its events.', '.spec.callback.url'),
    column('Tenant', 'string', 'Tenant id.', '.status.tenantId'),
    column('Message', 'string', 'Message of the condition Ready.', `${ready}.message`),
  ].map((each) => ({ ...each, priority: 1 })),
]

const text = (maxLength: number, description: string, more: { minLength?: number; pattern?: string } = {}) =>
  t.String({ ...more, maxLength, description })
const generation = (description: string) =>
  t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description }))
const oneOf = (values: readonly string[], description: string) => t.String({ enum: values, description })
const [firstType, ...moreTypes] = conditionTypes
const lastType = moreTypes.pop()

const condition = t.Object(
  {
    type: text(
      64,
      `${[firstType, ...moreTypes].join(', ')} or ${lastType}; DeletionWaiting while a deleted Tenant cannot go yet.`,
      { pattern: '^[A-Z][A-Za-z]{0,63}$' },
    ),
    status: oneOf(['True', 'False', 'Unknown'], 'True, False or Unknown.'),
    reason: text(128, 'Reason of the status, one CamelCase word.', {
      minLength: 1,
      pattern: '^[A-Z][A-Za-z0-9]*$',
    }),
    message: text(1024, 'Explanation, and what to do next.'),
    lastTransitionTime: text(40, 'When status last changed.', { pattern: timestampPattern }),
    observedGeneration: generation('metadata.generation that the condition is about.'),
  },
  { description: 'A condition.' },
)

const status = t.Object(
  {
    observedGeneration: generation('metadata.generation that the status is about.'),
    tenantId: t.Optional(
      text(30, 'Tenant id; the annotation latchkey.dev/adopt adopts its retained data by it.', {
        pattern: '^ten_[0-9a-hjkmnp-tv-z]{26}$',
      }),
    ),
    conditions: t.Optional(
      t.Array(condition, {
        maxItems: 16,
        'x-kubernetes-list-map-keys': ['type'],
        description: 'Conditions; Ready summarizes the others.',
      }),
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
          store: oneOf(recordDurabilities, 'Store of new records and locks.'),
          earlierStore: t.Optional(
            oneOf(recordDurabilities, 'Store that had them before and can still have some of them.'),
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
