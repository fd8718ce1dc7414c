import type { TenantId } from '#internal/base/index.ts'
import type { PoolClient } from '#internal/storage/index.ts'
import type { SimulationId } from './simulation.ts'

/** One line of the audit about simulations. */
export interface SimulationAudit {
  readonly actor: string
  readonly action: 'simulations.started' | 'simulations.advanced' | 'simulations.cancelled'
  readonly tenantId: TenantId
  readonly detail: { readonly simulation: SimulationId; readonly event?: string; readonly provider?: string }
}

/** Appends to the audit; inside the transaction that does the deed. */
export async function insertSimulationAudit(
  client: Pick<PoolClient, 'query'>,
  { actor, action, tenantId, detail }: SimulationAudit,
): Promise<void> {
  await client.query({
    text: 'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (now(), $1, $2, $3, $4)',
    values: [actor, action, tenantId, JSON.stringify(detail)],
  })
}
