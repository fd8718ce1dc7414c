import { expect, test } from 'bun:test'
import type { Head } from './route.ts'
import { createSourceAddress, networkOf } from './source-address.ts'

function headOf(peer: string | null, forwarded?: string): Head {
  const headers = new Headers(forwarded === undefined ? {} : { 'X-Forwarded-For': forwarded })
  const request = new Request('http://localhost/', { headers })
  return { request, requestId: 'r', params: {}, peerAddress: () => peer }
}

const proxies = ['10.0.0.0/8', 'fd00::/8', '192.0.2.7']

test.each([
  ['the connection’s address without trusted proxies', [], '10.0.0.1', '203.0.113.5', '10.0.0.1'],
  [
    'the connection’s address for a peer that is not trusted',
    proxies,
    '198.51.100.1',
    '203.0.113.5',
    '198.51.100.1',
  ],
  [
    'the last forwarded address behind a trusted proxy',
    proxies,
    '10.0.0.1',
    '1.1.1.1, 203.0.113.5',
    '203.0.113.5',
  ],
  [
    'the first untrusted address behind several trusted proxies',
    proxies,
    '10.0.0.1',
    '1.1.1.1, 203.0.113.5, 10.9.9.9',
    '203.0.113.5',
  ],
  [
    'the forwarded address behind a proxy trusted by its address',
    proxies,
    '192.0.2.7',
    '203.0.113.5',
    '203.0.113.5',
  ],
  ['an IPv6 address behind an IPv6 proxy', proxies, 'fd00::1', '2001:db8::5', '2001:db8::5'],
  ['the last valid address before an invalid text', proxies, '10.0.0.1', '203.0.113.5, <script>', '10.0.0.1'],
  ['the proxy’s address without X-Forwarded-For', proxies, '10.0.0.1', undefined, '10.0.0.1'],
  ['the first address when all are trusted', proxies, '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
  ['null for a closed connection', proxies, null, '203.0.113.5', null],
])('createSourceAddress: returns %s', (_name, trusted, peer, forwarded, source) => {
  expect(createSourceAddress(trusted)(headOf(peer, forwarded))).toBe(source)
})

test.each([
  ['an IPv4 address', '192.0.2.7', '192.0.2.7'],
  ['an IPv4-mapped IPv6 address', '::ffff:192.0.2.7', '192.0.2.7'],
  ['a full IPv6 address', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['an IPv6 address shortened at its end', '2001:DB8:1:02::', '2001:db8:1:2'],
  ['an IPv6 address shortened within its network', '2001:db8::5', '2001:db8:0:0'],
  ['an IPv6 address shortened at its start', '::1', '0:0:0:0'],
  ['no address', null, null],
])('networkOf: returns the network of %s', (_case, address, network) => {
  expect(networkOf(address)).toBe(network)
})
