import type { JsonSchema } from './json-schema.ts'
import type { Example, Parameter, ParameterRef } from './openapi.ts'
import { exampleCalls } from './webhook-examples.ts'

/** A header that a provider sends, under all of its names: any one of them is enough, and two must say the same. */
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
  '`t=<unix seconds>,v1=<hex>[,v1=…]`: each `v1` an HMAC-SHA256 of `<t>.<body>`, of which one must match.'
const threeNames = (name: string) => [`X-Storefront-${name}`, `X-Shopify-${name}`, `Shopify-${name}`]

const walletNames = (name: string) => [`Wallet-${name}`, `PAYPAL-${name.toUpperCase()}`]

const providerHeaders: readonly ProviderHeader[] = [
  {
    provider: 'card',
    names: ['Card-Signature', 'Stripe-Signature'],
    description: `Needed. ${timed} The key is the whole secret, \`whsec_\` included.`,
    schema: timedSignature,
  },
  {
    provider: 'generic',
    names: ['X-Service-Signature'],
    description: `Needed, unless the call is signed as Standard Webhooks. ${timed} The key is the whole secret.`,
    schema: timedSignature,
  },
  {
    provider: 'generic',
    names: ['X-Service-Event-Id'],
    description: 'The event’s id, where the body has none. Not covered by `X-Service-Signature`.',
    schema: eventId,
  },
  {
    provider: 'generic',
    names: ['webhook-signature'],
    description:
      'Standard Webhooks: `v1,<base64>[ v1,…]`, each an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the decoded secret, of which one must match. Not together with `X-Service-Signature`.',
    schema: { type: 'string', maxLength: 4096, pattern: '^[^, ]+,[^, ]+( [^, ]+,[^, ]+)*$' },
  },
  {
    provider: 'generic',
    names: ['webhook-id'],
    description: 'The event’s id. Needed with `webhook-signature`.',
    schema: eventId,
  },
  {
    provider: 'generic',
    names: ['webhook-timestamp'],
    description: 'Unix time in seconds. Needed with `webhook-signature`.',
    schema: { type: 'string', pattern: '^[0-9]{1,12}$' },
  },
  {
    provider: 'storefront',
    names: threeNames('Hmac-Sha256'),
    description: 'Needed. The HMAC-SHA256 of the body under the whole secret, in base64.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9+/]{43}=$' },
  },
  {
    provider: 'storefront',
    names: threeNames('Webhook-Id'),
    description: 'Needed. The event’s id, by which duplicates are known.',
    schema: eventId,
  },
  {
    provider: 'storefront',
    names: threeNames('Topic'),
    description: 'The raw type, such as `orders/create`. With an `Action` beside it, its first half.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Action'),
    description: 'The second half of the raw type, in the vendor’s newer Events.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Shop-Domain'),
    description: 'Must be the tenant’s own shop where the tenant has set one.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'storefront',
    names: threeNames('Triggered-At'),
    description: 'When the event occurred. One that is no such time is passed over.',
    schema: { type: 'string', format: 'date-time' },
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Signature-256', 'X-Hub-Signature-256'],
    description: 'Needed. `sha256=<hex>`: the HMAC-SHA256 of the body as it came, form or JSON.',
    schema: { type: 'string', pattern: '^sha256=[0-9a-fA-F]{64}$' },
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Delivery', 'X-GitHub-Delivery'],
    description: 'Needed. The event’s id, by which duplicates are known.',
    schema: eventId,
  },
  {
    provider: 'codehost',
    names: ['X-Codehost-Event', 'X-GitHub-Event'],
    description: 'The raw type, such as `push`; a body’s `action` is added to it: `pull_request.closed`.',
    schema: { ...text, maxLength: 255 },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Id'),
    description: 'Needed. Part of what is signed: `<id>|<time>|<webhook id>|<CRC-32 of the body>`.',
    schema: { ...text, maxLength: 128, pattern: '^[!-{}~]+$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Time'),
    description: 'Needed. When it was first sent; part of what is signed.',
    schema: { type: 'string', format: 'date-time' },
  },
  {
    provider: 'wallet',
    names: walletNames('Transmission-Sig'),
    description: 'Needed. The signature in base64.',
    schema: { ...text, maxLength: 1368, pattern: '^[A-Za-z0-9+/]+={0,2}$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Auth-Algo'),
    description: 'Needed. `SHA256withRSA`, in any case.',
    schema: { ...text, pattern: '^[Ss][Hh][Aa]256[Ww][Ii][Tt][Hh][Rr][Ss][Aa]$' },
  },
  {
    provider: 'wallet',
    names: walletNames('Cert-Url'),
    description:
      'Needed. Where the certificate is: one of the vendor’s own hosts for the tenant’s environment. While it cannot be fetched the call is 503.',
    schema: { type: 'string', format: 'uri', maxLength: 512, pattern: '^https://' },
  },
]

const hops: Parameter = {
  name: 'Latchkey-Hops',
  in: 'header',
  required: false,
  description:
    'How often the event was forwarded by us already. Providers do not send it; a callback that sends an event on to us hands on the one it got. At 5 the call is 508.',
  schema: { type: 'integer', minimum: 0 },
}

/** Every header that the webhook routes read, as components of the document by name. */
export const webhookHeaders: Readonly<Record<string, Parameter>> = Object.fromEntries(
  [...providerHeaders.flatMap(parametersOf), hops].map((parameter) => [parameter.name, parameter]),
)

/** References to all of them. */
export const webhookHeaderRefs: readonly ParameterRef[] = Object.keys(webhookHeaders).map((name) => ({
  $ref: `#/components/parameters/${name}`,
}))

function parametersOf({ provider, names, description, schema }: ProviderHeader): Parameter[] {
  return names.map((name) => {
    const others = names.filter((each) => each !== name).map((each) => `\`${each}\``)
    const same = others.length === 0 ? '' : ` The same as ${others.join(' and ')}.`
    const examples = examplesOf(name)
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

function examplesOf(header: string): Readonly<Record<string, Example>> {
  return Object.fromEntries(
    Object.entries(exampleCalls).flatMap(([name, { headers }]): [string, Example][] => {
      const value = headers[header]
      return value === undefined ? [] : [[name, { value }]]
    }),
  )
}
