import { Type as t } from '@sinclair/typebox'
import { executionStates } from '#internal/records/index.ts'
import {
  parseSimulationId,
  SimulateChargebackRequest,
  simulationStates,
} from '#internal/simulations/index.ts'
import { type Param, pageParams, textParam, timeParam, whoseParams, wordParam } from './http-params.ts'
import { type InternalRow, internalRow } from './http-row.ts'
import { notFound, ok } from './outcome.ts'

const strict = { additionalProperties: false }
const tenant = '/internal/v1/tenants/:tenantId'
const simulation = '/internal/v1/simulations/:simulationId'

/** Parameters of the list of simulations. */
export const simulationListParams = {
  ...pageParams,
  ...whoseParams,
  state: wordParam('Where it stands.', simulationStates),
} as const

/** Parameters of the list of executions. */
export const executionListParams = {
  ...pageParams,
  scope: textParam('A scope, whole.', { charsMax: 128 }),
  key: textParam('A key, whole; only together with `scope`.', { charsMax: 255 }),
  state: wordParam('How it stands.', executionStates),
  from: timeParam('Acquired then or later.'),
  to: timeParam('Acquired earlier than that.'),
} as const

const version: Param<number> = {
  parse: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined),
  expected: 'a whole number',
  description: 'The version that was seen: with another one there now it is 409, and nothing is changed.',
  schema: { type: 'string', pattern: '^[0-9]{1,15}$' },
}

/** Parameters of the clearing of a setting. */
export const settingClearParams = { expectedVersion: version } as const

/** What a setting is to be. */
export const SettingBody = t.Object(
  {
    value: t.Union([t.Boolean(), t.Number(), t.String({ maxLength: 256 })], {
      description: 'What it is to be; which values it may have stands in the list of settings.',
    }),
    expectedVersion: t.Optional(
      t.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'The version that was seen, 0 for one that was not set: with another one there now it is 409.',
      }),
    ),
  },
  strict,
)

const { dryRun: _dryRun, ...chargeback } = SimulateChargebackRequest.properties

/** What is simulated. */
export const SimulationBody = t.Object(chargeback, strict)

/** Which event of a simulation is to come now. */
export const AdvanceBody = t.Object(
  {
    event: t.String({
      pattern: '^[!-~]+$',
      maxLength: 128,
      description:
        'The id of the event that comes next: a repeat, when it has come, does not hasten the one after it.',
    }),
  },
  strict,
)

/** Rows about settings: of the installation, and of a tenant. */
export const settingRows: readonly InternalRow[] = [
  ...settingRowsAt('/internal/v1/settings', false),
  ...settingRowsAt(`${tenant}/settings`, true),
]

function settingRowsAt(path: string, isOfTenant: boolean): InternalRow[] {
  return [
    internalRow({
      ...{ method: 'GET', path },
      async act({ backoffice, actor, tenantId }) {
        const listed = await backoffice.settings.list(actor, isOfTenant ? tenantId : null)
        if (listed.kind !== 'ok') return listed
        const items = listed.value.map(({ name, definition, stored, value }) => ({
          ...{ name, value, default: definition.default },
          ...{ expected: definition.expected, description: definition.doc },
          version: stored?.version ?? 0,
          updatedAtMs: stored?.updatedAtMs,
          updatedBy: stored?.updatedBy,
        }))
        return ok({ items })
      },
    }),
    internalRow({
      ...{ method: 'PUT', path: `${path}/:name`, body: SettingBody },
      act: ({ backoffice, actor, tenantId, params, body }) =>
        backoffice.settings.write(actor, {
          ...body,
          name: params['name'] ?? '',
          tenantId: isOfTenant ? tenantId : null,
        }),
    }),
    internalRow({
      ...{ method: 'DELETE', path: `${path}/:name`, query: settingClearParams },
      act: ({ backoffice, actor, tenantId, params, query }) =>
        backoffice.settings.clear(actor, {
          ...query,
          name: params['name'] ?? '',
          tenantId: isOfTenant ? tenantId : null,
        }),
    }),
  ]
}

/** Rows about simulations. */
export const simulationRows: readonly InternalRow[] = [
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/simulations', query: simulationListParams },
    act: ({ backoffice, actor, query: { tenant: tenantId, ...query } }) =>
      backoffice.simulations.list(actor, { ...query, tenantId }),
  }),
  internalRow({
    ...{ method: 'POST', path: `${tenant}/simulations`, body: SimulationBody, idempotencyKey: 'required' },
    act: ({ backoffice, actor, tenantId, body, idempotencyKey }) =>
      backoffice.simulations.start(actor, { tenantId, chargeback: body, idempotencyKey }),
  }),
  internalRow({
    ...{ method: 'GET', path: simulation },
    async act({ backoffice, actor, params }) {
      const id = parseSimulationId(params['simulationId'] ?? '')
      return id === undefined ? notFound : backoffice.simulations.read(actor, id)
    },
  }),
  internalRow({
    ...{ method: 'POST', path: `${simulation}/advance`, body: AdvanceBody },
    async act({ backoffice, actor, params, body: { event } }) {
      const id = parseSimulationId(params['simulationId'] ?? '')
      return id === undefined ? notFound : backoffice.simulations.advance(actor, id, event)
    },
  }),
  internalRow({
    ...{ method: 'POST', path: `${simulation}/cancel` },
    async act({ backoffice, actor, params }) {
      const id = parseSimulationId(params['simulationId'] ?? '')
      return id === undefined ? notFound : backoffice.simulations.cancel(actor, id)
    },
  }),
]

/** Rows about executions. */
export const executionRows: readonly InternalRow[] = [
  internalRow({
    ...{ method: 'GET', path: `${tenant}/executions`, query: executionListParams },
    act: ({ backoffice, actor, tenantId, query: { from, to, ...query } }) =>
      backoffice.executions.list(actor, { ...query, tenantId, fromMs: from, toMs: to }),
  }),
]
