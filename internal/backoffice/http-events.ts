import { Type as t } from '@sinclair/typebox'
import { findMembers, parseEventId, toWire } from '#internal/base/index.ts'
import { eventStates, originKinds } from '#internal/events/index.ts'
import { oneOf, plainText, textParam, wordParam } from '#internal/http/index.ts'
import { parseReplayId, type ReplayFilter, replayedOrigins, replayRateMax } from '#internal/replays/index.ts'
import { neutralProviderName } from '#internal/tenants/index.ts'
import type { RawPayload } from './events.ts'
import {
  EventDetail,
  EventIngested,
  EventPage,
  EventPayload,
  EventReplayed,
  Replay,
  ReplayChanged,
  ReplayPage,
  ReplayPreview,
} from './http-answers.ts'
import {
  eventParam,
  idSchema,
  listText,
  pageParams,
  providerField,
  providerParam,
  readTimes,
  tenantParams,
  timeParam,
  timestamp,
  withNamed,
} from './http-params.ts'
import { internalRoute } from './http-route.ts'
import { defined, type Outcome, ok } from './outcome.ts'

const strict = { additionalProperties: false }
const replayedStates = ['processed', 'delivery_failed', 'verified'] as const
const event = '/internal/v1/events/:eventId'
const replay = '/internal/v1/replays/:replayId'

/** Maximum size of the request in bytes. Fits the largest body of a provider, in addition to the other fields. */
const ingestBytesMax = 26 * 1024 * 1024
const filterBytesMax = 64 * 1024

const tenantField = idSchema('ten', { description: 'Id of the tenant.' })
const typeText = (description: string) => plainText(255, { description })

/** Headers of the provider's call that are forwarded to the callback. */
const forwardedHeaders = t.Record(
  t.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$" }),
  t.String({
    pattern: '^[ -~]*$',
    maxLength: 8_192,
    expected: 'a string of at most 8192 printable ASCII characters',
  }),
  {
    ...strict,
    maxProperties: 100,
    expected:
      'a JSON object of at most 100 headers, each with a name of 1 to 100 characters as in RFC 9110 and a text',
    description: 'Headers to forward. Credentials, signatures and Latchkey’s own headers are dropped.',
  },
)

const filterFields = {
  tenantId: t.Optional(tenantField),
  provider: t.Optional(providerField('Provider of the events')),
  type: t.Optional(typeText('Whole normalized type.')),
  state: t.Optional(
    oneOf(
      replayedStates,
      'State of the events. Default: any of these, so that only events with a delivery in progress are left out. The command `latchkey replay start` has the default `delivery_failed`, and `any` for all of these.',
    ),
  ),
  origin: t.Optional(
    oneOf(replayedOrigins, 'Origin of the events. Default: any of these, and never test events.'),
  ),
  from: timestamp('Received then or later.'),
  to: t.Optional(timestamp('Received earlier. Default, and latest: start of the replay.')),
  ids: t.Optional(
    t.Array(idSchema('evt'), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Only these events.',
    }),
  ),
}
const ReplayFilterBody = t.Object(filterFields, strict)

/** Returns the filter of a replay, or the refusal of a date that does not exist. Pure. */
function filterOf(body: typeof ReplayFilterBody.static): Outcome<ReplayFilter> {
  const times = readTimes({ from: body.from, to: body.to })
  if (times.kind !== 'ok') return times
  const { from: fromMs, to: toMs } = times.value
  const { tenantId, type, state, origin, ids } = body
  const provider = body.provider === undefined ? undefined : neutralProviderName(body.provider)
  return ok({ fromMs, ...defined({ toMs, tenantId, provider, type, state, origin, ids }) })
}

/** Returns a field of a JSON object exactly as the text that was received. */
function memberText(text: string, name: string): string {
  const members = findMembers(text)
  const span = members.kind === 'found' ? members.spans.get(name) : undefined
  return span === undefined ? '' : text.slice(span.start, span.end)
}

