import type { Day, TenantId } from '#internal/base/index.ts'
import { type Pool, type RemovedRows, textArrayParam } from '#internal/storage/index.ts'

/** Columns of an event that locate its other rows. */
interface EventRow {
  readonly id: string
  readonly expiresOn: Day
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
  readonly dedupeKey: string
}

/** Bounds a statement's time: TOAST stores large payloads as many rows. */
const payloadBytesMax = 64 * 1024 * 1024

type Step = (pool: Pool, id: TenantId, rowsMax: number) => Promise<number>

/** In this order: simulations create events, replays queue deliveries, and an event without a delivery gets no further attempts. */
const steps: readonly Step[] = [
  byKey('simulations', ['id']),
  byKey('usage_hourly', ['meter', 'hour']),
  byKey('usage_emissions', ['id']),
  byKey('stats_minutely', ['at']),
  byKey('stats_hourly', ['at']),
  byKey('replays', ['id']),
  purgeDeliveries,
  byPartition('refused_calls', 'id'),
  byPartition('executions', 'fence'),
  byKey('failed_events', ['id']),
  purgeEvents,
]
/** Tables with few rows per tenant. */
const smallTables = ['record_epochs', 'limit_overrides', 'settings', 'sessions']

/**
 * Removes part of a deleted tenant's data, at most `rowsMax` rows per statement, and returns their approximate number. Call it until it
 * returns 0: then the tenant's row is emptied and only its existence remains. Idempotent: dependent rows are removed before the rows by
 * which they are found.
 */
export async function purgeTenantBatch(pool: Pool, id: TenantId, rowsMax: number): Promise<number> {
  for (const step of steps) {
    const removed = await step(pool, id, rowsMax)
    if (removed > 0) return removed
  }
  for (const table of smallTables) await pool.query(`DELETE FROM ${table} WHERE tenant_id = $1`, [id])
  await pool.query(`UPDATE tenants SET spec = '{}' WHERE id = $1 AND deleted_at IS NOT NULL`, [id])
  return 0
}

/** Counts a deleted tenant's remaining events, up to `countMax`, by the index over tenant and id. */
export async function countEventsLeft(pool: Pool, id: TenantId, countMax: number): Promise<number> {
  const { rows } = await pool.query<{ left: number }>(
    'SELECT count(*)::int AS left FROM (SELECT FROM events WHERE tenant_id = $1 LIMIT $2) AS counted',
    [id, countMax],
  )
  return rows[0]?.left ?? 0
}

/** Deletes by key, not by ctid: an update in progress moves the row, and the statement waits for it. */
function byKey(table: string, columns: readonly string[]): Step {
  const key = columns.join(', ')
  const isSame = columns.map((name) => `t.${name} = old.${name}`).join(' AND ')
  return async (pool, id, rowsMax) => {
    const { rowCount } = await pool.query(
      `DELETE FROM ${table} AS t USING (SELECT ${key} FROM ${table} WHERE tenant_id = $1 ORDER BY ${key} LIMIT $2) AS old
       WHERE t.tenant_id = $1 AND ${isSame}`,
      [id, rowsMax],
    )
    return rowCount ?? 0
  }
}

/** Deletes by key within the partitions of the rows' days. */
function byPartition(table: string, key: string): Step {
  return async (pool, id, rowsMax) => {
    const { rows } = await pool.query<{ key: unknown; day: Day }>(
      `SELECT ${key} AS key, expires_on::text AS day FROM ${table} WHERE tenant_id = $1 ORDER BY ${key} LIMIT $2`,
      [id, rowsMax],
    )
    for (const [day, ofDay] of Map.groupBy(rows, (row) => row.day))
      await pool.query(
        `DELETE FROM ${table} WHERE expires_on = $1::date AND tenant_id = $2 AND ${key} = ANY($3)`,
        [day, id, ofDay.map((row) => row.key)],
      )
    return rows.length
  }
}

// By key, not by ctid: a claim in progress moves the row, and the statement waits for it. The tenant queue is removed once empty.
async function purgeDeliveries(pool: Pool, id: TenantId, rowsMax: number): Promise<number> {
  const { rowCount } = await pool.query(
    `DELETE FROM deliveries_due WHERE event_id IN
       (SELECT event_id FROM deliveries_due WHERE tenant_id = $1 ORDER BY is_retry, due_at LIMIT $2)`,
    [id, rowsMax],
  )
  if (rowCount === 0) await pool.query('DELETE FROM tenant_queues WHERE tenant_id = $1', [id])
  return rowCount ?? 0
}

