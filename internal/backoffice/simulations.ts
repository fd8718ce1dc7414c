import { type Action, type Actor, actorName } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  advanceSimulation,
  cancelSimulation,
  chargebackOf,
  listSimulations,
  openPerTenantMax,
  parseSimulationId,
  type Readiness,
  readinessFor,
  readSimulation,
  rehearseSimulation,
  type SimulateChargebackRequest,
  type Simulation,
  type SimulationId,
  type SimulationState,
  startSimulation,
} from '#internal/simulations/index.ts'
import { retentionOf } from '#internal/tenants/index.ts'
import type { SimulationChanged, SimulationStarted } from './http-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import {
  conflict,
  defined,
  invalid,
  keyReused,
  notFound,
  type Outcome,
  ok,
  providerNotReady,
  type Refusal,
  secretsUnreadable,
} from './outcome.ts'
import { listPage, type Page, type PageRequest } from './page.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { ownTenant, reachTenant, type TenantSelection } from './reach.ts'

/** Newest first. */
const list: UseCase<
  PageRequest &
    TenantSelection & {
      readonly state?: SimulationState | undefined
    },
  Page<Simulation>
> = (parts, actor, request) => {
  const { state } = request
  return listPage<Simulation, SimulationId>(parts, actor, request, {
    parse: parseSimulationId,
    positionOf: ({ simulationId }) => simulationId,
    async read({ limit, after, ...owner }) {
      const filter = { limit, ...owner, ...defined({ after, state }) }
      const { simulations, next } = await listSimulations(parts.readPool, filter)
      return { items: simulations, next }
    },
  })
}

async function read(
  parts: DeskParts,
  actor: Actor,
  id: SimulationId,
  action?: Action,
): Promise<Outcome<Simulation>> {
  const simulation = await readSimulation(parts.pool, { id, ...ownTenant(actor) })
  const reached = await reachTenant(parts, actor, { tenantId: simulation?.tenantId, named: id }, action)
  if (reached.kind !== 'ok') return reached
  return simulation === undefined ? notFound : ok(simulation)
}

const idempotencyKeyForm = /^[\x20-\x7e]{1,255}$/

/** Starts a simulation. A dry run only returns what would start, and ignores the idempotency key. */
const start: UseCase<
  {
    readonly tenantId: TenantId
    readonly chargeback: SimulateChargebackRequest
    /** 1 to 255 ASCII characters. Requests with the same key return the same simulation. */
    readonly idempotencyKey: string
  },
  ValueOf<typeof SimulationStarted>
> = async (parts, actor, request) => {
  const { tenantId, chargeback: asked, idempotencyKey } = request
  const reached = await reachTenant(parts, actor, tenantId, 'simulate')
  if (reached.kind !== 'ok') return reached
  if (!idempotencyKeyForm.test(idempotencyKey))
    return invalid('The idempotency key must have 1 to 255 ASCII characters')
  const chargeback = chargebackOf(asked)
  const readiness = readinessFor(parts.callers, reached.value, chargeback)
  const by = actorName(actor)
  const nowMs = parts.clock.now()
  if (asked.dryRun) {
    const simulation = rehearseSimulation({ tenantId, chargeback, by }, nowMs)
    return readiness.kind === 'ready' ? ok({ simulation, isNew: true, dryRun: true }) : refusalOf(readiness)
  }
  const days = retentionOf(reached.value.retention, parts.retentionDefaults()).eventDays
  const isReady = readiness.kind === 'ready'
  const simulation = { tenantId, chargeback, by, idempotencyKey, days, isReady }
  const result = await startSimulation(parts.pool, simulation, nowMs)
  switch (result.kind) {
    case 'started':
    case 'already_started':
      return ok({ simulation: result.simulation, isNew: result.kind === 'started' })
    case 'conflict':
      return keyReused('This idempotency key was used for another simulation: use a new one')
    case 'unknown_tenant':
      return notFound
    case 'not_ready':
      return refusalOf(readiness)
    case 'too_many':
      return {
        kind: 'tooMany',
        code: 'too_many_simulations',
        problem: `${openPerTenantMax} simulations of this tenant are running: wait until one of them ends`,
      }
  }
}

function refusalOf(readiness: Readiness): Refusal {
  switch (readiness.kind) {
    case 'notReady':
      return providerNotReady(readiness.problem)
    case 'unreadable':
      return secretsUnreadable
    default:
      return conflict(
        'This tenant is suspended, so no event can be simulated: ask the platform team to resume it',
      )
  }
}

/** Makes the next event due immediately. The request names the event, so that a repeated request does not advance the following event. */
async function advance(
  parts: DeskParts,
  actor: Actor,
  id: SimulationId,
  sourceEventId: string,
): Promise<Outcome<ValueOf<typeof SimulationChanged>>> {
  const reached = await read(parts, actor, id, 'simulate')
  if (reached.kind !== 'ok') return reached
  const simulation = reached.value
  const sentCount = simulation.events.findIndex((event) => event.id === sourceEventId)
  if (sentCount < 0) return invalid('must be the id of an event of this simulation', 'sourceEventId')
  const sent = simulation.events.filter(({ sentAtMs }) => sentAtMs !== null).length
  if (sent > sentCount) return ok({ simulation, isNew: false })
  if (sent < sentCount)
    return conflict('An earlier event of this simulation has not been sent yet: send that one first')
  const result = await advanceSimulation(
    parts.pool,
    { id, by: actorName(actor), sentCount },
    parts.clock.now(),
  )
  return result.kind === 'not_found'
    ? notFound
    : ok({ simulation: result.simulation, isNew: result.kind === 'advanced' })
}

async function cancel(
  parts: DeskParts,
  actor: Actor,
  id: SimulationId,
): Promise<Outcome<ValueOf<typeof SimulationChanged>>> {
  const reached = await read(parts, actor, id, 'simulate')
  if (reached.kind !== 'ok') return reached
  const result = await cancelSimulation(parts.pool, { id, by: actorName(actor) }, parts.clock.now())
  return result.kind === 'not_found'
    ? notFound
    : ok({ simulation: result.simulation, isNew: result.kind === 'cancelled' })
}

export const simulationCases = { list, read, start, advance, cancel }
