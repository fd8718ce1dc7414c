import { DeclarationSchema } from '#internal/providers/index.ts'
import { acceptedProviderNames, ProviderStatus } from '#internal/tenants/index.ts'
import { column, crdText, structural } from './crd.ts'

export const providerCrdPath = 'crds/latchkey.dev_providers.yaml'

const reserved = `[${acceptedProviderNames.map((name) => `'${name}'`).join(', ')}]`

/** Returns the definition of the resource. The schema of its spec also checks manifests in a folder. */
export function providerCrdText(): string {
  const { name: _name, ...properties } = DeclarationSchema.properties
  const required = DeclarationSchema.required?.filter((field) => field !== 'name') ?? []
  return crdText(
    {
      kind: 'Provider',
      plural: 'providers',
      shortName: 'lkp',
      scope: 'Cluster',
      columns,
      description: 'Declaration of a provider: how its calls are signed, and what they mean.',
      name: { type: 'string', maxLength: 40, description: 'Name in paths, and first part of derived types.' },
      spec: structural({ ...DeclarationSchema, properties, required }, false),
      status: structural(ProviderStatus, false),
      rules,
    },
    'internal/providers/declared/schema.ts',
  )
}

const ready = '.status.conditions[?(@.type=="Ready")]'
const columns = [
  column('Ready', 'string', 'Whether this generation is in force.', `${ready}.status`),
  column('Reason', 'string', 'Reason of the condition Ready.', `${ready}.reason`),
  column('Vectors', 'integer', 'Recorded calls that were run and hold.', '.status.vectorsPassed'),
  column('Unverified', 'boolean', 'Whether tenants must accept it.', '.spec.unverified'),
  column('Age', 'date', 'Time since creation.', '.metadata.creationTimestamp'),
  { ...column('Message', 'string', 'Message of the condition Ready.', `${ready}.message`), priority: 1 },
]

const rules = [
  {
    rule: "self.metadata.name.matches('^[a-z][a-z0-9]{1,39}$')",
    message: 'metadata.name must have 2 to 40 letters and digits, the first of them a letter',
  },
  {
    rule: `!(self.metadata.name in ${reserved})`,
    message: 'metadata.name must not be the name of a built-in provider: choose another one',
  },
  {
    rule: `!has(self.spec.aliases) || self.spec.aliases.all(alias, !(alias in ${reserved}))`,
    message: 'an alias must not be the name of a built-in provider: choose another one',
    fieldPath: '.spec.aliases',
  },
  {
    rule: 'has(self.spec.body.json) || has(self.spec.body.form)',
    message: 'must contain json, form or both',
    fieldPath: '.spec.body',
  },
]
