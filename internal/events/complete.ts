import { type Day, expiryDayOf } from '#internal/base/index.ts'
import type { CallTrace, HeaderLine } from '#internal/egress/index.ts'
import {
  ensurePartitions,
  type Pool,
  partitionName,
  sqlErrorOf,
  textArrayParam,
} from '#internal/storage/index.ts'
import type { ClaimedDelivery } from './claim.ts'
import { type DeliveryId, deliveryIdText, isAmongText } from './model.ts'

/** Columns of failed_deliveries that the table events contains under the same names. */
export const failedEventColumns = `id, tenant_id, expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
    payload_expires_on, cycle, completed_at, origin`

/**
 * Outcome of a claim. `processed` and `failed` end the delivery cycle. `later` makes the delivery due again after an attempt. `snoozed`
 * makes it due again without an attempt and does not count the claim. `expired`: the event no longer exists.
 */
export type Ending =
  | { readonly kind: 'processed' | 'failed'; readonly attempt: Attempt }
  | { readonly kind: 'later'; readonly dueAtMs: number; readonly attempt: Attempt }
  | { readonly kind: 'snoozed'; readonly dueAtMs: number }
  | { readonly kind: 'expired' }

export interface Completion {
  readonly delivery: ClaimedDelivery
  readonly ending: Ending
}

