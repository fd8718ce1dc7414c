import { describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { prepareSigningKey, type SigningKey, signStandardWebhook } from './webhook.ts'

const secretOf = (bytes: Uint8Array) => `whsec_${Buffer.from(bytes).toString('base64')}`
const nowSeconds = () => Math.floor(Date.now() / 1000)

function keyOf(secret: string): SigningKey {
  const key = prepareSigningKey(secret)
  if (!key) throw new Error('the test’s secret is none')
  return key
}

describe('signStandardWebhook', () => {
  test('signature: equals the test vector of Standard Webhooks', () => {
    const signature = signStandardWebhook(
      {
        id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        timestampSeconds: 1_614_265_330,
        body: '{"test": 2432232314}',
      },
      [keyOf('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')],
    )
    expect(signature).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
  })

  test.each([
    ['plain', '{"ok":true}'],
    ['empty', ''],
    ['beyond ASCII', '{"name":"Žluťoučký 😀 \\u0000"}'],
    ['a megabyte', `"${'x'.repeat(1_048_576)}"`],
  ])(
    'signature: for a body that is %s, the signature equals that of the Standard Webhooks library',
    (_case, body) => {
      const secret = secretOf(randomBytes(32))
      const message = { id: 'evt_1', timestampSeconds: nowSeconds() }
      const theirs = new Webhook(secret).sign('evt_1', new Date(message.timestampSeconds * 1000), body)
      expect(signStandardWebhook({ ...message, body }, [keyOf(secret)])).toBe(theirs)
      expect(signStandardWebhook({ ...message, body: Buffer.from(body) }, [keyOf(secret)])).toBe(theirs)
    },
  )

  test('signature: can be verified with each active secret and with no other secret', () => {
    const secrets = [24, 32, 64].map((length) => secretOf(randomBytes(length)))
    const body = '{"id":"evt_2"}'
    const timestampSeconds = nowSeconds()
    const headers = {
      'webhook-id': 'evt_2',
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signStandardWebhook({ id: 'evt_2', timestampSeconds, body }, secrets.map(keyOf)),
    }
    for (const secret of secrets) expect(new Webhook(secret).verify(body, headers)).toEqual({ id: 'evt_2' })
    expect(() => new Webhook(secretOf(randomBytes(32))).verify(body, headers)).toThrow('No matching')
    expect(() => new Webhook(secrets[0] ?? '').verify(`${body} `, headers)).toThrow('No matching')
    expect(() => new Webhook(secrets[0] ?? '').verify(body, { ...headers, 'webhook-id': 'evt_3' })).toThrow(
      'No matching',
    )
  })
})

describe('prepareSigningKey', () => {
  test.each([
    ['no prefix', randomBytes(32).toString('base64')],
    ['another prefix', `sk_${randomBytes(32).toString('base64')}`],
    ['23 bytes', secretOf(randomBytes(23))],
    ['65 bytes', secretOf(randomBytes(65))],
    ['base64 for URLs', `whsec_${Buffer.alloc(32, 0xff).toString('base64url')}`],
    ['a newline at its end', `${secretOf(randomBytes(32))}\n`],
    ['nothing but the prefix', 'whsec_'],
    ['no text at all', ''],
  ])('signing key: a secret with %s is rejected', (_case, secret) => {
    expect(prepareSigningKey(secret)).toBeUndefined()
  })

  test('signing key: a printed key does not contain the secret', () => {
    const bytes = randomBytes(32)
    const shown = `${inspect(keyOf(secretOf(bytes)), { depth: 5, showHidden: true })}${JSON.stringify(keyOf(secretOf(bytes)))}`
    expect(shown).not.toContain(bytes.toString('base64'))
    expect(shown).not.toContain(bytes.toString('hex'))
  })
})
