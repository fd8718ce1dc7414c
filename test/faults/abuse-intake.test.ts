import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tenantYaml } from '#test/support/api.ts'
import { createTestAuthority, signWallet, walletBody, webhookId } from '#test/support/intake/wallet-calls.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { type AbuseScene, openAbuseScene, statusOf } from './abuse-probes.ts'

const walletSpec = [
  `providers: [{name: wallet, wallet: {webhookId: ${webhookId}, environment: live}}]`,
  'walletRollout: {stage: enabled, review: {approvedBy: ana, approvedAt: "2026-11-01T00:00:00Z"}}',
]
const manifests = [
  webhookTenantYaml('acme', 'lk_test_acme_0123456789abcdef0123456789abcdef'),
  tenantYaml('purse', 'lk_test_purse_0123456789abcdef0123456789abcdef', walletSpec, 'webhooks'),
].join('')
const linesPerSecondMax = 10
/** Outcomes outside the error budget, listed again here, so that a mistaken addition to the product's list fails a test. */
const uncounted = [
  'route_unknown',
  'provider_unknown',
  'api_key_invalid',
  'api_key_scope',
  'tenant_not_allowed',
  'provider_paused',
  'invalid_request',
  'body_too_large',
  'body_dropped',
  'invalid_signature',
  'conflicting_headers',
  'missing_event_id',
  'certificate_unavailable',
  'loop_detected',
  'handshake',
  'method_not_allowed',
]
let scene: AbuseScene

beforeAll(async () => {
  // Makes every fetch of a certificate fail, so that no vendor is called.
  scene = await openAbuseScene(manifests, { LATCHKEY_EGRESS_PROXY: 'http://127.0.0.1:9' })
}, 60_000)
afterAll(() => scene?.close())

/** Calls that need no secret, by expected outcome. */
function forgedCalls(): readonly [outcome: string, status: number, send: () => Promise<number>][] {
  const { url } = scene.api
  const forged = signGeneric(genericBody(), { secret: 'not-the-secret' })
  const to = (path: string, init: { body: string; headers: Record<string, string> } = forged) =>
    statusOf(`${url}${path}`, init)
  const looping = { ...forged, headers: { ...forged.headers, 'Latchkey-Hops': '6' } }
  const long = { ...forged, body: 'x'.repeat(1024 * 1024 + 1) }
  const { privateKey } = createTestAuthority()
  const wallet = () => {
    const name = crypto.randomUUID()
    const certificateUrl = `https://api.paypal.com/v1/notifications/certs/${name}`
    const body = walletBody(name)
    return to('/v1/t/purse/webhooks/wallet', {
      body,
      headers: signWallet(body, { privateKey, certificateUrl }),
    })
  }
  return [
    ['invalid_signature', 400, () => to('/v1/t/acme/webhooks/generic', looping)],
    ['tenant_not_allowed', 403, () => to('/v1/t/nobody/webhooks/generic')],
    ['tenant_not_allowed', 403, () => to('/v1/t/%00/webhooks/generic')],
    ['api_key_invalid', 403, () => to('/v1/webhooks/generic')],
    ['api_key_invalid', 403, () => to('/v1/record')],
    ['provider_unknown', 404, () => to('/v1/t/acme/webhooks/nobody')],
    ['route_unknown', 404, () => to('/nothing')],
    ['method_not_allowed', 405, async () => (await fetch(`${url}/v1/t/acme/webhooks/generic`)).status],
    ['body_too_large', 413, () => to('/v1/t/acme/webhooks/generic', long)],
    ['certificate_unavailable', 503, wallet],
  ]
}

test('error budget: the shipped rule excludes exactly the outcomes that callers without a secret can cause', () => {
  const rules = readFileSync('charts/latchkey/files/rules/recordings.yaml', 'utf8')
  const excluded = [...rules.matchAll(/\/v1\/webhooks[^}]*outcome!~"([^"]+)"/g)].map(
    ([, names = '']) => names,
  )
  expect(excluded.length).toBeGreaterThan(0)
  for (const names of new Set(excluded)) expect(names.split('|').toSorted()).toEqual(uncounted.toSorted())
})

