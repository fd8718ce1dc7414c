import {
  type KubeClient,
  KubeError,
  type KubeResult,
  type ObjectPlace,
  objectKey,
  type Secret,
  secrets,
} from '#internal/kube/index.ts'
import { tenantApiVersion } from '../model.ts'
import {
  contentAnnotation,
  previousUntilAnnotation,
  rotateAnnotation,
  rotatedAnnotation,
} from '../reconcile/secret-place.ts'
import { parseSecret, previousSigningSecretEntry, tenantLabel } from '../secret-manifest.ts'
import {
  type GeneratedSecret,
  type SecretRead,
  type SecretWritten,
  type TenantSecrets,
  tooManyNamespaces,
} from '../source.ts'

/** A Secret as cached. `unknown`: the cache is stale or forbidden. */
export type KnownSecret =
  | { readonly kind: 'known'; readonly secret: Secret | undefined }
  | { readonly kind: 'unknown' }
  /** Its namespace is beyond the limit of watches that `why` names. */
  | { readonly kind: 'unfollowed'; readonly why: string }

/** Options of `createClusterSecrets`. */
export interface ClusterSecretsOptions {
  readonly client: KubeClient
  readonly known: (place: ObjectPlace) => KnownSecret
  /** User name of this process at the API server, for the command that grants missing rights. */
  readonly username: string
}

/** The Secrets of a cluster, with read-your-writes consistency over a cache that lags behind. */
export interface ClusterSecrets {
  /** Returns the Secrets of one tenant; `mayWrite` is checked before each write. */
  of(tenant: SecretReader, mayWrite: () => boolean): TenantSecrets
  /** Drops the remembered write of a deleted Secret. */
  forget(place: ObjectPlace): void
}

/** The tenant that reads. */
export interface SecretReader {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Names of generated Secrets, which are labelled and therefore cached if they exist. */
  readonly generated: ReadonlySet<string>
}

interface Written {
  readonly secret: Secret
  readonly untilMs: number
}

/** After this the cache takes precedence over a remembered write. */
const writtenMs = 10_000
const writtenMax = 10_000

/** Creates the access to a cluster's Secrets. It holds no connection. */
export function createClusterSecrets(options: ClusterSecretsOptions): ClusterSecrets {
  const written = new Map<string, Written>()
  const remember = (secret: Secret) => {
    const key = objectKey(secret.metadata)
    written.delete(key)
    if (written.size >= writtenMax) written.clear()
    written.set(key, { secret: keptOfSecret(secret), untilMs: performance.now() + writtenMs })
  }
  /** Names of foreign Secrets without the label, found by a failed creation. */
  const taken = new Set<string>()
  const find = async (place: ObjectPlace, isGenerated: boolean): Promise<Found> => {
    const own = written.get(objectKey(place))
    const known = options.known(place)
    if (known.kind === 'unfollowed') return known
    if (own !== undefined) {
      const caughtUp =
        known.kind === 'known' && known.secret !== undefined && !isOlder(known.secret, own.secret)
      if (!caughtUp && performance.now() < own.untilMs) return { kind: 'ok' as const, value: own.secret }
      written.delete(objectKey(place))
    }
    if (known.kind === 'known' && known.secret !== undefined)
      return { kind: 'ok' as const, value: known.secret }
    // The cache lacks unlabelled Secrets. A generated one is labelled, so it is created, and read only if that fails.
    if (known.kind === 'known' && isGenerated && !taken.has(objectKey(place))) return { kind: 'notFound' }
    return await options.client.get(secrets, place)
  }
  return {
    of: (tenant, mayWrite) =>
      new SecretsOfTenant({
        options,
        tenant,
        mayWrite,
        find,
        remember,
        doubt: (place) => addBounded(taken, place),
      }),
    forget: (place) => void written.delete(objectKey(place)),
  }
}

/** Dropping all entries costs one failed creation each. */
function addBounded(taken: Set<string>, place: ObjectPlace): void {
  if (taken.size >= writtenMax) taken.clear()
  taken.add(objectKey(place))
}

type Found =
  | KubeResult<Secret>
  | { readonly kind: 'notFound' }
  | Extract<KnownSecret, { readonly kind: 'unfollowed' }>

/** resourceVersions are growing integers, by etcd's contract and Kubernetes' since 1.35 (KEP-5504). */
function isOlder(one: Secret, other: Secret): boolean {
  return Number(one.metadata.resourceVersion) < Number(other.metadata.resourceVersion)
}

