import { actions } from '#internal/access/index.ts'
import { idPattern } from '#internal/base/index.ts'
import { eventStates } from '#internal/events/index.ts'
import { executionStates } from '#internal/records/index.ts'
import { replayStates } from '#internal/replays/index.ts'
import { simulationStates } from '#internal/simulations/index.ts'
import { apiKeyScopes, conditionTypes, limitNames, providerNames, Tenant } from '#internal/tenants/index.ts'
import { type JsonSchema, toJsonSchema } from './json-schema.ts'
import { schemaRef } from './openapi.ts'

const text = { type: 'string' }
const whole = { type: 'integer' }
const flag = { type: 'boolean' }
const time = { type: 'string', format: 'date-time' }
const orNull = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: 'null' }] })
const wordOf = (words: readonly string[]): JsonSchema => ({ type: 'string', enum: words })
const idOf = (prefix: string): JsonSchema => ({
  type: 'string',
  pattern: idPattern(prefix),
})
const listOf = (items: JsonSchema): JsonSchema => ({ type: 'array', items })
const saying = (description: string, schema: JsonSchema): JsonSchema => ({ ...schema, description })

type Fields = Readonly<Record<string, JsonSchema>>

/** An object of these fields; those of `optional` may be absent. */
function objectOf(required: Fields, optional: Fields = {}): JsonSchema {
  return { type: 'object', required: Object.keys(required), properties: { ...required, ...optional } }
}

function pageOf(name: string): JsonSchema {
  return objectOf(
    { items: listOf(schemaRef(name)) },
    {
      next: saying(
        'Hand it in as `after` for what follows. A page that is shorter than its limit, even an empty one, may have it: then not everything was searched yet.',
        text,
      ),
    },
  )
}

const isNew = saying('false where it had been so before, and nothing was changed.', flag)

const tenantFields: Fields = {
  id: idOf('ten'),
  namespace: text,
  name: text,
  slug: saying('null while another tenant holds the one that it wants.', orNull(text)),
  displayName: orNull(text),
  isSuspended: flag,
  isReady: saying('Its condition `Ready`.', flag),
  reason: saying('Why it is not ready, in one word.', orNull(text)),
  createdAt: time,
}

const eventFields: Fields = {
  id: idOf('evt'),
  tenantId: idOf('ten'),
  provider: wordOf(providerNames),
  sourceEventId: saying('The provider’s own id.', text),
  rawType: text,
  type: text,
  occurredAt: time,
  receivedAt: time,
  payloadBytes: whole,
  payloadExpiresOn: saying('The day on which the payload may go.', { type: 'string', format: 'date' }),
  state: wordOf(eventStates),
  round: saying('Which walk through the schedule of attempts, 1 for the first.', whole),
  settledAt: saying('When its last round ended; null while one is under way.', orNull(time)),
}

const attempt = objectOf({
  round: whole,
  attempt: whole,
  startedAt: time,
  durationMs: whole,
  outcome: wordOf(['delivered', 'refused', 'failed']),
  status: orNull(whole),
  cause: orNull(text),
  answer: saying('Its first 4 096 characters, redacted.', orNull(text)),
})

const headers: JsonSchema = { type: 'object', additionalProperties: text }

const count = objectOf({ count: whole, isExact: flag })

const override = objectOf({
  hard: saying('null: no limit.', orNull(whole)),
  until: time,
  by: text,
  reason: text,
  setAt: time,
})

const limitUsage = objectOf(
  {
    limit: wordOf(limitNames),
    used: saying('null while the store that counts does not answer.', orNull(whole)),
    soft: orNull(whole),
    hard: saying('In force now, an override included; null: none.', orNull(whole)),
  },
  { override, resetsAt: time },
)

const limitFields: Fields = { limits: listOf(limitUsage), over: wordOf(['accept', 'refuse']) }

const filter = objectOf(
  { from: time },
  {
    to: time,
    tenantId: idOf('ten'),
    provider: wordOf(providerNames),
    type: text,
    state: wordOf(eventStates),
    ids: listOf(idOf('evt')),
  },
)

const value: JsonSchema = { type: ['boolean', 'number', 'string', 'null'] }

