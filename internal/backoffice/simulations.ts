import { type Action, type Actor, actorName } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  advanceSimulation,
  cancelSimulation,
  chargebackOf,
  listSimulations,
  openPerTenantMax,
  parseSimulationId,
  readinessFor,
  readSimulation,
  type SimulateChargebackRequest,
  type Simulation,
  type SimulationId,
  type SimulationState,
  startSimulation,
} from '#internal/simulations/index.ts'
import { retentionOf } from '#internal/tenants/index.ts'
import { attempt } from './attempt.ts'
import { listInScope } from './merge-pages.ts'
import {
  conflict,
  cursorOf,
  invalid,
  limitOf,
  notFound,
  type Outcome,
  ok,
  type Page,
  type PageRequest,
} from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachList, reachTenant, type Whose } from './reach.ts'

/** Which simulations are listed. */
export interface SimulationListRequest extends PageRequest, Whose {
  readonly state?: SimulationState | undefined
}

/** What a simulation is started with. */
export interface SimulationStart {
  readonly tenantId: TenantId
  /** `dryRun` is not for this call. */
  readonly chargeback: Omit<SimulateChargebackRequest, 'dryRun'>
  /** Makes repeats the same simulation: 1 to 255 characters of ASCII. */
  readonly idempotencyKey: string
}

/** A simulation after a change; `isNew` is false where nothing had to be done. */
export interface SimulationChanged {
  readonly simulation: Simulation
  readonly isNew: boolean
}

/** Made-up disputes. */
export interface SimulationDesk {
  /** Newest first. */
  list(actor: Actor, request: SimulationListRequest): Promise<Outcome<Page<Simulation>>>
  read(actor: Actor, id: SimulationId): Promise<Outcome<Simulation>>
  start(actor: Actor, start: SimulationStart): Promise<Outcome<SimulationChanged>>
  /** Makes its next event due now: the one that is named by its id, so that a repeat does not hasten the one after it. */
  advance(actor: Actor, id: SimulationId, eventId: string): Promise<Outcome<SimulationChanged>>
  cancel(actor: Actor, id: SimulationId): Promise<Outcome<SimulationChanged>>
}

const idempotencyKeyForm = /^[\x20-\x7e]{1,255}$/

/** Makes the use cases of simulations. */
export function createSimulationDesk(parts: BackofficeParts): SimulationDesk {
  return {
    list: (actor, request) => attempt(parts, () => list(parts, actor, request)),
    read: (actor, id) => attempt(parts, () => reachSimulation(parts, actor, id)),
    start: (actor, start) => attempt(parts, () => begin(parts, actor, start)),
    advance: (actor, id, eventId) => attempt(parts, () => advance(parts, actor, id, eventId)),
    cancel: (actor, id) => attempt(parts, () => cancel(parts, actor, id)),
  }
}

async function list(
  parts: BackofficeParts,
  actor: Actor,
  request: SimulationListRequest,
): Promise<Outcome<Page<Simulation>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const { state } = request
  const after = cursorOf(request, parseSimulationId)
  if (after.kind !== 'ok') return after
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  const asked = {
    limit: limit.value,
    ...(state !== undefined && { state }),
    ...(after.value !== undefined && { after: after.value }),
  }
  const page = await listInScope<Simulation, string>(scope.value, {
    limit: limit.value,
    positionOf: ({ id }) => id,
    async list(tenantId) {
      const whose = tenantId && { tenantId }
      const { simulations, next } = await listSimulations(parts.readPool, { ...asked, ...whose })
      return { items: simulations, next }
    },
  })
  return ok(page)
}

async function reachSimulation(
  parts: BackofficeParts,
  actor: Actor,
  id: SimulationId,
  action?: Action,
): Promise<Outcome<Simulation>> {
  const own = actor.kind === 'tenantKey' ? { tenantId: actor.tenantId } : {}
  const simulation = await readSimulation(parts.pool, { id, ...own })
  const reached = await reachTenant(parts, actor, { tenantId: simulation?.tenantId, named: id }, action)
  if (reached.kind !== 'ok') return reached
  return simulation === undefined ? notFound : ok(simulation)
}

async function begin(
  parts: BackofficeParts,
  actor: Actor,
  { tenantId, chargeback: asked, idempotencyKey }: SimulationStart,
): Promise<Outcome<SimulationChanged>> {
  const reached = await reachTenant(parts, actor, tenantId, 'simulate')
  if (reached.kind !== 'ok') return reached
  if (!idempotencyKeyForm.test(idempotencyKey))
    return invalid('The idempotency key has to be 1 to 255 characters of ASCII')
  const chargeback = chargebackOf(asked)
  const readiness = readinessFor(parts.callers, reached.value, chargeback)
  const days = retentionOf(reached.value.retention, parts.retentionDefaults()).eventDays
  const isReady = readiness.kind === 'ready'
  const request = { tenantId, chargeback, by: actorName(actor), idempotencyKey, days, isReady }
  const result = await startSimulation(parts.pool, request, parts.clock.now())
  switch (result.kind) {
    case 'started':
    case 'already_started':
      return ok({ simulation: result.simulation, isNew: result.kind === 'started' })
    case 'conflict':
      return conflict('This idempotency key was used for another simulation: use a new one')
    case 'unknown_tenant':
      return notFound
    case 'not_ready':
      return conflict(readiness.kind === 'notReady' ? readiness.problem : 'This tenant is suspended')
    case 'too_many':
      return {
        kind: 'tooMany',
        problem: `${openPerTenantMax} simulations of this tenant are under way: wait until one of them ends`,
      }
  }
}

async function advance(
  parts: BackofficeParts,
  actor: Actor,
  id: SimulationId,
  eventId: string,
): Promise<Outcome<SimulationChanged>> {
  const reached = await reachSimulation(parts, actor, id, 'simulate')
  if (reached.kind !== 'ok') return reached
  const simulation = reached.value
  const sentCount = simulation.events.findIndex((event) => event.id === eventId)
  if (sentCount < 0) return invalid('This simulation has no event of that id')
  const sent = simulation.events.filter(({ sentAtMs }) => sentAtMs !== null).length
  if (sent > sentCount) return ok({ simulation, isNew: false })
  if (sent < sentCount) return conflict('Another event of this simulation comes first')
  const result = await advanceSimulation(parts.pool, { id, by: actorName(actor), sentCount })
  return result.kind === 'not_found'
    ? notFound
    : ok({ simulation: result.simulation, isNew: result.kind === 'advanced' })
}

async function cancel(
  parts: BackofficeParts,
  actor: Actor,
  id: SimulationId,
): Promise<Outcome<SimulationChanged>> {
  const reached = await reachSimulation(parts, actor, id, 'simulate')
  if (reached.kind !== 'ok') return reached
  const result = await cancelSimulation(parts.pool, { id, by: actorName(actor) })
  return result.kind === 'not_found'
    ? notFound
    : ok({ simulation: result.simulation, isNew: result.kind === 'cancelled' })
}
