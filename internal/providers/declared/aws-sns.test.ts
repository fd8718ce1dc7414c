// Messages of Amazon SNS, signed with a certificate that the test issues.
import { describe, expect, test } from 'bun:test'
import { type KeyObject, sign } from 'node:crypto'
import { createTestAuthority } from '#test/support/intake/wallet-calls.ts'
import type { ProviderCall } from '../provider.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'
import type { Declaration } from './schema.ts'
import { tamperedCalls } from './tamper.ts'
import { outcomeOf } from './vectors.ts'

const nowMs = Date.UTC(2026, 10, 26, 9)
const authority = createTestAuthority('Test CA', nowMs)
const signer = authority.issue({ subject: 'sns.amazonaws.com' })
const topic = 'arn:aws:sns:us-west-2:123456789012:MyTopic'
const certificateUrl =
  'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem'
const token =
  '2336412f37fb687f5d51e6e241d09c805a5a57b30d712f794cc5f6a988666d92768dd60a747ba6f3beb71854e285d6ad'

type Message = Readonly<Record<string, string>>
const notification: Message = {
  Type: 'Notification',
  MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
  TopicArn: topic,
  Subject: 'My first message',
  Message: '{"default":"Grüße\n"}',
  Timestamp: '2026-11-26T08:59:58.123Z',
}
const confirmation: Message = {
  Type: 'SubscriptionConfirmation',
  MessageId: '165545c9-2a5c-472c-8df2-7ff2be2b3b1b',
  Token: token,
  TopicArn: topic,
  Message: 'You have chosen to subscribe to the topic.\nTo confirm it, visit the SubscribeURL.',
  SubscribeURL: `https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${topic}&Token=${token}`,
  Timestamp: '2026-11-26T08:59:58.123Z',
}

/** Members in the order of the vendor's page, which the implementation does not share. */
const signedNames = {
  Notification: 'Message MessageId Subject Timestamp TopicArn Type',
  other: 'Message MessageId SubscribeURL Timestamp Token TopicArn Type',
}

function signed(message: Message, version = '2', key: KeyObject = signer.privateKey): Message {
  const names = message['Type'] === 'Notification' ? signedNames.Notification : signedNames.other
  const text = names
    .split(' ')
    .filter((name) => name in message)
    .map((name) => `${name}\n${message[name]}\n`)
    .join('')
  const signature = sign(version === '1' ? 'sha1' : 'sha256', Buffer.from(text), key).toString('base64')
  return { SignatureVersion: version, Signature: signature, SigningCertURL: certificateUrl, ...message }
}

function declare(spec: object = {}): Declaration {
  const parsed = parse(spec)
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.declaration
}

function parse(spec: object) {
  return parseProvider({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Provider',
    metadata: { name: 'acme' },
    spec: {
      body: { bytesMax: 524_288, json: {} },
      signature: {
        bodyUnsigned: true,
        schemes: [{ algorithm: 'aws-sns', signature: { json: 'Signature' }, toleranceSeconds: 7200 }],
      },
      event: { id: [{ json: 'MessageId' }], type: { from: [{ json: 'Type' }] } },
      ...spec,
    },
  })
}

const provider = compileDeclaration(declare())
const callOf = (message: object, at = nowMs): ProviderCall => ({
  request: { method: 'POST', url: 'https://hooks.example.com/v1/t/acme/webhooks/acme' },
  headers: new Headers({ 'Content-Type': 'text/plain; charset=UTF-8' }),
  body: Buffer.from(JSON.stringify(message)),
  settings: {},
  nowMs: at,
  signatureAgeMsMax: 300_000,
})
const served = (pem: string, url = certificateUrl) => [{ url, text: pem }]

function outcome(message: object, { secrets = [topic], at = nowMs, fetched = served(signer.pem) } = {}) {
  const result = outcomeOf(provider, callOf(message, at), { secrets, fetched })
  return result.kind === 'refused' ? result.cause : result.kind
}

describe('accepted messages', () => {
  test.each([
    ['a notification', '1', notification, 'event'],
    ['a notification', '2', notification, 'event'],
    ['a notification without a subject', '2', { ...notification, Subject: undefined }, 'event'],
    ['a subscription', '1', confirmation, 'confirms'],
    ['a subscription', '2', confirmation, 'confirms'],
    ['an unsubscription', '2', { ...confirmation, Type: 'UnsubscribeConfirmation' }, 'event'],
  ] as const)(
    'sns: verifies %s of signature version %s, and refuses every altered copy of the call',
    (_what, version, message, expected) => {
      const clean = JSON.parse(JSON.stringify(message)) as Message
      const whole = signed(clean, version)
      expect(outcome(whole, { secrets: ['arn:aws:sns:us-west-2:123456789012:Other', topic] })).toBe(expected)
      const valid = { call: callOf(whole), secrets: [topic], fetched: served(signer.pem) }
      const derived = tamperedCalls(declare(), { ...valid, isEvent: expected === 'event' })
      expect(derived.length).toBeGreaterThanOrEqual(10)
      const accepted = derived.filter((each) => outcomeOf(provider, each.call, each).kind !== 'refused')
      expect(accepted.map(({ change }) => change)).toEqual([])
    },
  )

  test('sns: confirms a subscription at an address built from topic and token, and ignores `SubscribeURL`', () => {
    const message = signed({ ...confirmation, SubscribeURL: 'https://evil.example/' })
    expect(outcomeOf(provider, callOf(message), { secrets: [topic], fetched: served(signer.pem) })).toEqual({
      kind: 'confirms',
      url: `https://sns.us-west-2.amazonaws.com/?${new URLSearchParams({ Action: 'ConfirmSubscription', TopicArn: topic, Token: token })}`,
    })
  })

  test('sns: the certificate of a topic in China is located at a host of the AWS partition for China', () => {
    const own = 'arn:aws-cn:sns:cn-north-1:123456789012:T'
    const url = 'https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a1.pem'
    const message = { ...signed({ ...notification, TopicArn: own }), SigningCertURL: url }
    expect(outcome(message, { secrets: [own], fetched: served(signer.pem, url) })).toBe('event')
  })
})

