import type { Principal } from '#internal/access/index.ts'
import { type ApiError, apiError, idPattern } from '#internal/base/index.ts'
import {
  type Answer,
  idempotencyKeyParam,
  named,
  type ParsedCall,
  readIdempotencyKey,
  route,
} from '#internal/http/index.ts'
import { isMistake, type Pool } from '#internal/storage/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type EventSimulationParts, eventSimulationRoute } from './event.ts'
import {
  chargebackOf,
  rehearseSimulation,
  SimulateChargebackRequest,
  type Simulation,
  simulationBytesMax,
} from './simulation.ts'
import { openPerTenantMax, refuseUnready, type StartSimulationResult, startSimulation } from './start.ts'

/** Dependencies of the simulation routes. */
export interface Simulations extends EventSimulationParts {
  readonly pool: Pool
  /** Retention of a tenant's events in days. Its simulations have the same retention. */
  eventDaysOf(tenant: DirectoryTenant): number
  /** Called after a simulation is stored, to send its first event before the next poll. */
  onStarted(): void
}

const tooManyRetrySeconds = 60

const SimulationAnswer = named('SimulationAnswer', {
  type: 'object',
  required: ['ok', 'simulationId', 'events'],
  properties: {
    ok: { type: 'boolean', const: true },
    simulationId: {
      type: 'string',
      pattern: idPattern('sim'),
      description: 'Value of `latchkey-simulation` among the `headers` of forwarded events.',
    },
    events: {
      type: 'array',
      minItems: 3,
      maxItems: 3,
      description: 'In order of their times.',
      items: {
        type: 'object',
        required: ['id', 'type', 'dueAt'],
        properties: {
          id: {
            type: 'string',
            description: 'The provider’s id of the event: `payload.id` at the callback.',
          },
          type: { type: 'string', description: 'Normalized type, as sent to the callback.' },
          dueAt: {
            type: 'string',
            format: 'date-time',
            pattern: 'Z$',
            description: 'Time at which it is sent. UTC.',
          },
        },
      },
    },
    dryRun: {
      type: 'boolean',
      const: true,
      description: 'Nothing was stored, and the ids refer to nothing.',
    },
  },
})

const cardId = '06gzx3byyxdccqxb8v47jbp37g'
const walletId = '06gzx3byyxdfk8x2n5v9m1s4tr'
const cardEventId = (step: number) => `evt_sim_${cardId}_${step}`
const walletEventId = (step: number) => `WH-SIM-${walletId.toUpperCase()}-${step}`
const example = (
  id: string,
  eventId: (step: number) => string,
  dueSeconds: readonly number[],
  outcome: string,
) => ({
  ok: true,
  simulationId: `sim_${id}`,
  events: ['created', 'under_review', outcome].map((type, step) => ({
    id: eventId(step + 1),
    type: `chargeback.${type}`,
    dueAt: `2026-11-21T14:40:${dueSeconds[step]}.375Z`,
  })),
})

