import { type Static, Type as t } from '@sinclair/typebox'
import { oneOf, plainText } from '#internal/http/index.ts'
import {
  parseReplayId,
  type ReplayFilter,
  type ReplayId,
  replayEventOutcomes,
  replayedOrigins,
  replayRateMax,
} from '#internal/replays/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import type { SharedApi } from './http-apis.ts'
import { Replay, ReplayChanged, ReplayPage, ReplayPreview } from './http-event-answers.ts'
import {
  idSchema,
  outcomeText,
  pageParams,
  providerField,
  readTimes,
  slowerThanField,
  statusField,
  timestamp,
  typeFilterText,
  withNamed,
} from './http-params.ts'
import { defined, type Outcome, ok } from './outcome.ts'

const strict = { additionalProperties: false }
const replayedStates = ['processed', 'delivery_failed', 'verified'] as const
const filterBytesMax = 64 * 1024

const tenantFilter = { tenantId: t.Optional(idSchema('ten', { description: 'Id of the tenant.' })) }

const filterFields = {
  provider: t.Optional(providerField('Provider of the events')),
  type: t.Optional(plainText(255, { description: typeFilterText })),
  state: t.Optional(
    oneOf(
      replayedStates,
      'State of the events. Default: any of these, so that only events with a delivery in progress are left out. The command `latchkey replay start` has the default `delivery_failed`, and `any` for all of these.',
    ),
  ),
  origin: t.Optional(
    oneOf(replayedOrigins, 'Origin of the events. Default: any of these, and never test events.'),
  ),
  status: t.Optional(statusField),
  slowerThanMs: t.Optional(slowerThanField),
  from: timestamp('Received then or later.'),
  to: t.Optional(timestamp('Received earlier. Default, and latest: start of the replay.')),
  ids: t.Optional(
    t.Array(idSchema('evt'), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Only these events.',
    }),
  ),
  replayId: t.Optional(
    t.Unsafe<ReplayId>(
      idSchema('rpl', { description: 'Only events that this earlier replay queued, of its first 1 000.' }),
    ),
  ),
  outcome: t.Optional(
    oneOf(replayEventOutcomes, `${outcomeText} Its events are chosen when the replay starts.`),
  ),
}

/** Returns the fields of a replay's filter in an API. In the public API the tenant is that of the key. */
function filterFieldsIn({ name }: Pick<SharedApi<never>, 'name'>) {
  // A missing optional field is like one that was not sent, so both APIs have the same type.
  const ofTenant = name === 'public' ? ({} as typeof tenantFilter) : tenantFilter
  return { ...ofTenant, ...filterFields }
}

type ReplayFilterBody = Static<ReturnType<typeof t.Object<ReturnType<typeof filterFieldsIn>>>>

/** Returns the filter of a replay, or the refusal of a date that does not exist. Pure. */
function filterOf(body: ReplayFilterBody): Outcome<ReplayFilter> {
  const times = readTimes({ from: body.from, to: body.to })
  if (times.kind !== 'ok') return times
  const { from: fromMs, to: toMs } = times.value
  const { tenantId, type, state, origin, status, slowerThanMs, ids, replayId, outcome } = body
  const provider = body.provider === undefined ? undefined : parseProviderName(body.provider)
  return ok({
    fromMs,
    ...defined({ toMs, tenantId, provider, type, state, origin, status, slowerThanMs, ids }),
    ...defined({ replayId, outcome }),
  })
}

const filterExample = { state: 'delivery_failed', from: '2026-11-20T00:00:00Z' }
const tenantExample = { tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs' }

/** Returns the sentence about the tenants that a replay without `tenantId` covers. */
function coversText({ name, listText }: Pick<SharedApi<never>, 'name' | 'listText'>): string {
  return name === 'public'
    ? listText
    : 'Without `tenantId` it covers the tenant of an API key, or all tenants, for which the right must hold in the whole cluster.'
}

function filterExampleIn({ name }: Pick<SharedApi<never>, 'name'>) {
  return { ...(name === 'backoffice' && tenantExample), ...filterExample }
}

function previewReplay<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'POST',
    path: `${api.base}/replay-previews`,
    id: 'previewReplay',
    tag: 'replays',
    answer: ReplayPreview,
    body: t.Object(filterFieldsIn(api), strict),
    bodyBytesMax: filterBytesMax,
    summary: 'Count the events that a replay would deliver, and return the first 20',
    right: 'see',
    description: `Queues nothing. ${coversText(api)}`,
    example: filterExampleIn(api),
    async act({ backoffice, actor, body }) {
      const filter = filterOf(body)
      return filter.kind === 'ok' ? backoffice.replays.preview(actor, filter.value) : filter
    },
  })
}

function startReplay<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'POST',
    path: `${api.base}/replays`,
    id: 'startReplay',
    tag: 'replays',
    answer: ReplayChanged,
    status: 202,
    bodyBytesMax: filterBytesMax,
    errors: ['conflict', 'idempotency_key_reused', 'too_many_replays'],
    summary: 'Deliver all events of a filter again',
    right: 'replay',
    description: `Starts a job that forwarders run at the given rate. ${coversText(api)}`,
    body: t.Object(
      {
        ...filterFieldsIn(api),
        ratePerSecond: t.Optional(
          t.Integer({ minimum: 1, maximum: replayRateMax, description: 'Events per second. Default 50.' }),
        ),
      },
      strict,
    ),
    example: { ...filterExampleIn(api), ratePerSecond: 100 },
    idempotencyKey: 'required',
    async act({ backoffice, actor, body: { ratePerSecond, ...rest }, idempotencyKey }) {
      const filter = filterOf(rest)
      if (filter.kind !== 'ok') return filter
      return backoffice.replays.start(actor, { filter: filter.value, ratePerSecond, idempotencyKey })
    },
  })
}

function listReplays<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${api.base}/replays`,
    id: 'listReplays',
    tag: 'replays',
    answer: ReplayPage,
    summary: 'Replay jobs, newest first',
    right: 'see',
    description: api.listText,
    query: { ...pageParams, ...api.tenantParams },
    act: ({ backoffice, actor, query }) => backoffice.replays.list(actor, query),
  })
}

function readReplay<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${api.base}/replays/:replayId`,
    id: 'readReplay',
    tag: 'replays',
    answer: Replay,
    summary: 'Progress of a replay job',
    right: 'see',
    ...(api.name === 'backoffice' && {
      description: 'A replay of all tenants is visible only to callers that see all tenants.',
    }),
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'replayId', params, parse: parseReplayId }, (id) =>
        backoffice.replays.read(actor, id),
      ),
  })
}

function cancelReplay<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'POST',
    path: `${api.base}/replays/:replayId/cancel`,
    id: 'cancelReplay',
    tag: 'replays',
    answer: ReplayChanged,
    summary: 'Cancel a replay job; events that it has queued are delivered',
    right: 'replay',
    description: 'A replay that has ended stays as it is.',
    act: ({ backoffice, actor, params }) =>
      withNamed({ name: 'replayId', params, parse: parseReplayId }, (id) =>
        backoffice.replays.cancel(actor, id),
      ),
  })
}

/** Returns the routes of replays. */
export function replayRoutes<Parts>(api: SharedApi<Parts>) {
  return [previewReplay(api), startReplay(api), listReplays(api), readReplay(api), cancelReplay(api)]
}
