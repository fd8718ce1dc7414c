import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'
import type { Credentials } from './endpoint.ts'
import { errorCode, type KubeFailure, unavailable } from './failure.ts'
import type { KubeStream } from './request.ts'

export interface WatchSessionOptions {
  /** `https://host:port` */
  readonly origin: string
  readonly credentials: Credentials
  /** Interval of PINGs. The session ends after two PINGs without a response. */
  readonly pingMs: number
  readonly onClosed: (session: WatchSession) => void
}

const connectMsMax = 10_000
/** Number of streams kept free on each connection, because the server counts a reset stream until it has received the reset. */
const streamsSpare = 4
const pingsUnansweredMax = 2
const closedCodes: ReadonlySet<string> = new Set(['ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_INVALID_SESSION'])

type WatchConnection = { readonly kind: 'ok'; readonly session: WatchSession } | KubeFailure

/** Verifies the server against the endpoint's CA and waits for the server's stream limit. Never rejects. */
export function connectWatchSession(options: WatchSessionOptions): Promise<WatchConnection> {
  const { promise, resolve } = Promise.withResolvers<WatchConnection>()
  let made: ClientHttp2Session
  try {
    made = connect(options.origin, tlsOf(options.credentials))
  } catch (error) {
    return Promise.resolve(unavailable(errorCode(error) ?? 'the credentials cannot be used for TLS'))
  }
  const fail = (failure: KubeFailure) => {
    resolve(failure)
    made.destroy()
  }
  const timer = setTimeout(
    () => fail(unavailable(`no HTTP/2 connection within ${connectMsMax} ms`)),
    connectMsMax,
  )
  made.on('error', (error) => {
    const code = errorCode(error)
    // Bun uses this code for several errors, including a server that negotiated HTTP/1.1.
    const hint = code === 'ERR_HTTP2_ERROR' ? ': watches need an API server with HTTP/2' : ''
    fail(unavailable(`${code ?? error.name}${hint}`, code))
  })
  made.once('close', () => fail(unavailable('the connection was closed before it could be used')))
  made.once('remoteSettings', ({ maxConcurrentStreams = Number.POSITIVE_INFINITY }) => {
    if (made.destroyed) return
    if (maxConcurrentStreams < 1) return fail(unavailable('the API server allows no streams on a connection'))
    resolve({ kind: 'ok', session: new WatchSession(made, options, maxConcurrentStreams) })
  })
  return promise.finally(() => clearTimeout(timer))
}

/** Streams share a connection only if CA, client certificate and server name are equal. */
export function tlsIdentityOf({ ca, cert, key, serverName }: Credentials): string {
  return JSON.stringify([ca, cert, key, serverName])
}

function tlsOf({ ca, cert, key, serverName }: Credentials): SecureClientSessionOptions {
  return {
    // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would change the default.
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(serverName !== undefined && { servername: serverName }),
  }
}

/** HTTP/2 connection. Ends with its last stream, on `destroy`, or after two unanswered PINGs. After a GOAWAY, open streams continue. */
export class WatchSession {
  readonly identity: string
  readonly #session: ClientHttp2Session
  readonly #streams = new Set<WatchStream>()
  readonly #pulse: ReturnType<typeof setInterval>
  #streamsMax: number
  #isDraining = false
  #pingsUnanswered = 0

