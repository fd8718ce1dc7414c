import type { Credentials, Endpoint } from './endpoint.ts'
import { type KubeResult, readFailure, unavailable } from './failure.ts'

/** One request to the API server. */
export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default `application/json`. A patch must say which patch it is: the server takes none for JSON Patch. */
  readonly contentType?: string
  /** The server's words about it may quote a Secret, and are left out of failures. */
  readonly secret?: boolean
  /** Bound of the whole exchange; default 30 s. */
  readonly msMax?: number
  /** Bound of the answer once unpacked; default 64 MiB. */
  readonly bytesMax?: number
  readonly signal?: AbortSignal | undefined
}

/** A stream of bytes that its reader ends. */
export interface KubeStream {
  /** The next bytes, undefined at the end. @throws when the connection breaks */
  read(): Promise<Uint8Array | undefined>
  /** Ends the stream and its connection. Repeating it is harmless; never rejects. */
  close(): Promise<void>
}

/** Requests to one API server. Nothing here throws for what a server or a network may do. */
export interface Transport {
  /** Sends one request and gives the JSON of its answer. Tries once: whoever calls knows whether a repetition is safe. */
  request(request: KubeRequest): Promise<KubeResult<unknown>>
  /** Opens an endless answer; `msMax` bounds the wait for its head, nothing bounds the stream: the reader must. */
  open(request: KubeRequest): Promise<KubeResult<KubeStream>>
}

/** What a transport is made with. */
export interface TransportOptions {
  readonly endpoint: Endpoint
  /** Names us in the server's audit log, such as `latchkey-operator/1.0.0`. */
  readonly userAgent: string
  /** Hears of each answer; `code` is the HTTP status, or `<error>` without one. */
  readonly onAnswer?: (method: string, code: string) => void
}

const msMaxDefault = 30_000
const bytesMaxDefault = 64 * 1024 * 1024
const errorBytesMax = 64 * 1024

/** Makes a transport over Bun's fetch. It holds no connection of its own and needs no closing. */
export function createTransport(options: TransportOptions): Transport {
  const send = async (request: KubeRequest, signal: AbortSignal): Promise<Response> => {
    const credentials = await untilAborted(options.endpoint.credentials(), signal)
    const url = `${options.endpoint.server}${request.path}${queryOf(request.query)}`
    return fetch(url, fetchOptions(request, { credentials, signal, userAgent: options.userAgent }))
  }
  const answer = async <T>(
    request: KubeRequest,
    read: (response: Response, ended: AbortController) => Promise<KubeResult<T>>,
  ): Promise<KubeResult<T>> => {
    const ended = new AbortController()
    const stop = () => ended.abort()
    const msMax = request.msMax ?? msMaxDefault
    const timer = setTimeout(stop, msMax)
    request.signal?.addEventListener('abort', stop, { once: true })
    let code = '<error>'
    try {
      if (request.signal?.aborted) ended.abort()
      const response = await send(request, ended.signal)
      code = String(response.status)
      if (response.ok) return await read(response, ended)
      const body = (await readBounded(response, errorBytesMax)) ?? ''
      const retryAfter = response.headers.get('retry-after')
      return readFailure({ status: response.status, body, retryAfter, secret: request.secret === true })
    } catch (error) {
      if (ended.signal.aborted) return unavailable(`no answer within ${msMax} ms, or nobody waits any more`)
      // A message may quote more than an address; a code is from a closed set.
      const failed = errorCode(error)
      return unavailable(failed ?? (error instanceof Error ? error.name : 'unknown error'), failed)
    } finally {
      clearTimeout(timer)
      request.signal?.removeEventListener('abort', stop)
      options.onAnswer?.(request.method, code)
    }
  }
  return {
    request: (request) =>
      answer(request, (response) => readJson(response, request.bytesMax ?? bytesMaxDefault)),
    open: (request) => answer(request, async (response, ended) => toStream(response, ended)),
  }
}

/** A plug-in that gives credentials may hang, and knows no signal. */
function untilAborted<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new Error('aborted'))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    pending.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
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

function queryOf(query: KubeRequest['query']): string {
  if (!query || Object.keys(query).length === 0) return ''
  return `?${new URLSearchParams(query).toString()}`
}

async function readJson(response: Response, bytesMax: number): Promise<KubeResult<unknown>> {
  const text = await readBounded(response, bytesMax)
  if (text === undefined) return unavailable(`the answer is longer than ${bytesMax} bytes`)
  try {
    return { kind: 'ok', value: JSON.parse(text) as unknown }
  } catch {
    return unavailable('the answer is no JSON')
  }
}

/** Gives the body as text, undefined when it is longer than `bytesMax`. */
async function readBounded(response: Response, bytesMax: number): Promise<string | undefined> {
  if (!response.body) return ''
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return Buffer.concat(chunks).toString('utf8')
    bytes += value.length
    if (bytes > bytesMax) {
      await reader.cancel().catch(() => undefined)
      return undefined
    }
    chunks.push(value)
  }
}

function toStream(response: Response, ended: AbortController): KubeResult<KubeStream> {
  if (!response.body) return unavailable('the answer has no body')
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const close = async () => {
    // Both: cancelling frees the reader that waits, aborting frees the connection of a server that is hung.
    const cancelled = reader.cancel().catch(() => undefined)
    ended.abort()
    await cancelled
  }
  const read = async () => (await reader.read()).value
  return { kind: 'ok', value: { read, close } }
}

function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}
