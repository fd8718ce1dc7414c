import type { TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { stableMs } from './destination-alerts.ts'
import {
  callbackDestination,
  carriesEventsText,
  type DestinationKey,
  isCallbackText,
  isInQueueText,
  notificationsDestination,
} from './model.ts'
import { type PausedForwarding, suspendedCauses } from './tenant-queue.ts'

/** Trouble of a callback that is not suspended. It lasts until the receiver has recovered, even while the breaker is closed in between. */
export interface CallbackTrouble {
  /** `resumed`: the callback's suspension has ended, and the callback has not accepted a delivery since. */
  readonly kind: 'failing' | 'resumed'
  readonly breaker: 'closed' | 'open' | 'half_open'
  /** Time of the first failure; undefined if it is no longer known. */
  readonly startedAtMs: number | undefined
}

/** Reasons why deliveries of a tenant queue are blocked or slow. Each is present only if it applies. */
export interface DestinationStatus {
  readonly suspension: { readonly cause: string; readonly suspendedAtMs: number } | undefined
  readonly breakerEndsAtMs: number | undefined
  readonly trouble: CallbackTrouble | undefined
}

const suspendedCausesText = `('${suspendedCauses.join("', '")}')`
/**
 * SQL for the kind of trouble of a tenant queue `q` with the alert `a` of its callback; NULL for none. Trouble does not end when the
 * breaker closes for a time: then the alert's state `failing`, or a failure in the last five minutes, shows it.
 */
const troubleText = `CASE
  WHEN q.suspended_at IS NOT NULL THEN NULL
  WHEN q.breaker_until > '-infinity' AND a.cause IN ${suspendedCausesText} THEN 'resumed'
  WHEN q.breaker_until > '-infinity' OR a.open = 'failing'
    OR (a.last_failure_at > now() - interval '${stableMs} ms' AND a.cause NOT IN ${suspendedCausesText}) THEN 'failing' END`
const msText = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::bigint`
const statusText = `
SELECT q.tenant_id, q.suspended_cause, ${msText('q.suspended_at')}, CASE WHEN q.breaker_until > now() THEN ${msText('q.breaker_until')} END,
  q.breaker_until > '-infinity', ${troubleText}, ${msText('a.since')}
FROM tenant_queues q LEFT JOIN destination_alerts a USING (tenant_id, destination)`

type StatusRow = [
  tenantId: TenantId,
  cause: string | null,
  suspendedAtMs: number | null,
  breakerEndsAtMs: number | null,
  isBreakerOpen: boolean,
  trouble: CallbackTrouble['kind'] | null,
  troubledAtMs: number | null,
]

const noStatus: DestinationStatus = {
  suspension: undefined,
  breakerEndsAtMs: undefined,
  trouble: undefined,
}

function statusOf([
  ,
  cause,
  suspendedAtMs,
  endsAtMs,
  isBreakerOpen,
  kind,
  troubledAtMs,
]: StatusRow): DestinationStatus {
  if (cause !== null && suspendedAtMs !== null)
    return {
      suspension: { cause, suspendedAtMs },
      breakerEndsAtMs: endsAtMs ?? undefined,
      trouble: undefined,
    }
  const breaker = endsAtMs !== null ? 'open' : isBreakerOpen ? 'half_open' : 'closed'
  return {
    suspension: undefined,
    breakerEndsAtMs: endsAtMs ?? undefined,
    trouble: kind === null ? undefined : { kind, breaker, startedAtMs: troubledAtMs ?? undefined },
  }
}

/** Reads the reasons why deliveries to a destination are blocked or slow. @throws errors of Postgres */
export async function readDestinationStatus(
  pool: Pool,
  { tenantId, destination }: DestinationKey,
): Promise<DestinationStatus> {
  const { rows } = await pool.query<StatusRow>({
    name: 'read_destination_status',
    text: `${statusText} WHERE q.tenant_id = $1 AND q.destination = $2`,
    rowMode: 'array',
    values: [tenantId, destination],
  })
  return rows[0] ? statusOf(rows[0]) : noStatus
}

/**
 * Lists callbacks that are suspended or in trouble, suspended ones first. Without `isSuspended`, reads one row for each of the tenants.
 * @throws errors of Postgres
 */
export async function listCallbackStatuses(
  pool: Pool,
  {
    tenantIds,
    rowsMax,
    isSuspended = false,
  }: {
    /** Undefined for all tenants. */
    readonly tenantIds: readonly TenantId[] | undefined
    readonly rowsMax: number
    /** True to list suspended callbacks only. Uses a partial index. */
    readonly isSuspended?: boolean
  },
): Promise<readonly (DestinationStatus & { readonly tenantId: TenantId })[]> {
  const inTrouble = isSuspended ? '' : `OR ${troubleText} IS NOT NULL`
  const { rows } = await pool.query<StatusRow>({
    text: `${statusText}
      WHERE (q.suspended_at IS NOT NULL ${inTrouble}) AND ${isCallbackText}
        AND ($1::text[] IS NULL OR q.tenant_id = ANY($1::text[]))
      ORDER BY q.suspended_at, q.tenant_id LIMIT $2`,
    rowMode: 'array',
    values: [tenantIds ? textArrayParam(tenantIds) : null, rowsMax],
  })
  return rows.map((row) => ({ tenantId: row[0], ...statusOf(row) }))
}

/** Returns those of the given tenants whose callback is suspended. @throws errors of Postgres */
export async function findSuspendedTenants(
  pool: Pool,
  tenantIds: readonly TenantId[],
): Promise<ReadonlySet<TenantId>> {
  if (tenantIds.length === 0) return new Set()
  const { rows } = await pool.query<[TenantId]>({
    text: `SELECT tenant_id FROM tenant_queues WHERE suspended_at IS NOT NULL AND ${isCallbackText} AND tenant_id = ANY($1::text[])`,
    rowMode: 'array',
    values: [textArrayParam(tenantIds)],
  })
  return new Set(rows.map(([id]) => id))
}

/** Finds the suspensions of a tenant's callback and notifications. */
export async function findSuspensions(pool: Pool, tenantId: TenantId) {
  const [callback, notifications] = await Promise.all([
    readDestinationStatus(pool, { tenantId, destination: callbackDestination }),
    readDestinationStatus(pool, { tenantId, destination: notificationsDestination }),
  ])
  return { callback: callback.suspension, notifications: notifications.suspension }
}

/** Lists tenants with a suspended callback or suspended notifications. Uses a partial index. */
export async function listSuspendedTenants(pool: Pool, rowsMax: number): Promise<TenantId[]> {
  const { rows } = await pool.query<[TenantId]>({
    text: `SELECT tenant_id FROM tenant_queues WHERE suspended_at IS NOT NULL LIMIT $1`,
    rowMode: 'array',
    values: [rowsMax],
  })
  return [...new Set(rows.map(([id]) => id))]
}

/** Maximum suspended callbacks, and callbacks in trouble, in the digest. */
const digestedMax = 1_000

/** Reads a digest that changes when a suspension or trouble of a callback begins or ends. Reads only callbacks that have either. */
export async function readCallbacksDigest(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ digest: string | null }>({
    name: 'read_callbacks_digest',
    text: `SELECT md5(string_agg(entry, ',' ORDER BY entry)) AS digest FROM (
      (SELECT tenant_id || suspended_at AS entry FROM tenant_queues
        WHERE suspended_at IS NOT NULL AND ${isCallbackText} ORDER BY tenant_id LIMIT $1)
      UNION ALL
      (SELECT q.tenant_id || ${troubleText} FROM destination_alerts a JOIN tenant_queues q USING (tenant_id, destination)
        WHERE ${troubleText} IS NOT NULL AND ${isCallbackText} ORDER BY q.tenant_id LIMIT $1)) blocked`,
    values: [digestedMax],
  })
  return rows[0]?.digest?.slice(0, 12) ?? 'none'
}

/** Maximum that `countHeldDeliveries` counts. It returns `heldMax + 1` if there are more. */
export const heldMax = 10_000
const heldQueuesMax = 1_000

/**
 * Counts due deliveries that are held by a suspension of the tenant or its callback, by paused forwarding, or by a circuit breaker that is
 * not closed. Returns `heldMax + 1` if there are more than `heldMax`.
 * @param tenantIds limits the count to the callbacks of these tenants; undefined for all tenant queues
 * @throws errors of Postgres
 */
export async function countHeldDeliveries(
  pool: Pool,
  tenantIds: readonly TenantId[] | undefined,
  paused: PausedForwarding,
): Promise<number> {
  const { rows } = await pool.query<[number]>({
    name: 'count_held_deliveries',
    text: `WITH held AS MATERIALIZED (
      SELECT tenant_id, destination FROM tenant_queues
      WHERE ($1::text[] IS NULL OR tenant_id = ANY($1::text[]) AND ${isCallbackText})
        AND (suspended_at IS NOT NULL OR breaker_until > '-infinity' OR $2::boolean OR tenant_id = ANY($3::text[]) AND ${carriesEventsText}
          OR tenant_id IN (SELECT id FROM tenants WHERE suspended AND deleted_at IS NULL))
      ORDER BY tenant_id, destination LIMIT ${heldQueuesMax}
    )
    SELECT count(*)::integer FROM (SELECT FROM held CROSS JOIN (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
      SELECT FROM deliveries_due WHERE ${isInQueueText('held.')} AND is_retry = kind.is_retry
        AND due_at <= now() AND leased_until <= now() LIMIT ${heldMax + 1}) due LIMIT ${heldMax + 1}) counted`,
    rowMode: 'array',
    values: [tenantIds ? textArrayParam(tenantIds) : null, paused.all, textArrayParam([...paused.tenants])],
  })
  return rows[0]?.[0] ?? 0
}
