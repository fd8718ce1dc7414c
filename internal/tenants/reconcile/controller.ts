import {
  type KubeMetrics,
  type Leadership,
  objectKey,
  parseObjectKey,
  WorkQueue,
} from '#internal/kube/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { purgeTenant } from '../purge.ts'
import { listLiveTenants, listLiveTenantsById, listTenantsToPurge } from '../store.ts'
import type { TenantStatus } from '../tenant-object.ts'
import type { ReconcileContext, TenantParts } from './context.ts'
import { reconcileTenant } from './reconcile-tenant.ts'

/** Options of a controller. */
export interface TenantControllerOptions extends TenantParts {
  /** Leadership under which it writes; omitted for a sole writer. */
  readonly leadership?: Leadership
  readonly metrics?: KubeMetrics
  readonly health?: Health
  /** Maximum concurrent reconciliations, default 8. */
  readonly concurrency?: number
  /** Longest pause between two reconciliations of a tenant, default 10 min. */
  readonly resyncMs?: number
  /** Longest pause between retries of a tenant, default 15 s. */
  readonly retryMsMax?: number
  /** Interval of the search for rows without a resource and for data to remove, default 5 min. */
  readonly sweepMs?: number
  /** Interval of the search for suspended and resumed callbacks, default 5 s. */
  readonly suspensionsMs?: number
}

type TenantConditions = NonNullable<TenantStatus['conditions']>

/** Result of `runOnce`. */
export interface PassReport {
  /** Tenants whose rows changed. */
  readonly applied: number
  readonly removed: number
  readonly failed: number
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
/** A reconciliation is a few calls and statements, each of them bounded. */
const workMsMax = 60_000
const rowsMax = 100_000
const purgesMax = 100
const purgeAfterMsDefault = 60_000

/** Reconciles all Tenants as long as the leadership lasts. Ends soon after its signal, with nothing in progress. */
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
 * Reconciles the tenants of a source. Level-triggered: each reconciliation compares everything, whatever events were missed. Does nothing
 * before `start` or `runOnce`. The caller closes pool and source.
 */
export class TenantController {
  readonly #options: TenantControllerOptions
  readonly #context: ReconcileContext
  /** Keys whose last reconciliation failed. */
  readonly #failing = new Set<string>()
  readonly #stopping = new AbortController()
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
  }

  /** True once all tenants of the source were in force. */
  inForce(): boolean {
    const stats = this.#queue?.stats()
    const isIdle = stats !== undefined && stats.depth + stats.running === 0
    this.#inForce ||= isIdle && this.#triedAll && this.#failing.size === 0
    return this.#inForce
  }

  /** Conditions of each tenant by `namespace/name`. */
  conditions(): ReadonlyMap<string, TenantConditions> {
    const tenants = [...this.#options.source.tenants()]
    return new Map(tenants.map(({ metadata, status }) => [objectKey(metadata), status?.conditions ?? []]))
  }

  /** Starts reconciling. Resolves when each tenant was tried once. */
  async start(): Promise<void> {
    const { source } = this.#options
    await source.settled(this.#stopping.signal)
    if (this.#stopping.signal.aborted || this.#queue) return
    const queue = this.#startQueue()
    this.#queue = queue
    const sweep = this.#startSweep(queue)
    const suspensions = this.#followSuspensions(queue)
    const unfollow = source.follow((key) => {
      if (key !== undefined) return queue.add(key)
      this.#addAll(queue)
      sweep.wake()
    })
    this.#addAll(queue)
    this.#stopAll = () => Promise.all([unfollow(), queue.stop(), sweep.stop(), suspensions.stop()])
    await queue.idle()
    this.#triedAll = true
  }

  /** Ends after the reconciliations in progress. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#stopAll?.()
  }

  /** Reconciles every tenant once and sweeps, for tests and tools. Not while it is started. */
  async runOnce(): Promise<PassReport> {
    const { source, log } = this.#options
    const before = { ...this.#context.counts }
    await source.settled(this.#stopping.signal)
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

  #addAll(queue: WorkQueue): void {
    for (const { metadata } of this.#options.source.tenants()) queue.add(objectKey(metadata))
  }

  #startQueue(): WorkQueue {
    const { concurrency = concurrencyDefault, metrics, health, log } = this.#options
    const { resyncMs = resyncMsDefault, retryMsMax = retryMsMaxDefault } = this.#options
    const hooks = metrics?.forQueue(queueName, concurrency)
    const queue = new WorkQueue({
      ...{ name: queueName, concurrency, workMsMax },
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

  /** Queues live rows without a resource, such as after a finalizer was removed by force while no operator ran. */
  async #findVanished(queue: WorkQueue): Promise<void> {
    const { pool, source } = this.#options
    for (const live of await listLiveTenants(pool, rowsMax)) {
      if (!source.owns(live) || !source.isComplete(live.namespace)) continue
      if (source.tenant(live) === undefined) queue.add(objectKey(live))
    }
  }

  /** Removes data of deleted tenants whose resource no longer waits for it. */
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

  /** Queues tenants whose callback was suspended or resumed, which only their rows show. */
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
