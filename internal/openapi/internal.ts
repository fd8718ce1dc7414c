import { internalRoutes } from '#internal/backoffice/index.ts'
import type { PublicRoute } from '#internal/http/index.ts'
import {
  DocumentBuilder,
  documentRoute,
  errorLink,
  ownServer,
  unroutedResponses,
  unroutedText,
} from './document.ts'
import { serveDocument } from './public.ts'

/** Path of the OpenAPI document of the internal API. */
export const internalDocumentPath = '/internal/v1/openapi.json'
const text = (description: string) => ({ description, schema: { type: 'string' } })

const headers = {
  Allow: text('Methods of this path.'),
  Link: errorLink,
  'X-Request-Id': text("Id of this request in the logs: the caller's own or a generated one."),
  'Idempotent-Replayed': text('`true` for a repeat, which changed nothing.'),
  'Retry-After': text('Seconds to wait before the next call.'),
  'WWW-Authenticate': text('Authentication scheme.'),
}

/** Returns the OpenAPI 3.1 document of the internal API, with every route of `/internal/v1`. */
export function internalDocument() {
  const builder = new DocumentBuilder(Object.keys(headers))
  const paths = builder.pathsOf([documentRoute(internalDocumentPath), ...internalRoutes])
  const responses = unroutedResponses(builder, internalDocumentPath)
  return {
    openapi: '3.1.1',
    info: {
      title: 'Latchkey, internal',
      version: '1.0.0',
      summary: 'Tenants and events for other services of the company and for the dashboard',
      description: `Every call except that of this document needs a token: either a Kubernetes token for the audience \`latchkey\` (\`kubectl create token NAME --audience latchkey\`), whose rights on Tenants apply, or a tenant’s API key of scope \`dashboard\` or \`dashboard:read\`, which sees that tenant alone. \`dashboard:read\` reads everything except payloads as received, and every write is 403; \`dashboard\` also reads payloads, replays, and tests and resumes the callback, and simulates together with \`simulations\`. Rights in Kubernetes: \`get tenants\` to see, \`get tenants/payloads\`, \`create tenants/replays\`, \`update tenants/settings\`, \`create tenants/simulations\`, \`create tenants/events\`, \`create tenants/usage\`. Lists have a stable order, newest first unless stated otherwise, and pages by \`after\`. A write may be repeated unchanged: it is done once, and a repeat has \`Idempotent-Replayed\`. Two writes differ: a test of a callback calls it each time (with an \`Idempotency-Key\` under the same \`webhook-id\`), and a replay of one event without \`cycle\` begins another delivery cycle if the last one has ended meanwhile. Every write and every read of a payload is in the audit log. ${unroutedText}`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [ownServer],
    tags: [
      { name: 'tenants', description: 'Tenants and their state.' },
      { name: 'events', description: 'Events, their origin and their delivery status.' },
      { name: 'replays', description: 'Deliver many events again.' },
      { name: 'subscriptions', description: 'Positions from which tenants pull their events.' },
      { name: 'usage', description: 'Usage and its limits.' },
      { name: 'settings', description: 'Settings that change at run time.' },
      { name: 'simulations', description: 'Simulated events, to test callbacks.' },
      { name: 'executions', description: 'Lock history.' },
      { name: 'audit', description: 'Audit log.' },
      { name: 'contract', description: 'This document.' },
    ],
    paths,
    components: {
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A Kubernetes token for the audience `latchkey`, the token of an operator of `latchkey run`, or a tenant’s API key of scope `dashboard` or `dashboard:read`.',
        },
      },
      headers,
      parameters: builder.parameters,
      responses,
      schemas: builder.schemas,
    },
  }
}

/** Returns the route that serves the OpenAPI document of the internal API without authentication. */
export function internalDocumentRoutes(): readonly PublicRoute[] {
  return [serveDocument(internalDocumentPath, internalDocument)]
}
