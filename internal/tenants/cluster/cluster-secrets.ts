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
} from '../tenant-source.ts'

/** `unknown`: the cache is stale, or access is forbidden. */
export type KnownSecret =
  | { readonly kind: 'known'; readonly secret: Secret | undefined }
  | { readonly kind: 'unknown' }
  /** The Secret's namespace is not watched, because the limit in `why` is reached. */
  | { readonly kind: 'unfollowed'; readonly why: string }

export interface ClusterSecretsOptions {
  readonly client: KubeClient
  readonly known: (place: ObjectPlace) => KnownSecret
  /** User name at the API server. Appears in the command that grants missing permissions. */
  readonly username: string
}

/** Time after which the cache takes precedence over a remembered write. */
const writtenMs = 10_000
const writtenMax = 10_000

/** Secrets of a cluster. Remembers recent writes, so that a process sees its own writes although the cache lags. Holds no connection. */
export class ClusterSecrets {
  readonly #options: ClusterSecretsOptions
  readonly #written = new Map<
    string,
    {
      readonly secret: Secret
      readonly untilMs: number
    }
  >()
  /** Keys of Secrets whose creation failed, because they exist without the tenant label. Clearing it costs one failed attempt each. */
  readonly #taken = new Set<string>()

  constructor(options: ClusterSecretsOptions) {
    this.#options = options
  }

