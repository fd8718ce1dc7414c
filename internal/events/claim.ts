import type { Day, EventId, TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ClaimedDelivery, Lease } from './delivery.ts'

/** Capacity of a process for deliveries. */
export interface ClaimRequest {
  readonly lease: Lease
  /** Tenants notified of new work, whatever their tenant queues say. Give no more than `wokenMaxOf`. */
  readonly woken: readonly string[]
  /** Claims for these tenants alone; default false. */
  readonly wokenAlone?: boolean
  /** Rows that a tenant may get, where fewer than `queueRowsMax` because it has deliveries in progress here; 0 for none. */
  readonly rooms: ReadonlyMap<string, number>
  readonly rowsMax: number
  readonly queueRowsMax: number
}

/** Claimed deliveries. `hasMore`: a tenant queue got its whole share, or there may be tenant queues that were not looked at. */
export interface ClaimResult {
  readonly claimed: readonly ClaimedDelivery[]
  readonly hasMore: boolean
}

/** Tenant queues of one claim. */
const queuesMax = 50
/** More than those, since other processes may hold the first ones just now. */
const candidatesMax = 200
/** While a probe is under way nobody sends another one; its end, or this time, opens or closes the breaker. */
const probeMs = 30_000
/** Longer than an insert may take, so that a look after it sees what a look before it could not. */
const lookAgainMs = 5_000
/** Tenant queues of tenants that are suspended or gone are looked at this seldom. */
const standStillMs = 10_000

