import { Type as t } from '@sinclair/typebox'
import { toWire } from '#internal/base/index.ts'
import { forwardedEvent } from '#internal/delivery/index.ts'
import type { Params } from '#internal/http/index.ts'
import {
  type EventPages,
  filterTextsMax,
  idleDaysMax,
  leaseSecondsMax,
  parseSubscriptionName,
  pullEventsMax,
  pulledBytesMax,
  type StreamPage,
  type SubscriptionPlace,
  subscriptionsMax,
  waitSecondsMax,
} from '#internal/subscriptions/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { feedFilterFields } from './derived-filters.ts'
import { Removed } from './http-answers.ts'
import { publicApi, type SharedApi } from './http-apis.ts'
import { readTimes, timestamp, withNamed } from './http-params.ts'
import type { RouteCall } from './http-route.ts'
import {
  EventStream,
  EventsPulled,
  LeaseChanged,
  Subscription,
  SubscriptionChanged,
  SubscriptionList,
} from './http-subscription-answers.ts'
import type { Outcome } from './outcome.ts'

const strict = { additionalProperties: false }
const leaseSecondsDefault = 60
const fromText = 'Received then or later. Default: only events from now on.'
const ackToken = t.String({
  minLength: 1,
  maxLength: 128,
  description: 'Token of the pull. For `ack` also the `id` of an event in a stream.',
})
const leaseSeconds = t.Optional(
  t.Integer({
    minimum: 1,
    maximum: leaseSecondsMax,
    default: leaseSecondsDefault,
    description:
      'Duration of the lease (visibility timeout): after it, events without acknowledgement are returned again.',
  }),
)

const FilterBody = t.Object(
  {
    providers: t.Optional(
      t.Array(feedFilterFields.provider, {
        maxItems: filterTextsMax,
        description: 'Default: all providers.',
      }),
    ),
    types: t.Optional(
      t.Array(feedFilterFields.type, {
        maxItems: filterTextsMax,
        description:
          'Normalized types. `payment.*` stands for all types that begin with `payment.`. Default: all types.',
      }),
    ),
    from: t.Optional(timestamp(`Where a new subscription begins. ${fromText}`)),
    deleteAfterIdleDays: t.Optional(
      t.Integer({
        minimum: 1,
        maximum: idleDaysMax,
        description:
          'Days without a stream, a pull with events or an `ack`, after which the subscription is deleted when the tenant creates another one. With it the subscription only observes: where events wait for an acknowledgement, its `ack` does not process them. Default: never.',
      }),
    ),
  },
  strict,
)

function placed<Value>(
  { tenantId, params }: Pick<RouteCall<Params, unknown, never>, 'tenantId' | 'params'>,
  use: (place: SubscriptionPlace) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  return withNamed({ name: 'subscriptionName', params, parse: parseSubscriptionName }, (name) =>
    use({ tenantId, name }),
  )
}

export function subscriptionRoutes<Parts>(api: SharedApi<Parts>) {
  const base = `${api.tenantBase}/subscriptions`
  const path = `${base}/:subscriptionName`
  return [...readRoutes(api, base, path), ...writeRoutes(api, path)]
}

function readRoutes<Parts>(api: SharedApi<Parts>, base: string, path: string) {
  return [
    api.route({
      method: 'GET',
      path: base,
      id: 'listSubscriptions',
      tag: 'subscriptions',
      answer: SubscriptionList,
      right: 'see',
      summary: 'Subscriptions of a tenant, by name',
      description: `A tenant has at most ${subscriptionsMax}.`,
      act: ({ backoffice, actor, tenantId }) => backoffice.subscriptions.list(actor, tenantId),
    }),
    api.route({
      method: 'GET',
      path,
      id: 'readSubscription',
      tag: 'subscriptions',
      answer: Subscription,
      right: 'see',
      summary: 'One subscription',
      act: (call) => placed(call, (place) => call.backoffice.subscriptions.read(call.actor, place)),
    }),
  ]
}

