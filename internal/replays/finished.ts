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
import { type ReplayId, type ReplayJob, readReplay } from './job.ts'
import { readReplayOutcome } from './outcome.ts'
import type { ReplayOutcome } from './progress.ts'

const finishedType = 'latchkey.replay.finished'
/** Maximum replays per turn; the rest follows in the next turn. */
const examinedMax = 20
/** Pause before the deliveries of an ended replay are counted again. */
const againMs = 30_000
/** Time after the end of a replay, after which the notification no longer waits for its deliveries. */
const waitMsMax = 86_400_000

/**
 * Notifies the owners of ended replays, once all deliveries of the first 1 000 events have ended, or after a day. Any number of processes
 * store one notification per replay. Returns the tenant queues of the notifications. Requires a pool with `eventReadSettings`.
 * @throws errors of Postgres; replays that were not reached are examined again
 */
export async function notifyOfFinishedReplays(parts: NoticeParts, nowMs: number): Promise<QueueId[]> {
  const { rows } = await parts.pool.query<{ id: ReplayId; tenantId: TenantId | null }>({
    name: 'list_replays_to_notify',
    text: `SELECT id, tenant_id AS "tenantId" FROM replays WHERE notify_at <= $1 AND ended_at IS NOT NULL
      ORDER BY notify_at LIMIT ${examinedMax}`,
    values: [new Date(nowMs)],
  })
  const queues: QueueId[] = []
  for (const { id, tenantId } of rows) {
    const isWanted = tenantId !== null && wantsNotice(parts, { tenantId, type: finishedType })
    const queueId = isWanted ? await notifyOf(parts, { id, tenantId }, nowMs) : await drop(parts.pool, id)
    if (queueId) queues.push(queueId)
  }
  return queues
}

async function notifyOf(
  parts: NoticeParts,
  { id, tenantId }: { readonly id: ReplayId; readonly tenantId: TenantId },
  nowMs: number,
): Promise<QueueId | undefined> {
  const job = await readReplay(parts.pool, { id })
  if (!job || job.endedAtMs === null) return undefined
  const outcome = await readReplayOutcome(parts.pool, id, nowMs)
  if (outcome.pendingCount > 0 && nowMs - job.endedAtMs < waitMsMax) {
    await parts.pool.query('UPDATE replays SET notify_at = $2 WHERE id = $1 AND notify_at IS NOT NULL', [
      id,
      new Date(nowMs + againMs),
    ])
    return undefined
  }
  const event = await prepareNotice(parts, noticeOf(job, tenantId, outcome), nowMs)
  if (!event) return await drop(parts.pool, id)
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

/** Ends the wait of a replay whose end nobody is notified of. */
async function drop(pool: Pool, id: ReplayId): Promise<undefined> {
  await pool.query('UPDATE replays SET notify_at = NULL WHERE id = $1', [id])
}

function noticeOf(job: ReplayJob, tenantId: TenantId, outcome: ReplayOutcome): Notice {
  const { id, state, queuedCount, skipped, createdAtMs, endedAtMs, cause } = job
  const endedMs = endedAtMs ?? createdAtMs
  return {
    ...{ tenantId, type: finishedType, sourceId: id, occurredAtMs: endedMs },
    payload: {
      replayId: id,
      state,
      since: new Date(createdAtMs).toISOString(),
      endedAt: new Date(endedMs).toISOString(),
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

function adviceOf({ state, queuedCount }: ReplayJob, outcome: ReplayOutcome): string {
  const covered =
    queuedCount > outcome.examinedCount
      ? ` The outcomes are those of the first ${outcome.examinedCount} events.`
      : ''
  if (state === 'failed') return `The replay ended early: start another one for the rest.${covered}`
  if (outcome.failedCount > 0) return `Look at the attempts of the failed events, then replay them.${covered}`
  return `Nothing is to be done.${covered}`
}
