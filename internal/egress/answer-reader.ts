import { type AnswerHead, type ParsedHead, parseHead } from './answer-head.ts'

/**
 * What is known of an answer after some more bytes: `more` is to come; it is `whole`; all that is wanted of it is there, `enough`,
 * though it goes on; or it is `malformed`: no HTTP/1.1, or with a head, trailer or chunk line that is too long.
 */
export type AnswerProgress = 'more' | 'whole' | 'enough' | 'malformed'

/** Of interim answers, head and trailer together. */
const headBytesMax = 16_384
const headEnd = Buffer.from('\r\n\r\n')
const lineEnd = Buffer.from('\r\n')
/** Hexadecimal, then extensions, which nobody knows. */
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
 * Reads one answer of HTTP/1.1 (RFC 9112) as its bytes come, and keeps the first of its body. Strict, since a connection is used
 * again only by knowing where its answer ended: lines end with CRLF; a length given twice or beside a transfer coding, and any
 * coding but `chunked`, are malformed. Interim answers are passed over; a switch of protocols is malformed, as nobody asked.
 */
export class AnswerReader {
  readonly #bodyBytesMax: number
  #phase: Phase = 'head'
  /** Not taken apart yet; bounded, since every phase takes what it has or knows its own end. */
  #pending: Buffer = nothing
  #head: AnswerHead | undefined
  #isKept = false
  readonly #body: Buffer[] = []
  #bodyBytes = 0
  #isCut = false
  /** Bytes of the body, or of the chunk, that are to come. */
  #left = 0
  #headBytes = 0
  #hasBegun = false

  /** @param bodyBytesMax bytes of the body that are kept */
  constructor(bodyBytesMax: number) {
    this.#bodyBytesMax = bodyBytesMax
  }

  /** Whether any byte of it is there. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** The head, once it is there. */
  get head(): AnswerHead | undefined {
    return this.#head
  }

  /** Whether the connection may carry another request now. */
  get leavesConnection(): boolean {
    return this.#phase === 'over' && this.#isKept && this.#pending.length === 0
  }

  /** The body as far as it was kept. */
  get body(): Buffer {
    const [first = nothing] = this.#body
    return this.#body.length > 1 ? Buffer.concat(this.#body) : first
  }

  /** Takes the bytes that came next, and says what they made of the answer. Nothing is to come after `whole` or `malformed`. */
  push(bytes: Buffer): AnswerProgress {
    this.#hasBegun = true
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes])
    // Each step takes bytes or enters another phase, so that they end with the bytes.
    while (!this.#isCut && this.#step());
    if (this.#isCut) return 'enough'
    if (this.#phase === 'over') return 'whole'
    return this.#phase === 'malformed' ? 'malformed' : 'more'
  }

  /** The connection ended: true if that is how this answer ends. */
  endsWithConnection(): boolean {
    return this.#phase === 'unsized'
  }

  /** False when there is nothing that it could do with the bytes at hand. */
  #step(): boolean {
    switch (this.#phase) {
      case 'head':
        return this.#readHead()
      case 'sized':
        return this.#readBytes('over')
      case 'unsized':
        return this.#readBytes('over')
      case 'chunk line':
        return this.#readLine(chunkLineBytesMax, (line) => this.#beginChunk(line))
      case 'chunk':
        return this.#readBytes('chunk end')
      case 'chunk end':
        return this.#readLine(0, () => 'chunk line')
      case 'trailer':
        return this.#readLine(headBytesMax, (line) => this.#passField(line))
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
    // Interim answers stand before the one that was asked for (RFC 9110, 15.2).
    if (parsed.status < 200) return true
    this.#head = parsed
    this.#isKept = parsed.isKept
    return this.#enter(this.#bodyPhase(parsed))
  }

  /** What speaks another protocol may wait for us for ever. */
  #startsAsHttp(): boolean {
    return this.#pending.toString('latin1', 0, 5) === 'HTTP/'
  }

  /** How the body's end is known: RFC 9112, 6.3. */
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

  /** Fields after the last chunk mean nothing to us. */
  #passField(line: string): Phase {
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
