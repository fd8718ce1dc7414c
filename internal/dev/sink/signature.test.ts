import { describe, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { checkSignature, type Signature } from './signature.ts'

const nowMs = Date.UTC(2026, 10, 20, 12)
const secret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
const other = `whsec_${Buffer.alloc(32, 2).toString('base64')}`
const text = '{"id":"evt_1","name":"Zoë"}'

function signed(by = secret, atMs = nowMs): Record<string, string> {
  return {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(atMs / 1000)),
    'webhook-signature': new Webhook(by).sign('evt_1', new Date(atMs), text),
  }
}

function check(headers: Record<string, string>, secrets = [secret], body = text): Signature {
  return checkSignature({ headers: new Headers(headers), body: Buffer.from(body), secrets, nowMs })
}

const { 'webhook-signature': good = '', ...unsigned } = signed()
const flipped = good.replace(/.(?==$)/, (last) => (last === 'A' ? 'B' : 'A'))

describe('what the reference library signs is accepted', () => {
  test.each<[string, Record<string, string>, string[]]>([
    ['by the only secret', signed(), [secret]],
    ['by the second of two live secrets', signed(other), [secret, other]],
    [
      'beside a signature of a secret that has ended',
      { ...unsigned, 'webhook-signature': `v1,AAAA ${good}` },
      [secret],
    ],
    [
      'beside a signature of another version',
      { ...unsigned, 'webhook-signature': `v1a,AAAA ${good}` },
      [secret],
    ],
    ['five minutes ago', signed(secret, nowMs - 300_000), [secret]],
    ['five minutes ahead', signed(secret, nowMs + 300_000), [secret]],
  ])('%s', (_case, headers, secrets) => {
    expect(check(headers, secrets)).toEqual({ kind: 'ok' })
  })
})

describe('refused, with the reason', () => {
  const without = (name: string) =>
    Object.fromEntries(Object.entries(signed()).filter(([each]) => each !== name))
  test.each<[string, Record<string, string>, string]>([
    ['no id', without('webhook-id'), 'no webhook-id header'],
    ['no timestamp', without('webhook-timestamp'), 'no webhook-timestamp header'],
    ['no signature', without('webhook-signature'), 'no webhook-signature header'],
    ['a date', { ...signed(), 'webhook-timestamp': '2026-11-20' }, 'webhook-timestamp is not in seconds'],
    ['too old', signed(secret, nowMs - 301_000), 'signed 301 s ago, at most 300'],
    ['too far ahead', signed(secret, nowMs + 301_000), 'signed 301 s in the future'],
    [
      'only another version',
      { ...unsigned, 'webhook-signature': good.replace('v1', 'v2') },
      'webhook-signature has no v1',
    ],
    ['another secret', signed(other), 'no live secret of the tenant made it'],
    [
      'one character off',
      { ...unsigned, 'webhook-signature': flipped },
      'no live secret of the tenant made it',
    ],
    ['another id', { ...signed(), 'webhook-id': 'evt_2' }, 'no live secret of the tenant made it'],
  ])('%s', (_case, headers, reason) => {
    expect(check(headers)).toEqual({ kind: 'bad', reason })
  })

  test('another body', () => {
    expect(check(signed(), [secret], `${text} `).kind).toBe('bad')
  })

  test('a tenant without secrets', () => {
    expect(check(signed(), []).kind).toBe('bad')
  })
})
