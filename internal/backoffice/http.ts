import { Type as t } from '@sinclair/typebox'
import { integerParam, wordParam } from '#internal/http/index.ts'
import type { ListedSetting } from '#internal/settings/index.ts'
import {
  parseSimulationId,
  SimulateChargebackRequest,
  simulationBytesMax,
  simulationStates,
} from '#internal/simulations/index.ts'
import {
  Setting,
  SettingChanged,
  SettingCleared,
  Settings,
  Simulation,
  SimulationChanged,
  SimulationPage,
  SimulationStarted,
  TenantSettings,
} from './http-answers.ts'
import { internalApi, internalRoute, publicApi } from './http-apis.ts'
import { eventRoutes, ingestRoutes } from './http-events.ts'
import { listText, pageParams, settingParam, tenantParams, withNamed } from './http-params.ts'
import { replayRoutes } from './http-replays.ts'
import { pullRoutes, subscriptionRoutes } from './http-subscriptions.ts'
import { refusedCallsRoute, tenantRoutes } from './http-tenants.ts'
import { readUsageRoute, usageRoutes } from './http-usage.ts'
import { ok } from './outcome.ts'

const strict = { additionalProperties: false }
const tenant = '/internal/v1/tenants/:tenantId'
const simulation = '/internal/v1/simulations/:simulationId'

const versions = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const versionText =
  'Expected version, or 0 for a setting that is not set. If the stored version differs, the call returns 409 and changes nothing.'

const SettingBody = t.Object(
  {
    value: t.Union([t.Boolean(), t.Number(), t.String({ maxLength: 256 })], {
      description: 'New value. The list of settings contains the allowed values.',
    }),
    expectedVersion: t.Optional(t.Integer({ ...versions, description: versionText })),
  },
  strict,
)

/** Owner of runtime settings, as the names of API operations contain it. */
type SettingOwner = 'Installation' | 'Tenant'

function settingsOf(kind: SettingOwner) {
  const isOfTenant = kind === 'Tenant'
  return {
    isOfTenant,
    owner: isOfTenant ? 'a tenant' : 'the installation',
    scope: isOfTenant ? {} : ({ isForAllTenants: true } as const),
    named: { pathParams: { name: settingParam(isOfTenant) } },
  }
}

function settingReadRoutes(path: string, kind: SettingOwner) {
  const { isOfTenant, owner, scope, named } = settingsOf(kind)
  return [
    internalRoute({
      method: 'GET',
      path,
      id: `list${kind}Settings`,
      tag: 'settings',
      answer: Settings,
      right: 'see',
      ...scope,
      summary: `Runtime settings of ${owner}`,
      description: 'A setting that is not set has its default as `value`.',
      async act({ backoffice, actor, tenantId }) {
        const listed = await backoffice.settings.list(actor, isOfTenant ? tenantId : null)
        if (listed.kind !== 'ok') return listed
        return ok({ items: listed.value.map(shownSetting) })
      },
    }),
    internalRoute({
      method: 'GET',
      path: `${path}/:name`,
      id: `read${kind}Setting`,
      tag: 'settings',
      ...named,
      answer: Setting,
      right: 'see',
      ...scope,
      summary: `One runtime setting of ${owner}`,
      description: 'A setting that is not set has its default as `value`, and the version 0.',
      async act({ backoffice, actor, tenantId, params: { name = '' } }) {
        const read = await backoffice.settings.read(actor, { name, tenantId: isOfTenant ? tenantId : null })
        return read.kind === 'ok' ? ok(shownSetting(read.value)) : read
      },
    }),
  ]
}

function settingWriteRoutes(path: string, kind: SettingOwner) {
  const { isOfTenant, owner, scope, named } = settingsOf(kind)
  return [
    internalRoute({
      method: 'PUT',
      path: `${path}/:name`,
      id: `write${kind}Setting`,
      tag: 'settings',
      ...named,
      answer: SettingChanged,
      errors: ['conflict'],
      summary: `Set a runtime setting of ${owner}`,
      right: 'changeSettings',
      ...scope,
      description: 'Takes effect in every process within 2 s.',
      body: SettingBody,
      example: { value: true, expectedVersion: 0 },
      act: ({ backoffice, actor, tenantId, params, body }) =>
        backoffice.settings.write(actor, {
          ...body,
          name: params['name'] ?? '',
          tenantId: isOfTenant ? tenantId : null,
        }),
    }),
    internalRoute({
      method: 'DELETE',
      path: `${path}/:name`,
      id: `clear${kind}Setting`,
      tag: 'settings',
      ...named,
      answer: SettingCleared,
      errors: ['conflict'],
      summary: `Clear a runtime setting of ${owner}, so that its default applies`,
      right: 'changeSettings',
      ...scope,
      description: 'Takes effect in every process within 2 s.',
      query: { expectedVersion: integerParam(versionText, versions) },
      act: ({ backoffice, actor, tenantId, params, query }) =>
        backoffice.settings.clear(actor, {
          ...query,
          name: params['name'] ?? '',
          tenantId: isOfTenant ? tenantId : null,
        }),
    }),
  ]
}

