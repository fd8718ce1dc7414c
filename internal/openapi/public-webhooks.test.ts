import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import type { BatchOutcome } from '#internal/events/index.ts'
import { providers } from '#internal/providers/built-in/registry.ts'
import { exampleCalls, exampleSecret, exampleSignedAt, formMedia } from '#internal/providers/examples.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { parseTenant } from '#internal/tenants/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import {
  contract,
  type ExampleRequest,
  expectDocumented,
  expectFits,
  fillPath,
  operations,
  requestExamples,
  resolveParameter,
  schemaAt,
} from '#test/support/documents/contract.ts'
import { openIntakeLab } from '#test/support/intake/intake-lab.ts'
import { kits as card } from '#test/support/intake/provider-kits/card.ts'
import { kits as codehost } from '#test/support/intake/provider-kits/codehost.ts'
import { kits as gateway } from '#test/support/intake/provider-kits/gateway.ts'
import { kits as generic } from '#test/support/intake/provider-kits/generic.ts'
import { kits as storefront } from '#test/support/intake/provider-kits/storefront.ts'
import { kits as wallet } from '#test/support/intake/provider-kits/wallet.ts'
import { type SignatureScheme, signAsVendor } from '#test/support/intake/vendor-signatures.ts'
import {
  genericBody,
  providerSecret,
  signGeneric,
  webhookTenantYaml,
} from '#test/support/intake/webhook-calls.ts'
import { exampleEventCall } from './public.ts'

const kits = [card, storefront, codehost, generic, wallet, gateway].flat()

const byKey = '/v1/webhooks/{provider}'
const bySlug = '/v1/t/{tenantSlug}/webhooks/{provider}'
const otherKey = 'lk_other_0123456789abcdef0123456789abcdef'
const recordsKey = 'lk_recor_0123456789abcdef0123456789abcdef'
const asleepKey = 'lk_sleep_0123456789abcdef0123456789abcdef'

let api: TestApi
let pool: Pool

beforeAll(async () => {
  const manifests = [
    webhookTenantYaml('acme', testApiKey),
    webhookTenantYaml('other', otherKey),
    webhookTenantYaml('asleep', asleepKey, ['suspended: true']),
    tenantYaml('bare', recordsKey),
    tenantYaml('payer', 'lk_payer_0123456789abcdef0123456789abcdef', [
      'providers: [{name: wallet, wallet: {webhookId: W1, environment: live}}]',
      'walletRollout: {stage: verify}',
    ]),
  ]
  api = await startTestApi({ manifests: manifests.join('') })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
}, 30_000)
afterAll(async () => {
  await pool.end()
  await api.close()
})

const webhookOperations = operations.filter(
  ({ method, operation }) => operation.tags.includes('webhooks') && method === 'POST',
)

/** Signature schemes by header. */
const schemes: Readonly<Record<string, SignatureScheme>> = {
  'Card-Signature': 'card',
  'Stripe-Signature': 'card',
  'X-Storefront-Hmac-Sha256': 'storefront',
  'X-Shopify-Hmac-Sha256': 'storefront',
  'X-Codehost-Signature-256': 'codehost',
  'X-Hub-Signature-256': 'codehost',
  'X-Service-Signature': 'generic',
  'webhook-signature': 'standard',
}

interface Sent {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Signs an example for `atMs` and `secret`. */
async function signExample({ header, media, body }: ExampleRequest, secret: string, atMs: number) {
  const text =
    media === formMedia
      ? new URLSearchParams(body as Record<string, string>).toString()
      : JSON.stringify(body)
  const signed: Record<string, string> = { ...header, 'Content-Type': media ?? '' }
  for (const name of Object.keys(header)) {
    const scheme = schemes[name]
    if (name === 'webhook-timestamp') signed[name] = String(atMs / 1000)
    if (scheme === undefined) continue
    const signable = { body: text, atMs, webhookId: header['webhook-id'] ?? '' }
    signed[name] = await signAsVendor(scheme, signable, secret)
  }
  return { headers: signed, body: text } satisfies Sent
}

const nowMs = () => Math.floor(Date.now() / 1000) * 1000

async function readAnswer(response: Response) {
  const body = (await response.json()) as Record<string, unknown>
  return { status: response.status, headers: response.headers, json: body }
}

async function send(path: string, { headers, body }: Sent, apiKey?: string) {
  const authorization = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }
  const init = { method: 'POST', headers: { ...headers, ...authorization }, body }
  return readAnswer(await fetch(`${api.url}${path}`, init))
}

