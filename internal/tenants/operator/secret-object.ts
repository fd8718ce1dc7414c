import type { Secret } from '#internal/kube/index.ts'
import { parseSecret } from '../manifest.ts'
import { tenantApiVersion } from '../model.ts'
import {
  contentAnnotation,
  previousUntilAnnotation,
  rotateAnnotation,
  rotatedAnnotation,
} from '../reconcile/generated-secret.ts'
import { previousSigningSecretEntry, tenantLabel } from '../secret-names.ts'
import type { GeneratedSecret, SecretRead } from '../source.ts'

/** A Secret with what a tenant is to see of it. Its problems name entries and never a value. Pure. */
export function readSecretObject(object: Secret, tenant: { name: string; uid: string }): SecretRead {
  const { name, namespace, ownerReferences, annotations, labels, resourceVersion = '' } = object.metadata
  const ours = ownerReferences?.some(({ uid }) => uid === tenant.uid) ?? false
  const labelled = labels?.[tenantLabel]
  if (labelled !== tenant.name && !ours) return { kind: 'unlabelled', labelled }
  const parsed = parseSecret(
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace, annotations, ownerReferences: ownerReferences?.slice(0, 16) },
      data: object.data,
    },
    resourceVersion,
  )
  if (parsed.kind === 'ok') return { kind: 'found', secret: parsed.secret }
  const problems = parsed.problems.map(({ path, message }) => `${path} ${message}`).join('; ')
  return { kind: 'unreadable', reason: 'SecretInvalid', message: problems }
}

const ownAnnotations: readonly string[] = [
  contentAnnotation,
  previousUntilAnnotation,
  rotateAnnotation,
  rotatedAnnotation,
]

/** What of a Secret is worth its memory. */
export function keptOfSecret({ metadata, data }: Secret): Secret {
  const { name, namespace, uid, resourceVersion, labels, ownerReferences } = metadata
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([key]) =>
    ownAnnotations.includes(key),
  )
  return {
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(labels !== undefined && { labels }),
      ...(ownerReferences !== undefined && { ownerReferences }),
      annotations: Object.fromEntries(annotations),
    },
    ...(data !== undefined && { data }),
  }
}

/** A generated Secret as it is created. */
export function newSecretObject(secret: GeneratedSecret): Secret {
  return {
    metadata: {
      name: secret.name,
      namespace: secret.namespace,
      labels: labelsOf(secret),
      annotations: secret.annotations,
      ownerReferences: [ownerOf(secret)],
    },
    type: 'Opaque',
    data: dataOf(secret),
  }
}

/** What makes the Secret that was read into the one wanted: entries and annotations of ours that are not wanted any more go. */
export function secretPatch(secret: GeneratedSecret) {
  return {
    metadata: {
      resourceVersion: secret.replaces,
      labels: labelsOf(secret),
      annotations: { [previousUntilAnnotation]: null, [rotatedAnnotation]: null, ...secret.annotations },
      ownerReferences: [ownerOf(secret)],
    },
    data: { [previousSigningSecretEntry]: null, ...dataOf(secret) },
  }
}

function labelsOf({ owner }: GeneratedSecret) {
  return { [tenantLabel]: owner.name, 'app.kubernetes.io/managed-by': 'latchkey-operator' }
}

function ownerOf({ owner }: GeneratedSecret) {
  return { apiVersion: tenantApiVersion, kind: 'Tenant', name: owner.name, uid: owner.uid, controller: true }
}

function dataOf({ values }: GeneratedSecret): Record<string, string> {
  const encoded = Object.entries(values).map(([entry, value]) => [
    entry,
    Buffer.from(value, 'utf8').toString('base64'),
  ])
  return Object.fromEntries(encoded) as Record<string, string>
}
