import { publicEventRoutes } from '#internal/backoffice/index.ts'
import { idPattern } from '#internal/base/index.ts'
import { readConfig } from '#internal/config/index.ts'
import { hopsHeader, originKinds, ownProvider } from '#internal/events/index.ts'
import {
  type JsonSchema,
  type LimitsInDocument,
  mayGrow,
  named,
  type Parameter,
  type PublicRoute,
  type StaticBody,
  staticAnswer,
  staticBody,
} from '#internal/http/index.ts'
import { webhookRoutes } from '#internal/intake/index.ts'
import { eventTypeRoutes, exampleCalls } from '#internal/providers/index.ts'
import { recordRoutes } from '#internal/records/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import { providerNames, retryScheduleDefault } from '#internal/tenants/index.ts'
import {
  DocumentBuilder,
  documentRoute,
  errorLink,
  headerRefs,
  type OutboundOperation,
  ownServer,
  type Server,
  unroutedResponses,
  unroutedText,
} from './document.ts'

/** Path of the OpenAPI document of the public API. */
export const publicDocumentPath = '/v1/openapi.json'
const text = (description: string) => ({ description, schema: { type: 'string' } })

const headers = {
  Allow: text('Methods of this path.'),
  'Cache-Control': text('How long the response can be cached: `public, max-age=300`.'),
  Link: errorLink,
  'X-Request-Id': text("Id of this request in the logs: the caller's own or a generated one."),
  'Idempotent-Replayed': text('`true` when the answer is a saved response.'),
  'Retry-After': text('Seconds to wait before the next call.'),
  RateLimit: text('The limit that applies, what is left of it and when it resets.'),
  'RateLimit-Policy': text('Quota and window of that limit.'),
  'webhook-delivery': text(
    'Request of the callback: `disable` ends the event and stops deliveries until the callback is resumed; `abort-message` ends the event. A successful delivery stays successful.',
  ),
}

/** Configuration of the API that its document shows. */
export interface ContractConfig extends LimitsInDocument {
  /** Base URL by which clients reach the API. Default: unknown. */
  readonly publicUrl?: string | undefined
}

/** Returns the limits that apply if no setting changes them. */
export function defaultLimits(): LimitsInDocument {
  const read = readConfig({}, { process: 'dev' })
  if (read.kind === 'invalid') throw new Error(read.problems.join('\n'))
  const { recordTtlSecondsMax, recordBodyBytesMax, signatureMaxAgeSeconds } = read.config
  return { recordTtlSecondsMax, recordBodyBytesMax, signatureMaxAgeSeconds }
}

/**
 * Returns the OpenAPI 3.1 document: exactly the routes that the API serves, and the calls to callbacks. `info.version` changes with the
 * contract; within `/v1` fields are only added.
 */
