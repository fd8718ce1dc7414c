import type { ErrorCode } from '#internal/base/index.ts'
import {
  type AnswerDoc,
  type Documented,
  type Example,
  type Examples,
  mayGrow,
  named,
  type Operation,
  type Parameter,
} from '#internal/http/index.ts'
import {
  type ExampleCall,
  exampleCalls,
  exampleSecret,
  exampleSignedAt,
  formMedia,
  type ProviderHeader,
  providers,
  type RefusalCause,
} from '#internal/providers/index.ts'
import { acceptedProviderNames, providerAliasText, providerNamePattern } from '#internal/tenants/index.ts'

const hops: Parameter = {
  name: 'Latchkey-Hops',
  in: 'header',
  required: false,
  description:
    'Number of times that Latchkey has forwarded the event. Providers do not send it; a callback that sends an event back passes on the received value. At 5 the call is 508.',
  schema: { type: 'integer', minimum: 0 },
}

const sharedParameters: readonly Parameter[] = [
  ...providers.flatMap(({ name, headers }) =>
    Object.values(headers).flatMap((each) => parametersOf(name, each)),
  ),
  hops,
]

function parametersOf(provider: string, { names, description, schema }: ProviderHeader): Parameter[] {
  return names.map((name) => {
    const others = names.filter((each) => each !== name).map((each) => `\`${each}\``)
    const same = others.length === 0 ? '' : ` Same as ${others.join(' and ')}.`
    const examples = examplesOf(({ headers }) => headers[name])
    return {
      name,
      in: 'header',
      required: false,
      description: `Provider \`${provider}\`. ${description}${same}`,
      schema,
      ...(Object.keys(examples).length > 0 && { examples }),
    }
  })
}

function examplesOf(valueOf: (call: ExampleCall) => unknown, withSummary = false): Examples {
  return Object.fromEntries(
    Object.entries(exampleCalls).flatMap(([name, call]): [string, Example][] => {
      const value = valueOf(call)
      return value === undefined ? [] : [[name, { ...(withSummary && { summary: call.summary }), value }]]
    }),
  )
}

const providerParameter: Parameter = {
  name: 'provider',
  in: 'path',
  required: true,
  description: 'Provider of the call.',
  schema: named('Provider', {
    type: 'string',
    pattern: providerNamePattern,
    maxLength: 40,
    description: `A provider: ${acceptedProviderNames.join(', ')}, or the name or an alias of a declared one. Vendors’ names are aliases of neutral ones: ${providerAliasText}.`,
  }),
  examples: examplesOf(({ provider }) => provider),
}

const GenericEvent = named('GenericEvent', {
  description: 'An event of the provider `generic`.',
  type: 'object',
  additionalProperties: true,
  properties: {
    id: {
      type: 'string',
      minLength: 1,
      maxLength: 255,
      description:
        'Event id, by which duplicates are detected. A `webhook-id` signed by `webhook-signature` takes precedence; any other header with an id must equal it.',
    },
    type: {
      type: 'string',
      maxLength: 255,
      description: 'Kept if it is dotted lowercase; otherwise it becomes `generic.<type>`.',
    },
    occurredAt: {
      type: 'string',
      format: 'date-time',
      description: 'Default: time of receipt.',
    },
  },
})

const VendorEvent = named('VendorEvent', {
  type: 'object',
  description: 'Any JSON object of the vendor, without repeated names at its top level.',
})

const VendorForm = named('VendorForm', {
  type: 'object',
  additionalProperties: true,
  required: ['payload'],
  properties: {
    payload: { type: 'string', contentMediaType: 'application/json', description: 'The event as JSON.' },
  },
})

const ok = { type: 'boolean', const: true }

const requestBody: Operation['requestBody'] = {
  description:
    'One JSON object in UTF-8 without byte order mark and without Content-Encoding, whatever the Content-Type; from `codehost` also a form, and from a declared provider what its declaration says.',
  required: true,
  content: {
    'application/json': {
      schema: { anyOf: [GenericEvent, VendorEvent] },
      examples: examplesOf(({ media, body }) => (media === formMedia ? undefined : body), true),
    },
    [formMedia]: {
      schema: VendorForm,
      examples: examplesOf(({ media, body }) => (media === formMedia ? body : undefined), true),
    },
  },
}

