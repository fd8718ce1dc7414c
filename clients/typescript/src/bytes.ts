const encoder = new TextEncoder()
// Keeps a byte order mark in the text, so that encoding the text gives the same bytes again.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** `beyond`: the stream has more bytes than allowed, and the rest was discarded. */
export type ReadBytes = { readonly kind: 'whole'; readonly bytes: Uint8Array } | { readonly kind: 'beyond' }

/** Returns the UTF-8 bytes of a text. */
export function encodeText(text: string): Uint8Array {
  return encoder.encode(text)
}

/** Decodes UTF-8. Encoding the text gives the same bytes again. Undefined if the bytes are not UTF-8. */
export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Returns the parts as one array. */
export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  const [first] = parts
  if (first !== undefined && parts.length === 1) return first
  const all = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.byteLength
  }
  return all
}

/** Reads a stream of at most `bytesMax` bytes, and cancels a longer stream. */
export async function readUpTo(
  stream: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<ReadBytes> {
  if (stream === null) return { kind: 'whole', bytes: new Uint8Array() }
  const reader = stream.getReader()
  const parts: Uint8Array[] = []
  for (let length = 0; ; ) {
    const { done, value } = await reader.read()
    if (done) return { kind: 'whole', bytes: concatBytes(parts) }
    length += value.byteLength
    if (length > bytesMax) {
      // Not awaited, because cancelling a branch of a tee settles only when the other branch is cancelled as well.
      reader.cancel().catch(() => undefined)
      return { kind: 'beyond' }
    }
    parts.push(value)
  }
}

/** Returns the base64 text of bytes. */
export function toBase64(bytes: Uint8Array): string {
  let binary = ''
  // Converts in slices, since the number of arguments of a call is limited.
  for (let at = 0; at < bytes.length; at += 8192)
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192))
  return btoa(binary)
}

/** Returns the bytes of a base64 text. @throws for any other text */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** Returns the SHA-256 of bytes, or of a text in UTF-8. */
export async function sha256(data: string | Uint8Array): Promise<Uint8Array> {
  const bytes = typeof data === 'string' ? encodeText(data) : data
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>))
}

/** Returns bytes as lowercase hex. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Returns the first 22 characters of the base64url SHA-256 of a text: 132 bits. */
export async function shortHash(text: string): Promise<string> {
  return toBase64(await sha256(text))
    .slice(0, 22)
    .replaceAll('+', '-')
    .replaceAll('/', '_')
}