export function publicContract({ publicUrl, ...limits }: ContractConfig) {
  const builder = new DocumentBuilder(Object.keys(headers), limits)
  const paths = builder.pathsOf([
    ...recordRoutes,
    ...webhookRoutes,
    ...eventTypeRoutes,
    ...publicEventRoutes,
    ...simulationRoutes,
    documentRoute(publicDocumentPath),
  ])
  const webhooks = { event: { post: outboundEvent(builder) } }
  const responses = unroutedResponses(builder, publicDocumentPath)
  return {
    openapi: '3.1.1',
    info: {
      title: 'Latchkey',
      version: '1.0.0',
      summary: 'Idempotency records and webhook intake',
      description: `${unroutedText} A record call with a body accepts no query parameters and returns 400 for them.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: serversAt(publicUrl),
    tags: [
      {
        name: 'records',
        description: 'Has this operation already run? Get its response, or the lock to run it.',
      },
      {
        name: 'webhooks',
        description: 'Calls of providers: verified, deduplicated, stored, acknowledged.',
      },
      { name: 'simulations', description: 'Simulated events, to test callbacks.' },
      {
        name: 'events',
        description: 'A tenant’s own events and refused calls, their types, and the calls to its callback.',
      },
      { name: 'replays', description: 'Deliver many events again.' },
      { name: 'subscriptions', description: 'Pull or stream a tenant’s own events.' },
      { name: 'usage', description: 'A tenant’s own usage.' },
      { name: 'contract', description: 'This document.' },
    ],
    paths,
    webhooks,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the tenant: `Bearer lk_…`.' },
      },
      headers,
      parameters: builder.parameters,
      responses,
      schemas: builder.schemas,
    },
  }
}

function serversAt(publicUrl: string | undefined): readonly Server[] {
  if (publicUrl === undefined) return [ownServer]
  return [{ url: publicUrl.replace(/\/+$/, ''), description: 'Public base URL.' }, ownServer]
}

/** Returns the route that serves the public contract without authentication. */
export function contractRoutes(config: ContractConfig): readonly PublicRoute[] {
  return [serveDocument(publicDocumentPath, () => publicContract(config))]
}

/** Serves a document without authentication. Makes it at the first request, because most processes get no request for it. */
export function serveDocument(path: string, make: () => object): PublicRoute {
  let body: StaticBody | undefined
  return {
    method: 'GET',
    path,
    access: 'public',
    bodyBytesMax: 0,
    handle: ({ request }) => {
      body ??= staticBody(JSON.stringify(make()))
      return staticAnswer(body, request, { headers: {}, outcome: 'contract' })
    },
  }
}

const time = { type: 'string', format: 'date-time', pattern: 'Z$' }
const eventProperties: Readonly<Record<string, JsonSchema>> = {
  id: { type: 'string', pattern: idPattern('evt'), description: 'Latchkey’s id, the same in every attempt.' },
  provider: {
    type: 'string',
    enum: [...providerNames, ownProvider],
    ...mayGrow,
    description:
      'Name of the provider: the neutral one, or that of a declared provider such as `slack`; `latchkey` for a notification about the tenant’s operation, which goes to `spec.notifications` of the Tenant and never to the callback.',
  },
  providerRawType: { type: 'string', maxLength: 255, description: 'The provider’s name of the type.' },
  type: {
    type: 'string',
    maxLength: 255,
    pattern: '^[a-z0-9_]+(\\.[a-z0-9_]+)+$',
    description:
      'Normalized type. `GET /v1/event-types` lists the known types, and versions add more: ignore types that you do not know. A raw type that is not listed becomes `<provider>.<raw type>` in dotted lowercase; with `codehost`, `codehost.<event>.<action>` if the payload has an action. A sender of `generic` can use any type: check `provider`, too.',
    examples: ['payment.succeeded', 'chargeback.under_review', 'order.paid', 'pull_request.merged'],
  },
  tenantId: { type: 'string', pattern: idPattern('ten') },
  occurredAt: { ...time, description: 'Time given by the provider, otherwise `receivedAt`. UTC.' },
  receivedAt: { ...time, description: 'Time at which Latchkey received the event. UTC.' },
  payload: {
    type: 'object',
    description:
      'The provider’s JSON with the text of its numbers unchanged. With provider `latchkey`: `tenant` (`namespace`, `name`), `since`, `reason`, `advice` for people, and counts by type.',
  },
  headers: {
    type: 'object',
    properties: {
      [hopsHeader]: {
        type: 'string',
        pattern: '^[0-9]{1,3}$',
        description: 'Number of times that the event was forwarded.',
      },
      'latchkey-origin': {
        type: 'string',
        enum: originKinds.filter((kind) => kind !== 'provider'),
        ...mayGrow,
        description:
          'Present where no provider called. `service`: ingested by a service of the platform, which answers for it. `simulation`: made by a simulation. `test`: a test of the callback, of type `latchkey.test`; a sender of `generic` can use that type, but not set this header. `notification`: a notification, with provider `latchkey`.',
      },
      'latchkey-simulation': {
        type: 'string',
        pattern: idPattern('sim'),
        description: 'Simulation that made the event.',
      },
    },
    additionalProperties: { type: 'string' },
    description:
      'Headers of the provider’s call, names in lower case, without credentials and signatures. No caller can set headers that begin with `latchkey-`.',
  },
}
const Event = named('Event', {
  type: 'object',
  required: Object.keys(eventProperties),
  properties: eventProperties,
})

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
  headers: { 'content-type': 'application/json', 'user-agent': 'Stripe/1.0', [hopsHeader]: '1' },
}

const outboundParameters: readonly Parameter[] = [
  {
    name: 'webhook-id',
    in: 'header',
    required: true,
    schema: { type: 'string' },
    description: '`id` of the event, the same in every attempt.',
    examples: { event: { value: exampleEvent.id } },
  },
  {
    name: 'webhook-timestamp',
    in: 'header',
    required: true,
    description: 'Time at which this attempt was signed, as Unix seconds.',
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
    schema: { type: 'string' },
    description: 'Trace of the provider’s call, if the call has a trace.',
  },
]

/** Text such as `5 s, 5 min and 2 h`. */
const retryPauses = new Intl.ListFormat('en-GB').format(
  retryScheduleDefault.slice(1).map((wait) => wait.replace('m', 'min').replace(/^[0-9]+/, '$& ')),
)

function outboundEvent(builder: DocumentBuilder): OutboundOperation {
  return {
    operationId: 'event',
    tags: ['events'],
    security: [],
    summary: 'A normalized event, sent to the tenant’s callback',
    description: `Each accepted event that is not a duplicate is sent to the tenant's callback, if it has one, by POST, at least once and in no guaranteed order: detect repeats by \`webhook-id\`. The call is signed as Standard Webhooks with every live secret of the callback, so that any library of that standard can verify it.

Redirects count as failures and are not followed. Connecting may take 5 s, the whole call \`callback.timeoutSeconds\` of the tenant (15). A failed attempt is followed by the next after ${retryPauses}, each ± 20 %, unless the tenant has its own schedule in \`callback.retry\`. After success the event is \`processed\`, after a failed last attempt \`delivery_failed\`.`,
    parameters: outboundParameters,
    requestBody: builder.requestBody({
      required: true,
      content: { 'application/json': { schema: Event, examples: { event: { value: exampleEvent } } } },
    }),
    responses: {
      '2XX': {
        description:
          'Success. With `webhook-delivery: disable`, no further event is sent until the callback is resumed.',
        headers: headerRefs(['webhook-delivery']),
      },
      '410': {
        description:
          'The callback no longer exists: the event becomes `delivery_failed`, and no further event is sent until the callback is resumed.',
      },
      '429': {
        description: 'A failed attempt. `Retry-After` delays the next attempt by at most 10 h.',
        headers: headerRefs(['Retry-After', 'webhook-delivery']),
      },
      '503': {
        description: 'A failed attempt. `Retry-After` has the same effect as with 429.',
        headers: headerRefs(['Retry-After', 'webhook-delivery']),
      },
      default: { description: 'A failed attempt.', headers: headerRefs(['webhook-delivery']) },
    },
  }
}
