import { KubeError, type ObjectPlace, objectKey, type WorkOutcome } from '#internal/kube/index.ts'
import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'
import { purgeTenant } from '../purge.ts'
import type { TenantStatus } from '../status-schemas.ts'
import { type TenantObject, tenantFinalizer } from '../tenant-object.ts'
import { findLiveTenant, type LiveTenant, listPendingPurges } from '../tenant-store.ts'
import { removeTenant } from './apply-plan.ts'
import type { WantedCondition } from './conditions.ts'
import { expectMine, notifyChanged, OtherWriter, type ReconcileContext } from './context.ts'
import { occurrence, statusWith, writeStatus } from './write-status.ts'

const done: WorkOutcome = { kind: 'done' }
/** Delay between two runs of a removal that does not fit into one run. */
const purgeAgainMs = 100
/** Delay before a retry if the Tenant has changed, in case the event of that change is missed. */
const behindAgainMs = 1_000
/** Time added to a delay, so that the waiting period is over at the next run. */
const slackMs = 20

/**
 * Completes the deletion of a Tenant: hides the tenant immediately, waits for the grace period, removes the data if the tenant's policy
 * requires that, then removes the finalizer. The condition DeletionWaiting shows the current step. Idempotent.
 * @throws when a store or the source is unavailable
 */
export async function finishDeletion(context: ReconcileContext, object: TenantObject): Promise<WorkOutcome> {
  try {
    return await removeWithRows(context, object)
  } catch (error) {
    const wait = waitOfFailure(error)
    // An error of the status write is ignored, because the first error is more important.
    if (wait !== undefined) await showWait(context, object, wait).catch(() => false)
    throw error
  }
}

async function removeWithRows(context: ReconcileContext, object: TenantObject): Promise<WorkOutcome> {
  const { pool, data, clock, onPurge, log, purgeAfterMs } = context
  const place = { namespace: object.metadata.namespace ?? '', name: object.metadata.name }
  const live = await findLiveTenant(pool, place)
  if (live !== undefined) {
    const isOwn = live.uid === object.metadata.uid
    await remove(context, live, isOwn ? 'asPolicySays' : 'keep')
  }
  for (const { id, deletedAtMs } of await listPendingPurges(pool, place)) {
    const untilMs = deletedAtMs + purgeAfterMs
    const waitMs = untilMs - clock.now()
    if (waitMs > 0) {
      await showWait(context, object, waits.grace(untilMs))
      return { kind: 'again', afterMs: waitMs + slackMs }
    }
    if (!isShown(object, 'RemovingData')) await showWait(context, object, waits.removing())
    await onPurge(id).catch((cause: unknown) => {
      throw new PurgeFailed('a tenant’s data in Redis could not be removed', { cause })
    })
    const { isDone, rowsRemoved } = await purgeTenant(pool, data.purgeSteps, id)
    if (!isDone) {
      const eventsLeft = await data.countEventsLeft(pool, id, eventsCountMax)
      await showWait(context, object, waits.removing({ rowsRemoved, eventsLeft }))
      return { kind: 'again', afterMs: purgeAgainMs }
    }
    log.info({ tenantId: id, rowsRemoved }, 'data of a deleted tenant removed')
  }
  return await release(context, object)
}

async function release(context: ReconcileContext, object: TenantObject): Promise<WorkOutcome> {
  const { source } = context
  const { finalizers = [] } = object.metadata
  if (!context.isHeld()) return done
  if (!finalizers.includes(tenantFinalizer)) {
    if (finalizers.length > 0) await showWait(context, object, waits.finalizers(finalizers))
    return done
  }
  if (!(await source.release(object))) return { kind: 'again', afterMs: behindAgainMs }
  const note = 'The rows of the tenant are hidden, or deleted if its deletionPolicy is Delete'
  source.record(occurrence(object, { type: 'Normal', reason: 'Removed', action: 'Delete', note }))
  return done
}

/** Hides the rows of a Tenant that no longer exists in its source, if such rows exist. */
export async function removeVanished(context: ReconcileContext, place: ObjectPlace): Promise<WorkOutcome> {
  const { pool, source } = context
  const { namespace = '', name } = place
  const live = await findLiveTenant(pool, { namespace, name })
  if (live === undefined || !source.owns(live)) return done
  // Does not remove a Tenant that exists again: the event of its creation has already queued it.
  if (await source.isAbsent(place)) await remove(context, live, source.vanishedData)
  return done
}

