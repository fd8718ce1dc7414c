import { expectOk, type ObjectPlace, objectKey, type WorkOutcome } from '#internal/kube/index.ts'
import { purgeTenant, removeTenant } from '../reconcile/apply.ts'
import { countEventsLeft } from '../reconcile/purge.ts'
import { findLiveTenant, type LiveTenant, listPendingPurges } from '../store.ts'
import { applyContextOf, expectMine, tellChanged } from './apply-context.ts'
import { occurrence } from './condition-events.ts'
import {
  type DeletionWait,
  deletionStatus,
  eventsCountMax,
  PurgeFailed,
  waitOfFailure,
} from './deletion-status.ts'
import type { LeaderContext } from './tenant-context.ts'
import { type TenantObject, tenantFinalizer, tenantObjects } from './tenant-object.ts'
import { writeStatus } from './write-status.ts'

const done: WorkOutcome = { kind: 'done' }
const purgeAfterMsDefault = 60_000
/** Rows are left after a bounded amount of removing: go on soon. */
const purgeAgainMs = 100
/** What the cache will hear brings the Tenant back by itself; this is for what was missed. */
const behindAgainMs = 1_000
/** What the rest of a wait is rounded up by, so that it is over when it is looked at. */
const slackMs = 20

/**
 * Finishes the deletion of a Tenant: hides it at once, waits until its data may go and removes that where its policy says so,
 * then removes our finalizer. While it waits, the condition DeletionWaiting says for what. Repeating it is safe.
 * @throws when a store or the API server does not answer
 */
export async function finishDeletion(context: LeaderContext, object: TenantObject): Promise<WorkOutcome> {
  try {
    return await removeWithRows(context, object)
  } catch (error) {
    const wait = waitOfFailure(error)
    // A failure to tell says nothing new: what is thrown is what matters.
    if (wait !== undefined) await tellWait(context, object, wait).catch(() => false)
    throw error
  }
}

async function removeWithRows(context: LeaderContext, object: TenantObject): Promise<WorkOutcome> {
  const { pool, clock, onPurge, log, purgeAfterMs = purgeAfterMsDefault } = context
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
      await tellWait(context, object, { kind: 'grace', untilMs })
      return { kind: 'again', afterMs: waitMs + slackMs }
    }
    if (!isTold(object, 'RemovingData')) await tellWait(context, object, { kind: 'removing' })
    await onPurge(id).catch((cause: unknown) => {
      throw new PurgeFailed('what Redis keeps of a tenant could not be removed', { cause })
    })
    const { isDone, rowsRemoved } = await purgeTenant(pool, id)
    if (!isDone) {
      const eventsLeft = await countEventsLeft(pool, id, eventsCountMax)
      await tellWait(context, object, { kind: 'removing', progress: { rowsRemoved, eventsLeft } })
      return { kind: 'again', afterMs: purgeAgainMs }
    }
    log.info({ tenantId: id, rowsRemoved }, 'data of a deleted tenant removed')
  }
  return await releaseTenant(context, object)
}

function isTold(object: TenantObject, reason: string): boolean {
  return (
    object.status?.conditions?.some((each) => each.type === 'DeletionWaiting' && each.reason === reason) ??
    false
  )
}

function tellWait(context: LeaderContext, object: TenantObject, wait: DeletionWait): Promise<boolean> {
  return writeStatus(context, object, deletionStatus(object, wait, context.clock.now()))
}

/** A Tenant that is not there and may have left rows, since its finalizer was taken away by force: its data stays. */
export async function removeVanished(context: LeaderContext, place: ObjectPlace): Promise<WorkOutcome> {
  const { namespace = '', name } = place
  const live = await findLiveTenant(context.pool, { namespace, name })
  if (live === undefined || isOfFolder(live)) return done
  const found = await context.client.get(tenantObjects, place)
  // It is there after all: its own change brings it here again.
  if (found.kind === 'ok') return done
  if (found.kind !== 'notFound') expectOk('reading a Tenant', found)
  await remove(context, live, 'keep')
  return done
}

/** Hides the row that a former resource of this name left; only one can have a name, so that one is gone. */
export async function removeNamesake(context: LeaderContext, object: TenantObject): Promise<void> {
  const { namespace = '', name, uid } = object.metadata
  const live = await findLiveTenant(context.pool, { namespace, name })
  if (live !== undefined && live.uid !== uid && !isOfFolder(live)) await remove(context, live, 'keep')
}

/** A folder's tenants are not ours to remove: their uids say whose they are. */
export function isOfFolder({ uid }: Pick<LiveTenant, 'uid'>): boolean {
  return uid.startsWith('folder:')
}

async function remove(
  context: LeaderContext,
  live: LiveTenant,
  data: 'asPolicySays' | 'keep',
): Promise<void> {
  const terms = { now: context.clock.now(), keepData: data === 'keep' }
  expectMine(await removeTenant(applyContextOf(context), live, terms))
  context.log.info({ tenant: objectKey(live), tenantId: live.id, data }, 'tenant removed')
  await tellChanged(context)
}

async function releaseTenant(context: LeaderContext, object: TenantObject): Promise<WorkOutcome> {
  const { finalizers = [], resourceVersion, namespace, name } = object.metadata
  if (!context.leadership.isHeld()) return done
  if (!finalizers.includes(tenantFinalizer)) {
    if (finalizers.length > 0) await tellWait(context, object, { kind: 'finalizers', names: finalizers })
    return done
  }
  const left = finalizers.filter((each) => each !== tenantFinalizer)
  const patch = { metadata: { resourceVersion, finalizers: left } }
  const result = await context.client.mergePatch(tenantObjects, { namespace, name }, patch)
  if (result.kind === 'ok' || result.kind === 'notFound') {
    context.events.record(
      occurrence(object, {
        type: 'Normal',
        reason: 'Removed',
        action: 'Delete',
        note: 'Its rows are hidden, or gone where its deletionPolicy says so',
      }),
    )
    return done
  }
  if (result.kind === 'conflict') return { kind: 'again', afterMs: behindAgainMs }
  expectOk('releasing a Tenant', result)
  return done
}
