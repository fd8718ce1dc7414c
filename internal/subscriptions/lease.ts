import {
  type FeedFilter,
  type FeedPosition,
  hasCallbackText,
  processAcknowledged,
} from '#internal/events/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import { parseStreamId } from './stream-id.ts'
import type { SubscriptionPlace } from './subscription.ts'

/** Maximum duration of a lease, and of the delay after a `nack`, in seconds. */
export const leaseSecondsMax = 3_600

/** Token of a lease, with its subscription. */
export interface LeaseToken extends SubscriptionPlace {
  readonly ackToken: string
}

/** `lost`: another pull or stream has leased the events, or the subscription was moved or changed. `repeated`: already acknowledged. */
export type LeaseResult = 'done' | 'repeated' | 'lost' | 'unknown'

/** Maximum steps of an acknowledgement, each of at most 1 000 events. */
const stepsMax = 500

/**
 * Acknowledges the events of a pull by its token, or those of a stream up to an id in it. Events that wait for a pull become `processed`.
 * Also possible after the lease has ended, until another pull or stream leases the events. `unfinished`: only the first 500 000 events are
 * acknowledged; a repeat continues. Requires a pool with `eventReadSettings`.
 * @throws errors of Postgres; then only the events up to the position of the subscription are acknowledged
 */
export async function acknowledgeEvents(
  pool: Pool,
  token: LeaseToken,
  nowMs: number,
): Promise<LeaseResult | 'unfinished'> {
  if (await acknowledgeAtOnce(pool, token)) return 'done'
  for (let step = 0; step < stepsMax; step += 1) {
    const result = await withTx(pool, (tx) => acknowledgeStep(tx, token, nowMs))
    if (result !== 'unfinished') return result
  }
  return 'unfinished'
}

/** Acknowledges with one statement if no event can wait for a pull, as for most tenants. Otherwise changes nothing and returns false. */
async function acknowledgeAtOnce(pool: Pool, { tenantId, name, ackToken }: LeaseToken): Promise<boolean> {
  const { rowCount } = await pool.query({
    name: 'acknowledge_at_once',
    text: `UPDATE subscriptions SET position_transaction = leased_transaction, position_event = leased_event, acknowledged = lease,
        acknowledged_at = now(), lease = NULL, held_until = '-infinity', version = version + 1
      WHERE tenant_id = $1 AND name = $2 AND lease = $3 AND leased_event IS NOT NULL AND (idle_days IS NOT NULL
        OR EXISTS (SELECT FROM tenants WHERE id = $1 AND ${hasCallbackText()}) AND NOT EXISTS (SELECT FROM pulls_due WHERE tenant_id = $1))`,
    values: [tenantId, name, ackToken],
  })
  return rowCount === 1
}

/** Acknowledges the next events of a token, and moves the position as far as the transaction has processed events. */
async function acknowledgeStep(
  tx: PoolClient,
  token: LeaseToken,
  nowMs: number,
): Promise<LeaseResult | 'unfinished'> {
  const { tenantId, name } = token
  const found = await readAcknowledged(tx, token)
  if (found.kind !== 'leased') return found.kind
  const { after, upTo, filter, hasCallback, mayWait, isStream } = found
  const reached = mayWait
    ? await processAcknowledged(tx, { tenantId, filter, after, upTo, hasCallback }, nowMs)
    : upTo
  const isDone = reached.transaction === upTo.transaction && reached.eventId === upTo.eventId
  await tx.query({
    name: 'acknowledge_events',
    // A complete acknowledgement ends the lease of a pull. A stream keeps its lease until the stream ends.
    text: `UPDATE subscriptions SET position_transaction = $3::xid8, position_event = $4, acknowledged_at = now(), version = version + 1,
        acknowledged = CASE WHEN $5 THEN lease ELSE acknowledged END, lease = CASE WHEN $5 THEN NULL ELSE lease END,
        held_until = CASE WHEN $5 THEN '-infinity' ELSE held_until END
      WHERE tenant_id = $1 AND name = $2`,
    values: [tenantId, name, reached.transaction, reached.eventId, isDone && !isStream],
  })
  return isDone ? 'done' : 'unfinished'
}

/** Range of the feed that a token acknowledges, or the reason why it acknowledges nothing. */
type Acknowledged =
  | { readonly kind: Exclude<LeaseResult, 'done'> }
  | {
      readonly kind: 'leased'
      readonly after: FeedPosition
      readonly upTo: FeedPosition
      readonly filter: FeedFilter
      readonly hasCallback: boolean
      /** True if the acknowledgement marks events as processed and the tenant can have events that wait for a pull. */
      readonly mayWait: boolean
      readonly isStream: boolean
    }

