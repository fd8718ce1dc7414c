import type { EventPages, PulledEvent } from '#internal/subscriptions/index.ts'
import { at, eventId, isNew, tenantId } from './http-answers.ts'
import {
  answer,
  described,
  flag,
  headers,
  idOf,
  listOf,
  objectOf,
  of,
  orNull,
  providerOf,
  text,
  time,
  unshown,
  whole,
} from './http-schemas.ts'

const subscriptionExample = '0b3e7f0a-4a51-4d0a-9a51-1f5f6a8d4c11'
export const Subscription = answer(
  'Subscription',
  objectOf({
    name: text('shop'),
    providers: described('Empty for all providers.', listOf(providerOf(), [])),
    types: described('Empty for all types.', listOf(text('payment.*'))),
    createdAt: time(at('09:00:00')),
    deleteAfterIdleDays: described(
      'Days without a stream, a pull with events or an `ack`, after which it is deleted when the tenant creates another one; null: never.',
      orNull(whole(14)),
    ),
    expiresAt: described('End of these days; null: never.', orNull(time('2026-12-05T09:10:00Z'))),
    acknowledgedAt: described('Time of the last `ack`; null before the first.', orNull(time(at('09:10:00')))),
    isLeased: described(
      'Whether a pull or a stream has events that it has neither acknowledged nor released. Its lease can have ended.',
      flag(false),
    ),
    availableAt: described(
      'Time before which a pull gets no events: the end of a lease, or of the delay of a `nack`. Null if there is none.',
      orNull(time(null)),
    ),
  }),
)
export const SubscriptionList = answer('SubscriptionList', objectOf({ items: listOf(Subscription) }))
export const SubscriptionChanged = answer(
  'SubscriptionChanged',
  objectOf({ subscription: Subscription, isNew }),
)
export const LeaseChanged = answer('LeaseChanged', objectOf({ isNew }))

const pulledFields = objectOf({
  id: idOf('evt', eventId),
  provider: providerOf('card'),
  providerRawType: text('charge.dispute.updated'),
  type: text('chargeback.under_review'),
  tenantId,
  occurredAt: time(at('08:40:00')),
  receivedAt: time(at('08:40:01')),
  payload: described(
    'The payload as received; null after it was deleted.',
    of({ anyOf: [{ type: 'object' }, { type: 'null' }] })({ id: 'evt_1Pq0' }),
  ),
  headers: headers({ 'content-type': 'application/json' }),
})
const pulledEvent = answer(
  'PulledEvent',
  described(
    'The same object that a callback receives.',
    of<PulledEvent>(pulledFields.schema)(pulledFields.example),
  ),
)

export const EventsPulled = answer(
  'EventsPulled',
  objectOf(
    {
      events: listOf(pulledEvent),
      hasMore: described(
        'Whether another pull may get events at once, after an `ack` of these.',
        flag(false),
      ),
    },
    {
      ackToken: described('Present with events.', text(subscriptionExample)),
      availableAt: described(
        'Present while another lease, or the delay of a `nack`, holds the events back: its end.',
        unshown(time()),
      ),
    },
  ),
)

export const EventStream = described(
  'Server-sent events (`text/event-stream`), each with an `id` and the event as `data`.',
  of<EventPages>(text().schema)(
    'id: 0b3e7f0a-4a51-4d0a-9a51-1f5f6a8d4c11.1042.evt_06gw979vs1d9q6mddfvvx375s4\ndata: {"id":"evt_06gw979vs1d9q6mddfvvx375s4"}\n\n',
  ),
)
