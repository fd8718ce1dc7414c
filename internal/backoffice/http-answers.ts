import { actions } from '#internal/access/index.ts'
import { idPattern } from '#internal/base/index.ts'
import { eventStates } from '#internal/events/index.ts'
import { type JsonSchema, named } from '#internal/http/index.ts'
import { lockStates } from '#internal/records/index.ts'
import { replayStates } from '#internal/replays/index.ts'
import { simulationStates } from '#internal/simulations/index.ts'
import {
  apiKeyScopes,
  conditionTypes,
  limitNames,
  parseTenant,
  providerNames,
  Tenant,
} from '#internal/tenants/index.ts'

/** An answer's schema and example. */
export interface DocumentedAnswer {
  readonly schema: JsonSchema
  readonly example: unknown
}

type Fields = Readonly<Record<string, JsonSchema>>

const text = { type: 'string' }
const whole = { type: 'integer' }
const flag = { type: 'boolean' }
const time = { type: 'string', format: 'date-time' }
const orNull = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: 'null' }] })
const wordOf = (words: readonly string[]): JsonSchema => ({ type: 'string', enum: words })
const idOf = (prefix: string): JsonSchema => ({ type: 'string', pattern: idPattern(prefix) })
const listOf = (items: JsonSchema): JsonSchema => ({ type: 'array', items })
const described = (description: string, schema: JsonSchema): JsonSchema => ({ ...schema, description })

function objectOf(required: Fields, optional: Fields = {}): JsonSchema {
  return { type: 'object', required: Object.keys(required), properties: { ...required, ...optional } }
}

/** Defines an answer whose schema is a component of the document. */
function answer(name: string, schema: JsonSchema, example: unknown): DocumentedAnswer {
  return { schema: named(name, schema), example }
}

/** Defines a page of items. */
function pageOf(name: string, item: DocumentedAnswer, next?: string): DocumentedAnswer {
  const schema = objectOf(
    { items: listOf(item.schema) },
    {
      next: described(
        'Pass it as `after` for the next page. A page shorter than its limit, even an empty one, may have it: then the search goes on.',
        text,
      ),
    },
  )
  return answer(name, schema, { items: [item.example], ...(next !== undefined && { next }) })
}

const at = (clock: string) => `2026-11-21T${clock}.000Z`
const isNew = described('false for a repeat, which changed nothing.', flag)

/** Answer of a write without data. */
export const Done = answer('Done', objectOf({ isNew }), { isNew: true })

const tenantFields: Fields = {
  ...{ id: idOf('ten'), namespace: text, name: text },
  slug: described('null while another tenant holds the requested one.', orNull(text)),
  ...{ displayName: orNull(text), isSuspended: flag },
  isReady: described('Condition `Ready`.', flag),
  reason: described('Reason why it is not ready.', orNull(text)),
  createdAt: time,
}

const tenantId = 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs'
const tenantExample = {
  ...{ id: tenantId, namespace: 'shops', name: 'acme', slug: 'acme', displayName: 'Acme' },
  ...{ isSuspended: false, isReady: true, reason: null, createdAt: at('08:00:00') },
}

/** A tenant in a list. */
export const TenantSummary = answer('TenantSummary', objectOf(tenantFields), tenantExample)
/** A page of tenants. */
export const TenantPage = pageOf('TenantPage', TenantSummary)

const tenantDetailFields: Fields = {
  ...tenantFields,
  conditions: listOf(
    objectOf({
      ...{ type: wordOf(conditionTypes), status: wordOf(['True', 'False']), reason: text, message: text },
      lastTransitionTime: time,
    }),
  ),
  spec: described('`spec` of its Tenant, with defaults filled in.', Tenant.properties.spec),
  urls: described('URLs to enter at the providers.', listOf(objectOf({ provider: text, url: text }))),
  keys: listOf(
    objectOf({
      ...{ name: text, scopes: listOf(wordOf(apiKeyScopes)) },
      prefix: described('First characters.', orNull(text)),
      createdAt: time,
      endsAt: described('null: never.', orNull(time)),
    }),
  ),
  secrets: described(
    'Live signing secrets, without their values.',
    listOf(objectOf({ field: text, secretName: text, createdAt: time })),
  ),
}