describe('webhook examples', () => {
  test.each(webhookOperations)(
    'public contract: webhook examples of $path have valid vendor signatures',
    async (described) => {
      const examples = requestExamples(described)
      expect([...examples.keys()].toSorted()).toEqual(Object.keys(exampleCalls).toSorted())
      for (const example of examples.values()) {
        const { headers } = await signExample(example, exampleSecret, exampleSignedAt * 1000)
        expect(headers).toMatchObject(example.header)
        expect(Object.keys(headers).filter((name) => name in schemes)).toHaveLength(1)
      }
      expect(described.operation.description).toContain(exampleSecret)
    },
  )

  test.each<[string, string, string | undefined]>([
    ['by API key', byKey, otherKey],
    ['by slug', bySlug, undefined],
  ])(
    'public contract: the server responds as documented to webhook examples that name the tenant %s',
    async (_way, path, apiKey) => {
      const described = webhookOperations.find((each) => each.path === path)
      if (!described) throw new Error(`the document has no ${path}`)
      const answers = described.operation.responses['200']?.content['application/json']?.examples
      const examples = requestExamples(described)
      for (const name of Object.keys(exampleCalls)) {
        const example = examples.get(name)
        if (!example) throw new Error(`there is no example ${name}`)
        const call = await signExample(example, providerSecret, nowMs())
        const answer = await send(fillPath(path, example.path), call, apiKey)
        expect([name, answer.status]).toEqual([name, 200])
        expect(answer.json).toEqual(Object(answers?.[name]?.value))
        expectDocumented('POST', path, answer)
      }
    },
  )
})

describe('other webhook answers', () => {
  const plain = (body: string, headers: Record<string, string> = {}): Sent => ({ body, headers })
  const good = () => signGeneric(genericBody())
  const beside = (headers: Record<string, string>): Sent => {
    const call = good()
    return { ...call, headers: { ...call.headers, ...headers } }
  }
  const vendor = (provider: string) => ({ provider, tenantSlug: 'acme' })

  test.each<[string, () => Sent, number, unknown]>([
    ['no signature', () => plain('{}'), 400, { error: 'invalid signature' }],
    ['no event id', () => signGeneric('{"type":"a.b"}'), 400, { error: 'missing event id' }],
    ['a numeric event id', () => signGeneric('{"id":7}'), 400, { error: 'invalid event id' }],
    ['a body that is not JSON', () => signGeneric('id=1'), 400, { error: 'invalid payload' }],
    [
      'JSON of 257 levels',
      () => signGeneric(`{"id":"a","deep":${'['.repeat(256)}${']'.repeat(256)}}`),
      400,
      { error: 'payload nested too deeply' },
    ],
    ['a compressed body', () => beside({ 'Content-Encoding': 'gzip' }), 400, { code: 'invalid_request' }],
    ['a long body', () => plain('x'.repeat(1024 * 1024 + 1)), 413, { code: 'body_too_large' }],
    ['five hops', () => beside({ 'Latchkey-Hops': '5' }), 508, { code: 'loop_detected' }],
  ])('public contract: a webhook with %s gets the documented response', async (_what, call, status, body) => {
    for (const [path, apiKey] of [[byKey, testApiKey], [bySlug]] as const) {
      const answer = await send(fillPath(path, vendor('generic')), call(), apiKey)
      expect(answer).toMatchObject({ status, json: body })
      expectDocumented('POST', path, answer)
    }
  })

  test.each<[string, string, Readonly<Record<string, string>>, string | undefined, number, unknown]>([
    ['no API key', byKey, vendor('card'), undefined, 403, { code: 'api_key_invalid' }],
    ['a key without the scope', byKey, vendor('card'), recordsKey, 403, { code: 'api_key_scope' }],
    ['a suspended tenant’s key', byKey, vendor('card'), asleepKey, 403, { message: 'tenant not allowed' }],
    ['the reserved provider', byKey, vendor('gateway'), testApiKey, 403, { message: 'tenant not allowed' }],
    [
      'a provider that is not rolled out',
      bySlug,
      vendor('paypal'),
      undefined,
      403,
      { message: 'tenant not allowed' },
    ],
    [
      'an unknown slug',
      bySlug,
      { provider: 'card', tenantSlug: 'nobody' },
      undefined,
      403,
      { message: 'tenant not allowed' },
    ],
    [
      'a slug over 128 characters',
      bySlug,
      { provider: 'card', tenantSlug: 'a'.repeat(129) },
      undefined,
      403,
      { message: 'tenant not allowed' },
    ],
    ['an unknown provider', byKey, vendor('nobody'), undefined, 404, { code: 'provider_unknown' }],
    ['an unknown provider, by slug', bySlug, vendor('nobody'), undefined, 404, { code: 'provider_unknown' }],
    ['a control character in its path', byKey, vendor('a\u0000'), testApiKey, 404, { code: 'route_unknown' }],
  ])(
    'public contract: a webhook with %s gets the documented response',
    async (_what, path, values, apiKey, status, body) => {
      const answer = await send(fillPath(path, values), good(), apiKey)
      expect(answer).toMatchObject({ status, json: body })
      expectDocumented('POST', path, answer)
    },
  )

  const settled = (acceptance: 'refused'): BatchOutcome => ({ kind: 'completed', acceptances: [acceptance] })
  test.each<[string, BatchOutcome, 'queued' | 'unavailable', number, unknown]>([
    ['Postgres unavailable', { kind: 'unavailable' }, 'queued', 202, { ok: true, queued: true }],
    ['all stores unavailable', { kind: 'unavailable' }, 'unavailable', 503, { code: 'queue_unavailable' }],
    ['an event that Postgres rejects', settled('refused'), 'queued', 500, { code: 'internal' }],
  ])(
    'public contract: a webhook with %s gets the documented response',
    async (_what, outcome, spooled, status, body) => {
      const lab = openIntakeLab(api, { storeBatch: async () => outcome, spool: async () => spooled })
      const url = `http://localhost${fillPath(bySlug, vendor('generic'))}`
      const answer = await readAnswer(await lab.handle(new Request(url, { method: 'POST', ...good() })))
      await lab.close()
      expect(answer).toMatchObject({ status, json: body })
      for (const path of [byKey, bySlug]) expectDocumented('POST', path, answer)
    },
  )
})