/** Error texts of responses with status 400, by the outcome of the call. */
const invalidTexts = {
  invalid_signature: 'invalid signature',
  conflicting_headers: 'conflicting headers',
  missing_event_id: 'missing event id',
  invalid_event_id: 'invalid event id',
  invalid_event_type: 'invalid event type',
  invalid_payload: 'invalid payload',
  payload_nested_too_deeply: 'payload nested too deeply',
} as const
const invalidErrors = Object.values(invalidTexts)

/** Kinds of invalid calls by cause. A cause that is missing here counts as an invalid signature. */
const invalidOutcomes: Partial<Record<RefusalCause, keyof typeof invalidTexts>> = {
  headers_conflict: 'conflicting_headers',
  event_id_missing: 'missing_event_id',
  event_id_malformed: 'invalid_event_id',
  event_type_malformed: 'invalid_event_type',
  body_not_json: 'invalid_payload',
  body_too_deep: 'payload_nested_too_deeply',
  body_ambiguous: 'invalid_payload',
}

/** Returns the outcome of a call that is refused with status 400, and the error text of the response. */
export function invalidityOf(cause: RefusalCause): { readonly outcome: string; readonly error: string } {
  const outcome = invalidOutcomes[cause] ?? 'invalid_signature'
  return { outcome, error: invalidTexts[outcome] }
}

const invalidSchema = named('WebhookInvalid', {
  type: 'object',
  required: ['error'],
  properties: {
    error: { type: 'string', enum: invalidErrors, ...mayGrow },
  },
})

const answers: Readonly<Record<number, AnswerDoc>> = {
  200: {
    description: 'The event is stored, or was stored before.',
    schema: named('WebhookAnswer', {
      type: 'object',
      required: ['ok'],
      properties: {
        ok,
        cached: {
          ...ok,
          description:
            'The event was received before: nothing is forwarded. A tenant may opt in to a new delivery cycle where the delivery had failed (`callback.retryOnRedelivery`).',
        },
      },
    }),
    examples: examplesOf(({ answer }) => answer),
  },
  202: {
    description:
      'The event is spooled until the database answers again; then it is stored and forwarded. Rare.',
    schema: named('WebhookQueued', {
      type: 'object',
      required: ['ok', 'queued'],
      properties: { ok, queued: ok },
    }),
    examples: { queued: { value: { ok: true, queued: true } } },
  },
  400: {
    description:
      'The call is not the provider’s, or cannot be read: `invalid signature` for a signature that is missing, wrong, too old or of another scheme; `conflicting headers` where two headers, or an unsigned header and the signed body, contradict each other; and `invalid signature` for any other problem without a text of its own. The envelope where the body did not arrive completely, arrived too slowly or is compressed.',
    schema: invalidSchema,
    examples: Object.fromEntries(
      invalidErrors.map((error) => [error.replaceAll(' ', '_'), { value: { error } }]),
    ),
  },
}

const tenantNotAllowed = (more = ''): AnswerDoc => ({
  description: `No such tenant, a suspended one, or one for which this provider is not set up or not enabled.${more}`,
  schema: named('TenantNotAllowed', {
    type: 'object',
    required: ['message'],
    properties: { message: { type: 'string', const: 'tenant not allowed' } },
  }),
  examples: { tenant_not_allowed: { value: { message: 'tenant not allowed' } } },
})

const errors: readonly ErrorCode[] = [
  'invalid_request',
  'route_unknown',
  'provider_unknown',
  'body_too_large',
  'internal',
  'limit_exceeded',
  'queue_unavailable',
  'certificate_unavailable',
  'secrets_unreadable',
  'provider_paused',
  'starting',
  'body_dropped',
  'overloaded',
  'loop_detected',
]

const errorTexts = {
  404: 'There is no such provider.',
  429: 'The call was the provider’s, and its tenant has no room for another event in this minute or month. Nothing was stored: send it again after `Retry-After`. Events over the month’s limit are refused only where the tenant’s limit says so; otherwise they are accepted.',
  503: 'The event was not stored: send it again.',
}

