import {
  type ObjectChange,
  type ObjectPlace,
  objectKey,
  parseObjectKey,
  type Reflector,
  type ReflectorTrouble,
  type Secret,
  secrets,
  startReflector,
  type Transport,
  watchBounds,
} from '#internal/kube/index.ts'
import type { CheckResult, Health } from '#internal/telemetry/index.ts'
import type { TenantLog } from '../log.ts'
import { tenantLabel } from '../secret-names.ts'
import { RepeatedFailure } from './repeated-failure.ts'
import { keptOfSecret } from './secret-object.ts'
import { keptOfTenant, slugOf, type TenantObject, tenantObjects } from './tenant-object.ts'
import type { KnownSecret } from './tenant-secrets.ts'

/** What a view follows, and who hears of it. */
export interface ClusterViewOptions {
  readonly transport: Transport
  /** Whose Tenants; undefined: all namespaces'. */
  readonly namespaces: readonly string[] | undefined
  /** One watch for all Secrets that are labelled for a tenant; otherwise one for each namespace that has Tenants. */
  readonly secretsClusterWide: boolean
  readonly health: Health
  readonly log: TenantLog
  readonly onSecretDeleted: (place: ObjectPlace) => void
  /** Watches of Tenants and Secrets together; default what a process may have. Replaced in tests only. */
  readonly watchesMax?: number
  /** `exhausted` failures in a row after which a watch counts as lacking a place; default 8, about a minute. Replaced in tests only. */
  readonly exhaustedTimes?: number
}

/** Tenants and their Secrets, as the API server last told. */
export interface ClusterView {
  tenant(place: ObjectPlace): TenantObject | undefined
  tenants(): IterableIterator<TenantObject>
  /** Those that want a slug, whether or not one of them has it. */
  claimants(slug: string): IterableIterator<TenantObject>
  secret(place: ObjectPlace): KnownSecret
  /** Whether a Tenant of this namespace that is not here does not exist. */
  isComplete(namespace: string): boolean
  /** Calls `listener` with `namespace/name` of each Tenant that may need work, until the returned function is called. */
  onKey(listener: (key: string) => void): () => void
  /** Resolves when all that may be read has been read once, or when the signal fires. */
  settled(signal: AbortSignal): Promise<void>
  /** For readiness: not ok before everything was read; a namespace whose Tenants are forbidden keeps no other waiting. */
  check(): CheckResult
  stop(): Promise<void>
}

const settleLookMs = 50
const troubleLogEvery = 20
/** An API server that has just started refuses every request until it has read its roles. */
const forbiddenTimes = 2
const exhaustedTimesDefault = 8

/** Starts to follow a cluster. The caller stops it. */
export function startClusterView(options: ClusterViewOptions): ClusterView {
  return new FollowedCluster(options)
}

/** The scope of a watch: a namespace, or all. */
const everywhere = ''

function nameOf(followed: 'tenants' | 'secrets', scope: string): string {
  return scope === everywhere ? followed : `${followed} of ${scope}`
}

class FollowedCluster implements ClusterView {
  readonly #options: ClusterViewOptions
  readonly #tenants = new Map<string, Reflector<TenantObject>>()
  readonly #secrets = new Map<string, Reflector<Secret>>()
  /** Namespaces with Tenants whose Secrets are not followed, since as many watches are open as may be. In order of arrival. */
  readonly #unfollowed = new Set<string>()
  readonly #watchesMax: number
  /** Bounds that the reflectors' watches reach, by reflector name. Reached for seconds, a bound leaves the cache valid. */
  readonly #exhausted = new Map<string, RepeatedFailure>()
  /** How many Tenants a namespace has. */
  readonly #counts = new Map<string, number>()
  /** The keys of those that want a slug. */
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

  isComplete(namespace: string): boolean {
    return this.#tenantsOf(namespace)?.hasSynced() ?? false
  }

