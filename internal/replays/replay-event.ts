import type { EventId, TenantId } from '#internal/base/index.ts'
import { queueRounds, type ReplayFate } from '#internal/events/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { insertReplayAudit } from './replay-audit.ts'

/** An event that is to be delivered once more, and who says so. */
export interface ReplayEventRequest {
  readonly eventId: EventId
  /** Whose it has to be; absent: anybody's. */
  readonly tenantId?: TenantId
  /** Who asks, for the audit. */
  readonly by: string
  /** The round that it has to be in still; absent: any. */
  readonly round?: number
}

/** What came of it; the round is the one that it is in now. */
export type ReplayEventResult =
  | { readonly kind: 'queued' | 'already_queued'; readonly tenantId: TenantId; readonly round: number }
  | { readonly kind: Exclude<ReplayFate, 'queued' | 'already_queued' | 'changed'> }
  /** It is in another round than was asked for. */
  | { readonly kind: 'changed'; readonly tenantId: TenantId; readonly round: number }

/**
 * Begins another round of one event, under the same id: of one that was processed or failed, or that was only verified, once its
 * tenant's provider is enabled. Not while a round is under way, so that any number of repeats at once queue it once. Leaves an
 * audit row with the deed. Tell `dueChannel` afterwards; without it a forwarder finds it within a second or so.
 * @throws whatever Postgres throws; then nothing was done, or it is found `already_queued`
 */
export async function replayEvent(
  pool: Pool,
  { eventId, tenantId, by, round: roundBefore }: ReplayEventRequest,
  nowMs: number,
): Promise<ReplayEventResult> {
  return await withTx(pool, async (client) => {
    const request = {
      ids: [eventId],
      ...(tenantId !== undefined && { tenantId }),
      ...(roundBefore !== undefined && { round: roundBefore }),
    }
    const [result] = await queueRounds(client, request, nowMs)
    if (result?.tenantId === undefined) return { kind: 'not_found' }
    const { fate, round } = result
    if (fate === 'queued')
      await insertReplayAudit(client, {
        ...{ action: 'events.replayed', actor: by, tenantId: result.tenantId },
        detail: { event: eventId, round },
      })
    if (fate === 'queued' || fate === 'already_queued' || fate === 'changed')
      return { kind: fate, tenantId: result.tenantId, round }
    return { kind: fate }
  })
}