/** Routes of events. */
export const eventRoutes = [
  internalRoute({
    ...{ method: 'GET', path: '/internal/v1/events', id: 'listEvents', tag: 'events', answer: EventPage },
    summary: 'Events, newest first',
    right: 'see',
    description: listText,
    query: {
      ...pageParams,
      ...tenantParams,
      provider: providerParam,
      type: textParam('Whole normalized type.', { charsMax: 255 }),
      state: wordParam('State of the event.', eventStates),
      origin: wordParam('Origin of the event.', originKinds),
      from: timeParam('Received then or later.'),
      to: timeParam('Received earlier.'),
      id: eventParam,
      sourceEventId: textParam('The provider’s id; only together with `tenantId`.', { charsMax: 255 }),
    },
    act: ({ backoffice, actor, query: { from, to, ...query } }) =>
      backoffice.events.list(actor, { ...query, fromMs: from, toMs: to }),
  }),
  internalRoute({
    ...{ method: 'POST', path: '/internal/v1/events', id: 'ingestEvent', tag: 'events' },
    ...{ answer: EventIngested, errors: ['provider_not_ready'], bodyBytesMax: ingestBytesMax },
    summary: 'Store an event that the calling service hands in',
    right: 'ingestEvents',
    description:
      'The event is delivered like an event of its provider, with `latchkey-origin: service` among its `headers`. Latchkey checks no signature: that is up to the caller. A repeated request with the same `provider` and `sourceEventId` changes nothing and returns the id of the stored event.',
    body: t.Object(
      {
        tenantId: tenantField,
        provider: providerField('Provider of the tenant'),
        sourceEventId: typeText('The provider’s id. The same id is the same event, whatever else is sent.'),
        type: t.String({
          pattern: '^[a-z0-9_]+([.][a-z0-9_]+)+$',
          maxLength: 255,
          expected: 'at most 255 characters of dotted lowercase, such as order.paid',
          description: 'Normalized type: dotted lowercase.',
        }),
        providerRawType: t.Optional(typeText('The provider’s type. Default: `type`.')),
        occurredAt: t.Optional(timestamp('Time of the event. Default: now.')),
        headers: t.Optional(forwardedHeaders),
        payload: t.Record(t.String(), t.Unknown(), {
          description: 'A JSON object, forwarded as received.',
        }),
      },
      strict,
    ),
    example: {
      ...{ tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs', provider: 'generic', sourceEventId: 'legacy-77812' },
      ...{ type: 'order.paid', occurredAt: '2026-11-21T14:39:58Z' },
      headers: { 'content-type': 'application/json' },
      payload: { order: 1042, amount: 4200, currency: 'EUR' },
    },
    async act({ backoffice, actor, body, text }) {
      const times = readTimes({ occurredAt: body.occurredAt })
      if (times.kind !== 'ok') return times
      const { occurredAt: occurredAtMs } = times.value
      const { tenantId, sourceEventId, type, providerRawType, headers } = body
      const provider = neutralProviderName(body.provider)
      const payload = memberText(text, 'payload')
      const given = { tenantId, provider, sourceEventId, type, providerRawType }
      return backoffice.events.ingest(actor, { ...given, occurredAtMs, headers, payload })
    },
  }),
  internalRoute({
    ...{ method: 'GET', path: event, id: 'readEvent', tag: 'events', answer: EventDetail },
    summary: 'An event with its attempts, secrets redacted',
    right: 'see',
    description:
      'The payload is cut and redacted; `GET /internal/v1/events/{eventId}/payload` returns it as received.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) => backoffice.events.read(actor, id)),
  }),
  internalRoute({
    ...{ method: 'GET', path: `${event}/payload`, id: 'readEventPayload', tag: 'events' },
    ...{ answer: EventPayload, errors: ['conflict'], summary: 'The payload as received' },
    right: 'readPayloads',
    description: 'Each call is recorded in the audit log. Returns 409 after the payload has expired.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) =>
        backoffice.events.readPayload(actor, id),
      ),
    // Inserts the payload as received text, because parsing the payload could change its numbers.
    write: (value: RawPayload) =>
      `{"event":${JSON.stringify(toWire(value.event))},"payload":${value.payload}}`,
  }),
  internalRoute({
    ...{ method: 'POST', path: `${event}/replays`, id: 'replayEvent', tag: 'events' },
    ...{ answer: EventReplayed, status: 202, errors: ['conflict'], summary: 'Deliver an event again' },
    right: 'replay',
    description:
      'Begins another delivery cycle, unless one is in progress. A request without a body has the defaults.',
    isBodyOptional: true,
    body: t.Object(
      {
        cycle: t.Optional(
          t.Integer({
            minimum: 1,
            maximum: 32_767,
            description:
              'Expected delivery cycle. With this number, repeated requests start one new cycle only, even much later.',
          }),
        ),
      },
      strict,
    ),
    example: { cycle: 1 },
    act: ({ backoffice, actor, params, body: { cycle } }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) =>
        backoffice.events.replay(actor, { id, cycle }),
      ),
  }),
]

