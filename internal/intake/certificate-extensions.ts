import type { X509Certificate } from 'node:crypto'

/** Extensions of a certificate that the runtime does not expose. Lower-case hex of an object identifier's content bytes names each. */
export interface CertificateExtensions {
  /** Maximum number of intermediate certificates below this authority (RFC 5280, 4.2.1.9); undefined without a limit. */
  readonly pathLengthMax: number | undefined
  /** Extended key usage (4.2.1.12), object identifiers in hex; undefined without a restriction. */
  readonly purposes: ReadonlySet<string> | undefined
  /** Whether it may issue only some names (4.2.1.10). */
  readonly hasNameConstraints: boolean
}

const basicConstraints = '551d13'
const nameConstraints = '551d1e'
const extendedKeyUsage = '551d25'

const tags = { boolean: 0x01, integer: 0x02, octets: 0x04, objectId: 0x06, sequence: 0x30, extensions: 0xa3 }

/** One DER value: its tag and where its content is. */
interface Value {
  readonly tag: number
  readonly content: Uint8Array
}

/**
 * Reads what `X509Certificate` leaves out: it has no path length, and its `keyUsage` (the extended key usage) does not tell a malformed
 * extension from an absent one. Expects a certificate that the runtime has parsed already.
 * @throws RangeError for anything but DER as RFC 5280 writes it; an extension that stands twice included
 */
export function readExtensions({ raw }: Pick<X509Certificate, 'raw'>): CertificateExtensions {
  const [tbs] = childrenOf(only(raw, tags.sequence))
  const fields = tbs ? childrenOf(tbs.content) : []
  const wrapped = fields.find(({ tag }) => tag === tags.extensions)
  const byId = new Map<string, Uint8Array>()
  for (const { content } of wrapped ? childrenOf(only(wrapped.content, tags.sequence)) : []) {
    const parts = childrenOf(content)
    const id = parts[0]?.tag === tags.objectId ? hexOf(parts[0]) : undefined
    const value = parts.at(-1)
    if (id === undefined || value?.tag !== tags.octets || byId.has(id))
      throw new RangeError('not an extension, or one that stands twice')
    byId.set(id, value.content)
  }
  return {
    pathLengthMax: pathLengthOf(byId.get(basicConstraints)),
    purposes: purposesOf(byId.get(extendedKeyUsage)),
    hasNameConstraints: byId.has(nameConstraints),
  }
}

function pathLengthOf(extension: Uint8Array | undefined): number | undefined {
  if (!extension) return undefined
  const [first, second] = childrenOf(only(extension, tags.sequence))
  const length = first?.tag === tags.boolean ? second : first
  if (length === undefined) return undefined
  const { tag, content } = length
  // Chains have a handful of certificates: one byte is more than any needs, and a longer number limits none.
  if (tag !== tags.integer || content.length === 0 || (content[0] ?? 0) > 0x7f)
    throw new RangeError('not a path length')
  return content.length === 1 ? content[0] : undefined
}

function purposesOf(extension: Uint8Array | undefined): ReadonlySet<string> | undefined {
  if (!extension) return undefined
  const ids = childrenOf(only(extension, tags.sequence))
  if (ids.length === 0 || ids.some(({ tag }) => tag !== tags.objectId))
    throw new RangeError('not an extended key usage')
  return new Set(ids.map(hexOf))
}

function hexOf({ content }: Value): string {
  return Buffer.from(content).toString('hex')
}

/** The content of the one value that the bytes are. */
function only(bytes: Uint8Array, tag: number): Uint8Array {
  const [value, ...more] = childrenOf(bytes)
  if (value?.tag !== tag || more.length > 0) throw new RangeError('not the one value that is expected')
  return value.content
}

/** Bounded by the bytes, of which each value takes two at least. */
function childrenOf(bytes: Uint8Array): Value[] {
  const values: Value[] = []
  for (let at = 0; at < bytes.length; ) {
    const { tag, start, end } = headOf(bytes, at)
    values.push({ tag, content: bytes.subarray(start, end) })
    at = end
  }
  return values
}

/** Tag and length (X.690, 8.1 and 10.1): one tag byte, and a definite length in as few bytes as it needs, at most four. */
function headOf(bytes: Uint8Array, at: number): { tag: number; start: number; end: number } {
  const tag = bytes[at] ?? 0
  const short = bytes[at + 1] ?? 0xff
  const lengthBytes = short < 0x80 ? 0 : short & 0x7f
  const start = at + 2 + lengthBytes
  if ((tag & 0x1f) === 0x1f || lengthBytes > 4 || short === 0x80 || start > bytes.length)
    throw new RangeError('not a value of DER')
  const long = bytes.subarray(at + 2, start).reduce((sum, byte) => sum * 256 + byte, 0)
  const isShortest = lengthBytes === 0 || (long >= 0x80 && long >= 256 ** (lengthBytes - 1))
  const end = start + (lengthBytes === 0 ? short : long)
  if (!isShortest || end > bytes.length) throw new RangeError('not a length of DER')
  return { tag, start, end }
}
