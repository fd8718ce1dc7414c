import type { OutgoingHttpHeaders } from 'node:http2'
import type { Credentials, Endpoint } from './endpoint.ts'
import {
  errorCode,
  exhausted,
  type KubeFailure,
  type KubeResult,
  readFailure,
  unavailable,
} from './failure.ts'
import { type KubeStream, queryOf, readBounded, type WatchRequest } from './request.ts'
import { Slots } from './slots.ts'
import { untilAborted, whyAborted } from './until-aborted.ts'
import { connectWatchSession, tlsIdentityOf, type WatchSession, WatchStream } from './watch-session.ts'

/** Bounds of the watches of one process. */
export interface WatchBounds {
  readonly watchesMax: number
  /** Connections for watches, those included that drain after a GOAWAY. */
  readonly connectionsMax: number
  /** Watches that are being opened at a time: an API server answers 429 to a thousand at once. */
  readonly opensMax: number
  /** Time between two PING frames on a connection; two unanswered ones end it. */
  readonly pingMs: number
}

/**
 * Defaults. An API server allows 100 streams a connection unless it is told otherwise (`--http2-max-streams-per-connection`), of
 * which 96 are used: 3 000 watches take 32 connections, and eight are left for those that drain.
 */
export const watchBounds: WatchBounds = {
  watchesMax: 3_000,
  connectionsMax: 40,
  opensMax: 64,
  pingMs: 5_000,
}

/** Watches and connections at a moment. */
export interface WatchStats {
  readonly watches: number
  readonly connections: number
}

/** What a pool is made with. */
export interface WatchPoolOptions {
  readonly endpoint: Endpoint
  readonly userAgent: string
  readonly bounds: WatchBounds
}

const errorBytesMax = 64 * 1024

/**
 * Carries many watches over few HTTP/2 connections. A connection is opened when all others are full, one at a time, and ends with
 * its last watch, so that an unused pool holds nothing.
 */
export class WatchPool {
  readonly #options: WatchPoolOptions
  readonly #origin: string
  /** Before each path, where the API server is behind one. */
  readonly #pathPrefix: string
  readonly #opens: Slots
  readonly #sessions = new Set<WatchSession>()
  /** Identity of the latest credentials; connections of earlier ones take no new stream. */
  #newestIdentity: string | undefined
  #watches = 0
  #connecting: Promise<KubeFailure | undefined> | undefined

  constructor(options: WatchPoolOptions) {
    const { origin, pathname } = new URL(options.endpoint.server)
    this.#options = options
    this.#origin = origin
    this.#pathPrefix = pathname.replace(/\/+$/, '')
    this.#opens = new Slots(options.bounds.opensMax, options.bounds.watchesMax)
  }

  stats(): WatchStats {
    return { watches: this.#watches, connections: this.#sessions.size }
  }

  /** Opens a stream for a GET; the signal bounds the wait for its head only. Never rejects; `exhausted` at a bound of the pool. */
  async open(request: WatchRequest, signal: AbortSignal): Promise<KubeResult<KubeStream>> {
    const { watchesMax } = this.#options.bounds
    if (this.#watches >= watchesMax)
      return exhausted(`${watchesMax} watches are open, the most of one process`)
    this.#watches += 1
    const release = await this.#opens.take(signal)
    try {
      if (release === undefined) throw new Error('aborted')
      const begun = await this.#begin(request, signal)
      if (begun instanceof WatchStream) return await answerOf(begun, request.secret === true, signal)
      this.#watches -= 1
      return begun
    } catch (error) {
      this.#watches -= 1
      return failureOf(error, signal)
    } finally {
      release?.()
    }
  }

  /** The stream counts as a watch until it has finished. @throws before it has begun */
  async #begin(request: WatchRequest, signal: AbortSignal): Promise<WatchStream | KubeFailure> {
    const { endpoint, userAgent } = this.#options
    const credentials = await untilAborted(endpoint.credentials(), signal)
    const headers: OutgoingHttpHeaders = {
      ...credentials.headers,
      ':method': 'GET',
      ':path': `${this.#pathPrefix}${request.path}${queryOf(request.query)}`,
      accept: 'application/json',
      'user-agent': userAgent,
    }
    const identity = tlsIdentityOf(credentials)
    this.#newestIdentity = identity
    // Ends with the signal: each turn waits for a connection, which settles within its own bound.
    for (;;) {
      const stream = this.#sessionWithRoom(identity)?.begin(headers, () => {
        this.#watches -= 1
      })
      if (stream !== undefined) return stream
      const failure = await untilAborted(this.#connect(credentials), signal)
      if (failure !== undefined) return failure
    }
  }

  #sessionWithRoom(identity: string): WatchSession | undefined {
    for (const session of this.#sessions)
      if (session.identity === identity && session.hasRoom()) return session
    return undefined
  }

  /** All that want a connection wait for the same one. Gives why there is none. */
  #connect(credentials: Credentials): Promise<KubeFailure | undefined> {
    this.#connecting ??= this.#connectOne(credentials).finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #connectOne(credentials: Credentials): Promise<KubeFailure | undefined> {
    const { connectionsMax, pingMs } = this.#options.bounds
    if (this.#sessions.size >= connectionsMax && !this.#endOneWithoutUse())
      return exhausted(`${connectionsMax} connections for watches are open and full, the most of one process`)
    const onClosed = (session: WatchSession) => void this.#sessions.delete(session)
    const connected = await connectWatchSession({ origin: this.#origin, credentials, pingMs, onClosed })
    if (connected.kind !== 'ok') return connected
    this.#sessions.add(connected.session)
    return undefined
  }

  /**
   * Makes room by ending the connection with the fewest watches among those that take no new ones: draining, or of an earlier TLS
   * identity. Its watches begin anew. False where there is none.
   */
  #endOneWithoutUse(): boolean {
    const unused = [...this.#sessions].filter(
      (session) => session.isDraining() || session.identity !== this.#newestIdentity,
    )
    const [least] = unused.toSorted((one, other) => one.streams - other.streams)
    if (least === undefined) return false
    this.#sessions.delete(least)
    least.destroy()
    return true
  }
}

async function answerOf(
  stream: WatchStream,
  secret: boolean,
  signal: AbortSignal,
): Promise<KubeResult<KubeStream>> {
  try {
    const { status, retryAfter } = await untilAborted(stream.head(), signal)
    if (status >= 200 && status < 300) return { kind: 'ok', value: stream }
    const body = (await untilAborted(readBounded(stream, errorBytesMax), signal)) ?? ''
    await stream.close()
    return readFailure({ status, body, retryAfter, secret })
  } catch (error) {
    await stream.close()
    return failureOf(error, signal)
  }
}

function failureOf(error: unknown, signal: AbortSignal): KubeFailure {
  if (signal.aborted) return unavailable(whyAborted(signal))
  // A message may quote more than an address; a code is from a closed set.
  const code = errorCode(error)
  return unavailable(code ?? 'the connection broke before an answer', code)
}