/** A tenant with its conditions, URLs, keys and secrets. */
export const TenantDetail = answer(
  'TenantDetail',
  objectOf(tenantDetailFields, {
    suspendedCallback: described(
      'Present while deliveries are suspended.',
      objectOf({ cause: text, since: time }),
    ),
    breakerUntil: described('Time until which the circuit breaker stops deliveries.', time),
  }),
  {
    ...tenantExample,
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
)

/** Returns a minimal tenant's spec with all defaults. */
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
  if (parsed.kind === 'invalid') throw new Error('the example of a tenant is not valid')
  return parsed.tenant.spec
}

/** The caller's rights on a tenant. */
export const Permissions = answer(
  'Permissions',
  described(
    'Rights of the caller on the tenant.',
    objectOf(Object.fromEntries(actions.map((action) => [action, flag]))),
  ),
  {
    ...{ see: true, readPayloads: false, replay: true, changeSettings: false, simulate: true },
    ...{ appendEvents: false, emitUsage: false },
  },
)

const EventSummary = answer(
  'EventSummary',
  objectOf({
    ...{ id: idOf('evt'), tenantId: idOf('ten'), provider: wordOf(providerNames) },
    sourceEventId: described('The provider’s id.', text),
    ...{ rawType: text, type: text, occurredAt: time, receivedAt: time, payloadBytes: whole },
    payloadExpiresOn: described('Day from which the payload may be removed.', {
      type: 'string',
      format: 'date',
    }),
    state: wordOf(eventStates),
    round: described('Delivery cycle, 1 for the first.', whole),
    settledAt: described('End of its last delivery cycle; null while one is in progress.', orNull(time)),
  }),
  {
    ...{ id: 'evt_06gw979vs1d9q6mddfvvx375s4', tenantId, provider: 'card', sourceEventId: 'evt_1Pq0' },
    ...{ rawType: 'charge.dispute.updated', type: 'chargeback.under_review' },
    ...{ occurredAt: at('08:40:00'), receivedAt: at('08:40:01'), payloadBytes: 1_204 },
    ...{ payloadExpiresOn: '2026-12-22', state: 'delivery_failed', round: 1, settledAt: at('09:10:00') },
  },
)
const event = EventSummary.schema
const eventExample = EventSummary.example
const eventId = 'evt_06gw979vs1d9q6mddfvvx375s4'
/** A page of events. */
export const EventPage = pageOf('EventPage', EventSummary, eventId)

const headers: JsonSchema = { type: 'object', additionalProperties: text }
const attempt = objectOf({
  ...{ round: whole, attempt: whole, startedAt: time, durationMs: whole },
  outcome: wordOf(['delivered', 'refused', 'failed']),
  ...{ status: orNull(whole), cause: orNull(text) },
  answer: described('First 4 096 characters, redacted.', orNull(text)),
})

/** An event with its attempts. */
export const EventDetail = answer(
  'EventDetail',
  objectOf(
    {
      ...{ event, hasEarlierAttempts: flag, headers },
      attempts: described('Latest 200 attempts, oldest first.', listOf(attempt)),
    },
    {
      payload: described(
        'First 65 536 characters, redacted; absent once it has expired.',
        objectOf({ text, isCut: flag }),
      ),
      queued: described(
        'Place in the queue while a delivery cycle is in progress.',
        objectOf({ dueAt: time, isClaimed: flag, attempts: whole }),
      ),
    },
  ),
  {
    ...{ event: eventExample, hasEarlierAttempts: false },
    headers: { 'content-type': 'application/json', 'latchkey-hops': '1' },
    payload: { text: '{"id":"evt_1Pq0","email":"[redacted: e-mail]"}', isCut: false },
    attempts: [
      {
        ...{ round: 1, attempt: 1, startedAt: at('08:40:01'), durationMs: 31, outcome: 'failed' },
        ...{ status: 500, cause: null, answer: 'out of stock' },
      },
    ],
  },
)

