import { Type as t } from '@sinclair/typebox'
import {
  parseReplayId,
  previewedEventsMax,
  replayRateDefault,
  replayRateMax,
} from '#internal/replays/index.ts'
import { parseReplayFilter, replayFilterFields } from './derived-filters.ts'
import type { SharedApi } from './http-apis.ts'
import { Replay, ReplayChanged, ReplayPage, ReplayPreview } from './http-event-answers.ts'
import { pageParams, withNamed } from './http-params.ts'

const strict = { additionalProperties: false }
const filterBytesMax = 64 * 1024

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
    body: t.Object(replayFilterFields(api), strict),
    bodyBytesMax: filterBytesMax,
    summary: `Count the events that a replay would deliver, and return the first ${previewedEventsMax}`,
    right: 'see',
    description: `Queues nothing. ${coversText(api)}`,
    example: filterExampleIn(api),
    async act({ backoffice, actor, body }) {
      const filter = parseReplayFilter(body)
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
        ...replayFilterFields(api),
        ratePerSecond: t.Optional(
          t.Integer({
            minimum: 1,
            maximum: replayRateMax,
            description: `Events per second. Default ${replayRateDefault}.`,
          }),
        ),
      },
      strict,
    ),
    example: { ...filterExampleIn(api), ratePerSecond: 100 },
    idempotencyKey: 'required',
    async act({ backoffice, actor, body: { ratePerSecond, ...rest }, idempotencyKey }) {
      const filter = parseReplayFilter(rest)
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

export function replayRoutes<Parts>(api: SharedApi<Parts>) {
  return [previewReplay(api), startReplay(api), listReplays(api), readReplay(api), cancelReplay(api)]
}
