import { isObject } from './service.ts'

const encoder = new TextEncoder()

/** Returns the SHA-256 of bytes, or of a text in UTF-8. */
export async function sha256(data: string | Uint8Array): Promise<Uint8Array> {
  const bytes = typeof data === 'string' ? encoder.encode(data) : (data as Uint8Array<ArrayBuffer>)
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

/** Returns bytes as lowercase hex. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * Returns the JSON text of a value with the members of each object sorted by name (by UTF-16 code units, as in RFC 8785), so that equal
 * values have equal texts. @throws for a value that is not JSON, such as a cycle
 */
export function canonicalJson(value: unknown): string {
  return sortedText(JSON.parse(JSON.stringify(value)))
}

function sortedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${sortedText(value[name])}`)
  return `{${members.join(',')}}`
}
