// Calls of declared providers over HTTP. Tenants can name these providers without a manifest, since their declarations are shipped.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { openIntakeLab } from '#test/support/intake/intake-lab.ts'
import { acceptWebhook } from './intake.ts'

const secret = 'a-signing-secret-of-tests'
const publicUrl = 'https://hooks.example/latchkey'
let api: TestApi
let pool: Pool

const verified = ['slack', 'twilio', 'square', 'facebook']
const unverified = ['trello', 'gitlab', 'awssns']
const entry = (name: string, more = '') => `{name: ${name}, ${more}secretRef: {name: acme-provider}}`
const manifests = `${tenantYaml('acme', testApiKey, [
  `providers: [${[
    ...[...verified, 'brex', 'nosuch'].map((name) => entry(name)),
    ...unverified.map((name) => entry(name, 'acceptUnverified: true, ')),
  ].join(', ')}]`,
])}apiVersion: v1
kind: Secret
metadata: {name: acme-provider, namespace: shops}
stringData: {signingSecret: ${secret}}
---
`

beforeAll(async () => {
  api = await startTestApi({ manifests, publicUrl })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
})
afterAll(async () => {
  await pool.end()
  await api.close()
})
beforeEach(() => truncateEvents(pool, 'refused_calls'))

const pathOf = (provider: string, query = '') => `/v1/t/acme/webhooks/${provider}${query}`

function post(
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string>,
): Promise<Response> {
  return fetch(`${api.url}${path}`, { method: 'POST', body, headers })
}

function slackHeaders(body: string): Record<string, string> {
  const time = String(Math.floor(Date.now() / 1000))
  const hex = createHmac('sha256', secret).update(`v0:${time}:${body}`).digest('hex')
  return { 'X-Slack-Signature': `v0=${hex}`, 'X-Slack-Request-Timestamp': time }
}

async function events(): Promise<Record<string, string>[]> {
  const { rows } = await pool.query(
    'SELECT provider, type, raw_type, source_event_id, e.headers, p.payload FROM events e JOIN event_payloads p ON p.event_id = e.id',
  )
  return rows
}

test('declared provider: a signed call of a shipped declaration is stored under its name, without its signature', async () => {
  const body = '{"type":"event_callback","event":{"type":"app_mention"},"event_id":"Ev1"}'
  const answer = await post(pathOf('slack'), body, slackHeaders(body))
  expect([answer.status, await answer.json()]).toEqual([200, { ok: true }])
  const [event] = await events()
  expect(event).toMatchObject({
    provider: 'slack',
    type: 'slack.app_mention',
    source_event_id: 'Ev1',
    payload: body,
  })
  expect(event?.['headers']).not.toContain('x-slack-signature')
})

test('declared provider: a call with a wrong signature is refused, and is recorded with its cause and without the signature', async () => {
  const answer = await post(pathOf('slack'), '{}', { ...slackHeaders('{"a":1}') })
  expect([answer.status, await answer.json()]).toEqual([400, { error: 'invalid signature' }])
  const read = () => pool.query("SELECT provider, cause, headers FROM refused_calls WHERE provider = 'slack'")
  let { rows } = await read()
  for (const until = Date.now() + 5_000; rows.length === 0 && Date.now() < until; ) ({ rows } = await read())
  expect(rows).toMatchObject([{ provider: 'slack', cause: 'signature_mismatch' }])
  expect(JSON.stringify(rows)).not.toContain('x-slack-signature')
})

test('declared provider: a signed challenge by `POST` is echoed as plain text and creates no event', async () => {
  const body = '{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV"}'
  const answer = await post(pathOf('slack'), body, slackHeaders(body))
  expect([answer.status, await answer.text()]).toEqual([200, '3eZbrw1aBm2rZgRNFdxV'])
  expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
  expect(await events()).toEqual([])
})

test('declared provider: a challenge with a wrong signature is refused', async () => {
  const body = '{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV"}'
  const answer = await post(pathOf('slack'), body, slackHeaders(`${body} `))
  expect([answer.status, await answer.json()]).toEqual([400, { error: 'invalid signature' }])
})

test('declared provider: a challenge by `GET` is echoed under an alias of the provider', async () => {
  const query = `?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=${secret}`
  const answer = await fetch(`${api.url}${pathOf('facebook', query)}`)
  expect([answer.status, await answer.text()]).toEqual([200, '1158201444'])
  expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
})

test('declared provider: a challenge with control characters is refused', async () => {
  const query = '?hub.mode=subscribe&hub.challenge=a%0d%0ab'
  const answer = await fetch(`${api.url}${pathOf('meta', query)}`)
  expect(answer.status).toBe(400)
})

test('declared provider: for a vendor that checks its URL by `HEAD`, `HEAD` responds 200 and `GET` responds 405', async () => {
  expect((await fetch(`${api.url}${pathOf('trello')}`, { method: 'HEAD' })).status).toBe(200)
  const got = await fetch(`${api.url}${pathOf('trello')}`)
  expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST'])
})