// Locks the tenant queues that waited longest for their turn, woken ones and others by turns, and in each the rows due longest; both SKIP
// LOCKED, so that it waits for nobody, and any number of processes share the work. Every tenant queue that was looked at goes to the end of
// the line, whatever was found, so that those that may not be served cannot hold up those that may. Retries keep a quarter of each
// share, and either kind may use what the other leaves. A repeated claim takes other rows; what a lost one took comes back when its
// lease ends, which is why its commit need not wait for the disk. Rows under a lease keep their place in the index and are stepped
// over. A tenant queue is then looked at again at once where it may have more (it got its share, or a retry that was counted was another's
// by then), else when its soonest row is due (of a tenant queue that had some, its soonest retry: all else is due from its beginning),
// and after 5 s in any case, once more when a look found nothing: intake leaves alone only tenant queues that are due with idle_checks = 0,
// so that a row which was not visible yet is found by a later look. Days are literals, so that one partition each is planned and
// locked; an event is the first one from its id on, as for completions.
const claimText = `
WITH relaxed AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
), rooms AS MATERIALIZED (
  SELECT tenant_id, room::integer FROM unnest($2::text[], $3::text[]) AS r(tenant_id, room)
), candidates AS MATERIALIZED (
  SELECT tenant_id FROM (
    (SELECT l.tenant_id, l.last_served_at, true AS is_woken FROM (SELECT DISTINCT unnest($1::text[]) AS tenant_id) w
    CROSS JOIN LATERAL (
      SELECT tenant_id, last_served_at FROM tenant_queues
      WHERE tenant_id = w.tenant_id AND suspended_at IS NULL AND breaker_until <= now() OFFSET 0) l
    WHERE l.tenant_id <> ALL(ARRAY(SELECT tenant_id FROM rooms WHERE room = 0)))
    UNION ALL
    (SELECT tenant_id, last_served_at, false FROM tenant_queues
    WHERE next_due_at <= now() AND suspended_at IS NULL AND breaker_until <= now() AND tenant_id <> ALL($1::text[])
      AND tenant_id <> ALL(ARRAY(SELECT tenant_id FROM rooms WHERE room = 0))
    ORDER BY last_served_at LIMIT $8::integer)) due
  ORDER BY row_number() OVER (PARTITION BY is_woken ORDER BY last_served_at), last_served_at
), ready AS MATERIALIZED (
  SELECT l.tenant_id, l.breaker_until > '-infinity' AS is_half_open,
    coalesce(t.is_live, false) AS is_live
  FROM candidates c CROSS JOIN relaxed CROSS JOIN LATERAL (
    SELECT tenant_id, breaker_until FROM tenant_queues
    WHERE tenant_id = c.tenant_id AND suspended_at IS NULL AND breaker_until <= now() FOR UPDATE SKIP LOCKED) l
  LEFT JOIN LATERAL (
    SELECT NOT suspended AND deleted_at IS NULL AS is_live FROM tenants WHERE id = l.tenant_id OFFSET 0) t ON true
  LIMIT least(${queuesMax}, $4::integer)
), shares AS MATERIALIZED (
  SELECT tenant_id, is_half_open, is_live, CASE WHEN NOT is_live THEN 0 WHEN is_half_open THEN 1
    ELSE least(coalesce(room, $5::integer), greatest(1, $4::integer / count(*) OVER ())) END::integer AS share
  FROM ready LEFT JOIN rooms USING (tenant_id)
), picked AS MATERIALIZED (
  SELECT s.tenant_id, w.retries, d.event_id, d.is_retry FROM shares s
  CROSS JOIN LATERAL (SELECT count(*) AS retries, (s.share + 3) / 4 AS quota FROM (
    SELECT FROM deliveries_due
    WHERE tenant_id = s.tenant_id AND is_retry AND due_at <= now() AND leased_until <= now() LIMIT s.share) q) w
  CROSS JOIN LATERAL (SELECT CASE WHEN w.retries <= w.quota THEN w.retries ELSE greatest(w.quota, least(w.retries, s.share - (
    SELECT count(*) FROM (
      SELECT FROM deliveries_due
      WHERE tenant_id = s.tenant_id AND NOT is_retry AND due_at <= now() AND leased_until <= now() LIMIT s.share) q)))
    END AS retries) t
  CROSS JOIN LATERAL (
    SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
      WHERE tenant_id = s.tenant_id AND is_retry AND due_at <= now() AND leased_until <= now()
      ORDER BY due_at LIMIT t.retries FOR UPDATE SKIP LOCKED) r
    UNION ALL
    SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
      WHERE tenant_id = s.tenant_id AND NOT is_retry AND due_at <= now() AND leased_until <= now()
      ORDER BY due_at LIMIT s.share - t.retries FOR UPDATE SKIP LOCKED) f) d
), claimed AS (
  UPDATE deliveries_due SET lease = $6, leased_until = now() + $7::integer * interval '1 ms', claims = claims + 1
  WHERE event_id = ANY(ARRAY(SELECT event_id FROM picked))
  RETURNING event_id, tenant_id, payload_expires_on, payload_bytes, cycle, attempts, claims, is_retry
), taken AS MATERIALIZED (
  SELECT tenant_id, count(*) AS taken, max(retries) > count(*) FILTER (WHERE is_retry) AS has_missed FROM picked GROUP BY tenant_id
), looked AS MATERIALIZED (
  SELECT s.*, n.taken, CASE
    WHEN n.taken = s.share OR n.has_missed THEN now()
    WHEN n.taken > 0 THEN (
      SELECT due_at FROM deliveries_due WHERE tenant_id = s.tenant_id AND is_retry AND due_at > now() ORDER BY due_at LIMIT 1)
    ELSE coalesce((
      SELECT due_at FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
        SELECT due_at FROM deliveries_due WHERE tenant_id = s.tenant_id AND is_retry = kind.is_retry
          AND due_at <= now() AND leased_until <= now() ORDER BY due_at LIMIT 1) held LIMIT 1
    ), (
      SELECT min(at) FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
        (SELECT due_at AS at FROM deliveries_due
        WHERE tenant_id = s.tenant_id AND is_retry = kind.is_retry AND due_at > now() ORDER BY due_at LIMIT 1)
        UNION ALL
        (SELECT min(leased_until) FROM deliveries_due
        WHERE tenant_id = s.tenant_id AND is_retry = kind.is_retry AND due_at <= now())) ends)) END AS soonest
  FROM shares s CROSS JOIN LATERAL (
    SELECT coalesce(max(taken), 0) AS taken, bool_or(has_missed) AS has_missed FROM taken WHERE tenant_id = s.tenant_id OFFSET 0) n
), left_behind AS (
  UPDATE tenant_queues l SET
    last_served_at = clock_timestamp(),
    breaker_until = CASE WHEN k.taken > 0 AND k.is_half_open THEN now() + interval '${probeMs} ms' ELSE l.breaker_until END,
    idle_checks = CASE WHEN k.taken = 0 AND k.is_live THEN 1 ELSE 0 END,
    next_due_at = CASE
      WHEN NOT k.is_live THEN now() + interval '${standStillMs} ms'
      WHEN k.taken > 0 OR l.idle_checks = 0
        THEN least(k.soonest, now() + interval '${lookAgainMs} ms', now() + $7::integer * interval '1 ms')
      ELSE coalesce(k.soonest, 'infinity') END
  FROM looked k WHERE l.tenant_id = k.tenant_id
)
SELECT n.queues, n.has_full_share, c.event_id, c.tenant_id, to_char(c.payload_expires_on, 'YYYY-MM-DD'), c.payload_bytes, c.cycle,
  c.attempts, c.claims, c.is_retry, c.tenant_id = ANY(ARRAY(SELECT tenant_id FROM shares WHERE is_half_open))
FROM (SELECT count(*)::integer AS queues,
  coalesce(bool_or(taken > 0 AND taken = share AND NOT is_half_open), false) AS has_full_share FROM looked) n
LEFT JOIN claimed c ON true`