  /** Returns the access to one tenant's Secrets, which calls `mayWrite` before each write. */
  of(tenant: Parts['tenant'], mayWrite: () => boolean): TenantSecrets {
    return new SecretsOfTenant({ ...this.#options, cluster: this, tenant, mayWrite })
  }

  /** Finds a Secret in this process's recent writes, then in the cache. Reads the API server if the cache cannot contain the Secret. */
  async find(
    place: ObjectPlace,
    isGenerated: boolean,
  ): Promise<
    KubeResult<Secret> | { readonly kind: 'notFound' } | Extract<KnownSecret, { kind: 'unfollowed' }>
  > {
    const key = objectKey(place)
    const own = this.#written.get(key)
    const known = this.#options.known(place)
    if (known.kind === 'unfollowed') return known
    if (own !== undefined) {
      const caughtUp =
        known.kind === 'known' && known.secret !== undefined && !isOlder(known.secret, own.secret)
      if (!caughtUp && performance.now() < own.untilMs) return { kind: 'ok', value: own.secret }
      this.#written.delete(key)
    }
    if (known.kind === 'known' && known.secret !== undefined) return { kind: 'ok', value: known.secret }
    // The cache contains only labelled Secrets, and generated Secrets are labelled. A generated Secret that the cache lacks therefore
    // counts as missing; it is read from the server only after its creation has failed.
    if (known.kind === 'known' && isGenerated && !this.#taken.has(key)) return { kind: 'notFound' }
    return await this.#options.client.get(secrets, place)
  }

  /** Remembers a write until the cache contains it, at most 10 s. */
  remember(secret: Secret): void {
    const key = objectKey(secret.metadata)
    this.#written.delete(key)
    if (this.#written.size >= writtenMax) this.#written.clear()
    this.#written.set(key, { secret: keptOfSecret(secret), untilMs: performance.now() + writtenMs })
  }

  noteTaken(place: ObjectPlace): void {
    if (this.#taken.size >= writtenMax) this.#taken.clear()
    this.#taken.add(objectKey(place))
  }

  forget(place: ObjectPlace): void {
    this.#written.delete(objectKey(place))
  }
}

/** Compares resourceVersions, which are increasing integers: guaranteed by etcd, and by Kubernetes since 1.35 (KEP-5504). */
function isOlder(one: Secret, other: Secret): boolean {
  return Number(one.metadata.resourceVersion) < Number(other.metadata.resourceVersion)
}

interface Parts extends ClusterSecretsOptions {
  readonly cluster: ClusterSecrets
  readonly tenant: {
    readonly namespace: string
    readonly name: string
    readonly uid: string
    /** Names of the tenant's generated Secrets. Latchkey labels them, so the cache contains those that exist. */
    readonly generated: ReadonlySet<string>
  }
  readonly mayWrite: () => boolean
}

class SecretsOfTenant implements TenantSecrets {
  readonly #parts: Parts
  readonly #unlabelled = new Set<string>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async readSecret(namespace: string, name: string): Promise<SecretRead> {
    const { cluster, tenant } = this.#parts
    const found = await cluster.find({ namespace, name }, tenant.generated.has(name))
    if (found.kind === 'notFound') return { kind: 'missing' }
    if (found.kind === 'unfollowed') return unfollowed(namespace, found.why)
    if (found.kind === 'forbidden') {
      const { reason, message } = this.#forbidden(namespace)
      return { kind: 'unreadable', reason, message }
    }
    if (found.kind !== 'ok') throw new KubeError('cannot read a Secret', found)
    const read = readSecretObject(found.value, tenant)
    const isLabelled = found.value.metadata.labels?.[tenantLabel] === tenant.name
    if (read.kind === 'found' && !isLabelled) this.#unlabelled.add(name)
    return read
  }

  async writeSecret(secret: GeneratedSecret): Promise<SecretWritten> {
    const { client, cluster, mayWrite } = this.#parts
    if (!mayWrite()) return { kind: 'taken' }
    const { namespace, name } = secret
    const result =
      secret.replaces === undefined
        ? await client.create(secrets, generatedObject(secret))
        : await client.mergePatch(secrets, { namespace, name }, secretPatch(secret))
    switch (result.kind) {
      case 'ok':
        cluster.remember(result.value)
        this.#unlabelled.delete(name)
        return { kind: 'written' }
      case 'alreadyExists':
        cluster.noteTaken(secret)
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
          message: 'the API server refuses to change this Secret: if it is immutable, delete it',
        }
      default:
        throw new KubeError('cannot write a Secret', result)
    }
  }

  async relabel(): Promise<string[]> {
    const { client, cluster, tenant, mayWrite } = this.#parts
    const names = [...this.#unlabelled]
    this.#unlabelled.clear()
    for (const name of mayWrite() ? names : []) {
      const patch = { metadata: { labels: { [tenantLabel]: tenant.name } } }
      const result = await client.mergePatch(secrets, { namespace: tenant.namespace, name }, patch)
      if (result.kind === 'ok') cluster.remember(result.value)
      else if (result.kind !== 'notFound') throw new KubeError('cannot label a Secret', result)
    }
    return names
  }

  #forbidden(namespace: string) {
    const command = grantCommand(this.#parts.username, namespace)
    const place = 'list it in operator.secrets.namespaces of its chart, or'
    const message = `the operator has no permission to use the Secrets of namespace ${namespace}: ${place} ${command}`
    return { reason: 'Forbidden', message }
  }
}

/** Refuses a Secret in a namespace without a watch. Reading it once is no use, because its later changes would go unnoticed. */
function unfollowed(namespace: string, why: string): SecretRead {
  const message = `the operator does not watch the Secrets of namespace ${namespace}: ${why}; set operator.secrets.clusterWide in its chart, or split the namespaces among several releases by operator.namespaces`
  return { kind: 'unreadable', reason: tooManyNamespaces, message }
}

/** ClusterRole that permits use of Secrets, bound separately in each namespace. */
export const secretsRole = 'latchkey-operator-secrets'

export function grantCommand(username: string, namespace: string): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(username) ?? []
  const subject = account === undefined ? `--user=${username}` : `--serviceaccount=${account}`
  return `kubectl create rolebinding ${secretsRole} -n ${namespace} --clusterrole=${secretsRole} ${subject}`
}

/** Problems contain names of entries, never values. Pure. */
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

/** Patch that replaces a generated Secret and removes Latchkey's obsolete entries and annotations. */
function secretPatch(secret: GeneratedSecret) {
  const { metadata, data } = generatedObject(secret)
  return {
    metadata: {
      resourceVersion: secret.replaces,
      labels: metadata.labels,
      annotations: { [previousUntilAnnotation]: null, [rotatedAnnotation]: null, ...metadata.annotations },
      ownerReferences: metadata.ownerReferences,
    },
    data: { [previousSigningSecretEntry]: null, ...data },
  }
}

function generatedObject({ namespace, name, annotations, owner, values }: GeneratedSecret): Secret {
  const data = Object.entries(values).map(([entry, value]) => [entry, Buffer.from(value).toString('base64')])
  return {
    metadata: {
      name,
      namespace,
      annotations,
      labels: { [tenantLabel]: owner.name, 'app.kubernetes.io/managed-by': 'latchkey-operator' },
      ownerReferences: [
        { apiVersion: tenantApiVersion, kind: 'Tenant', name: owner.name, uid: owner.uid, controller: true },
      ],
    },
    type: 'Opaque',
    data: Object.fromEntries(data) as Record<string, string>,
  }
}
