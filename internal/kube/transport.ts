import { CallShares, type CallStats } from './call-shares.ts'
import type { Credentials, Endpoint } from './endpoint.ts'
import { errorCode, exhausted, type KubeResult, readFailure, unavailable } from './failure.ts'
import { type KubeRequest, type KubeStream, queryOf, readBounded, type WatchRequest } from './request.ts'
import { boundedSignal, untilAborted, whyAborted } from './until-aborted.ts'
import { type WatchBounds, WatchPool, type WatchStats, watchBounds } from './watch-pool.ts'

/** Calls and watches of a transport at a moment. */
export interface TransportStats extends WatchStats {
  readonly calls: CallStats
}

/** Requests to one API server. Nothing here throws for what a server or a network may do. */
export interface Transport {
  /** Sends one request and gives the JSON of its answer. Tries once: whoever calls knows whether a repetition is safe. */
  request(request: KubeRequest): Promise<KubeResult<unknown>>
  /**
   * Opens an endless answer to a GET; `msMax` bounds the wait for its head, nothing bounds the stream: the reader must. `exhausted`
   * when this process has as many open as it may.
   */
  open(request: WatchRequest): Promise<KubeResult<KubeStream>>
  stats(): TransportStats
}

/** What a transport is made with. */
export interface TransportOptions {
  readonly endpoint: Endpoint
  /** Names us in the server's audit log, such as `latchkey-operator/1.0.0`. */
  readonly userAgent: string
  /** Called for each answer; `code` is the HTTP status, or `<error>` without one. */
  readonly onAnswer?: (method: string, code: string) => void
  /** Replaced in tests only. */
  readonly watchBounds?: Partial<WatchBounds>
}

const msMaxDefault = 30_000
const bytesMaxDefault = 64 * 1024 * 1024
const errorBytesMax = 64 * 1024
/** How long a list waits for its turn: at a start there is one for each watch. */
const listWaitMsMax = 60_000
/** Streams over plain http, where HTTP/2 is not to be had: `kubectl proxy` on this machine. Each takes a call of fetch. */
const plainStreamsMax = 32

/**
 * Makes a transport: calls go by fetch, each in its share of what may be in flight; streams use HTTP/2
 * connections and do not count against `BUN_CONFIG_MAX_HTTP_REQUESTS`. It holds no connection without a stream, and needs no closing.
 */
export function createTransport(options: TransportOptions): Transport {
  const shares = new CallShares()
  const bounds = { ...watchBounds, ...options.watchBounds }
  const pool = new WatchPool({ endpoint: options.endpoint, userAgent: options.userAgent, bounds })
  const isPlain = options.endpoint.server.startsWith('http:')
  let plainStreams = 0
  const openPlain = async (request: WatchRequest): Promise<KubeResult<KubeStream>> => {
    if (plainStreams >= plainStreamsMax)
      return exhausted(`${plainStreamsMax} watches are open, the most over plain http`)
    plainStreams += 1
    const finish = () => {
      plainStreams -= 1
    }
    const opened = await exchange(options, { ...request, method: 'GET' }, async (stream) => ({
      kind: 'ok',
      value: finishing(stream, finish),
    }))
    if (opened.kind !== 'ok') finish()
    return opened
  }
  const openPooled = async (request: WatchRequest): Promise<KubeResult<KubeStream>> => {
    const { signal, done } = boundedSignal(request.signal, request.msMax ?? msMaxDefault)
    const opened = await pool.open(request, signal)
    done()
    options.onAnswer?.('GET', opened.kind === 'ok' ? '200' : codeOf(opened.status))
    return opened
  }
  return {
    async request(request) {
      const { share = 'call', msMax = msMaxDefault, bytesMax = bytesMaxDefault } = request
      const beganMs = performance.now()
      const release = await shares.take(share, share === 'list' ? listWaitMsMax : msMax, request.signal)
      if (release === undefined) {
        options.onAnswer?.(request.method, codeOf(0))
        return unavailable(
          request.signal?.aborted ? 'aborted by the caller' : 'no call slot became free in time',
        )
      }
      const waitedMs = share === 'list' ? 0 : performance.now() - beganMs
      const bounded = { ...request, msMax: Math.max(1, msMax - waitedMs) }
      return await exchange(options, bounded, (stream) => readJson(stream, bytesMax)).finally(release)
    },
    open: isPlain ? openPlain : openPooled,
    stats: () => {
      const { watches, connections } = pool.stats()
      return {
        watches: watches + plainStreams,
        connections: connections + plainStreams,
        calls: shares.stats(),
      }
    },
  }
}

