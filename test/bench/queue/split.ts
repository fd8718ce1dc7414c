import { type Day, expiryDayOf } from '#internal/base/index.ts'
import { encodeExchange } from '#internal/events/complete.ts'
import type { AttemptExchange, ClaimedDelivery } from '#internal/events/index.ts'
import { type PoolClient, partitionName, textArrayParam } from '#internal/storage/index.ts'

// Claim and completion as short statements in one transaction: statements that do not need each other's results are pipelined, and
// TypeScript does the arithmetic. Only for comparison with `claimDue` and `complete`, which are one statement each.

/** Exchange of each attempt, with the headers of a usual callback behind a proxy. */
export const benchExchange: AttemptExchange = {
  url: 'https://shop.example.com/webhooks/latchkey',
  address: '203.0.113.17',
  signatures: 1,
  isReused: true,
  dnsMs: 0.0123,
  firstByteMs: 31.2345,
  headersOmitted: 0,
  isAnswerCut: false,
  headers: [
    ['date', 'Sat, 21 Nov 2026 08:40:01 GMT'],
    ['content-type', 'application/json; charset=utf-8'],
    ['content-length', '15'],
    ['connection', 'keep-alive'],
    ['server', 'nginx'],
    ['x-request-id', '7b1f3c0e-4c1a-4b0e-9a51-0c7f2f6a9e11'],
    ['strict-transport-security', 'max-age=31536000; includeSubDomains'],
  ],
}

/** A claim of the bench: all tenants, none notified. */
export interface BenchClaim {
  readonly leaseToken: string
  readonly leaseMs: number
  readonly rowsMax: number
  readonly queueRowsMax: number
}

interface PickedQueue {
  readonly tenantId: string
  readonly isHalfOpen: boolean
  readonly isLive: boolean
  readonly idleChecks: number
  share: number
  taken: number
}

const pickText = `
SELECT q.tenant_id, q.breaker_until > '-infinity', coalesce(t.is_live, false), q.idle_checks
FROM (SELECT tenant_id FROM tenant_queues WHERE next_due_at <= now() AND suspended_at IS NULL AND breaker_until <= now()
  ORDER BY last_served_at LIMIT 200) c
CROSS JOIN LATERAL (SELECT tenant_id, breaker_until, idle_checks FROM tenant_queues
  WHERE tenant_id = c.tenant_id AND suspended_at IS NULL AND breaker_until <= now() FOR UPDATE SKIP LOCKED) q
LEFT JOIN LATERAL (SELECT NOT suspended AND deleted_at IS NULL AS is_live FROM tenants WHERE id = q.tenant_id OFFSET 0) t ON true
LIMIT least(50, $1::integer)`

const rowsText = `
SELECT d.event_id, s.tenant_id, d.is_retry FROM unnest($1::text[], $2::text[]) AS s(tenant_id, share) CROSS JOIN LATERAL (
  SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
    WHERE tenant_id || '/' || destination = s.tenant_id || '/callback' AND is_retry AND due_at <= now() AND leased_until <= now()
    ORDER BY due_at LIMIT s.share::integer FOR UPDATE SKIP LOCKED) r
  UNION ALL
  SELECT * FROM (SELECT event_id, is_retry FROM deliveries_due
    WHERE tenant_id || '/' || destination = s.tenant_id || '/callback' AND NOT is_retry AND due_at <= now() AND leased_until <= now()
    ORDER BY due_at LIMIT s.share::integer FOR UPDATE SKIP LOCKED) f) d`

const leaseText = `
UPDATE deliveries_due SET lease = $2, leased_until = now() + $3::integer * interval '1 ms', claims = claims + 1
WHERE event_id = ANY($1::text[])
RETURNING event_id, tenant_id, to_char(payload_expires_on, 'YYYY-MM-DD'), payload_bytes, cycle, attempts, claims, is_retry`

const soonestText = `
SELECT i.tenant_id, (SELECT min(due_at) FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
  SELECT due_at FROM deliveries_due WHERE tenant_id || '/' || destination = i.tenant_id || '/callback' AND is_retry = kind.is_retry AND due_at > now()
  ORDER BY due_at LIMIT 1) d)::text
FROM unnest($1::text[]) AS i(tenant_id)`

const leaveText = `
UPDATE tenant_queues q SET last_served_at = clock_timestamp(), idle_checks = i.idle_checks::integer,
  breaker_until = CASE WHEN i.probes::boolean THEN now() + interval '30 s' ELSE q.breaker_until END,
  next_due_at = CASE WHEN i.has_more::boolean THEN now() ELSE least(i.soonest::timestamptz, now() + interval '5 s') END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS i(tenant_id, idle_checks, probes, has_more, soonest)
WHERE q.tenant_id = i.tenant_id`

