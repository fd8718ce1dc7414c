import { type Day, type EventId, expiryDayOf, receivedAtMsOf, type TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import {
  type DestinationKey,
  isAmongText,
  isInQueueText,
  type OwnProvider,
  type QueueId,
  queueIdText,
  type ReceivedEvent,
} from './model.ts'

/** Delivery that this process has claimed. */
export interface ClaimedDelivery extends DestinationKey {
  readonly eventId: EventId
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
  readonly cycle: number
  /** Completed attempts of this delivery cycle. */
  readonly attempts: number
  /** Claims since the last completed attempt. A completion compares this number and the lease with the row, to detect a lost claim. */
  readonly claims: number
  /** True after the first attempt of a delivery cycle, and for snoozed and replayed deliveries. */
  readonly isRetry: boolean
  /** True if this delivery probes a callback whose circuit breaker is half-open. */
  readonly isProbe: boolean
}

/** Fields of a stored event that its callback receives. */
export type EventContent = Pick<
  ReceivedEvent,
  | 'id'
  | 'tenantId'
  | 'provider'
  | 'rawType'
  | 'type'
  | 'occurredAtMs'
  | 'receivedAtMs'
  | 'headers'
  | 'payload'
>

/** Owner token of a process for the rows that it claims, and the duration of its leases. */
export interface Lease {
  readonly token: string
  readonly lengthMs: number
}

/** Number of deliveries that a process can accept, and its lease. */
export interface ClaimRequest {
  readonly lease: Lease
  /** Tenant queues notified of new work. They are checked even if they are not due. Pass at most `notifiedMaxOf` ids. */
  readonly notified: readonly QueueId[]
  /** Claims deliveries of the notified tenant queues only. Default: false. */
  readonly notifiedAlone?: boolean
  /** Maximum rows of each queue of which fewer than `queueRowsMax` can be taken, since deliveries are in progress. 0 excludes the queue. */
  readonly rooms: ReadonlyMap<QueueId, number>
  readonly rowsMax: number
  readonly queueRowsMax: number
  /** Leases that expired within this time are left to their owners, which can still renew them. Default: 0. */
  readonly graceMs?: number
  /** Time by the clock of Postgres at which the claim was sent. Leases that expire later are left to their owners. Default: now. */
  readonly sentAtMs?: number | undefined
}

/** `hasMore`: more rows may be due, since the claim took a queue's maximum of rows or reached its own maximum of tenant queues. */
export interface ClaimResult {
  readonly claimed: readonly ClaimedDelivery[]
  readonly hasMore: boolean
  /** Time of Postgres at the end of the claim; undefined if Postgres returned no row. */
  readonly ranAtMs: number | undefined
}

const queuesMax = 50
/** Maximum tenant queues that a claim tries to lock: more than `queuesMax`, since other processes can have locked the first ones. */
const candidatesMax = 200
/** Time for which a probe blocks further probes, unless it completes earlier. */
const probeMs = 30_000
/** Delay of the second check of an empty queue. Longer than an insert, so that this check finds rows that were uncommitted at the first. */
const checkAgainMs = 5_000
/** Interval between checks of tenant queues whose tenant is suspended, deleted or without a callback. */
const standStillMs = 10_000

/**
 * SQL condition: the lease expired before the claim was sent ($10), by at least its grace ($9). A Postgres that stalls can run a statement
 * long after the client gave up; meanwhile, owners could not renew their leases.
 */
const expired = "leased_until <= least(now(), $10::timestamptz) - $9::integer * interval '1 ms'"

// Hot: `npm run bench -- webhooks`. A single statement: five short statements, pipelined in one transaction, took 29 to 35 % more processor
// time per event (`npm run bench -- queue`, 20 and 200 rows, 2026-11). They would also keep their locks on tenant queues for as long as the
// event loop of a busy forwarder takes, and intake can wait for these locks.
//   candidates  selects the tenant queues with the longest wait, alternating between notified queues and others
//   ready       locks the candidates; SKIP LOCKED, so that any number of processes share the work without waiting
//   shares      sets the maximum rows per queue: an equal share, 1 for a half-open breaker, 0 for a suspended or deleted tenant
//               and without callback
//   picked      selects the rows that have been due the longest. Retries get a quarter of each share; an unused part goes to the others
//   claimed     puts the rows under the lease. They keep their place in the index, and later claims step over them
//   checked     sets the time of a queue's next check: immediately if the queue can have more due rows (it filled its share, or another
//               process claimed one of its due retries), else when its earliest row is due or its lease and the grace end, but during a
//               grace within 5 s, since it can end early
//   left_behind moves every checked queue to the end of the order, whatever the result, so that queues that cannot be served do not
//               block others. Each queue is checked again after at most 5 s, and once more after a check that found nothing: this second
//               check finds rows that were not committed before, since intake does not wake queues that are due with idle_checks = 0
// A claim whose reply is lost is repeated after its lease expires, so the commit does not wait for the disk.
const claimText = `
WITH relaxed AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
), rooms AS MATERIALIZED (
  SELECT queue_id, room::integer FROM unnest($2::text[], $3::text[]) AS r(queue_id, room)
), candidates AS MATERIALIZED (
  SELECT tenant_id, destination FROM (
    (SELECT l.tenant_id, l.destination, l.last_served_at, true AS is_notified FROM (SELECT DISTINCT unnest($1::text[]) AS queue_id) w
    CROSS JOIN LATERAL (
      SELECT tenant_id, destination, last_served_at FROM tenant_queues
      WHERE tenant_id = split_part(w.queue_id, '/', 1) AND destination = split_part(w.queue_id, '/', 2)
        AND suspended_at IS NULL AND breaker_until <= now() OFFSET 0) l
    WHERE w.queue_id <> ALL(ARRAY(SELECT queue_id FROM rooms WHERE room = 0)))
    UNION ALL
    (SELECT tenant_id, destination, last_served_at, false FROM tenant_queues
    WHERE next_due_at <= now() AND suspended_at IS NULL AND breaker_until <= now() AND ${queueIdText()} <> ALL($1::text[])
      AND ${queueIdText()} <> ALL(ARRAY(SELECT queue_id FROM rooms WHERE room = 0))
    ORDER BY last_served_at LIMIT $8::integer)) due
  ORDER BY row_number() OVER (PARTITION BY is_notified ORDER BY last_served_at), last_served_at
), ready AS MATERIALIZED (
  SELECT l.tenant_id, l.destination, l.breaker_until > '-infinity' AS is_half_open,
    coalesce(t.is_live, false) AS is_live
  FROM candidates c CROSS JOIN relaxed CROSS JOIN LATERAL (
    SELECT tenant_id, destination, breaker_until FROM tenant_queues
    WHERE tenant_id = c.tenant_id AND destination = c.destination AND suspended_at IS NULL AND breaker_until <= now()
    FOR UPDATE SKIP LOCKED) l
  LEFT JOIN LATERAL (
    SELECT NOT suspended AND l.destination = ANY(destinations) AND deleted_at IS NULL AS is_live
    FROM tenants WHERE id = l.tenant_id OFFSET 0) t ON true
  LIMIT least(${queuesMax}, $4::integer)
), shares AS MATERIALIZED (
  SELECT tenant_id, destination, is_half_open, is_live, CASE WHEN NOT is_live THEN 0 WHEN is_half_open THEN 1
    ELSE least(coalesce(room, $5::integer), greatest(1, $4::integer / count(*) OVER ())) END::integer AS share
  FROM ready LEFT JOIN rooms ON queue_id = ${queueIdText()}
), picked AS MATERIALIZED (
  SELECT s.tenant_id, s.destination, w.retries, d.event_id, d.is_retry FROM shares s
  CROSS JOIN LATERAL (SELECT count(*) AS retries, (s.share + 3) / 4 AS quota FROM (
    SELECT FROM deliveries_due
    WHERE ${isInQueueText('s.')} AND is_retry AND due_at <= now() AND ${expired} LIMIT s.share) q) w
  CROSS JOIN LATERAL (SELECT CASE WHEN w.retries <= w.quota THEN w.retries ELSE greatest(w.quota, least(w.retries, s.share - (
    SELECT count(*) FROM (
      SELECT FROM deliveries_due
      WHERE ${isInQueueText('s.')} AND NOT is_retry AND due_at <= now() AND ${expired} LIMIT s.share) q)))
    END AS retries) t
  CROSS JOIN LATERAL (
    SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
      WHERE ${isInQueueText('s.')} AND is_retry AND due_at <= now() AND ${expired}
      ORDER BY due_at LIMIT t.retries FOR UPDATE SKIP LOCKED) r
    UNION ALL
    SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
      WHERE ${isInQueueText('s.')} AND NOT is_retry AND due_at <= now() AND ${expired}
      ORDER BY due_at LIMIT s.share - t.retries FOR UPDATE SKIP LOCKED) f) d
), claimed AS (
  UPDATE deliveries_due SET lease = $6, leased_until = now() + $7::integer * interval '1 ms', claims = claims + 1
  WHERE ${isAmongText('picked')}
  RETURNING event_id, destination, tenant_id, payload_expires_on, payload_bytes, cycle, attempts, claims, is_retry
), taken AS MATERIALIZED (
  SELECT tenant_id, destination, count(*) AS taken, max(retries) > count(*) FILTER (WHERE is_retry) AS has_missed FROM picked
  GROUP BY tenant_id, destination
), checked AS MATERIALIZED (
  SELECT s.*, n.taken, CASE
    WHEN n.taken = s.share OR n.has_missed THEN now()
    WHEN n.taken > 0 THEN (
      SELECT due_at FROM deliveries_due WHERE ${isInQueueText('s.')} AND is_retry AND due_at > now() ORDER BY due_at LIMIT 1)
    ELSE coalesce((
      SELECT due_at FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
        SELECT due_at FROM deliveries_due WHERE ${isInQueueText('s.')} AND is_retry = kind.is_retry
          AND due_at <= now() AND ${expired} ORDER BY due_at LIMIT 1) held LIMIT 1
    ), (
      SELECT min(at) FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
        (SELECT due_at AS at FROM deliveries_due
        WHERE ${isInQueueText('s.')} AND is_retry = kind.is_retry AND due_at > now() ORDER BY due_at LIMIT 1)
        UNION ALL
        (SELECT min(greatest(leased_until, least(leased_until + $9::integer * interval '1 ms', now() + interval '${checkAgainMs} ms')))
        FROM deliveries_due
        WHERE ${isInQueueText('s.')} AND is_retry = kind.is_retry AND due_at <= now())) ends)) END AS soonest
  FROM shares s CROSS JOIN LATERAL (
    SELECT coalesce(max(taken), 0) AS taken, bool_or(has_missed) AS has_missed FROM taken
    WHERE tenant_id = s.tenant_id AND destination = s.destination OFFSET 0) n
), left_behind AS (
  UPDATE tenant_queues l SET
    last_served_at = clock_timestamp(),
    breaker_until = CASE WHEN k.taken > 0 AND k.is_half_open THEN now() + interval '${probeMs} ms' ELSE l.breaker_until END,
    idle_checks = CASE WHEN k.taken = 0 AND k.is_live THEN 1 ELSE 0 END,
    next_due_at = CASE
      WHEN NOT k.is_live THEN now() + interval '${standStillMs} ms'
      WHEN k.taken > 0 OR l.idle_checks = 0
        THEN least(k.soonest, now() + interval '${checkAgainMs} ms', now() + $7::integer * interval '1 ms')
      ELSE coalesce(k.soonest, 'infinity') END
  FROM checked k WHERE l.tenant_id = k.tenant_id AND l.destination = k.destination
)
SELECT n.queues, n.has_full_share, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, c.event_id, c.tenant_id, c.destination,
  to_char(c.payload_expires_on, 'YYYY-MM-DD'), c.payload_bytes, c.cycle, c.attempts, c.claims, c.is_retry, 
  ${queueIdText('c.')} = ANY(ARRAY(SELECT ${queueIdText()} FROM shares WHERE is_half_open))
FROM (SELECT count(*)::integer AS queues,
  coalesce(bool_or(taken > 0 AND taken = share AND NOT is_half_open), false) AS has_full_share FROM checked) n
LEFT JOIN claimed c ON true`

/** Each row repeats the columns of `Checked`. If a claim takes no delivery, it returns a single row without an event. */
type ClaimRow = [...Checked, ...TakenRow] | [...Checked, eventId: null, ...null[]]

type Checked = [queues: number, hasFullShare: boolean, ranAtMs: number]

type TakenRow = [
  eventId: EventId,
  tenantId: TenantId,
  destination: string,
  payloadExpiresOn: Day,
  payloadBytes: number,
  cycle: number,
  attempts: number,
  claims: number,
  isRetry: boolean,
  isProbe: boolean,
]

/** Maximum number of notified tenants per claim: half of its tenant queues. The other half serves tenants that were not notified. */
export function notifiedMaxOf(rowsMax: number): number {
  return Math.max(1, Math.floor(Math.min(queuesMax, rowsMax) / 2))
}

/**
 * Claims due deliveries for this process, fairly among tenants and at most `rowsMax`. Requires a pool with `queueSessionSettings`. Call
 * `loadEvents` for the content of the events.
 * @throws errors of Postgres; rows that were claimed nevertheless are due again when their lease expires
 */
export async function claimDue(pool: Pool, request: ClaimRequest): Promise<ClaimResult> {
  const { lease, rooms } = request
  const { rows } = await pool.query<ClaimRow>({
    name: 'claim_due',
    text: claimText,
    rowMode: 'array',
    values: [
      textArrayParam(request.notified),
      textArrayParam([...rooms.keys()]),
      textArrayParam(Array.from(rooms.values(), String)),
      request.rowsMax,
      request.queueRowsMax,
      lease.token,
      lease.lengthMs,
      request.notifiedAlone ? 0 : candidatesMax,
      Math.ceil(request.graceMs ?? 0),
      request.sentAtMs === undefined ? null : new Date(request.sentAtMs).toISOString(),
    ],
  })
  const [queues = 0, hasFullShare = false, ranAtMs] = rows[0] ?? []
  return {
    claimed: rows.flatMap((row) => (row[3] === null ? [] : [claimedOf(row)])),
    hasMore: hasFullShare || queues >= Math.min(queuesMax, request.rowsMax),
    ranAtMs,
  }
}

/**
 * Session settings for statements on the queue: prepared once, with index scans only. Without them Postgres could plan a sequential scan
 * while the table is empty and keep that plan when the table is full.
 */
export const queueSessionSettings = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
} as const

