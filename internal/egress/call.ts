import { within } from '#internal/base/index.ts'
import { type CallbackBounds, type CallbackUrl, checkCallbackUrl, validateAddresses } from './callback-url.ts'
import {
  ConnectError,
  type Connection,
  Connections,
  type ConnectionUser,
  type ConnectMarks,
  codeOf,
  type Endpoint,
  parseEgressProxy,
} from './connections.ts'
import { AnswerReader, encodeRequest, type KeptHeaders } from './http1.ts'

/** Call to a callback, or to another URL that a tenant or a provider chooses. */
export interface OutboundCall {
  readonly url: string
  /** Non-public networks that the tenant lists. They apply only inside the networks that the platform allows. */
  readonly allowedCIDRs: readonly string[]
  /** Default: POST. A GET has no body. */
  readonly method?: 'GET' | 'POST'
  /** Names are in lower case. The client adds `host`, `content-length`, `connection` and `accept-encoding`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** Maximum bytes of the response body that are read and returned; default 16 KiB. */
  readonly answerBytesMax?: number
  /** Bounds the whole call, including name resolution. */
  readonly timeoutMs: number
  /** Aborts the call once its name is resolved. The result is then `aborted`. */
  readonly signal?: AbortSignal
}

/** Result of a call to which the callback responded, with any status. A redirect is also a response and is never followed. */
export interface CallAnswered {
  readonly kind: 'answered'
  readonly status: number
  readonly durationMs: number
  readonly headers: AnswerHeaders
  /** First `answerBytesMax` bytes of the response body. Invalid UTF-8 becomes U+FFFD. */
  readonly answer: string
  readonly isAnswerCut: boolean
  readonly receivedHeaders: KeptHeaders
  readonly trace: CallTrace
}

/** Result of a call without a complete response. */
export interface CallFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  readonly durationMs: number
  /** Explanation for the tenant. Contains no header, no body and no byte from the remote server. */
  readonly message: string
  readonly trace: CallTrace
}

/** Result of one call. */
export type CallResult = CallAnswered | CallFailed

/** Client for calls to addresses that tenants and providers choose. */
export interface Outbound {
  /**
   * Sends one request. Never rejects; ends within `timeoutMs`. Not idempotent: a second call is a new request. If a reused connection turns
   * out to be closed, the request is sent again on a new connection; receivers deduplicate by `webhook-id`.
   */
  send(call: OutboundCall): Promise<CallResult>
  /** Closes idle connections. Calls in flight continue. Idempotent. */
  close(): void
}

/** Dependencies and limits of the client. */
export interface OutboundOptions extends CallbackBounds {
  /** URL from `LATCHKEY_EGRESS_PROXY`. The usual proxy variables of the environment are ignored. */
  readonly egressProxy?: string | undefined
  /** PEM certificates that are trusted instead of the CAs of the runtime. */
  readonly ca?: string | undefined
  /** Default: /etc/hosts and DNS. */
  readonly resolve?: Resolve | undefined
  /** Bounds the total time of resolving, connecting and TLS; default 5 000. */
  readonly connectMs?: number | undefined
}

const connectMsDefault = 5000

/** Creates the only client for calls to callbacks. @throws TypeError, URIError if `egressProxy` is not a URL */
export function createOutbound(options: OutboundOptions): Outbound {
  const { connectMs = connectMsDefault, cidrsMax, ports } = options
  const egressProxy = options.egressProxy === undefined ? undefined : parseEgressProxy(options.egressProxy)
  const connections = new Connections({ egressProxy, ca: options.ca })
  const resolve = createResolver(options.resolve ?? systemResolve, () => performance.now())
  const check = memoized(checkCallbackUrl)
  const validate = memoized(
    (scheme: 'http' | 'https', port: string, addresses: readonly string[], allowedCIDRs: readonly string[]) =>
      validateAddresses({ scheme, port: Number(port) }, addresses, { cidrsMax, ports, allowedCIDRs }),
  )

  async function send(call: OutboundCall): Promise<CallResult> {
    const startedAtMs = performance.now()
    const failed = (
      cause: CallFailureCause,
      message: string,
      trace: CallTrace = { isReused: false },
    ): CallResult => ({
      kind: 'failed',
      cause,
      message,
      durationMs: performance.now() - startedAtMs,
      trace,
    })
    if (call.signal?.aborted) return failed('aborted', callFailures.aborted)
    const checked = check(call.url)
    if (checked.kind === 'refused') return failed('url_refused', `The callback’s URL ${checked.message}.`)
    const { url } = checked
    const resolved: Resolved = url.isAddress
      ? { kind: 'addresses', addresses: [url.host] }
      : await resolve(url.host, Math.min(connectMs, call.timeoutMs))
    const resolvedAtMs = performance.now()
    const dnsMs = url.isAddress ? undefined : resolvedAtMs - startedAtMs
    const traced = (trace: CallTrace = { isReused: false }): CallTrace => ({ ...trace, dnsMs })
    if (resolved.kind === 'failed') return failed('dns_failed', dnsDetails[resolved.cause], traced())
    const { addresses } = resolved
    const refusal = validate(url.scheme, String(url.port), addresses, call.allowedCIDRs)
    if (refusal) return failed('address_refused', `The callback’s URL ${refusal.message}.`, traced())
    const result = await exchange(connections, {
      call,
      url,
      addresses,
      startedAtMs,
      resolvedAtMs,
      connectMs,
    })
    const trace = traced(result.trace)
    return result.kind === 'answered'
      ? { ...result, trace, durationMs: performance.now() - startedAtMs }
      : failed(result.cause, messageOf(result), trace)
  }

  return { send, close: () => connections.close() }
}

