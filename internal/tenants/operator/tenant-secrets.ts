import {
  type KubeClient,
  KubeError,
  type KubeResult,
  type ObjectPlace,
  objectKey,
  type Secret,
  secrets,
} from '#internal/kube/index.ts'
import { tenantLabel } from '../secret-names.ts'
import {
  type GeneratedSecret,
  type SecretRead,
  type SecretSource,
  type SecretWritten,
  tooManyNamespaces,
} from '../source.ts'
import { keptOfSecret, newSecretObject, readSecretObject, secretPatch } from './secret-object.ts'

/** What is known of a Secret without asking the server. `unknown`: the cache is behind, or may not be read. */
export type KnownSecret =
  | { readonly kind: 'known'; readonly secret: Secret | undefined }
  | { readonly kind: 'unknown' }
  /** Its namespace is not followed, since a bound of watches is reached; `why` says which. */
  | { readonly kind: 'unfollowed'; readonly why: string }

/** What a cluster's Secrets are reached through. */
export interface ClusterSecretsOptions {
  readonly client: KubeClient
  readonly known: (place: ObjectPlace) => KnownSecret
  /** The user name that the API server knows us by, for the command that grants it what it lacks. */
  readonly username: string
}

/** The Secrets of a cluster. What was just written is seen at once, whatever the cache says. */
export interface ClusterSecrets {
  /** The Secrets as one tenant sees them. `mayWrite` is asked before each write. */
  of(tenant: SecretReader, mayWrite: () => boolean): TenantSecrets
  /** A Secret was deleted: what was written to it no longer counts. */
  forget(place: ObjectPlace): void
}

/** Who looks. */
export interface SecretReader {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Names of Secrets that would be generated: as long as nobody took such a name, those that exist are in the cache. */
  readonly generated: ReadonlySet<string>
}

/** A tenant's Secrets for the time of one reconciliation. */
export interface TenantSecrets extends SecretSource {
  /** Puts the label back on generated Secrets that lost it, so that their changes are heard of. Gives their names. */
  relabel(): Promise<string[]>
}

interface Written {
  readonly secret: Secret
  readonly untilMs: number
}

/** A watch that has not told of a write by then has more than this one to catch up with. */
const writtenMs = 10_000
const writtenMax = 10_000

/** Makes the access to a cluster's Secrets. It holds no connection of its own. */
export function createClusterSecrets(options: ClusterSecretsOptions): ClusterSecrets {
  const written = new Map<string, Written>()
  const remember = (secret: Secret) => {
    const key = objectKey(secret.metadata)
    written.delete(key)
    if (written.size >= writtenMax) written.clear()
    written.set(key, { secret: keptOfSecret(secret), untilMs: performance.now() + writtenMs })
  }
  /** Names that turned out to be somebody's although no Secret of ours has them. */
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
    // Nothing in the cache may be there without the label. A generated one has it: so it is made, and if that fails looked at.
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

/** Forgetting all costs a failed creation each. */
function addBounded(taken: Set<string>, place: ObjectPlace): void {
  if (taken.size >= writtenMax) taken.clear()
  taken.add(objectKey(place))
}

type Found =
  | KubeResult<Secret>
  | { readonly kind: 'notFound' }
  | Extract<KnownSecret, { readonly kind: 'unfollowed' }>

/** Revisions are whole numbers that grow, by etcd's contract and by Kubernetes' own since 1.35 (KEP-5504). */
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

/** Not read one by one: without a watch, changes would go unnoticed. */
function unfollowed(namespace: string, why: string): SecretRead {
  const message = `the operator does not follow the Secrets of namespace ${namespace}: ${why}; set operator.secrets.clusterWide in its chart, or split the namespaces among several releases by operator.namespaces`
  return { kind: 'unreadable', reason: tooManyNamespaces, message }
}

/** The role that lets the operator use the Secrets of a namespace that it is bound in. */
export const secretsRole = 'latchkey-operator-secrets'

/** What an administrator types to let the operator use the Secrets of a namespace. */
export function grantCommand(username: string, namespace: string): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(username) ?? []
  const subject = account === undefined ? `--user=${username}` : `--serviceaccount=${account}`
  return `kubectl create rolebinding ${secretsRole} -n ${namespace} --clusterrole=${secretsRole} ${subject}`
}
