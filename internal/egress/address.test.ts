import { describe, expect, test } from 'bun:test'
import { BlockList } from 'node:net'
import fc from 'fast-check'
import { blockOf, checkAddress, contains, isNeverPublic, parseAddress, parseCidr } from './address.ts'

const octet = fc.integer({ min: 0, max: 255 })
const v4 = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join('.'))
const v6 = fc
  .array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 65_535 })), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.map((group) => group.toString(16)).join(':'))

describe('parseAddress', () => {
  test.each([
    ['::', [0, 0, 0, 0]],
    ['::1', [0, 0, 0, 1]],
    ['1::', [0x10000, 0, 0, 0]],
    ['2001:db8::ff00:42:8329', [0x20010db8, 0, 0xff00, 0x00428329]],
    ['::ffff:192.0.2.1', [0, 0, 0xffff, 0xc0000201]],
    ['64:ff9b::192.0.2.1', [0x0064ff9b, 0, 0, 0xc0000201]],
    ['1:2:3:4:5:6:7:8', [0x10002, 0x30004, 0x50006, 0x70008]],
    ['1:2:3:4:5:6:1.2.3.4', [0x10002, 0x30004, 0x50006, 0x01020304]],
    ['1.2.3.4', [0x01020304]],
    ['255.255.255.255', [0xffffffff]],
  ])('parseAddress: parses %s to the words %p', (text, words) => {
    expect(parseAddress(text)?.words).toEqual(words)
  })

  test.each([
    '',
    '1.2.3',
    '1.2.3.256',
    '01.2.3.4',
    '0x1.2.3.4',
    '[::1]',
    '::1%eth0',
    ':::',
    'localhost',
    ' ::1',
  ])('parseAddress: rejects %p', (text) => {
    expect(parseAddress(text)).toBeUndefined()
  })

  test('parseAddress: parses the compressed form of an IPv6 address like its long form', () => {
    fc.assert(
      fc.property(v6, (text) => {
        const short = new URL(`http://[${text}]/`).hostname.slice(1, -1)
        expect(parseAddress(short)).toEqual(parseAddress(text))
      }),
      { numRuns: 500 },
    )
  })
})