const tenantSettingsRoute = internalRoute({
  method: 'GET',
  path: '/internal/v1/tenant-settings',
  id: 'listTenantsSettings',
  tag: 'settings',
  answer: TenantSettings,
  right: 'see',
  isForAllTenants: true,
  summary: 'Runtime settings that tenants have of their own, by tenant',
  async act({ backoffice, actor }) {
    const listed = await backoffice.settings.listOfTenants(actor, null)
    if (listed.kind !== 'ok') return listed
    const items = listed.value.map(({ tenantId, stored, ...rest }) => ({
      tenantId,
      ...shownSetting({ ...rest, stored }),
      updatedAtMs: stored.updatedAtMs,
      updatedBy: stored.updatedBy,
    }))
    return ok({ items })
  },
})

function shownSetting({ name, definition, stored, value }: ListedSetting) {
  return {
    name,
    value,
    default: definition.default,
    expected: definition.expected,
    description: definition.doc,
    version: stored?.version ?? 0,
    updatedAtMs: stored?.updatedAtMs,
    updatedBy: stored?.updatedBy,
  }
}

const simulationRoutes = [
  internalRoute({
    method: 'GET',
    path: '/internal/v1/simulations',
    id: 'listSimulations',
    tag: 'simulations',
    answer: SimulationPage,
    summary: 'Simulations, newest first',
    right: 'see',
    description: listText,
    query: {
      ...pageParams,
      ...tenantParams,
      state: wordParam('State of the simulation.', simulationStates),
    },
    act: ({ backoffice, actor, query }) => backoffice.simulations.list(actor, query),
  }),
  internalRoute({
    method: 'POST',
    path: `${tenant}/simulations`,
    id: 'startSimulation',
    tag: 'simulations',
    answer: SimulationStarted,
    status: 202,
    idempotencyKey: 'required',
    errors: [
      'conflict',
      'provider_not_ready',
      'idempotency_key_reused',
      'too_many_simulations',
      'secrets_unreadable',
    ],
    summary: 'Simulate a dispute and send its events to the callback',
    right: 'simulate',
    description:
      'Its events have the provider’s format and signature and take the way of a real call. A dry run stores nothing and ignores the `Idempotency-Key`.',
    answerText:
      'Started, by this call or by an earlier one; its events are sent after this response. With `dryRun` nothing is started or stored: the answer has `dryRun`, and its ids refer to nothing.',
    body: SimulateChargebackRequest,
    bodyBytesMax: simulationBytesMax,
    example: { amount: 4200, currency: 'EUR', stepSeconds: 60 },
    act: ({ backoffice, actor, tenantId, body, idempotencyKey }) =>
      backoffice.simulations.start(actor, { tenantId, chargeback: body, idempotencyKey }),
  }),
  internalRoute({
    method: 'GET',
    path: simulation,
    id: 'readSimulation',
    tag: 'simulations',
    answer: Simulation,
    summary: 'A simulation with its events',
    right: 'see',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'simulationId', params, parse: parseSimulationId }, (id) =>
        backoffice.simulations.read(actor, id),
      ),
  }),
  internalRoute({
    method: 'POST',
    path: `${simulation}/advance`,
    id: 'advanceSimulation',
    tag: 'simulations',
    answer: SimulationChanged,
    status: 202,
    errors: ['conflict'],
    summary: 'Send the next event now',
    right: 'simulate',
    body: t.Object(
      {
        sourceEventId: t.String({
          pattern: '^[!-~]+$',
          maxLength: 128,
          expected: 'an event’s id: 1 to 128 printable ASCII characters without spaces',
          description:
            'The provider’s id of the next event: `id` in `events`. If that event was already sent, a repeated request does not advance the following event.',
        }),
      },
      strict,
    ),
    example: { sourceEventId: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_2' },
    act: ({ backoffice, actor, params, body: { sourceEventId } }) =>
      withNamed({ name: 'simulationId', params, parse: parseSimulationId }, (id) =>
        backoffice.simulations.advance(actor, id, sourceEventId),
      ),
  }),
  internalRoute({
    method: 'POST',
    path: `${simulation}/cancel`,
    id: 'cancelSimulation',
    tag: 'simulations',
    answer: SimulationChanged,
    summary: 'Cancel a simulation: no further event is sent',
    right: 'simulate',
    description: 'Events that were sent stay sent. A simulation that has ended stays as it is.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'simulationId', params, parse: parseSimulationId }, (id) =>
        backoffice.simulations.cancel(actor, id),
      ),
  }),
]

/** Routes of the internal API. */
export const internalRoutes = [
  ...tenantRoutes,
  ...usageRoutes,
  ...eventRoutes(internalApi),
  ...ingestRoutes,
  ...replayRoutes(internalApi),
  ...subscriptionRoutes(internalApi),
  ...settingReadRoutes('/internal/v1/settings', 'Installation'),
  ...settingWriteRoutes('/internal/v1/settings', 'Installation'),
  ...settingReadRoutes(`${tenant}/settings`, 'Tenant'),
  ...settingWriteRoutes(`${tenant}/settings`, 'Tenant'),
  tenantSettingsRoute,
  ...simulationRoutes,
]

/** Routes of the public API about the events of the key's tenant. */
export const publicEventRoutes = [
  ...eventRoutes(publicApi),
  ...replayRoutes(publicApi),
  refusedCallsRoute(publicApi),
  readUsageRoute(publicApi),
  ...subscriptionRoutes(publicApi),
  ...pullRoutes,
]
