import {
  type KubeFailureKind,
  type ObjectChange,
  type ObjectPlace,
  objectKey,
  parseObjectKey,
  Reflector,
  type ReflectorTrouble,
  type Secret,
  secrets,
  type Transport,
  watchBounds,
} from '#internal/kube/index.ts'
import type { CheckResult, Health, Logger } from '#internal/telemetry/index.ts'
import { tenantLabel } from '../secret-manifest.ts'
import { slugOf, type TenantObject, tenantObjects } from '../tenant-object.ts'
import { type KnownSecret, keptOfSecret } from './cluster-secrets.ts'

export interface ClusterViewOptions {
  readonly transport: Transport
  readonly namespaces: readonly string[] | undefined
  /** True for one watch over all labelled Secrets; false for one watch per namespace that contains Tenants. */
  readonly secretsClusterWide: boolean
  readonly health: Health
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
  readonly onSecretDeleted: (place: ObjectPlace) => void
  /** Default: the maximum of the process. Only tests set it. */
  readonly watchesMax?: number
  /** Number of `exhausted` failures in a row until a namespace is not watched; default 8, about a minute. Replaced in tests only. */
  readonly exhaustedTimes?: number
}

const settleLookMs = 50
const troubleLogEvery = 20
/** Number of `forbidden` failures in a row that count as lasting. A starting API server forbids all requests until it knows its roles. */
const forbiddenTimes = 2
const exhaustedTimesDefault = 8

/** Scope of a watch over all namespaces. Every other scope is the name of one namespace. */
const everywhere = ''

function nameOf(followed: 'tenants' | 'secrets', scope: string): string {
  return scope === everywhere ? followed : `${followed} of ${scope}`
}

/** Cached Tenants and Secrets of a cluster. Starts its watches in the constructor. The caller must stop the view. */
export class ClusterView {
  readonly #options: ClusterViewOptions
  readonly #tenants = new Map<string, Reflector<TenantObject>>()
  readonly #secrets = new Map<string, Reflector<Secret>>()
  /** Namespaces not watched, because the maximum number of watches is reached. The one that has waited longest comes first. */
  readonly #unfollowed = new Set<string>()
  readonly #watchesMax: number
  /** Consecutive `exhausted` failures by reflector name. The cache of a reflector counts as valid until its failures are lasting. */
  readonly #exhausted = new Map<string, RepeatedFailure>()
  readonly #counts = new Map<string, number>()
  readonly #claims = new Map<unknown, Set<string>>()
  readonly #listeners = new Set<(key: string) => void>()
  readonly #ending = new Set<Promise<void>>()

  constructor(options: ClusterViewOptions) {
    this.#options = options
    this.#watchesMax = options.watchesMax ?? watchBounds.watchesMax
    if (options.secretsClusterWide) this.#followSecrets(everywhere)
    for (const scope of options.namespaces ?? [everywhere]) this.#followTenants(scope)
  }

  tenant(place: ObjectPlace): TenantObject | undefined {
    return this.#tenantsOf(place.namespace ?? '')?.cache.get(place)
  }

