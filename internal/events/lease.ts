import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ClaimedDelivery, Lease } from './claim.ts'
import { type DeliveryId, deliveryIdText, isAmongText } from './model.ts'
import { wakeTenantQueuesText } from './tenant-queue.ts'

/** Maximum duration of a forwarder's lease. */
export const leaseMsMax = 30_000

// SKIP LOCKED skips rows that another statement is completing or claiming in a different lock order; the next renewal finds them. Does not
// change tenant queues: at worst they are checked too early.
const renewText = `
WITH ours AS MATERIALIZED (
  SELECT d.event_id, d.destination FROM unnest($3::text[], $4::text[], $5::text[]) AS i(id, destination, claims) CROSS JOIN LATERAL (
    SELECT event_id, destination FROM deliveries_due
    WHERE event_id = i.id AND destination = i.destination AND lease = $1 AND claims = i.claims::smallint
    FOR UPDATE SKIP LOCKED) d
)
UPDATE deliveries_due SET leased_until = now() + $2::integer * interval '1 ms'
WHERE ${isAmongText('ours')} RETURNING ${deliveryIdText('event_id')}`

/** Returns the ids of the deliveries that this process still owns, without those whose rows are locked now. Safe to repeat. */
export async function renewLeases(
  pool: Pool,
  lease: Lease,
  deliveries: readonly ClaimedDelivery[],
): Promise<ReadonlySet<DeliveryId>> {
  const { rows } = await pool.query<[DeliveryId]>({
    name: 'renew_leases',
    text: renewText,
    rowMode: 'array',
    values: [lease.token, lease.lengthMs, ...keysAndClaims(deliveries)],
  })
  return new Set(rows.map(([id]) => id))
}

// Finds the same rows as `renewText` and undoes their claims.
const releaseText = `
WITH ours AS MATERIALIZED (
  SELECT d.event_id, d.destination FROM unnest($2::text[], $3::text[], $4::text[]) AS i(id, destination, claims) CROSS JOIN LATERAL (
    SELECT event_id, destination FROM deliveries_due
    WHERE event_id = i.id AND destination = i.destination AND lease = $1 AND claims = i.claims::smallint FOR UPDATE) d
), released AS (
  UPDATE deliveries_due SET lease = NULL, leased_until = '-infinity', claims = claims - 1
  WHERE ${isAmongText('ours')} RETURNING event_id, destination, tenant_id
), wake_queues AS (
  ${wakeTenantQueuesText('released')}
)
SELECT ${deliveryIdText('event_id')} FROM released`

/** Releases deliveries without an attempt, so that other processes can claim them immediately. Returns their ids. Safe to repeat. */
export async function releaseLeases(
  pool: Pool,
  leaseToken: string,
  deliveries: readonly ClaimedDelivery[],
): Promise<ReadonlySet<DeliveryId>> {
  const { rows } = await pool.query<[DeliveryId]>({
    name: 'release_leases',
    text: releaseText,
    rowMode: 'array',
    values: [leaseToken, ...keysAndClaims(deliveries)],
  })
  return new Set(rows.map(([id]) => id))
}

function keysAndClaims(deliveries: readonly ClaimedDelivery[]): Buffer[] {
  return [
    textArrayParam(deliveries.map(({ eventId }) => eventId)),
    textArrayParam(deliveries.map(({ destination }) => destination)),
    textArrayParam(deliveries.map(({ claims }) => String(claims))),
  ]
}
