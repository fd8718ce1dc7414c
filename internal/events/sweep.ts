import type { Pool } from '#internal/storage/index.ts'

/** Tenant queues look again 5 s after each look that may have missed something; what is later than this was missed by all of them. */
const graceMs = 8_000
const queuesMax = 100_000

// Steps from tenant to tenant through the index instead of reading all rows: three probes a tenant, and a step for each row whose
// lease has not been over for long. Tenant queues of tenants and callbacks that get nothing look seldom on purpose. Only tenant queues that are
// wrong are written, in order of ids; a tenant queue that is being looked at is waited for and then found right. Repeating it changes
// nothing.
const sweepText = `
WITH RECURSIVE waiting AS (
  (SELECT tenant_id FROM deliveries_due ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT (SELECT d.tenant_id FROM deliveries_due d WHERE d.tenant_id > w.tenant_id ORDER BY d.tenant_id LIMIT 1)
  FROM waiting w WHERE w.tenant_id IS NOT NULL
), overdue AS MATERIALIZED (
  SELECT w.tenant_id FROM (SELECT tenant_id FROM waiting WHERE tenant_id IS NOT NULL LIMIT ${queuesMax}) w
  WHERE EXISTS (SELECT FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
    SELECT FROM deliveries_due WHERE tenant_id = w.tenant_id AND is_retry = kind.is_retry
      AND due_at < now() - $1::integer * interval '1 ms' AND leased_until < now() - $1::integer * interval '1 ms' LIMIT 1) d)
), missed AS (
  SELECT o.tenant_id FROM overdue o
  CROSS JOIN LATERAL (SELECT FROM tenants WHERE id = o.tenant_id AND NOT suspended AND deleted_at IS NULL OFFSET 0) t
  LEFT JOIN LATERAL (SELECT suspended_at, next_due_at FROM tenant_queues WHERE tenant_id = o.tenant_id OFFSET 0) l ON true
  WHERE l.suspended_at IS NULL AND (l.next_due_at IS NULL OR l.next_due_at > now())
  ORDER BY o.tenant_id
)
INSERT INTO tenant_queues AS l (tenant_id, next_due_at) SELECT tenant_id, now() FROM missed
ON CONFLICT (tenant_id) DO UPDATE SET next_due_at = now(), idle_checks = 0 WHERE l.next_due_at > now()
RETURNING tenant_id`

/**
 * Wakes tenant queues that overslept, and gives how many: a number that stays 0 unless something else is wrong. Any process may call it
 * at any time.
 * @param overdueMs how long a row has to have been due; default 8 s
 */
export async function sweepTenantQueues(pool: Pool, overdueMs = graceMs): Promise<number> {
  const { rowCount } = await pool.query({ name: 'sweep_lanes', text: sweepText, values: [overdueMs] })
  return rowCount ?? 0
}
