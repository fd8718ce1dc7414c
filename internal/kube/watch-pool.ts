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
import { Slots, untilAborted, whyAborted } from './waits.ts'
import { connectWatchSession, tlsIdentityOf, type WatchSession, WatchStream } from './watch-session.ts'

/**
 * Default limits of the watches of one process. An API server allows 100 streams per connection by default
 * (`--http2-max-streams-per-connection`), of which 96 are used. 32 connections are enough for 3 000 watches; eight more can replace draining
 * connections.
 */
export const watchBounds = {
  watchesMax: 3_000,
  /** Maximum number of connections, including those that drain after a GOAWAY. */
  connectionsMax: 40,
  /** Maximum number of concurrent attempts to open a watch. An API server refuses a thousand of them with 429. */
  opensMax: 64,
  /** Interval of PINGs. A connection ends after two PINGs without a response. */
  pingMs: 5_000,
}

export interface WatchPoolOptions {
  readonly endpoint: Endpoint
  readonly userAgent: string
  readonly bounds: typeof watchBounds
}

const errorBytesMax = 64 * 1024

/** Shares HTTP/2 connections among watches. Opens another connection when all are full, and closes a connection with its last watch. */
export class WatchPool {
  readonly #options: WatchPoolOptions
  readonly #origin: string
  readonly #pathPrefix: string
  readonly #opens: Slots
  readonly #sessions = new Set<WatchSession>()
  /** TLS identity of the newest connection. Connections with another identity get no new stream. */
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

  stats(): { readonly watches: number; readonly connections: number } {
    return { watches: this.#watches, connections: this.#sessions.size }
  }

  /** The signal limits only the wait for the response's head. Returns `exhausted` at a limit of the pool. Never rejects. */
  async open(request: WatchRequest, signal: AbortSignal): Promise<KubeResult<KubeStream>> {
    const { watchesMax } = this.#options.bounds
    if (this.#watches >= watchesMax)
      return exhausted(`${watchesMax} watches are open, the maximum of one process`)
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

  /** The stream counts as a watch until it ends. @throws when the stream cannot be opened */
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
    // The loop ends when the signal fires; each iteration waits for a connection attempt, which has a timeout.
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

  /** Concurrent callers share one attempt. Returns its failure, if any. */
  #connect(credentials: Credentials): Promise<KubeFailure | undefined> {
    this.#connecting ??= this.#connectOne(credentials).finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #connectOne(credentials: Credentials): Promise<KubeFailure | undefined> {
    const { connectionsMax, pingMs } = this.#options.bounds
    if (this.#sessions.size >= connectionsMax && !this.#endOneWithoutUse())
      return exhausted(
        `${connectionsMax} connections for watches are open and full, the maximum of one process`,
      )
    const onClosed = (session: WatchSession) => void this.#sessions.delete(session)
    const connected = await connectWatchSession({ origin: this.#origin, credentials, pingMs, onClosed })
    if (connected.kind !== 'ok') return connected
    this.#sessions.add(connected.session)
    return undefined
  }

  /** Closes one draining connection, or one with an earlier TLS identity: the one with the fewest watches. Returns false without one. */
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
  // Uses only the error's code, because its message can quote the request.
  const code = errorCode(error)
  return unavailable(code ?? 'the connection broke before a response', code)
}
