import {
  type KubeMetrics,
  type Leadership,
  objectKey,
  parseObjectKey,
  WorkQueue,
} from '#internal/kube/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { ProviderController } from '../providers/provider-controller.ts'
import { purgeTenant } from '../purge.ts'
import type { TenantStatus } from '../status-schemas.ts'
import { listLiveTenants, listLiveTenantsById, listTenantsToPurge } from '../tenant-store.ts'
import { notifyChanged, type ReconcileContext, type TenantParts } from './context.ts'
import { reconcileTenant } from './reconcile-tenant.ts'

export interface TenantControllerOptions extends TenantParts {
  /** Omit it if no other process writes. */
  readonly leadership?: Leadership
  readonly metrics?: KubeMetrics
  readonly health?: Health
  /** Called when a Provider is active as declared in its manifest. Must not throw. */
  readonly onProviderInForce?: ((name: string, vectorsPassed: number) => void) | undefined
  /** Default 8. */
  readonly concurrency?: number
  /** Maximum interval between two reconciliations of a tenant; default 10 min. */
  readonly resyncMs?: number
  /** Maximum delay between retries of a tenant; default 15 s. */
  readonly retryMsMax?: number
  /** Interval of the sweep, which finds rows whose resource is gone and data of deleted tenants; default 5 min. */
  readonly sweepMs?: number
  /** Interval at which the controller checks for suspended and resumed callbacks; default 5 s. */
  readonly suspensionsMs?: number
}

/** Name of the leader's fencing token in Postgres. */
export const fenceName = 'operator'

const queueName = 'tenant'
const concurrencyDefault = 8
const resyncMsDefault = 600_000
const retryMsMaxDefault = 15_000
const retryMsFirst = 200
const sweepMsDefault = 300_000
const sweepMsMax = 60_000
const suspensionsMsDefault = 5_000
/** Timeout of a reconciliation, which consists of a few calls and statements with their own timeouts. */
const workMsMax = 60_000
const rowsMax = 100_000
const purgesMax = 100
const purgeAfterMsDefault = 60_000

/**
 * Reconciles all Tenants while the leadership lasts. Resolves soon after the leadership's signal fires, when no reconciliation is in
 * progress.
 */
export async function leadTenants(
  parts: TenantParts,
  leadership: Leadership,
  options: Pick<TenantControllerOptions, 'metrics' | 'health'>,
): Promise<void> {
  const { signal } = leadership
  await parts.source.settled(signal)
  if (signal.aborted) return
  const controller = new TenantController({ ...parts, ...options, leadership })
  try {
    await Promise.race([controller.start().then(() => fired(signal)), fired(signal)])
  } finally {
    await controller.stop()
  }
}

/**
 * Reconciles the tenants of a source. Level-triggered: each reconciliation compares the complete state, so missed events do no harm. Does
 * nothing before `start` or `runOnce`. The caller must close the pool and the source.
 */
export class TenantController {
  readonly #options: TenantControllerOptions
  readonly #context: ReconcileContext
  readonly #failing = new Set<string>()
  readonly #stopping = new AbortController()
  readonly #providers: ProviderController | undefined
  #queue: WorkQueue | undefined
  #stopAll: (() => Promise<unknown>) | undefined
  #triedAll = false
  #inForce = false

