import { describe, expect, test } from 'bun:test'
import {
  clearedFlashCookie,
  type Flash,
  flashCookie,
  namespacesCookie,
  parseNamespaces,
  readPreferences,
  themeCookie,
} from './cookies.ts'

const pair = (cookie: string) => cookie.split(';')[0] ?? ''

test('what is written is read back, beside the cookies of others', () => {
  const flash: Flash = { tone: 'good', text: 'Replayed “evt_1” <b>&' }
  const options = { isHttps: false }
  const cookies = [
    themeCookie('dark', options),
    namespacesCookie(['shops', 'a-b'], options),
    flashCookie(flash, options),
  ].map(pair)
  expect(readPreferences(`other=1; ${cookies.join('; ')}`)).toEqual({
    ...{ theme: 'dark', namespaces: ['shops', 'a-b'], flash },
  })
})

test.each([
  ['nothing', null],
  ['an unknown theme', 'latchkey-theme=pink'],
  ['namespaces that are none', 'latchkey-namespaces=Shops.<b>'],
  ['a flash that is no JSON', 'latchkey-flash=abc'],
  ['a flash of an unknown tone', `latchkey-flash=${Buffer.from('["evil","x"]').toString('base64url')}`],
  ['a flash that is no list', `latchkey-flash=${Buffer.from('{"tone":"good"}').toString('base64url')}`],
])('%s counts as absent', (_case, cookies) => {
  expect(readPreferences(cookies)).toEqual({ theme: 'auto', namespaces: [], flash: undefined })
})

test('no script reads them, and they are secure where the session’s is', () => {
  const cookies = [themeCookie('light', { isHttps: true }), clearedFlashCookie({ isHttps: true })]
  for (const cookie of cookies) expect(cookie).toMatch(/Path=\/; HttpOnly; SameSite=Lax; Secure$/)
  expect(themeCookie('light', { isHttps: false })).not.toContain('Secure')
})

describe('namespaces', () => {
  test.each([
    ['shops', ['shops']],
    ['shops, pets  a.b', ['shops', 'pets', 'a', 'b']],
    ['shops shops', ['shops']],
    ['', []],
    ['Shops', undefined],
    ['-a', undefined],
    [Array.from({ length: 51 }, (_none, nth) => `n${nth}`).join(' '), undefined],
  ])('%p', (text, expected) => {
    expect(parseNamespaces(text)).toEqual(expected)
  })
})
