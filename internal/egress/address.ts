import { isIPv4, isIPv6 } from 'node:net'

/** 32-bit words, most significant first: one for IPv4, four for IPv6. */
export interface Address {
  readonly family: 4 | 6
  readonly words: readonly number[]
}

export interface Cidr {
  readonly base: Address
  readonly prefix: number
}

/**
 * Parses an address in canonical form: dotted decimal, or IPv6 without brackets and zone. Returns undefined for any other text, including
 * octal and hexadecimal IPv4, which a URL parser has already converted to decimal.
 */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return ipv4(wordOf(text))
  return isIPv6(text) && !text.includes('%') ? { family: 6, words: wordsOf(text) } : undefined
}

/** Parses `address/prefix`. An address without prefix is a network of one address. Returns undefined for any other text. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  const base = parseAddress(slash < 0 ? text : text.slice(0, slash))
  if (!base) return undefined
  const bits = base.family === 4 ? 32 : 128
  if (slash < 0) return { base, prefix: bits }
  const prefix = text.slice(slash + 1)
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits ? { base, prefix: Number(prefix) } : undefined
}

export function ipv4(word: number): Address {
  return { family: 4, words: [word >>> 0] }
}

/** Returns whether a network contains an address. IPv4-mapped IPv6 addresses count as IPv6, so no IPv4 network contains them. */
export function contains({ base, prefix }: Cidr, address: Address): boolean {
  if (base.family !== address.family) return false
  return base.words.every((word, index) => {
    const bits = Math.min(32, Math.max(0, prefix - 32 * index))
    // Handles 0 bits separately: JavaScript shifts modulo 32, so a shift by 32 would compare all bits.
    return bits === 0 || (word ^ (address.words[index] ?? 0)) >>> (32 - bits) === 0
  })
}

function wordOf(dotted: string): number {
  return dotted.split('.').reduce((word, part) => word * 256 + Number(part), 0)
}

function wordsOf(text: string): number[] {
  const lastColon = text.lastIndexOf(':')
  const tail = text.slice(lastColon + 1)
  const plain = tail.includes('.') ? `${text.slice(0, lastColon + 1)}${hexPairOf(wordOf(tail))}` : text
  const [head = '', rest] = plain.split('::')
  const before = groupsOf(head)
  const after = rest === undefined ? [] : groupsOf(rest)
  const groups = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
  return [0, 2, 4, 6].map((at) => (groups[at] ?? 0) * 65_536 + (groups[at + 1] ?? 0))
}

function hexPairOf(word: number): string {
  return `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`
}

function groupsOf(text: string): number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))
}

/** Purpose of each address block, for the message of a refusal. */
export const blockNames = {
  public: 'a public address',
  unspecified: 'the unspecified address',
  loopback: 'a loopback address',
  private: 'a private address',
  shared: 'an address for carrier-grade NAT',
  link_local: 'a link-local address',
  metadata: "an address of a cloud's metadata service",
  multicast: 'a multicast address',
  documentation: 'an address reserved for documentation',
  benchmarking: 'an address reserved for benchmarks',
  site_local: 'a site-local address',
  embedded_ipv4: 'an IPv6 address that contains an IPv4 address',
  reserved: 'a reserved address',
  not_an_address: 'something that is not an IP address',
}
/** Purpose of an address block, from a closed set. Every block except `public` is refused unless a list allows it. */
export type AddressBlock = keyof typeof blockNames

/** Result of an address check. `listed`: the tenant and the platform list the address. `isPublic`: it is allowed without a list. */
export type AddressVerdict =
  | { readonly kind: 'allowed'; readonly listed: boolean; readonly isPublic: boolean }
  | { readonly kind: 'refused'; readonly block: AddressBlock }

/** Non-public networks that can be called. */
export interface AddressLists {
  readonly allowedCIDRs: readonly string[]
  /** Platform limit: an entry of the tenant's list applies only inside these networks. */
  readonly cidrsMax: readonly string[]
}

/**
 * Address blocks that are refused unless a list allows them; a block inside another one comes first. Includes all blocks of IANA's
 * special-purpose registries (https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry, as of
 * 2025-10-09), even those marked globally reachable, because these contain relays, anycast resolvers and sinks, but never a callback.
 */
