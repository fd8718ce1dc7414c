import { afterAll, beforeAll, expect, test } from 'bun:test'
import { signAsVendor } from '#test/support/intake/vendor-signatures.ts'
import { providerSecret, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { type AbuseScene, openAbuseScene } from './abuse-probes.ts'

const apiKey = 'lk_test_json_0123456789abcdef0123456789abcdef'
const largeBytes = 1_200_000
let scene: AbuseScene

beforeAll(async () => {
  scene = await openAbuseScene(webhookTenantYaml('json', apiKey))
}, 60_000)
afterAll(() => scene?.close())

interface Sent {
  readonly status: number
  readonly text: string
}

interface Raw {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body: string
}

async function send(path: string, { method = 'POST', headers, body }: Raw): Promise<Sent> {
  const answer = await fetch(`${scene.api.url}${path}`, {
    method,
    body,
    headers: { 'Content-Type': 'application/json', ...headers },
  })
  return { status: answer.status, text: await answer.text() }
}

/** Builds nested arrays, with objects at every second level. */
function nested(levels: number): string {
  const pairs = Math.floor(levels / 2)
  const rest = levels % 2 === 0 ? ['', ''] : ['[', ']']
  return `${'{"a":['.repeat(pairs)}${rest[0]}${rest[1]}${']}'.repeat(pairs)}`
}

const authorization = { Authorization: `Bearer ${apiKey}` }
const record = (method: string, path: string, body: string) =>
  send(path, { method, headers: authorization, body })
const fresh = () => crypto.randomUUID()

type Vendor = 'card' | 'storefront' | 'codehost' | 'generic'

/** Calls a provider's URL with this body, signed by its vendor's scheme with the correct or another secret. */
async function webhook(
  vendor: Vendor,
  body: string,
  { form = false, secret = providerSecret } = {},
): Promise<Sent> {
  const sentBody = form ? `payload=${encodeURIComponent(body)}` : body
  const atMs = Math.floor(Date.now() / 1000) * 1000
  const signature = await signAsVendor(vendor, { body: sentBody, atMs, webhookId: fresh() }, secret)
  const headers: Record<Vendor, Record<string, string>> = {
    card: { 'Stripe-Signature': signature },
    storefront: {
      'X-Shopify-Hmac-Sha256': signature,
      'X-Shopify-Topic': 'orders/create',
      'X-Shopify-Webhook-Id': fresh(),
      'X-Shopify-Shop-Domain': 'a.example.com',
    },
    codehost: { 'X-Hub-Signature-256': signature, 'X-GitHub-Event': 'push', 'X-GitHub-Delivery': fresh() },
    generic: { 'X-Service-Signature': signature },
  }
  const type: Record<string, string> = form ? { 'Content-Type': 'application/x-www-form-urlencoded' } : {}
  return send(`/v1/t/json/webhooks/${vendor}`, { headers: { ...headers[vendor], ...type }, body: sentBody })
}

/** Returns an event nested `levels` deep, including the root object. */
const event = (levels: number, more = '') =>
  `{"id":"${fresh()}","type":"order.paid","created":1795000000,"deep":${nested(levels - 1)}${more}}`
const large = `,"text":"${'x'.repeat(largeBytes)}"`

const tooDeep = 'must not be nested deeper than 256 levels'
const noField = 'is not a field of this call'
const ok = '{"ok":true}'
const payloadTooDeep = '{"error":"payload nested too deeply"}'

/** All calls that accept JSON, with the expected answers to 256 and 257 levels. */
const ways: readonly (readonly [
  way: string,
  call: (levels: number) => Promise<Sent>,
  accepted: readonly [number, string],
  refused: readonly [number, string],
])[] = [
  [
    'PUT /v1/record',
    (levels) =>
      record(
        'PUT',
        '/v1/record',
        `{"scope":"json","key":"${fresh()}","status":200,"body":${nested(levels - 1)}}`,
      ),
    [200, ok],
    [400, tooDeep],
  ],
  [
    'POST /v1/record',
    (levels) =>
      record('POST', '/v1/record', `{"scope":"json","key":"${fresh()}","deep":${nested(levels - 1)}}`),
    [400, noField],
    [400, tooDeep],
  ],
  [
    'POST /v1/record/batch, one check of the batch',
    (levels) => record('POST', '/v1/record/batch', `{"checks":[{"deep":${nested(levels - 3)}}]}`),
    [200, '"statusCode":400'],
    [400, tooDeep],
  ],
  [
    'POST /v1/record/extend',
    (levels) => record('POST', '/v1/record/extend', `{"deep":${nested(levels - 1)}}`),
    [400, 'is required'],
    [400, tooDeep],
  ],
  [
    'POST /v1/simulate/chargeback',
    (levels) =>
      record('POST', '/v1/simulate/chargeback', `{"amount":1,"currency":"EUR","deep":${nested(levels - 1)}}`),
    [400, noField],
    [400, tooDeep],
  ],
  ['webhook of card', (levels) => webhook('card', event(levels)), [200, ok], [400, payloadTooDeep]],
  [
    'webhook of storefront',
    (levels) => webhook('storefront', event(levels)),
    [200, ok],
    [400, payloadTooDeep],
  ],
  ['webhook of generic', (levels) => webhook('generic', event(levels)), [200, ok], [400, payloadTooDeep]],
  ['webhook of codehost', (levels) => webhook('codehost', event(levels)), [200, ok], [400, payloadTooDeep]],
  [
    'webhook of codehost, as a form',
    (levels) => webhook('codehost', event(levels), { form: true }),
    [200, ok],
    [400, payloadTooDeep],
  ],
  [
    'webhook of codehost, read in the worker',
    (levels) => webhook('codehost', event(levels, large)),
    [200, ok],
    [400, payloadTooDeep],
  ],
  [
    'webhook of generic, forged',
    (levels) => webhook('generic', event(levels), { secret: 'another secret of a test' }),
    [400, '{"error":"invalid signature"}'],
    [400, '{"error":"invalid signature"}'],
  ],
]

test.each(ways)(
  'abuse, JSON by %s: 256 levels of nesting are accepted, and 257 levels are refused',
  async (way, call, accepted, refused) => {
    const [at, over] = [await call(256), await call(257)]
    console.log(`JSON nesting, ${way}: 256 levels ${at.status}, 257 levels ${over.status}`)
    expect([at.status, at.text]).toEqual([accepted[0], expect.stringContaining(accepted[1])])
    expect([over.status, over.text]).toEqual([refused[0], expect.stringContaining(refused[1])])
  },
)

test('abuse, JSON: every route refuses 4 000 levels of nesting, and the process continues to serve calls', async () => {
  for (const [, call, , refused] of ways) {
    const { status, text } = await call(4000)
    expect([status, text]).toEqual([refused[0], expect.stringContaining(refused[1])])
  }
  expect((await fetch(`${scene.api.opsUrl}/readyz`)).status).toBe(200)
  const found = scene.api.output().match(/"cause":"body_too_deep"/g)?.length ?? 0
  console.log(`JSON nesting: ${found} refusals with cause body_too_deep in the log`)
  expect(found).toBeGreaterThan(0)
}, 30_000)
