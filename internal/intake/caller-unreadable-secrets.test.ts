import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  type DirectoryTenant,
  type KeyRing,
  type ProviderName,
  parseProviderName,
  SecretOpener,
} from '#internal/tenants/index.ts'
import { keyRingOf, keyRingText, startTestApi, type TestApi, testKeyRing } from '#test/support/api.ts'
import { type IntakeLab, openIntakeLab, usualSettings } from '#test/support/intake/intake-lab.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { Callers } from './caller.ts'

const readable = 'the-secret-that-opens'
const unreadable = 'the-secret-that-does-not'
const otherRing = keyRingOf(keyRingText('other', 9))
let api: TestApi
let lab: IntakeLab
let tenant: DirectoryTenant
const reported: { field: string; keyIds: readonly string[] }[] = []

beforeAll(async () => {
  api = await startTestApi()
  const secrets = new SecretOpener({
    keyRing: testKeyRing,
    directory: { findTenantById: () => tenant },
    onUnreadable: ({ field, keyIds }) => reported.push({ field, keyIds }),
  })
  const directory = {
    hasSnapshot: () => true,
    findKey: () => undefined,
    findTenantBySlug: () => tenant,
    declarations: () => new Map(),
  }
  lab = openIntakeLab(api, {
    storeBatch: async (events) => ({ kind: 'completed', acceptances: events.map(() => 'stored') }),
    spool: async () => 'unavailable',
    callers: new Callers({ directory, secrets, settings: usualSettings }),
  })
})
afterAll(async () => {
  await lab.close()
  await api.close()
})

function tenantWith(
  secrets: readonly (readonly [KeyRing, string])[],
  name: ProviderName = 'generic',
): DirectoryTenant {
  const id = someTenantId()
  const field = `provider:${name}`
  return directoryTenant({
    id,
    providers: [{ name, acceptUnverified: true }],
    secrets: secrets.map(([ring, text]) => {
      const { keyId, nonce, ciphertext } = ring.seal({ tenantId: id, field }, text)
      return { field, keyId, sealedBase64: Buffer.concat([nonce, ciphertext]).toString('base64') }
    }),
  })
}

async function call(secret: string, body = genericBody(), headers: Record<string, string> = {}) {
  const signed = signGeneric(body, { secret })
  return answerTo('generic', body, { ...signed.headers, ...headers })
}

async function answerTo(provider: string, body: string, headers: Record<string, string>) {
  const url = `http://latchkey.test/v1/t/acme/webhooks/${provider}`
  const response = await lab.handle(new Request(url, { method: 'POST', body, headers }))
  const { code, error } = (await response.json()) as { code?: string; error?: string }
  return { status: response.status, retryAfter: response.headers.get('retry-after'), says: code ?? error }
}

const later = { status: 503, retryAfter: '30', says: 'secrets_unreadable' }
const invalid = { status: 400, retryAfter: null, says: 'invalid signature' }
const stored = { status: 200, retryAfter: null, says: undefined }
const both = [
  [otherRing, unreadable],
  [testKeyRing, readable],
] as const

test.each<[string, readonly (readonly [KeyRing, string])[], string, object]>([
  [
    'a signature by an unreadable secret gets 503 if no secret is readable',
    [[otherRing, unreadable]],
    unreadable,
    later,
  ],
  ['any signature gets 503 if no secret is readable', [[otherRing, unreadable]], 'something-else', later],
  ['a signature by a readable secret is accepted if some secrets are readable', both, readable, stored],
  ['a signature by an unreadable secret gets 503 if some secrets are readable', both, unreadable, later],
  [
    'a signature by an unknown secret is refused if all secrets are readable',
    [[testKeyRing, readable]],
    'something-else',
    invalid,
  ],
])('webhook with unreadable secrets: %s', async (_case, secrets, signedWith, expected) => {
  tenant = tenantWith(secrets.map(([ring, text]) => [ring, text]))
  expect(await call(signedWith)).toEqual(expected as never)
})

test('webhook: a 1 MB body signed with an unreadable secret gets 503', async () => {
  tenant = tenantWith([...both].map(([ring, text]) => [ring, text]))
  const large = genericBody(crypto.randomUUID(), { text: 'x'.repeat(1_000_000) })
  expect(await call(unreadable, large)).toEqual(later)
  expect(await call(readable, large)).toEqual(stored)
})

test('webhook: a call without a valid signature is refused as usual while some secrets are unreadable', async () => {
  tenant = tenantWith([...both].map(([ring, text]) => [ring, text]))
  expect(await call(readable, genericBody(), { 'X-Service-Signature': 'nonsense' })).toEqual(invalid)
})

const topicOf = (name: string) => `arn:aws:sns:us-west-2:123456789012:${name}`

test.each<[string, string, object]>([
  ['to an unreadable topic gets 503, so that the vendor repeats it', 'Unreadable', later],
  [
    'to a readable topic is checked as usual, up to the fetch of its certificate',
    'Readable',
    { status: 503, says: 'certificate_unavailable' },
  ],
])('webhook with unreadable secrets: a message of Amazon SNS %s', async (_case, name, expected) => {
  const awssns = parseProviderName('awssns')
  if (awssns === undefined) throw new Error('there is no awssns')
  tenant = tenantWith(
    [
      [otherRing, topicOf('Unreadable')],
      [testKeyRing, topicOf('Readable')],
    ],
    awssns,
  )
  const body = JSON.stringify({
    Type: 'Notification',
    MessageId: 'm1',
    TopicArn: topicOf(name),
    Message: 'Hello',
    Timestamp: new Date().toISOString(),
    SignatureVersion: '2',
    Signature: 'AAAA',
    SigningCertURL: 'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-a.pem',
  })
  expect(await answerTo('awssns', body, {})).toMatchObject(expected)
})

test('unreadable secrets: are reported once per version of the tenant, with field and key id', async () => {
  tenant = tenantWith([[otherRing, unreadable]])
  reported.length = 0
  for (let each = 0; each < 5; each += 1) await call(unreadable)
  expect(reported).toEqual([{ field: 'provider:generic', keyIds: ['other'] }])
  tenant = { ...tenant }
  await call(unreadable)
  expect(reported.length).toBe(2)
})