const blocks: readonly (readonly [AddressBlock, readonly string[]])[] = [
  // Metadata services that issue credentials, including those outside the link-local block: AWS (instances, containers), Alibaba, Oracle
  // classic and Azure (a public address). Over IPv6: AWS (instances, pods), Google and Scaleway.
  ['metadata', ['169.254.169.254', '169.254.170.0/24', '100.100.100.200', '192.0.0.192', '168.63.129.16']],
  ['metadata', ['fd00:ec2::/32', 'fd20:ce::254', 'fd00:42::42', 'fe80::a9fe:a9fe']],
  ['unspecified', ['0.0.0.0/8', '::']],
  ['loopback', ['127.0.0.0/8', '::1']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
  ['shared', ['100.64.0.0/10']],
  ['link_local', ['169.254.0.0/16', 'fe80::/10']],
  ['site_local', ['fec0::/10']],
  ['multicast', ['224.0.0.0/4', 'ff00::/8']],
  ['documentation', ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32', '3fff::/20']],
  ['benchmarking', ['198.18.0.0/15', '2001:2::/48']],
  // IPv4-mapped, IPv4-translated and IPv4-compatible addresses; NAT64, well-known and local; 6to4; Teredo.
  ['embedded_ipv4', ['::ffff:0:0/96', '::ffff:0:0:0/96', '::/96', '64:ff9b::/96', '64:ff9b:1::/48']],
  ['embedded_ipv4', ['2002::/16', '2001::/32']],
  // Protocol assignments, AS112, AMT and 6to4 relays; class E and broadcast; ORCHID and DRIP, which are within 2001::/23.
  ['reserved', ['192.0.0.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.88.99.0/24', '192.175.48.0/24']],
  ['reserved', ['240.0.0.0/4', '2001::/23', '2620:4f:8000::/48']],
]

const table: readonly (readonly [AddressBlock, Cidr])[] = blocks.flatMap(([block, texts]) =>
  cidrsOf(texts).map((cidr) => [block, cidr] as const),
)
/** The only part of IPv6 assigned to global unicast (RFC 4291, 2.4). All other parts are reserved. */
const globalUnicast = cidrsOf(['2000::/3'])
const nat64Local = cidrsOf(['64:ff9b:1::/48'])
const tunnel6to4 = cidrsOf(['2002::/16'])
const teredo = cidrsOf(['2001::/32'])

/** Refused even if a list contains them: they contain no callbacks, and a metadata service would leak the credentials of the platform. */
export const blocksNeverCalled: ReadonlySet<AddressBlock> = new Set<AddressBlock>([
  'unspecified',
  'link_local',
  'metadata',
  'multicast',
  'not_an_address',
])

export function blockOf(address: Address): AddressBlock {
  const found = table.find(([, cidr]) => contains(cidr, address))
  if (found) return found[0]
  if (address.family === 4) return 'public'
  if (!isIn(globalUnicast, address)) return 'reserved'
  return isIsatap(address) ? 'embedded_ipv4' : 'public'
}

/**
 * Decides whether an address can be called. A public address is allowed. A link-local, metadata, unspecified or multicast address is always
 * refused. Any other address is allowed only if the tenant lists it within the networks of the platform. An IPv6 address that embeds an
 * IPv4 address must be listed in its IPv6 form, and the embedded address must also be allowed.
 */
export function checkAddress(text: string, lists: AddressLists): AddressVerdict {
  const address = parseAddress(text)
  return address ? validate(address, lists) : { kind: 'refused', block: 'not_an_address' }
}

/** Returns whether the text is a network without public addresses. */
export function isNeverPublic(text: string): boolean {
  const cidr = parseCidr(text)
  return (
    cidr !== undefined && table.some(([, block]) => contains(block, cidr.base) && block.prefix <= cidr.prefix)
  )
}

function validate(address: Address, lists: AddressLists): AddressVerdict {
  const block = blockOf(address)
  if (blocksNeverCalled.has(block)) return { kind: 'refused', block }
  const listed = isIn(cidrsOf(lists.allowedCIDRs), address) && isIn(cidrsOf(lists.cidrsMax), address)
  if (block !== 'public' && !listed) return { kind: 'refused', block }
  const allowed = { kind: 'allowed', listed, isPublic: block === 'public' } as const
  if (block !== 'embedded_ipv4') return allowed
  const refusal = isIn(nat64Local, address) ? refusedLocalNat64(address) : refusedInner(address, lists)
  return refusal ?? allowed
}

function refusedInner(address: Address, lists: AddressLists): AddressVerdict | undefined {
  return innerOf(address)
    .map((inner) => validate(inner, lists))
    .find((verdict) => verdict.kind === 'refused')
}

/**
 * Checks every IPv4 address that an address with a local NAT64 prefix can embed: the operator chooses the prefix, whose length determines
 * the position (RFC 6052, 2.2; RFC 8215). Refuses metadata and link-local addresses; the lists decide about the others.
 */
function refusedLocalNat64({ words: [, b = 0, c = 0, d = 0] }: Address): AddressVerdict | undefined {
  const readings = [
    ((b & 0xffff) << 16) | ((c >>> 8) & 0xffff),
    ((b & 0xff) << 24) | (c & 0xffffff),
    ((c & 0xffffff) << 8) | (d >>> 24),
    d,
  ]
  const block = readings
    .map((word) => blockOf(ipv4(word)))
    .find((each) => each === 'metadata' || each === 'link_local')
  return block && { kind: 'refused', block }
}

/** IPv4 addresses to which a translator can forward a packet for this IPv6 address. */
function innerOf(address: Address): Address[] {
  const [a = 0, b = 0, , d = 0] = address.words
  if (isIn(tunnel6to4, address)) return [ipv4((a << 16) | (b >>> 16))]
  // Teredo embeds the address of its server, and the address of its client with all bits inverted (RFC 4380, 4).
  if (isIn(teredo, address)) return [ipv4(b), ipv4(~d)]
  return [ipv4(d)]
}

/** Returns whether the interface identifier is of ISATAP and embeds an IPv4 address (RFC 5214, 6.1). */
function isIsatap({ words: [, , c = 0] }: Address): boolean {
  return c === 0x5efe || c === 0x2005efe
}

function isIn(cidrs: readonly Cidr[], address: Address): boolean {
  return cidrs.some((cidr) => contains(cidr, address))
}

/** Parses networks and skips entries that are none. */
function cidrsOf(texts: readonly string[]): Cidr[] {
  return texts.flatMap((text) => parseCidr(text) ?? [])
}
