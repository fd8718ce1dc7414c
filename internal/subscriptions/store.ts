import { type EventId, isOfType, type TenantId } from '#internal/base/index.ts'
import {
  type FeedPosition,
  findFeedEnd,
  findFeedPositionAt,
  lowestIdOf,
  type Queryable,
} from '#internal/events/index.ts'
import { type Pool, type PoolClient, purgeByKey, withTx } from '#internal/storage/index.ts'
import {
  type StoredSubscription,
  type Subscription,
  type SubscriptionFilter,
  type SubscriptionName,
  type SubscriptionPlace,
  subscriptionsMax,
} from './subscription.ts'

/** Subscription to create or change. */
export interface WrittenSubscription extends SubscriptionPlace, SubscriptionFilter {
  /** A new subscription begins with events that were received at this time or later. Default: its creation. */
  readonly fromMs?: number | undefined
  /**
   * Days without use, 1 to `idleDaysMax`, after which it is deleted when the tenant creates another subscription. Such a subscription only
   * observes: its acknowledgements do not mark events as processed. Default: never.
   */
  readonly deleteAfterIdleDays?: number | undefined
}

export type WriteResult =
  | { readonly kind: 'changed' | 'unchanged'; readonly subscription: Subscription }
  /** `deleted`: subscriptions that were unused for longer than their `deleteAfterIdleDays`. */
  | {
      readonly kind: 'created'
      readonly subscription: Subscription
      readonly deleted: readonly SubscriptionName[]
    }
  | { readonly kind: 'too_many'; readonly max: number }
  /** Nothing was written: a permanent subscription must not become one that only observes and may be deleted. */
  | { readonly kind: 'lasting' }
  | { readonly kind: 'unknown_tenant' }

/** Time when an unused subscription expires. A pull with events and an open stream count as use, a pull without events does not. */
const expiresAt = `greatest(used_at, acknowledged_at, held_until) + make_interval(days => idle_days)`

const columns = `name, providers, types, floor(extract(epoch FROM created_at) * 1000)::bigint AS "createdAtMs",
  floor(extract(epoch FROM acknowledged_at) * 1000)::bigint AS "acknowledgedAtMs", lease IS NOT NULL AS "isLeased",
  idle_days AS "deleteAfterIdleDays", floor(extract(epoch FROM ${expiresAt}) * 1000)::bigint AS "expiresAtMs",
  CASE WHEN held_until > now() THEN floor(extract(epoch FROM held_until) * 1000)::bigint END AS "availableAtMs",
  position_transaction::text AS transaction, position_event AS "eventId", received_from AS "receivedFrom", version::text`

interface Row extends Subscription {
  readonly transaction: string
  readonly eventId: string
  readonly receivedFrom: string
  readonly version: string
}

function storedOf({ transaction, eventId, ...row }: Row): StoredSubscription {
  return { ...row, position: { transaction, eventId } }
}

function shown({ position: _position, receivedFrom: _from, version: _version, ...rest }: StoredSubscription) {
  return rest
}

export async function readStored(
  pool: Queryable,
  { tenantId, name }: SubscriptionPlace,
): Promise<StoredSubscription | undefined> {
  const { rows } = await pool.query<Row>({
    name: 'read_subscription',
    text: `SELECT ${columns} FROM subscriptions WHERE tenant_id = $1 AND name = $2`,
    values: [tenantId, name],
  })
  return rows[0] && storedOf(rows[0])
}

/** Returns undefined if the subscription does not exist. @throws errors of Postgres */
export async function readSubscription(
  pool: Pool,
  place: SubscriptionPlace,
): Promise<Subscription | undefined> {
  const stored = await readStored(pool, place)
  return stored && shown(stored)
}

/** Lists the subscriptions of a tenant by name; at most `subscriptionsMax`. @throws errors of Postgres */
export async function listSubscriptions(pool: Pool, tenantId: TenantId): Promise<Subscription[]> {
  const { rows } = await pool.query<Row>(
    `SELECT ${columns} FROM subscriptions WHERE tenant_id = $1 ORDER BY name LIMIT $2`,
    [tenantId, subscriptionsMax],
  )
  return rows.map((row) => shown(storedOf(row)))
}

/** Number of subscriptions of a tenant, and names of those that will return an event. */
export interface Readers {
  readonly total: number
  readonly names: readonly SubscriptionName[]
}

/** Finds the permanent subscriptions whose filter matches an event and that have not acknowledged it. @throws errors of Postgres */
export async function findReaders(
  pool: Pool,
  event: {
    readonly id: EventId
    readonly tenantId: TenantId
    readonly provider: string
    readonly type: string
    /** Undefined for an event that is in no feed. */
    readonly position: FeedPosition | undefined
  },
): Promise<Readers> {
  const { id, tenantId, provider, type, position } = event
  const { rows } = await pool.query<
    Pick<StoredSubscription, 'name' | 'providers' | 'types'> & { isAhead: boolean }
  >(
    `SELECT name, providers, types, (position_transaction, position_event) < ($2::xid8, $3) AND received_from <= $3 AS "isAhead"
     FROM subscriptions WHERE tenant_id = $1 AND idle_days IS NULL ORDER BY name LIMIT $4`,
    [tenantId, position?.transaction ?? '0', id, subscriptionsMax],
  )
  const isPending = ({ isAhead, providers, types }: (typeof rows)[number]) =>
    position !== undefined &&
    isAhead &&
    (providers.length === 0 || providers.includes(provider)) &&
    (types.length === 0 || types.some((each) => isOfType(type, each)))
  return { total: rows.length, names: rows.flatMap((row) => (isPending(row) ? [row.name] : [])) }
}

