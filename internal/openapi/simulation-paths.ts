import { type ErrorCode, idPattern } from '#internal/base/index.ts'
import { openPerTenantMax, SimulateChargebackRequest } from '#internal/simulations/index.ts'
import { errorAnswers } from './errors.ts'
import { type JsonSchema, toJsonSchema } from './json-schema.ts'
import { jsonAnswer, jsonBody, type Operation, type Paths, schemaRef } from './openapi.ts'

const errors: readonly ErrorCode[] = [
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
]

const errorTexts: Readonly<Record<string, string>> = {
  '409':
    'The tenant takes no calls of this provider: it is not set up, not rolled out (`wallet`), or none of its secrets is in force.',
  '422': 'The `Idempotency-Key` was used with another request.',
  '429': `The tenant has ${openPerTenantMax} simulations under way.`,
  '503':
    'This process, or the database, cannot answer now. With an `Idempotency-Key` the call may be repeated.',
}

const cardId = '06gzx3byyxdccqxb8v47jbp37g'
const walletId = '06gzx3byyxdfk8x2n5v9m1s4tr'
const at = (second: string) => `2026-11-21T14:40:${second}.375Z`

const example = (name: string, ids: (step: number) => string, dueAt: readonly string[], outcome: string) => ({
  ok: true,
  simulationId: `sim_${name}`,
  events: ['created', 'under_review', outcome].map((type, step) => ({
    id: ids(step + 1),
    type: `chargeback.${type}`,
    dueAt: dueAt[step],
  })),
})

const walletEventId = (step: number) => `WH-SIM-${walletId.toUpperCase()}-${step}`

const simulateChargeback: Operation = {
  operationId: 'simulateChargeback',
  summary: 'Have a made-up dispute’s events sent to the callback',
  description: `Three events, one after the other, each when it is due: \`chargeback.created\` at once, then \`chargeback.under_review\`, then \`chargeback.won\` or \`chargeback.lost\`. Each is written as the provider writes it, signed, and comes in as if the provider had called: verified by the same code, told from duplicates, counted as usage, logged and forwarded. \`card\` is signed with the tenant's own secret, \`wallet\` with a certificate that nobody else trusts. While \`wallet\` is only tried out by a tenant (stage \`verify\`), they are stored and not forwarded.

A forwarded event of a simulation has \`latchkey-simulation: <simulationId>\` among its \`headers\`, which no call from outside can bring about, and the payload's id is the event's \`id\` in this answer. What a provider would be told to send again later (a limit, a pause) is sent again later; an event that has been due for seven days is given up, and with it its simulation.

With an \`Idempotency-Key\` a repeated call gets the same simulation, with \`Idempotent-Replayed: true\`, for as long as events of the tenant are kept. Without one each call is another simulation. A dry run takes no key.`,
  tags: ['simulations'],
  security: [{ apiKey: [] }],
  parameters: [
    {
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description: 'Your name for this call: ASCII. The same one with another request is 422.',
      schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[ -~]+$' },
      examples: { card: { value: 'drill-2026-11-21' } },
    },
  ],
  requestBody: jsonBody(schemaRef('SimulateChargebackRequest'), {
    card: {
      summary: 'A dispute that is lost, an event each second',
      value: { amount: 4200, currency: 'EUR' },
    },
    wallet: {
      summary: 'A dispute of the wallet provider that is won, an event each 10 s',
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
      summary: 'Only say what would come',
      value: { amount: 4200, currency: 'EUR', stepSeconds: 0, dryRun: true },
    },
  }),
  responses: {
    '202': jsonAnswer(
      'The simulation is written down; or, in a dry run, nothing is.',
      schemaRef('SimulationAnswer'),
      {
        card: {
          value: example(
            cardId,
            (step) => `evt_sim_${cardId}_${step}`,
            [at('48'), at('49'), at('50')],
            'lost',
          ),
        },
        wallet: { value: example(walletId, walletEventId, [at('30'), at('40'), at('50')], 'won') },
        dryRun: {
          value: {
            ...example(cardId, (step) => `evt_sim_${cardId}_${step}`, [at('48'), at('48'), at('48')], 'lost'),
            dryRun: true,
          },
        },
      },
      ['Idempotent-Replayed'],
    ),
    ...Object.fromEntries(
      Object.entries(errorAnswers(errors)).map(([status, answer]) => [
        status,
        { ...answer, description: errorTexts[status] ?? answer.description },
      ]),
    ),
  },
}

/** The route of the public contract that starts simulations. */
export const simulationPaths: Paths = { '/v1/simulate/chargeback': { post: simulateChargeback } }

/** Its schemas, by the names they bear in the document. */
export const simulationSchemas: Readonly<Record<string, JsonSchema>> = {
  SimulateChargebackRequest: toJsonSchema(SimulateChargebackRequest),
  SimulationAnswer: {
    type: 'object',
    required: ['ok', 'simulationId', 'events'],
    properties: {
      ok: { type: 'boolean', const: true },
      simulationId: {
        type: 'string',
        pattern: idPattern('sim'),
        description: 'The value of `latchkey-simulation` among the `headers` of forwarded events.',
      },
      events: {
        type: 'array',
        minItems: 3,
        maxItems: 3,
        description: 'In their order.',
        items: {
          type: 'object',
          required: ['id', 'type', 'dueAt'],
          properties: {
            id: {
              type: 'string',
              description: 'The provider’s id of the event: `payload.id` of what the callback gets.',
            },
            type: { type: 'string', description: 'Normalized, as the callback gets it.' },
            dueAt: {
              type: 'string',
              format: 'date-time',
              pattern: 'Z$',
              description: 'When it is sent. UTC.',
            },
          },
        },
      },
      dryRun: { type: 'boolean', const: true, description: 'Nothing was written, and the ids name nothing.' },
    },
  },
}
