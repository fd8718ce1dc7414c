import type { RedisNode } from './url.ts'

export const slotCount = 16_384

/** Slots from `from` to `to`, both included. */
export interface SlotRange {
  readonly from: number
  readonly to: number
  readonly master: RedisNode
}

export interface Redirection {
  readonly kind: 'moved' | 'ask'
  readonly slot: number
  readonly node: RedisNode
}

/** Table of CRC-16/XMODEM, which the Cluster specification requires. */
const crcTable: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = ((crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff) >>> 0
  return crc
})

/**
 * Hashes the text between the first `{` and the next `}` if that text is not empty, else the whole key
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags, 2026-11).
 */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key
  let crc = 0
  for (const byte of Buffer.from(hashed)) crc = ((crc << 8) & 0xffff) ^ (crcTable[(crc >> 8) ^ byte] ?? 0)
  return crc % slotCount
}

/** Parses the reply to `CLUSTER SLOTS`. A node that does not know its own address gets that of `asked`. */
export function parseSlotRanges(reply: unknown, asked: RedisNode): SlotRange[] {
  if (!Array.isArray(reply)) return []
  return reply.flatMap((range: unknown) => {
    if (!Array.isArray(range) || !Array.isArray(range[2])) return []
    const [host, port] = range[2]
    const master = nodeOf(host, port, asked)
    return master ? [{ from: Number(range[0]), to: Number(range[1]), master }] : []
  })
}

/** Parses a text such as `MOVED 3999 127.0.0.1:6381`, and returns undefined for any other. */
export function parseRedirection(text: string, asked: RedisNode): Redirection | undefined {
  const match = /^(MOVED|ASK) (\d+) (.*):(\d+)$/.exec(text)
  if (!match) return undefined
  const node = nodeOf(match[3], match[4], asked)
  const kind = match[1] === 'MOVED' ? 'moved' : 'ask'
  return node ? { kind, slot: Number(match[2]), node } : undefined
}

/** An empty or absent host means the node that was asked; `?` means an unknown host. */
function nodeOf(host: unknown, port: unknown, asked: RedisNode): RedisNode | undefined {
  const number = Number(port)
  if (host === '?' || !Number.isInteger(number) || number < 1) return undefined
  return { host: typeof host === 'string' && host !== '' ? host : asked.host, port: number }
}