test('public contract: a webhook whose certificate cannot be fetched gets the documented 503', async () => {
  const [kit] = wallet
  if (!kit) throw new Error('the wallet has no kit')
  const call = kit.compose({ eventId: 'WH-1', type: 'PAYMENT.CAPTURE.COMPLETED' })
  const request = {
    method: 'POST',
    body: Uint8Array.from(call.body),
    headers: kit.sign(call, kit.secrets[0], nowMs()),
  }
  const lab = openIntakeLab(api)
  const path = fillPath(bySlug, { provider: 'wallet', tenantSlug: 'payer' })
  const answer = await readAnswer(await lab.handle(new Request(`http://localhost${path}`, request)))
  await lab.close()
  expect(answer).toMatchObject({ status: 503, json: { code: 'certificate_unavailable' } })
  for (const path of [byKey, bySlug]) expectDocumented('POST', path, answer)
})

describe('webhook headers', () => {
  const documented = Object.keys(contract.components.parameters).map((name) => name.toLowerCase())
  /** SHA-1 signatures are refused, and read only to detect them. */
  const refused = ['x-codehost-signature', 'x-hub-signature']

  test.each(providers.map(({ name, secretHeaders }) => ({ name, secretHeaders })))(
    'public contract: exactly the signature headers of $name are documented',
    ({ name, secretHeaders }) => {
      const read = secretHeaders.filter((header) => !refused.includes(header))
      const signatures = Object.values(contract.components.parameters)
        .filter(({ description }) => description.startsWith(`Provider \`${name}\`.`))
        .map((parameter) => parameter.name.toLowerCase())
        .filter((header) => /signature|hmac|-sig$/.test(header))
      expect(signatures.toSorted()).toEqual(read.toSorted())
    },
  )

  test.each(kits)('public contract: every header of $title is documented under all its names', (kit) => {
    const call = kit.compose({ eventId: 'evt_1', type: 'a.b' })
    const sent = Object.keys(kit.sign(call, kit.secrets[0], 0)).filter((name) => name !== 'content-type')
    for (const name of [...sent, ...kit.twins.flat()]) expect(documented).toContain(name)
  })

  test.each(providers.map(({ name, bodyBytesMax }) => ({ name, bodyBytesMax })))(
    'public contract: the maximum body length of $name is documented',
    ({ name, bodyBytesMax }) => {
      for (const { operation } of webhookOperations) {
        const row = operation.description?.split('\n').find((line) => line.startsWith(`| \`${name}\` |`))
        expect(row).toEndWith(`| ${bodyBytesMax / 1024 / 1024} MiB |`)
      }
    },
  )

  test('public contract: the schema of a provider accepts the same names as the server', () => {
    const schema = schemaAt('components', 'schemas', 'Provider')
    for (const name of ['card', 'stripe', 'wallet', 'gateway']) expectFits(schema, name)
    for (const name of ['slack', 'stripe-connect']) expectFits(schema, name)
    for (const name of ['Stripe', '9', '']) expect(schema(name)).toBe(false)
  })
})