/**
 * Creates a subscription, or changes the filter of the one with this name. The position stays. A lease ends, because its events were
 * selected with the old filter. Safe to repeat.
 * @throws errors of Postgres
 */
export async function writeSubscription(pool: Pool, wanted: WrittenSubscription): Promise<WriteResult> {
  const { tenantId, name, providers, types, deleteAfterIdleDays: idleDays = null } = wanted
  return withTx(pool, async (tx): Promise<WriteResult> => {
    // Locks the tenant, so that concurrent calls run one after another and count each other's subscriptions.
    const owner = await tx.query(
      'SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE',
      [tenantId],
    )
    if (owner.rowCount === 0) return { kind: 'unknown_tenant' }
    const before = await readStored(tx, wanted)
    const stored = before && [before.providers, before.types, before.deleteAfterIdleDays]
    if (before && Bun.deepEquals(stored, [providers, types, idleDays]))
      return { kind: 'unchanged', subscription: shown(before) }
    if (before && before.deleteAfterIdleDays === null && idleDays !== null) return { kind: 'lasting' }
    const { rows } = await tx.query<Row>(
      `UPDATE subscriptions SET providers = $3, types = $4, idle_days = $5, used_at = now(), lease = NULL, held_until = '-infinity', version = version + 1
       WHERE tenant_id = $1 AND name = $2 RETURNING ${columns}`,
      [tenantId, name, providers, types, idleDays],
    )
    return rows[0] ? { kind: 'changed', subscription: shown(storedOf(rows[0])) } : create(tx, wanted)
  })
}

async function create(
  tx: PoolClient,
  { tenantId, name, providers, types, deleteAfterIdleDays, fromMs }: WrittenSubscription,
): Promise<WriteResult> {
  const expired = await tx.query<{ name: SubscriptionName }>(
    `DELETE FROM subscriptions WHERE tenant_id = $1 AND ${expiresAt} < now() RETURNING name`,
    [tenantId],
  )
  const { position, receivedFrom } = await startOf(tx, fromMs)
  const { rows } = await tx.query<Row>(
    `INSERT INTO subscriptions
       (tenant_id, name, providers, types, position_transaction, position_event, received_from, idle_days)
     SELECT $1, $2, $3, $4, $5::xid8, $6, $7, $8 WHERE (SELECT count(*) FROM subscriptions WHERE tenant_id = $1) < ${subscriptionsMax}
     RETURNING ${columns}`,
    [
      tenantId,
      name,
      providers,
      types,
      position.transaction,
      position.eventId,
      receivedFrom,
      deleteAfterIdleDays ?? null,
    ],
  )
  return rows[0]
    ? {
        kind: 'created',
        subscription: shown(storedOf(rows[0])),
        deleted: expired.rows.map((row) => row.name),
      }
    : { kind: 'too_many', max: subscriptionsMax }
}

async function startOf(pool: Queryable, fromMs: number | undefined) {
  return fromMs === undefined
    ? { position: await findFeedEnd(pool), receivedFrom: '' }
    : { position: await findFeedPositionAt(pool, fromMs), receivedFrom: lowestIdOf(fromMs) }
}

/**
 * Moves a subscription to the events received from a time on, or from now on. Ends its lease. Returns undefined if it is unknown.
 * @throws errors of Postgres
 */
export async function seekSubscription(
  pool: Pool,
  { tenantId, name }: SubscriptionPlace,
  fromMs: number | undefined,
): Promise<Subscription | undefined> {
  const { position, receivedFrom } = await startOf(pool, fromMs)
  const { rows } = await pool.query<Row>(
    `UPDATE subscriptions SET position_transaction = $3::xid8, position_event = $4, received_from = $5, lease = NULL,
       held_until = '-infinity', version = version + 1
     WHERE tenant_id = $1 AND name = $2 RETURNING ${columns}`,
    [tenantId, name, position.transaction, position.eventId, receivedFrom],
  )
  return rows[0] && shown(storedOf(rows[0]))
}

/** Returns false if the subscription does not exist. @throws errors of Postgres */
export async function deleteSubscription(
  pool: Pool,
  { tenantId, name }: SubscriptionPlace,
): Promise<boolean> {
  const { rowCount } = await pool.query('DELETE FROM subscriptions WHERE tenant_id = $1 AND name = $2', [
    tenantId,
    name,
  ])
  return rowCount === 1
}

/** Removes a deleted tenant's subscriptions. */
export const purgeSubscriptions = purgeByKey('subscriptions', ['name'])
