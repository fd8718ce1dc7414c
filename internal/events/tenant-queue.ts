import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient } from '#internal/storage/index.ts'

/** Why a callback is left alone. */
export type SuspendedCause = 'gone' | 'disabled'

/** Rows that are snoozed one after the other take turns no faster than that. */
const probeAgainMs = 1_000

// One row by its key; a claim that holds it is over in moments. The first suspension stands, so repeating it changes nothing.
const suspendText = `
UPDATE tenant_queues SET suspended_at = now(), suspended_cause = $2 WHERE tenant_id = $1 AND suspended_at IS NULL`

/** Stops all deliveries of a tenant, whose events go on to be accepted and wait. False when it was stopped already. */
export async function suspendCallback(
  pool: Pool,
  tenantId: TenantId,
  cause: SuspendedCause,
): Promise<boolean> {
  const { rowCount } = await pool.query({
    name: 'suspend_callback',
    text: suspendText,
    values: [tenantId, cause],
  })
  return rowCount === 1
}

// One row by its key, also its breaker's, since whoever resumes says that the callback is well. Repeating it changes nothing.
const resumeText = `
UPDATE tenant_queues SET suspended_at = NULL, suspended_cause = NULL, breaker_until = '-infinity', next_due_at = now(), idle_checks = 0
WHERE tenant_id = $1 AND suspended_at IS NOT NULL`

/** Lets the deliveries of a suspended callback go on. False when it was not suspended. Call `tellForwarders` afterwards. */
export async function resumeCallback(
  connection: Pick<Pool | PoolClient, 'query'>,
  tenantId: TenantId,
): Promise<boolean> {
  const { rowCount } = await connection.query({
    name: 'resume_callback',
    text: resumeText,
    values: [tenantId],
  })
  return rowCount === 1
}

// One row by its key. The later end stands when several processes open the breaker at once. The row is locked before it is compared,
// so that of concurrent calls one sees the closed breaker.
const openText = `
UPDATE tenant_queues l SET breaker_until = greatest(l.breaker_until, now() + $2::integer * interval '1 ms')
FROM (SELECT tenant_id, breaker_until FROM tenant_queues WHERE tenant_id = $1 FOR UPDATE) was
WHERE l.tenant_id = $1 AND l.tenant_id = was.tenant_id
RETURNING was.breaker_until = '-infinity' AS opened`

/**
 * Opens a tenant's circuit breaker: holds its deliveries back for a while; after it one at a time tries the callback. Returns true
 * for the one call, over all processes, that found it closed; false while it is open or half-open, as after a failed probe. Safe to
 * repeat.
 */
export async function openBreaker(pool: Pool, tenantId: TenantId, openMs: number): Promise<boolean> {
  const { rows } = await pool.query<{ opened: boolean }>({
    name: 'open_breaker',
    text: openText,
    values: [tenantId, openMs],
  })
  return rows[0]?.opened === true
}

// One row by its key. A later end, which an open breaker may have, gives way as well: then the next probe finds out. Repeating it
// changes next to nothing.
const releaseText = `
UPDATE tenant_queues SET breaker_until = least(breaker_until, now() + interval '${probeAgainMs} ms')
WHERE tenant_id = $1 AND breaker_until > now()`

/** Lets another delivery try a half-open tenant queue in a second, where the one that was to try it was not sent. Safe to repeat. */
export async function releaseProbe(pool: Pool, tenantId: TenantId): Promise<void> {
  await pool.query({ name: 'release_probe', text: releaseText, values: [tenantId] })
}

// One row by its key; the tenant queue is due so that what waited goes at once. Repeating it changes nothing.
const closeText = `
UPDATE tenant_queues SET breaker_until = '-infinity', next_due_at = least(next_due_at, now()), idle_checks = 0
WHERE tenant_id = $1 AND breaker_until > '-infinity'`

/** Ends what `openBreaker` began. Safe to repeat. */
export async function closeBreaker(pool: Pool, tenantId: TenantId): Promise<void> {
  await pool.query({ name: 'close_breaker', text: closeText, values: [tenantId] })
}
