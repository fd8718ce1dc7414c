import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient, PurgeStep, RemovedRows } from '#internal/storage/index.ts'

/** Access to a tenant's rows in rooms that import this one; composed by the process. Every function throws what Postgres throws. */
export interface TenantData {
  /** Steps that remove a deleted tenant's rows, dependent rows before the rows by which they are found. */
  readonly purgeSteps: readonly PurgeStep[]
  /** Counts a tenant's events, up to `countMax`. */
  countEventsLeft(pool: Pool, id: TenantId, countMax: number): Promise<number>
  /** Finds the suspension of a tenant's callback, if any. */
  findCallbackSuspension(pool: Pool, id: TenantId): Promise<CallbackSuspension | undefined>
  /** Lists tenants with a suspended callback. */
  listSuspendedTenants(pool: Pool, rowsMax: number): Promise<readonly TenantId[]>
  /** Appends to the audit log in the transaction of the audited change. */
  writeAudit(client: PoolClient, entry: AuditEntry, nowMs: number): Promise<void>
}

/** A suspended callback: no delivery is attempted until it is resumed. */
export interface CallbackSuspension {
  /** `gone`: it answered 410; `disabled`: by its response header `webhook-delivery`. */
  readonly cause: string
  readonly sinceMs: number
}

/** Entry of the audit log. `detail` must not hold secrets. */
export interface AuditEntry {
  readonly actor: string
  readonly action: string
  readonly tenantId: TenantId
  readonly detail: Readonly<Record<string, unknown>>
}

/** Rows per statement. */
const purgeRowsMax = 5_000
/** Bounds one call, since other tenants wait for its worker. */
const purgeBatchesMax = 50
const purgeMsMax = 20_000

/** Result of `purgeTenant`; without `isDone` a bound was reached and rows are left. */
export interface Purged {
  readonly isDone: boolean
  readonly rowsRemoved: number
}

/** Removes a deleted tenant's data from Postgres in batches, for at most 20 s. Idempotent. */
export async function purgeTenant(pool: Pool, steps: readonly PurgeStep[], id: TenantId): Promise<Purged> {
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
 * Removes part of a deleted tenant's data by the first step that finds any, and returns the approximate number of rows. Call it until it
 * returns 0: then the tenant's row is emptied and only its existence remains. Idempotent.
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

/** Removes rows of tenants deleted with their data over 400 days ago, by the index over deleted tenants. Keeps retained tenants. */
export async function forgetDeletedTenants(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM tenants WHERE id = ANY(ARRAY(
      SELECT id FROM tenants WHERE deleted_at < $1 AND spec = '{}' ORDER BY deleted_at LIMIT ${forgetRowsMax} FOR UPDATE SKIP LOCKED))`,
    nowMs - keptMs,
  )
}

/** Removes expired slug reservations by a scan, since there are few. */
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
