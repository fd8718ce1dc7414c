import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { endMove, listMovedTenants, type MovedTenant } from '#internal/tenants/index.ts'
import { readDurableMeters } from '#internal/usage/index.ts'
import { findLastFence } from './durable-store.ts'

export interface MoveParts {
  /** A run uses at most one connection. Must not be the pool of durable records, for whose connections record calls wait. */
  readonly pool: Pool
  /** Time after a move by which every earlier record and lock has expired, unless it was renewed. */
  readonly entryMsMax: number
  /** Creates the tenant's meters in Redis, or marks existing ones as moved, so that no process writes new entries there. */
  closeRedis(tenantId: TenantId): Promise<void>
  bytesInRedis(tenantId: TenantId): Promise<number>
  lastFenceInRedis(tenantId: TenantId): Promise<number>
}

/**
 * Ends the moves of tenants that have no more records or locks in their earlier store. Waits for `entryMsMax` even if all ttls are short:
 * by then every process knows of the move, no transaction from before the move is open, and a clock that was briefly ahead is right again.
 * A tenant whose earlier store is unavailable does not delay the others. Safe to run concurrently in any number of processes.
 * @throws the first error, after all tenants were tried, or once `signal` aborts
 */
export async function endMoves(parts: MoveParts, signal?: AbortSignal): Promise<void> {
  let failed: { readonly error: unknown } | undefined
  for (const tenant of await listMovedTenants(parts.pool, parts.entryMsMax)) {
    signal?.throwIfAborted()
    try {
      if (!(await isEmpty(parts, tenant))) continue
      await endMove(parts.pool, tenant, await lastFence(parts, tenant))
    } catch (error) {
      failed ??= { error }
    }
  }
  if (failed) throw failed.error
}

async function isEmpty(parts: MoveParts, { id, before }: MovedTenant): Promise<boolean> {
  if (before === 'postgres') return !(await hasEntries(parts.pool, id))
  await parts.closeRedis(id)
  return (await parts.bytesInRedis(id)) === 0
}

function lastFence({ pool, lastFenceInRedis }: MoveParts, { id, before }: MovedTenant): Promise<number> {
  return before === 'postgres' ? findLastFence(pool, id) : lastFenceInRedis(id)
}

/** Only records and locks that have not ended count as bytes, so a tenant without bytes has none. */
async function hasEntries(pool: Pool, tenantId: TenantId): Promise<boolean> {
  return (await readDurableMeters(pool, [tenantId])).get(tenantId)?.recordBytes !== 0
}
