import type { TenantId } from '#internal/base/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { insertSimulationAudit, type SimulationAudit } from './audit.ts'
import {
  type Simulation,
  type SimulationId,
  type SimulationRow,
  simulationColumns,
  simulationOf,
} from './simulation.ts'

/** Which simulation is changed, and who asks, for the audit. */
export interface SimulationChange {
  readonly id: SimulationId
  /** Absent: whosever it is. */
  readonly tenantId?: TenantId
  readonly by: string
  /** How many of its events have to have been sent; with another number it is `changed`. Absent: any. */
  readonly sentCount?: number
}

/** What came of a change. `ended`: it had ended before, and nothing was changed. */
export type SimulationChangeResult<Done extends string> =
  | { readonly kind: Done | 'ended' | 'changed'; readonly simulation: Simulation }
  | { readonly kind: 'not_found' }

const whose = 'id = $1 AND ($2::text IS NULL OR tenant_id = $2)'
const sentSoMany = '($3::integer IS NULL OR cardinality(sent_at) = $3)'

/**
 * Makes a simulation's next event due now; those after it come when they were to come. One that is on its way already, or waits for
 * something, is tried at once. Leaves an audit row. @throws whatever Postgres throws
 */
export function advanceSimulation(
  pool: Pool,
  change: SimulationChange,
): Promise<SimulationChangeResult<'advanced'>> {
  // What is under a lease is being sent: moving its time would have it sent by two.
  const text = `UPDATE simulations SET due_at[cardinality(sent_at) + 1] = least(due_at[cardinality(sent_at) + 1], now()),
      next_at = CASE WHEN lease IS NULL OR next_at <= now() THEN now() ELSE next_at END
    WHERE ${whose} AND ${sentSoMany} AND ended_at IS NULL RETURNING ${simulationColumns}`
  return changeSimulation(pool, { ...change, text, kind: 'advanced', action: 'simulations.advanced' })
}

/**
 * Ends a simulation: no other event comes. One that is being sent at this moment still does, and what came stays. Leaves an audit
 * row. Repeating it says `ended`. @throws whatever Postgres throws
 */
export function cancelSimulation(
  pool: Pool,
  change: SimulationChange,
): Promise<SimulationChangeResult<'cancelled'>> {
  // The lease stays, so that whoever is sending can note that it did.
  const text = `UPDATE simulations SET state = 'cancelled', ended_at = now(), next_at = NULL, cause = NULL
    WHERE ${whose} AND ${sentSoMany} AND ended_at IS NULL RETURNING ${simulationColumns}`
  return changeSimulation(pool, { ...change, text, kind: 'cancelled', action: 'simulations.cancelled' })
}

interface ChangeStatement<Done extends string> extends SimulationChange {
  readonly text: string
  readonly kind: Done
  readonly action: SimulationAudit['action']
}

async function changeSimulation<Done extends string>(
  pool: Pool,
  { id, tenantId, by, sentCount, text, kind, action }: ChangeStatement<Done>,
): Promise<SimulationChangeResult<Done>> {
  return await withTx(pool, async (client) => {
    const read = async (statement: string, values: readonly unknown[]) => {
      const { rows } = await client.query<SimulationRow>({
        text: statement,
        rowMode: 'array',
        values: [...values],
      })
      return rows.map(simulationOf)[0]
    }
    const place = [id, tenantId ?? null]
    const changed = await read(text, [...place, sentCount ?? null])
    if (changed) {
      const event = changed.events.find(({ sentAtMs }) => sentAtMs === null)?.id
      const detail = { simulation: id, ...(event !== undefined && { event }) }
      await insertSimulationAudit(client, { actor: by, action, tenantId: changed.tenantId, detail })
      return { kind, simulation: changed }
    }
    const simulation = await read(`SELECT ${simulationColumns} FROM simulations WHERE ${whose}`, place)
    if (simulation === undefined) return { kind: 'not_found' }
    return { kind: simulation.endedAtMs === null ? 'changed' : 'ended', simulation }
  })
}