/** An event with its payload. */
export const EventPayload = answer(
  'EventPayload',
  objectOf({ event, payload: described('As received.', { type: 'object' }) }),
  { event: eventExample, payload: { id: 'evt_1Pq0', amount: 4200 } },
)
/** Result of appending an event. */
export const EventAppended = answer('EventAppended', objectOf({ id: idOf('evt'), isNew }), {
  ...{ id: eventId, isNew: true },
})
/** Result of replaying an event. */
export const EventReplayed = answer(
  'EventReplayed',
  objectOf({
    ...{ tenantId: idOf('ten'), round: whole },
    isQueued: described('false where a delivery cycle was in progress, or an earlier call began it.', flag),
  }),
  { tenantId, round: 2, isQueued: true },
)

const count = objectOf({ count: whole, isExact: flag })
const filter = objectOf(
  { from: time },
  {
    ...{ to: time, tenantId: idOf('ten'), provider: wordOf(providerNames), type: text },
    ...{ state: wordOf(eventStates), ids: listOf(idOf('evt')) },
  },
)

/** A replay job. */
export const Replay = answer(
  'Replay',
  objectOf({
    ...{ id: idOf('rpl'), filter, ratePerSecond: whole, requestedBy: text, state: wordOf(replayStates) },
    total: described('Events that matched at the start.', count),
    queuedCount: whole,
    skipped: described('Events that matched and were not queued, by cause.', {
      type: 'object',
      additionalProperties: whole,
    }),
    ...{ examinedTo: orNull(text), isWaiting: flag, failedCause: orNull(text) },
    ...{ createdAt: time, startedAt: orNull(time), endedAt: orNull(time) },
  }),
  {
    id: 'rpl_06gw979vs1d9q6mddfvvx375s4',
    filter: { tenantId, state: 'delivery_failed', from: at('00:00:00') },
    ...{ ratePerSecond: 100, requestedBy: 'user:ada', state: 'running' },
    ...{ total: { count: 1_312, isExact: true }, queuedCount: 400, skipped: { payload_expired: 3 } },
    ...{ examinedTo: eventId, isWaiting: false, failedCause: null },
    ...{ createdAt: at('09:20:00'), startedAt: at('09:20:01'), endedAt: null },
  },
)
/** A page of replay jobs. */
export const ReplayPage = pageOf('ReplayPage', Replay)
/** Result of starting or cancelling a replay job. */
export const ReplayChanged = answer('ReplayChanged', objectOf({ job: Replay.schema, isNew }), {
  ...{ job: Replay.example, isNew: true },
})
/** Preview of a replay. */
export const ReplayPreview = answer(
  'ReplayPreview',
  objectOf({ count, examples: listOf(event) }, { newest: event }),
  { count: { count: 1, isExact: true }, examples: [eventExample], newest: eventExample },
)

/** A page of refused calls. */
export const RefusedPage = pageOf(
  'RefusedPage',
  answer(
    'RefusedCall',
    objectOf({
      ...{ id: idOf('ref'), provider: text, cause: text, refusedAt: time, sourceAddress: orNull(text) },
      headers,
      sample: described('Start of a body whose signature failed, redacted.', orNull(text)),
    }),
    {
      ...{ id: 'ref_06gw979vs1d9q6mddfvvx375s4', provider: 'card', cause: 'signature_mismatch' },
      ...{ refusedAt: at('08:41:00'), sourceAddress: '203.0.113.7' },
      headers: { 'content-type': 'application/json' },
      sample: '{"id":"evt_1Pq1"}',
    },
  ),
)

