import type { TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import {
  endMove,
  listMovedTenants,
  type MovedTenant,
  type RecordDurability,
} from '#internal/tenants/index.ts'
import { readDurableMeters } from '#internal/usage/index.ts'

/** Dependencies of `endMoves`. */
export interface MoveParts {
  readonly pool: Pool
  /** Creates the tenant's meters in Redis or tells existing ones of the move, so that no process writes new entries there. */
  closeRedis(tenantId: TenantId): Promise<void>
  /** Returns the bytes of a tenant's records and locks in Redis. */
  bytesInRedis(tenantId: TenantId): Promise<number>
  /** Returns a tenant's last fence in a store. */
  lastFence(store: RecordDurability, tenantId: TenantId): Promise<number>
}

/**
 * Ends the moves of tenants whose earlier store has no records or locks of them any more. A tenant whose earlier store is unavailable does
 * not hold up the others. Any number of processes can call this function.
 * @throws the first error, after all tenants were looked at
 */
export async function endMoves(parts: MoveParts): Promise<void> {
  let failed: { readonly error: unknown } | undefined
  for (const tenant of await listMovedTenants(parts.pool)) {
    try {
      if (!(await isEmpty(parts, tenant))) continue
      await endMove(parts.pool, tenant, await parts.lastFence(tenant.before, tenant.id))
    } catch (error) {
      failed ??= { error }
    }
  }
  if (failed) throw failed.error
}

async function isEmpty(parts: MoveParts, { id, before }: MovedTenant): Promise<boolean> {
  if (before === 'postgres') return !(await hasEntries(parts.pool, id)) && (await staysEmpty(parts.pool, id))
  await parts.closeRedis(id)
  return (await parts.bytesInRedis(id)) === 0
}

/** Bytes of ended entries do not count, so a tenant without bytes has no entries. */
async function hasEntries(pool: Pool | PoolClient, tenantId: TenantId): Promise<boolean> {
  return (await readDurableMeters(pool, [tenantId])).get(tenantId)?.recordBytes !== 0
}

/**
 * Returns whether the tenant has no entries after all transactions that began before its move: each holds the row of its stripe from before it
 * reads where the tenant's records are until its commit.
 */
async function staysEmpty(pool: Pool, tenantId: TenantId): Promise<boolean> {
  return withTx(pool, async (client) => {
    await client.query(
      `INSERT INTO record_meters (tenant_id, stripe)
       SELECT id, stripe FROM tenants, generate_series(0, 14) AS stripe WHERE id = $1 AND deleted_at IS NULL ORDER BY stripe
       ON CONFLICT DO NOTHING`,
      [tenantId],
    )
    await client.query(
      'SELECT FROM record_meters WHERE tenant_id = $1 AND stripe < 15 ORDER BY stripe FOR UPDATE',
      [tenantId],
    )
    return !(await hasEntries(client, tenantId))
  })
}
