import { BlockList, isIP } from 'node:net'
import type { Head } from './route.ts'

/** More proxies in a row than any installation has. */
const hopsMax = 20

/**
 * Makes what tells where a call comes from. `X-Forwarded-For` is believed only as far as each address that vouches for the next
 * one lies in `trustedProxies` (CIDRs); without any the connection's own address counts. What is no address ends the walk.
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

/** The network that an address is counted with: an IPv4 address by itself, an IPv6 address with its /64, which one host may own. */
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

/** An IPv4 address as IPv6 writes it. */
const mapped = /^::ffff:(?=\d+\.)/i
const groupsOfAddress = 8
const groupsOfNetwork = 4