const filterExample = {
  ...{ tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs', state: 'delivery_failed', from: '2026-11-20T00:00:00Z' },
}

/** Routes of replays. */
export const replayRoutes = [
  internalRoute({
    ...{ method: 'POST', path: '/internal/v1/replay-previews', id: 'previewReplay', tag: 'replays' },
    ...{ answer: ReplayPreview, body: ReplayFilterBody, bodyBytesMax: filterBytesMax },
    summary: 'Count the events that a replay would deliver, and return the first 20',
    right: 'see',
    description:
      'Queues nothing. Without `tenantId` it covers all tenants, for which the right must hold in the whole cluster.',
    example: filterExample,
    async act({ backoffice, actor, body }) {
      const filter = filterOf(body)
      return filter.kind === 'ok' ? backoffice.replays.preview(actor, filter.value) : filter
    },
  }),
  internalRoute({
    ...{ method: 'POST', path: '/internal/v1/replays', id: 'startReplay', tag: 'replays' },
    ...{ answer: ReplayChanged, status: 202, bodyBytesMax: filterBytesMax },
    errors: ['idempotency_key_reused', 'too_many_replays'],
    summary: 'Deliver all events of a filter again',
    right: 'replay',
    description:
      'Starts a job that forwarders run at the given rate. Without `tenantId` it covers all tenants, for which the right must hold in the whole cluster.',
    body: t.Object(
      {
        ...filterFields,
        ratePerSecond: t.Optional(
          t.Integer({ minimum: 1, maximum: replayRateMax, description: 'Events per second. Default 50.' }),
        ),
      },
      strict,
    ),
    example: { ...filterExample, ratePerSecond: 100 },
    idempotencyKey: 'required',
    async act({ backoffice, actor, body: { ratePerSecond, ...rest }, idempotencyKey }) {
      const filter = filterOf(rest)
      if (filter.kind !== 'ok') return filter
      return backoffice.replays.start(actor, { filter: filter.value, ratePerSecond, idempotencyKey })
    },
  }),
  internalRoute({
    ...{ method: 'GET', path: '/internal/v1/replays', id: 'listReplays', tag: 'replays', answer: ReplayPage },
    summary: 'Replay jobs, newest first',
    right: 'see',
    description: listText,
    query: { ...pageParams, ...tenantParams },
    act: ({ backoffice, actor, query }) => backoffice.replays.list(actor, query),
  }),
  internalRoute({
    ...{ method: 'GET', path: replay, id: 'readReplay', tag: 'replays', answer: Replay },
    summary: 'Progress of a replay job',
    right: 'see',
    description: 'A replay of all tenants is visible only to callers that see all tenants.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'replayId', params, parse: parseReplayId }, (id) =>
        backoffice.replays.read(actor, id),
      ),
  }),
  internalRoute({
    ...{ method: 'POST', path: `${replay}/cancel`, id: 'cancelReplay', tag: 'replays' },
    ...{ answer: ReplayChanged, summary: 'Cancel a replay job; events that it has queued are delivered' },
    right: 'replay',
    description: 'A replay that has ended stays as it is.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'replayId', params, parse: parseReplayId }, (id) =>
        backoffice.replays.cancel(actor, id),
      ),
  }),
]