describe('outbound event', () => {
  const { post } = contract.webhooks['event'] ?? {}
  if (!post) throw new Error('the document has no event')
  const event = post.requestBody?.content['application/json']?.examples['event']?.value as Record<
    string,
    unknown
  >
  const header = (name: string) => {
    const found = post.parameters?.find((each) => 'name' in each && each.name === name)
    if (!found || '$ref' in found) throw new Error(`there is no ${name}`)
    return String(found.examples?.['event']?.value)
  }

  test('outbound event: the example matches its schema and passes verification by the Standard Webhooks library', async () => {
    expectFits(schemaAt('components', 'schemas', 'Event'), event)
    const id = parseEventId(String(event['id']))
    expect(id && new Date(receivedAtMsOf(id)).toISOString()).toBe(String(event['receivedAt']))
    const headers = Object.fromEntries(
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [name, header(name)]),
    )
    expect(headers['webhook-id']).toBe(String(event['id']))
    for (const [index, parameter] of (post.parameters ?? []).entries()) {
      const place = ['webhooks', 'event', 'post', 'parameters', String(index)]
      const { parameter: found, schema } = resolveParameter(place, parameter)
      for (const { value } of Object.values(found.examples ?? {})) expectFits(schema, value)
    }
    const body = JSON.stringify(event)
    const atMs = Number(headers['webhook-timestamp']) * 1000
    const signature = await signAsVendor(
      'standard',
      { body, atMs, webhookId: String(event['id']) },
      exampleSecret,
    )
    expect(headers['webhook-signature']).toBe(signature)
  })

  test('outbound event: the example is the event that the example webhook call produces', async () => {
    const call = exampleCalls[exampleEventCall]
    if (!call) throw new Error('there is no such call')
    const example: ExampleRequest = {
      path: {},
      query: {},
      header: call.headers,
      media: call.media,
      body: call.body as Record<string, unknown>,
    }
    const signed = await signExample(example, providerSecret, nowMs())
    const answer = await send(`/v1/t/acme/webhooks/${call.provider}`, signed)
    expect(answer.status).toBe(200)
    const { rows } = await pool.query(
      `SELECT e.provider, raw_type AS "providerRawType", type, occurred_at AS "occurredAt", payload
         FROM events e JOIN event_payloads p ON p.event_id = e.id WHERE source_event_id = $1`,
      [(call.body as { id: string }).id],
    )
    const [row] = rows
    expect(event).toMatchObject({
      provider: row.provider,
      providerRawType: row.providerRawType,
      type: row.type,
      occurredAt: row.occurredAt.toISOString(),
      payload: JSON.parse(row.payload),
    })
  })

  test('outbound event: the description states the default retry schedule and timeout', () => {
    const parsed = parseTenant({
      apiVersion: 'latchkey.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'acme', namespace: 'shops' },
      spec: { slug: 'acme', callback: { url: 'https://hooks.example.com/' } },
    })
    const callback = parsed.kind === 'ok' ? parsed.tenant.spec.callback : undefined
    if (callback === undefined) throw new Error('the manifest is not valid')
    const { timeoutSeconds, retry } = callback
    const [first, ...waits] = retry.schedule.map((wait) =>
      wait.replace(/([smh])$/, ' $1').replace(' m', ' min'),
    )
    expect(first).toBe('0 s')
    const listed = `${waits.slice(0, -1).join(', ')} and ${waits.at(-1)}`
    expect(post.description).toContain(`${listed}, each ± ${retry.jitterPercent} %`)
    expect(post.description).toContain(`(${timeoutSeconds})`)
  })
})