const limitUsage = objectOf(
  {
    limit: wordOf(limitNames),
    used: described('null while the store of the meters does not answer.', orNull(whole)),
    soft: orNull(whole),
    hard: described('Limit in force, an override included; null: none.', orNull(whole)),
  },
  {
    override: objectOf({
      hard: described('null: no limit.', orNull(whole)),
      ...{ until: time, by: text, reason: text, setAt: time },
    }),
    resetsAt: time,
  },
)
const limitFields: Fields = { limits: listOf(limitUsage), over: wordOf(['accept', 'refuse']) }
const limitsExample = {
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

/** Limits in force. */
export const Limits = answer('Limits', objectOf(limitFields), limitsExample)
/** Limits in force with usage by hour. */
export const Usage = answer(
  'Usage',
  objectOf({
    ...limitFields,
    hours: described(
      'By hour and meter; hours without usage are left out.',
      listOf(objectOf({ hour: time, meter: text, amount: whole })),
    ),
  }),
  { ...limitsExample, hours: [{ hour: at('08:00:00'), meter: 'events', amount: 312 }] },
)

/** Result of a test call to a callback. */
export const CallbackTested = answer(
  'CallbackTested',
  objectOf({
    id: described('`webhook-id` of the call.', text),
    result: {
      anyOf: [
        objectOf({
          ...{ kind: { type: 'string', const: 'answered' }, status: whole, headers },
          answer: described('First 16 KiB, redacted.', text),
          ...{ answerCut: flag, durationMs: { type: 'number' } },
        }),
        objectOf({
          ...{ kind: { type: 'string', const: 'failed' }, cause: text, detail: text },
          durationMs: { type: 'number' },
        }),
      ],
    },
  }),
  {
    id: 'test_06gw979vs1d9q6mddfvvx375s4',
    result: { kind: 'answered', status: 204, headers: {}, answer: '', answerCut: false, durationMs: 18.4 },
  },
)

const value: JsonSchema = { type: ['boolean', 'number', 'string', 'null'] }
const setting = objectOf(
  {
    name: text,
    value: described('Value in force: the stored one or the default; null without either.', value),
    ...{ default: value, expected: text, description: text },
    version: described('0 while it is not set.', whole),
  },
  { updatedAt: time, updatedBy: text },
)

/** Runtime settings. */
export const Settings = answer('Settings', objectOf({ items: listOf(setting) }), {
  items: [
    {
      ...{ name: 'forwarding.paused', value: true, default: false, expected: 'true or false' },
      ...{ description: 'Nothing is sent to callbacks.', version: 7 },
      ...{ updatedAt: at('09:00:00'), updatedBy: 'user:ada' },
    },
  ],
})
/** Result of changing a setting. */
export const SettingChanged = answer(
  'SettingChanged',
  objectOf({ name: text, version: described('0 once it is cleared.', whole), isNew }),
  { name: 'forwarding.paused', version: 8, isNew: true },
)

/** A simulation with its events. */
export const Simulation = answer(
  'Simulation',
  objectOf({
    ...{ id: idOf('sim'), tenantId: idOf('ten') },
    chargeback: objectOf({
      ...{ provider: text, amount: whole, currency: text, reason: text, reference: orNull(text) },
      ...{ outcome: text, stepSeconds: whole },
    }),
    ...{ requestedBy: text, state: wordOf(simulationStates), cause: orNull(text) },
    events: listOf(objectOf({ id: text, type: text, dueAt: time, sentAt: orNull(time) })),
    ...{ createdAt: time, startedAt: orNull(time), endedAt: orNull(time) },
  }),
  {
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
  },
)
/** A page of simulations. */
export const SimulationPage = pageOf('SimulationPage', Simulation)
/** Result of starting, advancing or cancelling a simulation. */
export const SimulationChanged = answer(
  'SimulationChanged',
  objectOf({ simulation: Simulation.schema, isNew }),
  { simulation: Simulation.example, isNew: true },
)

/** A page of a tenant's lock history. */
export const ExecutionPage = pageOf(
  'ExecutionPage',
  answer(
    'Execution',
    objectOf({
      ...{ scope: text, key: text, fence: whole, state: wordOf(lockStates), acquiredAt: time },
      ...{ heldUntil: orNull(time), extendedAt: orNull(time), endedAt: orNull(time) },
      ...{ durationMs: orNull(whole), status: orNull(whole) },
    }),
    {
      ...{ scope: 'payments', key: 'order-1042', fence: 1_795_258_166_892_693, state: 'completed' },
      ...{ acquiredAt: at('09:00:00'), heldUntil: at('09:01:00'), extendedAt: null, endedAt: at('09:00:02') },
      ...{ durationMs: 2_000, status: 201 },
    },
  ),
)

/** A page of the audit log. */
export const AuditPage = pageOf(
  'AuditPage',
  answer(
    'AuditEntry',
    objectOf({
      ...{ id: whole, at: time, actor: text, action: text, tenantId: orNull(idOf('ten')) },
      detail: { type: 'object' },
    }),
    {
      ...{ id: 4_711, at: at('09:20:00'), actor: 'user:ada', action: 'payloads.read', tenantId },
      detail: { event: eventId },
    },
  ),
  '4711',
)