/** Has `finish` called once, when the stream is closed; its reader closes it in any case. */
function finishing(stream: KubeStream, finish: () => void): KubeStream {
  let isClosed = false
  return {
    read: () => stream.read(),
    close: async () => {
      if (!isClosed) finish()
      isClosed = true
      await stream.close()
    },
  }
}

function codeOf(status: number): string {
  return status === 0 ? '<error>' : String(status)
}

/** Sends one request by fetch and has its answer read. */
async function exchange<T>(
  options: TransportOptions,
  request: KubeRequest,
  read: (stream: KubeStream) => Promise<KubeResult<T>>,
): Promise<KubeResult<T>> {
  const msMax = request.msMax ?? msMaxDefault
  const { signal, stop, done } = boundedSignal(request.signal, msMax)
  let status = 0
  try {
    const credentials = await untilAborted(options.endpoint.credentials(), signal)
    const url = `${options.endpoint.server}${request.path}${queryOf(request.query)}`
    const response = await fetch(
      url,
      fetchOptions(request, { credentials, signal, userAgent: options.userAgent }),
    )
    status = response.status
    const stream = toStream(response, stop)
    if (response.ok) return await read(stream)
    const body = (await readBounded(stream, errorBytesMax)) ?? ''
    const retryAfter = response.headers.get('retry-after')
    return readFailure({ status, body, retryAfter, secret: request.secret === true })
  } catch (error) {
    if (signal.aborted) return unavailable(whyAborted(signal))
    // A message may quote more than an address; a code is from a closed set.
    const failed = errorCode(error)
    return unavailable(failed ?? (error instanceof Error ? error.name : 'unknown error'), failed)
  } finally {
    done()
    options.onAnswer?.(request.method, codeOf(status))
  }
}

interface Sending {
  readonly credentials: Credentials
  readonly signal: AbortSignal
  readonly userAgent: string
}

function fetchOptions(request: KubeRequest, sending: Sending): BunFetchRequestInit {
  const { credentials, signal, userAgent } = sending
  const { ca, cert, key, serverName } = credentials
  const hasBody = request.body !== undefined
  const options = {
    method: request.method,
    headers: {
      ...credentials.headers,
      accept: 'application/json',
      'user-agent': userAgent,
      ...(hasBody && { 'content-type': request.contentType ?? 'application/json' }),
    },
    ...(hasBody && { body: JSON.stringify(request.body) }),
    // A redirect would carry the token to wherever it points.
    redirect: 'manual',
    signal,
    // Bun would end a quiet stream after 300 s; our own bounds stand instead.
    timeout: false,
    // The proxy variables of the environment are for other traffic. Not in Bun's types; seen in Bun 1.4.5.
    proxy: false,
    tls: {
      // Stated, since NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch it off.
      rejectUnauthorized: true,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      ...(serverName !== undefined && { serverName }),
    },
  }
  return options as unknown as BunFetchRequestInit
}

async function readJson(stream: KubeStream, bytesMax: number): Promise<KubeResult<unknown>> {
  const text = await readBounded(stream, bytesMax)
  if (text === undefined) return unavailable(`the answer is longer than ${bytesMax} bytes`)
  try {
    return { kind: 'ok', value: JSON.parse(text) as unknown }
  } catch {
    return unavailable('the answer is no JSON')
  }
}

function toStream(response: Response, stop: () => void): KubeStream {
  const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader()
  return {
    read: async () => (await reader?.read())?.value,
    async close() {
      // Both: cancelling frees the reader that waits, aborting frees the connection of a server that is hung.
      const cancelled = reader?.cancel().catch(() => undefined)
      stop()
      await cancelled
    },
  }
}
