import { writeAudit } from '#internal/access/index.ts'
import type { EventId, TenantId } from '#internal/base/index.ts'
import { beginCycles, type CycleOutcome, hastenDelivery } from '#internal/events/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'

export interface ReplayEventRequest {
  readonly eventId: EventId
  /** Default: any tenant. */
  readonly tenantId?: TenantId
  /** Actor for the audit log. */
  readonly by: string
  /** Delivery cycle that the event must be in. Default: any cycle. */
  readonly cycle?: number
}

export type ReplayEventResult =
  | { readonly kind: 'queued' | 'already_queued'; readonly tenantId: TenantId; readonly cycle: number }
  | { readonly kind: Exclude<CycleOutcome, 'queued' | 'already_queued' | 'changed'> }
  /** The event is in a different delivery cycle than requested. */
  | { readonly kind: 'changed'; readonly tenantId: TenantId; readonly cycle: number }

/**
 * Begins another delivery cycle of one event under the same id. The event must be processed or failed, or verified with a provider that is
 * enabled now. Concurrent and repeated calls begin one cycle. Writes an audit row in the same transaction. Publish on `dueChannel`
 * afterwards; otherwise a forwarder finds the event by polling within about a second.
 * @throws errors of Postgres; then nothing was changed, or a repeat returns `already_queued`
 */
export async function replayEvent(
  pool: Pool,
  request: ReplayEventRequest,
  nowMs: number,
): Promise<ReplayEventResult> {
  return await withTx(pool, (client) => replayIn(client, request, nowMs))
}

/**
 * Makes the next attempt of an event due now, or begins another cycle like `replayEvent` if none is in progress. Publish on `dueChannel`
 * afterwards. `due_now`: the attempt was brought forward. `already_queued`: an attempt is due or in progress.
 * @throws errors of Postgres; then nothing was changed, or a repeat returns `already_queued`
 */
export async function retryEvent(
  pool: Pool,
  request: Omit<ReplayEventRequest, 'cycle'>,
  nowMs: number,
): Promise<
  ReplayEventResult | { readonly kind: 'due_now'; readonly tenantId: TenantId; readonly cycle: number }
> {
  return await withTx(pool, async (client) => {
    const result = await replayIn(client, request, nowMs)
    if (result.kind !== 'already_queued') return result
    const { eventId, by } = request
    const { tenantId, cycle } = result
    if (!(await hastenDelivery(client, { id: eventId, tenantId }))) return result
    const detail = { eventId, cycle }
    await writeAudit(client, { action: 'events.retried', actor: by, tenantId, detail })
    return { kind: 'due_now', tenantId, cycle }
  })
}

async function replayIn(
  client: PoolClient,
  { eventId, tenantId, by, cycle: cycleBefore }: ReplayEventRequest,
  nowMs: number,
): Promise<ReplayEventResult> {
  const request = {
    ids: [eventId],
    ...(tenantId !== undefined && { tenantId }),
    ...(cycleBefore !== undefined && { cycle: cycleBefore }),
  }
  const [result] = await beginCycles(client, request, nowMs)
  if (result?.tenantId === undefined) return { kind: 'not_found' }
  const { outcome, cycle } = result
  if (outcome === 'queued')
    await writeAudit(client, {
      action: 'events.replayed',
      actor: by,
      tenantId: result.tenantId,
      detail: { eventId, cycle },
    })
  if (outcome === 'queued' || outcome === 'already_queued' || outcome === 'changed')
    return { kind: outcome, tenantId: result.tenantId, cycle }
  return { kind: outcome }
}