function writeRoutes<Parts>(api: SharedApi<Parts>, path: string) {
  return [
    api.route({
      method: 'PUT',
      path,
      id: 'writeSubscription',
      tag: 'subscriptions',
      answer: SubscriptionChanged,
      errors: ['conflict'],
      body: FilterBody,
      isBodyOptional: true,
      right: 'replay',
      summary: 'Create a subscription, or change its filter',
      description:
        'A subscription is a durable cursor in the events of the tenant, from which a `pull` reads. It returns each event that matches its filter at least once, in the order in which events were stored, beside the deliveries to the callback. For a tenant without a callback, the first acknowledgement of an event by any subscription makes it `processed`. A change of the filter keeps the position and ends a lease. An event that retention deletes before it is pulled is skipped; one whose payload was deleted has the payload null. Events of a wallet in stage `verify` and test events are left out.',
      example: { types: ['payment.*'] },
      act: (call) =>
        placed(call, async (place) => {
          const { providers = [], types = [], from, deleteAfterIdleDays } = call.body
          const times = readTimes({ from })
          if (times.kind !== 'ok') return times
          return call.backoffice.subscriptions.write(call.actor, {
            ...place,
            fromMs: times.value.from,
            deleteAfterIdleDays,
            providers: [...new Set(providers.flatMap((each) => parseProviderName(each) ?? []))].toSorted(),
            types: [...new Set(types)].toSorted(),
          })
        }),
    }),
    api.route({
      method: 'DELETE',
      path,
      id: 'deleteSubscription',
      tag: 'subscriptions',
      answer: Removed,
      right: 'replay',
      summary: 'Delete a subscription',
      act: (call) => placed(call, (place) => call.backoffice.subscriptions.remove(call.actor, place)),
    }),
    api.route({
      method: 'POST',
      path: `${path}/seek`,
      id: 'seekSubscription',
      tag: 'subscriptions',
      answer: Subscription,
      right: 'replay',
      isBodyOptional: true,
      summary: 'Move a subscription to a time, or to the present',
      description: 'Ends a lease: events that were pulled before can no longer be acknowledged.',
      body: t.Object({ from: t.Optional(timestamp(fromText)) }, strict),
      example: { from: '2026-11-20T00:00:00Z' },
      act: (call) =>
        placed(call, async (place) => {
          const times = readTimes({ from: call.body.from })
          if (times.kind !== 'ok') return times
          return call.backoffice.subscriptions.seek(call.actor, { ...place, fromMs: times.value.from })
        }),
    }),
  ]
}

const path = '/v1/subscriptions/:subscriptionName'
const shared = { right: 'pull', tag: 'subscriptions' } as const
const tokenErrors = ['conflict'] as const