/** Events last: payloads, attempts and dedupe keys are found by them alone. */
async function purgeEvents(pool: Pool, id: TenantId, rowsMax: number): Promise<number> {
  const events = withinBytes(await listEvents(pool, id, rowsMax))
  if (events.length === 0) return 0
  for (const [day, ofDay] of Map.groupBy(events, ({ payloadExpiresOn }) => payloadExpiresOn)) {
    await pool.query(
      `DELETE FROM event_payloads WHERE expires_on = $1::date AND event_id = ANY($2::text[])`,
      [day, idsOf(ofDay)],
    )
  }
  const byDay = Map.groupBy(events, ({ expiresOn }) => expiresOn)
  for (const [day, ofDay] of byDay) {
    const removed = await removeAttempts(pool, day, idsOf(ofDay), rowsMax)
    // A concurrent purge may have removed the others: check that none is left.
    if (removed === rowsMax || (await hasAttempts(pool, day, idsOf(ofDay)))) return rowsMax
  }
  await pool.query(`DELETE FROM dedupe_keys WHERE key = ANY($1::text[]::uuid[])`, [
    textArrayParam(events.map(({ dedupeKey }) => dedupeKey)),
  ])
  for (const [day, ofDay] of byDay) {
    await pool.query(`DELETE FROM events WHERE expires_on = $1::date AND id = ANY($2::text[])`, [
      day,
      idsOf(ofDay),
    ])
  }
  return events.length
}

// By the index over tenant and id. Intake computes the same dedupe key from these columns.
async function listEvents(pool: Pool, id: TenantId, rowsMax: number): Promise<EventRow[]> {
  const { rows } = await pool.query<EventRow>(
    `SELECT id, expires_on::text AS "expiresOn", payload_expires_on::text AS "payloadExpiresOn",
       payload_bytes AS "payloadBytes", encode(substring(sha256(convert_to(
         tenant_id || E'\\n' || provider || E'\\n' || source_event_id, 'UTF8')) FOR 16), 'hex') AS "dedupeKey"
     FROM events WHERE tenant_id = $1 ORDER BY id LIMIT $2`,
    [id, rowsMax],
  )
  return rows
}

// The day selects the partition, in which the ctid is unique.
async function removeAttempts(pool: Pool, day: Day, eventIds: Buffer, rowsMax: number): Promise<number> {
  const { rowCount } = await pool.query(
    `DELETE FROM attempts WHERE expires_on = $1::date AND ctid = ANY(ARRAY(
       SELECT ctid FROM attempts WHERE expires_on = $1::date AND event_id = ANY($2::text[]) LIMIT $3))`,
    [day, eventIds, rowsMax],
  )
  return rowCount ?? 0
}

async function hasAttempts(pool: Pool, day: Day, eventIds: Buffer): Promise<boolean> {
  const { rows } = await pool.query<{ left: boolean }>(
    `SELECT EXISTS (SELECT FROM attempts WHERE expires_on = $1::date AND event_id = ANY($2::text[])) AS left`,
    [day, eventIds],
  )
  return rows[0]?.left ?? false
}

function withinBytes(events: readonly EventRow[]): readonly EventRow[] {
  let bytes = 0
  const end = events.findIndex(({ payloadBytes }, at) => {
    bytes += payloadBytes
    return bytes > payloadBytesMax && at > 0
  })
  return end < 0 ? events : events.slice(0, end)
}

function idsOf(rows: readonly { readonly id: string }[]): Buffer {
  return textArrayParam(rows.map(({ id }) => id))
}

const forgetRowsMax = 5_000
/** Longer than any other retention, so that a whole year stays explainable. */
const keptMs = 400 * 86_400_000

/** Removes audit entries over 400 days old, at most 5 000 of the oldest by key. Idempotent. */
export async function forgetAudit(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return await removeRows(
    pool,
    `DELETE FROM audit WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ${forgetRowsMax}) oldest WHERE at < $1))`,
    nowMs - keptMs,
  )
}

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
