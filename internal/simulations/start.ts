import { isDeepStrictEqual } from 'node:util'
import { dayAfter, type TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import { insertSimulationAudit } from './audit.ts'
import { stepsCount } from './chargeback.ts'
import type { Chargeback } from './request.ts'
import {
  createSimulationId,
  type Simulation,
  type SimulationRow,
  simulationColumns,
  simulationOf,
} from './simulation.ts'

/** Simulations of a tenant that may be under way at a time. */
export const openPerTenantMax = 100

/** What a simulation is started with. */
export interface StartSimulationRequest {
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** Who asks, for the audit. */
  readonly by: string
  /** Makes repeats the same simulation for as long as it is kept; its tenant's own. */
  readonly idempotencyKey?: string | undefined
  /** False where its tenant could not have it now: then only one that was started before is found by its key. Default true. */
  readonly isReady?: boolean
  /** Days that it is kept. */
  readonly days: number
}

/** What came of it. `conflict`: the key was used with another request. `too_many`: others have to end first. */
export type StartSimulationResult =
  | { readonly kind: 'started' | 'already_started'; readonly simulation: Simulation }
  | { readonly kind: 'conflict' | 'too_many' | 'unknown_tenant' | 'not_ready' }

/**
 * Writes a simulation down, whose first event is due at once. Repeating it with the same key and request gives the same one. Leaves
 * an audit row with the deed. @throws whatever Postgres throws; then it was not started, or a repeat with its key finds it
 */
export async function startSimulation(
  pool: Pool,
  request: StartSimulationRequest,
  nowMs: number,
): Promise<StartSimulationResult> {
  return await withTx(pool, async (client) => {
    // Whoever starts one for a tenant waits for whoever else does, and for its deletion, so that nobody counts one too few and
    // none is left behind.
    const { rowCount } = await client.query(
      'SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE',
      [request.tenantId],
    )
    if (rowCount === 0) return { kind: 'unknown_tenant' }
    const known = await findByKey(client, request)
    if (known) {
      const isSame = isDeepStrictEqual(known.chargeback, request.chargeback)
      return isSame ? { kind: 'already_started', simulation: known } : { kind: 'conflict' }
    }
    if (request.isReady === false) return { kind: 'not_ready' }
    if ((await countOpen(client, request.tenantId)) >= openPerTenantMax) return { kind: 'too_many' }
    const simulation = await insertSimulation(client, request, nowMs)
    const { id, chargeback } = simulation
    await insertSimulationAudit(client, {
      ...{ actor: request.by, action: 'simulations.started', tenantId: request.tenantId },
      detail: { simulation: id, provider: chargeback.provider },
    })
    return { kind: 'started', simulation }
  })
}

// By its unique index. The caller holds the tenant's row.
async function findByKey(
  client: PoolClient,
  { tenantId, idempotencyKey }: StartSimulationRequest,
): Promise<Simulation | undefined> {
  if (idempotencyKey === undefined) return undefined
  const { rows } = await client.query<SimulationRow>({
    text: `SELECT ${simulationColumns} FROM simulations WHERE tenant_id = $1 AND idempotency_key = $2`,
    rowMode: 'array',
    values: [tenantId, idempotencyKey],
  })
  return rows.map(simulationOf)[0]
}

// By the index over those that have not ended: a hundred rows at most.
async function countOpen(client: PoolClient, tenantId: TenantId): Promise<number> {
  const { rows } = await client.query<[number]>({
    text: 'SELECT count(*) FROM simulations WHERE tenant_id = $1 AND ended_at IS NULL',
    rowMode: 'array',
    values: [tenantId],
  })
  return rows[0]?.[0] ?? 0
}

// Times are Postgres' own, as are those by which events are taken.
const insertText = `
INSERT INTO simulations (id, tenant_id, idempotency_key, request, requested_by, state, due_at, next_at, created_at, expires_on)
SELECT $1, $2, $3, $4, $5, 'scheduled',
  ARRAY(SELECT now() + step * $6::integer * interval '1 s' FROM generate_series(0, ${stepsCount - 1}) step ORDER BY step),
  now(), now(), $7::date
RETURNING ${simulationColumns}`

async function insertSimulation(
  client: PoolClient,
  { tenantId, idempotencyKey, chargeback, by, days }: StartSimulationRequest,
  nowMs: number,
): Promise<Simulation> {
  const { rows } = await client.query<SimulationRow>({
    text: insertText,
    rowMode: 'array',
    values: [
      ...[createSimulationId(nowMs), tenantId, idempotencyKey ?? null, JSON.stringify(chargeback), by],
      ...[chargeback.stepSeconds, dayAfter(nowMs, days)],
    ],
  })
  const [simulation] = rows.map(simulationOf)
  if (simulation === undefined) throw new Error('a simulation was stored and not given back')
  return simulation
}
