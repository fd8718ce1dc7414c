import type { CallbackUrl } from './callback-url.ts'
import {
  ConnectError,
  type Connection,
  type Connections,
  type ConnectionUser,
  type ConnectMarks,
  codeOf,
  type Endpoint,
} from './connections.ts'
import { AnswerReader, encodeRequest, type KeptHeaders, type RequestContent } from './http1.ts'

/**
 * Causes of a call without a complete response, each with an explanation for the tenant. After `connect_failed`, `connect_timeout` and
 * `tls_failed`, no byte of the request was sent. `timeout`: within the time limit, the response was not complete and fewer than 16 KiB of
 * its body had arrived.
 */
export const callFailures = {
  url_refused: 'The callback’s URL has a scheme, port or form that is not allowed.',
  dns_failed: 'The callback’s host name could not be resolved.',
  address_refused: 'The callback’s address is not allowed.',
  connect_failed: 'The callback did not accept the connection.',
  connect_timeout: 'The callback did not accept the connection in time.',
  tls_failed: 'The callback’s certificate is invalid, or the TLS handshake failed.',
  timeout: 'The callback did not respond in time.',
  reset: 'The connection ended before the response was complete.',
  protocol_error: 'The response was not HTTP/1.1, or its headers exceeded 16 KiB.',
  proxy_failed: 'The platform’s egress proxy could not be reached or refused to connect.',
  aborted: 'The platform aborted the call.',
}
/** Cause of a call without a complete response. The set is closed, so it can be a metric label. */
export type CallFailureCause = keyof typeof callFailures

/** Causes of failures before a connection was open, so that no byte of the request was sent. */
export const unsentCauses: ReadonlySet<string> = new Set<CallFailureCause>([
  ...(['url_refused', 'dns_failed', 'address_refused', 'connect_failed', 'connect_timeout'] as const),
  ...(['tls_failed', 'proxy_failed'] as const),
])

/** Response headers that delivery interprets, as received. */
export interface AnswerHeaders {
  /** Number of seconds, or an HTTP date. */
  readonly retryAfter?: string
  readonly webhookDelivery?: string
  readonly contentType?: string
}

/** Request content with its limits. */
export interface CallContent extends RequestContent {
  /** Maximum bytes of the response body that are read and returned; default 16 KiB. */
  readonly answerBytesMax?: number
  /** Time limit of the whole call, including name resolution. */
  readonly timeoutMs: number
  /** Aborts the call once its name is resolved. The result is then `aborted`. */
  readonly signal?: AbortSignal
}

/** Call whose addresses were validated. */
export interface ValidatedCall {
  readonly call: CallContent
  readonly url: CallbackUrl
  /** Validated addresses. The call can use any of them. */
  readonly addresses: readonly string[]
  /** Time at which `timeoutMs` begins, from `performance.now()`. */
  readonly startedAtMs: number
  /** Time at which the addresses were known, from `performance.now()`. */
  readonly resolvedAtMs: number
  /** Time limit for resolving, connecting and TLS together, over all addresses. It is part of `timeoutMs`. */
  readonly connectMs: number
}

/**
 * Address and duration of the steps of a call, for people. Durations are in milliseconds; a step that did not happen, or did not end, is
 * undefined.
 */
export interface CallTrace {
  /** Address of the connection, or of the last try to open one. Behind a proxy, the address that the proxy was given. */
  readonly address?: string | undefined
  /** Whether the request was sent on a connection that an earlier call had opened. */
  readonly isReused: boolean
  /** Resolving the name. Near 0 if the result was cached; undefined for a URL with an address. */
  readonly dnsMs?: number | undefined
  /**
   * Opening the TCP connection or the proxy tunnel, with the addresses that were tried before. After a stale connection: of the new one only.
   */
  readonly connectMs?: number | undefined
  readonly tlsMs?: number | undefined
  /** From sending the request to the first byte of the response. */
  readonly firstByteMs?: number | undefined
}

/** Result of an exchange to which the callback responded, with any status. A redirect is also a response and is never followed. */
export interface Answered {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: AnswerHeaders
  /** First `answerBytesMax` bytes of the response body. Invalid UTF-8 becomes U+FFFD. */
  readonly answer: string
  /** Whether the response body is longer than `answer`. */
  readonly isAnswerCut: boolean
  readonly receivedHeaders: KeptHeaders
  readonly trace: CallTrace
}

