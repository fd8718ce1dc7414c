import { describe, expect, test } from 'bun:test'
import {
  clearedFlashCookie,
  clockCookie,
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
    theme: 'dark',
    namespaces: ['shops', 'a-b'],
    flash,
    browserZone: undefined,
    zone: 'UTC',
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
  ['unknown time zones', 'latchkey-zone=Nowhere/Here; latchkey-clock=lunar'],
])('preferences: %s are treated as absent', (_case, cookies) => {
  expect(readPreferences(cookies)).toEqual({
    theme: 'auto',
    namespaces: [],
    flash: undefined,
    browserZone: undefined,
    zone: 'UTC',
  })
})

test.each([
  ['the zone of the browser', 'latchkey-zone=Asia/Tokyo', 'Asia/Tokyo'],
  [
    'the zone of the browser',
    `latchkey-zone=Asia/Tokyo; ${pair(clockCookie('browser', { isHttps: true }))}`,
    'Asia/Tokyo',
  ],
  ['UTC', `latchkey-zone=Asia/Tokyo; ${pair(clockCookie('utc', { isHttps: true }))}`, 'UTC'],
])('preferences: times are in %s with the cookies %s', (_case, cookies, zone) => {
  expect(readPreferences(cookies)).toMatchObject({ browserZone: 'Asia/Tokyo', zone })
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
  ])('namespaces cookie: the text %p is parsed into the expected names', (text, expected) => {
    expect(parseNamespaces(text)).toEqual(expected)
  })
})