// Hot: `npm run bench -- webhooks`. One commit for queue row, attempt and event. A single statement: several short statements,
// pipelined in one transaction, took 3 % more processor time per event at 200 rows and 33 % at 20 (`npm run bench -- queue`, 2026-11).
//   ours        locks the rows that this process still owns by lease, cycle, claims and attempts, so that a late worker writes nothing.
//               Only their owner locks these rows, so batches of several processes do not wait for each other
//   closed      updates the events. Each is found as the first row with `id >= …`, a search that can only use the primary key.
//               The end of one delivery ends its event: assumes that an event has at most one row in deliveries_due at a time.
//               For the same reason, unlisted finds entries by the event alone: a condition on the destination took 2 % more time
//   failures    adds list entries for failed events. The statement that begins the next delivery cycle removes an entry; if that
//               statement did not see the entry yet, the end of that cycle removes it (unlisted)
//   queues_left lets tenant queues be checked no later than at the new due times, and locks them in the order of their ids
// Postgres can plan the statement on empty tables and use that plan on full ones. So all rows are found by their keys, in forms that
// cannot be planned as a scan: LATERAL with a lock, an array of keys, ON CONFLICT. A repeat finds no rows and writes nothing.
const completeText = (day: Day) => `
WITH input AS MATERIALIZED (
  SELECT id, destination, cycle::smallint, claims::smallint, attempts::smallint, ending, due_at::timestamptz, started_at::timestamptz,
    duration_ms::integer, outcome, status::smallint, cause, answer, exchange
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::text[], $13::text[], $14::text[], $15::text[])
    AS i(id, destination, cycle, claims, attempts, ending, due_at, started_at, duration_ms, outcome, status, cause, answer, exchange)
), ours AS MATERIALIZED (
  SELECT i.*, d.tenant_id, d.expires_on, d.payload_expires_on, d.payload_bytes FROM input i CROSS JOIN LATERAL (
    SELECT tenant_id, expires_on, payload_expires_on, payload_bytes FROM deliveries_due
    WHERE event_id = i.id AND destination = i.destination AND lease = $1 AND claims = i.claims AND attempts = i.attempts AND cycle = i.cycle FOR UPDATE) d
), ended AS (
  DELETE FROM deliveries_due
  WHERE ${isAmongText("ours WHERE ending IN ('processed', 'failed', 'expired')", 'id')}
), later AS (
  INSERT INTO deliveries_due
    (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, is_retry, due_at, claims, attempts)
  SELECT id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, true, due_at,
    CASE ending WHEN 'later' THEN 0 ELSE greatest(claims - 1, 0) END, attempts + CASE ending WHEN 'later' THEN 1 ELSE 0 END
  FROM ours WHERE ending IN ('later', 'snoozed')
  ON CONFLICT (event_id, destination) DO UPDATE SET is_retry = true, due_at = excluded.due_at, lease = NULL, leased_until = '-infinity',
    claims = excluded.claims, attempts = excluded.attempts
), tried AS (
  INSERT INTO ${partitionName({ table: 'attempts', day })}
    (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer, exchange)
  SELECT id, destination, '${day}', cycle, attempts + 1, started_at, duration_ms, outcome, status, cause, answer, exchange
  FROM ours WHERE outcome IS NOT NULL
  ON CONFLICT DO NOTHING
), places AS MATERIALIZED (
  SELECT e.place FROM ours o CROSS JOIN LATERAL (
    SELECT ctid AS place, id, tenant_id FROM ${partitionName({ table: 'events', day })} WHERE id >= o.id ORDER BY id LIMIT 1) e
  WHERE o.ending IN ('processed', 'failed') AND e.id = o.id AND e.tenant_id = o.tenant_id
), closed AS (
  UPDATE ${partitionName({ table: 'events', day })}
  SET state = CASE WHEN id = ANY(ARRAY(SELECT id FROM ours WHERE ending = 'failed')) THEN 'delivery_failed' ELSE 'processed' END,
    completed_at = now()
  WHERE ctid = ANY(ARRAY(SELECT place FROM places))
  RETURNING ${failedEventColumns}, state
), failures AS (
  INSERT INTO failed_deliveries (${failedEventColumns}, destination)
  SELECT ${failedEventColumns}, destination
  FROM closed CROSS JOIN LATERAL (SELECT destination FROM ours WHERE ours.id = closed.id AND ending = 'failed') o
  WHERE state = 'delivery_failed'
  ON CONFLICT (tenant_id, id, destination) DO UPDATE SET cycle = excluded.cycle, completed_at = excluded.completed_at,
    payload_bytes = excluded.payload_bytes, payload_expires_on = excluded.payload_expires_on
), unlisted AS (
  DELETE FROM failed_deliveries WHERE id = ANY(ARRAY(SELECT id FROM closed WHERE state = 'processed' AND cycle > 1))
), queues_left AS (
  UPDATE tenant_queues l SET next_due_at = least(l.next_due_at, w.due_at), idle_checks = 0
  FROM (SELECT l.tenant_id, l.destination, n.due_at FROM (
      SELECT tenant_id, destination, min(due_at) AS due_at FROM ours WHERE ending IN ('later', 'snoozed')
      GROUP BY tenant_id, destination) n
    JOIN tenant_queues l ON l.tenant_id = n.tenant_id AND l.destination = n.destination
      AND (l.next_due_at > n.due_at OR l.idle_checks > 0)
    ORDER BY l.tenant_id, l.destination FOR UPDATE OF l) w
  WHERE l.tenant_id = w.tenant_id AND l.destination = w.destination
)
SELECT ${deliveryIdText('id')} FROM ours`

/**
 * Writes the outcomes of claimed deliveries and returns the ids of those that this process still owned. Skips all others. Requires a pool
 * with `queueSessionSettings`. Safe to repeat.
 * @param completions at most one per delivery
 * @throws errors of Postgres; days that were written before the error stay completed
 */
export async function complete(
  pool: Pool,
  leaseToken: string,
  completions: readonly Completion[],
): Promise<ReadonlySet<DeliveryId>> {
  const completed = new Set<DeliveryId>()
  const byDay = Map.groupBy(completions, ({ delivery }) => expiryDayOf(delivery.eventId))
  for (const [day, ofDay] of byDay) {
    for (const id of await completeDay(pool, leaseToken, day, ofDay)) completed.add(id)
  }
  return completed
}

const undefinedTable = '42P01'

async function completeDay(
  pool: Pool,
  leaseToken: string,
  day: Day,
  completions: readonly Completion[],
): Promise<DeliveryId[]> {
  try {
    return await writeEndings(pool, leaseToken, day, completions)
  } catch (error) {
    if (!isMissingTable(error)) throw error
    await ensurePartitions(pool, [
      { table: 'attempts', day },
      { table: 'events', day },
    ])
    return await writeEndings(pool, leaseToken, day, completions)
  }
}

