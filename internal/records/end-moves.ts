import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { endMove, listMovedTenants, type MovedTenant } from '#internal/tenants/index.ts'

/** Dependencies of `endMoves`. */
export interface MoveParts {
  readonly pool: Pool
  /** Creates the tenant's meters in Redis or tells existing ones of the move, so that no process writes new entries there. */
  closeRedis(tenantId: TenantId): Promise<void>
  /** Returns the bytes of a tenant's records and locks in Redis. */
  bytesInRedis(tenantId: TenantId): Promise<number>
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
      if (await isEmpty(parts, tenant)) await endMove(parts.pool, tenant)
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

/** Bytes are returned in the minute after an entry's end, so a tenant without bytes has no entries. */
async function hasEntries(pool: Pool, tenantId: TenantId): Promise<boolean> {
  const { rows } = await pool.query<{ bytes: number }>(
    `SELECT coalesce((SELECT sum(bytes) FROM record_meters WHERE tenant_id = $1), 0)::bigint
       - coalesce((SELECT sum(bytes) FROM record_bytes WHERE tenant_id = $1 AND until <= record_clock() / 60000000), 0)::bigint AS bytes`,
    [tenantId],
  )
  return rows[0]?.bytes !== 0
}
