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

/** Options of a watch connection. */
export interface WatchSessionOptions {
  /** `https://host:port`. */
  readonly origin: string
  readonly credentials: Credentials
  /** Time between two PING frames; two unanswered ones end the session. */
  readonly pingMs: number
  /** Called once when the session has ended, however it did. */
  readonly onClosed: (session: WatchSession) => void
}

/** Result of connecting. */
export type Connected = { readonly kind: 'ok'; readonly session: WatchSession } | KubeFailure

const connectMsMax = 10_000
/** Kept free below the server's limit: a stream that we reset counts there until the frame has arrived. */
const streamsSpare = 4
const pingsUnansweredMax = 2
const closedCodes: ReadonlySet<string> = new Set(['ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_INVALID_SESSION'])

/**
 * Opens an HTTP/2 connection, verified against the endpoint's CA, and waits until the server has said how many streams it allows.
 * Never rejects.
 */
export function connectWatchSession(options: WatchSessionOptions): Promise<Connected> {
  const { promise, resolve } = Promise.withResolvers<Connected>()
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
    // Also what Bun says of a server that chose HTTP/1.1.
    const hint = code === 'ERR_HTTP2_ERROR' ? ': the API server has to offer HTTP/2, which watches need' : ''
    fail(unavailable(`${code ?? error.name}${hint}`, code))
  })
  made.once('close', () => fail(unavailable('the connection was closed before it could be used')))
  made.once('remoteSettings', ({ maxConcurrentStreams = Number.POSITIVE_INFINITY }) => {
    if (made.destroyed) return
    if (maxConcurrentStreams < 1) return fail(unavailable('the API server allows no stream on a connection'))
    resolve({ kind: 'ok', session: new WatchSession(made, options, maxConcurrentStreams) })
  })
  return promise.finally(() => clearTimeout(timer))
}

/** Identity of a TLS connection. Streams share a connection only when CA, client certificate and server name are equal. */
export function tlsIdentityOf({ ca, cert, key, serverName }: Credentials): string {
  return JSON.stringify([ca, cert, key, serverName])
}

function tlsOf({ ca, cert, key, serverName }: Credentials): SecureClientSessionOptions {
  return {
    // Stated, since NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch it off.
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(serverName !== undefined && { servername: serverName }),
  }
}

/**
 * One HTTP/2 connection and its streams. It ends with its last stream, when the server leaves two PINGs unanswered, or when it is
 * destroyed; after a GOAWAY its streams go on, and it takes no others.
 */
export class WatchSession {
  /** See `tlsIdentityOf`. */
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
      // Copied, since each takes itself out.
      for (const stream of [...this.#streams]) stream.break()
      options.onClosed(this)
    })
  }

  /** Streams that are open. */
  get streams(): number {
    return this.#streams.size
  }

  /** Whether it takes no more streams, now and later. */
  isDraining(): boolean {
    return this.#isDraining || this.#session.closed || this.#session.destroyed
  }

  /** Whether another stream may be opened. */
  hasRoom(): boolean {
    return !this.isDraining() && this.#streams.size < this.#streamsMax
  }

  /**
   * Opens a stream. Undefined when the session takes no more. `onFinished` is called once, at its end.
   * @throws when the headers cannot be sent
   */
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
      // A GOAWAY that the library knows of before its event has reached us.
      if (!this.isDraining() && !closedCodes.has(errorCode(error) ?? '')) throw error
      this.#isDraining = true
      if (this.#streams.size === 0) this.destroy()
      return undefined
    }
  }

  /** Ends it and all of its streams at once. Repeating it is harmless. */
  destroy(): void {
    this.#session.destroy()
  }

  /** Sends a PING. Destroys the session after two unanswered ones. */
  #ping(): void {
    // Idle: the watch that it was opened for was aborted.
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

/** The head of an answer. */
export interface WatchHead {
  readonly status: number
  readonly retryAfter: string | null
}

/** Bytes that a reader may leave unread before the server is told to pause. */
const unreadBytesMax = 1024 * 1024
const closeMsMax = 1_000

/** One stream of a session. */
export class WatchStream implements KubeStream {
  readonly #stream: ClientHttp2Stream
  readonly #onFinished: () => void
  readonly #head = Promise.withResolvers<WatchHead>()
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
    // A stream that breaks before its head has no reader of the head any more when we closed it.
    this.#head.promise.catch(() => undefined)
    stream.on('response', (headers) => this.#head.resolve(headOf(headers)))
    stream.on('data', (chunk: Uint8Array) => this.#take(chunk))
    stream.on('end', () => {
      this.#hasEnded = true
    })
    // Its 'close' follows and says the same.
    stream.on('error', () => undefined)
    stream.on('close', () => this.#finish())
  }

  /** The status of the answer. @throws when the stream ends without one */
  head(): Promise<WatchHead> {
    return this.#head.promise
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) return this.#give(chunk)
      if (this.#state === 'complete') return undefined
      if (this.#state === 'broken') throw new Error('the stream broke')
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

  /** The session has ended under it. */
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

  /** Complete only if the server ended the stream without RST_STREAM; a killed server also emits `end`. */
  #finish(): void {
    if (this.#state !== 'open') return
    const isComplete = this.#isClosedByUs || (this.#hasEnded && this.#stream.rstCode === 0)
    this.#state = isComplete ? 'complete' : 'broken'
    this.#head.reject(new Error('the stream ended without an answer'))
    this.#wakeReader?.()
    this.#finished.resolve()
    this.#onFinished()
  }
}

function headOf(headers: IncomingHttpHeaders): WatchHead {
  return {
    status: Number(headers[constants.HTTP2_HEADER_STATUS]),
    retryAfter: headers['retry-after'] ?? null,
  }
}
