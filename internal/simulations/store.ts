import { and, eq, getTableColumns, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import { writeAudit } from '#internal/access/index.ts'
import { dayAfter, expectPageLimit, pageOf, type TenantId } from '#internal/base/index.ts'
import {
  orm,
  type Pool,
  type PoolClient,
  purgeByKey,
  type RemovedRows,
  withTx,
} from '#internal/storage/index.ts'
import { type Simulation, type SimulationId, type SimulationState, simulationOf } from './simulation.ts'
import { simulations } from './tables.ts'

/** Id of a simulation, and the tenant that must own it. */
export interface SimulationPlace {
  readonly id: SimulationId
  /** Default: any tenant. */
  readonly tenantId?: TenantId
}

/** Reads a simulation; undefined if it is unknown or another tenant's. @throws errors of Postgres */
export async function readSimulation(
  connection: Pool | PoolClient,
  place: SimulationPlace,
): Promise<Simulation | undefined> {
  const rows = await orm(connection).select().from(simulations).where(isAt(place))
  return rows.map(simulationOf)[0]
}

function isAt({ id, tenantId }: SimulationPlace) {
  return and(eq(simulations.id, id), tenantId && eq(simulations.tenantId, tenantId))
}

/** Request for a page of simulations. */
export interface SimulationListRequest {
  /** Default: all tenants. */
  readonly tenantId?: TenantId
  /** Default: all states. */
  readonly state?: SimulationState
  /** `next` of the previous page. */
  readonly after?: SimulationId
  /** Value from 1 to 100. */
  readonly limit: number
}

/** Page, newest first. `next` is undefined on the last page. A short page with `next` reached its maximum of examined rows. */
export interface SimulationPage {
  readonly simulations: readonly Simulation[]
  readonly next: SimulationId | undefined
}

/** Maximum number of simulations that a page with a state filter examines, since no index contains the state. */
const examinedMax = 1_000
/** Cursor of the first page, which sorts after every id, because pages run from newest to oldest. */
const behindAll = 'sim_~' as SimulationId

/**
 * Lists simulations. With a state filter it examines at most 1 000 per page. Requires a pool with `eventReadSettings`.
 * @throws RangeError for a limit outside 1 to 100; errors of Postgres
 */
export async function listSimulations(pool: Pool, request: SimulationListRequest): Promise<SimulationPage> {
  const { tenantId, state, after = behindAll, limit } = request
  expectPageLimit(limit, 'simulations')
  // Uses the primary key, or the index over tenant and id. The tenant is part of comparison and order, so that the planner chooses this
  // index.
  const key = sql`(${simulations.tenantId}, ${simulations.id})`
  const isInRange = tenantId
    ? sql`${key} < (${tenantId}, ${after}) AND ${key} >= (${tenantId}, '')`
    : lt(simulations.id, after)
  const order = tenantId ? sql`tenant_id DESC, id DESC` : sql`id DESC`
  const db = orm(pool)
  const name = `list_simulations${tenantId ? '_of_tenant' : ''}`
  if (state === undefined) {
    const page = db
      .select()
      .from(simulations)
      .where(isInRange)
      .orderBy(order)
      .limit(limit + 1)
    const { page: rows, next } = pageOf(await page.prepare(name).execute(), limit)
    return { simulations: rows.map(simulationOf), next }
  }
  const nth = sql`row_number() OVER (ORDER BY ${order})`.mapWith(Number).as('nth')
  const examined = db
    .select({ ...getTableColumns(simulations), nth })
    .from(simulations)
    .where(isInRange)
    .orderBy(order)
    .limit(examinedMax)
    .as('examined')
  // The last examined row is always returned, since its id is where the next page starts.
  const isListed = or(eq(examined.state, state), eq(examined.nth, examinedMax))
  const found = db
    .select()
    .from(examined)
    .where(isListed)
    .orderBy(order)
    .limit(limit + 1)
  const { page: rows, next } = pageOf(await found.prepare(`${name}_by_state`).execute(), limit)
  return {
    simulations: rows.filter((row) => row.state === state).map(simulationOf),
    next: next ?? rows.find((row) => row.nth === examinedMax)?.id,
  }
}

/** Request to change a simulation. */
export interface SimulationChange extends SimulationPlace {
  /** Actor for the audit log. */
  readonly by: string
  /** Compare-and-set on the number of sent events: with a different number the result is `changed`. */
  readonly sentCount?: number
}

/** `ended`: nothing was changed, since the simulation has ended. `changed`: nothing was changed, since `sentCount` does not match. */
export type SimulationChangeResult<Done extends ChangeKind> =
  | { readonly kind: Done | 'ended' | 'changed'; readonly simulation: Simulation }
  | { readonly kind: 'not_found' }

/** Makes the next event or retry due now; later events keep their times. Writes an audit entry. @throws errors of Postgres */
export function advanceSimulation(
  pool: Pool,
  change: SimulationChange,
  nowMs: number,
): Promise<SimulationChangeResult<'advanced'>> {
  const { dueAt, sentAt, nextAt, lease } = simulations
  const sent = sql`cardinality(${sentAt})`
  const set = {
    dueAt: sql`${dueAt}[:${sent}] || least(${dueAt}[${sent} + 1], now()) || ${dueAt}[${sent} + 2:]`,
    // While a process sends the event under a lease, the time of the next claim is kept, so that no other process claims the event.
    nextAt: sql`CASE WHEN ${lease} IS NULL OR ${nextAt} <= now() THEN now() ELSE ${nextAt} END`,
  }
  return changeSimulation(pool, { ...change, set, kind: 'advanced' }, nowMs)
}

/**
 * Cancels a simulation and writes an audit entry. Accepted events are kept, and an event that is being sent is still sent. A repeat returns
 * `ended`.
 * @throws errors of Postgres
 */
export function cancelSimulation(
  pool: Pool,
  change: SimulationChange,
  nowMs: number,
): Promise<SimulationChangeResult<'cancelled'>> {
  // Keeps the lease, so that a process that is sending an event can record the result.
  const set = { state: 'cancelled' as const, endedAt: sql`now()`, nextAt: null, cause: null }
  return changeSimulation(pool, { ...change, set, kind: 'cancelled' }, nowMs)
}

/** Names of actions in the audit log. */
type ChangeKind = 'advanced' | 'cancelled'

interface ChangeStatement<Done extends ChangeKind> extends SimulationChange {
  readonly set: PgUpdateSetSource<typeof simulations>
  readonly kind: Done
}

async function changeSimulation<Done extends ChangeKind>(
  pool: Pool,
  { by, sentCount, set, kind, ...place }: ChangeStatement<Done>,
  nowMs: number,
): Promise<SimulationChangeResult<Done>> {
  return await withTx(pool, async (client) => {
    const isUnchanged =
      sentCount === undefined ? undefined : sql`cardinality(${simulations.sentAt}) = ${sentCount}`
    const rows = await orm(client)
      .update(simulations)
      .set(set)
      .where(and(isAt(place), isUnchanged, isNull(simulations.endedAt)))
      .returning()
    const [changed] = rows.map(simulationOf)
    if (changed) {
      const { simulationId, tenantId, events } = changed
      const sourceEventId = events.find(({ sentAtMs }) => sentAtMs === null)?.id
      const detail = { simulationId, ...(sourceEventId !== undefined && { sourceEventId }) }
      const action = `simulations.${kind}` as const
      await writeAudit(client, { actor: by, action, tenantId, detail }, nowMs)
      return { kind, simulation: changed }
    }
    const simulation = await readSimulation(client, place)
    if (simulation === undefined) return { kind: 'not_found' }
    return { kind: simulation.endedAtMs === null ? 'changed' : 'ended', simulation }
  })
}

const forgottenMax = 5_000

/** Deletes at most 5 000 ended simulations whose retention is over. Idempotent, also concurrently. @throws errors of Postgres */
export async function forgetSimulations(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const db = orm(pool)
  const isExpired = and(isNotNull(simulations.endedAt), lte(simulations.expiresOn, dayAfter(nowMs, -1)))
  const expired = db
    .select({ id: simulations.id })
    .from(simulations)
    .where(isExpired)
    .orderBy(simulations.expiresOn)
    .limit(forgottenMax)
    .for('update', { skipLocked: true })
  // The array makes Postgres run the subquery only once.
  const { rowCount } = await db.delete(simulations).where(sql`${simulations.id} = ANY(ARRAY(${expired}))`)
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === forgottenMax }
}

/** Removes a deleted tenant's simulations. */
export const purgeSimulations = purgeByKey('simulations', ['id'])