function isMissingTable(error: unknown): boolean {
  return sqlErrorOf(error)?.code === undefinedTable
}

async function writeEndings(
  pool: Pool,
  leaseToken: string,
  day: Day,
  completions: readonly Completion[],
): Promise<DeliveryId[]> {
  const column = (pick: (one: Completion) => string | null) => textArrayParam(completions.map(pick))
  const tried = (pick: (attempt: Attempt) => string | null) =>
    column(({ ending }) => ('attempt' in ending ? pick(ending.attempt) : null))
  const { rows } = await pool.query<[DeliveryId]>({
    name: `complete_${day}`,
    text: completeText(day),
    rowMode: 'array',
    values: [
      leaseToken,
      column(({ delivery }) => delivery.eventId),
      column(({ delivery }) => delivery.destination),
      column(({ delivery }) => String(delivery.cycle)),
      column(({ delivery }) => String(delivery.claims)),
      column(({ delivery }) => String(delivery.attempts)),
      column(({ ending }) => ending.kind),
      column(({ ending }) => ('dueAtMs' in ending ? isoTime(ending.dueAtMs) : null)),
      tried(({ startedAtMs }) => isoTime(startedAtMs)),
      tried(({ durationMs }) => String(Math.round(durationMs))),
      tried(({ outcome }) => outcome),
      tried(({ status }) => (status === null ? null : String(status))),
      tried(({ cause }) => cause),
      tried(({ answer }) => storableAnswer(answer)),
      tried(storableExchange),
    ],
  })
  return rows.map(([id]) => id)
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

/** A completed delivery attempt. */
export interface Attempt {
  readonly startedAtMs: number
  readonly durationMs: number
  readonly outcome: 'delivered' | 'refused' | 'failed'
  readonly status: number | null
  /** Reason for a missing response, or for the failure of the event. */
  readonly cause: string | null
  /** Body of the response, truncated. */
  readonly answer: string | null
  /** Undefined if no call was made. */
  readonly exchange?: AttemptExchange | undefined
}

/** Request and response of an attempt. Omits signatures, credentials, and what the stored event or attempt already contains. */
export interface AttemptExchange extends CallTrace {
  readonly url: string
  readonly signatures: number
  readonly traceparent?: string | undefined
  /** Explanation of a missing response. */
  readonly problem?: string | undefined
  /** Headers of the response, at most 32 with 4 096 characters in total. */
  readonly headers: readonly HeaderLine[]
  readonly headersOmitted: number
  readonly isAnswerCut: boolean
}

/** Encodes an exchange as JSON, usually 300 to 600 bytes. Omits members with a default value. */
export function encodeExchange(exchange: AttemptExchange): string {
  const { url, signatures, traceparent, problem, headers, headersOmitted, isAnswerCut, address } = exchange
  return JSON.stringify({
    url,
    traceparent,
    problem,
    address,
    signatures: signatures === 1 ? undefined : signatures,
    isReused: exchange.isReused || undefined,
    dnsMs: rounded(exchange.dnsMs),
    connectMs: rounded(exchange.connectMs),
    tlsMs: rounded(exchange.tlsMs),
    firstByteMs: rounded(exchange.firstByteMs),
    headers: headers.length === 0 ? undefined : headers,
    headersOmitted: headersOmitted || undefined,
    isAnswerCut: isAnswerCut || undefined,
  })
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms)
}

const defaults = { signatures: 1, isReused: false, headers: [], headersOmitted: 0, isAnswerCut: false }

export function parseExchange(text: string | null): AttemptExchange | undefined {
  return text === null ? undefined : { ...defaults, ...(JSON.parse(text) as { url: string }) }
}

/** Replaces NUL, which Postgres cannot store in a text. */
export function storableAnswer(answer: string | null): string | null {
  return answer?.replaceAll('\u0000', '\ufffd') ?? null
}

export function storableExchange({ exchange }: Attempt): string | null {
  return exchange === undefined ? null : encodeExchange(exchange)
}