  constructor(session: ClientHttp2Session, options: WatchSessionOptions, streamsMax: number) {
    this.#session = session
    this.identity = tlsIdentityOf(options.credentials)
    this.#streamsMax = usableOf(streamsMax)
    session.on('remoteSettings', ({ maxConcurrentStreams }) => {
      this.#streamsMax = usableOf(maxConcurrentStreams ?? Number.POSITIVE_INFINITY)
    })
    session.on('goaway', () => {
      this.#isDraining = true
      if (this.#streams.size === 0) this.destroy()
    })
    this.#pulse = setInterval(() => this.#ping(), options.pingMs)
    this.#pulse.unref()
    session.once('close', () => {
      clearInterval(this.#pulse)
      // Iterates over a copy, because each stream removes itself from the set.
      for (const stream of Array.from(this.#streams)) stream.break()
      options.onClosed(this)
    })
  }

  get streams(): number {
    return this.#streams.size
  }

  isDraining(): boolean {
    return this.#isDraining || this.#session.closed || this.#session.destroyed
  }

  hasRoom(): boolean {
    return !this.isDraining() && this.#streams.size < this.#streamsMax
  }

  /** Opens a stream. Returns undefined if none is free. Calls `onFinished` once. @throws when the headers cannot be sent */
  begin(headers: OutgoingHttpHeaders, onFinished: () => void): WatchStream | undefined {
    if (!this.hasRoom()) return undefined
    try {
      const stream = new WatchStream(this.#session.request(headers, { endStream: true }), () => {
        this.#streams.delete(stream)
        if (this.#streams.size === 0) this.destroy()
        onFinished()
      })
      this.#streams.add(stream)
      return stream
    } catch (error) {
      // Not an error if the session is ending: the server has sent a GOAWAY, but the event `goaway` has not been emitted yet.
      if (!this.isDraining() && !closedCodes.has(errorCode(error) ?? '')) throw error
      this.#isDraining = true
      if (this.#streams.size === 0) this.destroy()
      return undefined
    }
  }

  /** Idempotent. */
  destroy(): void {
    this.#session.destroy()
  }

  /** Destroys the session after two PINGs without a response. */
  #ping(): void {
    // No stream is open, because the only watch of the session was aborted before its stream was opened.
    if (this.#streams.size === 0) return this.destroy()
    if (this.#pingsUnanswered >= pingsUnansweredMax) return this.destroy()
    this.#pingsUnanswered += 1
    try {
      this.#session.ping((error) => {
        if (error === null) this.#pingsUnanswered = 0
      })
    } catch {
      this.destroy()
    }
  }
}

function usableOf(streamsMax: number): number {
  return streamsMax > streamsSpare ? streamsMax - streamsSpare : streamsMax
}

/** Unread bytes above which the stream is paused (back-pressure). */
const unreadBytesMax = 1024 * 1024
const closeMsMax = 1_000

export class WatchStream implements KubeStream {
  readonly #stream: ClientHttp2Stream
  readonly #onFinished: () => void
  readonly #head = Promise.withResolvers<ResponseHead>()
  readonly #finished = Promise.withResolvers<void>()
  #chunks: Uint8Array[] = []
  #unreadBytes = 0
  #state: 'open' | 'complete' | 'broken' = 'open'
  #hasEnded = false
  #isClosedByUs = false
  #wakeReader: (() => void) | undefined

  constructor(stream: ClientHttp2Stream, onFinished: () => void) {
    this.#stream = stream
    this.#onFinished = onFinished
    // Prevents an unhandled rejection: no caller awaits the head after `close`.
    this.#head.promise.catch(() => undefined)
    stream.on('response', (headers) => this.#head.resolve(headOf(headers)))
    stream.on('data', (chunk: Uint8Array) => this.#take(chunk))
    stream.on('end', () => {
      this.#hasEnded = true
    })
    // The event 'close' follows and ends the stream.
    stream.on('error', () => undefined)
    stream.on('close', () => this.#finish())
  }

  /** @throws when the stream ends without a response */
  head(): Promise<ResponseHead> {
    return this.#head.promise
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) return this.#give(chunk)
      if (this.#state === 'complete') return undefined
      if (this.#state === 'broken') throw new Error('the watch stream broke')
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve
      })
    }
  }

  async close(): Promise<void> {
    this.#isClosedByUs = true
    this.#chunks = []
    if (this.#state === 'open') this.#stream.close(constants.NGHTTP2_CANCEL)
    const late = setTimeout(() => this.#finish(), closeMsMax)
    await this.#finished.promise
    clearTimeout(late)
  }

  break(): void {
    this.#finish()
  }

  #take(chunk: Uint8Array): void {
    if (this.#isClosedByUs) return
    this.#chunks.push(chunk)
    this.#unreadBytes += chunk.length
    if (this.#unreadBytes > unreadBytesMax) this.#stream.pause()
    this.#wakeReader?.()
  }

  #give(chunk: Uint8Array): Uint8Array {
    this.#unreadBytes -= chunk.length
    if (this.#unreadBytes <= unreadBytesMax && this.#stream.isPaused()) this.#stream.resume()
    return chunk
  }

  /** A stream that the server ended is complete only without RST_STREAM, since a killed server also causes `end`. */
  #finish(): void {
    if (this.#state !== 'open') return
    const isComplete = this.#isClosedByUs || (this.#hasEnded && this.#stream.rstCode === 0)
    this.#state = isComplete ? 'complete' : 'broken'
    this.#head.reject(new Error('the watch stream ended without a response'))
    this.#wakeReader?.()
    this.#finished.resolve()
    this.#onFinished()
  }
}

interface ResponseHead {
  readonly status: number
  readonly retryAfter: string | null
}

function headOf(headers: IncomingHttpHeaders): ResponseHead {
  return {
    status: Number(headers[constants.HTTP2_HEADER_STATUS]),
    retryAfter: headers['retry-after'] ?? null,
  }
}