function claimedOf(row: [...Checked, ...TakenRow]): ClaimedDelivery {
  const [
    ,
    ,
    ,
    eventId,
    tenantId,
    destination,
    payloadExpiresOn,
    payloadBytes,
    cycle,
    attempts,
    claims,
    isRetry,
    isProbe,
  ] = row
  return {
    eventId,
    tenantId,
    destination,
    payloadExpiresOn,
    payloadBytes,
    cycle,
    attempts,
    claims,
    isRetry,
    isProbe,
  }
}

/** A stored event. Its payload can expire earlier than the event. */
export type LoadedEvent =
  | { readonly kind: 'whole'; readonly content: EventContent }
  | { readonly kind: 'payload_expired'; readonly content: Omit<EventContent, 'payload'> }

// Reads one event with its payload, without row locks. Days are literals, so that Postgres opens only one partition of each table. A
// condition of the form `id >= … LIMIT 1` can only use the primary key. Hot: `npm run bench -- webhooks`.
const loadText = (day: Day, payloadDay: Day) => `
SELECT e.id, e.tenant_id, e.provider, e.raw_type, e.type, floor(extract(epoch FROM e.occurred_at) * 1000)::bigint, e.headers, p.payload
FROM unnest($1::text[], $2::text[]) AS i(id, tenant_id)
CROSS JOIN LATERAL (SELECT * FROM events WHERE expires_on = '${day}' AND id >= i.id ORDER BY id LIMIT 1) e
LEFT JOIN LATERAL (
  SELECT payload FROM event_payloads WHERE expires_on = '${payloadDay}' AND event_id = i.id OFFSET 0) p ON true
WHERE e.id = i.id AND e.tenant_id = i.tenant_id`