  onKey(listener: (key: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async settled(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#isSettled()) await Bun.sleep(settleLookMs)
  }

  check(): CheckResult {
    const reflectors = [...this.#tenants.values()]
    if (reflectors.some((each) => each.failure()?.kind === 'notFound'))
      return {
        ok: false,
        reason: 'the API server knows no Tenants: kubectl apply --server-side --field-manager=helm -f crds',
      }
    if (reflectors.every((each) => !each.hasSynced() && each.failure()?.kind === 'forbidden'))
      return { ok: false, reason: 'the operator may not list Tenants: bind its role' }
    for (const [scope, reflector] of this.#tenants) {
      const exhausted = this.#lastingExhaustion(nameOf('tenants', scope), reflector)
      if (exhausted !== undefined)
        return { ok: false, reason: `Tenants are not watched: ${exhausted}; follow fewer namespaces` }
    }
    return this.#isSettled() ? { ok: true } : { ok: false, reason: 'Tenants and Secrets are being read' }
  }

  async stop(): Promise<void> {
    this.#listeners.clear()
    const all = [...this.#tenants.values(), ...this.#secrets.values()]
    await Promise.all([...all.map((each) => each.stop()), ...this.#ending])
  }

  /** A forbidden one has told all that it can; so has one that was synced, however far it is behind. */
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

  /** Message of the bound that keeps a watch closed for long; undefined while it is open, or lacks a place for seconds only. */
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
    const reflector = startReflector<TenantObject>({
      name,
      ...{ transport, of: tenantObjects, health, keep: keptOfTenant },
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
      log.warn(fields, 'Secrets of a namespace are not followed: the bound of watches is reached')
      return
    }
    const refusals = new RepeatedFailure('forbidden', forbiddenTimes)
    const name = nameOf('secrets', scope)
    const reflector = startReflector<Secret>({
      name,
      ...{ transport, of: secrets, health, keep: keptOfSecret },
      selection: { ...(scope !== everywhere && { namespace: scope }), labelSelector: tenantLabel },
      onChange: (change) => this.#onSecret(change),
      onTrouble: (trouble) => {
        this.#report(`secrets ${scope}`, trouble)
        const isExhausted = this.#noteExhaustion(name, trouble)
        if (refusals.note(trouble) || isExhausted) this.#tellNamespace(scope)
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

  /** Gives the place that came free to the namespace that has waited longest. */
  #followNext(): void {
    const [scope] = this.#unfollowed
    if (scope === undefined) return
    this.#unfollowed.delete(scope)
    this.#followSecrets(scope)
    void this.#secrets
      .get(scope)
      ?.whenSynced()
      .then(() => this.#tellNamespace(scope))
  }

  #onTenant(change: ObjectChange<TenantObject>): void {
    // First, so that nothing of what follows can keep it from being worked on.
    this.#tell(change.key)
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

  /** Whoever waits for the slug of one that is gone hears of it at once. */
  #noteClaims(change: ObjectChange<TenantObject>): void {
    const before = change.kind === 'added' ? undefined : slugOf(change.before)
    const now = change.kind === 'deleted' ? undefined : slugOf(change.object)
    if (before !== undefined && before !== now) {
      const others = this.#claims.get(before)
      others?.delete(change.key)
      if (others?.size === 0) this.#claims.delete(before)
      for (const key of others ?? []) this.#tell(key)
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
      if (this.tenant(place)) this.#tell(objectKey(place))
    }
  }

  #tellNamespace(scope: string): void {
    for (const { metadata } of this.tenants())
      if (scope === everywhere || metadata.namespace === scope) this.#tell(objectKey(metadata))
  }

  #tell(key: string): void {
    for (const listener of this.#listeners) listener(key)
  }

  /** Once when it begins, and then now and again: a namespace that is not granted stays so for days. */
  #report(watch: string, trouble: ReflectorTrouble): void {
    const { log } = this.#options
    if (trouble.kind === 'stalled') return log.info({ watch }, 'a watch was dead and is begun anew')
    if (trouble.kind === 'handler') {
      return log.error({ watch, key: trouble.key, error: String(trouble.error) }, 'a change was not heard')
    }
    const { failure, failures } = trouble
    if (failures % troubleLogEvery !== 1) return
    log.warn({ watch, failure: failure.message, failures }, 'the cluster cannot be followed, trying again')
  }
}
