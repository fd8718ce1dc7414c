import { eq } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import type { RecordDurability } from './model.ts'
import { publishTenant, raiseDirectoryVersion } from './reconcile/tenant-writes.ts'
import type { TenantStatus } from './status-schemas.ts'
import { tenants } from './tables.ts'

const durabilityText = `coalesce(spec -> 'records' ->> 'durability',
  (SELECT value #>> '{}' FROM settings WHERE tenant_id = '' AND name = 'records.durability'), 'redis')`
// Does not join the table with itself: after a wait for a locked row, Postgres would compare the changed row with its old durability.
const moveText = `UPDATE tenants
SET record_store = ${durabilityText}, record_store_moved_at = now(), record_store_generation = record_store_generation + 1,
  record_store_before = CASE WHEN NOT $2 THEN record_store END
WHERE record_store <> ${durabilityText} AND deleted_at IS NULL AND ($1::text IS NULL OR id = $1)
RETURNING id`

/**
 * Waits for a running change of the platform's default, and delays later changes until the transaction ends. So either the transaction
 * sees the change, or the change sees the transaction's tenants. Callers must call this before they lock a tenant: a change takes the two
 * locks in the same order, which prevents a deadlock.
 */
export async function lockRecordDefault(client: PoolClient): Promise<void> {
  await client.query('SELECT FROM settings_version FOR SHARE')
}

/**
 * Moves a tenant to the store of its durability, if that has changed: from the commit on, new records and locks are written to this store,
 * and older ones stay in the earlier store until they end. The caller has called `lockRecordDefault`, and publishes the tenant.
 * @param isNew true in the transaction that creates the tenant, which has no earlier store
 */
export async function moveRecordStore(client: PoolClient, tenantId: TenantId, isNew: boolean): Promise<void> {
  await client.query(moveText, [tenantId, isNew])
}

/**
 * Moves all tenants like `moveRecordStore`, for example after a change of the platform's default, and publishes the tenants that moved.
 * The caller holds a lock of `settings_version`.
 */
export async function moveRecordStores(client: PoolClient): Promise<void> {
  const { rows } = await client.query<{ id: TenantId }>(moveText, [null, false])
  if (rows.length === 0) return
  const version = await raiseDirectoryVersion(client)
  await client.query('UPDATE tenants SET version = $2 WHERE id = ANY($1)', [
    rows.map(({ id }) => id),
    version,
  ])
}

export type ShownRecordStore = Readonly<NonNullable<TenantStatus['records']>>

export async function findRecordStore(pool: Pool, tenantId: TenantId): Promise<ShownRecordStore | undefined> {
  const { recordStore, recordStoreBefore } = tenants
  const columns = { store: recordStore, earlierStore: recordStoreBefore }
  const [row] = await orm(pool).select(columns).from(tenants).where(eq(tenants.id, tenantId))
  return row && { store: row.store, ...(row.earlierStore && { earlierStore: row.earlierStore }) }
}

/** Tenant that moved. Its earlier store (`before`) can still contain its records and locks. */
export interface MovedTenant {
  readonly id: TenantId
  readonly before: RecordDurability
  readonly generation: number
}

/** Lists at most 100 tenants, chosen at random, that moved at least `ageMs` ago and still have an earlier store. */
export async function listMovedTenants(pool: Pool, ageMs: number): Promise<readonly MovedTenant[]> {
  const { rows } = await pool.query<MovedTenant>(
    `SELECT id, record_store_before AS before, record_store_generation AS generation FROM tenants
     WHERE record_store_before IS NOT NULL AND deleted_at IS NULL AND record_store_moved_at <= now() - $1 * interval '1 ms'
     ORDER BY random() LIMIT 100`,
    [ageMs],
  )
  return rows
}

/**
 * Forgets the earlier store of a tenant, after it was found to be empty. Changes nothing if the tenant has moved again.
 * @param fence last fence of the earlier store, read after it was found to be empty
 */
export async function endMove(pool: Pool, { id, generation }: MovedTenant, fence: number): Promise<void> {
  await withTx(pool, async (client) => {
    const { rowCount } = await client.query(
      `UPDATE tenants SET record_store_before = NULL, record_fence = greatest(record_fence, $3)
       WHERE id = $1 AND record_store_generation = $2 AND record_store_before IS NOT NULL`,
      [id, generation, fence],
    )
    if (rowCount === 1) await publishTenant(client, id)
  })
}