type LoadRow = [
  id: EventId,
  tenantId: TenantId,
  provider: ProviderName | OwnProvider,
  rawType: string,
  type: string,
  occurredAtMs: number,
  headers: string,
  payload: string | null,
]

/**
 * Reads events with their payloads. Omits events that retention deleted or that belong to another tenant than the given one. Requires a
 * pool with `queueSessionSettings`.
 * @throws errors of Postgres
 */
export async function loadEvents(
  pool: Pool,
  deliveries: readonly Pick<ClaimedDelivery, 'eventId' | 'tenantId' | 'payloadExpiresOn'>[],
): Promise<ReadonlyMap<EventId, LoadedEvent>> {
  const loaded = new Map<EventId, LoadedEvent>()
  const groups = Map.groupBy(deliveries, ({ eventId, payloadExpiresOn }) =>
    [expiryDayOf(eventId), payloadExpiresOn].join('_'),
  )
  for (const [days, group] of groups) {
    const [first] = group
    if (first === undefined) continue
    const { rows } = await pool.query<LoadRow>({
      // The forwarder's pool replaces connections every hour, which also discards the plans of past days.
      name: `load_events_${days}`,
      text: loadText(checkedDay(expiryDayOf(first.eventId)), checkedDay(first.payloadExpiresOn)),
      rowMode: 'array',
      values: [
        textArrayParam(group.map(({ eventId }) => eventId)),
        textArrayParam(group.map(({ tenantId }) => tenantId)),
      ],
    })
    for (const row of rows) loaded.set(row[0], loadedOf(row))
  }
  return loaded
}

function loadedOf([
  id,
  tenantId,
  provider,
  rawType,
  type,
  occurredAtMs,
  headers,
  payload,
]: LoadRow): LoadedEvent {
  const receivedAtMs = receivedAtMsOf(id)
  const content = { id, tenantId, provider, rawType, type, occurredAtMs, receivedAtMs, headers }
  return payload === null
    ? { kind: 'payload_expired', content }
    : { kind: 'whole', content: { ...content, payload } }
}

/** Returns the day, so that a statement's text can safely contain it. @throws RangeError for a day in another form than `YYYY-MM-DD` */
export function checkedDay(day: Day): Day {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('a day must have the form YYYY-MM-DD')
  return day
}
