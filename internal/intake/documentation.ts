import type { ErrorCode } from '#internal/base/index.ts'
import {
  type AnswerDoc,
  type Example,
  type Examples,
  type JsonSchema,
  named,
  type Operation,
  type Parameter,
} from '#internal/http/index.ts'
import { providerAliases, providerNames } from '#internal/tenants/index.ts'
import { type ExampleCall, exampleCalls, exampleSecret, exampleSignedAt, formMedia } from './examples.ts'

/** A provider's header under all of its names: any one is enough, and several must be equal. */
interface ProviderHeader {
  readonly provider: string
  readonly names: readonly string[]
  readonly description: string
  readonly schema: JsonSchema
}

const text: JsonSchema = { type: 'string', minLength: 1 }
const eventId: JsonSchema = { type: 'string', minLength: 1, maxLength: 255, pattern: '^[^\\s,]+$' }
const timedSignature: JsonSchema = {
  type: 'string',
  maxLength: 4096,
  pattern: '^t=[0-9]{1,12}(,[^=,]+=[^=,]*)+$',
}
const timed =
  '`t=<unix seconds>,v1=<hex>[,v1=…]`: each `v1` is an HMAC-SHA256 of `<t>.<body>`, and one must match.'
const threeNames = (name: string) => [`X-Storefront-${name}`, `X-Shopify-${name}`, `Shopify-${name}`]

const walletNames = (name: string) => [`Wallet-${name}`, `PAYPAL-${name.toUpperCase()}`]

const providerHeaders: readonly ProviderHeader[] = [
  {
    provider: 'card',
    names: ['Card-Signature', 'Stripe-Signature'],
    description: `Required. ${timed} The key is the whole secret, \`whsec_\` included.`,
    schema: timedSignature,
  },
  {
    provider: 'generic',
    names: ['X-Service-Signature'],
    description: `Required, unless the call is signed as Standard Webhooks. ${timed} The key is the whole secret.`,
    schema: timedSignature,
  },
  {
    provider: 'generic',
    names: ['X-Service-Event-Id'],
    description: 'Event id, where the body has none. Not covered by `X-Service-Signature`.',
    schema: eventId,
  },
  {
    provider: 'generic',
    names: ['webhook-signature'],
    description:
      'Standard Webhooks: `v1,<base64>[ v1,…]`, each is an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the decoded secret, and one must match. Not together with `X-Service-Signature`.',
    schema: { type: 'string', maxLength: 4096, pattern: '^[^, ]+,[^, ]+( [^, ]+,[^, ]+)*$' },
  },
  {
    provider: 'generic',
    names: ['webhook-id'],
    description: 'Event id. Required with `webhook-signature`.',
    schema: eventId,
  },
  {
    provider: 'generic',
    names: ['webhook-timestamp'],
    description: 'Unix time in seconds. Required with `webhook-signature`.',
    schema: { type: 'string', pattern: '^[0-9]{1,12}$' },
  },
  {
    provider: 'storefront',
    names: threeNames('Hmac-Sha256'),
    description: 'Required. HMAC-SHA256 of the body under the whole secret, in base64.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9+/]{43}=$' },
  },
  {
    provider: 'storefront',
    names: threeNames('Webhook-Id'),
    description: 'Required. Event id, by which duplicates are detected.',
    schema: eventId,
  },
  {
    provider: 'storefront',
    names: threeNames('Topic'),
    description: 'Raw type, such as `orders/create`; with an `Action` header its first half.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Action'),
    description: 'Second half of the raw type, in the vendor’s newer Events.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Shop-Domain'),
    description: 'Must equal the tenant’s configured shop, where one is set.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Triggered-At'),
    description: 'Time of the event. A malformed one is ignored.',
    schema: { type: 'string', format: 'date-time' },
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Signature-256', 'X-Hub-Signature-256'],
    description: 'Required. `sha256=<hex>`: HMAC-SHA256 of the body as received, form or JSON.',
    schema: { type: 'string', pattern: '^sha256=[0-9a-fA-F]{64}$' },
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Delivery', 'X-GitHub-Delivery'],
    description: 'Required. Event id, by which duplicates are detected.',
    schema: eventId,
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Event', 'X-GitHub-Event'],
    description: 'Raw type, such as `push`; the body’s `action` is appended: `pull_request.closed`.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Id'),
    description: 'Required. Part of the signed text `<id>|<time>|<webhook id>|<CRC-32 of the body>`.',
    schema: { ...text, maxLength: 128, pattern: '^[!-{}~]+$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Time'),
    description: 'Required. Time of the first transmission; part of the signed text.',
    schema: { type: 'string', format: 'date-time' },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Sig'),
    description: 'Required. Signature in base64.',
    schema: { ...text, maxLength: 1368, pattern: '^[A-Za-z0-9+/]+={0,2}$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Auth-Algo'),
    description: 'Required. `SHA256withRSA`, in any case.',
    schema: { ...text, pattern: '^[Ss][Hh][Aa]256[Ww][Ii][Tt][Hh][Rr][Ss][Aa]$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Cert-Url'),
    description:
      'Required. URL of the certificate, at a host of the vendor for the tenant’s environment. While it cannot be fetched, the call is 503.',
    schema: { type: 'string', format: 'uri', maxLength: 512, pattern: '^https://' },
  },
]

const hops: Parameter = {
  name: 'Latchkey-Hops',
  in: 'header',
  required: false,
  description:
    'Number of times that Latchkey has forwarded the event. Providers do not send it; a callback that sends an event back passes on the received value. At 5 the call is 508.',
  schema: { type: 'integer', minimum: 0 },
}

const sharedParameters: readonly Parameter[] = [...providerHeaders.flatMap(parametersOf), hops]

