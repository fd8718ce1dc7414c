import { concatBytes, encodeText } from './bytes.ts'
import { type CapturedResponse, hasNoBody, keepHeaders } from './stored-response.ts'

type HeaderValue = string | number | readonly string[]

/** The part of a response of `node:http` and Express that is used. */
export interface NodeResponse {
  statusCode: number
  statusMessage: string
  readonly headersSent: boolean
  /** True if the caller hung up or the response was sent. */
  readonly destroyed: boolean
  getHeaders(): Readonly<Record<string, HeaderValue | undefined>>
  setHeader(name: string, value: HeaderValue): unknown
  removeHeader(name: string): unknown
  write(...args: readonly never[]): boolean
  end(...args: readonly never[]): unknown
  writeHead(status: number, ...args: readonly never[]): unknown
  flushHeaders(): void
  once(event: 'close' | 'finish', listener: () => void): unknown
}

declare const Buffer: { from(text: string, encoding: string): Uint8Array }

/** Options of a capture. */
export interface CaptureOptions {
  readonly bytesMax: number
  readonly headersKept: ReadonlySet<string>
  /** Name of the route in exceptions. */
  readonly route: string
  /** Milliseconds that a handler has to respond after its caller hung up. */
  readonly hungUpMsMax: number
}

interface Head {
  readonly status: number
  readonly message: string
  readonly headers: Readonly<Record<string, HeaderValue | undefined>>
}

/**
 * Buffers what a handler writes to a response, until `release`. A response of more than `bytesMax` bytes, or whose headers are flushed
 * before its body, is sent as it is written.
 */