/** Routes that start simulations, for API keys of scope `simulations`. */
export const simulationRoutes = [
  eventSimulationRoute,
  route({
    method: 'POST',
    path: '/v1/simulate/chargeback',
    scope: 'simulations',
    body: SimulateChargebackRequest,
    bodyBytesMax: () => simulationBytesMax,
    operation: {
      id: 'simulateChargeback',
      tag: 'simulations',
      summary: 'Simulate a dispute and send its events to the callback',
      description: `Three events, each sent when it is due: \`chargeback.created\` at once, then \`chargeback.under_review\`, then \`chargeback.won\` or \`chargeback.lost\`. Each has the provider's format and signature and takes the way of a real call: verification, deduplication, usage, log and delivery. \`card\` is signed with the tenant's own secret, \`wallet\` with a key that nothing else trusts. While the tenant verifies \`wallet\` (stage \`verify\`), events are stored and not forwarded.

A forwarded event of a simulation has \`latchkey-origin: simulation\` and \`latchkey-simulation: <simulationId>\` among its \`headers\`, which no outside call can cause, and its payload's id is the event's \`id\` in this answer. An event that meets a limit or a pause is retried later; an event that is seven days late is abandoned with its simulation.

With an \`Idempotency-Key\` a repeated call returns the same simulation, with \`Idempotent-Replayed: true\`, as long as events of the tenant are kept. Without one each call starts another simulation. A dry run takes no key.`,
      parameters: [
        idempotencyKeyParam({
          required: false,
          description: 'Your name for this call: ASCII. The same key with another request is 422.',
          examples: { card: { value: 'drill-2026-11-21' } },
        }),
      ],
      examples: {
        card: {
          summary: 'A lost dispute, one event per second',
          value: { amount: 4200, currency: 'EUR' },
        },
        wallet: {
          summary: 'A won dispute of the wallet provider, one event per 10 s',
          value: {
            provider: 'wallet',
            amount: 4200,
            currency: 'EUR',
            reason: 'product_not_received',
            reference: 'order-1042',
            outcome: 'won',
            stepSeconds: 10,
          },
        },
        dryRun: {
          summary: 'Return the events without starting a simulation',
          value: { amount: 4200, currency: 'EUR', stepSeconds: 0, dryRun: true },
        },
      },
      answers: {
        202: {
          description: 'The simulation is stored; a dry run stores nothing.',
          schema: SimulationAnswer,
          headers: ['Idempotent-Replayed'],
          examples: {
            card: { value: example(cardId, cardEventId, [48, 49, 50], 'lost') },
            wallet: { value: example(walletId, walletEventId, [30, 40, 50], 'won') },
            dryRun: { value: { ...example(cardId, cardEventId, [48, 48, 48], 'lost'), dryRun: true } },
          },
        },
      },
      errors: [
        'invalid_request',
        'api_key_invalid',
        'api_key_scope',
        'tenant_suspended',
        'provider_not_ready',
        'idempotency_key_reused',
        'too_many_simulations',
        'internal',
        'database_unavailable',
        'secrets_unreadable',
        'starting',
        'body_dropped',
        'overloaded',
      ],
      errorTexts: {
        409: 'The tenant takes no calls of this provider: it is not set up, not rolled out (`wallet`), or none of its secrets is in force.',
        422: 'The `Idempotency-Key` was used with another request.',
        429: `The tenant has ${openPerTenantMax} unfinished simulations.`,
        503: 'This process, or the database, cannot answer now. With an `Idempotency-Key` the call may be repeated.',
      },
    },
    handle: simulate,
  }),
]

async function simulate(
  { call, body }: ParsedCall<typeof SimulateChargebackRequest>,
  { tenant, key }: Principal,
  simulations: Simulations,
): Promise<Answer | ApiError> {
  const idempotencyKey = readIdempotencyKey(call.request)
  if (typeof idempotencyKey === 'object') return idempotencyKey
  const chargeback = chargebackOf(body)
  const notReady = refuseUnready(simulations.callers, tenant, chargeback)
  // A repeat returns the existing simulation, even if the tenant or provider is no longer ready.
  if (notReady && (body.dryRun || idempotencyKey === undefined)) return notReady
  const nowMs = simulations.clock.now()
  const asked = { tenantId: tenant.id, chargeback, by: `key:${key.name}` }
  if (body.dryRun) return accepted(rehearseSimulation(asked, nowMs), 'rehearsed', { dryRun: true })
  const request = {
    ...asked,
    idempotencyKey,
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

/** @param notReady error that applies to new simulations only */
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

function accepted({ simulationId, events }: Simulation, outcome: string, more: object = {}): Answer {
  const shown = events.map(({ id, type, dueAtMs }) => ({ id, type, dueAt: new Date(dueAtMs).toISOString() }))
  const body = JSON.stringify({ ok: true, simulationId, events: shown, ...more })
  return { kind: 'answer', status: 202, body, outcome, log: { simulation: simulationId } }
}
