import { type Address, type Cidr, contains, ipv4, parseAddress, parseCidr } from './address.ts'

/** What an address is for; a closed set. Everything but `public` is not to be called unless listed. */
export type AddressBlock =
  | 'public'
  | 'unspecified'
  | 'loopback'
  | 'private'
  | 'shared'
  | 'link_local'
  | 'metadata'
  | 'multicast'
  | 'documentation'
  | 'benchmarking'
  | 'site_local'
  | 'embedded_ipv4'
  | 'reserved'
  | 'not_an_address'

/**
 * Whether an address may be called. `listed`: the tenant lists it within what the platform permits. `isPublic`: it may be called without
 * being listed.
 */
export type AddressVerdict =
  | { readonly kind: 'allowed'; readonly listed: boolean; readonly isPublic: boolean }
  | { readonly kind: 'refused'; readonly block: AddressBlock }

/** What may be called beyond public addresses. */
export interface AddressLists {
  /** The tenant's networks. */
  readonly allowedCIDRs: readonly string[]
  /** The platform's; the tenant's list counts only inside it. */
  readonly cidrsMax: readonly string[]
}

/**
 * Blocks that are not to be called, the narrower before the wider that holds it. All of IANA's special-purpose registries
 * (https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry, as of 2025-10-09) are
 * in here, those marked globally reachable as well: they hold relays, anycast resolvers and sinks, and no callback.
 */
const blocks: readonly (readonly [AddressBlock, readonly string[]])[] = [
  // Where clouds hand out credentials outside the link-local block: Alibaba, Oracle (classic), Azure's host, which has a
  // public address; then over IPv6 AWS (instances, pods), Google, Scaleway.
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
  // Mapped, translated, compatible; NAT64 well-known and local; 6to4; Teredo.
  ['embedded_ipv4', ['::ffff:0:0/96', '::ffff:0:0:0/96', '::/96', '64:ff9b::/96', '64:ff9b:1::/48']],
  ['embedded_ipv4', ['2002::/16', '2001::/32']],
  // Protocol assignments, AS112, AMT, 6to4 relays; class E and broadcast; ORCHID and DRIP are within 2001::/23.
  ['reserved', ['192.0.0.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.88.99.0/24', '192.175.48.0/24']],
  ['reserved', ['240.0.0.0/4', '2001::/23', '2620:4f:8000::/48']],
]

const table: readonly (readonly [AddressBlock, Cidr])[] = blocks.flatMap(([block, texts]) =>
  cidrsOf(texts).map((cidr) => [block, cidr] as const),
)
/** The only part of IPv6 that is given out to be reached (RFC 4291, 2.4); the rest is reserved. */
const globalUnicast = cidrsOf(['2000::/3'])
const nat64Local = cidrsOf(['64:ff9b:1::/48'])
const tunnel6to4 = cidrsOf(['2002::/16'])
const teredo = cidrsOf(['2001::/32'])

/** Never called, whatever is listed: no callback lives there, and what does would give the platform away. */
const never: ReadonlySet<AddressBlock> = new Set(['unspecified', 'link_local', 'metadata', 'multicast'])

/** What an address is for, without regard to any IPv4 address inside it. */
export function blockOf(address: Address): AddressBlock {
  const found = table.find(([, cidr]) => contains(cidr, address))
  if (found) return found[0]
  if (address.family === 4) return 'public'
  if (!isIn(globalUnicast, address)) return 'reserved'
  return isIsatap(address) ? 'embedded_ipv4' : 'public'
}

/**
 * Whether an address may be called: a public one may; another one only if the tenant lists it within what the platform
 * permits; link-local, metadata, unspecified and multicast ones never. An address with an IPv4 address inside must be
 * listed itself, in its IPv6 form, and the inner one must be callable too.
 */
export function checkAddress(text: string, lists: AddressLists): AddressVerdict {
  const address = parseAddress(text)
  return address ? judge(address, lists) : { kind: 'refused', block: 'not_an_address' }
}

/** Whether a network holds no public address at all; false where it may hold some, or is no network. */
export function isNeverPublic(text: string): boolean {
  const cidr = parseCidr(text)
  return (
    cidr !== undefined && table.some(([, block]) => contains(block, cidr.base) && block.prefix <= cidr.prefix)
  )
}

function judge(address: Address, lists: AddressLists): AddressVerdict {
  const block = blockOf(address)
  if (never.has(block)) return { kind: 'refused', block }
  const listed = isIn(cidrsOf(lists.allowedCIDRs), address) && isIn(cidrsOf(lists.cidrsMax), address)
  if (block !== 'public' && !listed) return { kind: 'refused', block }
  const allowed = { kind: 'allowed', listed, isPublic: block === 'public' } as const
  if (block !== 'embedded_ipv4') return allowed
  const inner = isIn(nat64Local, address) ? refusedLocalNat64(address) : refusedInner(address, lists)
  return inner ?? allowed
}

function refusedInner(address: Address, lists: AddressLists): AddressVerdict | undefined {
  return innerOf(address)
    .map((inner) => judge(inner, lists))
    .find((verdict) => verdict.kind === 'refused')
}

/**
 * Where a local NAT64 prefix ends is its operator's choice (RFC 6052, 2.2; RFC 8215), so that the inner address cannot be
 * read for certain: the operator's list decides, but no reading may lead to a cloud's credentials.
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

/** The IPv4 addresses that a packet to this IPv6 address may be sent to. */
function innerOf(address: Address): Address[] {
  const [a = 0, b = 0, , d = 0] = address.words
  if (isIn(tunnel6to4, address)) return [ipv4((a << 16) | (b >>> 16))]
  // Teredo: its server, and its client with all bits inverted (RFC 4380, 4).
  if (isIn(teredo, address)) return [ipv4(b), ipv4(~d)]
  return [ipv4(d)]
}

/** RFC 5214, 6.1: an interface identifier that holds an IPv4 address. */
function isIsatap({ words: [, , c = 0] }: Address): boolean {
  return c === 0x5efe || c === 0x2005efe
}

function isIn(cidrs: readonly Cidr[], address: Address): boolean {
  return cidrs.some((cidr) => contains(cidr, address))
}

/** An entry that is no network holds nothing. */
function cidrsOf(texts: readonly string[]): Cidr[] {
  return texts.flatMap((text) => parseCidr(text) ?? [])
}
