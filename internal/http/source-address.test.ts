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
  ['without proxies the connection counts', [], '10.0.0.1', '203.0.113.5', '10.0.0.1'],
  ['a stranger vouches for nobody', proxies, '198.51.100.1', '203.0.113.5', '198.51.100.1'],
  [
    'a trusted proxy vouches for the last address',
    proxies,
    '10.0.0.1',
    '1.1.1.1, 203.0.113.5',
    '203.0.113.5',
  ],
  ['a row of proxies is walked', proxies, '10.0.0.1', '1.1.1.1, 203.0.113.5, 10.9.9.9', '203.0.113.5'],
  ['a single address is a network', proxies, '192.0.2.7', '203.0.113.5', '203.0.113.5'],
  ['IPv6', proxies, 'fd00::1', '2001:db8::5', '2001:db8::5'],
  ['what is no address ends the walk', proxies, '10.0.0.1', '203.0.113.5, <script>', '10.0.0.1'],
  ['no header', proxies, '10.0.0.1', undefined, '10.0.0.1'],
  ['all trusted: the first of them', proxies, '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
  ['a connection that is gone', proxies, null, '203.0.113.5', null],
])('%s', (_name, trusted, peer, forwarded, source) => {
  expect(createSourceAddress(trusted)(headOf(peer, forwarded))).toBe(source)
})

test.each([
  ['an IPv4 address', '192.0.2.7', '192.0.2.7'],
  ['an IPv4 address as IPv6 writes it', '::ffff:192.0.2.7', '192.0.2.7'],
  ['a whole IPv6 address', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['an IPv6 address cut short at its end', '2001:DB8:1:02::', '2001:db8:1:2'],
  ['an IPv6 address cut short within its network', '2001:db8::5', '2001:db8:0:0'],
  ['an IPv6 address cut short at its start', '::1', '0:0:0:0'],
  ['no address', null, null],
])('networkOf: %s', (_case, address, network) => {
  expect(networkOf(address)).toBe(network)
})
