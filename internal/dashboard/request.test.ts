import { expect, test } from 'bun:test'
import type { Session } from '#internal/access/index.ts'
import {
  factsOf,
  isFormToken,
  isFromOwnPage,
  isLinkFromElsewhere,
  maskedToken,
  parseForm,
  safePath,
  sessionTokenOf,
} from './request.ts'

type Headers = Record<string, string>
const request = (headers: Headers) => new Request('http://localhost/', { headers })

test.each<[string, Headers, boolean, boolean]>([
  ['a port-forward', { Host: 'localhost:8081' }, true, false],
  ['the IPv4 loopback address', { Host: '127.0.0.1:8081' }, true, false],
  ['the IPv6 loopback address', { Host: '[::1]:8081' }, true, false],
  ['another host without an Origin', { Host: 'latchkey.corp' }, true, true],
  ['an http Origin', { Host: 'latchkey.corp', Origin: 'http://latchkey.corp' }, false, true],
  ['an https Origin', { Host: 'latchkey.corp', Origin: 'https://latchkey.corp' }, true, true],
  ['a proxy with https', { Host: 'localhost:8081', 'X-Forwarded-Proto': 'https' }, true, true],
  ['a host that begins with localhost', { Host: 'localhost.evil.example' }, true, true],
])('request transport: isSafe and isHttps are detected for %s', (_case, headers, isSafe, isHttps) => {
  expect(factsOf(request(headers))).toEqual({ isSafe, isHttps })
})

test.each<[string, Headers, boolean]>([
  ['Sec-Fetch-Site same-origin', { 'Sec-Fetch-Site': 'same-origin' }, true],
  ['Sec-Fetch-Site same-site', { 'Sec-Fetch-Site': 'same-site' }, false],
  ['Sec-Fetch-Site cross-site', { 'Sec-Fetch-Site': 'cross-site' }, false],
  ['Sec-Fetch-Site none', { 'Sec-Fetch-Site': 'none' }, false],
  [
    'Sec-Fetch-Site cross-site and its own Origin',
    { 'Sec-Fetch-Site': 'cross-site', Host: 'a.example', Origin: 'https://a.example' },
    false,
  ],
  ['its own Origin only', { Host: 'a.example', Origin: 'https://a.example' }, true],
  ['another Origin', { Host: 'a.example', Origin: 'https://b.example' }, false],
  ['an Origin with another port', { Host: 'a.example:1', Origin: 'http://a.example:2' }, false],
  ['Origin null', { Host: 'a.example', Origin: 'null' }, false],
  ['neither header', { Host: 'a.example' }, false],
])('isFromOwnPage: returns the expected result for %s', (_case, headers, expected) => {
  expect(isFromOwnPage(request(headers))).toBe(expected)
})

test.each([
  ['cross-site', 'navigate', true],
  ['same-origin', 'navigate', false],
  ['cross-site', 'cors', false],
])('isLinkFromElsewhere: for Sec-Fetch-Site %s and mode %s, the result is %p', (site, mode, expected) => {
  const headers = { 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': mode }
  expect(isLinkFromElsewhere(request(headers))).toBe(expected)
})

test.each<[string, Headers, string | undefined]>([
  ['a secure cookie on any host', { Host: 'a.example', Cookie: '__Host-latchkey=s' }, 's'],
  ['a plain cookie on the same machine', { Host: 'localhost:1', Cookie: 'latchkey=p' }, 'p'],
  ['no plain cookie on another host', { Host: 'a.example', Cookie: 'latchkey=p' }, undefined],
  ['the secure one of two cookies', { Host: 'localhost', Cookie: 'latchkey=p; __Host-latchkey=s' }, 's'],
  ['no token without a cookie', { Host: 'localhost' }, undefined],
])('session token: the server accepts %s', (_case, headers, expected) => {
  expect(sessionTokenOf(request(headers))).toBe(expected)
})

test.each([
  ['/events?state=delivery_failed&after=x%20y', true],
  ['/', true],
  ['//evil.example', false],
  ['/\\evil.example', false],
  ['/a\\b', false],
  ['https://evil.example/', false],
  ['javascript:alert(1)', false],
  ['/a\nb', false],
  ['/\t/evil.example', false],
  ['', false],
  [`/${'a'.repeat(3_000)}`, false],
])('safePath: whether %p is accepted as a path of the dashboard: %p', (path, isOurs) => {
  expect(safePath(path)).toBe(isOurs ? path : '/')
})

const type = 'application/x-www-form-urlencoded'
const parse = (body: string, contentType = type) =>
  parseForm(new Request('http://localhost/', { headers: { 'Content-Type': contentType } }), Buffer.from(body))

test('form parser: decodes and trims fields, including one named __proto__', () => {
  expect({ ...parse('a=1+2%26&b=+x+&c=') }).toEqual({ a: '1 2&', b: 'x', c: '' })
  expect({ ...parse('__proto__=1', `${type}; charset=UTF-8`) }).toEqual(JSON.parse('{"__proto__":"1"}'))
})

test.each([
  ['another media type', '{"a":1}', 'application/json'],
  ['no media type', 'a=1', ''],
  ['a repeated field', 'a=1&a=2', type],
  ['invalid UTF-8', 'a=%ff', type],
  ['101 fields', Array.from({ length: 101 }, (_none, nth) => `f${nth}=1`).join('&'), type],
])('form parser: refuses %s', (_case, body, contentType) => {
  expect(parse(body, contentType)).toBeUndefined()
})

const sessionOf = (fill: number): Session => ({
  actor: { kind: 'operator', name: 'dev', tokenSha256: '' },
  name: 'operator:dev',
  startedAtMs: 0,
  endsAtMs: 1,
  csrfToken: Buffer.alloc(32, fill).toString('base64url'),
})

test('CSRF tokens: masked tokens are valid, vary in every position and do not reveal the token', () => {
  const session = sessionOf(7)
  const masked = Array.from({ length: 50 }, () => maskedToken(session))
  for (const token of masked) {
    expect(isFormToken(session, token)).toBe(true)
    expect(token).not.toContain(session.csrfToken.slice(0, 8))
  }
  for (let nth = 0; nth < 86; nth++)
    expect(new Set(masked.map((token) => token[nth])).size).toBeGreaterThan(1)
})

const good = maskedToken(sessionOf(7), new Uint8Array(32).fill(1))

test.each([
  ['the unmasked token', sessionOf(7).csrfToken],
  ['the token of another session', maskedToken(sessionOf(8))],
  ['an empty token', ''],
  ['64 letters that are not base64', 'ü'.repeat(64)],
  ['a truncated token', good.slice(0, -2)],
  ['a token with two more characters', `${good}AA`],
  ['a token with one changed bit', `${good.slice(0, 60)}${good[60] === 'A' ? 'B' : 'A'}${good.slice(61)}`],
])('CSRF check: refuses %s', (_case, token) => {
  expect(isFormToken(sessionOf(7), good)).toBe(true)
  expect(isFormToken(sessionOf(7), token)).toBe(false)
})
