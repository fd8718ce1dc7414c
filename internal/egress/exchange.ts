import type { CallbackUrl } from './callback-url.ts'
import {
  ConnectError,
  type Connection,
  type Connections,
  type ConnectionUser,
  codeOf,
  type Endpoint,
} from './connections.ts'
import { AnswerReader, encodeRequest, type RequestContent } from './http1.ts'

/**
 * Causes of a call without a complete response, each with an explanation for the tenant. After `connect_failed`, `connect_timeout` and
 * `tls_failed`, no byte of the request was sent. `timeout`: within the time limit, the response was not complete and fewer than 16 KiB of
 * its body had arrived.
 */
export const callFailures = {
  url_refused: 'The form of the callback’s URL is not accepted.',
  dns_failed: 'The callback’s name could not be resolved.',
  address_refused: 'The callback’s address must not be called.',
  connect_failed: 'The callback did not accept the connection.',
  connect_timeout: 'The callback did not accept the connection in time.',
  tls_failed: 'The callback’s certificate is invalid, or the TLS handshake failed.',
  timeout: 'The callback did not answer in time.',
  reset: 'The connection ended before the answer did.',
  protocol_error: 'The answer was not HTTP/1.1, or its head was over 16 KiB.',
  proxy_failed: 'The platform’s egress proxy did not open the connection.',
  aborted: 'The platform ended the call.',
}
/** Cause of a call without a complete response. The set is closed, so it can be a metric label. */
export type CallFailureCause = keyof typeof callFailures

/** Response headers that delivery interprets, as received. All other headers are dropped. */
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
  /** Time limit for resolving, connecting and TLS together, over all addresses. It is part of `timeoutMs`. */
  readonly connectMs: number
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
  const { call, url, startedAtMs } = validated
  const bytes = encodeRequest(call, url)
  // The request has an invalid header, which is a programming error in the calling code of Latchkey.
  if (bytes === undefined) return { kind: 'failed', cause: 'protocol_error', stale: false }
  const addresses = validated.addresses.slice(0, addressesTriedMax)
  const untilMs = startedAtMs + Math.min(validated.connectMs, call.timeoutMs)
  let result: Exchanged = { kind: 'failed', cause: 'connect_timeout', stale: false }
  for (const [index, address] of addresses.entries()) {
    const leftMs = untilMs - performance.now()
    if (leftMs <= 0) break
    const shareMs = Math.max(addressMsMin, leftMs / (addresses.length - index))
    const attempt = (isFresh: boolean) => {
      const { answerBytesMax = answerBytesMaxDefault, timeoutMs, signal } = call
      return new Promise<Exchanged>((resolve) => {
        const request: ExchangeRequest = {
          endpoint: { address, port: url.port, tlsName: url.scheme === 'https' ? url.host : undefined },
          ...{ bytes, answerBytesMax, signal, isFresh },
          connectTimeoutMs: Math.min(leftMs, shareMs),
          timeoutMs: timeoutMs - (performance.now() - startedAtMs),
        }
        new Exchange(connections, request, resolve).begin()
      })
    }
    result = await attempt(false)
    // A request on a stale connection is repeated once on a new connection. Receivers deduplicate by `webhook-id`.
    if (result.kind === 'failed' && result.stale) result = await attempt(true)
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
}

/** One request on one connection. The connection is reused only after a complete response. */
class Exchange implements ConnectionUser {
  readonly #connections: Connections
  readonly #request: ExchangeRequest
  readonly #resolve: (result: Exchanged) => void
  readonly #reader: AnswerReader
  readonly #timer: Timer
  readonly #abort = () => this.#fail('aborted')
  #connection: Connection | undefined
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
    this.#connections.open(endpoint, connectTimeoutMs).then(
      (connection) => this.#send(connection),
      (error: unknown) => this.#fail(causeOf(error), error),
    )
  }

  data(bytes: Buffer): void {
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
    connection.write(this.#request.bytes)
  }

  #answered(isAnswerCut: boolean): void {
    const connection = this.#connection
    this.#finish(answerOf(this.#reader, isAnswerCut))
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
    this.#finish({ kind: 'failed', cause, code: codeOf(error), status: this.#reader.head?.status, stale })
    connection?.close()
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

function answerOf(reader: AnswerReader, isAnswerCut: boolean): Exchanged {
  const { status = 0, fields } = reader.head ?? {}
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
  }
}

function causeOf(error: unknown): CallFailureCause {
  if (error instanceof ConnectError) return error.stage
  // In TLS 1.3 the server rejects a client certificate only after the handshake.
  return (codeOf(error) ?? '').startsWith('ERR_SSL_') ? 'tls_failed' : 'reset'
}
