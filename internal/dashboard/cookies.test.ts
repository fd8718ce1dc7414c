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

test('preferences: values that were written as cookies are read back, even among other cookies', () => {
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
  ['missing cookies', null],
  ['unknown themes', 'latchkey-theme=pink'],
  ['invalid namespaces', 'latchkey-namespaces=Shops.<b>'],
  ['flash messages that are not JSON', 'latchkey-flash=abc'],
  [
    'flash messages of an unknown tone',
    `latchkey-flash=${Buffer.from('["evil","x"]').toString('base64url')}`,
  ],
  [
    'flash messages that are not a list',
    `latchkey-flash=${Buffer.from('{"tone":"good"}').toString('base64url')}`,
  ],
])('preferences: %s are treated as absent', (_case, cookies) => {
  expect(readPreferences(cookies)).toEqual({ theme: 'auto', namespaces: [], flash: undefined })
})

test('preferences: cookies are HttpOnly, and over https also Secure', () => {
  const cookies = [themeCookie('light', { isHttps: true }), clearedFlashCookie({ isHttps: true })]
  for (const cookie of cookies) expect(cookie).toMatch(/Path=\/; HttpOnly; SameSite=Lax; Secure$/)
  expect(themeCookie('light', { isHttps: false })).not.toContain('Secure')
})

describe('namespaces cookie', () => {
  test.each([
    ['shops', ['shops']],
    ['shops, pets  a.b', ['shops', 'pets', 'a', 'b']],
    ['shops shops', ['shops']],
    ['', []],
    ['Shops', undefined],
    ['-a', undefined],
    [Array.from({ length: 51 }, (_none, nth) => `n${nth}`).join(' '), undefined],
  ])('namespaces cookie: %p is parsed as expected', (text, expected) => {
    expect(parseNamespaces(text)).toEqual(expected)
  })
})
