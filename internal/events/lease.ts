import type { EventId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ClaimedDelivery, Lease } from './claim.ts'
import { wakeTenantQueuesText } from './tenant-queue.ts'

/** Maximum duration of a forwarder's lease. */
export const leaseMsMax = 30_000

// Finds rows of this process by event id, lease and number of claims. SKIP LOCKED skips rows that another statement is completing or
// claiming in a different lock order; the next renewal finds these rows. Does not change tenant queues: at worst they are checked too
// early.
const renewText = `
WITH ours AS MATERIALIZED (
  SELECT d.event_id FROM unnest($3::text[], $4::text[]) AS i(id, claims) CROSS JOIN LATERAL (
    SELECT event_id FROM deliveries_due WHERE event_id = i.id AND lease = $1 AND claims = i.claims::smallint
    FOR UPDATE SKIP LOCKED) d
)
UPDATE deliveries_due SET leased_until = now() + $2::integer * interval '1 ms'
WHERE event_id = ANY(ARRAY(SELECT event_id FROM ours)) RETURNING event_id`

/**
 * Renews the leases of deliveries. Returns the ids of the deliveries that this process still owns, without those whose rows are locked at
 * this moment. Safe to repeat.
 */
export async function renewLeases(
  pool: Pool,
  lease: Lease,
  deliveries: readonly ClaimedDelivery[],
): Promise<ReadonlySet<EventId>> {
  const { rows } = await pool.query<[EventId]>({
    name: 'renew_leases',
    text: renewText,
    rowMode: 'array',
    values: [lease.token, lease.lengthMs, ...idsAndClaims(deliveries)],
  })
  return new Set(rows.map(([id]) => id))
}

// Finds the same rows as `renewText` and undoes their claims.
const releaseText = `
WITH ours AS MATERIALIZED (
  SELECT d.event_id FROM unnest($2::text[], $3::text[]) AS i(id, claims) CROSS JOIN LATERAL (
    SELECT event_id FROM deliveries_due WHERE event_id = i.id AND lease = $1 AND claims = i.claims::smallint FOR UPDATE) d
), released AS (
  UPDATE deliveries_due SET lease = NULL, leased_until = '-infinity', claims = claims - 1
  WHERE event_id = ANY(ARRAY(SELECT event_id FROM ours)) RETURNING event_id, tenant_id
), woken_queues AS (
  ${wakeTenantQueuesText('IN (SELECT tenant_id FROM released)')}
)
SELECT event_id FROM released`

/** Releases deliveries without an attempt, so that other processes can claim them immediately. Returns their ids. Safe to repeat. */
export async function releaseLeases(
  pool: Pool,
  leaseToken: string,
  deliveries: readonly ClaimedDelivery[],
): Promise<ReadonlySet<EventId>> {
  const { rows } = await pool.query<[EventId]>({
    name: 'release_leases',
    text: releaseText,
    rowMode: 'array',
    values: [leaseToken, ...idsAndClaims(deliveries)],
  })
  return new Set(rows.map(([id]) => id))
}

function idsAndClaims(deliveries: readonly ClaimedDelivery[]): [Buffer, Buffer] {
  return [
    textArrayParam(deliveries.map(({ eventId }) => eventId)),
    textArrayParam(deliveries.map(({ claims }) => String(claims))),
  ]
}
