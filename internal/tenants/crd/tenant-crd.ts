import { Value } from '@sinclair/typebox/value'
import { stringify } from 'yaml'
import { Tenant, tenantApiVersion } from '../model.ts'
import { tenantNotes } from './rules.ts'
import { statusNotes, TenantStatus } from './status.ts'
import { type StructuralSchema, structuralSchema } from './structural.ts'

/** Group, version and plural of the Tenant resource. */
export const tenantResource = { group: 'latchkey.dev', version: 'v1alpha1', plural: 'tenants' } as const

const ready = (field: string) => `.status.conditions[?(@.type=="Ready")].${field}`

/** Columns of `kubectl get tenants`; from the sixth on with `-o wide` only. */
const printerColumns = [
  { name: 'Ready', type: 'string', description: 'Whether the whole spec is in force.' },
  { name: 'Reason', type: 'string', description: 'Reason of the condition Ready.' },
  { name: 'Slug', type: 'string', description: 'Path segment of its webhook URLs.' },
  { name: 'Wallet', type: 'string', description: 'Stage of the wallet rollout.' },
  { name: 'Age', type: 'date', description: 'Time since creation.' },
  { name: 'Suspended', type: 'boolean', description: 'Whether its calls are refused.' },
  { name: 'Deletion', type: 'string', description: 'Whether a deletion keeps or removes its data.' },
  { name: 'Callback', type: 'string', description: 'URL that receives its events.' },
  { name: 'Tenant', type: 'string', description: 'Tenant id.' },
  { name: 'Message', type: 'string', description: 'Message of the condition Ready.' },
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

/** Builds the CustomResourceDefinition of the Tenant from its schema. Pure. */
export function tenantCrd(): object {
  const { group, version, plural } = tenantResource
  if (tenantApiVersion !== `${group}/${version}`)
    throw new Error('tenantApiVersion and tenantResource differ')
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

/** Restricts `metadata.name`; a definition cannot restrict other metadata. */
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

/** Fields of the spec that only the platform may change from their defaults. */
export const platformFields = ['limits', 'walletRollout', 'retention', 'records'] as const

/** Annotation that adopts the retained data of a deleted tenant, given its id. Only the platform may set it. */
export const adoptAnnotation = 'latchkey.dev/adopt'

const policyName = 'tenants-platform.latchkey.dev'
const mayUpdate = `a role with update on ${tenantResource.plural}/platform in this namespace`

/**
 * Builds the ValidatingAdmissionPolicy that keeps tenant authors from granting themselves quota or rollout, and its binding. Roles decide
 * who is the platform, by the verb `update` on the subresource `tenants/platform`, which exists for this check alone. Pure.
 */
export function platformPolicy(): object[] {
  const { group, plural, version } = tenantResource
  return [
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: policyName },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          matchPolicy: 'Equivalent',
          // The API server's defaults, explicit: server-side apply treats matchConstraints as one value, and without them Helm 4
          // conflicts with kubectl over an equal policy.
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: [
            {
              apiGroups: [group],
              apiVersions: [version],
              operations: ['CREATE', 'UPDATE'],
              resources: [plural],
              scope: 'Namespaced',
            },
          ],
        },
        variables: [
          {
            name: 'platform',
            expression: `authorizer.group('${group}').resource('${plural}').subresource('platform').namespace(request.namespace).name(request.name).check('update').allowed()`,
          },
          { name: 'adopt', expression: annotationOf('object') },
          {
            name: 'adoptBefore',
            expression: `oldObject == null ? '' : ${annotationOf('oldObject')}`,
          },
        ],
        validations: [...platformFields.map(unchanged), adoptUnchanged()],
      },
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name: policyName },
      spec: { policyName, validationActions: ['Deny'] },
    },
  ]
}

/** The comparison comes first, so that the authorizer is called for changes only. */
function unchanged(field: (typeof platformFields)[number]): object {
  const standard = celLiteral(Value.Default(Tenant.properties.spec.properties[field], undefined))
  const before = `(oldObject == null ? dyn(${standard}) : dyn(oldObject.spec.${field}))`
  return {
    expression: `dyn(object.spec.${field}) == ${before} || variables.platform`,
    message: `spec.${field} is the platform's to set: it needs ${mayUpdate}`,
    reason: 'Forbidden',
  }
}

/** Authors may remove the annotation, which adopts nothing. */
function adoptUnchanged(): object {
  return {
    expression: "variables.adopt == '' || variables.adopt == variables.adoptBefore || variables.platform",
    message: `annotation ${adoptAnnotation} is the platform's to set: it needs ${mayUpdate}`,
    reason: 'Forbidden',
  }
}

function annotationOf(object: 'object' | 'oldObject'): string {
  const annotations = `${object}.metadata.annotations`
  return `has(${annotations}) && '${adoptAnnotation}' in ${annotations} ? ${annotations}['${adoptAnnotation}'] : ''`
}

/** Formats a default as CEL. Values are `dyn`, since a CEL map has one type. Supports maps, plain texts, integers and booleans. */
function celLiteral(value: unknown): string {
  if (typeof value === 'string' && /^[\w ]*$/.test(value)) return `'${value}'`
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return String(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error('a default has no CEL literal')
  }
  const entries = Object.entries(value).map(([key, inner]) => `'${key}': dyn(${celLiteral(inner)})`)
  return `{${entries.join(', ')}}`
}

/** A file of `crds/`. */
export interface CrdFile {
  readonly name: string
  readonly text: string
}

const header = '# Generated by `npm run generate` from internal/tenants: change it there.\n'

/** Generates the definition and the admission policy, for `kubectl apply --server-side --field-manager=helm -f crds`. Pure. */
export function crdFiles(): CrdFile[] {
  return [
    { name: 'latchkey.dev_tenants.yaml', text: yaml([tenantCrd()]) },
    { name: 'tenants-platform.latchkey.dev.yaml', text: yaml(platformPolicy()) },
  ]
}

/** Quotes texts such as `off`, which YAML 1.1, as kubectl reads it, takes for false. */
function yaml(documents: readonly object[]): string {
  const options = { compat: 'yaml-1.1', aliasDuplicateObjects: false, lineWidth: 120 } as const
  return header + documents.map((document) => stringify(document, options)).join('---\n')
}