interface Parts {
  readonly options: ClusterSecretsOptions
  readonly tenant: SecretReader
  readonly mayWrite: () => boolean
  readonly find: (place: ObjectPlace, isGenerated: boolean) => Promise<Found>
  readonly doubt: (place: ObjectPlace) => void
  readonly remember: (secret: Secret) => void
}

class SecretsOfTenant implements TenantSecrets {
  readonly #parts: Parts
  readonly #unlabelled = new Set<string>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async readSecret(namespace: string, name: string): Promise<SecretRead> {
    const { find, tenant } = this.#parts
    const found = await find({ namespace, name }, tenant.generated.has(name))
    if (found.kind === 'notFound') return { kind: 'missing' }
    if (found.kind === 'unfollowed') return unfollowed(namespace, found.why)
    if (found.kind === 'forbidden') {
      const { reason, message } = this.#forbidden(namespace)
      return { kind: 'unreadable', reason, message }
    }
    if (found.kind !== 'ok') throw new KubeError('reading a Secret', found)
    const read = readSecretObject(found.value, tenant)
    const isLabelled = found.value.metadata.labels?.[tenantLabel] === tenant.name
    if (read.kind === 'found' && !isLabelled) this.#unlabelled.add(name)
    return read
  }

  async writeSecret(secret: GeneratedSecret): Promise<SecretWritten> {
    const { options, remember, mayWrite, doubt } = this.#parts
    if (!mayWrite()) return { kind: 'taken' }
    const { namespace, name } = secret
    const result =
      secret.replaces === undefined
        ? await options.client.create(secrets, newSecretObject(secret))
        : await options.client.mergePatch(secrets, { namespace, name }, secretPatch(secret))
    switch (result.kind) {
      case 'ok':
        remember(result.value)
        this.#unlabelled.delete(name)
        return { kind: 'written' }
      case 'alreadyExists':
        doubt(secret)
        return { kind: 'taken' }
      case 'conflict':
      case 'notFound':
        return { kind: 'taken' }
      case 'forbidden':
        return { kind: 'refused', ...this.#forbidden(namespace) }
      case 'invalid':
        return {
          kind: 'refused',
          reason: 'SecretInvalid',
          message: 'the API server refuses to change it: if it is immutable, delete it',
        }
      default:
        throw new KubeError('writing a Secret', result)
    }
  }

  async relabel(): Promise<string[]> {
    const { options, tenant, mayWrite, remember } = this.#parts
    const names = [...this.#unlabelled]
    this.#unlabelled.clear()
    for (const name of mayWrite() ? names : []) {
      const patch = { metadata: { labels: { [tenantLabel]: tenant.name } } }
      const result = await options.client.mergePatch(secrets, { namespace: tenant.namespace, name }, patch)
      if (result.kind === 'ok') remember(result.value)
      else if (result.kind !== 'notFound') throw new KubeError('labelling a Secret', result)
    }
    return names
  }

  #forbidden(namespace: string) {
    const command = grantCommand(this.#parts.options.username, namespace)
    const place = 'list it in operator.secrets.namespaces of its chart, or'
    const message = `the operator may not use the Secrets of namespace ${namespace}: ${place} ${command}`
    return { reason: 'Forbidden', message }
  }
}

/** Not read individually: without a watch changes would go unnoticed. */
function unfollowed(namespace: string, why: string): SecretRead {
  const message = `the operator does not follow the Secrets of namespace ${namespace}: ${why}; set operator.secrets.clusterWide in its chart, or split the namespaces among several releases by operator.namespaces`
  return { kind: 'unreadable', reason: tooManyNamespaces, message }
}

/** ClusterRole for the Secrets of a namespace, bound per namespace. */
export const secretsRole = 'latchkey-operator-secrets'

/** Returns the command that grants the operator the Secrets of a namespace. */
export function grantCommand(username: string, namespace: string): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(username) ?? []
  const subject = account === undefined ? `--user=${username}` : `--serviceaccount=${account}`
  return `kubectl create rolebinding ${secretsRole} -n ${namespace} --clusterrole=${secretsRole} ${subject}`
}

/** Decodes a Secret for a tenant. Problems name entries, never values. Pure. */
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

/** Trims a Secret to what is cached. Pure. */
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

/** Builds a generated Secret for its creation. */
function newSecretObject(secret: GeneratedSecret): Secret {
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

/** Builds the patch from the Secret that was read to the wanted one; removes Latchkey's obsolete entries and annotations. */
function secretPatch(secret: GeneratedSecret) {
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
