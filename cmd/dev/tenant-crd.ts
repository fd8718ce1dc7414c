import { Tenant, TenantStatus } from '#internal/tenants/index.ts'
import { column, crdText, structural } from './crd.ts'

export const tenantCrdPath = 'crds/latchkey.dev_tenants.yaml'

/** Returns the definition of the resource. The schema of its spec also checks manifests in a folder. */
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
      status: structural(TenantStatus, true),
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