describe('refused messages', () => {
  test.each([
    ['of another topic', signed({ ...notification, TopicArn: `${topic}2` }), 'signature_mismatch'],
    ['of an unknown version', signed(notification, '3'), 'scheme_unknown'],
    ['of an unknown type', signed({ ...notification, Type: 'Other' }), 'scheme_unknown'],
    ['without a time', signed({ ...notification, Timestamp: 'now' }), 'signature_malformed'],
    [
      'that is old',
      signed({ ...notification, Timestamp: '2026-11-26T06:59:00Z' }),
      'timestamp_outside_window',
    ],
    ['by another key', signed(notification, '2', authority.privateKey), 'signature_mismatch'],
    [
      'whose type was changed to a confirmation',
      { ...signed(notification), Type: 'SubscriptionConfirmation' },
      'signature_mismatch',
    ],
  ])('sns: refuses a message %s', (_what, message, cause: string) => {
    expect<string>(outcome(message)).toBe(cause)
  })

  const host = 'https://sns.us-west-2.amazonaws.com'
  test.each([
    ['of another region', 'https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem'],
    ['of a bucket', 'https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-a.pem'],
    ['of another host', 'https://sns.us-west-2.amazonaws.com.evil.example/SimpleNotificationService-a.pem'],
    ['over http', 'http://sns.us-west-2.amazonaws.com/SimpleNotificationService-a.pem'],
    ['at another port', 'https://sns.us-west-2.amazonaws.com:8443/SimpleNotificationService-a.pem'],
    ['with credentials', 'https://sns.us-west-2.amazonaws.com@evil.example/SimpleNotificationService-a.pem'],
    ['with another path', `${host}/other/SimpleNotificationService-a.pem`],
    ['with a parent directory', `${host}/../SimpleNotificationService-a.pem`],
    ['with a query', `${host}/SimpleNotificationService-a.pem?b`],
    ['of another file', `${host}/a.pem`],
    ['that is missing', undefined],
  ])('sns: a certificate address %s is refused without a fetch', (_what, url) => {
    const message = { ...signed(notification), SigningCertURL: url }
    const keys = provider.prepare([topic])
    expect(provider.locate?.(callOf(message), keys)).toEqual({
      kind: 'refused',
      cause: 'certificate_url_refused',
    })
  })

  test('sns: no certificate is fetched for a message of a topic that the tenant has not configured', () => {
    const keys = provider.prepare(['arn:aws:sns:us-west-2:123456789012:Other'])
    expect(provider.locate?.(callOf(signed(notification)), keys)).toEqual({
      kind: 'refused',
      cause: 'signature_mismatch',
    })
  })

  test.each([
    ['has another subject', { subject: 'www.example.com' }],
    ['has a subject that ends like the vendor’s', { subject: 'evilsns.amazonaws.com' }],
    ['is signed with SHA-1', { subject: 'sns.amazonaws.com', hash: 'sha1' as const }],
    ['has a small key', { subject: 'sns.amazonaws.com', bits: 1024 }],
  ])('sns: no signature is valid under a certificate that %s', (_what, parts) => {
    const other = authority.issue(parts)
    expect(outcome(signed(notification, '2', other.privateKey), { fetched: served(other.pem) })).toBe(
      'signature_mismatch',
    )
  })

  test('sns: no signature is valid under a certificate outside its validity period', () => {
    const old = authority.issue({ subject: 'sns.amazonaws.com', validToMs: nowMs - 1000 })
    expect(outcome(signed(notification), { fetched: served(old.pem) })).toBe('certificate_outside_dates')
  })
})

test.each([
  [
    'another place of the signature',
    { signature: { bodyUnsigned: true, schemes: [{ algorithm: 'aws-sns', signature: { json: 'Sig' } }] } },
  ],
  ['forms', { body: { bytesMax: 1000, json: {}, form: {} } }],
  ['large bodies', { body: { bytesMax: 2_000_000, json: {} } }],
])('sns: a declaration with %s is invalid', (_what, spec) => {
  expect(parse(spec).kind).toBe('invalid')
})