const description: Documented<string> = ({
  signatureMaxAgeSeconds,
}) => `Send the provider's body unchanged: the signature covers its bytes. It is verified with each of the tenant's secrets for this provider, of which one must match, or with the certificate that a call of \`wallet\` names. A signed time may differ by up to ${signatureMaxAgeSeconds} s in both directions; that of \`wallet\` may be up to 4 days old, because its vendor retries for three. Duplicates are detected by tenant, provider and event id, on both routes together; a new event is stored, acknowledged and forwarded as the outbound event \`event\`.

| provider | event id | raw type | body, at most |
| --- | --- | --- | --- |
| \`card\` | \`id\` of the body | \`type\` of the body | 1 MiB |
| \`storefront\` | \`X-Storefront-Webhook-Id\` | \`X-Storefront-Topic\` | 1 MiB |
| \`codehost\` | \`X-Codehost-Delivery\` | \`X-Codehost-Event\` | 25 MiB |
| \`generic\` | \`webhook-id\`, \`X-Service-Event-Id\`, or \`id\` of the body | \`type\` of the body | 1 MiB |
| \`wallet\` | \`id\` of the body | \`event_type\` of the body | 1 MiB |
| \`gateway\` | SHA-256 of the payload | \`kind\` of the notification | 1 MiB |

\`wallet\` is rolled out per tenant and refused with 403 before that; while a tenant verifies it, events are stored and not forwarded. \`gateway\` is reserved and refused with 403. The query is ignored, except by declared providers that sign it. The examples are signed with the secret \`${exampleSecret}\` at ${exampleSignedAt}, over their bodies without white space between tokens.`

const shared = { tag: 'webhooks', description, requestBody, sharedParameters, errorTexts } as const

export const receiveWebhook: Operation = {
  ...shared,
  id: 'receiveWebhook',
  security: 'apiKey',
  summary: 'Receive a provider’s event; the API key identifies the tenant',
  parameters: [providerParameter],
  answers: {
    ...answers,
    403: tenantNotAllowed(
      ' The envelope where the API key is missing, unknown, expired or without the scope `webhooks`.',
    ),
  },
  errors: [...errors, 'api_key_invalid', 'api_key_scope'],
}

const slugParameter: Parameter = {
  name: 'tenantSlug',
  in: 'path',
  required: true,
  description: 'Slug of the tenant.',
  schema: { type: 'string', minLength: 1, maxLength: 128 },
  examples: examplesOf(() => 'acme'),
}

export const answerHandshake: Operation = {
  id: 'answerHandshake',
  tag: 'webhooks',
  summary: 'Answer a vendor that checks the URL',
  description:
    'Vendors of some declared providers check a URL by GET or HEAD before they send events to it; the declaration says what they get, as text, JSON or nothing. Nothing is stored. Checks by POST use the route of events.',
  parameters: [slugParameter, { ...providerParameter, examples: { slack: { value: 'meta' } } }],
  answers: {
    200: {
      description: 'What the vendor expects, such as the challenge in the query.',
      schema: { type: 'string', maxLength: 2048 },
      examples: { challenge: { value: '1158201444' } },
      isText: true,
    },
    400: {
      description: 'The check is not the vendor’s, or its challenge is malformed.',
      headers: ['Link'],
      schema: invalidSchema,
      examples: { invalid_signature: { value: { error: 'invalid signature' } } },
    },
    403: tenantNotAllowed(),
  },
  errors: [
    'route_unknown',
    'provider_unknown',
    'method_not_allowed',
    'internal',
    'secrets_unreadable',
    'provider_paused',
    'starting',
    'overloaded',
  ],
  errorTexts: { 404: 'There is no such provider.', 405: 'The provider does not check URLs by this method.' },
}

export const receiveWebhookBySlug: Operation = {
  ...shared,
  id: 'receiveWebhookBySlug',
  summary: 'Receive a provider’s event; the path identifies the tenant',
  parameters: [slugParameter, providerParameter],
  answers: { ...answers, 403: tenantNotAllowed() },
  errors,
}
