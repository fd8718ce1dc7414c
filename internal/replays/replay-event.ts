import type { EventId, TenantId } from '#internal/base/index.ts'
import { beginCycles, type ReplayFate } from '#internal/events/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { insertReplayAudit } from './replay-audit.ts'

/** An event that is to be delivered once more, and who says so. */
export interface ReplayEventRequest {
  readonly eventId: EventId
  /** Whose it has to be; absent: anybody's. */
  readonly tenantId?: TenantId
  /** Who asks, for the audit. */
  readonly by: string
  /** The delivery cycle that it has to be in still; absent: any. */
  readonly cycle?: number
}

/** What came of it; the delivery cycle is the one that it is in now. */
export type ReplayEventResult =
  | { readonly kind: 'queued' | 'already_queued'; readonly tenantId: TenantId; readonly cycle: number }
  | { readonly kind: Exclude<ReplayFate, 'queued' | 'already_queued' | 'changed'> }
  /** It is in another delivery cycle than was asked for. */
  | { readonly kind: 'changed'; readonly tenantId: TenantId; readonly cycle: number }

/**
 * Begins another delivery cycle of one event, under the same id: of one that was processed or failed, or that was only verified, once its
 * tenant's provider is enabled. Not while a delivery cycle is under way, so that any number of repeats at once queue it once. Leaves an
 * audit row with the deed. Tell `dueChannel` afterwards; without it a forwarder finds it within a second or so.
 * @throws whatever Postgres throws; then nothing was done, or it is found `already_queued`
 */
export async function replayEvent(
  pool: Pool,
  { eventId, tenantId, by, cycle: cycleBefore }: ReplayEventRequest,
  nowMs: number,
): Promise<ReplayEventResult> {
  return await withTx(pool, async (client) => {
    const request = {
      ids: [eventId],
      ...(tenantId !== undefined && { tenantId }),
      ...(cycleBefore !== undefined && { cycle: cycleBefore }),
    }
    const [result] = await beginCycles(client, request, nowMs)
    if (result?.tenantId === undefined) return { kind: 'not_found' }
    const { fate, cycle } = result
    if (fate === 'queued')
      await insertReplayAudit(client, {
        ...{ action: 'events.replayed', actor: by, tenantId: result.tenantId },
        detail: { event: eventId, cycle },
      })
    if (fate === 'queued' || fate === 'already_queued' || fate === 'changed')
      return { kind: fate, tenantId: result.tenantId, cycle }
    return { kind: fate }
  })
}
