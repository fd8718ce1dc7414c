import type { ErrorCode } from '#internal/base/index.ts'

/** What the document says of an operation beyond its parameters and its body, which stand in the table of routes. */
export interface InternalOperation {
  readonly id: string
  readonly tag:
    | 'tenants'
    | 'events'
    | 'replays'
    | 'usage'
    | 'settings'
    | 'simulations'
    | 'executions'
    | 'audit'
  readonly summary: string
  readonly description?: string
  /** The name of its answer's schema. */
  readonly answer: string
  /** Errors beside those of every operation. */
  readonly errors?: readonly ErrorCode[]
  /** Example of its body. */
  readonly body?: unknown
}

const tenantId = 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs'
const writes = ['conflict'] as const

/** The operations by method and path. */
export const internalOperations: Readonly<Record<string, InternalOperation>> = {
  'GET /internal/v1/tenants': {
    ...{ id: 'listTenants', tag: 'tenants', answer: 'TenantPage' },
    summary: 'Tenants, by namespace and name',
  },
  'GET /internal/v1/tenant': {
    ...{ id: 'findTenant', tag: 'tenants', answer: 'TenantSummary', errors: writes },
    summary: 'The tenant of an id, a slug, a name, or the beginning of a key',
    description:
      'Of a key its first 11 characters are asked for, never all of it. Where keys of several tenants begin like this it is 409.',
  },
  'GET /internal/v1/tenants/{tenantId}': {
    ...{ id: 'readTenant', tag: 'tenants', answer: 'TenantDetail' },
    summary: 'A tenant with its conditions, URLs, keys and the ages of its secrets',
  },
  'GET /internal/v1/tenants/{tenantId}/permissions': {
    ...{ id: 'readPermissions', tag: 'tenants', answer: 'Permissions' },
    summary: 'What may be done with a tenant',
  },
  'POST /internal/v1/tenants/{tenantId}/callback/test': {
    ...{ id: 'testCallback', tag: 'tenants', answer: 'CallbackTested', errors: writes },
    summary: 'Call the callback once, and show what it answers',
    description:
      'Judged, signed and bounded as each delivery is; of type `latchkey.test`, and stored nowhere. With an `Idempotency-Key` a repeat is another call under the same `webhook-id`, by which the receiver tells it.',
  },
  'POST /internal/v1/tenants/{tenantId}/callback/resume': {
    ...{ id: 'resumeCallback', tag: 'tenants', answer: 'Done' },
    summary: 'Let the deliveries of a suspended callback go on',
  },
  'GET /internal/v1/tenants/{tenantId}/refused-calls': {
    ...{ id: 'listRefusedCalls', tag: 'events', answer: 'RefusedPage' },
    summary: 'Calls of providers that were refused, newest first',
  },
  'GET /internal/v1/tenants/{tenantId}/usage': {
    ...{ id: 'readUsage', tag: 'usage', answer: 'Usage' },
    summary: 'Usage by the hour, and against the limits',
  },
  'PUT /internal/v1/tenants/{tenantId}/usage/{emissionId}': {
    ...{ id: 'emitUsage', tag: 'usage', answer: 'Done', errors: writes },
    summary: 'Add what another service counted',
    description:
      'Once for each id: the same again changes nothing, something else under it is 409. Needs the right `create tenants/usage`.',
    body: { kind: 'exports.rows', count: 1_200, at: '2026-11-21T14:40:00Z' },
  },
  'GET /internal/v1/tenants/{tenantId}/limits': {
    ...{ id: 'readLimits', tag: 'usage', answer: 'Limits' },
    summary: 'The limits in force, what is used of each, and overrides',
  },
  'PUT /internal/v1/tenants/{tenantId}/limits/{limit}/override': {
    ...{ id: 'overrideLimit', tag: 'usage', answer: 'Done' },
    summary: 'Set a hard limit for a time',
    description: 'It lapses by itself. Needs the right `update tenants/settings`.',
    body: { hard: 250_000, until: '2027-02-01T00:00:00Z', reason: 'Winter sale, TICKET-481' },
  },
  'DELETE /internal/v1/tenants/{tenantId}/limits/{limit}/override': {
    ...{ id: 'clearLimitOverride', tag: 'usage', answer: 'Done' },
    summary: 'End an override before its time',
  },
  'GET /internal/v1/events': {
    ...{ id: 'listEvents', tag: 'events', answer: 'EventPage' },
    summary: 'Events, newest first',
  },
  'POST /internal/v1/events': {
    ...{ id: 'appendEvent', tag: 'events', answer: 'EventAppended', errors: writes },
    summary: 'Store an event that this service has verified itself',
    description:
      'It is delivered as if its provider had called. The same `sourceEventId` of a provider is the same event: a repeat changes nothing and gives its id. Needs the right `create tenants/events`.',
    body: {
      ...{ tenantId, provider: 'generic', sourceEventId: 'legacy-77812', type: 'order.paid' },
      occurredAt: '2026-11-21T14:39:58Z',
      headers: { 'content-type': 'application/json' },
      payload: { order: 1042, amount: 4200, currency: 'EUR' },
    },
  },
  'GET /internal/v1/events/{eventId}': {
    ...{ id: 'readEvent', tag: 'events', answer: 'EventDetail' },
    summary: 'An event with its attempts, secrets hidden',
  },
  'GET /internal/v1/events/{eventId}/payload': {
    ...{ id: 'readEventPayload', tag: 'events', answer: 'EventPayload', errors: writes },
    summary: 'The payload as it was received',
    description:
      'Needs the right `get tenants/payloads`. Each call is in the audit log. 409 once the payload’s day has come.',
  },
  'POST /internal/v1/events/{eventId}/replays': {
    ...{ id: 'replayEvent', tag: 'events', answer: 'EventReplayed', errors: writes },
    summary: 'Deliver an event once more',
    description: 'Needs the right `create tenants/replays`.',
    body: { round: 1 },
  },
  'POST /internal/v1/replay-preview': {
    ...{ id: 'previewReplay', tag: 'replays', answer: 'ReplayPreview' },
    summary: 'Count what a replay would take up, and show the first 20',
    body: { tenantId, state: 'delivery_failed', from: '2026-11-20T00:00:00Z' },
  },
  'POST /internal/v1/replays': {
    ...{ id: 'startReplay', tag: 'replays', answer: 'ReplayChanged', errors: ['conflict', 'too_many'] },
    summary: 'Deliver all events of a filter once more',
    description:
      'A job, which forwarders work on at the given rate. Without `tenantId` it is of all tenants, for which the right to replay has to be for the whole cluster.',
    body: { tenantId, state: 'delivery_failed', from: '2026-11-20T00:00:00Z', ratePerSecond: 100 },
  },
  'GET /internal/v1/replays': {
    ...{ id: 'listReplays', tag: 'replays', answer: 'ReplayPage' },
    summary: 'Replays, newest first',
  },
  'GET /internal/v1/replays/{replayId}': {
    ...{ id: 'readReplay', tag: 'replays', answer: 'Replay' },
    summary: 'How far a replay is',
  },
  'POST /internal/v1/replays/{replayId}/cancel': {
    ...{ id: 'cancelReplay', tag: 'replays', answer: 'ReplayChanged' },
    summary: 'End a replay; what it has queued is delivered',
  },
  ...settingOperations('/internal/v1/settings', 'Installation', 'of the installation'),
  ...settingOperations('/internal/v1/tenants/{tenantId}/settings', 'Tenant', 'of a tenant'),
  'GET /internal/v1/simulations': {
    ...{ id: 'listSimulations', tag: 'simulations', answer: 'SimulationPage' },
    summary: 'Simulations, newest first',
  },
  'POST /internal/v1/tenants/{tenantId}/simulations': {
    ...{ id: 'startSimulation', tag: 'simulations', answer: 'SimulationChanged' },
    errors: ['conflict', 'too_many'],
    summary: 'Have a made-up dispute’s events sent to the callback',
    description: 'Needs the right `create tenants/simulations`.',
    body: { amount: 4200, currency: 'EUR', stepSeconds: 60 },
  },
  'GET /internal/v1/simulations/{simulationId}': {
    ...{ id: 'readSimulation', tag: 'simulations', answer: 'Simulation' },
    summary: 'A simulation with its events',
  },
  'POST /internal/v1/simulations/{simulationId}/advance': {
    ...{ id: 'advanceSimulation', tag: 'simulations', answer: 'SimulationChanged', errors: writes },
    summary: 'Have the next event come now',
    body: { event: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_2' },
  },
  'POST /internal/v1/simulations/{simulationId}/cancel': {
    ...{ id: 'cancelSimulation', tag: 'simulations', answer: 'SimulationChanged' },
    summary: 'End a simulation: no other event comes',
  },
  'GET /internal/v1/tenants/{tenantId}/executions': {
    ...{ id: 'listExecutions', tag: 'executions', answer: 'ExecutionPage' },
    summary: 'The history of a tenant’s locks, the latest first',
  },
  'GET /internal/v1/audit': {
    ...{ id: 'listAudit', tag: 'audit', answer: 'AuditPage' },
    summary: 'Who did what, the latest first',
    description: 'What belongs to no tenant is shown to those only who see all of them.',
  },
}

function settingOperations(path: string, name: string, whose: string): Record<string, InternalOperation> {
  return {
    [`GET ${path}`]: {
      ...{ id: `list${name}Settings`, tag: 'settings', answer: 'Settings' },
      summary: `Runtime settings ${whose}`,
    },
    [`PUT ${path}/{name}`]: {
      ...{ id: `write${name}Setting`, tag: 'settings', answer: 'SettingChanged', errors: writes },
      summary: `Set a runtime setting ${whose}`,
      description: 'In force in every process within 2 s. Needs the right `update tenants/settings`.',
      body: { value: true, expectedVersion: 0 },
    },
    [`DELETE ${path}/{name}`]: {
      ...{ id: `clear${name}Setting`, tag: 'settings', answer: 'SettingChanged', errors: writes },
      summary: `Clear a runtime setting ${whose}, so that its default holds`,
    },
  }
}