/** Hides the rows of an earlier resource with the same name, and keeps their data. */
export async function removeNamesake(context: ReconcileContext, object: TenantObject): Promise<void> {
  const { namespace = '', name, uid } = object.metadata
  const live = await findLiveTenant(context.pool, { namespace, name })
  if (live !== undefined && live.uid !== uid && context.source.owns(live)) await remove(context, live, 'keep')
}

async function remove(
  context: ReconcileContext,
  live: LiveTenant,
  data: 'asPolicySays' | 'keep',
): Promise<void> {
  expectMine(await removeTenant(context, live, { nowMs: context.clock.now(), keepData: data === 'keep' }))
  context.counts.removed += 1
  context.log.info({ tenant: objectKey(live), tenantId: live.id, data }, 'tenant removed')
  await notifyChanged(context)
}

/** Maximum number of events that are counted; more are shown as `100000 or more`. */
const eventsCountMax = 100_000
const namesMax = 5

/** `isHidden`: the tenant's rows are hidden, so `Ready` is False. */
export interface DeletionWait {
  readonly reason: string
  readonly message: string
  readonly isHidden: boolean
}

export const waits = {
  grace(untilMs: number): DeletionWait {
    const until = new Date(Math.ceil(untilMs / 1_000) * 1_000).toISOString().replace('.000Z', 'Z')
    const message = `The tenant is no longer served. Its data is removed after ${until}, when all processes have stopped serving the tenant`
    return { reason: 'GracePeriod', message, isHidden: true }
  },
  /** `progress` describes the last run; omit it before the first run has ended. */
  removing(progress?: { readonly rowsRemoved: number; readonly eventsLeft: number }): DeletionWait {
    const { rowsRemoved = 0, eventsLeft = 0 } = progress ?? {}
    const events = eventsLeft < eventsCountMax ? `${eventsLeft} events` : `${eventsCountMax} or more events`
    const left = `: ${rowsRemoved} rows in the last run, ${eventsLeft === 0 ? 'other rows' : events} are left`
    const message = `The data of the tenant is being removed, since spec.deletionPolicy is Delete${progress ? left : ''}`
    return { reason: 'RemovingData', message, isHidden: true }
  },
  unavailable(store: 'Postgres' | 'Redis'): DeletionWait {
    const message = `${store} does not respond. The deletion is retried until ${store} responds; the operator's log contains the error`
    return { reason: `${store}Unavailable`, message, isHidden: false }
  },
  failed(): DeletionWait {
    const message =
      "The removal of the tenant's rows failed and is retried; the operator's log contains the error"
    return { reason: 'RemovalFailed', message, isHidden: false }
  },
  /** Only the finalizers of other controllers remain. */
  finalizers(names: readonly string[]): DeletionWait {
    const more = names.length > namesMax ? ` and ${names.length - namesMax} more` : ''
    const shown = names.slice(0, namesMax).join(', ') + more
    const message = `The operator has finished its part of the deletion. The Tenant waits for the finalizers of other controllers: ${shown}`
    return { reason: 'OtherFinalizers', message, isHidden: true }
  },
}

/** Removal of a tenant's data from Redis failed. */
export class PurgeFailed extends Error {
  override readonly name = 'PurgeFailed'
}

/** Undefined for errors of the API server and for lost leadership. All other errors come from Redis or Postgres. Pure. */
export function waitOfFailure(error: unknown): DeletionWait | undefined {
  if (error instanceof KubeError || error instanceof OtherWriter) return undefined
  if (error instanceof RedisUnavailable) return waits.unavailable('Redis')
  if (error instanceof PurgeFailed)
    return isMistake(error.cause) ? waits.failed() : waits.unavailable('Redis')
  return isMistake(error) ? waits.failed() : waits.unavailable('Postgres')
}

function isShown(object: TenantObject, reason: string): boolean {
  const conditions = object.status?.conditions ?? []
  return conditions.some((each) => each.type === 'DeletionWaiting' && each.reason === reason)
}

function showWait(context: ReconcileContext, object: TenantObject, wait: DeletionWait): Promise<boolean> {
  return writeStatus(context, object, deletionStatus(object, wait, context.clock.now()))
}

/** Sets `Ready` to False if the rows are known to be hidden. Otherwise the tenant may still be served, and `Ready` is unchanged. Pure. */
export function deletionStatus(
  object: TenantObject,
  { isHidden, reason, message }: DeletionWait,
  nowMs: number,
): TenantStatus {
  const changed: WantedCondition[] = [{ type: 'DeletionWaiting', status: 'True', reason, message }]
  if (isHidden) changed.unshift({ type: 'Ready', status: 'False', reason, message })
  return statusWith(object, changed, nowMs)
}
