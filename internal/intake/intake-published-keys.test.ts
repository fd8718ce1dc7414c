// HTTP calls of vendors that publish their keys. The test's TLS server provides the key set and the certificate.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { createTestAuthority } from '#test/support/intake/wallet-calls.ts'
import { hostNames } from '#test/support/intake/write-certificate.ts'

const publicUrl = 'https://hooks.example/latchkey'
const account = 'push@example-project.iam.gserviceaccount.com'
const topic = 'arn:aws:sns:us-west-2:123456789012:MyTopic'
const snsHost = 'sns.us-west-2.amazonaws.com'
const certificatePath = '/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem'
const authority = createTestAuthority('Test CA')
const tls = authority.issue({
  subject: 'test server',
  extensions: [hostNames('www.googleapis.com', snsHost)],
})
const snsSigner = authority.issue({ subject: 'sns.amazonaws.com' })
const google = generateKeyPairSync('rsa', { modulusLength: 2048 })
const rotated = generateKeyPairSync('rsa', { modulusLength: 2048 })

const keySetAddress = 'www.googleapis.com/oauth2/v3/certs'
const jwk = (pair: typeof google, kid: string) => ({
  ...pair.publicKey.export({ format: 'jwk' }),
  kid,
  use: 'sig',
  alg: 'RS256',
})
const keys = [jwk(google, 'k1')]

let api: TestApi
let pool: Pool
let vendor: Bun.Server<undefined>
/** Addresses that the current test has fetched. */
let fetched: string[] = []
let status = 200

beforeAll(async () => {
  vendor = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    tls: { cert: tls.pem, key: tls.privateKey.export({ format: 'pem', type: 'pkcs8' }) },
    fetch(request) {
      const { host, pathname, search } = new URL(request.url)
      fetched.push(`${host.replace(/:.*/, '')}${pathname}${search}`)
      if (status !== 200) return new Response('', { status })
      return new Response(pathname === certificatePath ? snsSigner.pem : JSON.stringify({ keys }))
    },
  })
  api = await startApi()
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
  await vendor.stop(true)
})
beforeEach(async () => {
  fetched = []
  status = 200
  await truncateEvents(pool, 'refused_calls')
})

/** Starts an API whose caches are empty, by default on a database of its own. */
function startApi(more: { readonly databaseUrl?: string } = {}): Promise<TestApi> {
  return startTestApi({
    ...more,
    publicUrl,
    certificates: {
      serverCa: authority.pem,
      cidrs: ['127.0.0.0/8'],
      port: vendor.port ?? 0,
      resolve: async () => ['127.0.0.1'],
    },
    manifests: `${tenantYaml('acme', testApiKey, [
      'providers: [{name: googlepubsub, secretRef: {name: acme-google}}, {name: awssns, secretRef: {name: acme-sns}}, {name: xero, acceptUnverified: true, secretRef: {name: acme-google}}, {name: asana, acceptUnverified: true, secretRef: {name: acme-google}}]',
    ])}apiVersion: v1
kind: Secret
metadata: {name: acme-google, namespace: shops}
stringData: {signingSecret: '${account}'}
---
apiVersion: v1
kind: Secret
metadata: {name: acme-sns, namespace: shops}
stringData: {signingSecret: '${topic}'}
---
`,
  })
}

const pathOf = (provider: string) => `/v1/t/acme/webhooks/${provider}`

function pushHeaders(kid: string, pair = google, claims: object = {}): Record<string, string> {
  const now = Math.floor(Date.now() / 1000)
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const payload = {
    iss: 'https://accounts.google.com',
    aud: `${publicUrl}${pathOf('googlepubsub')}`,
    email: account,
    email_verified: true,
    iat: now,
    exp: now + 3600,
    ...claims,
  }
  const text = `${encode({ alg: 'RS256', kid, typ: 'JWT' })}.${encode(payload)}`
  const signature = sign('sha256', Buffer.from(text), pair.privateKey).toString('base64url')
  return { 'Content-Type': 'application/json', Authorization: `Bearer ${text}.${signature}` }
}

const pushBody = (id: string, more: object = {}) =>
  JSON.stringify({
    message: { data: 'YQ==', messageId: id, ...more },
    subscription: 'projects/p/subscriptions/s',
  })

async function post(
  provider: string,
  body: string,
  headers: Record<string, string>,
  { url } = api,
): Promise<Response> {
  return fetch(`${url}${pathOf(provider)}`, { method: 'POST', body, headers })
}

/** Returns the causes of refused calls, which are written once a second. */
function causes(): Promise<string[] | undefined> {
  const read = async () => {
    const { rows } = await pool.query<{ cause: string }>('SELECT cause FROM refused_calls')
    return rows.length > 0 ? rows.map(({ cause }) => cause) : undefined
  }
  return poll(read, { deadlineMs: 10_000, everyMs: 100 })
}

async function eventIds(): Promise<string[]> {
  const { rows } = await pool.query('SELECT source_event_id FROM events ORDER BY 1')
  return rows.map((row: { source_event_id: string }) => row.source_event_id)
}

test('published keys: while the key set cannot be fetched, calls get 503, and the next call does not repeat the fetch at once', async () => {
  status = 500
  const fresh = await startApi({ databaseUrl: api.databaseUrl })
  const answers = []
  for (let call = 0; call < 2; call += 1)
    answers.push(await post('googlepubsub', pushBody('1'), pushHeaders('k1'), fresh))
  expect(answers.map((answer) => answer.status)).toEqual([503, 503])
  expect(await answers[0]?.json()).toMatchObject({ code: 'certificate_unavailable' })
  expect(new Set(await causes())).toEqual(new Set(['certificate_unavailable']))
  await fresh.close()
  expect(await eventIds()).toEqual([])
  expect(fetched).toEqual([keySetAddress])
}, 30_000)

