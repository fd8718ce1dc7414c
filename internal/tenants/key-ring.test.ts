import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { tenantIdFromBytes } from '#internal/base/index.ts'
import { type KeyRing, parseKeyRing } from './key-ring.ts'

const first = tenantIdFromBytes(new Uint8Array(16).fill(1))
const second = tenantIdFromBytes(new Uint8Array(16).fill(2))
const place = { tenantId: first, field: 'provider:card' }

function key(seed: string): string {
  return createHash('sha256').update(seed).digest('base64')
}

function ring(text: string): KeyRing {
  const parsed = parseKeyRing(text)
  if (parsed.kind === 'invalid') throw new Error(parsed.message)
  return parsed.keyRing
}

describe('sealed values', () => {
  const keyRing = ring(`a:${key('a')}`)

  test('key ring: an encrypted value decrypts to the same text for the same tenant and field', () => {
    const sealed = keyRing.seal(place, 'whsec_ü\n')
    expect(keyRing.open(place, sealed)).toEqual({ kind: 'opened', text: 'whsec_ü\n' })
    expect(sealed.ciphertext.toString('latin1')).not.toContain('whsec')
  })

  test('key ring: encrypting a text twice produces different values', () => {
    const [one, other] = [keyRing.seal(place, 'x'), keyRing.seal(place, 'x')]
    expect(one.nonce.equals(other.nonce)).toBe(false)
    expect(one.ciphertext.equals(other.ciphertext)).toBe(false)
  })

  test.each([
    ['another tenant', { ...place, tenantId: second }],
    ['another field', { ...place, field: 'provider:codehost' }],
  ])('key ring: an encrypted value does not decrypt for %s', (_case, elsewhere) => {
    expect(keyRing.open(elsewhere, keyRing.seal(place, 'x'))).toEqual({ kind: 'broken' })
  })

  test('key ring: an encrypted value does not decrypt after any byte was changed', () => {
    const sealed = keyRing.seal(place, 'secret')
    for (let at = 0; at < sealed.ciphertext.length; at += 1) {
      const ciphertext = Buffer.from(sealed.ciphertext)
      ciphertext[at] = (ciphertext[at] ?? 0) ^ 1
      expect(keyRing.open(place, { ...sealed, ciphertext })).toEqual({ kind: 'broken' })
    }
    const nonce = Buffer.alloc(12)
    expect(keyRing.open(place, { ...sealed, nonce })).toEqual({ kind: 'broken' })
    expect(keyRing.open(place, { ...sealed, ciphertext: Buffer.alloc(3) })).toEqual({ kind: 'broken' })
  })

  test('key ring: an encrypted value does not decrypt with another key of the same id', () => {
    expect(ring(`a:${key('other')}`).open(place, keyRing.seal(place, 'x'))).toEqual({ kind: 'broken' })
  })
})

describe('key rings', () => {
  test('key ring: encrypts with its first key and decrypts values of an older key', () => {
    const old = ring(`a:${key('a')}`).seal(place, 'x')
    const rotated = ring(`b:${key('b')}, a:${key('a')}`)
    expect(rotated.seal(place, 'x').keyId).toBe('b')
    expect(rotated.open(place, old)).toEqual({ kind: 'opened', text: 'x' })
    expect(ring(`b:${key('b')}`).open(place, old)).toEqual({ kind: 'keyUnknown', keyId: 'a' })
  })

  test('key ring: JSON.stringify and inspection do not show its keys', () => {
    const shown = JSON.stringify(ring(`a:${key('a')}`)) + Bun.inspect(ring(`a:${key('a')}`))
    expect(shown).not.toContain(key('a'))
    expect(shown).not.toContain(Buffer.from(key('a'), 'base64').toString('hex').slice(0, 8))
  })

  test.each([
    ['an empty text', ''],
    ['a key without an id', key('a')],
    ['a short key', 'a:QUJD'],
    ['a hexadecimal key', `a:${'ab'.repeat(32)}`],
    ['a repeated id', `a:${key('a')},a:${key('b')}`],
    ['an empty entry', `a:${key('a')},`],
    ['too many keys', Array.from({ length: 17 }, (_, index) => `k${index}:${key(`${index}`)}`).join(',')],
  ])('parseKeyRing: refuses %s, and the error does not quote the text', (_case, text) => {
    const parsed = parseKeyRing(text)
    expect(parsed.kind).toBe('invalid')
    expect(JSON.stringify(parsed)).not.toContain(key('a'))
  })
})
