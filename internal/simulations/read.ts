import { expectPageLimit, pageOf, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  type Simulation,
  type SimulationId,
  type SimulationRow,
  type SimulationState,
  simulationColumns,
  simulationOf,
} from './simulation.ts'

/** Which page of whose simulations. */
export interface SimulationListRequest {
  /** Absent: anybody's. */
  readonly tenantId?: TenantId
  /** Absent: any. */
  readonly state?: SimulationState
  /** `next` of the page before. */
  readonly after?: SimulationId
  /** 1 to 100. */
  readonly limit: number
}

/** A page, newest first; `next` is undefined on the last one. */
export interface SimulationPage {
  readonly simulations: readonly Simulation[]
  readonly next: SimulationId | undefined
}

// By key. A read, no locks.
const readText = `SELECT ${simulationColumns} FROM simulations WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2)`

/** One simulation; undefined for one that is unknown, or another tenant's. @throws whatever Postgres throws */
export async function readSimulation(
  pool: Pool,
  place: { readonly id: SimulationId; readonly tenantId?: TenantId },
): Promise<Simulation | undefined> {
  const values = [place.id, place.tenantId ?? null]
  const { rows } = await pool.query<SimulationRow>({ text: readText, rowMode: 'array', values })
  return rows.map(simulationOf)[0]
}

/** A page of simulations. @throws RangeError for a limit out of its bounds; whatever Postgres throws */
export async function listSimulations(pool: Pool, request: SimulationListRequest): Promise<SimulationPage> {
  const { tenantId, state, after, limit } = request
  expectPageLimit(limit, 'simulations')
  const values: string[] = [after ?? 'sim_~']
  const only = (column: string, value: string | undefined) =>
    value === undefined ? '' : `${column} = $${values.push(value)} AND`
  const whose = `${only('tenant_id', tenantId)} ${only('state', state)}`
  const { rows } = await pool.query<SimulationRow>({
    text: `SELECT ${simulationColumns} FROM simulations WHERE ${whose} id < $1 ORDER BY id DESC LIMIT ${limit + 1}`,
    rowMode: 'array',
    values,
  })
  const { page, next } = pageOf(rows.map(simulationOf), limit)
  return { simulations: page, next }
}