/** Routes that return events, which only the public API has. */
export const pullRoutes = [
  publicApi.route({
    ...shared,
    method: 'POST',
    path: `${path}/pull`,
    id: 'pullEvents',
    answer: EventsPulled,
    errors: tokenErrors,
    isBodyOptional: true,
    summary: 'Get the next events under a lease',
    description: `Returns at most ${pulledBytesMax / 2 ** 20} MiB of payloads, but at least one event. Until the lease ends, another pull of the subscription returns no events: programs that work at the same time need a subscription each. Events that are not acknowledged are returned again after the lease. Each pull with events is recorded in the audit log.`,
    body: t.Object(
      {
        limit: t.Optional(
          t.Integer({
            minimum: 1,
            maximum: pullEventsMax,
            default: pullEventsMax,
            description: 'Maximum events.',
          }),
        ),
        leaseSeconds,
        waitSeconds: t.Optional(
          t.Integer({
            minimum: 0,
            maximum: waitSecondsMax,
            default: 0,
            description:
              'Seconds to wait for events if there are none. The answer comes as soon as there are some; the lease begins with it. Does not wait for another lease, or for the delay of a `nack`.',
          }),
        ),
      },
      strict,
    ),
    example: { limit: 100, leaseSeconds: 60, waitSeconds: 20 },
    act: (call) =>
      placed(call, (place) => {
        const {
          limit = pullEventsMax,
          leaseSeconds: seconds = leaseSecondsDefault,
          waitSeconds = 0,
        } = call.body
        const { gone, aside } = call
        const request = { ...place, limit, leaseSeconds: seconds, waitMs: waitSeconds * 1_000, gone, aside }
        return call.backoffice.subscriptions.pull(call.actor, request)
      }),
    // Inserts payloads as received text, because parsing them could change their numbers.
    write: ({ events, ...rest }) =>
      `{"events":[${events.map(forwardedEvent).join()}],${JSON.stringify(toWire(rest)).slice(1)}`,
  }),
  publicApi.route({
    ...shared,
    method: 'GET',
    path: `${path}/stream`,
    id: 'streamEvents',
    answer: EventStream,
    errors: tokenErrors,
    streams: true,
    summary: 'Get events as they come, as server-sent events',
    description:
      'Begins after the last acknowledged event. `data` is the event as a callback receives it. `id` is a token for `ack`, which acknowledges the event and all before it; so does `Last-Event-ID` when the caller reconnects within the lease. A stream holds the lease of its subscription: meanwhile another stream is 409, and a pull returns no events. It sends a comment as a heartbeat at least every 20 s, and ends after an hour at the latest, or when the key loses a scope: reconnect then.',
    answerText: 'A stream of events.',
    act: (call) =>
      placed(call, (place) =>
        call.backoffice.subscriptions.stream(call.actor, { ...place, lastStreamId: call.lastEventId }),
      ),
    write: eventStream,
  }),
  publicApi.route({
    ...shared,
    method: 'POST',
    path: `${path}/ack`,
    id: 'acknowledgeEvents',
    answer: LeaseChanged,
    errors: tokenErrors,
    summary: 'Acknowledge the events of a pull',
    description:
      'The next pull continues after them. If the tenant has no callback, they are `processed`. 503 `overloaded` for a stream of over 500,000 unacknowledged events: repeat the call, which continues. Also possible after the lease has ended, unless the events were leased again: then it is 409.',
    body: t.Object({ ackToken }, strict),
    example: { ackToken: '0b3e7f0a-4a51-4d0a-9a51-1f5f6a8d4c11' },
    act: (call) =>
      placed(call, (place) =>
        call.backoffice.subscriptions.acknowledge(call.actor, { ...place, ...call.body }),
      ),
  }),
  publicApi.route({
    ...shared,
    method: 'POST',
    path: `${path}/nack`,
    id: 'releaseEvents',
    answer: LeaseChanged,
    errors: tokenErrors,
    summary: 'Release the events of a pull without acknowledging them',
    description: 'A pull after the delay returns them again.',
    body: t.Object(
      {
        ackToken,
        delaySeconds: t.Optional(
          t.Integer({
            minimum: 0,
            maximum: leaseSecondsMax,
            default: 0,
            description: 'Seconds until a pull returns the events again.',
          }),
        ),
      },
      strict,
    ),
    example: { ackToken: '0b3e7f0a-4a51-4d0a-9a51-1f5f6a8d4c11', delaySeconds: 30 },
    act: (call) =>
      placed(call, (place) => {
        const { delaySeconds = 0, ...token } = call.body
        const request = { ...place, ...token, delaySeconds }
        return call.backoffice.subscriptions.release(call.actor, request)
      }),
  }),
  publicApi.route({
    ...shared,
    method: 'POST',
    path: `${path}/extend`,
    id: 'extendLease',
    answer: LeaseChanged,
    errors: tokenErrors,
    summary: 'Extend the lease of a pull',
    description: 'The lease then ends `leaseSeconds` after the call.',
    body: t.Object({ ackToken, leaseSeconds }, strict),
    example: { ackToken: '0b3e7f0a-4a51-4d0a-9a51-1f5f6a8d4c11', leaseSeconds: 60 },
    act: (call) =>
      placed(call, (place) => {
        const { leaseSeconds: seconds = leaseSecondsDefault, ...token } = call.body
        const request = { ...place, ...token, leaseSeconds: seconds }
        return call.backoffice.subscriptions.extend(call.actor, request)
      }),
  }),
]

const reconnectAfterMs = 2_000
const encoder = new TextEncoder()

/**
 * Writes one page at a time as the caller reads. Ends the pages when the caller disconnects. Format:
 * https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11).
 */
function eventStream({ pages, close }: EventPages): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytesOf = (text: string) => encoder.encode(text)
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(bytesOf(`retry: ${reconnectAfterMs}\n\n`)),
    async pull(controller) {
      const page = await pages.next()
      if (page.done) controller.close()
      else controller.enqueue(bytesOf(textOf(page.value)))
    },
    async cancel() {
      close()
      await pages.return()
    },
  })
}

/** Formats a page as server-sent events. A payload can contain line breaks between its tokens. */
function textOf({ events }: StreamPage): string {
  if (events.length === 0) return ':\n\n'
  return events
    .map(({ streamId, event }) => {
      const data = forwardedEvent(event).replaceAll(/\r\n|\r|\n/g, '\ndata: ')
      return `id: ${streamId}\ndata: ${data}\n\n`
    })
    .join('')
}
