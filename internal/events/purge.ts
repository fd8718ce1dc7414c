import type { Day, TenantId } from '#internal/base/index.ts'
import { type Pool, type PurgeStep, purgeByKey, textArrayParam } from '#internal/storage/index.ts'
import { isOfTenantText, queueIdText, withinBytes } from './model.ts'

/** Steps that remove a deleted tenant's events with all their data. Deliveries are removed first, so that no further attempts are made. */
export const purgeEventSteps: readonly PurgeStep[] = [
  purgeDeliveries,
  purgeByKey('pulls_due', ['event_id']),
  purgeByKey('destination_alerts', ['tenant_id', 'destination']),
  purgeByKey('failed_deliveries', ['id', 'destination']),
  purgeEvents,
]

/** Counts a deleted tenant's remaining events, up to `countMax`. Uses the index over tenant and id. */
export async function countEventsLeft(pool: Pool, id: TenantId, countMax: number): Promise<number> {
  const { rows } = await pool.query<{ left: number }>(
    'SELECT count(*)::int AS left FROM (SELECT FROM events WHERE tenant_id = $1 LIMIT $2) AS counted',
    [id, countMax],
  )
  return rows[0]?.left ?? 0
}

interface EventRow {
  readonly id: string
  readonly expiresOn: Day
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
  readonly dedupeKey: string
}

/** Maximum payload bytes per statement. Limits its duration, since TOAST stores a large payload as many rows. */
const payloadBytesMax = 64 * 1024 * 1024

// Deletes by key and not by ctid, since a concurrent claim changes the ctid of a row; the statement waits for such a claim.
async function purgeDeliveries(pool: Pool, id: TenantId, rowsMax: number): Promise<number> {
  const { rowCount } = await pool.query(
    `DELETE FROM deliveries_due WHERE (event_id, destination) IN
       (SELECT event_id, destination FROM deliveries_due WHERE ${isOfTenantText('$1')} ORDER BY ${queueIdText()}, is_retry, due_at LIMIT $2)`,
    [id, rowsMax],
  )
  if (rowCount === 0) await pool.query('DELETE FROM tenant_queues WHERE tenant_id = $1', [id])
  return rowCount ?? 0
}

/** Deletes payloads, attempts and dedupe keys before the events, since they can only be found through the events. */
async function purgeEvents(pool: Pool, id: TenantId, rowsMax: number): Promise<number> {
  const events = withinBytes(await listEvents(pool, id, rowsMax), payloadBytesMax)
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
    // A concurrent purge can have removed some of these attempts, so a small number does not prove that none are left.
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

// Computes the dedupe key from the same columns as intake. Uses the index over tenant and id.
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

// Deletes attempts of one expiry day only, since a ctid is unique only within one partition.
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

function idsOf(rows: readonly { readonly id: string }[]): Buffer {
  return textArrayParam(rows.map(({ id }) => id))
}