test('published keys: calls are verified with the fetched key set, which is not fetched again', async () => {
  expect((await post('googlepubsub', pushBody('2'), pushHeaders('k1'))).status).toBe(200)
  fetched = []
  const large = pushBody('3', { data: 'a'.repeat(3 * 1024 * 1024) })
  expect((await post('googlepubsub', large, pushHeaders('k1'))).status).toBe(200)
  expect(await eventIds()).toEqual(['2', '3'])
  expect(fetched).toEqual([])
})

test.each([
  ['of another account of the vendor', { email: 'evil@other-project.iam.gserviceaccount.com' }],
  ['for another URL', { aud: `${publicUrl}/v1/t/other/webhooks/googlepubsub` }],
  ['that has expired', { exp: 1 }],
])('published keys: a token %s is refused', async (_what, claims) => {
  const answer = await post('googlepubsub', pushBody('4'), pushHeaders('k1', google, claims))
  expect([answer.status, await answer.json()]).toEqual([400, { error: 'invalid signature' }])
  expect(await eventIds()).toEqual([])
})

test('published keys: tokens with invented key ids cause no further fetch', async () => {
  expect((await post('googlepubsub', pushBody('6'), pushHeaders('k1'))).status).toBe(200)
  fetched = []
  for (let call = 0; call < 50; call += 1)
    expect((await post('googlepubsub', pushBody('5'), pushHeaders(`invented-${call}`, rotated))).status).toBe(
      400,
    )
  expect(fetched).toEqual([])
})

const snsMessage = (more: Record<string, string>, pair = snsSigner): string => {
  const message: Record<string, string> = {
    TopicArn: topic,
    Message: 'Hello',
    Timestamp: new Date().toISOString(),
    ...more,
  }
  const text = Object.keys(message)
    .toSorted()
    .map((name) => `${name}\n${message[name]}\n`)
    .join('')
  const signature = sign('sha256', Buffer.from(text), pair.privateKey).toString('base64')
  const url = `https://${snsHost}${certificatePath}`
  return JSON.stringify({ ...message, SignatureVersion: '2', Signature: signature, SigningCertURL: url })
}
const plain = { 'Content-Type': 'text/plain; charset=UTF-8' }
const subscription = {
  Type: 'SubscriptionConfirmation',
  MessageId: 'm0',
  Token: 'abc123',
  SubscribeURL: 'https://evil.example/?Action=ConfirmSubscription',
}
const query = new URLSearchParams({ Action: 'ConfirmSubscription', TopicArn: topic, Token: 'abc123' })
const confirmation = `${snsHost}/?${query}`

/** Stores a message, so that the certificate is in the cache, and forgets what it fetched. */
async function cacheCertificate(): Promise<void> {
  const message = { Type: 'Notification', MessageId: 'first' }
  expect((await post('awssns', snsMessage(message), plain)).status).toBe(200)
  await truncateEvents(pool)
  fetched = []
}

test('sns: a subscription to the topic of the tenant is confirmed at the host of the topic’s region, and creates no event', async () => {
  await cacheCertificate()
  const answer = await post('awssns', snsMessage(subscription), plain)
  expect([answer.status, await answer.text()]).toEqual([200, ''])
  expect(fetched).toEqual([confirmation])
  expect(await eventIds()).toEqual([])
})

test('sns: a subscription that cannot be confirmed is logged and gets 503, so that the vendor repeats the call', async () => {
  await cacheCertificate()
  status = 500
  expect((await post('awssns', snsMessage(subscription), plain)).status).toBe(503)
  expect(fetched).toEqual([confirmation])
  const line = api.logs().match(/.*subscription of Amazon SNS could not be confirmed.*/)?.[0] ?? '{}'
  expect(JSON.parse(line)).toMatchObject({ source: 'sns_confirmation', cause: 'status 500' })
})

test('sns: a subscription to another topic is refused without an outgoing request', async () => {
  const other = snsMessage({ ...subscription, TopicArn: 'arn:aws:sns:us-east-1:999999999999:Evil' })
  expect((await post('awssns', other, plain)).status).toBe(400)
  expect(fetched).toEqual([])
})

test('sns: a notification is stored, and a notification signed with another key is refused', async () => {
  const message = { Type: 'Notification', MessageId: 'm1', Subject: 'S' }
  expect((await post('awssns', snsMessage(message, authority), plain)).status).toBe(400)
  expect((await post('awssns', snsMessage(message), plain)).status).toBe(200)
  expect(await eventIds()).toEqual(['m1'])
})

test('webhook response: accepted and refused calls get the status and the empty body that their vendor requires', async () => {
  const answer = await post('xero', '{"events":[]}', { 'x-xero-signature': `${'A'.repeat(43)}=` })
  expect([answer.status, await answer.text()]).toEqual([401, ''])
  const body = '{"events":[{"eventCategory":"CONTACT","eventType":"UPDATE"}]}'
  const signature = createHmac('sha256', account).update(body).digest('base64')
  for (let call = 0; call < 2; call += 1) {
    const accepted = await post('xero', body, { 'x-xero-signature': signature })
    expect([accepted.status, await accepted.text()]).toEqual([200, ''])
  }
  expect((await post('asana', '{"events":[]}', { 'X-Hook-Signature': 'a'.repeat(64) })).status).toBe(400)
})

test('handshake: the secret of a new webhook is returned in the header that its vendor requires', async () => {
  const answer = await post('asana', '{}', { 'X-Hook-Secret': 'b537207f20cbfa02357cf448134da559' })
  expect([answer.status, answer.headers.get('x-hook-secret'), await answer.text()]).toEqual([
    200,
    'b537207f20cbfa02357cf448134da559',
    '',
  ])
})
