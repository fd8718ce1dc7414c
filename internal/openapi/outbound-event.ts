import { headerRefs, jsonBody, type OutboundCalls, type Parameter, schemaRef } from './openapi.ts'
import { exampleCalls } from './webhook-examples.ts'

const description = `Each event that is accepted and no duplicate is sent to the tenant's callback as POST, at least once and in no order: tell repeats by \`webhook-id\`. It is signed as Standard Webhooks, so that any of its libraries verifies it, with every live secret of the callback.

Redirects are failures and are not followed. Connecting may take 5 s, the whole call \`callback.timeoutSeconds\` of the tenant (15). A failed attempt is followed by the next after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h, each ± 20 %, unless the tenant has a schedule of its own in \`callback.retry\`. Success ends the event as \`processed\`, a failed last attempt as \`delivery_failed\`.`

/** The example call that the example event was made of. */
export const exampleEventCall = 'card'

const exampleEvent = {
  id: 'evt_06gw979vs1d9q6mddfvvx375s4',
  provider: 'card',
  providerRawType: 'charge.dispute.updated',
  type: 'chargeback.under_review',
  tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs',
  occurredAt: '2026-11-10T08:40:00.000Z',
  receivedAt: '2026-11-10T08:40:01.224Z',
  payload: exampleCalls[exampleEventCall]?.body,
  headers: { 'content-type': 'application/json', 'user-agent': 'Stripe/1.0', 'latchkey-hops': '1' },
}

const parameters: readonly Parameter[] = [
  {
    name: 'webhook-id',
    in: 'header',
    required: true,
    description: 'The event’s `id`. The same in every attempt.',
    schema: { type: 'string' },
    examples: { event: { value: exampleEvent.id } },
  },
  {
    name: 'webhook-timestamp',
    in: 'header',
    required: true,
    description: 'When this attempt was signed, as Unix time in seconds.',
    schema: { type: 'string', pattern: '^[0-9]+$' },
    examples: { event: { value: '1794300001' } },
  },
  {
    name: 'webhook-signature',
    in: 'header',
    required: true,
    description:
      '`v1,<base64>[ v1,…]`: one for each live secret, the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the decoded secret.',
    schema: { type: 'string', pattern: '^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$' },
    examples: { event: { value: 'v1,mvVHF0IBURnB1KXkmHsu4WqtVswC4Y2JiVLJ3lUQ2zk=' } },
  },
  {
    name: 'traceparent',
    in: 'header',
    required: false,
    description: 'The trace that the provider’s call was part of, where there is one.',
    schema: { type: 'string' },
  },
]

/** The one event that Latchkey sends. */
export const outboundCalls: OutboundCalls = {
  event: {
    post: {
      operationId: 'event',
      summary: 'An event, normalized, on its way to the tenant’s callback',
      description,
      tags: ['events'],
      security: [],
      parameters,
      requestBody: jsonBody(schemaRef('Event'), { event: { value: exampleEvent } }),
      responses: {
        '2XX': {
          description:
            'Success. With `webhook-delivery: disable` no other event is sent until the callback is resumed.',
          headers: headerRefs(['webhook-delivery']),
        },
        '410': {
          description:
            'The callback is gone: the event ends as `delivery_failed`, and no other is sent until the callback is resumed.',
        },
        '429': {
          description: 'A failed attempt. `Retry-After` puts the next one off, by 10 h at most.',
          headers: headerRefs(['Retry-After', 'webhook-delivery']),
        },
        '503': {
          description: 'As 429.',
          headers: headerRefs(['Retry-After', 'webhook-delivery']),
        },
        default: {
          description: 'A failed attempt.',
          headers: headerRefs(['webhook-delivery']),
        },
      },
    },
  },
}