describe('networks', () => {
  test.each(['1.2.3.4/33', '::/129', '1.2.3.4/', '1.2.3.4/x', '1.2.3.4/-1', '/8', 'x/8', '1.2.3.4/8/8'])(
    'parseCidr: rejects %p',
    (text) => {
      expect(parseCidr(text)).toBeUndefined()
    },
  )

  test('contains: finds the same addresses in a network as the BlockList of Node.js', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.record({ a: v4, b: v4, all: fc.constant(32) }),
          fc.record({ a: v6, b: v6, all: fc.constant(128) }),
        ),
        fc.nat({ max: 128 }),
        fc.boolean(),
        ({ a, b, all }, anyPrefix, same) => {
          const prefix = anyPrefix % (all + 1)
          const family = all === 32 ? 'ipv4' : 'ipv6'
          const address = same ? a : b
          const list = new BlockList()
          list.addSubnet(a, prefix, family)
          const cidr = parseCidr(`${a}/${prefix}`)
          const parsed = parseAddress(address)
          expect(cidr && parsed && contains(cidr, parsed)).toBe(list.check(address, family))
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe('address blocks', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['1.1.1.1', 'public'],
    ['9.255.255.255', 'public'],
    ['11.0.0.0', 'public'],
    ['100.63.255.255', 'public'],
    ['100.128.0.0', 'public'],
    ['126.255.255.255', 'public'],
    ['128.0.0.0', 'public'],
    ['169.253.255.255', 'public'],
    ['169.255.0.0', 'public'],
    ['172.15.255.255', 'public'],
    ['172.32.0.0', 'public'],
    ['192.167.255.255', 'public'],
    ['192.169.0.0', 'public'],
    ['198.17.255.255', 'public'],
    ['198.20.0.0', 'public'],
    ['223.255.255.255', 'public'],
    ['2606:4700:4700::1111', 'public'],
    ['2001:4860:4860::8888', 'public'],
    ['2003::1', 'public'],
    ['10.0.0.0', 'private'],
    ['100.64.0.0', 'shared'],
    ['169.254.169.253', 'link_local'],
    ['169.254.169.254', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['fd00:ec3::254', 'private'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['::2', 'embedded_ipv4'],
    ['2001:db8::1', 'documentation'],
    ['2001:1ff:ffff::', 'reserved'],
    ['2001:200::1', 'public'],
    ['1fff::1', 'reserved'],
    ['fe00::1', 'reserved'],
  ] as const)('blockOf: returns the block of %s, which is %s', (text, block) => {
    const address = parseAddress(text)
    expect(address && blockOf(address)).toBe(block)
  })
})

describe('address check', () => {
  const dev = ['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']
  test.each([
    ['listed by tenant and platform', '10.20.3.4', ['10.20.0.0/16'], dev, true],
    ['listed as itself', '10.20.3.4', ['10.20.3.4'], ['10.20.3.4/32'], true],
    ['of IPv6, listed', 'fd12::1', ['fd12::/16'], dev, true],
    ['outside the tenant’s list', '10.21.0.0', ['10.20.0.0/16'], dev, false],
    ['outside the platform’s list', '10.20.0.1', ['10.0.0.0/8'], ['10.30.0.0/16'], false],
    ['listed only by the platform', '10.20.0.1', [], dev, false],
    ['listed only by the tenant', '10.20.0.1', ['10.0.0.0/8'], [], false],
    ['mapped, its inner address listed', '::ffff:10.20.0.1', ['10.0.0.0/8'], dev, false],
    ['mapped, itself listed', '::ffff:10.20.0.1', ['::ffff:10.20.0.1'], ['::ffff:0:0/96'], false],
    [
      'mapped, both listed',
      '::ffff:10.20.0.1',
      ['::ffff:10.20.0.1/128', '10.0.0.0/8'],
      ['::ffff:0:0/96', '10.0.0.0/8'],
      true,
    ],
    ['a public address in listed NAT64', '64:ff9b::808:808', ['64:ff9b::/96'], ['64:ff9b::/96'], true],
    ['behind a listed local NAT64', '64:ff9b:1::808:808', ['64:ff9b:1::/48'], ['64:ff9b:1::/48'], true],
    ['listed by invalid networks', '10.20.0.1', ['10.0.0.0/99', 'ten'], dev, false],
  ] as const)(
    'checkAddress: non-public address %s (%s, tenant lists %j, platform lists %j) is allowed: %p',
    (_case, address, allowedCIDRs, cidrsMax, allowed) => {
      const verdict = checkAddress(address, { allowedCIDRs, cidrsMax })
      expect(verdict.kind).toBe(allowed ? 'allowed' : 'refused')
    },
  )

  test.each([
    ['a network of private addresses', '10.20.0.0/16', true],
    ['all of IPv4', '0.0.0.0/0', false],
    ['a network that contains a private network', '10.0.0.0/7', false],
    ['a public network', '8.8.8.0/24', false],
    ['unique local addresses', 'fd00:10::/32', true],
    ['global unicast addresses', '2000::/3', false],
    ['an invalid network', 'ten', false],
  ])('isNeverPublic: the result for %s (%s) is %p', (_case, cidr, expected) => {
    expect(isNeverPublic(cidr)).toBe(expected)
  })

  test('checkAddress: allows a public address, and sets `listed` only if a list contains the address', () => {
    const lists = { allowedCIDRs: ['8.8.8.0/24'], cidrsMax: ['8.0.0.0/8'] }
    expect(checkAddress('8.8.8.8', lists)).toEqual({ kind: 'allowed', listed: true, isPublic: true })
    expect(checkAddress('8.8.4.4', lists)).toEqual({ kind: 'allowed', listed: false, isPublic: true })
  })
})