  *tenants(): IterableIterator<TenantObject> {
    for (const reflector of this.#tenants.values()) yield* reflector.cache.values()
  }

  /** Lists the Tenants that claim a slug, including the Tenant that holds it. */
  *claimants(slug: string): IterableIterator<TenantObject> {
    for (const key of this.#claims.get(slug) ?? []) {
      const object = this.tenant(parseObjectKey(key))
      if (object !== undefined) yield object
    }
  }

  secret(place: ObjectPlace): KnownSecret {
    const scope = this.#secretScope(place.namespace ?? '')
    const reflector = this.#secrets.get(scope)
    if (this.#unfollowed.has(scope))
      return { kind: 'unfollowed', why: `it opens at most ${this.#watchesMax} watches` }
    const exhausted = this.#lastingExhaustion(nameOf('secrets', scope), reflector)
    if (exhausted !== undefined) return { kind: 'unfollowed', why: exhausted }
    if (!reflector?.hasSynced() || reflector.failure()?.kind === 'forbidden') return { kind: 'unknown' }
    return { kind: 'known', secret: reflector.cache.get(place) }
  }

  /** Returns whether the cache contains all Tenants of the namespace, so that a Tenant that it lacks does not exist. */
  isComplete(namespace: string): boolean {
    return this.#tenantsOf(namespace)?.hasSynced() ?? false
  }

  /** Calls `listener` with the key of each Tenant to reconcile. The returned function removes the listener. */
  onKey(listener: (key: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Resolves when all readable Tenants and Secrets have been read, or when the signal fires. */
  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#isSettled()) await Bun.sleep(settleLookMs)
  }

  /** Succeeds after the first complete read; a forbidden namespace does not delay the other namespaces. */
  check(): CheckResult {
    const reflectors = [...this.#tenants.values()]
    if (reflectors.some((each) => each.failure()?.kind === 'notFound'))
      return {
        ok: false,
        reason:
          'the API server has no definition of Tenant: run kubectl apply --server-side --field-manager=helm -f crds',
      }
    if (reflectors.every((each) => !each.hasSynced() && each.failure()?.kind === 'forbidden'))
      return { ok: false, reason: 'the operator has no permission to list Tenants: bind its ClusterRole' }
    for (const [scope, reflector] of this.#tenants) {
      const exhausted = this.#lastingExhaustion(nameOf('tenants', scope), reflector)
      if (exhausted !== undefined)
        return {
          ok: false,
          reason: `the operator does not watch all Tenants: ${exhausted}; configure fewer namespaces`,
        }
    }
    return this.#isSettled()
      ? { ok: true }
      : { ok: false, reason: 'the operator is still reading Tenants and Secrets' }
  }

  async stop(): Promise<void> {
    this.#listeners.clear()
    const all = [...this.#tenants.values(), ...this.#secrets.values()]
    await Promise.all([...all.map((each) => each.stop()), ...this.#ending])
  }

  /** Returns whether every reflector has synced or is forbidden. */
  #isSettled(): boolean {
    const reflectors = [...this.#tenants.values(), ...this.#secrets.values()]
    return reflectors.every((each) => each.hasSynced() || each.failure()?.kind === 'forbidden')
  }

  #tenantsOf(namespace: string): Reflector<TenantObject> | undefined {
    return this.#tenants.get(this.#options.namespaces ? namespace : everywhere)
  }

  #secretScope(namespace: string): string {
    return this.#options.secretsClusterWide ? everywhere : namespace
  }

  /** Returns a message if `exhausted` failures have prevented the reflector's watch for about a minute, otherwise undefined. */
  #lastingExhaustion(
    name: string,
    reflector: Pick<Reflector<Secret>, 'failure'> | undefined,
  ): string | undefined {
    const failure = reflector?.failure()
    return failure?.kind === 'exhausted' && this.#exhausted.get(name)?.isLasting ? failure.message : undefined
  }

  #noteExhaustion(name: string, trouble: ReflectorTrouble): boolean {
    const { exhaustedTimes = exhaustedTimesDefault } = this.#options
    const row = this.#exhausted.get(name) ?? new RepeatedFailure('exhausted', exhaustedTimes)
    this.#exhausted.set(name, row)
    return row.note(trouble)
  }

  #followTenants(scope: string): void {
    const { transport, health } = this.#options
    const name = nameOf('tenants', scope)
    const reflector = new Reflector<TenantObject>({
      name,
      transport,
      of: tenantObjects,
      health,
      keep: keptOfTenant,
      selection: scope === everywhere ? {} : { namespace: scope },
      listsWhenCutShort: true,
      onChange: (change) => this.#onTenant(change),
      onTrouble: (trouble) => {
        this.#report(`tenants ${scope}`, trouble)
        this.#noteExhaustion(name, trouble)
      },
    })
    this.#tenants.set(scope, reflector)
  }

  #followSecrets(scope: string): void {
    if (this.#secrets.has(scope)) return
    const { transport, health, log } = this.#options
    if (this.#tenants.size + this.#secrets.size >= this.#watchesMax) {
      this.#unfollowed.add(scope)
      const fields = { namespace: scope, watchesMax: this.#watchesMax }
      log.warn(fields, 'Secrets of a namespace are not watched: the maximum number of watches is reached')
      return
    }
    const refusals = new RepeatedFailure('forbidden', forbiddenTimes)
    const name = nameOf('secrets', scope)
    const reflector = new Reflector<Secret>({
      name,
      transport,
      of: secrets,
      health,
      keep: keptOfSecret,
      selection: { ...(scope !== everywhere && { namespace: scope }), labelSelector: tenantLabel },
      onChange: (change) => this.#onSecret(change),
      onTrouble: (trouble) => {
        this.#report(`secrets ${scope}`, trouble)
        const isExhausted = this.#noteExhaustion(name, trouble)
        if (refusals.note(trouble) || isExhausted) this.#queueNamespace(scope)
      },
    })
    this.#secrets.set(scope, reflector)
  }

  #unfollowSecrets(scope: string): void {
    this.#unfollowed.delete(scope)
    this.#exhausted.delete(nameOf('secrets', scope))
    const reflector = this.#secrets.get(scope)
    this.#secrets.delete(scope)
    if (!reflector) return
    this.#followNext()
    const ending = reflector.stop().finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
  }

  /** Watches the Secrets of the namespace that has waited longest. */
  #followNext(): void {
    const [scope] = this.#unfollowed
    if (scope === undefined) return
    this.#unfollowed.delete(scope)
    this.#followSecrets(scope)
    void this.#secrets
      .get(scope)
      ?.whenSynced()
      .then(() => this.#queueNamespace(scope))
  }

  #onTenant(change: ObjectChange<TenantObject>): void {
    // Queues the Tenant first, so that an exception below cannot prevent its reconciliation.
    this.#queue(change.key)
    this.#noteClaims(change)
    if (change.kind === 'updated') return
    const object = change.kind === 'deleted' ? change.before : change.object
    const { namespace = '' } = object.metadata
    const count = (this.#counts.get(namespace) ?? 0) + (change.kind === 'added' ? 1 : -1)
    if (count > 0) this.#counts.set(namespace, count)
    else this.#counts.delete(namespace)
    if (this.#options.secretsClusterWide) return
    if (count > 0) this.#followSecrets(namespace)
    else this.#unfollowSecrets(namespace)
  }

  /** Updates the claims on slugs, and queues the other claimants of a slug when a Tenant gives it up. */
  #noteClaims(change: ObjectChange<TenantObject>): void {
    const before = change.kind === 'added' ? undefined : slugOf(change.before)
    const now = change.kind === 'deleted' ? undefined : slugOf(change.object)
    if (before !== undefined && before !== now) {
      const others = this.#claims.get(before)
      others?.delete(change.key)
      if (others?.size === 0) this.#claims.delete(before)
      for (const key of others ?? []) this.#queue(key)
    }
    if (now === undefined) return
    const claims = this.#claims.get(now) ?? new Set()
    this.#claims.set(now, claims.add(change.key))
  }

  #onSecret(change: ObjectChange<Secret>): void {
    const touched = [
      ...(change.kind === 'added' ? [] : [change.before]),
      ...(change.kind === 'deleted' ? [] : [change.object]),
    ]
    if (change.kind === 'deleted') this.#options.onSecretDeleted(change.before.metadata)
    for (const { metadata } of touched) {
      const tenant = metadata.labels?.[tenantLabel]
      const place = { namespace: metadata.namespace, name: tenant ?? '' }
      if (this.tenant(place)) this.#queue(objectKey(place))
    }
  }

  #queueNamespace(scope: string): void {
    for (const { metadata } of this.tenants())
      if (scope === everywhere || metadata.namespace === scope) this.#queue(objectKey(metadata))
  }

