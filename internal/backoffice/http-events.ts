import { Type as t } from '@sinclair/typebox'
import { findMembers, idPattern, parseEventId } from '#internal/base/index.ts'
import { eventStates } from '#internal/events/index.ts'
import { parseReplayId, type ReplayFilter, replayRateMax } from '#internal/replays/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import type { RawPayload } from './events.ts'
import { moment, oneOf } from './http-body.ts'
import {
  eventParam,
  pageParams,
  providerParam,
  readTenantId,
  readTime,
  textParam,
  timeParam,
  whoseParams,
  wordParam,
} from './http-params.ts'
import { type InternalRow, internalRow } from './http-row.ts'
import { toWire } from './http-wire.ts'
import { invalid, notFound, type Outcome, ok } from './outcome.ts'

const strict = { additionalProperties: false }
const replayedStates = ['processed', 'delivery_failed', 'verified'] as const
const event = '/internal/v1/events/:eventId'
const replay = '/internal/v1/replays/:replayId'

/** Bytes of an event that is handed in, as many as the largest provider may send, with room for the rest. */
const appendBytesMax = 26 * 1024 * 1024
const previewBytesMax = 64 * 1024

/** Parameters of the list of events. */
export const eventListParams = {
  ...pageParams,
  ...whoseParams,
  provider: providerParam,
  type: textParam('A normalized type, whole.', { charsMax: 255 }),
  state: wordParam('What became of the event.', eventStates),
  from: timeParam('Received then or later.'),
  to: timeParam('Received earlier than that.'),
  id: eventParam,
  sourceEventId: textParam('The provider’s own id; only together with `tenant`.', { charsMax: 255 }),
} as const

/** Parameters of the list of replays. */
export const replayListParams = { ...pageParams, ...whoseParams } as const

const tenantId = t.String({ pattern: idPattern('ten'), description: 'The tenant’s id.' })

/** An event that another service has verified. */
export const AppendBody = t.Object(
  {
    tenantId,
    provider: oneOf(providerNames, 'A provider of the tenant, by its neutral name.'),
    sourceEventId: t.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,255}$/u, {
      description: 'The provider’s own id. The same one again is the same event, whatever else is sent.',
    }),
    type: t.String({
      pattern: '^[a-z0-9_]+([.][a-z0-9_]+)+$',
      maxLength: 255,
      description: 'Normalized: dotted lowercase.',
    }),
    rawType: t.Optional(
      t.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,255}$/u, {
        description: 'The provider’s own type. Default: `type`.',
      }),
    ),
    occurredAt: t.Optional(moment('When it occurred. Default: now.')),
    headers: t.Optional(
      t.Record(
        t.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$" }),
        t.String({ pattern: '^[ -~]*$', maxLength: 8_192 }),
        {
          additionalProperties: false,
          maxProperties: 100,
          description: 'Headers to forward. Credentials, signatures and names of our own are left out.',
        },
      ),
    ),
    payload: t.Record(t.String(), t.Unknown(), {
      description: 'A JSON object, forwarded as it was received.',
    }),
  },
  strict,
)

const filterFields = {
  tenantId: t.Optional(tenantId),
  provider: t.Optional(oneOf(providerNames, 'A provider by its neutral name.')),
  type: t.Optional(t.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,255}$/u, { description: 'A normalized type, whole.' })),
  state: t.Optional(
    oneOf(replayedStates, 'What became of the events. Absent: anything; those under way are left alone.'),
  ),
  from: moment('Received then or later.'),
  to: t.Optional(moment('Received earlier than that. Default, and latest: when the replay is started.')),
  ids: t.Optional(
    t.Array(t.String({ pattern: idPattern('evt') }), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Of these events alone.',
    }),
  ),
}

/** Which events a replay is of. */
export const ReplayFilterBody = t.Object(filterFields, strict)

/** Which events a replay is of, and how fast it goes. */
export const ReplayStartBody = t.Object(
  {
    ...filterFields,
    ratePerSecond: t.Optional(
      t.Integer({ minimum: 1, maximum: replayRateMax, description: 'Events a second. Default 50.' }),
    ),
  },
  strict,
)

/** The round that was seen. */
export const EventReplayBody = t.Object(
  {
    round: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: 32_767,
        description:
          'The round that was seen: with it repeats begin one round and no more, whenever they come.',
      }),
    ),
  },
  strict,
)

