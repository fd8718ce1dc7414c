import { BlockList, isIP } from 'node:net'
import type { Head } from './route.ts'

/** Maximum number of forwarded addresses that are checked. */
const hopsMax = 20

/**
 * Creates the function that returns the client address of a request. It reads `X-Forwarded-For` from its end while each address is in
 * `trustedProxies` (CIDRs). Without trusted proxies it returns the peer of the connection. A malformed address ends the search.
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

/** Returns the network that counts as one client: the address for IPv4, or the /64 for IPv6, because one host can own a whole /64. */
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

const mapped = /^::ffff:(?=\d+\.)/i
const groupsOfAddress = 8
const groupsOfNetwork = 4