/** Result of an exchange. */
export type Exchanged = Answered | ExchangeFailed

/** Result of an exchange without a complete response. */
export interface ExchangeFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  /** Error code of the runtime. */
  readonly code?: string | undefined
  /** Status of an incomplete response. */
  readonly status?: number | undefined
  /**
   * True if a reused connection was reset before any byte of a response arrived. The server had most likely closed it before the request.
   */
  readonly stale: boolean
  readonly trace: CallTrace
}

const answerBytesMaxDefault = 16_384
const answerHeaderCharsMax = 256
const addressesTriedMax = 4
/** Minimum time for one address before the next address is tried. */
const addressMsMin = 1000
const unreached: ReadonlySet<CallFailureCause> = new Set(['connect_failed', 'connect_timeout'])

/**
 * Sends a request to the first address that accepts a connection, and tries at most four addresses. Ends within `timeoutMs`; never rejects.
 */
export async function exchange(connections: Connections, validated: ValidatedCall): Promise<Exchanged> {
  const { call, url, startedAtMs, resolvedAtMs } = validated
  const bytes = encodeRequest(call, url)
  // The request has an invalid header, which is a programming error in the calling code of Latchkey.
  if (bytes === undefined) return { kind: 'failed', cause: 'protocol_error', stale: false, trace: untraced }
  const addresses = validated.addresses.slice(0, addressesTriedMax)
  const untilMs = startedAtMs + Math.min(validated.connectMs, call.timeoutMs)
  let result: Exchanged = { kind: 'failed', cause: 'connect_timeout', stale: false, trace: untraced }
  for (const [index, address] of addresses.entries()) {
    const leftMs = untilMs - performance.now()
    if (leftMs <= 0) break
    const shareMs = Math.max(addressMsMin, leftMs / (addresses.length - index))
    const attempt = (isFresh: boolean, connectFromMs: number) => {
      const { answerBytesMax = answerBytesMaxDefault, timeoutMs, signal } = call
      return new Promise<Exchanged>((resolve) => {
        const request: ExchangeRequest = {
          endpoint: { address, port: url.port, tlsName: url.scheme === 'https' ? url.host : undefined },
          bytes,
          answerBytesMax,
          signal,
          isFresh,
          connectFromMs,
          connectTimeoutMs: Math.min(leftMs, shareMs),
          timeoutMs: timeoutMs - (performance.now() - startedAtMs),
        }
        new Exchange(connections, request, resolve).begin()
      })
    }
    result = await attempt(false, resolvedAtMs)
    // A request on a stale connection is repeated once on a new connection. Receivers deduplicate by `webhook-id`.
    if (result.kind === 'failed' && result.stale) result = await attempt(true, performance.now())
    if (result.kind === 'answered' || !unreached.has(result.cause)) break
  }
  return result
}

interface ExchangeRequest {
  readonly endpoint: Endpoint
  /** Bytes of the request: head and body. */
  readonly bytes: Buffer
  readonly answerBytesMax: number
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Uses a new connection and closes it afterwards, because the server has just closed an idle connection. */
  readonly isFresh: boolean
  /** Time from which `connectMs` of the trace counts, from `performance.now()`. */
  readonly connectFromMs: number
}

/** Trace of a call that tried no address. */
const untraced: CallTrace = { isReused: false }

/** One request on one connection. The connection is reused only after a complete response. */
class Exchange implements ConnectionUser {
  readonly #connections: Connections
  readonly #request: ExchangeRequest
  readonly #resolve: (result: Exchanged) => void
  readonly #reader: AnswerReader
  readonly #timer: Timer
  readonly #abort = () => this.#fail('aborted')
  #connection: Connection | undefined
  readonly #marks: ConnectMarks & { sentAtMs?: number; firstByteAtMs?: number } = {}
  #isReused = false
  #isOver = false

  constructor(connections: Connections, request: ExchangeRequest, resolve: (result: Exchanged) => void) {
    this.#connections = connections
    this.#request = request
    this.#resolve = resolve
    this.#reader = new AnswerReader(request.answerBytesMax)
    this.#timer = setTimeout(() => this.#fail('timeout'), Math.max(1, request.timeoutMs))
  }

