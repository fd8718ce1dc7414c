import type { ErrorCode } from '#internal/base/index.ts'
import { errorAnswers } from './errors.ts'
import {
  type Example,
  type Examples,
  jsonAnswer,
  type Operation,
  type Parameter,
  type Paths,
  type RequestBody,
  type ResponseObject,
  schemaRef,
} from './openapi.ts'
import {
  type ExampleCall,
  exampleCalls,
  exampleSecret,
  exampleSignedAt,
  formMedia,
} from './webhook-examples.ts'
import { webhookHeaderRefs } from './webhook-headers.ts'

const everywhere: readonly ErrorCode[] = [
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

const description = `Send the provider's body as it is: the signature is checked over the bytes as they come, under each of the secrets that the tenant has for this provider, of which one match is enough, or by the certificate that a call of \`wallet\` names. Where a signature carries its time, that may lie up to \`LATCHKEY_SIGNATURE_MAX_AGE_SECONDS\` (300 s) off, in both directions; that of \`wallet\` up to 4 days in the past, since its vendor sends again for three. Then duplicates are told, by tenant, provider and event id, whichever of the two routes a call takes; what is new is stored, acknowledged and forwarded as the outbound event \`event\`.

| provider | event id | raw type | body, at most |
| --- | --- | --- | --- |
| \`card\` | \`id\` of the body | \`type\` of the body | 1 MiB |
| \`storefront\` | \`X-Storefront-Webhook-Id\` | \`X-Storefront-Topic\` | 1 MiB |
| \`codehost\` | \`X-Codehost-Delivery\` | \`X-Codehost-Event\` and \`action\` of the body | 25 MiB |
| \`generic\` | \`webhook-id\`, \`X-Service-Event-Id\`, or \`id\` of the body | \`type\` of the body | 1 MiB |
| \`wallet\` | \`id\` of the body | \`event_type\` of the body | 1 MiB |
| \`gateway\` | SHA-256 of the payload | \`kind\` of the notification | 1 MiB |

\`wallet\` is rolled out tenant by tenant and refused with 403 until then; while a tenant tries it out, events are stored and not forwarded. \`gateway\` is reserved and refused with 403. A query is passed over. The examples are signed with the secret \`${exampleSecret}\` at ${exampleSignedAt}, over their bodies without white space between tokens.`

const shared = { tags: ['webhooks'], description, requestBody: requestBody() }

const byApiKey: Operation = {
  ...shared,
  operationId: 'receiveWebhook',
  summary: 'Receive a provider’s event, the tenant known by its API key',
  security: [{ apiKey: [] }],
  parameters: [providerParameter(), ...webhookHeaderRefs],
  responses: answers(['api_key_invalid', 'api_key_scope']),
}

const bySlug: Operation = {
  ...shared,
  operationId: 'receiveWebhookBySlug',
  summary: 'Receive a provider’s event, the tenant known by the path',
  security: [],
  parameters: [
    {
      name: 'tenantSlug',
      in: 'path',
      required: true,
      description: 'The slug of the tenant.',
      schema: { type: 'string', minLength: 1, maxLength: 128 },
      examples: examplesOf(() => 'acme'),
    },
    providerParameter(),
    ...webhookHeaderRefs,
  ],
  responses: answers([]),
}

/** The webhook routes of the public contract. */
export const webhookPaths: Paths = {
  '/v1/webhooks/{provider}': { post: byApiKey },
  '/v1/t/{tenantSlug}/webhooks/{provider}': { post: bySlug },
}

/** One example for each call for which there is a value, under the call's name. */
function examplesOf(valueOf: (call: ExampleCall) => unknown, withSummary = false): Examples {
  return Object.fromEntries(
    Object.entries(exampleCalls).flatMap(([name, call]): [string, Example][] => {
      const value = valueOf(call)
      return value === undefined ? [] : [[name, { ...(withSummary && { summary: call.summary }), value }]]
    }),
  )
}

function providerParameter(): Parameter {
  return {
    name: 'provider',
    in: 'path',
    required: true,
    description: 'Whose call it is.',
    schema: schemaRef('Provider'),
    examples: examplesOf(({ provider }) => provider),
  }
}

function requestBody(): RequestBody {
  const bodiesIn = (media: string) =>
    examplesOf((call) => (call.media === media ? call.body : undefined), true)
  return {
    description:
      'One JSON object in UTF-8 without byte order mark and without Content-Encoding, whatever the Content-Type says; from `codehost` also a form.',
    required: true,
    content: {
      'application/json': {
        schema: { anyOf: [schemaRef('GenericEvent'), schemaRef('VendorEvent')] },
        examples: bodiesIn('application/json'),
      },
      [formMedia]: { schema: schemaRef('VendorForm'), examples: bodiesIn(formMedia) },
    },
  }
}

/** @param keyCodes what an API key can be refused with; none where none is asked for */
function answers(keyCodes: readonly ErrorCode[]): Operation['responses'] {
  const errors = errorAnswers([...everywhere, ...keyCodes])
  return {
    '200': jsonAnswer(
      'The event is stored, or it was before.',
      schemaRef('WebhookAnswer'),
      examplesOf(({ answer }) => answer),
    ),
    '202': jsonAnswer(
      'The event is kept apart until the database answers again; then it is stored and forwarded. Rare.',
      schemaRef('WebhookQueued'),
      { queued: { value: { ok: true, queued: true } } },
    ),
    ...errors,
    '400': jsonAnswer(
      'The call is not the provider’s, or not one that can be read: `invalid signature` for a signature that is missing, wrong, too old or of another scheme; `conflicting headers` where two headers, or an unsigned header and the signed body, say different things; and `invalid signature` for whatever else is wrong and has no text of its own. The envelope where the body did not come whole, came too slowly or encoded.',
      { anyOf: [schemaRef('WebhookInvalid'), schemaRef('Error')] },
      {
        invalid_signature: { value: { error: 'invalid signature' } },
        conflicting_headers: { value: { error: 'conflicting headers' } },
        missing_event_id: { value: { error: 'missing event id' } },
        invalid_event_id: { value: { error: 'invalid event id' } },
        invalid_event_type: { value: { error: 'invalid event type' } },
        invalid_payload: { value: { error: 'invalid payload' } },
        payload_nested_too_deeply: { value: { error: 'payload nested too deeply' } },
        ...examplesIn(errors['400']),
      },
    ),
    '403': forbidden(errors['403']),
    ...described(errors, {
      404: 'There is no such provider.',
      429: 'The call was the provider’s, and its tenant has no room for another event in this minute or month. Nothing was stored: send it again when `Retry-After` says. A month’s events are refused only where the tenant’s limit says so; else they are accepted.',
      503: 'The event was not stored: send it again.',
    }),
  }
}

function forbidden(byKey: ResponseObject | undefined): ResponseObject {
  const notAllowed =
    'No such tenant, a suspended one, or one that this provider is not set up or not enabled for.'
  const example = { tenant_not_allowed: { value: { message: 'tenant not allowed' } } }
  if (!byKey) return jsonAnswer(notAllowed, schemaRef('TenantNotAllowed'), example)
  return jsonAnswer(
    `${notAllowed} The envelope where the API key is missing, unknown, ended or without the scope \`webhooks\`.`,
    { anyOf: [schemaRef('TenantNotAllowed'), schemaRef('Error')] },
    { ...example, ...examplesIn(byKey) },
  )
}

function examplesIn(answer: ResponseObject | undefined): Examples {
  return answer?.content['application/json'].examples ?? {}
}

function described(
  errors: Operation['responses'],
  descriptions: Readonly<Record<string, string>>,
): Operation['responses'] {
  return Object.fromEntries(
    Object.entries(descriptions).flatMap(([status, text]): [string, ResponseObject][] => {
      const answer = errors[status]
      return answer ? [[status, { ...answer, description: text }]] : []
    }),
  )
}
