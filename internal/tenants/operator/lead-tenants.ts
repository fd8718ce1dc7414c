import {
  type KubeMetrics,
  type Leadership,
  objectKey,
  parseObjectKey,
  startWorkQueue,
  type WorkQueue,
} from '#internal/kube/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { errorFields } from '../log.ts'
import { purgeTenant } from '../reconcile/apply.ts'
import { listLiveTenants, listSuspendedCallbacks, listTenantsToPurge } from '../store.ts'
import { isOfFolder } from './delete-tenant.ts'
import { reconcileTenant } from './reconcile-tenant.ts'
import type { LeaderContext, OperatorParts } from './tenant-context.ts'

/** What leading is watched by. */
export interface LeadingOptions {
  readonly metrics: KubeMetrics
  readonly health: Health
  /** Tenants worked on at once, default 8. */
  readonly concurrency?: number
  /** Time between looks for rows whose resource is gone, default 5 min. */
  readonly sweepMs?: number
  /** Time between looks for callbacks that were suspended or resumed, default 5 s. */
  readonly suspensionsMs?: number
}

const concurrencyDefault = 8
const sweepMsDefault = 300_000
const sweepMsMax = 60_000
const suspensionsMsDefault = 5_000
const retryWaits = { firstMs: 200, maxMs: 15_000 }
/** A turn is a few calls and statements, each of them bounded. */
const workMsMax = 60_000
const sweepRowsMax = 100_000
const purgesMax = 100
const purgeAfterMsDefault = 60_000

/** Works on all Tenants for as long as the leadership lasts. Ends soon after its signal, with nothing under way. */
export async function leadTenants(
  parts: OperatorParts,
  leadership: Leadership,
  options: LeadingOptions,
): Promise<void> {
  const { view } = parts
  const { signal } = leadership
  await view.settled(signal)
  if (signal.aborted) return
  const context: LeaderContext = { ...parts, leadership }
  const queue = startTenantQueue(context, options)
  const unlisten = view.onKey((key) => queue.add(key))
  for (const { metadata } of view.tenants()) queue.add(objectKey(metadata))
  const sweep = superviseLoop({
    name: 'sweep of tenants',
    intervalMs: options.sweepMs ?? sweepMsDefault,
    turnMsMax: sweepMsMax,
    runOnce: (over) => sweepOnce(context, queue, over),
    onError: (error, failures) =>
      parts.log.warn({ failures, ...errorFields(error) }, 'rows without a resource could not be looked for'),
    health: options.health,
  })
  const suspensions = followSuspensions(context, queue, options)
  await fired(signal)
  unlisten()
  await Promise.all([queue.stop(), sweep.stop(), suspensions.stop()])
}

function startTenantQueue(context: LeaderContext, options: LeadingOptions): WorkQueue {
  const { concurrency = concurrencyDefault, metrics, health } = options
  const name = 'tenant'
  const queue = startWorkQueue({
    ...{ name, concurrency, workMsMax, health },
    backoff: retryWaits,
    hooks: metrics.forQueue(name, concurrency),
    work: (key) => reconcileTenant(context, parseObjectKey(key)),
    onError: (key, error, failures) =>
      context.log.warn(
        { tenant: key, failures, ...errorFields(error) },
        'a tenant could not be reconciled, trying again',
      ),
  })
  metrics.watchQueue(name, queue)
  return queue
}

/**
 * Finds what no event tells of: live rows whose resource is gone, since the operator was away when its finalizer was removed by
 * force, and data that was to go.
 */
async function sweepOnce(context: LeaderContext, queue: WorkQueue, signal: AbortSignal): Promise<void> {
  const { pool, view, clock, onPurge, purgeAfterMs = purgeAfterMsDefault } = context
  for (const live of await listLiveTenants(pool, '', sweepRowsMax)) {
    if (isOfFolder(live) || !view.isComplete(live.namespace)) continue
    if (view.tenant(live) === undefined) queue.add(objectKey(live))
  }
  for (const id of await listTenantsToPurge(pool, clock.now() - purgeAfterMs, purgesMax)) {
    if (signal.aborted || !context.leadership.isHeld()) return
    await onPurge(id)
    const { isDone: done, rowsRemoved } = await purgeTenant(pool, id)
    context.log.info({ tenantId: id, done, rowsRemoved }, 'data of a deleted tenant removed')
  }
}

/** No event of the cluster tells that a callback asked to be left alone, or that it is served again: their rows do. */
function followSuspensions(
  { pool, log }: LeaderContext,
  queue: WorkQueue,
  { suspensionsMs = suspensionsMsDefault, health }: LeadingOptions,
): SupervisedLoop {
  let known = new Set<string>()
  return superviseLoop({
    name: 'suspended callbacks',
    intervalMs: suspensionsMs,
    turnMsMax: sweepMsMax,
    async runOnce() {
      const suspended = await listSuspendedCallbacks(pool, sweepRowsMax)
      const keys = new Set(suspended.filter((live) => !isOfFolder(live)).map(objectKey))
      for (const key of keys.symmetricDifference(known)) queue.add(key)
      known = keys
    },
    onError: (error, failures) =>
      log.warn({ failures, ...errorFields(error) }, 'suspended callbacks could not be looked for'),
    health,
  })
}

function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
