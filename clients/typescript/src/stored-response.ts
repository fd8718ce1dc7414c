import { decodeText, encodeText, fromBase64, toBase64 } from './bytes.ts'
import type { StoredRecord } from './outcome.ts'

/** Response of a handler, or one that is replayed. */
export interface CapturedResponse {
  readonly status: number
  /** Names in lower case. Never has `set-cookie`. */
  readonly headers: Readonly<Record<string, string>>
  /** Undefined if the body was too large to keep. */
  readonly body: Uint8Array | undefined
}

/** Header of a record with the encoding of its body: `text`, `base64` or `omitted`. */
const bodyHeader = 'latchkey-body'
/** Headers that are kept by default. `content-encoding` is kept because it describes the kept bytes. */
const keptByDefault = [
  'content-type',
  'content-encoding',
  'content-language',
  'cache-control',
  'etag',
  'link',
  'location',
]

/** Returns the names of all headers to keep. @throws TypeError for `set-cookie`, which belongs to one client */
export function keptHeaderNames(more: readonly string[] = []): ReadonlySet<string> {
  const names = new Set([...keptByDefault, ...more.map((name) => name.toLowerCase())])
  if (names.has('set-cookie')) throw new TypeError('Latchkey: `headersKept` must not contain set-cookie')
  return names
}

/** Returns the headers of these names. Values of a repeated header are joined. */
export function keepHeaders(
  headers: Iterable<readonly [name: string, value: string | number | readonly string[] | undefined]>,
  names: ReadonlySet<string>,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {}
  for (const [name, value] of headers) {
    const key = name.toLowerCase()
    if (value === undefined || !names.has(key)) continue
    const text = typeof value === 'object' ? value.join(', ') : String(value)
    kept[key] = kept[key] === undefined ? text : `${kept[key]}, ${text}`
  }
  return kept
}

/**
 * Returns the record of a response. A body that is not UTF-8, or whose JSON would be longer than the base64 of `bodyBytesMax` bytes, is kept
 * as base64.
 */
export function toRecord({ status, headers, body }: CapturedResponse, bodyBytesMax: number): StoredRecord {
  const [kind, text] = storedBody(body, bodyBytesMax)
  return { status, headers: { ...headers, [bodyHeader]: kind }, body: text }
}

function storedBody(
  body: Uint8Array | undefined,
  bodyBytesMax: number,
): readonly ['text' | 'base64' | 'omitted', string] {
  if (body === undefined) return ['omitted', '']
  const text = decodeText(body)
  const jsonBytesMax = Math.ceil(bodyBytesMax / 3) * 4 + 2
  return text !== undefined && encodeText(JSON.stringify(text)).length <= jsonBytesMax
    ? ['text', text]
    : ['base64', toBase64(body)]
}

/** Returns the response of a record. A record that another program saved is replayed as JSON. */
export function fromRecord(record: StoredRecord, names: ReadonlySet<string>): CapturedResponse {
  const { status, body } = record
  const headers = Object.entries(record.headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const kept = keepHeaders(headers, names)
  const kind = new Map(headers).get(bodyHeader)
  if (typeof body !== 'string' || kind === undefined) return jsonResponse(record, kept)
  if (kind === 'base64') return { status, headers: kept, body: fromBase64(body) }
  return { status, headers: kept, body: kind === 'omitted' ? undefined : encodeText(body) }
}

function jsonResponse({ status, body }: StoredRecord, kept: CapturedResponse['headers']): CapturedResponse {
  if (hasNoBody(status)) return { status, headers: kept, body: new Uint8Array() }
  const headers = { 'content-type': 'application/json', ...kept }
  return { status, headers, body: encodeText(JSON.stringify(body)) }
}

/** Returns whether a response of this status never has a body. */
export function hasNoBody(status: number): boolean {
  return status === 204 || status === 205 || status === 304
}
