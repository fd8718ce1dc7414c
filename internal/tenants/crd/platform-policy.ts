import { Value } from '@sinclair/typebox/value'
import { Tenant } from '../model.ts'
import { tenantResource } from './tenant-crd.ts'

/** Fields of the spec that only the platform may set to anything but their defaults, or change. */
export const platformFields = ['limits', 'walletRollout', 'retention', 'records'] as const

/** Takes over retained data of a deleted tenant: its value is that tenant's id. Only the platform may set it. */
export const adoptAnnotation = 'latchkey.dev/adopt'

const name = 'tenants-platform.latchkey.dev'
const { group, plural, version } = tenantResource
const mayUpdate = `who may update ${plural}/platform in this namespace`

/**
 * The ValidatingAdmissionPolicy that keeps a tenant's author from granting itself quota or rollout, and its binding. Whether
 * somebody is the platform is asked of the authorizer, so that roles decide: verb `update` on the subresource
 * `tenants/platform`, which exists for this question alone. Pure.
 */
export function platformPolicy(): object[] {
  return [
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          matchPolicy: 'Equivalent',
          // The defaults of the API server, written out: to server-side apply this is one value, which then is the same whoever
          // wrote it. Without them Helm 4 conflicts with kubectl over an equal policy.
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
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ]
}

/** The cheap comparison comes first: the authorizer is asked only about a change. */
function unchanged(field: (typeof platformFields)[number]): object {
  const standard = celLiteral(Value.Default(Tenant.properties.spec.properties[field], undefined))
  const before = `(oldObject == null ? dyn(${standard}) : dyn(oldObject.spec.${field}))`
  return {
    expression: `dyn(object.spec.${field}) == ${before} || variables.platform`,
    message: `spec.${field} is the platform's to set: ask ${mayUpdate}`,
    reason: 'Forbidden',
  }
}

/** Removing the annotation takes nothing over, so its author may. */
function adoptUnchanged(): object {
  return {
    expression: "variables.adopt == '' || variables.adopt == variables.adoptBefore || variables.platform",
    message: `annotation ${adoptAnnotation} is the platform's to set: ask ${mayUpdate}`,
    reason: 'Forbidden',
  }
}

function annotationOf(object: 'object' | 'oldObject'): string {
  const annotations = `${object}.metadata.annotations`
  return `has(${annotations}) && '${adoptAnnotation}' in ${annotations} ? ${annotations}['${adoptAnnotation}'] : ''`
}

/** Its values are `dyn`, since a map of CEL is of one type otherwise. Defaults are maps of texts without quotes, integers and booleans; anything else would need a thought here. */
function celLiteral(value: unknown): string {
  if (typeof value === 'string' && /^[\w ]*$/.test(value)) return `'${value}'`
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return String(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error('a default that has no CEL literal')
  }
  const entries = Object.entries(value).map(([key, inner]) => `'${key}': dyn(${celLiteral(inner)})`)
  return `{${entries.join(', ')}}`
}
