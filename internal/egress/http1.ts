import { isUtf8 } from 'node:buffer'
import type { CallbackUrl } from './callback-url.ts'

const token = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
/** Printable ASCII and tab, but no character that could end a line (header injection). */
const fieldValue = /^[\t\x20-\x7e]*$/

/** Encodes head and body in one buffer. Returns undefined for an invalid or non-ASCII header. */
export function encodeRequest(
  {
    method = 'POST',
    headers,
    body,
  }: {
    readonly method?: 'GET' | 'POST'
    readonly headers: Readonly<Record<string, string>>
    readonly body: string | Uint8Array
  },
  url: CallbackUrl,
): Buffer | undefined {
  let head = `${method} ${url.path} HTTP/1.1\r\n`
  const bodyBytes = method === 'GET' ? undefined : Buffer.byteLength(body)
  for (const [name, value] of requestHeaders(url, headers, bodyBytes)) {
    if (!token.test(name) || !fieldValue.test(value)) return undefined
    head += `${name}: ${value}\r\n`
  }
  head += '\r\n'
  if (method === 'GET') return Buffer.from(head, 'latin1')
  return typeof body === 'string'
    ? Buffer.from(head + body, 'utf8')
    : Buffer.concat([Buffer.from(head, 'latin1'), body])
}

/** Lists all headers of a request as they are sent: the given ones, and those of the client. Omit `bodyBytes` for a GET. */
export function requestHeaders(
  { authority }: Pick<CallbackUrl, 'authority'>,
  headers: Readonly<Record<string, string>>,
  bodyBytes: number | undefined,
): HeaderLine[] {
  const lines: HeaderLine[] = [['host', authority]]
  for (const name in headers) lines.push([name, headers[name] ?? ''])
  // Asks for an uncompressed response, because responses are stored as text.
  lines.push(['accept-encoding', 'identity'], ['connection', 'keep-alive'])
  if (bodyBytes !== undefined) lines.push(['content-length', String(bodyBytes)])
  return lines
}

/** Name in lower case and value of one header. */
export type HeaderLine = readonly [name: string, value: string]

/** Headers of a response, to show to people, in the order received: at most 32, with at most 4 096 characters in total. */
export interface KeptHeaders {
  readonly lines: readonly HeaderLine[]
  /** Number of omitted headers, which exceed a limit. No header is truncated, because redaction could miss a part of a secret. */
  readonly omitted: number
}

export interface AnswerHead {
  readonly status: number
  /** First value of each header, by name in lower case. */
  readonly fields: ReadonlyMap<string, string>
  readonly kept: KeptHeaders
}

const keptLinesMax = 32
const keptCharsMax = 4_096

interface ParsedHead extends AnswerHead {
  /** Joined `Content-Length` values, not yet validated. */
  readonly length: string | undefined
  /** Joined `Transfer-Encoding` values, not yet validated. */
  readonly transferCoding: string | undefined
  readonly isKept: boolean
}

const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\0\r\n]*)?$/
const folded = /\r\n[ \t]/
const fieldLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\0\r\n]*)$/

/**
 * Parses a response head without its final empty line (RFC 9112, 3 to 5) and joins folded fields. Returns undefined for another protocol,
 * for a field without a name, and for CR, LF or NUL within a line.
 */
function parseHead(text: string): ParsedHead | undefined {
  const unfolded = folded.test(text) ? text.replaceAll(/\r\n[ \t]+/g, ' ') : text
  const [first = '', ...lines] = unfolded.split('\r\n')
  const [, minor, status] = statusLine.exec(first) ?? []
  if (status === undefined) return undefined
  const fields = new Map<string, string>()
  const given: [string, string][] = []
  let length: string | undefined
  let transferCoding: string | undefined
  for (const line of lines) {
    const [, nameText, value] = fieldLine.exec(line) ?? []
    if (nameText === undefined || value === undefined) return undefined
    const name = nameText.toLowerCase()
    const trimmed = value.trimEnd()
    given.push([name, trimmed])
    if (name === 'content-length') length = length === undefined ? trimmed : `${length},${trimmed}`
    else if (name === 'transfer-encoding')
      transferCoding = transferCoding === undefined ? trimmed : `${transferCoding},${trimmed}`
    if (!fields.has(name)) fields.set(name, trimmed)
  }
  const connection = (fields.get('connection') ?? '').toLowerCase()
  const isKept = minor === '1' ? !/\bclose\b/.test(connection) : /\bkeep-alive\b/.test(connection)
  return { status: Number(status), fields, kept: keepHeaders(given), length, transferCoding, isKept }
}

