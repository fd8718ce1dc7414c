import { timestampPattern } from '#internal/base/index.ts'
import { DeclarationSchema } from '#internal/providers/index.ts'
import { acceptedProviderNames } from '#internal/tenants/index.ts'
import { column, crdText, type Schema, structural } from './crd.ts'

/** Path of the generated definition of Providers. */
export const providerCrdPath = 'crds/latchkey.dev_providers.yaml'

const reserved = `[${acceptedProviderNames.map((name) => `'${name}'`).join(', ')}]`

/** Returns the definition of Providers, whose spec is the schema that a folder's manifests are checked with. */
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
      status,
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
    message: 'metadata.name is a name of a built-in provider: choose another one',
  },
  {
    rule: `!has(self.spec.aliases) || self.spec.aliases.all(alias, !(alias in ${reserved}))`,
    message: 'an alias is a name of a built-in provider: choose another one',
    fieldPath: '.spec.aliases',
  },
  {
    rule: 'has(self.spec.body.json) || has(self.spec.body.form)',
    message: 'must have json, form or both',
    fieldPath: '.spec.body',
  },
]

const text = (maxLength: number, description: string) => ({ type: 'string', maxLength, description })
const count = (description: string) => ({ type: 'integer', minimum: 0, format: 'int64', description })

const status: Schema = {
  type: 'object',
  description: 'Written by the operator.',
  properties: {
    observedGeneration: count('metadata.generation that the status is about.'),
    inForceGeneration: count('Generation whose declaration is in force. Absent: none is.'),
    vectorsPassed: { ...count('Recorded calls that were run and hold.'), format: 'int32' },
    names: {
      type: 'array',
      maxItems: 6,
      'x-kubernetes-list-type': 'atomic',
      description: 'Names in paths: the name and its aliases.',
      items: text(40, 'Name.'),
    },
    conditions: {
      type: 'array',
      maxItems: 8,
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      description: 'Conditions.',
      items: {
        type: 'object',
        description: 'A condition.',
        required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
        properties: {
          type: text(64, 'Ready; DeletionWaiting while a deleted Provider cannot go yet.'),
          status: {
            type: 'string',
            enum: ['True', 'False', 'Unknown'],
            description: 'True, False or Unknown.',
          },
          reason: text(128, 'Reason of the status, one CamelCase word.'),
          message: text(1024, 'Explanation, and what to do next.'),
          lastTransitionTime: {
            type: 'string',
            maxLength: 40,
            pattern: timestampPattern,
            format: 'date-time',
            description: 'When status last changed.',
          },
        },
      },
    },
  },
}