function filterOf(body: typeof ReplayFilterBody.static): Outcome<ReplayFilter> {
  const [fromMs, toMs] = [readTime(body.from), body.to === undefined ? undefined : readTime(body.to)]
  if (fromMs === undefined || (body.to !== undefined && toMs === undefined))
    return invalid('"from" and "to" must be times such as 2026-11-01T08:30:00Z')
  const tenant = body.tenantId === undefined ? undefined : readTenantId(body.tenantId)
  const { provider, type, state } = body
  return ok({
    fromMs,
    ...(toMs !== undefined && { toMs }),
    ...(tenant !== undefined && { tenantId: tenant }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { type }),
    ...(state !== undefined && { state }),
    ...(body.ids !== undefined && { ids: body.ids.flatMap((id) => parseEventId(id) ?? []) }),
  })
}

/** Rows about events. */
export const eventRows: readonly InternalRow[] = [
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/events', query: eventListParams },
    act: ({ backoffice, actor, query: { tenant, from, to, ...query } }) =>
      backoffice.events.list(actor, { ...query, tenantId: tenant, fromMs: from, toMs: to }),
  }),
  internalRow({
    ...{ method: 'POST', path: '/internal/v1/events', body: AppendBody, bodyBytesMax: appendBytesMax },
    async act({ backoffice, actor, body, text }) {
      const id = readTenantId(body.tenantId)
      const occurredAtMs = body.occurredAt === undefined ? undefined : readTime(body.occurredAt)
      if (body.occurredAt !== undefined && occurredAtMs === undefined)
        return invalid('"occurredAt" must be a time such as 2026-11-01T08:30:00Z')
      if (id === undefined) return notFound
      const { provider, sourceEventId, type, rawType, headers } = body
      const payload = memberText(text, 'payload')
      const given = { tenantId: id, provider, sourceEventId, type, rawType, occurredAtMs, headers, payload }
      return backoffice.events.append(actor, given)
    },
  }),
  internalRow({
    ...{ method: 'GET', path: event },
    async act({ backoffice, actor, params }) {
      const id = parseEventId(params['eventId'] ?? '')
      return id === undefined ? notFound : backoffice.events.read(actor, id)
    },
  }),
  internalRow({
    ...{ method: 'GET', path: `${event}/payload` },
    async act({ backoffice, actor, params }) {
      const id = parseEventId(params['eventId'] ?? '')
      return id === undefined ? notFound : backoffice.events.readPayload(actor, id)
    },
    // Spliced in, since a number that is parsed is not always what it was.
    write: (value: RawPayload) =>
      `{"event":${JSON.stringify(toWire(value.event))},"payload":${value.payload}}`,
  }),
  internalRow({
    ...{ method: 'POST', path: `${event}/replays`, body: EventReplayBody },
    async act({ backoffice, actor, params, body: { round } }) {
      const id = parseEventId(params['eventId'] ?? '')
      return id === undefined ? notFound : backoffice.events.replay(actor, { id, round })
    },
  }),
]

/** The received text of a member that is known to be there. */
function memberText(text: string, name: string): string {
  const members = findMembers(text)
  const span = members.kind === 'found' ? members.spans.get(name) : undefined
  return span === undefined ? '' : text.slice(span.start, span.end)
}

/** Rows about replays of many events. */
export const replayRows: readonly InternalRow[] = [
  internalRow({
    ...{ method: 'POST', path: '/internal/v1/replay-preview', body: ReplayFilterBody },
    bodyBytesMax: previewBytesMax,
    async act({ backoffice, actor, body }) {
      const filter = filterOf(body)
      return filter.kind === 'ok' ? backoffice.replays.preview(actor, filter.value) : filter
    },
  }),
  internalRow({
    ...{ method: 'POST', path: '/internal/v1/replays', body: ReplayStartBody, idempotencyKey: 'required' },
    bodyBytesMax: previewBytesMax,
    async act({ backoffice, actor, body: { ratePerSecond, ...rest }, idempotencyKey }) {
      const filter = filterOf(rest)
      if (filter.kind !== 'ok') return filter
      return backoffice.replays.start(actor, { filter: filter.value, ratePerSecond, idempotencyKey })
    },
  }),
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/replays', query: replayListParams },
    act: ({ backoffice, actor, query: { tenant, ...query } }) =>
      backoffice.replays.list(actor, { ...query, tenantId: tenant }),
  }),
  internalRow({
    ...{ method: 'GET', path: replay },
    async act({ backoffice, actor, params }) {
      const id = parseReplayId(params['replayId'] ?? '')
      return id === undefined ? notFound : backoffice.replays.read(actor, id)
    },
  }),
  internalRow({
    ...{ method: 'POST', path: `${replay}/cancel` },
    async act({ backoffice, actor, params }) {
      const id = parseReplayId(params['replayId'] ?? '')
      return id === undefined ? notFound : backoffice.replays.cancel(actor, id)
    },
  }),
]