function parametersOf({ provider, names, description, schema }: ProviderHeader): Parameter[] {
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

/** Returns an example for each call that has this value, under the call's name. */
function examplesOf(valueOf: (call: ExampleCall) => unknown, withSummary = false): Examples {
  return Object.fromEntries(
    Object.entries(exampleCalls).flatMap(([name, call]): [string, Example][] => {
      const value = valueOf(call)
      return value === undefined ? [] : [[name, { ...(withSummary && { summary: call.summary }), value }]]
    }),
  )
}

const aliasTexts = Object.entries(providerAliases).map(
  ([vendor, neutral]) => `\`${vendor}\` for \`${neutral}\``,
)

const providerParameter: Parameter = {
  ...{ name: 'provider', in: 'path', required: true, description: 'Provider of the call.' },
  schema: named('Provider', {
    type: 'string',
    enum: [...providerNames, ...Object.keys(providerAliases)],
    description: `A provider. Vendors’ names are aliases of neutral ones: ${aliasTexts.join(', ')}.`,
  }),
  examples: examplesOf(({ provider }) => provider),
}

const GenericEvent = named('GenericEvent', {
  title: 'Our own format',
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
  title: 'A vendor’s event',
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
    'One JSON object in UTF-8 without byte order mark and without Content-Encoding, whatever the Content-Type; from `codehost` also a form.',
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
    schema: named('WebhookInvalid', {
      title: 'Refused call',
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
    }),
    examples: {
      invalid_signature: { value: { error: 'invalid signature' } },
      conflicting_headers: { value: { error: 'conflicting headers' } },
      missing_event_id: { value: { error: 'missing event id' } },
      invalid_event_id: { value: { error: 'invalid event id' } },
      invalid_event_type: { value: { error: 'invalid event type' } },
      invalid_payload: { value: { error: 'invalid payload' } },
      payload_nested_too_deeply: { value: { error: 'payload nested too deeply' } },
    },
  },
}

const tenantNotAllowed = (more = ''): AnswerDoc => ({
  description: `No such tenant, a suspended one, or one for which this provider is not set up or not enabled.${more}`,
  schema: named('TenantNotAllowed', {
    title: 'Tenant without such calls',
    type: 'object',
    required: ['message'],
    properties: { message: { type: 'string', const: 'tenant not allowed' } },
  }),
  examples: { tenant_not_allowed: { value: { message: 'tenant not allowed' } } },
})

const errors: readonly ErrorCode[] = [
  ...(['invalid_request', 'route_unknown', 'provider_unknown', 'body_too_large', 'internal'] as const),
  ...(['limit_exceeded', 'queue_unavailable', 'certificate_unavailable', 'secrets_unreadable'] as const),
  ...(['provider_paused', 'starting', 'body_dropped', 'overloaded', 'loop_detected'] as const),
]

const errorTexts = {
  404: 'There is no such provider.',
  429: 'The call was the provider’s, and its tenant has no room for another event in this minute or month. Nothing was stored: send it again after `Retry-After`. Events over the month’s limit are refused only where the tenant’s limit says so; otherwise they are accepted.',
  503: 'The event was not stored: send it again.',
}

const description = `Send the provider's body unchanged: the signature covers its bytes. It is verified with each of the tenant's secrets for this provider, of which one must match, or with the certificate that a call of \`wallet\` names. A signed time may differ by up to \`LATCHKEY_SIGNATURE_MAX_AGE_SECONDS\` (300 s) in both directions; that of \`wallet\` may be up to 4 days old, because its vendor retries for three. Duplicates are detected by tenant, provider and event id, on both routes together; a new event is stored, acknowledged and forwarded as the outbound event \`event\`.

| provider | event id | raw type | body, at most |
| --- | --- | --- | --- |
| \`card\` | \`id\` of the body | \`type\` of the body | 1 MiB |
| \`storefront\` | \`X-Storefront-Webhook-Id\` | \`X-Storefront-Topic\` | 1 MiB |
| \`codehost\` | \`X-Codehost-Delivery\` | \`X-Codehost-Event\` and \`action\` of the body | 25 MiB |
| \`generic\` | \`webhook-id\`, \`X-Service-Event-Id\`, or \`id\` of the body | \`type\` of the body | 1 MiB |
| \`wallet\` | \`id\` of the body | \`event_type\` of the body | 1 MiB |
| \`gateway\` | SHA-256 of the payload | \`kind\` of the notification | 1 MiB |

\`wallet\` is rolled out per tenant and refused with 403 before that; while a tenant verifies it, events are stored and not forwarded. \`gateway\` is reserved and refused with 403. The query is ignored. The examples are signed with the secret \`${exampleSecret}\` at ${exampleSignedAt}, over their bodies without white space between tokens.`

const shared = { tag: 'webhooks', description, requestBody, sharedParameters, errorTexts } as const

/** Documentation of the route that identifies the tenant by API key. */
export const receiveWebhook: Operation = {
  ...{ ...shared, id: 'receiveWebhook', security: 'apiKey' },
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

/** Documentation of the route that identifies the tenant by its slug. */
export const receiveWebhookBySlug: Operation = {
  ...{ ...shared, id: 'receiveWebhookBySlug' },
  summary: 'Receive a provider’s event; the path identifies the tenant',
  parameters: [
    {
      ...{ name: 'tenantSlug', in: 'path', required: true, description: 'Slug of the tenant.' },
      schema: { type: 'string', minLength: 1, maxLength: 128 },
      examples: examplesOf(() => 'acme'),
    },
    providerParameter,
  ],
  answers: { ...answers, 403: tenantNotAllowed() },
  errors,
}