/** Applies the limits of `KeptHeaders`. Reads a non-ASCII value as UTF-8 if it is valid UTF-8, and as Latin-1 otherwise. */
function keepHeaders(given: readonly HeaderLine[]): KeptHeaders {
  const lines: HeaderLine[] = []
  let chars = 0
  for (const [name, value] of given) {
    const size = name.length + value.length
    if (lines.length === keptLinesMax || chars + size > keptCharsMax) continue
    chars += size
    lines.push([name, nonAscii.test(value) ? textOfLatin1(value) : value])
  }
  return { lines, omitted: given.length - lines.length }
}

const nonAscii = /[\x80-\xff]/

function textOfLatin1(value: string): string {
  const bytes = Buffer.from(value, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : value
}

/**
 * `more`: the response is incomplete. `whole`: it is complete. `enough`: `bodyBytesMax` is reached and the body continues. `malformed`: it
 * is not HTTP/1.1, or its head, trailer or a chunk line is too long.
 */
export type AnswerProgress = 'more' | 'whole' | 'enough' | 'malformed'

/** Maximum total length of interim responses, head and trailer. */
const headBytesMax = 16_384
const headEnd = Buffer.from('\r\n\r\n')
const lineEnd = Buffer.from('\r\n')
/** Chunk size in hexadecimal, then extensions, which are ignored. */
const chunkLine = /^([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?$/
const chunkLineBytesMax = 256
const nothing = Buffer.alloc(0)

type Phase =
  | 'head'
  | 'sized'
  | 'unsized'
  | 'chunk line'
  | 'chunk'
  | 'chunk end'
  | 'trailer'
  | 'over'
  | 'malformed'

/**
 * Incremental parser of one HTTP/1.1 response (RFC 9112). Keeps the start of the body. Strict, because a connection can be reused only if
 * the end of the response is certain: lines end with CRLF; a repeated length, a length together with a transfer coding, and any coding
 * other than `chunked` are malformed. Skips interim responses; a protocol switch is malformed.
 */
export class AnswerReader {
  readonly #bodyBytesMax: number
  #phase: Phase = 'head'
  /** Bytes that are not parsed yet. Their number is bounded, since every phase of the parser consumes its bytes or rejects them. */
  #pending: Buffer = nothing
  #head: AnswerHead | undefined
  #isKept = false
  readonly #body: Buffer[] = []
  #bodyBytes = 0
  #isCut = false
  /** Remaining bytes of the body or of the current chunk. */
  #left = 0
  #headBytes = 0
  #hasBegun = false

  constructor(bodyBytesMax: number) {
    this.#bodyBytesMax = bodyBytesMax
  }

  get hasBegun(): boolean {
    return this.#hasBegun
  }

  get head(): AnswerHead | undefined {
    return this.#head
  }

  get leavesConnection(): boolean {
    return this.#phase === 'over' && this.#isKept && this.#pending.length === 0
  }

  get body(): Buffer {
    const [first = nothing] = this.#body
    return this.#body.length > 1 ? Buffer.concat(this.#body) : first
  }

  /** Parses further bytes. Must not be called after `whole` or `malformed`. */
  push(bytes: Buffer): AnswerProgress {
    this.#hasBegun = true
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes])
    // This loop ends, because each step consumes bytes or enters another phase.
    while (!this.#isCut && this.#step());
    if (this.#isCut) return 'enough'
    if (this.#phase === 'over') return 'whole'
    return this.#phase === 'malformed' ? 'malformed' : 'more'
  }

  /** Returns whether the response is complete if the connection ends now. */
  endsWithConnection(): boolean {
    return this.#phase === 'unsized'
  }

  /** Parses one element of the response. Returns false if the parser needs more bytes. */
  #step(): boolean {
    switch (this.#phase) {
      case 'head':
        return this.#readHead()
      case 'sized':
      case 'unsized':
        return this.#readBytes('over')
      case 'chunk line':
        return this.#readLine(chunkLineBytesMax, (line) => this.#beginChunk(line))
      case 'chunk':
        return this.#readBytes('chunk end')
      case 'chunk end':
        return this.#readLine(0, () => 'chunk line')
      case 'trailer':
        return this.#readLine(headBytesMax, (line) => this.#skipTrailer(line))
      default:
        return false
    }
  }

  #readHead(): boolean {
    const end = this.#pending.indexOf(headEnd)
    const bytes = end < 0 ? this.#pending.length : end + headEnd.length
    if (this.#headBytes + bytes > headBytesMax) return this.#enter('malformed')
    if (end < 0) return this.#pending.length >= 5 && !this.#startsAsHttp() && this.#enter('malformed')
    const parsed = parseHead(this.#pending.toString('latin1', 0, end))
    this.#headBytes += bytes
    this.#pending = this.#pending.subarray(bytes)
    if (parsed === undefined || parsed.status === 101) return this.#enter('malformed')
    // Interim responses (1xx) precede the final response (RFC 9110, 15.2).
    if (parsed.status < 200) return true
    this.#head = parsed
    this.#isKept = parsed.isKept
    return this.#enter(this.#bodyPhase(parsed))
  }

  /** Detects bytes of another protocol at once, because a server of that protocol may wait for the client and never send CRLF CRLF. */
  #startsAsHttp(): boolean {
    return this.#pending.toString('latin1', 0, 5) === 'HTTP/'
  }

  /** Selects the framing of the body as RFC 9112, 6.3 requires. */
  #bodyPhase({ status, transferCoding, length }: ParsedHead): Phase {
    if (status === 204 || status === 304) return 'over'
    if (transferCoding !== undefined) {
      return transferCoding.toLowerCase() === 'chunked' && length === undefined ? 'chunk line' : 'malformed'
    }
    this.#left = length === undefined ? Number.POSITIVE_INFINITY : Number(length)
    if (length === undefined) return 'unsized'
    if (!/^\d{1,15}$/.test(length)) return 'malformed'
    return this.#left === 0 ? 'over' : 'sized'
  }

  #beginChunk(line: string): Phase {
    const size = chunkLine.exec(line)?.[1]
    if (size === undefined) return 'malformed'
    this.#left = Number.parseInt(size, 16)
    return this.#left === 0 ? 'trailer' : 'chunk'
  }

  #skipTrailer(line: string): Phase {
    this.#headBytes += line.length + lineEnd.length
    if (this.#headBytes > headBytesMax) return 'malformed'
    return line === '' ? 'over' : 'trailer'
  }

  #readBytes(next: Phase): boolean {
    if (this.#pending.length === 0) return false
    const bytes = Math.min(this.#left, this.#pending.length)
    const room = this.#bodyBytesMax - this.#bodyBytes
    this.#isCut ||= bytes > room
    const kept = Math.min(bytes, room)
    if (kept > 0) this.#body.push(this.#pending.subarray(0, kept))
    this.#bodyBytes += kept
    this.#pending = this.#pending.subarray(bytes)
    this.#left -= bytes
    return this.#left === 0 ? this.#enter(next) : true
  }

  #readLine(bytesMax: number, nextOf: (line: string) => Phase): boolean {
    const end = this.#pending.indexOf(lineEnd)
    const bytes = end < 0 ? this.#pending.length - 1 : end
    if (bytes > bytesMax) return this.#enter('malformed')
    if (end < 0) return false
    const line = this.#pending.toString('latin1', 0, end)
    this.#pending = this.#pending.subarray(end + lineEnd.length)
    return this.#enter(nextOf(line))
  }

  #enter(phase: Phase): boolean {
    this.#phase = phase
    return true
  }
}
