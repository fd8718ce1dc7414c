/**
 * SQL that has tenants' tenant queues looked at from now on, to stand in a WITH after the rows that are due. Tenant queues are locked in order of
 * ids, so that two statements wait for each other in one direction only; one that is due already, and was not found empty at its
 * last look, is neither locked nor written: busy tenants have no hot row.
 * @param whose what follows `tenant_id`, such as `= ANY($1::text[])`; never a value from outside
 */
export function wakeTenantQueuesText(whose: string): string {
  return `UPDATE tenant_queues SET next_due_at = now(), idle_checks = 0 WHERE tenant_id = ANY(ARRAY(
    SELECT tenant_id FROM tenant_queues WHERE tenant_id ${whose} AND (next_due_at > now() OR idle_checks > 0)
    ORDER BY tenant_id FOR UPDATE))`
}
