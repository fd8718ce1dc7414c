import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PurgeStep, RemovedRows } from '#internal/storage/index.ts'

const purgeRowsMax = 5_000
/** Maximum number of batches per call: limited, because other tenants wait for the same worker. */
const purgeBatchesMax = 50
const purgeMsMax = 20_000

/** Deletes in batches, for at most 20 s per call. Idempotent. */
export async function purgeTenant(
  pool: Pool,
  steps: readonly PurgeStep[],
  id: TenantId,
): Promise<{
  readonly isDone: boolean
  readonly rowsRemoved: number
}> {
  const endMs = performance.now() + purgeMsMax
  let rowsRemoved = 0
  for (let batch = 0; batch < purgeBatchesMax && performance.now() < endMs; batch += 1) {
    const removed = await purgeTenantBatch(pool, steps, id, purgeRowsMax)
    if (removed === 0) return { isDone: true, rowsRemoved }
    rowsRemoved += removed
  }
  return { isDone: false, rowsRemoved }
}

/**
 * Deletes one batch of a deleted tenant's data: runs the steps in order and stops after the first step that deletes rows. Returns the
 * approximate number of deleted rows. Callers repeat the call until it returns 0; the tenant's own row then still exists, with an empty
 * spec. Idempotent.
 */
export async function purgeTenantBatch(
  pool: Pool,
  steps: readonly PurgeStep[],
  id: TenantId,
  rowsMax: number,
): Promise<number> {
  for (const step of steps) {
    const removed = await step(pool, id, rowsMax)
    if (removed > 0) return removed
  }
  await pool.query(`UPDATE tenants SET spec = '{}' WHERE id = $1 AND deleted_at IS NOT NULL`, [id])
  return 0
}

const forgetRowsMax = 5_000
const keptMs = 400 * 86_400_000

/**
 * Deletes the rows of tenants that were deleted more than 400 days ago and whose data has been deleted. Keeps tenants whose data is
 * retained.
 */
export async function forgetDeletedTenants(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM tenants WHERE id = ANY(ARRAY(
      SELECT id FROM tenants WHERE deleted_at < $1 AND spec = '{}' ORDER BY deleted_at LIMIT ${forgetRowsMax} FOR UPDATE SKIP LOCKED))`,
    nowMs - keptMs,
  )
}

/** Deletes expired slug reservations. Scans the whole table, because it is small. */
export async function forgetSlugReservations(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM slug_reservations WHERE slug = ANY(ARRAY(
      SELECT slug FROM slug_reservations WHERE reserved_until < $1 LIMIT ${forgetRowsMax} FOR UPDATE SKIP LOCKED))
      AND reserved_until < $1`,
    nowMs,
  )
}

async function removeRows(pool: Pool, text: string, beforeMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query(text, [new Date(beforeMs)])
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === forgetRowsMax }
}
