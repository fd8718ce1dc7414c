import { Tenant, tenantApiVersion } from '../model.ts'
import { tenantNotes } from './rules.ts'
import { statusNotes, TenantStatus } from './status.ts'
import { type StructuralSchema, structuralSchema } from './structural.ts'

/** The Tenant resource's names in URLs, in roles and for kubectl. */
export const tenantResource = { group: 'latchkey.dev', version: 'v1alpha1', plural: 'tenants' } as const

const ready = (field: string) => `.status.conditions[?(@.type=="Ready")].${field}`

/** What `kubectl get tenants` shows; from the sixth on only with `-o wide`. */
const printerColumns = [
  { name: 'Ready', type: 'string', description: 'Whether all that was asked for is in force.' },
  { name: 'Reason', type: 'string', description: 'Why it is or is not Ready.' },
  { name: 'Slug', type: 'string', description: 'Its part of the webhook URLs.' },
  { name: 'Wallet', type: 'string', description: 'How far wallet traffic is rolled out.' },
  { name: 'Age', type: 'date', description: 'Time since it was created.' },
  { name: 'Suspended', type: 'boolean', description: 'Whether all its calls are refused.' },
  { name: 'Deletion', type: 'string', description: 'What becomes of its data when it is deleted.' },
  { name: 'Callback', type: 'string', description: 'Where events are sent.' },
  { name: 'Tenant', type: 'string', description: 'Its id.' },
  { name: 'Message', type: 'string', description: 'What to do while it is not Ready.' },
] as const
type Column = (typeof printerColumns)[number]['name']

const columnPaths: Readonly<Record<Column, string>> = {
  Ready: ready('status'),
  Reason: ready('reason'),
  Slug: '.spec.slug',
  Wallet: '.spec.walletRollout.stage',
  Age: '.metadata.creationTimestamp',
  Suspended: '.spec.suspended',
  Deletion: '.spec.deletionPolicy',
  Callback: '.spec.callback.url',
  Tenant: '.status.tenantId',
  Message: ready('message'),
}
const columnsAlwaysShown = 5

/** The CustomResourceDefinition of the Tenant, from its one schema. Pure. */
export function tenantCrd(): object {
  const { group, version, plural } = tenantResource
  if (tenantApiVersion !== `${group}/${version}`) throw new Error('one API version under two names')
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: {
        kind: 'Tenant',
        listKind: 'TenantList',
        plural,
        singular: 'tenant',
        shortNames: ['lkt'],
        categories: ['latchkey'],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          selectableFields: [{ jsonPath: '.spec.slug' }],
          additionalPrinterColumns: printerColumns.map((column, index) => ({
            ...column,
            jsonPath: columnPaths[column.name],
            ...(index < columnsAlwaysShown ? {} : { priority: 1 }),
          })),
          schema: { openAPIV3Schema: tenantSchema() },
        },
      ],
    },
  }
}

/** Of metadata, which is the server's own, a definition may bound the name only. */
function tenantSchema(): StructuralSchema {
  const { metadata, spec } = Tenant.properties
  const name = structuralSchema(metadata.properties.name, 'metadata.name', tenantNotes)
  return {
    type: 'object',
    description: Tenant.description ?? '',
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: `Always ${tenantApiVersion}.` },
      kind: { type: 'string', description: 'Always Tenant.' },
      metadata: { type: 'object', properties: { name } },
      spec: structuralSchema(spec, 'spec', tenantNotes),
      status: structuralSchema(TenantStatus, 'status', statusNotes),
    },
  }
}