/** Claims with short statements. */
export async function claimInSteps(client: PoolClient, request: BenchClaim): Promise<ClaimedDelivery[]> {
  const read = reader(client)
  const [, picked] = await Promise.all([
    client.query('BEGIN; SET LOCAL synchronous_commit = off'),
    read<[string, boolean, boolean, number]>('pick_queues', pickText, [request.rowsMax]),
  ])
  const queues = new Map<string, PickedQueue>()
  for (const [tenantId, isHalfOpen, isLive, idleChecks] of picked) {
    const equal = Math.min(request.queueRowsMax, Math.max(1, Math.floor(request.rowsMax / picked.length)))
    const share = isLive ? (isHalfOpen ? 1 : equal) : 0
    queues.set(tenantId, { tenantId, isHalfOpen, isLive, idleChecks, share, taken: 0 })
  }
  const all = [...queues.values()]
  const seen = await read<[string, string, boolean]>('pick_rows', rowsText, [
    textArrayParam(all.map(({ tenantId }) => tenantId)),
    textArrayParam(all.map(({ share }) => String(share))),
  ])
  const ids: string[] = []
  for (const [tenantId, rows] of Map.groupBy(seen, (row) => row[1])) {
    const queue = queues.get(tenantId)
    if (queue === undefined) continue
    const retries = rows.filter((row) => row[2])
    const fresh = rows.filter((row) => !row[2])
    const quota = Math.ceil(queue.share / 4)
    const kept = Math.min(retries.length, Math.max(quota, queue.share - fresh.length))
    const taken = [...retries.slice(0, kept), ...fresh.slice(0, queue.share - kept)]
    queue.taken = taken.length
    for (const [id] of taken) ids.push(id)
  }
  const short = all.filter(({ taken, share }) => taken < share)
  const [claimed, soonest] = await Promise.all([
    read<[never, never, Day, number, number, number, number, boolean]>('lease_rows', leaseText, [
      textArrayParam(ids),
      request.leaseToken,
      request.leaseMs,
    ]),
    short.length === 0
      ? []
      : read<[string, string | null]>('soonest', soonestText, [
          textArrayParam(short.map(({ tenantId }) => tenantId)),
        ]),
  ])
  const dueAt = new Map(soonest)
  await Promise.all([
    read('leave_queues', leaveText, [
      textArrayParam(all.map(({ tenantId }) => tenantId)),
      textArrayParam(all.map(({ taken, isLive }) => (taken === 0 && isLive ? '1' : '0'))),
      textArrayParam(all.map(({ taken, isHalfOpen }) => String(taken > 0 && isHalfOpen))),
      textArrayParam(all.map(({ taken, share }) => String(taken === share))),
      textArrayParam(all.map(({ tenantId }) => dueAt.get(tenantId) ?? null)),
    ]),
    client.query('COMMIT'),
  ])
  return claimed.map(
    ([eventId, tenantId, payloadExpiresOn, payloadBytes, cycle, attempts, claims, isRetry]) => {
      const isProbe = queues.get(tenantId)?.isHalfOpen === true
      return {
        eventId,
        destination: 'callback',
        tenantId,
        payloadExpiresOn,
        payloadBytes,
        cycle,
        attempts,
        claims,
        isRetry,
        isProbe,
      }
    },
  )
}

/** End of a delivery of the bench. */
export interface BenchEnding {
  readonly delivery: ClaimedDelivery
  readonly kind: 'processed' | 'later' | 'failed'
}

const oursText = `
SELECT i.id FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS i(id, cycle, claims, attempts) CROSS JOIN LATERAL (
  SELECT FROM deliveries_due WHERE event_id = i.id AND lease = $1 AND claims = i.claims::smallint
    AND attempts = i.attempts::smallint AND cycle = i.cycle::smallint FOR UPDATE) d`

const laterText = `
UPDATE deliveries_due d SET is_retry = true, due_at = $2::timestamptz, lease = NULL, leased_until = '-infinity', claims = 0,
  attempts = attempts + 1 WHERE event_id = ANY($1::text[])`

const attemptsText = (day: Day) => `
INSERT INTO ${partitionName({ table: 'attempts', day })}
  (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer, exchange)
SELECT id, 'callback', '${day}', cycle::smallint, attempt::smallint, started_at::timestamptz, duration_ms::integer, outcome, status::smallint,
  cause, answer, exchange
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[])
  AS i(id, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer, exchange)
ON CONFLICT DO NOTHING`

