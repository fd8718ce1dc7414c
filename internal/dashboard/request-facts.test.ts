import { describe, expect, test } from 'bun:test'
import { factsOf, isFromOwnPage, isLinkFromElsewhere, safePath, sessionTokenOf } from './request-facts.ts'

const request = (headers: Record<string, string>) => new Request('http://localhost/', { headers })

describe('how a browser came', () => {
  test.each<[string, Record<string, string>, { isSafe: boolean; isHttps: boolean }]>([
    ['through a port-forward', { Host: 'localhost:8081' }, { isSafe: true, isHttps: false }],
    ['on the loopback address', { Host: '127.0.0.1:8081' }, { isSafe: true, isHttps: false }],
    ['on the loopback address of version 6', { Host: '[::1]:8081' }, { isSafe: true, isHttps: false }],
    ['by a host that nobody vouches for', { Host: 'latchkey.corp' }, { isSafe: true, isHttps: true }],
    [
      'by plain http, as its form says',
      { Host: 'latchkey.corp', Origin: 'http://latchkey.corp' },
      { isSafe: false, isHttps: true },
    ],
    [
      'by https, as its form says',
      { Host: 'latchkey.corp', Origin: 'https://latchkey.corp' },
      { isSafe: true, isHttps: true },
    ],
    [
      'by https, as the proxy says',
      { Host: 'localhost:8081', 'X-Forwarded-Proto': 'https' },
      { isSafe: true, isHttps: true },
    ],
    [
      'by a name that only begins like ours',
      { Host: 'localhost.evil.example' },
      { isSafe: true, isHttps: true },
    ],
  ])('%s', (_case, headers, expected) => {
    expect(factsOf(request(headers))).toEqual(expected)
  })
})

describe('a form is of our own page', () => {
  test.each<[string, Record<string, string>, boolean]>([
    ['as the browser says', { 'Sec-Fetch-Site': 'same-origin' }, true],
    ['not when it is of a sibling host', { 'Sec-Fetch-Site': 'same-site' }, false],
    ['not when it is of another site', { 'Sec-Fetch-Site': 'cross-site' }, false],
    ['not when nobody sent it', { 'Sec-Fetch-Site': 'none' }, false],
    [
      'whatever its origin claims, the browser’s word counts',
      { 'Sec-Fetch-Site': 'cross-site', Host: 'a.example', Origin: 'https://a.example' },
      false,
    ],
    [
      'by its origin where the browser says nothing',
      { Host: 'a.example', Origin: 'https://a.example' },
      true,
    ],
    ['not by another origin', { Host: 'a.example', Origin: 'https://b.example' }, false],
    ['not by another port', { Host: 'a.example:1', Origin: 'http://a.example:2' }, false],
    ['not by an origin that is hidden', { Host: 'a.example', Origin: 'null' }, false],
    ['not without a word', { Host: 'a.example' }, false],
  ])('%s', (_case, headers, expected) => {
    expect(isFromOwnPage(request(headers))).toBe(expected)
  })
})

test('only a click elsewhere is asked to come again', () => {
  const from = (site: string, mode: string) =>
    isLinkFromElsewhere(request({ 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': mode }))
  expect([
    from('cross-site', 'navigate'),
    from('same-origin', 'navigate'),
    from('cross-site', 'cors'),
  ]).toEqual([true, false, false])
})

describe('the session’s cookie', () => {
  test.each<[string, Record<string, string>, string | undefined]>([
    ['counts as a secure one', { Host: 'a.example', Cookie: '__Host-latchkey=s' }, 's'],
    ['counts without on the same machine', { Host: 'localhost:1', Cookie: 'latchkey=p' }, 'p'],
    ['does not count without elsewhere', { Host: 'a.example', Cookie: 'latchkey=p' }, undefined],
    [
      'is the secure one where there are two',
      { Host: 'localhost', Cookie: 'latchkey=p; __Host-latchkey=s' },
      's',
    ],
    ['may be absent', { Host: 'localhost' }, undefined],
  ])('%s', (_case, headers, expected) => {
    expect(sessionTokenOf(request(headers))).toBe(expected)
  })
})

describe('a path to go on to', () => {
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
  ])('%p', (path, isOurs) => {
    expect(safePath(path)).toBe(isOurs ? path : '/')
  })
})
