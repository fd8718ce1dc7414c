import type { Pool, RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 5_000
/** Longer than anything else that is kept of a tenant, so that what happened in a year can still be explained. */
const keptMs = 400 * 86_400_000

/**
 * Removes entries of the audit that are over 400 days old, at most 5 000 of the oldest. By the key, which is their order but for
 * moments. Repeating it is safe, as it is for all here. @throws whatever Postgres throws, as all here do
 */
export async function forgetAudit(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM audit WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ${rowsMax}) oldest WHERE at < $1))`,
    nowMs - keptMs,
  )
}

/**
 * Removes what is left of tenants that were deleted with their data over 400 days ago: the fact that they existed. Whose data was
 * retained stays, until somebody takes it over. By the index over deleted tenants.
 */
export async function forgetDeletedTenants(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM tenants WHERE id = ANY(ARRAY(
      SELECT id FROM tenants WHERE deleted_at < $1 AND spec = '{}' ORDER BY deleted_at LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    nowMs - keptMs,
  )
}

/** Removes reservations of slugs whose time is over; they keep nobody from a slug any more. They are few, and read whole. */
export async function forgetSlugReservations(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM slug_reservations WHERE slug = ANY(ARRAY(
      SELECT slug FROM slug_reservations WHERE reserved_until < $1 LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))
      AND reserved_until < $1`,
    nowMs,
  )
}

async function removeRows(pool: Pool, text: string, beforeMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query(text, [new Date(beforeMs)])
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}
