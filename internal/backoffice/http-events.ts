import { Type as t } from '@sinclair/typebox'
import { memberText, parseEventId, toWire } from '#internal/base/index.ts'
import { plainText } from '#internal/http/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { eventListParams } from './derived-filters.ts'
import { internalRoute, type SharedApi } from './http-apis.ts'
import { EventDetail } from './http-attempt-answers.ts'
import {
  EventIngested,
  EventPage,
  EventReplayed,
  EventRetried,
  Explanation,
  StoredPayload,
} from './http-event-answers.ts'
import { idSchema, pageParams, providerField, readTimes, timestamp, withNamed } from './http-params.ts'
import { searchPayloads } from './http-payload-search.ts'
import { invalid } from './outcome.ts'

const strict = { additionalProperties: false }

/** Maximum bytes of a request to ingest an event: the largest body of a provider, and the other fields. */
const ingestBytesMax = 26 * 1024 * 1024

const tenantField = idSchema('ten', { description: 'Id of the tenant.' })
const typeText = (description: string) => plainText(255, { description })

const headerValueCharsMax = 8_192
const headersMax = 100
const forwardedHeaders = t.Record(
  t.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$" }),
  t.String({
    pattern: '^[ -~]*$',
    maxLength: headerValueCharsMax,
    expected: `a string of at most ${headerValueCharsMax} printable ASCII characters`,
  }),
  {
    ...strict,
    maxProperties: headersMax,
    expected: `a JSON object of at most ${headersMax} headers, each with a name of 1 to 100 characters as in RFC 9110 and a text`,
    description: 'Headers to forward. Credentials, signatures and Latchkey’s own headers are dropped.',
  },
)
function eventPath({ base }: Pick<SharedApi<never>, 'base'>): string {
  return `${base}/events/:eventId`
}

function listEvents<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${api.base}/events`,
    id: 'listEvents',
    tag: 'events',
    answer: EventPage,
    summary: 'Events, newest first',
    right: 'see',
    description: api.listText,
    query: {
      ...pageParams,
      ...api.tenantParams,
      ...eventListParams(api),
    },
    act: ({ backoffice, actor, query: { from, to, ...query } }) =>
      backoffice.events.list(actor, { ...query, fromMs: from, toMs: to }),
  })
}

function readEvent<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: eventPath(api),
    id: 'readEvent',
    tag: 'events',
    answer: EventDetail[api.name],
    summary: 'An event with its attempts, secrets redacted',
    right: 'see',
    description: `The payload is cut and redacted; \`GET ${api.base}/events/{eventId}/payload\` returns it as received.`,
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) => backoffice.events.read(actor, id)),
  })
}

function readPayload<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${eventPath(api)}/payload`,
    id: 'readEventPayload',
    tag: 'events',
    answer: StoredPayload,
    errors: ['conflict'],
    summary: 'The payload as received',
    right: 'readPayloads',
    description: 'Each call is recorded in the audit log. Returns 409 after the payload has expired.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) =>
        backoffice.events.readPayload(actor, id),
      ),
    // Inserts the payload as received text, because parsing the payload could change its numbers.
    write: ({ event, payload }) => `{"event":${JSON.stringify(toWire(event))},"payload":${payload}}`,
  })
}

function replayEvent<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'POST',
    path: api.name === 'public' ? `${eventPath(api)}/replay` : `${eventPath(api)}/replays`,
    id: 'replayEvent',
    tag: 'events',
    answer: EventReplayed,
    status: 202,
    errors: ['conflict'],
    summary: 'Deliver an event again',
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
  })
}

function retryEvent<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'POST',
    path: `${eventPath(api)}/retry`,
    id: 'retryEvent',
    tag: 'events',
    answer: EventRetried,
    status: 202,
    errors: ['conflict'],
    summary: 'Attempt the delivery now',
    right: 'replay',
    description:
      'Brings the next attempt forward while a delivery cycle is in progress; the attempts after it keep their schedule. Otherwise it begins another delivery cycle, as a replay does.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) => backoffice.events.retry(actor, id)),
  })
}

function explainEvent<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${eventPath(api)}/explain`,
    id: 'explainEvent',
    tag: 'events',
    answer: Explanation,
    summary: 'Why an event is where it is, and what to do',
    right: 'see',
    description: 'A sentence for people. Programs use `position`, and the state and attempts of the event.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'eventId', params, parse: parseEventId }, (id) =>
        backoffice.events.explain(actor, id),
      ),
  })
}

export function eventRoutes<Parts>(api: SharedApi<Parts>) {
  return [
    listEvents(api),
    searchPayloads(api),
    readEvent(api),
    explainEvent(api),
    readPayload(api),
    replayEvent(api),
    retryEvent(api),
  ]
}

export const ingestRoutes = [
  internalRoute({
    method: 'POST',
    path: '/internal/v1/events',
    id: 'ingestEvent',
    tag: 'events',
    answer: EventIngested,
    errors: ['provider_not_ready'],
    bodyBytesMax: ingestBytesMax,
    summary: 'Ingest an event of the calling service',
    right: 'ingestEvents',
    description:
      'The event is delivered like an event of its provider, with `latchkey-origin: service` among its `headers`. Latchkey checks no signature: that is up to the caller. A repeated request with the same `provider` and `sourceEventId` changes nothing and returns the id of the stored event.',
    body: t.Object(
      {
        tenantId: tenantField,
        provider: providerField('Provider of the tenant, built in or declared, or its alias'),
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
      tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs',
      provider: 'generic',
      sourceEventId: 'legacy-77812',
      type: 'order.paid',
      occurredAt: '2026-11-21T14:39:58Z',
      headers: { 'content-type': 'application/json' },
      payload: { order: 1042, amount: 4200, currency: 'EUR' },
    },
    async act({ backoffice, actor, body, text }) {
      const times = readTimes({ occurredAt: body.occurredAt })
      if (times.kind !== 'ok') return times
      const { occurredAt: occurredAtMs } = times.value
      const { tenantId, sourceEventId, type, providerRawType, headers } = body
      const provider = parseProviderName(body.provider)
      if (provider === undefined) return invalid('must be the name of a provider', 'provider')
      const payload = memberText(text, 'payload')
      const given = { tenantId, provider, sourceEventId, type, providerRawType }
      return backoffice.events.ingest(actor, { ...given, occurredAtMs, headers, payload })
    },
  }),
]