/** Maximum cached results, which exceeds the number of callbacks in a process. */
const memoizedMax = 10_000

/** Memoizes a pure function. Arguments must not contain spaces; list arguments must not contain commas either. */
function memoized<Arguments extends readonly (string | readonly string[])[], Result>(
  compute: (...parts: Arguments) => Result,
): (...parts: Arguments) => Result {
  const results = new Map<string, { readonly value: Result }>()
  return (...parts) => {
    const key = parts.join(' ')
    const known = results.get(key)
    if (known) return known.value
    const value = compute(...parts)
    if (results.size >= memoizedMax) results.clear()
    results.set(key, { value })
    return value
  }
}

/** Resolves a name to all its addresses, in the order in which they are tried. Rejects if the name has no address. */
export type Resolve = (name: string) => Promise<readonly string[]>

export type Resolved =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[] }
  | { readonly kind: 'failed'; readonly cause: 'no_address' | 'too_many' | 'timeout' }

const addressesKeptMs = 5000
const failureKeptMs = 1000
const namesMax = 10_000
const addressesMax = 64

/**
 * Resolves a name by /etc/hosts and DNS, including the search domains of the cluster. Uses c-ares, which needs no thread. `node:dns` calls
 * getaddrinfo on a small thread pool, where a few names whose name servers never reply would block the calls of all tenants (40 names: over
 * 40 s, Bun 1.4.5).
 */
export const systemResolve: Resolve = async (name) => {
  const found = await Bun.dns.lookup(name, { backend: 'c-ares' })
  return found.map(({ address }) => address)
}

interface CachedName {
  readonly pending: Promise<Resolved>
  settled: { readonly value: Resolved; readonly expiresAtMs: number } | undefined
}

/** Caches up to 10 000 names, addresses for 5 s and failures for 1 s. Concurrent calls share lookups. Never rejects. */
export function createResolver(
  lookup: Resolve,
  now: () => number,
): (name: string, timeoutMs: number) => Promise<Resolved> {
  const cache = new Map<string, CachedName>()

  function resolve(name: string): CachedName {
    const entry: CachedName = { pending: lookedUp(lookup, name), settled: undefined }
    cache.delete(name)
    cache.set(name, entry)
    void entry.pending.then((value) => {
      const lifeMs = value.kind === 'addresses' ? addressesKeptMs : failureKeptMs
      entry.settled = { value, expiresAtMs: now() + lifeMs }
    })
    for (const oldest of cache.keys()) {
      if (cache.size <= namesMax) break
      cache.delete(oldest)
    }
    return entry
  }

  return async (name, timeoutMs) => {
    const cached = cache.get(name)
    if (cached?.settled && now() < cached.settled.expiresAtMs) return cached.settled.value
    const { pending } = cached && !cached.settled ? cached : resolve(name)
    // After a time-out, the lookup continues until its own retries end, and its result serves the next call.
    return within(timeoutMs, pending, () => ({ kind: 'failed', cause: 'timeout' }) as const)
  }
}

async function lookedUp(lookup: Resolve, name: string): Promise<Resolved> {
  try {
    const addresses = [...new Set(await lookup(name))]
    if (addresses.length === 0) return { kind: 'failed', cause: 'no_address' }
    // Limits the number of addresses, since all are validated before the first one is called.
    return addresses.length > addressesMax
      ? { kind: 'failed', cause: 'too_many' }
      : { kind: 'addresses', addresses }
  } catch {
    return { kind: 'failed', cause: 'no_address' }
  }
}

function messageOf({ cause, code, status }: ExchangeFailed): string {
  const began = status === undefined ? '' : ` An answer with status ${status} had begun.`
  return `${callFailures[cause]}${code === undefined ? '' : ` (${code})`}${began}`
}

