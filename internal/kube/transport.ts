import type { Credentials, Endpoint } from './endpoint.ts'
import { errorCode, exhausted, type KubeResult, readFailure, unavailable } from './failure.ts'
import {
  type CallShare,
  type KubeRequest,
  type KubeStream,
  queryOf,
  readBounded,
  type WatchRequest,
} from './request.ts'
import { boundedSignal, Slots, untilAborted, whyAborted } from './waits.ts'
import { WatchPool, watchBounds } from './watch-pool.ts'

export const callsMax: Readonly<Record<CallShare, number>> = { lease: 4, list: 32, call: 28 }

/** Sends requests to one API server. Returns failures of the server and the network as values and does not throw them. */
export interface Transport {
  /** Does not retry, because only the caller knows whether that is safe. */
  request(request: KubeRequest): Promise<KubeResult<unknown>>
  /** `msMax` limits only the wait for the response's head. Returns `exhausted` at this process's maximum of open watches. */
  open(request: WatchRequest): Promise<KubeResult<KubeStream>>
  stats(): ReturnType<WatchPool['stats']> & {
    readonly calls: Readonly<Record<CallShare, { readonly underWay: number; readonly waiting: number }>>
  }
}

/** Options of a transport. */
export interface TransportOptions {
  readonly endpoint: Endpoint
  /** For the server's audit log, such as `latchkey-operator/1.0.0`. */
  readonly userAgent: string
  /** `code` is the HTTP status, or `<error>` if there was no response. */
  readonly onAnswer?: (method: string, code: string) => void
  readonly watchBounds?: Partial<typeof watchBounds>
}

const msMaxDefault = 30_000
const bytesMaxDefault = 64 * 1024 * 1024
const errorBytesMax = 64 * 1024
/** Maximum wait of a list for a slot: long, because every watch lists once when the process starts. */
const listWaitMsMax = 60_000
/** Maximum number of waiting calls per pool: more than two for each of at most 3 000 watches. */
const waitersMax = 8_192
/** Maximum number of streams over plain http (`kubectl proxy`), which has no HTTP/2. Each counts towards `BUN_CONFIG_MAX_HTTP_REQUESTS`. */
const plainStreamsMax = 32

/**
 * Creates a transport. Calls use fetch, with a maximum of concurrent calls per pool. Streams use HTTP/2 connections, which do not count
 * towards `BUN_CONFIG_MAX_HTTP_REQUESTS`. While no stream is open, it holds no connection, so callers need not close it.
 */
export function createTransport(options: TransportOptions): Transport {
  const slots: Readonly<Record<CallShare, Slots>> = {
    lease: new Slots(callsMax.lease, waitersMax),
    list: new Slots(callsMax.list, waitersMax),
    call: new Slots(callsMax.call, waitersMax),
  }
  const bounds = { ...watchBounds, ...options.watchBounds }
  const pool = new WatchPool({ endpoint: options.endpoint, userAgent: options.userAgent, bounds })
  const isPlain = options.endpoint.server.startsWith('http:')
  let plainStreams = 0
  const openPlain = async (request: WatchRequest): Promise<KubeResult<KubeStream>> => {
    if (plainStreams >= plainStreamsMax)
      return exhausted(`${plainStreamsMax} watches are open, the maximum over plain http`)
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
      const wait = boundedSignal(request.signal, share === 'list' ? listWaitMsMax : msMax)
      const release = await slots[share].take(wait.signal)
      wait.done()
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
        calls: { lease: statsOf(slots.lease), list: statsOf(slots.list), call: statsOf(slots.call) },
      }
    },
  }
}

function statsOf({ taken, waiting }: Slots) {
  return { underWay: taken, waiting }
}

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

/** `read` consumes a 2xx response. */
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
    // Uses only the error's code, because its message can quote the request.
    const failed = errorCode(error)
    return unavailable(failed ?? (error instanceof Error ? error.name : 'unknown error'), failed)
  } finally {
    done()
    options.onAnswer?.(request.method, codeOf(status))
  }
}

function fetchOptions(
  request: KubeRequest,
  sending: {
    readonly credentials: Credentials
    readonly signal: AbortSignal
    readonly userAgent: string
  },
): BunFetchRequestInit {
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
    // Following a redirect would send the token to another server.
    redirect: 'manual',
    signal,
    // Disables Bun's timeout of 300 s for idle streams; msMax and the reader's limits apply instead.
    timeout: false,
    // Ignores HTTPS_PROXY and similar variables. The option is missing in Bun's types, but works in Bun 1.4.5.
    proxy: false,
    tls: {
      // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would change the default.
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
  if (text === undefined) return unavailable(`the response is over ${bytesMax} bytes`)
  try {
    return { kind: 'ok', value: JSON.parse(text) as unknown }
  } catch {
    return unavailable('the response is not JSON')
  }
}

function toStream(response: Response, stop: () => void): KubeStream {
  const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader()
  return {
    read: async () => (await reader?.read())?.value,
    async close() {
      // Cancelling ends a pending read; aborting closes the connection to a server that hangs.
      const cancelled = reader?.cancel().catch(() => undefined)
      stop()
      await cancelled
    },
  }
}