interface AcknowledgedRow extends FeedFilter {
  readonly transaction: string
  readonly eventId: string
  readonly leasedTransaction: string | null
  readonly leasedEvent: string | null
  readonly isHeld: boolean
  readonly isRepeated: boolean
  readonly isAhead: boolean
  readonly hasCallback: boolean
  readonly mayWait: boolean
}

// Locks the subscription until the position has moved. The id of a streamed event comes from the caller and may be invented: one that is
// not below all transactions in progress was never sent.
const acknowledgedText = `
SELECT s.position_transaction::text AS transaction, s.position_event AS "eventId", s.leased_transaction::text AS "leasedTransaction",
  s.leased_event AS "leasedEvent", s.providers, s.types, s.received_from AS "receivedFrom",
  (s.lease = $3) IS TRUE AND $4::xid8 < pg_snapshot_xmin(pg_current_snapshot()) AS "isHeld", (s.acknowledged = $3) IS TRUE AS "isRepeated",
  (s.position_transaction, s.position_event) < ($4::xid8, $5) AS "isAhead", ${hasCallbackText('t.')} AS "hasCallback",
  s.idle_days IS NULL AND (NOT ${hasCallbackText('t.')} OR EXISTS (SELECT FROM pulls_due WHERE tenant_id = $1)) AS "mayWait"
FROM subscriptions s JOIN tenants t ON t.id = s.tenant_id WHERE s.tenant_id = $1 AND s.name = $2 FOR UPDATE OF s`

async function readAcknowledged(
  tx: PoolClient,
  { tenantId, name, ackToken }: LeaseToken,
): Promise<Acknowledged> {
  const streamed = parseStreamId(ackToken)
  const { rows } = await tx.query<AcknowledgedRow>({
    name: 'read_acknowledged_lease',
    text: acknowledgedText,
    values: [
      tenantId,
      name,
      streamed?.token ?? ackToken,
      streamed?.position.transaction ?? '0',
      streamed?.position.eventId ?? '',
    ],
  })
  const [row] = rows
  if (!row) return { kind: 'unknown' }
  const { transaction, eventId, leasedTransaction, leasedEvent, isHeld, isRepeated, isAhead, ...rest } = row
  const { hasCallback, mayWait, ...filter } = rest
  const leased =
    leasedTransaction === null || leasedEvent === null
      ? undefined
      : { transaction: leasedTransaction, eventId: leasedEvent }
  const upTo = streamed ? streamed.position : leased
  if (!isHeld || !upTo) return { kind: isRepeated ? 'repeated' : 'lost' }
  // A late acknowledgement never moves the position of a stream back.
  if (streamed && !isAhead) return { kind: 'repeated' }
  const after = { transaction, eventId }
  return { kind: 'leased', after, upTo, filter, hasCallback, mayWait, isStream: streamed !== undefined }
}

/** Releases a lease without an acknowledgement: the next pull after the delay returns the events again. @throws errors of Postgres */
export function releaseEvents(pool: Pool, token: LeaseToken, delaySeconds: number): Promise<LeaseResult> {
  return change(
    pool,
    token,
    'lease = NULL, held_until = now() + make_interval(secs => $4::integer)',
    delaySeconds,
  )
}

/** Sets the end of a lease to `leaseSeconds` from now. @throws errors of Postgres */
export function extendLease(pool: Pool, token: LeaseToken, leaseSeconds: number): Promise<LeaseResult> {
  return change(pool, token, 'held_until = now() + make_interval(secs => $4::integer)', leaseSeconds)
}

async function change(
  pool: Pool,
  { tenantId, name, ackToken }: LeaseToken,
  assignments: string,
  seconds: number,
): Promise<LeaseResult> {
  const { rowCount } = await pool.query(
    `UPDATE subscriptions SET ${assignments}, version = version + 1 WHERE tenant_id = $1 AND name = $2 AND lease = $3 AND leased_event IS NOT NULL`,
    [tenantId, name, ackToken, seconds],
  )
  if (rowCount === 1) return 'done'
  const { rows } = await pool.query<{ isRepeated: boolean }>(
    'SELECT (acknowledged = $3) IS TRUE AS "isRepeated" FROM subscriptions WHERE tenant_id = $1 AND name = $2',
    [tenantId, name, ackToken],
  )
  if (!rows[0]) return 'unknown'
  return rows[0].isRepeated ? 'repeated' : 'lost'
}
