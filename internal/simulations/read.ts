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

/**
 * A page, newest first; `next` is undefined on the last one. One that is shorter than its limit and has a `next` was not finished: all
 * that is newer was searched.
 */
export interface SimulationPage {
  readonly simulations: readonly Simulation[]
  readonly next: SimulationId | undefined
}

/** Simulations that a page looks at where it asks for a state, which no index knows. */
const examinedMax = 1_000
/** Sorts behind every id. */
const behindAll = 'sim_~'

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

/**
 * A page of simulations. By state it looks at 1 000 of them at most. Give it a pool whose sessions plan by indexes alone.
 * @throws RangeError for a limit out of its bounds; whatever Postgres throws
 */
export async function listSimulations(pool: Pool, request: SimulationListRequest): Promise<SimulationPage> {
  const { state, limit } = request
  expectPageLimit(limit, 'simulations')
  const { text, values } = state === undefined ? listText(request) : searchText(request, state)
  const name = `simulations_${Bun.hash(text).toString(36)}`
  const { rows } = await pool.query<ExaminedRow>({ name, text, rowMode: 'array', values })
  const examined = rows.map(([isMeant, isEdge, ...row]) => ({
    ...simulationOf(row),
    ...{ isMeant, isEdge },
  }))
  const { page, next } = pageOf(examined, limit)
  const simulations = page
    .filter(({ isMeant }) => isMeant)
    .map(({ isMeant: _meant, isEdge: _edge, ...simulation }) => simulation)
  // Behind the last one that was looked at there may be more.
  return { simulations, next: next ?? page.find(({ isEdge }) => isEdge)?.id }
}

type ExaminedRow = [isMeant: boolean, isEdge: boolean, ...SimulationRow]

interface Walk {
  readonly where: string
  readonly order: string
  readonly values: unknown[]
}

// By the key, or by the index over tenant and id, in its order; the tenant stands in the comparison and in the order, so that no
// other index seems to do.
function walkOf({ tenantId, after = behindAll as SimulationId }: SimulationListRequest): Walk {
  return tenantId === undefined
    ? { where: 'id < $1', order: 'ORDER BY id DESC', values: [after] }
    : {
        where: `(tenant_id, id) < ($2, $1) AND (tenant_id, id) >= ($2, '')`,
        order: 'ORDER BY tenant_id DESC, id DESC',
        values: [after, tenantId],
      }
}

// Planned once a session, as is the other one. A read, no locks.
function listText(request: SimulationListRequest): { text: string; values: unknown[] } {
  const { where, order, values } = walkOf(request)
  const text = `SELECT true, false, ${simulationColumns} FROM simulations WHERE ${where} ${order} LIMIT $${values.length + 1}::bigint`
  return { text, values: [...values, request.limit + 1] }
}

// Of a bounded stretch: its last row comes along in any case and tells how far that was. A read, no locks.
function searchText(
  request: SimulationListRequest,
  state: SimulationState,
): { text: string; values: unknown[] } {
  const { where, order, values } = walkOf(request)
  const [asked, limit] = [`$${values.length + 1}`, `$${values.length + 2}`]
  const text = `SELECT state = ${asked}, nth = ${examinedMax}, ${simulationColumns} FROM (
      SELECT *, row_number() OVER (${order}) AS nth FROM simulations WHERE ${where} ${order} LIMIT ${examinedMax}) AS examined
    WHERE state = ${asked} OR nth = ${examinedMax} ${order} LIMIT ${limit}::bigint`
  return { text, values: [...values, state, request.limit + 1] }
}
