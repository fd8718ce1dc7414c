import type { Principal } from '#internal/access/index.ts'
import { type ApiError, apiError, type Clock } from '#internal/base/index.ts'
import {
  type Answer,
  type Call,
  createParser,
  type GuardedRoute,
  type Parsed,
  parseJsonObject,
} from '#internal/http/index.ts'
import type { Callers } from '#internal/intake/index.ts'
import { isMistake, type Pool } from '#internal/storage/index.ts'
import type { ApiKeyScope, DirectoryTenant } from '#internal/tenants/index.ts'
import { stepsCount } from './chargeback.ts'
import { readinessFor } from './readiness.ts'
import { type Chargeback, chargebackOf, SimulateChargebackRequest } from './request.ts'
import {
  createSimulationId,
  eventsOf,
  type SimulatedEvent,
  type Simulation,
  type SimulationId,
} from './simulation.ts'
import { openPerTenantMax, type StartSimulationResult, startSimulation } from './start.ts'

/** What the route works with. */
export interface Simulations {
  readonly pool: Pool
  readonly callers: Pick<Callers, 'byTenant'>
  readonly clock: Clock
  /** Days that a tenant's events are kept, and its simulations with them. */
  eventDaysOf(tenant: DirectoryTenant): number
  /** Told of each that was written down, so that its first event need not wait for a poll. */
  onStarted(): void
}

const bodyBytesMax = 16 * 1024
const parseRequest = createParser(SimulateChargebackRequest)
/** Printable ASCII, as a header's value can be had by any client. */
const idempotencyKeyForm = /^[\x20-\x7e]{1,255}$/
const tooManyRetrySeconds = 60
const unreadableRetrySeconds = 30

/** The route that starts simulations, for API keys of scope `simulations`. */
export function simulationRoutes(simulations: Simulations): readonly GuardedRoute<Principal, ApiKeyScope>[] {
  return [
    {
      method: 'POST',
      path: '/v1/simulate/chargeback',
      access: { scope: 'simulations' },
      bodyBytesMax,
      handle: (call, principal) => simulate(simulations, call, principal),
    },
  ]
}

async function simulate(
  simulations: Simulations,
  call: Call,
  { tenant, key }: Principal,
): Promise<Answer | ApiError> {
  const parsed = parseBody(call.body)
  if (parsed.kind === 'error') return parsed
  const idempotencyKey = call.request.headers.get('idempotency-key') ?? undefined
  if (idempotencyKey !== undefined && !idempotencyKeyForm.test(idempotencyKey)) {
    return apiError('invalid_request', 'The header Idempotency-Key must be 1 to 255 characters of ASCII')
  }
  const chargeback = chargebackOf(parsed.value)
  const notReady = refuse(simulations.callers, tenant, chargeback)
  // A repeat is told what was started, whatever has changed since.
  if (notReady && (parsed.value.dryRun || idempotencyKey === undefined)) return notReady
  const nowMs = simulations.clock.now()
  if (parsed.value.dryRun) return rehearse(chargeback, nowMs)
  const request = {
    ...{ tenantId: tenant.id, chargeback, by: `key:${key.name}`, idempotencyKey },
    days: simulations.eventDaysOf(tenant),
    isReady: notReady === undefined,
  }
  try {
    const started = await startSimulation(simulations.pool, request, nowMs)
    if (started.kind === 'started') simulations.onStarted()
    return answerOf(started, notReady)
  } catch (error) {
    if (isMistake(error)) throw error
    return apiError('database_unavailable', undefined, { 'Retry-After': '1' })
  }
}

function parseBody(body: Uint8Array): Parsed<SimulateChargebackRequest> {
  const json = parseJsonObject(body)
  return json.kind === 'error' ? json : parseRequest(json.value)
}

/** Why a tenant cannot have a simulation of this provider; undefined when it can. */
function refuse(
  callers: Simulations['callers'],
  tenant: DirectoryTenant,
  chargeback: Chargeback,
): ApiError | undefined {
  const readiness = readinessFor(callers, tenant, chargeback)
  if (readiness.kind === 'notReady') return apiError('provider_not_ready', readiness.problem)
  if (readiness.kind === 'unreadable')
    return apiError('secrets_unreadable', undefined, { 'Retry-After': String(unreadableRetrySeconds) })
  return readiness.kind === 'suspended' ? apiError('tenant_suspended') : undefined
}

/** What would be answered; its ids name nothing. */
function rehearse(chargeback: Chargeback, nowMs: number): Answer {
  const id = createSimulationId(nowMs)
  const dueAtMs = Array.from(
    { length: stepsCount },
    (_none, step) => nowMs + step * chargeback.stepSeconds * 1000,
  )
  const events = eventsOf(id, chargeback, { dueAtMs, sentAtMs: [] })
  return accepted({ id, events }, 'rehearsed', { dryRun: true })
}

/** `notReady` is why nothing new may begin. */
function answerOf(result: StartSimulationResult, notReady: ApiError | undefined): Answer | ApiError {
  switch (result.kind) {
    case 'started':
      return accepted(result.simulation, 'started')
    case 'already_started':
      return { ...accepted(result.simulation, 'replayed'), headers: { 'Idempotent-Replayed': 'true' } }
    case 'conflict':
      return apiError('idempotency_key_reused')
    case 'too_many':
      return apiError('too_many_simulations', undefined, {
        'Retry-After': String(tooManyRetrySeconds),
        RateLimit: `"simulations-open";r=0;t=${tooManyRetrySeconds}`,
        'RateLimit-Policy': `"simulations-open";q=${openPerTenantMax}`,
      })
    case 'unknown_tenant':
      return apiError('api_key_invalid')
    case 'not_ready':
      return notReady ?? apiError('provider_not_ready')
  }
}

interface Shown {
  readonly id: SimulationId
  readonly events: Simulation['events']
}

function accepted({ id, events }: Shown, outcome: string, more: object = {}): Answer {
  const shown = events.map(({ id: eventId, type, dueAtMs }: SimulatedEvent) => ({
    id: eventId,
    type,
    dueAt: new Date(dueAtMs).toISOString(),
  }))
  const body = JSON.stringify({ ok: true, simulationId: id, events: shown, ...more })
  return { kind: 'answer', status: 202, body, outcome, log: { simulation: id } }
}