test.each([
  ['a built-in provider that does not check URLs', 'generic', 403],
  ['a declared provider without a check', 'square', 405],
  ['an unknown provider', 'unknown', 404],
])('webhook: a `GET` for %s (`%s`) gets the status %i', async (_what, provider, status) => {
  expect((await fetch(`${api.url}${pathOf(provider)}`)).status).toBe(status)
})

test('declared provider: a signature over the URL is checked against the public URL with its query', async () => {
  const body = '{"type":"refund.created","event_id":"11111111-2222-3333-4444-555555555555"}'
  const path = pathOf('square', '?a=b%20c')
  const sign = (url: string) =>
    createHmac('sha256', secret)
      .update(url + body)
      .digest('base64')
  const wrong = await post(path, body, { 'X-Square-HmacSha256-Signature': sign(`${api.url}${path}`) })
  expect(wrong.status).toBe(400)
  const right = await post(path, body, { 'X-Square-HmacSha256-Signature': sign(`${publicUrl}${path}`) })
  expect([right.status, await right.json()]).toEqual([200, { ok: true }])
  expect(await events()).toMatchObject([{ provider: 'square', type: 'refund.created' }])
})

test('declared provider: a signed form is stored as an object of its fields', async () => {
  const fields = { MessageSid: 'SM1', SmsStatus: 'delivered', To: '+12125550123' }
  const path = pathOf('twilio')
  const sorted = Object.entries(fields).flat().join('')
  const signature = createHmac('sha1', secret).update(`${publicUrl}${path}${sorted}`).digest('base64')
  const answer = await post(path, new URLSearchParams(fields).toString(), {
    'Content-Type': 'application/x-www-form-urlencoded',
    'X-Twilio-Signature': signature,
  })
  expect(answer.status).toBe(200)
  const [event] = await events()
  expect(event).toMatchObject({ provider: 'twilio', type: 'twilio.delivered' })
  expect(JSON.parse(event?.['payload'] ?? '')).toEqual(fields)
})

test('declared provider: a body over 1 MiB is verified in the worker by the provider’s declaration', async () => {
  const body = JSON.stringify({ object_kind: 'push', text: 'x'.repeat(3 * 1024 * 1024) })
  const headers = {
    'X-Gitlab-Token': secret,
    'X-Gitlab-Event': 'Push Hook',
    'Idempotency-Key': 'd-1',
    'X-Gitlab-Event-UUID': 'd-1',
  }
  expect((await post(pathOf('gitlab'), body, { ...headers, 'X-Gitlab-Token': 'wrong' })).status).toBe(400)
  expect((await post(pathOf('gitlab'), body, headers)).status).toBe(200)
  expect(await events()).toMatchObject([{ provider: 'gitlab' }])
})

test('unverified declaration: calls are refused while the tenant has not accepted the declaration', async () => {
  expect((await post(pathOf('brex'), '{}', {})).status).toBe(403)
  const read = () => pool.query("SELECT provider, cause FROM refused_calls WHERE provider = 'brex'")
  let { rows } = await read()
  for (const until = Date.now() + 5_000; rows.length === 0 && Date.now() < until; ) ({ rows } = await read())
  expect(rows).toEqual([{ provider: 'brex', cause: 'provider_unverified' }])
})

test('refused call: for a provider that is not configured, `POST` is recorded, and `GET` and `HEAD` are not', async () => {
  const path = pathOf('codehost')
  for (const method of ['GET', 'HEAD', 'POST'])
    expect((await fetch(`${api.url}${path}`, { method })).status).toBe(403)
  const read = () => pool.query("SELECT cause FROM refused_calls WHERE provider = 'codehost'")
  let { rows } = await read()
  for (const until = Date.now() + 5_000; rows.length === 0 && Date.now() < until; ) ({ rows } = await read())
  expect(rows).toEqual([{ cause: 'provider_not_configured' }])
})

test('unknown provider: a call gets 404 if the tenant’s spec names its provider but no declaration describes the provider', async () => {
  const answer = await post(pathOf('nosuch'), '{}', {})
  expect([answer.status, (await answer.json()) as object]).toMatchObject([404, { code: 'provider_unknown' }])
})

test('declared provider: an unverified simulated call does not confirm a subscription', async () => {
  const lab = openIntakeLab(api)
  const confirmed: string[] = []
  const confirm = async (url: string) => confirmed.push(url) > 0
  const intake = { ...lab.intake, vendorKeys: { ...lab.intake.vendorKeys, confirm } }
  const caller = lab.intake.callers.bySlug('acme', 'awssns')
  if (caller.kind !== 'caller' || caller.keying.kind !== 'secrets') throw new Error('acme has no awssns')
  const message = {
    Type: 'SubscriptionConfirmation',
    MessageId: 'm1',
    Token: 'abc',
    TopicArn: 'arn:aws:sns:us-east-1:999999999999:Other',
    Timestamp: new Date().toISOString(),
  }
  const accepted = await acceptWebhook(
    intake,
    { ...caller, keying: { kind: 'unsigned', provider: caller.keying.provider } },
    { headers: new Headers(), body: Buffer.from(JSON.stringify(message)), simulationId: 'sim_1' },
  )
  await lab.close()
  expect([accepted.kind, confirmed]).toEqual(['unavailable', []])
})
