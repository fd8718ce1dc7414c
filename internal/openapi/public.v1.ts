import { errorAnswers, errorSchema } from './errors.ts'
import { jsonAnswer, type Paths } from './openapi.ts'
import { outboundCalls } from './outbound-event.ts'
import { recordPaths } from './record-paths.ts'
import { recordSchemas } from './record-schemas.ts'
import { simulationPaths, simulationSchemas } from './simulation-paths.ts'
import { webhookHeaders } from './webhook-headers.ts'
import { webhookPaths } from './webhook-paths.ts'
import { webhookSchemas } from './webhook-schemas.ts'

const documentPath: Paths = {
  '/v1/openapi.json': {
    get: {
      operationId: 'readContract',
      summary: 'This document',
      tags: ['contract'],
      security: [],
      responses: { '200': jsonAnswer('OpenAPI 3.1.', { type: 'object' }, {}) },
    },
  },
}

const { 404: routeUnknown, 405: methodNotAllowed } = errorAnswers(['route_unknown', 'method_not_allowed'])

const text = (description: string) => ({ description, schema: { type: 'string' } })

/**
 * The public contract as an OpenAPI 3.1 document: every route that the API serves and no other, and what callbacks are
 * sent. `info.version` moves with the contract; within `/v1` fields are only added.
 */
export function publicContract() {
  return {
    openapi: '3.1.1',
    info: {
      title: 'Latchkey',
      version: '1.0.0',
      summary: 'Idempotency records and webhook intake',
      description:
        'Calls that no operation describes are answered too: another path with the response `RouteUnknown`, another method with `MethodNotAllowed`. HEAD is answered as GET, without the body. A record call that has a body takes no query parameters: they are 400.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: [
      {
        name: 'records',
        description: 'Has this operation already run? Get its response, or the lock to run it.',
      },
      {
        name: 'webhooks',
        description: 'Providers call: verified, told from duplicates, stored, acknowledged.',
      },
      { name: 'simulations', description: 'Made-up events, to try callbacks with.' },
      { name: 'events', description: 'What tenants’ callbacks are sent.' },
      { name: 'contract', description: 'What this API promises.' },
    ],
    paths: { ...recordPaths, ...webhookPaths, ...simulationPaths, ...documentPath },
    webhooks: outboundCalls,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the tenant: `Bearer lk_…`.' },
      },
      headers: {
        Allow: text('The methods that this path takes.'),
        'X-Request-Id': text("Name of this request in our logs: the caller's own, or one of ours."),
        'Idempotent-Replayed': text('`true` when the answer is a saved response.'),
        'Retry-After': text('Seconds to wait before asking again.'),
        RateLimit: text('The limit that was met, with what is left of it and when it is full again.'),
        'RateLimit-Policy': text('The quota of that limit and its window.'),
        'webhook-delivery': text(
          'What a callback wishes: `disable` ends the event and sends no other until the callback is resumed, `abort-message` ends the event. A success stays one.',
        ),
      },
      parameters: webhookHeaders,
      responses: { RouteUnknown: routeUnknown, MethodNotAllowed: methodNotAllowed },
      schemas: { Error: errorSchema, ...recordSchemas, ...webhookSchemas, ...simulationSchemas },
    },
  }
}