const closeText = (day: Day) => `
UPDATE ${partitionName({ table: 'events', day })}
SET state = CASE WHEN id = ANY($3::text[]) THEN 'delivery_failed' ELSE 'processed' END, completed_at = now()
WHERE ctid = ANY(ARRAY(SELECT e.place FROM unnest($1::text[], $2::text[]) AS i(id, tenant_id) CROSS JOIN LATERAL (
  SELECT ctid AS place, id, tenant_id FROM ${partitionName({ table: 'events', day })} WHERE id >= i.id ORDER BY id LIMIT 1) e
  WHERE e.id = i.id AND e.tenant_id = i.tenant_id))`

const columns = `id, tenant_id, expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
  payload_expires_on, cycle, completed_at, origin`

const failuresText = (day: Day) => `
INSERT INTO failed_deliveries (${columns}, destination) SELECT ${columns}, 'callback' FROM ${partitionName({ table: 'events', day })}
WHERE id = ANY($1::text[]) AND state = 'delivery_failed'
ON CONFLICT (tenant_id, id, destination) DO UPDATE SET cycle = excluded.cycle, completed_at = excluded.completed_at`

const wakeText = `
UPDATE tenant_queues SET next_due_at = least(next_due_at, $2::timestamptz), idle_checks = 0 WHERE tenant_id = ANY(ARRAY(
  SELECT tenant_id FROM tenant_queues WHERE tenant_id = ANY($1::text[]) AND (next_due_at > $2::timestamptz OR idle_checks > 0)
  ORDER BY tenant_id FOR UPDATE))`

/** Completes deliveries of one day with short statements. */
export async function completeInSteps(
  client: PoolClient,
  { leaseToken, dueAt, startedAt }: { leaseToken: string; dueAt: string; startedAt: string },
  endings: readonly BenchEnding[],
): Promise<number> {
  const read = reader(client)
  const [first] = endings
  if (first === undefined) return 0
  const day = expiryDayOf(first.delivery.eventId)
  const column = (of: readonly BenchEnding[], pick: (one: BenchEnding) => string | null) =>
    textArrayParam(of.map(pick))
  const id = ({ delivery }: BenchEnding) => delivery.eventId
  const [, rows] = await Promise.all([
    client.query('BEGIN'),
    read<[string]>('lock_ours', oursText, [
      leaseToken,
      column(endings, id),
      column(endings, ({ delivery }) => String(delivery.cycle)),
      column(endings, ({ delivery }) => String(delivery.claims)),
      column(endings, ({ delivery }) => String(delivery.attempts)),
    ]),
  ])
  const locked = new Set(rows.map(([one]) => one))
  const ours = endings.filter((one) => locked.has(id(one)))
  const ended = ours.filter(({ kind }) => kind !== 'later')
  const later = ours.filter(({ kind }) => kind === 'later')
  const failed = ours.filter(({ kind }) => kind === 'failed')
  const again = ended.filter(({ kind, delivery }) => kind === 'processed' && delivery.cycle > 1)
  await Promise.all([
    read('end_rows', 'DELETE FROM deliveries_due WHERE event_id = ANY($1::text[])', [column(ended, id)]),
    later.length > 0 && read('later_rows', laterText, [column(later, id), dueAt]),
    read(`attempts_${day}`, attemptsText(day), [
      column(ours, id),
      column(ours, ({ delivery }) => String(delivery.cycle)),
      column(ours, ({ delivery }) => String(delivery.attempts + 1)),
      column(ours, () => startedAt),
      column(ours, () => '12'),
      column(ours, ({ kind }) => (kind === 'processed' ? 'delivered' : 'refused')),
      column(ours, ({ kind }) => (kind === 'processed' ? '204' : '500')),
      column(ours, () => null),
      column(ours, () => ''),
      column(ours, () => encodeExchange(benchExchange)),
    ]),
    read(`close_${day}`, closeText(day), [
      column(ended, id),
      column(ended, ({ delivery }) => delivery.tenantId),
      column(failed, id),
    ]),
    failed.length > 0 && read(`failures_${day}`, failuresText(day), [column(failed, id)]),
    again.length > 0 &&
      read('forget_failures', 'DELETE FROM failed_deliveries WHERE id = ANY($1::text[])', [
        column(again, id),
      ]),
    later.length > 0 && read('wake', wakeText, [column(later, ({ delivery }) => delivery.tenantId), dueAt]),
    client.query('COMMIT'),
  ])
  return ours.length
}

function reader(client: PoolClient) {
  return async <Row extends unknown[]>(name: string, text: string, values: unknown[]): Promise<Row[]> =>
    (await client.query<Row>({ name: `split_${name}`, text, rowMode: 'array', values })).rows
}
