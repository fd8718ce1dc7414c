import { AnswerReader } from './answer-reader.ts'
import { ConnectError, codeOf } from './connect.ts'
import type { Connection, ConnectionUser } from './connection.ts'
import type { Connections, Endpoint } from './connections.ts'
import type { AnswerHeaders, CallFailureCause } from './result.ts'

/** One request to one address. */
export interface ExchangeRequest {
  readonly endpoint: Endpoint
  /** Head and body. */
  readonly bytes: Buffer
  /** How much of the answer is read. */
  readonly answerBytesMax: number
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Opens a new connection, whatever is idle, and closes it afterwards: its server has just closed a kept one. */
  readonly isFresh: boolean
}

/** What came of it. */
export type Exchanged =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: AnswerHeaders
      readonly answer: string
      readonly answerCut: boolean
    }
  | ExchangeFailed

/** No whole answer. */
export interface ExchangeFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  /** The runtime's code. */
  readonly code?: string | undefined
  /** The status of an answer that began. */
  readonly status?: number | undefined
  /** A kept connection was used that its server had closed, most likely; nothing was answered. */
  readonly stale: boolean
}

const answerHeaderCharsMax = 256

/**
 * Sends one request and reads at most `answerBytesMax` of its answer. Settles within `timeoutMs` and never rejects; a connection
 * is used again only after a whole answer.
 */
export function exchange(connections: Connections, request: ExchangeRequest): Promise<Exchanged> {
  return new Promise((resolve) => new Exchange(connections, request, resolve).begin())
}

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
    // The call ended while it was being opened; another one may have it.
    if (this.#isOver) return this.#connections.keep(this.#request.endpoint, connection)
    this.#connection = connection
    connection.use(this)
    connection.write(this.#request.bytes)
  }

  #answered(answerCut: boolean): void {
    const connection = this.#connection
    this.#finish(answerOf(this.#reader, answerCut))
    if (!connection) return
    // A server that answers before it has the whole request leaves the rest to be taken for another one.
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

function answerOf(reader: AnswerReader, answerCut: boolean): Exchanged {
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
    // Stores of text refuse NUL.
    answer: reader.body.toString('utf8').replaceAll('\0', '\uFFFD'),
    answerCut,
  }
}

function causeOf(error: unknown): CallFailureCause {
  if (error instanceof ConnectError) return error.stage
  // TLS 1.3 tells a refused client only after the handshake.
  return (codeOf(error) ?? '').startsWith('ERR_SSL_') ? 'tls_failed' : 'reset'
}