/** The answers of the internal contract, by the names that they bear in the document. */
export const internalSchemas: Readonly<Record<string, JsonSchema>> = {
  Done: objectOf({ isNew }),
  TenantSummary: objectOf(tenantFields),
  TenantPage: pageOf('TenantSummary'),
  TenantDetail: objectOf(
    {
      ...tenantFields,
      conditions: listOf(
        objectOf({
          type: wordOf(conditionTypes),
          status: wordOf(['True', 'False']),
          reason: text,
          message: text,
          lastTransitionTime: time,
        }),
      ),
      spec: saying('As `spec` of its Tenant, with defaults filled in.', toJsonSchema(Tenant.properties.spec)),
      urls: saying('What to enter at each provider.', listOf(objectOf({ provider: text, url: text }))),
      keys: listOf(
        objectOf({
          name: text,
          scopes: listOf(wordOf(apiKeyScopes)),
          prefix: saying('How it begins.', orNull(text)),
          createdAt: time,
          endsAt: saying('null: never.', orNull(time)),
        }),
      ),
      secrets: saying(
        'Live signing secrets, without their values.',
        listOf(objectOf({ field: text, secretName: text, createdAt: time })),
      ),
    },
    {
      suspendedCallback: saying(
        'Why its deliveries stand still; absent while they do not.',
        objectOf({ cause: text, since: time }),
      ),
      breakerUntil: saying('Until when no delivery is tried since most failed.', time),
    },
  ),
  Permissions: saying(
    'What whoever asks may do with the tenant.',
    objectOf(Object.fromEntries(actions.map((action) => [action, flag]))),
  ),
  EventSummary: objectOf(eventFields),
  EventPage: pageOf('EventSummary'),
  EventDetail: objectOf(
    {
      event: schemaRef('EventSummary'),
      hasEarlierAttempts: flag,
      headers,
      attempts: saying('The latest 200, in their order.', listOf(attempt)),
    },
    {
      payload: saying(
        'Its first 65 536 characters, redacted; absent once its day has come.',
        objectOf({ text, isCut: flag }),
      ),
      queued: saying(
        'Its place in the queue while a round is under way.',
        objectOf({ dueAt: time, isClaimed: flag, attempts: whole }),
      ),
    },
  ),
  EventPayload: objectOf({
    event: schemaRef('EventSummary'),
    payload: saying('As it was received.', { type: 'object' }),
  }),
  EventAppended: objectOf({ id: idOf('evt'), isNew }),
  EventReplayed: objectOf({
    tenantId: idOf('ten'),
    round: whole,
    isQueued: saying('false where a round was under way, or this request had begun it.', flag),
  }),
  Replay: objectOf({
    id: idOf('rpl'),
    filter,
    ratePerSecond: whole,
    requestedBy: text,
    state: wordOf(replayStates),
    total: saying('What matched when it was started.', count),
    queuedCount: whole,
    skipped: saying('Events that matched and got no round, by cause.', {
      type: 'object',
      additionalProperties: whole,
    }),
    examinedTo: orNull(text),
    isWaiting: flag,
    failedCause: orNull(text),
    createdAt: time,
    startedAt: orNull(time),
    endedAt: orNull(time),
  }),
  ReplayPage: pageOf('Replay'),
  ReplayChanged: objectOf({ job: schemaRef('Replay'), isNew }),
  ReplayPreview: objectOf(
    { count, examples: listOf(schemaRef('EventSummary')) },
    { newest: schemaRef('EventSummary') },
  ),
  RefusedCall: objectOf({
    id: idOf('ref'),
    provider: text,
    cause: text,
    refusedAt: time,
    sourceAddress: orNull(text),
    headers,
    sample: saying('The start of a body whose signature failed, redacted.', orNull(text)),
  }),
  RefusedPage: pageOf('RefusedCall'),
  Usage: objectOf({
    ...limitFields,
    hours: saying(
      'By hour and meter; hours in which nothing was counted are left out.',
      listOf(objectOf({ hour: time, meter: text, amount: whole })),
    ),
  }),
  Limits: objectOf(limitFields),
  CallbackTested: objectOf({
    id: saying('Its `webhook-id`.', text),
    result: {
      anyOf: [
        objectOf({
          kind: { type: 'string', const: 'answered' },
          status: whole,
          headers,
          answer: saying('Its first 16 KiB, redacted.', text),
          answerCut: flag,
          durationMs: { type: 'number' },
        }),
        objectOf({
          kind: { type: 'string', const: 'failed' },
          cause: text,
          detail: text,
          durationMs: { type: 'number' },
        }),
      ],
    },
  }),
  Settings: objectOf({
    items: listOf(
      objectOf(
        {
          name: text,
          value: saying('What holds: what was set, or the default; null where nothing does.', value),
          default: value,
          expected: text,
          description: text,
          version: saying('0 where it was not set.', whole),
        },
        { updatedAt: time, updatedBy: text },
      ),
    ),
  }),
  SettingChanged: objectOf({ name: text, version: saying('0 where it is not set any more.', whole), isNew }),
  Simulation: objectOf({
    id: idOf('sim'),
    tenantId: idOf('ten'),
    chargeback: objectOf({
      provider: text,
      amount: whole,
      currency: text,
      reason: text,
      reference: orNull(text),
      outcome: text,
      stepSeconds: whole,
    }),
    requestedBy: text,
    state: wordOf(simulationStates),
    cause: orNull(text),
    events: listOf(objectOf({ id: text, type: text, dueAt: time, sentAt: orNull(time) })),
    createdAt: time,
    startedAt: orNull(time),
    endedAt: orNull(time),
  }),
  SimulationPage: pageOf('Simulation'),
  SimulationChanged: objectOf({ simulation: schemaRef('Simulation'), isNew }),
  Execution: objectOf({
    scope: text,
    key: text,
    fence: whole,
    state: wordOf(executionStates),
    acquiredAt: time,
    heldUntil: orNull(time),
    extendedAt: orNull(time),
    endedAt: orNull(time),
    durationMs: orNull(whole),
    status: orNull(whole),
  }),
  ExecutionPage: pageOf('Execution'),
  AuditEntry: objectOf({
    id: whole,
    at: time,
    actor: text,
    action: text,
    tenantId: orNull(idOf('ten')),
    detail: { type: 'object' },
  }),
  AuditPage: pageOf('AuditEntry'),
}