export class ResponseCapture {
  /** Resolves at the end of the response. Rejects if the caller hung up, and the handler does not respond in time. */
  readonly captured: Promise<CapturedResponse>
  readonly #response: NodeResponse
  readonly #options: CaptureOptions
  readonly #original: Pick<NodeResponse, 'write' | 'end' | 'writeHead' | 'flushHeaders'>
  #state: 'open' | 'begun' | 'ended' | 'passing' = 'open'
  #head: Head | undefined
  #parts: Uint8Array[] = []
  #bytes = 0
  #isKept = true
  #resolve: (captured: CapturedResponse) => void = () => undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(response: NodeResponse, options: CaptureOptions) {
    const { write, end, writeHead, flushHeaders } = response
    this.#response = response
    this.#options = options
    this.#original = { write, end, writeHead, flushHeaders }
    this.captured = new Promise((resolve, reject) => {
      this.#resolve = resolve
      const giveUp = () => reject(new Error(`Latchkey: ${options.route} did not respond`))
      const onClose = () => {
        if (this.#state === 'passing') this.#complete()
        else if (this.#state !== 'ended') this.#timer = setTimeout(giveUp, options.hungUpMsMax)
      }
      if (response.destroyed) onClose()
      else response.once('close', onClose)
    })
    // Prevents an unhandled rejection if nothing awaits the captured response.
    this.captured.catch(() => undefined)
    response.write = (...args) => this.#write(args)
    response.end = (...args) => this.#end(args)
    response.writeHead = (status, ...args) => this.#writeHead(status, args)
    response.flushHeaders = () => this.#flushHeaders()
    // Reports the headers as sent, so that an error handler does not respond a second time.
    const headersSent = { configurable: true, get: () => this.#state !== 'open' }
    Object.defineProperty(response, 'headersSent', headersSent)
  }

  /** Sends the buffered writes, and lets later ones pass. */
  release(): void {
    if (this.#state === 'passing') return
    const hasEnded = this.#state === 'ended'
    this.#pass()
    if (hasEnded)
      call(this.#original.end, this.#response, this.#parts.length > 0 ? [concatBytes(this.#parts)] : [])
    else for (const part of this.#parts) call(this.#original.write, this.#response, [part])
    this.#parts = []
  }

  #pass(): void {
    this.#state = 'passing'
    Reflect.deleteProperty(this.#response, 'headersSent')
    if (this.#head) restoreHead(this.#response, this.#head)
  }

  #begin(): void {
    if (this.#state !== 'open') return
    const { statusCode: status, statusMessage: message } = this.#response
    const head = { status, message, headers: { ...this.#response.getHeaders() } }
    if (/^text\/event-stream\b/i.test(String(head.headers['content-type'] ?? '')))
      throw new TypeError(
        `Latchkey: ${this.#options.route} answers with an event stream, which cannot be replayed`,
      )
    this.#state = 'begun'
    this.#head = head
  }

  #add([chunk, encoding]: readonly unknown[]): void {
    const bytes = bytesOf(chunk, encoding)
    if (bytes === undefined) return
    this.#parts.push(bytes)
    this.#bytes += bytes.byteLength
    if (this.#bytes > this.#options.bytesMax) {
      this.#isKept = false
      this.release()
    }
  }

  #write(args: readonly unknown[]): boolean {
    if (this.#state === 'passing') return call(this.#original.write, this.#response, args) as boolean
    if (this.#state === 'ended') return false
    this.#begin()
    this.#add(args)
    const callback = callbackOf(args)
    if (callback) queueMicrotask(callback)
    return true
  }

  #end(args: readonly unknown[]): NodeResponse {
    if (this.#state === 'ended') return this.#response
    if (this.#state === 'passing') {
      call(this.#original.end, this.#response, args)
    } else {
      this.#begin()
      this.#add(args)
      this.#endHeld(args)
    }
    this.#complete()
    return this.#response
  }

  #endHeld(args: readonly unknown[]): void {
    const callback = callbackOf(args)
    if (callback) this.#response.once('finish', callback)
    // If the last chunk exceeded the maximum, all chunks have been written, and only the end is left.
    if (this.#state === 'passing') call(this.#original.end, this.#response, [])
    else this.#state = 'ended'
  }

  #writeHead(status: number, args: readonly unknown[]): NodeResponse {
    if (this.#state === 'passing') {
      call(this.#original.writeHead, this.#response, [status, ...args])
      return this.#response
    }
    if (this.#state !== 'open') return this.#response
    const message = args.find((each) => typeof each === 'string')
    this.#response.statusCode = status
    if (message !== undefined) this.#response.statusMessage = message
    for (const [name, value] of headerPairs(args.find((each) => typeof each === 'object' && each !== null)))
      this.#response.setHeader(name, value)
    this.#begin()
    return this.#response
  }

  #flushHeaders(): void {
    if (this.#state !== 'passing') {
      this.#begin()
      this.#isKept = false
      this.release()
    }
    call(this.#original.flushHeaders, this.#response, [])
  }

  #complete(): void {
    clearTimeout(this.#timer)
    const { status, headers } = this.#head ?? { status: this.#response.statusCode, headers: {} }
    const body = this.#isKept ? concatBytes(this.#parts) : undefined
    this.#resolve({ status, headers: keepHeaders(Object.entries(headers), this.#options.headersKept), body })
  }
}

/** Sends a response that was not made by the handler. */
export function sendCaptured(response: NodeResponse, { status, headers, body }: CapturedResponse): void {
  response.statusCode = status
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  call(response.end, response, hasNoBody(status) || body === undefined ? [] : [body])
}

/** Discards changes of the head after the response began, for example by an error handler. */
function restoreHead(response: NodeResponse, head: Head): void {
  response.statusCode = head.status
  response.statusMessage = head.message
  for (const name of Object.keys(response.getHeaders()))
    if (!(name in head.headers)) response.removeHeader(name)
  for (const [name, value] of Object.entries(head.headers))
    if (value !== undefined) response.setHeader(name, value)
}

function bytesOf(chunk: unknown, encoding: unknown): Uint8Array | undefined {
  if (chunk instanceof Uint8Array) return chunk
  if (typeof chunk !== 'string') return undefined
  return typeof encoding === 'string' ? Buffer.from(chunk, encoding) : encodeText(chunk)
}

/** Returns the headers of `writeHead`. An array alternates names and values, and can repeat a name, such as `Set-Cookie`. */
function headerPairs(headers: unknown): readonly (readonly [string, HeaderValue])[] {
  if (!Array.isArray(headers)) return Object.entries((headers ?? {}) as Record<string, HeaderValue>)
  const flat = headers.flat() as HeaderValue[]
  const values = new Map<string, HeaderValue>()
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const name = String(flat[at]).toLowerCase()
    const before = values.get(name)
    const value = flat[at + 1] as HeaderValue
    values.set(name, before === undefined ? value : [before, value].flat().map(String))
  }
  return [...values]
}

function callbackOf(args: readonly unknown[]): (() => void) | undefined {
  return args.find((each) => typeof each === 'function') as (() => void) | undefined
}

function call(method: (...args: never[]) => unknown, self: NodeResponse, args: readonly unknown[]): unknown {
  return Reflect.apply(method, self, args)
}
