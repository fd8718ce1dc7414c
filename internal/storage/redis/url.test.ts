import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseRedisUrl, type RedisAddress } from './url.ts'

const plain = { mode: 'standalone', tls: false, database: 0 } as const

describe('Redis URL', () => {
  test.each<readonly [string, string, RedisAddress]>([
    ['a host alone', 'redis://h', { ...plain, nodes: [{ host: 'h', port: 6379 }] }],
    ['a port and a database', 'redis://h:1/15', { ...plain, nodes: [{ host: 'h', port: 1 }], database: 15 }],
    [
      'a database as option',
      'redis://h?database=3',
      { ...plain, nodes: [{ host: 'h', port: 6379 }], database: 3 },
    ],
    ['TLS', 'rediss://h', { ...plain, tls: true, nodes: [{ host: 'h', port: 6379 }] }],
    ['an IPv6 address', 'redis://[::1]:7/', { ...plain, nodes: [{ host: '::1', port: 7 }] }],
    [
      'user and password, percent-encoded',
      'redis://us%40er:p%3A%2F%3F%23@h',
      { ...plain, nodes: [{ host: 'h', port: 6379 }], username: 'us@er', password: 'p:/?#' },
    ],
    ['a password alone', 'redis://:pw@h', { ...plain, nodes: [{ host: 'h', port: 6379 }], password: 'pw' }],
    [
      'a password with a colon',
      'redis://u:a:b@h',
      { ...plain, nodes: [{ host: 'h', port: 6379 }], username: 'u', password: 'a:b' },
    ],
    [
      'Sentinels with their own password',
      'rediss+sentinel://u:p@s1,s2:5/my%20master?database=2&sentinelUsername=su&sentinelPassword=sp%26',
      {
        mode: 'sentinel',
        tls: true,
        nodes: [
          { host: 's1', port: 26_379 },
          { host: 's2', port: 5 },
        ],
        database: 2,
        username: 'u',
        password: 'p',
        masterName: 'my master',
        sentinelUsername: 'su',
        sentinelPassword: 'sp&',
      },
    ],
    [
      'nodes of a Cluster',
      'redis+cluster://n1:1,[fe80::1]:2,n3',
      {
        mode: 'cluster',
        tls: false,
        database: 0,
        nodes: [
          { host: 'n1', port: 1 },
          { host: 'fe80::1', port: 2 },
          { host: 'n3', port: 6379 },
        ],
      },
    ],
  ])('Redis URL: parses %s', (_case, url, expected) => {
    expect(parseRedisUrl(url)).toEqual(expected)
  })

  test.each([
    ['another scheme', 'http://h'],
    ['an unknown form', 'redis+proxy://h'],
    ['a URL without host', 'redis://'],
    ['several hosts for one server', 'redis://a,b'],
    ['an empty host among others', 'redis+cluster://a,,b'],
    ['port 0', 'redis://h:0'],
    ['a port beyond 65535', 'redis://h:65536'],
    ['a port that is not a number', 'redis://h:port'],
    ['a database that is not a number', 'redis://h/one'],
    ['a database path with two segments', 'redis://h/0/1'],
    ['a negative database', 'redis://h/-1'],
    ['a database other than 0 for a Cluster', 'redis+cluster://h?database=1'],
    ['Sentinels without the name of a master', 'redis+sentinel://h'],
    [
      'more than 32 hosts',
      `redis+cluster://${Array.from({ length: 33 }, (_none, nth) => `h${nth}`).join(',')}`,
    ],
    ['an incomplete percent-encoding in the password', 'redis://u:%4@h'],
    ['an empty text', ''],
  ])('Redis URL: refuses %s', (_case, url) => {
    expect(() => parseRedisUrl(url)).toThrow(RangeError)
  })

  test.each([
    ['scheme', 'http://u:secret@h'],
    ['port', 'redis://u:secret@h:port'],
    ['host', 'redis://u:secret@a,b'],
    ['database', 'redis://u:secret@h/secret'],
    ['at sign', 'redis://u:p@secret@h:x'],
  ])('parseRedisUrl: the error about a wrong %s does not contain the URL', (_case, url) => {
    let text = 'nothing was thrown: secret'
    try {
      parseRedisUrl(url)
    } catch (error) {
      text = String(error)
    }
    expect(text).not.toContain('secret')
  })

  test('Redis URL: any percent-encoded user and password are decoded correctly', () => {
    const text = fc.string({ minLength: 1, unit: 'binary' })
    fc.assert(
      fc.property(text, text, (username, password) => {
        const url = `redis://${encodeURIComponent(username)}:${encodeURIComponent(password)}@h`
        expect(parseRedisUrl(url)).toMatchObject({ username, password })
      }),
    )
  })
})
