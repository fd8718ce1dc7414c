import { describe, expect, test } from 'bun:test'
import {
  baseUrl,
  cidrs,
  headerPairs,
  httpUrl,
  integer,
  ipAddress,
  keyRing,
  line,
  ports,
  postgresUrl,
  ratio,
  redisUrl,
  type ValueKind,
  withoutPassword,
} from './value-kinds.ts'

const key = Buffer.alloc(32, 1).toString('base64')

const accepted: [string, ValueKind<unknown>, string, unknown][] = [
  ['a number at its minimum', integer('seconds', 1, 5), '1', 1],
  ['a number at its maximum', integer('seconds', 1, 5), '5', 5],
  ['a share from 0 to 1', ratio, '0.25', 0.25],
  ['networks and addresses', cidrs, '10.0.0.0/8, ::1', ['10.0.0.0/8', '::1']],
  ['an IPv4 address', ipAddress, '127.0.0.1', '127.0.0.1'],
  ['all addresses of IPv4', ipAddress, '0.0.0.0', '0.0.0.0'],
  ['an IPv6 address that is not canonical', ipAddress, '0:0:0:0:0:0:0:1', '::1'],
  ['all addresses', ipAddress, '::', '::'],
  ['ports', ports, '9000, 9443,9000', [9000, 9443]],
  ['any port', ports, 'any', 'any'],
  ['two keys', keyRing, `a:${key},b:${key}`, `a:${key},b:${key}`],
  ['headers', headerPairs, 'Authorization=Bearer%20x, a=b=c', { authorization: 'Bearer x', a: 'b=c' }],
  ['a base URL', baseUrl, 'https://h:8443/docs', 'https://h:8443/docs'],
  ['a base URL with slashes at its end', baseUrl, 'http://h/', 'http://h'],
  ['a base URL with characters that a header cannot have', baseUrl, 'http://h/dé>', 'http://h/d%C3%A9%3E'],
  ['a Postgres server', postgresUrl, 'postgresql://u:p%40@h:5432/d', 'postgresql://u:p%40@h:5432/d'],
  ['a Postgres Unix socket', postgresUrl, 'postgres:///d?host=/run', 'postgres:///d?host=/run'],
  ['one Redis', redisUrl, 'redis://u:p@h:6379/1', 'redis://u:p@h:6379/1'],
  ['Redis over TLS and IPv6', redisUrl, 'rediss://[::1]:6379', 'rediss://[::1]:6379'],
  [
    'Sentinel',
    redisUrl,
    'redis+sentinel://u:p@h:26379,h2/main?database=1',
    'redis+sentinel://u:p@h:26379,h2/main?database=1',
  ],
  ['a Cluster', redisUrl, 'rediss+cluster://h:1,h2:2', 'rediss+cluster://h:1,h2:2'],
]
test.each(accepted)('setting value: accepts %s', (_case, kind, value, expected) => {
  expect(kind.parse(value)).toEqual({ kind: 'ok', value: expected })
})

const refused: [string, ValueKind<unknown>, string][] = [
  ['a number below the minimum', integer('seconds', 1, 5), '0'],
  ['a number above the maximum', integer('seconds', 1, 5), '6'],
  ['a number in hexadecimal', integer('seconds', 1, 99), '0x10'],
  ['a number with a fraction', integer('seconds', 1, 99), '1.5'],
  ['a number with a space', integer('seconds', 1, 99), ' 1'],
  ['a share above one', ratio, '1.1'],
  ['a share that is not a number', ratio, '1e0'],
  ['a prefix too long for its version', cidrs, '10.0.0.0/33'],
  ['an empty prefix', cidrs, '10.0.0.0/'],
  ['a host name as network', cidrs, 'localhost'],
  ['two prefixes', cidrs, '10.0.0.0/8/8'],
  ['a host name as address', ipAddress, 'localhost'],
  ['an address with a port', ipAddress, '127.0.0.1:8080'],
  ['an address in brackets', ipAddress, '[::1]'],
  ['an address with a zone', ipAddress, 'fe80::1%eth0'],
  ['a network as address', ipAddress, '10.0.0.0/8'],
  ['a short address', ipAddress, '127.1'],
  ['an address with a space', ipAddress, ' 127.0.0.1'],
  ['port 0 in a list', ports, '80,0'],
  ['a port over 65535', ports, '65536'],
  ['a range of ports', ports, '80-90'],
  ['any together with a port', ports, 'any,80'],
  ['65 ports', ports, Array.from({ length: 65 }, (_none, at) => at + 1).join()],
  ['a short key', keyRing, 'a:AAAA'],
  ['a key without id', keyRing, key],
  ['a header without an equals sign', headerPairs, 'abc'],
  ['a header with invalid percent-encoding', headerPairs, 'a=%zz'],
  ['a line feed', line('x'), 'a\nb'],
  ['no scheme', httpUrl, 'collector:4318'],
  ['another scheme', httpUrl, 'ftp://h'],
  ['a base URL with a query', baseUrl, 'https://h/docs?a=1'],
  ['a base URL with a fragment', baseUrl, 'https://h/docs#a'],
  ['a base URL with a user', baseUrl, 'https://u:p@h/docs'],
  ['a base URL without a host', baseUrl, '/docs'],
  ['Postgres without host', postgresUrl, 'postgres:///d'],
  ['another database', postgresUrl, 'mysql://h/d'],
  ['a password of Postgres with a slash', postgresUrl, 'postgres://u:p/w@h/d'],
  ['a password of Redis with a question mark', redisUrl, 'redis://u:p?w@h'],
  ['two Redis servers without Sentinel or Cluster', redisUrl, 'redis://a,b'],
  ['a Sentinel URL without the name of a master', redisUrl, 'redis+sentinel://a,b'],
  ['a Cluster with a database', redisUrl, 'redis+cluster://a/1'],
  ['a Redis URL with an empty host', redisUrl, 'redis://:6379'],
]
test.each(refused)('setting value: rejects %s', (_case, kind, value) => {
  expect(kind.parse(value).kind).toBe('invalid')
})

describe('a printed URL', () => {
  test.each([
    ['postgres://u:p%40@h/d', 'postgres://u:[redacted]@h/d'],
    ['redis://:p@h', 'redis://:[redacted]@h'],
    ['redis://token@h', 'redis://[redacted]@h'],
    [
      'redis+sentinel://h/m?sentinelPassword=x&database=1',
      'redis+sentinel://h/m?sentinelPassword=[redacted]&database=1',
    ],
    ['https://collector:4318', 'https://collector:4318'],
  ])('withoutPassword: removes any password from the URL %s', (url, printed) => {
    expect(withoutPassword(url)).toBe(printed)
  })
})