/** Returns the rates of counted webhook calls and of 5xx answers, as the error budget's rules select them. */
async function budgetCounts(): Promise<{ all: number; bad: number }> {
  const metrics = await (await fetch(`${scene.api.opsUrl}/metrics`)).text()
  const counts = { all: 0, bad: 0 }
  const series =
    /^latchkey_http_requests_total\{.*route="\/v1\/(?:webhooks|t)\/.*status="(\d+)",outcome="(\w+)"\} (\d+)$/gm
  for (const [, status = '', outcome = '', count] of metrics.matchAll(series)) {
    if (uncounted.includes(outcome)) continue
    counts.all += Number(count)
    if (status.startsWith('5')) counts.bad += Number(count)
  }
  return counts
}

test('abuse, intake: forged calls get the expected status, write few log lines, and use no error budget', async () => {
  const { api } = scene
  const kinds = forgedCalls()
  const before = await budgetCounts()
  const counts = new Map<string, number>()
  const statuses = new Map<string, Set<number>>()
  const startedMs = performance.now()
  const senders = Array.from({ length: 40 }, async (_, sender) => {
    for (let call = 0; call < 50; call += 1) {
      const kind = kinds[(sender * 50 + call) % kinds.length]
      if (!kind) continue
      const [outcome, , send] = kind
      const status = await send()
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
      statuses.set(outcome, (statuses.get(outcome) ?? new Set()).add(status))
    }
  })
  await Promise.all(senders)
  const tookMs = performance.now() - startedMs
  const lines = [...api.lines('request'), ...api.lines('request failed')]
  const linesMax = linesPerSecondMax * (Math.ceil(tookMs / 1000) + 1)
  for (const [outcome, count] of counts) {
    const written = lines.filter((line) => line['outcome'] === outcome).length
    console.log(
      `2 000 forged calls in ${(tookMs / 1000).toFixed(1)} s: ${outcome}: sent ${count}, answered ${[...(statuses.get(outcome) ?? [])].join(', ')}, log lines ${written}`,
    )
    const wanted = kinds.find(([each]) => each === outcome)?.[1]
    expect([outcome, [...(statuses.get(outcome) ?? [])]]).toEqual([
      outcome,
      wanted === undefined ? [] : [wanted],
    ])
    expect(written).toBeGreaterThan(0)
    expect(written).toBeLessThanOrEqual(linesMax)
  }
  const after = await budgetCounts()
  console.log(
    `2 000 forged calls: error budget: calls ${after.all - before.all}, errors ${after.bad - before.bad}`,
  )
  expect(after).toEqual(before)
}, 60_000)

test('abuse, intake: a call forwarded five times gets 508 if it is signed, and 400 if its signature is forged', async () => {
  const hops = { 'Latchkey-Hops': '5' }
  const send = (secret?: string) => {
    const { body, headers } = signGeneric(genericBody(), secret === undefined ? {} : { secret })
    return statusOf(`${scene.api.url}/v1/t/acme/webhooks/generic`, { body, headers: { ...headers, ...hops } })
  }
  const before = await budgetCounts()
  expect([await send(), await send('not-the-secret')]).toEqual([508, 400])
  expect(await budgetCounts()).toEqual(before)
})

test('abuse, intake: a captured call replayed with forged ids in unsigned headers creates no new event', async () => {
  const url = `${scene.api.url}/v1/t/acme/webhooks/generic`
  const { body, headers } = signGeneric(genericBody('evt_captured'))
  expect(await statusOf(url, { body, headers })).toBe(200)
  const replays = Array.from({ length: 100 }, (_, nth) => {
    const name = nth % 2 === 0 ? 'X-Service-Event-Id' : 'webhook-id'
    return statusOf(url, { body, headers: { ...headers, [name]: `evt_${nth}` } })
  })
  const answers = await Promise.all(replays)
  const refused = answers.filter((status) => status === 400).length
  console.log(`100 replays of one signed call under made-up ids: ${refused} answered 400`)
  expect(refused).toBe(100)
})

/** Sends a POST with an unencoded path; returns status and body. */
function rawPost(path: string): Promise<{ status: number; body: string }> {
  const port = Number(new URL(scene.api.url).port)
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  socket.setTimeout(10_000, () => socket.destroy(new Error(`no answer to ${path}`)))
  socket.on('error', reject)
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1')
  })
  socket.on('close', () => {
    const [head = '', body = ''] = text.split('\r\n\r\n')
    resolve({ status: Number(head.split(' ')[1]), body })
  })
  const rest = ' HTTP/1.1\r\nHost: latchkey\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}'
  socket.write(Buffer.from(`POST ${path}${rest}`, 'latin1'))
  return promise
}

// Excludes raw control characters in a path, for which the HTTP parser responds with 505.
test('abuse, intake: malformed and unknown slugs get the same 403 response', async () => {
  const slugs: readonly [string, string][] = [
    ['unknown', 'nobody'],
    ['empty', ''],
    ['a space', '%20'],
    ['NUL', '%00'],
    ['a line break', 'acme%0d%0a'],
    ['DEL', '%7f'],
    ['a raw byte over 127', 'acme\xff'],
    ['no percent encoding', '%zz'],
    ['half a percent encoding', '%'],
    ['half a character', '%e2%28'],
    ['U+FFFD', '%EF%BF%BD'],
    ['an emoji', '%F0%9F%92%A9'],
    ['64 characters', 'a'.repeat(64)],
    ['129 characters', 'a'.repeat(129)],
    ['8 000 characters', 'a'.repeat(8_000)],
    ['a slash', 'acme%2F'],
    ['dots', '..'],
    ['escaped dots', '%2e%2e'],
    ['capitals', 'ACME'],
    ['a route parameter', ':tenantSlug'],
  ]
  const wanted = { status: 403, body: '{"message":"tenant not allowed"}' }
  const different: string[] = []
  for (const [what, slug] of slugs) {
    const answer = await rawPost(`/v1/t/${slug}/webhooks/generic`)
    if (!Bun.deepEquals(answer, wanted)) different.push(`${what}: ${answer.status} ${answer.body}`)
  }
  console.log(
    `slugs over a raw socket: ${slugs.length} sent, ${slugs.length - different.length} answered 403 alike`,
  )
  expect(different).toEqual([])
})