const dnsDetails: Readonly<Record<(Resolved & { kind: 'failed' })['cause'], string>> = {
  no_address: 'The callback’s host name has no address.',
  too_many: 'The callback’s host name has too many addresses.',
  timeout: 'The callback’s host name could not be resolved in time.',
}

/**
 * Explains each cause to the tenant. After `connect_failed`, `connect_timeout` and `tls_failed`, no byte of the request was sent.
 * `timeout`: at the time limit, the response was incomplete and less than 16 KiB of its body had arrived.
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
/** Cause of a call without a complete response. Closed set, so it can be a metric label. */
export type CallFailureCause = keyof typeof callFailures

/** Failures before a connection was open, so that no byte of the request was sent. */
export const unsentCauses: ReadonlySet<string> = new Set<CallFailureCause>([
  'url_refused',
  'dns_failed',
  'address_refused',
  'connect_failed',
  'connect_timeout',
  'tls_failed',
  'proxy_failed',
])

/** Response headers that delivery interprets, as received. */
export interface AnswerHeaders {
  /** Value of `Retry-After`: a number of seconds, or an HTTP date. */
  readonly retryAfter?: string
  readonly webhookDelivery?: string
  readonly contentType?: string
}

/** Address of a call and duration of its steps, for people. A step that did not happen, or did not end, is undefined. */
export interface CallTrace {
  /** Address of the connection, or of the last try to open one. Behind a proxy, the address that the proxy was given. */
  readonly address?: string | undefined
  /** True if an earlier call had opened the connection. */
  readonly isReused: boolean
  /** Duration of name resolution: near 0 if the result was cached; undefined for a URL with an address. */
  readonly dnsMs?: number | undefined
  /** Duration until TCP was connected, with the proxy tunnel and failed addresses. After a stale reused connection: of the new one only. */
  readonly connectMs?: number | undefined
  readonly tlsMs?: number | undefined
  /** Duration from sending the request to the first byte of the response. */
  readonly firstByteMs?: number | undefined
}

interface ExchangeFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  readonly code?: string | undefined
  readonly status?: number | undefined
  /** True if a reused connection was reset before a response. The server had most likely closed it before the request. */
  readonly stale: boolean
  readonly trace: CallTrace
}

const answerBytesMaxDefault = 16_384
const answerHeaderCharsMax = 256
const addressesTriedMax = 4
/** Minimum time for one address before the next one is tried. */
const addressMsMin = 1000
const unreached: ReadonlySet<CallFailureCause> = new Set(['connect_failed', 'connect_timeout'])

/** Tries at most four addresses until one accepts a connection. Ends within `timeoutMs`; never rejects. */
async function exchange(
  connections: Connections,
  validated: {
    readonly call: OutboundCall
    readonly url: CallbackUrl
    /** Validated addresses. The call can use any of them. */
    readonly addresses: readonly string[]
    /** Time of `performance.now()` at which `timeoutMs` begins. */
    readonly startedAtMs: number
    readonly resolvedAtMs: number
    /** Bounds the total time of resolving, connecting and TLS, over all addresses. Part of `timeoutMs`. */
    readonly connectMs: number
  },
): Promise<Exchanged> {
  const { call, url, startedAtMs, resolvedAtMs } = validated
  const bytes = encodeRequest(call, url)
  // The request has an invalid header, which only a bug in Latchkey can cause.
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
    // Repeats a request on a stale connection once on a new one. Receivers deduplicate by `webhook-id`.
    if (result.kind === 'failed' && result.stale) result = await attempt(true, performance.now())
    if (result.kind === 'answered' || !unreached.has(result.cause)) break
  }
  return result
}

type Exchanged = Omit<CallAnswered, 'durationMs'> | ExchangeFailed

interface ExchangeRequest {
  readonly endpoint: Endpoint
  readonly bytes: Buffer
  readonly answerBytesMax: number
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** True to use a new connection and to close it afterwards, because the server has just closed an idle one. */
  readonly isFresh: boolean
  /** Time of `performance.now()` from which `connectMs` of the trace counts. */
  readonly connectFromMs: number
}

const untraced: CallTrace = { isReused: false }

/** Request on one connection, which is reused only after a complete response. */
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
    // If the call ended while its connection was being opened, another call can use the connection.
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
    // A response before the end of the request prevents reuse: the server would parse the remaining bytes as another request.
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

function answerOf(reader: AnswerReader, isAnswerCut: boolean): Omit<CallAnswered, 'trace' | 'durationMs'> {
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
    // A text column of Postgres rejects NUL.
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