  begin(): void {
    const { endpoint, connectTimeoutMs, isFresh, signal } = this.#request
    signal?.addEventListener('abort', this.#abort)
    if (signal?.aborted) return this.#abort()
    const idle = isFresh ? undefined : this.#connections.takeIdle(endpoint)
    this.#isReused = idle !== undefined
    if (idle) return this.#send(idle)
    this.#connections.open(endpoint, connectTimeoutMs, this.#marks).then(
      (connection) => this.#send(connection),
      (error: unknown) => this.#fail(causeOf(error), error),
    )
  }

  data(bytes: Buffer): void {
    this.#marks.firstByteAtMs ??= performance.now()
    const progress = this.#reader.push(bytes)
    if (progress === 'malformed') this.#fail('protocol_error')
    else if (progress !== 'more') this.#answered(progress === 'enough')
  }

  ended(): void {
    if (this.#reader.endsWithConnection()) this.#answered(false)
    else this.#fail('reset')
  }

  closed(error: unknown): void {
    this.#fail(causeOf(error), error)
  }

  #send(connection: Connection): void {
    // The call ended while its connection was being opened, so the connection is kept for another call.
    if (this.#isOver) return this.#connections.keep(this.#request.endpoint, connection)
    this.#connection = connection
    connection.use(this)
    this.#marks.sentAtMs = performance.now()
    connection.write(this.#request.bytes)
  }

  #answered(isAnswerCut: boolean): void {
    const connection = this.#connection
    this.#finish({ ...answerOf(this.#reader, isAnswerCut), trace: this.#trace() })
    if (!connection) return
    // The connection is not reused if the response came before the whole request was sent, because the server would parse the remaining
    // bytes as another request.
    const { endpoint, isFresh } = this.#request
    if (!isFresh && this.#reader.leavesConnection && connection.isFlushed)
      this.#connections.keep(endpoint, connection)
    else connection.close()
  }

  #fail(cause: CallFailureCause, error?: unknown): void {
    if (this.#isOver) return
    const stale = cause === 'reset' && this.#isReused && !this.#reader.hasBegun
    const connection = this.#connection
    const status = this.#reader.head?.status
    this.#finish({ kind: 'failed', cause, code: codeOf(error), status, stale, trace: this.#trace() })
    connection?.close()
  }

  #trace(): CallTrace {
    const { endpoint, connectFromMs } = this.#request
    const { connectedAtMs, securedAtMs, sentAtMs, firstByteAtMs } = this.#marks
    return {
      address: endpoint.address,
      isReused: this.#isReused,
      connectMs: between(connectFromMs, connectedAtMs),
      tlsMs: between(connectedAtMs, securedAtMs),
      firstByteMs: between(sentAtMs, firstByteAtMs),
    }
  }

  #finish(result: Exchanged): void {
    this.#isOver = true
    this.#connection?.use(undefined)
    this.#connection = undefined
    clearTimeout(this.#timer)
    this.#request.signal?.removeEventListener('abort', this.#abort)
    this.#resolve(result)
  }
}

function between(fromMs: number | undefined, toMs: number | undefined): number | undefined {
  return fromMs === undefined || toMs === undefined ? undefined : toMs - fromMs
}

const noHeaders: KeptHeaders = { lines: [], omitted: 0 }

function answerOf(reader: AnswerReader, isAnswerCut: boolean): Omit<Answered, 'trace'> {
  const { status = 0, fields, kept: receivedHeaders = noHeaders } = reader.head ?? {}
  const one = (name: string) => fields?.get(name)?.slice(0, answerHeaderCharsMax)
  const retryAfter = one('retry-after')
  const webhookDelivery = one('webhook-delivery')
  const contentType = one('content-type')
  return {
    kind: 'answered',
    status,
    headers: {
      ...(retryAfter === undefined ? {} : { retryAfter }),
      ...(webhookDelivery === undefined ? {} : { webhookDelivery }),
      ...(contentType === undefined ? {} : { contentType }),
    },
    // NUL is replaced, because a text column of Postgres rejects it.
    answer: reader.body.toString('utf8').replaceAll('\0', '\uFFFD'),
    isAnswerCut,
    receivedHeaders,
  }
}

function causeOf(error: unknown): CallFailureCause {
  if (error instanceof ConnectError) return error.stage
  // In TLS 1.3 the server rejects a client certificate only after the handshake.
  return (codeOf(error) ?? '').startsWith('ERR_SSL_') ? 'tls_failed' : 'reset'
}