  constructor(options: TenantControllerOptions) {
    const { leadership, purgeAfterMs = purgeAfterMsDefault } = options
    this.#options = options
    this.#context = {
      ...options,
      purgeAfterMs,
      isHeld: () => leadership?.isHeld() ?? true,
      counts: { applied: 0, removed: 0 },
      ...(leadership && { fence: { name: fenceName, leaseTransitions: leadership.fence } }),
    }
    this.#providers = this.#createProviders()
  }

  /** Returns whether every tenant has been reconciled successfully. Once true, later failures do not change the result. */
  inForce(): boolean {
    const stats = this.#queue?.stats()
    const isIdle = stats !== undefined && stats.depth + stats.running === 0
    this.#inForce ||= isIdle && this.#triedAll && this.#failing.size === 0
    return this.#inForce
  }

  conditions(): ReadonlyMap<string, NonNullable<TenantStatus['conditions']>> {
    const tenants = [...this.#options.source.tenants()]
    return new Map(tenants.map(({ metadata, status }) => [objectKey(metadata), status?.conditions ?? []]))
  }

  /** Resolves after each tenant has been reconciled once, successfully or not. */
  async start(): Promise<void> {
    const { source } = this.#options
    await source.settled(this.#stopping.signal)
    if (this.#stopping.signal.aborted || this.#queue) return
    // Tenants name Providers, so these come first; a failure is retried in the background.
    await this.#providers
      ?.runOnce()
      .catch((error: unknown) =>
        this.#options.log.warn({ cause: error }, 'Providers could not be reconciled; retrying'),
      )
    if (this.#stopping.signal.aborted) return
    const queue = this.#startQueue()
    this.#queue = queue
    this.#providers?.start()
    const sweep = this.#startSweep(queue)
    const suspensions = this.#followSuspensions(queue)
    const unfollow = source.follow((key) => {
      if (key !== undefined) return queue.add(key)
      this.#addAll(queue)
      sweep.wake()
    })
    this.#addAll(queue)
    this.#stopAll = () =>
      Promise.all([unfollow(), this.#providers?.stop(), queue.stop(), sweep.stop(), suspensions.stop()])
    await queue.idle()
    this.#triedAll = true
  }

  /** Waits for the reconciliations in progress. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#stopAll?.()
  }

  /** Reconciles every tenant once and sweeps, for tests and tools. Must not be called after `start`. */
  async runOnce(): Promise<{
    /** Number of tenants whose rows changed. */
    readonly applied: number
    readonly removed: number
    readonly failed: number
  }> {
    const { source, log } = this.#options
    const before = { ...this.#context.counts }
    await source.settled(this.#stopping.signal)
    await this.#providers?.runOnce()
    const queue = this.#startQueue()
    this.#queue = queue
    let sweepFailed = 0
    await this.#findVanished(queue).catch((error: unknown) => {
      sweepFailed = 1
      log.error({ cause: error }, 'tenants without a resource could not be listed')
    })
    await queue.idle()
    this.#addAll(queue)
    await queue.idle()
    await this.#purge(this.#stopping.signal).catch((error: unknown) =>
      log.error({ cause: error }, 'data of deleted tenants could not be removed'),
    )
    this.#triedAll = sweepFailed === 0
    this.inForce()
    await queue.stop()
    const { applied, removed } = this.#context.counts
    const failed = this.#failing.size + sweepFailed
    return { applied: applied - before.applied, removed: removed - before.removed, failed }
  }

  #createProviders(): ProviderController | undefined {
    const { source, pool, declarations: rules, clock, log, health, onProviderInForce } = this.#options
    if (!rules) return undefined
    const { fence, isHeld } = this.#context
    return new ProviderController({
      source: source.providers,
      pool,
      rules,
      clock,
      log,
      isHeld,
      ...(fence && { fence }),
      ...(health && { health }),
      onInForce: onProviderInForce,
      onChanged: async (users) => {
        await notifyChanged(this.#context)
        for (const user of users) this.#queue?.add(objectKey(user))
      },
    })
  }

  #addAll(queue: WorkQueue): void {
    for (const { metadata } of this.#options.source.tenants()) queue.add(objectKey(metadata))
  }

  #startQueue(): WorkQueue {
    const { concurrency = concurrencyDefault, metrics, health, log } = this.#options
    const { resyncMs = resyncMsDefault, retryMsMax = retryMsMaxDefault } = this.#options
    const hooks = metrics?.forQueue(queueName, concurrency)
    const queue = new WorkQueue({
      name: queueName,
      concurrency,
      workMsMax,
      ...(health && { health }),
      ...(hooks && { hooks }),
      backoff: { firstMs: retryMsFirst, maxMs: retryMsMax },
      work: async (key) => {
        const outcome = await reconcileTenant(this.#context, parseObjectKey(key), resyncMs)
        this.#failing.delete(key)
        return outcome
      },
      onError: (key, error, failures) => {
        this.#failing.add(key)
        log.warn({ tenant: key, failures, cause: error }, 'reconcile failed and will be retried')
      },
    })
    metrics?.watchQueue(queueName, queue)
    return queue
  }

  #startSweep(queue: WorkQueue): SupervisedLoop {
    const { sweepMs = sweepMsDefault, health, log } = this.#options
    return superviseLoop({
      name: 'sweep of tenants',
      intervalMs: sweepMs,
      turnMsMax: sweepMsMax,
      runOnce: async (signal) => {
        await this.#findVanished(queue)
        await this.#purge(signal)
      },
      onError: (error, failures) => log.warn({ failures, cause: error }, 'sweep of tenants failed'),
      ...(health && { health }),
    })
  }

  /** Queues tenants whose rows exist, but whose resource is gone, for example because its finalizer was removed by force. */
  async #findVanished(queue: WorkQueue): Promise<void> {
    const { pool, source } = this.#options
    for (const live of await listLiveTenants(pool, rowsMax)) {
      if (!source.owns(live) || !source.isComplete(live.namespace)) continue
      if (source.tenant(live) === undefined) queue.add(objectKey(live))
    }
  }

  /** Removes the data of deleted tenants after the grace period, if their policy is Delete. */
  async #purge(signal: AbortSignal): Promise<void> {
    const { pool, data, clock, onPurge, log } = this.#options
    const untilMs = clock.now() - this.#context.purgeAfterMs
    for (const id of await listTenantsToPurge(pool, untilMs, purgesMax)) {
      if (signal.aborted || !this.#context.isHeld()) return
      await onPurge(id)
      const { isDone: done, rowsRemoved } = await purgeTenant(pool, data.purgeSteps, id)
      log.info({ tenantId: id, done, rowsRemoved }, 'data of a deleted tenant removed')
    }
  }

  /** Queues tenants with a suspended or resumed callback. Polls, because only Postgres shows these changes. */
  #followSuspensions(queue: WorkQueue): SupervisedLoop {
    const { pool, data, log, source, suspensionsMs = suspensionsMsDefault, health } = this.#options
    let known = new Set<string>()
    return superviseLoop({
      name: 'suspended callbacks',
      intervalMs: suspensionsMs,
      turnMsMax: sweepMsMax,
      async runOnce() {
        const suspended = await listLiveTenantsById(pool, await data.listSuspendedTenants(pool, rowsMax))
        const keys = new Set(suspended.filter((live) => source.owns(live)).map(objectKey))
        for (const key of keys.symmetricDifference(known)) queue.add(key)
        known = keys
      },
      onError: (error, failures) =>
        log.warn({ failures, cause: error }, 'suspended callbacks could not be listed'),
      ...(health && { health }),
    })
  }
}

function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