  #queue(key: string): void {
    for (const listener of this.#listeners) listener(key)
  }

  /** Logs the first failure and then every 20th, because a namespace can stay forbidden for days. */
  #report(watch: string, trouble: ReflectorTrouble): void {
    const { log } = this.#options
    if (trouble.kind === 'stalled') return log.info({ watch }, 'watch stalled and is restarted')
    if (trouble.kind === 'handler') {
      return log.error(
        { watch, key: trouble.key, error: String(trouble.error) },
        'a handler of cluster changes failed',
      )
    }
    const { failure, failures } = trouble
    if (failures % troubleLogEvery !== 1) return
    log.warn(
      { watch, failure: failure.message, failures },
      'the cluster cannot be followed and will be retried',
    )
  }
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

function keptOfTenant(object: TenantObject): TenantObject {
  const { managedFields: _, ...metadata } = object.metadata as TenantObject['metadata'] & {
    managedFields?: unknown
  }
  const { [lastApplied]: __, ...annotations } = metadata.annotations ?? {}
  const { spec, status } = object
  return { metadata: { ...metadata, annotations }, spec, ...(status !== undefined && { status }) }
}

/** Counts consecutive failures of one kind. After `times` of them, the failure counts as lasting. */
export class RepeatedFailure {
  readonly #kind: KubeFailureKind
  readonly #times: number
  #failures = 0
  #inARow = 0

  constructor(kind: KubeFailureKind, times: number) {
    this.#kind = kind
    this.#times = times
  }

  get isLasting(): boolean {
    return this.#inARow >= this.#times
  }

  /** Counts a failure. Returns true only if this failure makes `times` consecutive ones. */
  note(trouble: ReflectorTrouble): boolean {
    if (trouble.kind !== 'sync') return false
    // If the number of consecutive failures has not increased, a watch succeeded between the two failures.
    const isSame = this.#inARow > 0 && trouble.failures > this.#failures
    this.#failures = trouble.failures
    if (trouble.failure.kind !== this.#kind) this.#inARow = 0
    else this.#inARow = isSame ? this.#inARow + 1 : 1
    return this.#inARow === this.#times
  }
}
