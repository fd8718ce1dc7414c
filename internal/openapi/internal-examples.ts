import { parseTenant } from '#internal/tenants/index.ts'

const tenantId = 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs'
const at = (clock: string) => `2026-11-21T${clock}.000Z`
const page = (item: unknown, next?: string) => ({ items: [item], ...(next !== undefined && { next }) })

const tenant = {
  ...{ id: tenantId, namespace: 'shops', name: 'acme', slug: 'acme', displayName: 'Acme' },
  ...{ isSuspended: false, isReady: true, reason: null, createdAt: at('08:00:00') },
}

const event = {
  ...{ id: 'evt_06gw979vs1d9q6mddfvvx375s4', tenantId, provider: 'card', sourceEventId: 'evt_1Pq0' },
  ...{ rawType: 'charge.dispute.updated', type: 'chargeback.under_review' },
  ...{ occurredAt: at('08:40:00'), receivedAt: at('08:40:01'), payloadBytes: 1_204 },
  ...{ payloadExpiresOn: '2026-12-22', state: 'delivery_failed', round: 1, settledAt: at('09:10:00') },
}

const replay = {
  id: 'rpl_06gw979vs1d9q6mddfvvx375s4',
  filter: { tenantId, state: 'delivery_failed', from: at('00:00:00') },
  ...{ ratePerSecond: 100, requestedBy: 'user:ada', state: 'running' },
  ...{ total: { count: 1_312, isExact: true }, queuedCount: 400, skipped: { payload_expired: 3 } },
  ...{ examinedTo: 'evt_06gw979vs1d9q6mddfvvx375s4', isWaiting: false, failedCause: null },
  ...{ createdAt: at('09:20:00'), startedAt: at('09:20:01'), endedAt: null },
}

const simulation = {
  ...{ id: 'sim_06gzx3byyxdccqxb8v47jbp37g', tenantId },
  chargeback: {
    ...{ provider: 'card', amount: 4200, currency: 'EUR', reason: 'fraudulent', reference: null },
    ...{ outcome: 'lost', stepSeconds: 60 },
  },
  ...{ requestedBy: 'user:ada', state: 'running', cause: null },
  events: [
    {
      ...{ id: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_1', type: 'chargeback.created' },
      ...{ dueAt: at('09:30:00'), sentAt: at('09:30:00') },
    },
    {
      ...{ id: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_2', type: 'chargeback.under_review' },
      ...{ dueAt: at('09:31:00'), sentAt: null },
    },
  ],
  ...{ createdAt: at('09:30:00'), startedAt: at('09:30:00'), endedAt: null },
}

const limits = {
  limits: [
    {
      ...{ limit: 'eventsPerMonth', used: 101_233, soft: 90_000, hard: 250_000 },
      override: {
        ...{ hard: 250_000, until: '2027-02-01T00:00:00.000Z', by: 'user:ada' },
        ...{ reason: 'Winter sale, TICKET-481', setAt: at('09:00:00') },
      },
      resetsAt: '2026-12-01T00:00:00.000Z',
    },
  ],
  over: 'accept',
}

const refused = {
  ...{ id: 'ref_06gw979vs1d9q6mddfvvx375s4', provider: 'card', cause: 'signature_mismatch' },
  ...{ refusedAt: at('08:41:00'), sourceAddress: '203.0.113.7' },
  headers: { 'content-type': 'application/json' },
  sample: '{"id":"evt_1Pq1"}',
}

const execution = {
  ...{ scope: 'payments', key: 'order-1042', fence: 1_795_258_166_892_693, state: 'completed' },
  ...{ acquiredAt: at('09:00:00'), heldUntil: at('09:01:00'), extendedAt: null, endedAt: at('09:00:02') },
  ...{ durationMs: 2_000, status: 201 },
}

const audit = {
  ...{ id: 4_711, at: at('09:20:00'), actor: 'user:ada', action: 'payloads.read', tenantId },
  detail: { event: event.id },
}

/** An example of each answer of the internal contract, by the name of its schema. */
export const internalExamples: Readonly<Record<string, unknown>> = {
  Done: { isNew: true },
  TenantSummary: tenant,
  TenantPage: page(tenant),
  TenantDetail: {
    ...tenant,
    conditions: [
      {
        ...{ type: 'Ready', status: 'True', reason: 'InForce', message: 'Everything asked for is in force' },
        lastTransitionTime: '2026-11-21T08:00:02Z',
      },
    ],
    spec: exampleSpec(),
    urls: [{ provider: 'card', url: 'https://hooks.example.com/v1/t/acme/webhooks/card' }],
    keys: [
      {
        ...{ name: 'default', scopes: ['records'], prefix: 'lk_3vQ0mXw1', createdAt: at('08:00:00') },
        endsAt: null,
      },
    ],
    secrets: [{ field: 'callback', secretName: 'acme-callback', createdAt: at('08:00:00') }],
  },
  Permissions: {
    ...{ see: true, readPayloads: false, replay: true, changeSettings: false, simulate: true },
    ...{ appendEvents: false, emitUsage: false },
  },
  EventPage: page(event, event.id),
  EventDetail: {
    ...{ event, hasEarlierAttempts: false },
    headers: { 'content-type': 'application/json', 'latchkey-hops': '1' },
    payload: { text: '{"id":"evt_1Pq0","email":"[redacted: e-mail]"}', isCut: false },
    attempts: [
      {
        ...{ round: 1, attempt: 1, startedAt: at('08:40:01'), durationMs: 31, outcome: 'failed' },
        ...{ status: 500, cause: null, answer: 'out of stock' },
      },
    ],
  },
  EventPayload: { event, payload: { id: 'evt_1Pq0', amount: 4200 } },
  EventAppended: { id: event.id, isNew: true },
  EventReplayed: { tenantId, round: 2, isQueued: true },
  Replay: replay,
  ReplayPage: page(replay),
  ReplayChanged: { job: replay, isNew: true },
  ReplayPreview: { count: { count: 1, isExact: true }, examples: [event], newest: event },
  RefusedPage: page(refused),
  Usage: { ...limits, hours: [{ hour: at('08:00:00'), meter: 'events', amount: 312 }] },
  Limits: limits,
  CallbackTested: {
    id: 'test_06gw979vs1d9q6mddfvvx375s4',
    result: {
      ...{ kind: 'answered', status: 204, headers: {}, answer: '', answerCut: false, durationMs: 18.4 },
    },
  },
  Settings: {
    items: [
      {
        ...{ name: 'forwarding.paused', value: true, default: false, expected: 'true or false' },
        ...{ description: 'Nothing is sent to callbacks.', version: 7 },
        ...{ updatedAt: at('09:00:00'), updatedBy: 'user:ada' },
      },
    ],
  },
  SettingChanged: { name: 'forwarding.paused', version: 8, isNew: true },
  Simulation: simulation,
  SimulationPage: page(simulation),
  SimulationChanged: { simulation, isNew: true },
  ExecutionPage: page(execution),
  AuditPage: page(audit, '4711'),
}

/** The least that a tenant asks for, with all defaults. */
function exampleSpec(): unknown {
  const parsed = parseTenant({
    ...{ apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant' },
    metadata: { name: 'acme', namespace: 'shops' },
    spec: {
      ...{ slug: 'acme', displayName: 'Acme' },
      callback: { url: 'https://shop.example.com/hooks' },
      providers: [{ name: 'card', secretRef: { name: 'acme-card' } }],
      apiKeys: [{ name: 'default', scopes: ['records'] }],
    },
  })
  if (parsed.kind === 'invalid') throw new Error('the example of a tenant is none')
  return parsed.tenant.spec
}
