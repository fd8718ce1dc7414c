import type { TenantId } from '#internal/base/index.ts'
import {
  type Notice,
  type NoticeParts,
  prepareNotice,
  type QueueId,
  storeNotice,
  wantsNotice,
} from '#internal/events/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { type EndedReplay, forEachDue, type ReplayTurn } from './due.ts'
import type { ReplayId } from './job.ts'
import { readReplayOutcome } from './outcome.ts'
import type { ReplayOutcome } from './progress.ts'

const finishedType = 'latchkey.replay.finished'
/** Maximum wait of the notification for the deliveries of an ended replay. */
const waitMsMax = 86_400_000

/**
 * Notifies the owners of ended replays, once all deliveries of the first 1 000 events have ended, or after a day. Examines at most 20
 * replays; several processes together store one notification per replay. Returns the queues of the notifications. Requires a pool with
 * `eventReadSettings`.
 * @throws errors of Postgres before the first replay; later errors are reported to `onFailed`
 */
export async function notifyOfFinishedReplays(parts: NoticeParts, turn: ReplayTurn): Promise<QueueId[]> {
  const queues: QueueId[] = []
  await forEachDue(parts.pool, 'notify_at', turn, async (job) => {
    const { tenantId } = job.filter
    if (tenantId === undefined || !wantsNotice(parts, { tenantId, type: finishedType }))
      return await drop(parts.pool, job.id)
    const queueId = await notifyOf(parts, { job, tenantId }, turn.nowMs)
    if (queueId) queues.push(queueId)
  })
  return queues
}

async function notifyOf(
  parts: NoticeParts,
  { job, tenantId }: { readonly job: EndedReplay; readonly tenantId: TenantId },
  nowMs: number,
): Promise<QueueId | undefined> {
  const { id } = job
  const outcome = await readReplayOutcome(parts.pool, id, nowMs)
  if (outcome.pendingCount > 0 && nowMs - job.endedAtMs < waitMsMax) return undefined
  const event = await prepareNotice(parts, noticeOf(job, tenantId, outcome), nowMs)
  if (!event) {
    await drop(parts.pool, id)
    return undefined
  }
  const queueId = await withTx(parts.pool, async (client) => {
    const { rowCount } = await client.query(
      'UPDATE replays SET notify_at = NULL WHERE id = $1 AND notify_at IS NOT NULL',
      [id],
    )
    return rowCount === 1 ? await storeNotice(client, event) : undefined
  })
  if (queueId) parts.onNotified(finishedType)
  return queueId
}

/** Stops waiting for the deliveries of a replay, without a notification. */
async function drop(pool: Pool, id: ReplayId): Promise<void> {
  await pool.query('UPDATE replays SET notify_at = NULL WHERE id = $1', [id])
}

function noticeOf(job: EndedReplay, tenantId: TenantId, outcome: ReplayOutcome): Notice {
  const { id, state, queuedCount, skipped, createdAtMs, endedAtMs, cause } = job
  return {
    tenantId,
    type: finishedType,
    sourceId: id,
    occurredAtMs: endedAtMs,
    payload: {
      replayId: id,
      state,
      since: new Date(createdAtMs).toISOString(),
      endedAt: new Date(endedAtMs).toISOString(),
      ...(cause !== null && { reason: cause }),
      queued: queuedCount,
      skipped: Object.values(skipped).reduce((sum, count) => sum + count, 0),
      delivered: outcome.deliveredCount,
      failed: outcome.failedCount,
      pending: outcome.pendingCount,
      advice: adviceOf(job, outcome),
    },
  }
}

function adviceOf({ state, queuedCount }: EndedReplay, outcome: ReplayOutcome): string {
  const covered =
    queuedCount > outcome.examinedCount
      ? ` The outcomes are those of the first ${outcome.examinedCount} events.`
      : ''
  if (state === 'failed') return `The replay ended early: start another one for the rest.${covered}`
  if (outcome.failedCount > 0) return `Look at the attempts of the failed events, then replay them.${covered}`
  return `Nothing is to be done.${covered}`
}
