import { BlockList, isIP } from 'node:net'
import type { Head } from './route.ts'

/** Maximum of forwarded addresses that are walked. */
const hopsMax = 20

/**
 * Creates the function that returns a call's client address. It walks `X-Forwarded-For` from its end while each address lies in
 * `trustedProxies` (CIDRs); without any it returns the connection's peer. A malformed address ends the walk.
 */
export function createSourceAddress(trustedProxies: readonly string[]): (head: Head) => string | null {
  const trusted = new BlockList()
  for (const cidr of trustedProxies) {
    const [address = '', bits = ''] = cidr.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    trusted.addSubnet(address, bits === '' ? (family === 'ipv6' ? 128 : 32) : Number(bits), family)
  }
  const isTrusted = (address: string) => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return (head) => {
    const peer = head.peerAddress()
    if (peer === null || trustedProxies.length === 0 || !isTrusted(peer)) return peer
    const named = (head.request.headers.get('x-forwarded-for') ?? '').split(',').slice(-hopsMax)
    let source = peer
    for (const one of named.toReversed()) {
      const address = one.trim()
      if (isIP(address) === 0) break
      source = address
      if (!isTrusted(address)) break
    }
    return source
  }
}

/** Returns the network that an address is counted with: an IPv4 address itself, of an IPv6 address its /64, which one host may own. */
export function networkOf(address: string | null): string | null {
  const bare = address?.replace(mapped, '') ?? null
  if (bare === null || isIP(bare) !== 6) return bare
  const [head = '', tail] = bare.split('::')
  const groups = head.split(':').filter(Boolean)
  const after = tail?.split(':').filter(Boolean).length ?? 0
  while (groups.length + after < groupsOfAddress) groups.push('0')
  return groups
    .slice(0, groupsOfNetwork)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}

/** Prefix of an IPv4-mapped IPv6 address. */
const mapped = /^::ffff:(?=\d+\.)/i
const groupsOfAddress = 8
const groupsOfNetwork = 4
