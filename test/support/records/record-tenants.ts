import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'

/** Inserts a tenant whose records were in Postgres from the beginning. */
export async function insertDurableTenant(pool: Pool, tenantId: TenantId): Promise<void> {
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at, record_store)
     VALUES ($1, $1, $1, $1, false, '{}', 0, now(), now(), now(), 'postgres')`,
    [tenantId],
  )
}