/** What was looked at comes with each row; a row of nothing else stands for a claim that took nothing. */
type ClaimRow = [...LookedAt, ...TakenRow] | [...LookedAt, eventId: null, ...null[]]

type LookedAt = [queues: number, hasFullShare: boolean]

type TakenRow = [
  eventId: EventId,
  tenantId: TenantId,
  payloadExpiresOn: Day,
  payloadBytes: number,
  cycle: number,
  attempts: number,
  claims: number,
  isRetry: boolean,
  isProbe: boolean,
]

/** How many woken tenants a claim of so many rows has turns for: half of its tenant queues, since the others have waited as well. */
export function wokenMaxOf(rowsMax: number): number {
  return Math.max(1, Math.floor(Math.min(queuesMax, rowsMax) / 2))
}

/**
 * Takes due deliveries for this process, fairly among tenants and at most `rowsMax`, in one round trip. Give it a pool made with
 * `queueSessionSettings`. @throws whatever Postgres throws; what was taken then comes back with the lease's end
 */
export async function claimDue(pool: Pool, request: ClaimRequest): Promise<ClaimResult> {
  const { lease, rooms } = request
  const { rows } = await pool.query<ClaimRow>({
    name: 'claim_due',
    text: claimText,
    rowMode: 'array',
    values: [
      textArrayParam(request.woken),
      textArrayParam([...rooms.keys()]),
      textArrayParam(Array.from(rooms.values(), String)),
      request.rowsMax,
      request.queueRowsMax,
      lease.token,
      lease.lengthMs,
      request.wokenAlone ? 0 : candidatesMax,
    ],
  })
  const [queues = 0, hasFullShare = false] = rows[0] ?? []
  return {
    claimed: rows.flatMap((row) => (row[2] === null ? [] : [claimedOf(row)])),
    hasMore: hasFullShare || queues >= Math.min(queuesMax, request.rowsMax),
  }
}

/**
 * The session settings that statements of the queue are planned with: prepared once, by indexes alone. A table that is empty at
 * rest looks cheap to scan, and a plan made then would meet a backlog.
 */
export const queueSessionSettings = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
} as const

function claimedOf(row: [...LookedAt, ...TakenRow]): ClaimedDelivery {
  const [, , eventId, tenantId, payloadExpiresOn, payloadBytes, cycle, attempts, claims, isRetry, isProbe] =
    row
  return { eventId, tenantId, payloadExpiresOn, payloadBytes, cycle, attempts, claims, isRetry, isProbe }
}
