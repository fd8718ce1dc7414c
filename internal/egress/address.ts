import { isIPv4, isIPv6 } from 'node:net'

/** An IP address as numbers of 32 bits, most significant first: one for IPv4, four for IPv6. */
export interface Address {
  readonly family: 4 | 6
  readonly words: readonly number[]
}

/** A network: an address and how many of its leading bits count. */
export interface Cidr {
  readonly base: Address
  readonly prefix: number
}

/**
 * Reads an address in its usual form, as resolvers give it: four decimal numbers, or IPv6 without brackets and zone.
 * Undefined for anything else, octal and hexadecimal IPv4 included: a URL parser has made decimal of those before.
 */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return ipv4(wordOf(text))
  return isIPv6(text) && !text.includes('%') ? { family: 6, words: wordsOf(text) } : undefined
}

/** Reads `address/prefix`, or a bare address as the network of itself alone; undefined for anything else. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  const base = parseAddress(slash < 0 ? text : text.slice(0, slash))
  if (!base) return undefined
  const bits = base.family === 4 ? 32 : 128
  if (slash < 0) return { base, prefix: bits }
  const prefix = text.slice(slash + 1)
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits ? { base, prefix: Number(prefix) } : undefined
}

/** An IPv4 address of its number. */
export function ipv4(word: number): Address {
  return { family: 4, words: [word >>> 0] }
}

/** Whether a network holds an address; IPv4 networks hold no IPv6 addresses, mapped ones included. */
export function contains({ base, prefix }: Cidr, address: Address): boolean {
  if (base.family !== address.family) return false
  return base.words.every((word, index) => {
    const bits = Math.min(32, Math.max(0, prefix - 32 * index))
    // A shift by 32 would be a shift by 0.
    return bits === 0 || (word ^ (address.words[index] ?? 0)) >>> (32 - bits) === 0
  })
}

function wordOf(dotted: string): number {
  return dotted.split('.').reduce((word, part) => word * 256 + Number(part), 0)
}

/** Of a text that `isIPv6` has seen. */
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
