import { idPattern } from '#internal/base/index.ts'
import { providerAliases, providerNames } from '#internal/tenants/index.ts'
import type { JsonSchema } from './json-schema.ts'

const ok = { type: 'boolean', const: true }
const dottedType = '^[a-z0-9_]+(\\.[a-z0-9_]+)+$'

/** The schemas of the webhook routes and of the events that we send, by the names they bear in the document. */
export const webhookSchemas: Readonly<Record<string, JsonSchema>> = {
  Provider: {
    type: 'string',
    enum: [...providerNames, ...Object.keys(providerAliases)],
    description: `A provider. Vendors’ names stand for neutral ones: ${aliasTexts().join(', ')}.`,
  },
  GenericEvent: {
    title: 'Our own format',
    type: 'object',
    additionalProperties: true,
    properties: {
      id: {
        type: 'string',
        minLength: 1,
        maxLength: 255,
        description:
          'The event’s id, by which duplicates are known. A `webhook-id` under `webhook-signature` takes precedence; any other header with an id must equal it.',
      },
      type: {
        type: 'string',
        maxLength: 255,
        description: 'Kept as it is when it is dotted lowercase; otherwise it becomes `generic.<type>`.',
      },
      occurredAt: {
        type: 'string',
        format: 'date-time',
        description: 'Otherwise the event occurred when it was received.',
      },
    },
  },
  VendorEvent: {
    title: 'A vendor’s event',
    type: 'object',
    description: 'Any JSON object, as the vendor sends it. A name must not stand twice at its top level.',
  },
  VendorForm: {
    type: 'object',
    additionalProperties: true,
    required: ['payload'],
    properties: {
      payload: { type: 'string', contentMediaType: 'application/json', description: 'The event as JSON.' },
    },
  },
  WebhookAnswer: {
    type: 'object',
    required: ['ok'],
    properties: {
      ok,
      cached: {
        ...ok,
        description:
          'The event was received before: nothing is forwarded. A tenant may opt in to a new delivery cycle where its delivery had failed (`callback.retryOnRedelivery`).',
      },
    },
  },
  WebhookQueued: { type: 'object', required: ['ok', 'queued'], properties: { ok, queued: ok } },
  WebhookInvalid: {
    title: 'The call was refused',
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'string',
        enum: [
          'invalid signature',
          'conflicting headers',
          'missing event id',
          'invalid event id',
          'invalid event type',
          'invalid payload',
          'payload nested too deeply',
        ],
      },
    },
  },
  TenantNotAllowed: {
    title: 'The tenant takes no such calls',
    type: 'object',
    required: ['message'],
    properties: { message: { type: 'string', const: 'tenant not allowed' } },
  },
  Event: eventSchema(),
}

function aliasTexts(): string[] {
  return Object.entries(providerAliases).map(([vendor, neutral]) => `\`${vendor}\` for \`${neutral}\``)
}

function eventSchema(): JsonSchema {
  const time = { type: 'string', format: 'date-time', pattern: 'Z$' }
  const properties = {
    id: { type: 'string', pattern: idPattern('evt'), description: 'Ours, and the same in every attempt.' },
    provider: { type: 'string', enum: providerNames, description: 'By its neutral name.' },
    providerRawType: { type: 'string', maxLength: 255, description: 'The type as the provider names it.' },
    type: {
      type: 'string',
      maxLength: 255,
      pattern: dottedType,
      description:
        'Normalized. A raw type that has no normalized one becomes `<provider>.<raw>`, lowercase and dotted.',
    },
    tenantId: { type: 'string', pattern: idPattern('ten') },
    occurredAt: { ...time, description: 'As the provider says; when it says nothing, as `receivedAt`. UTC.' },
    receivedAt: { ...time, description: 'UTC.' },
    payload: {
      type: 'object',
      description: 'The provider’s JSON as its text was received: numbers keep all of their digits.',
    },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description:
        'The headers of the provider’s call, names in lower case, without credentials and signatures; and `latchkey-hops`, and in a simulation’s events `latchkey-simulation`.',
    },
  }
  return { type: 'object', required: Object.keys(properties), properties }
}
