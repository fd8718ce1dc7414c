import { within } from '#internal/base/index.ts'
import { type CallbackBounds, checkCallbackUrl, validateAddresses } from './callback-url.ts'
import { Connections, parseEgressProxy } from './connections.ts'
import {
  type Answered,
  type CallContent,
  type CallFailureCause,
  type CallTrace,
  callFailures,
  type ExchangeFailed,
  exchange,
} from './exchange.ts'

/** One call to a callback, or to another URL that a tenant or a provider chooses. */
export interface OutboundCall extends CallContent {
  readonly url: string
  /** Non-public networks that the tenant lists. They apply only inside the networks that the platform allows. */
  readonly allowedCIDRs: readonly string[]
}

/** Result of a call to which the callback responded. */
export interface CallAnswered extends Answered {
  readonly durationMs: number
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
  /** Proxy URL from `LATCHKEY_EGRESS_PROXY`. The usual proxy variables of the environment are ignored. */
  readonly egressProxy?: string | undefined
  /** PEM certificates that are trusted instead of the CAs of the runtime. */
  readonly ca?: string | undefined
  /** Name resolution. Default: /etc/hosts and DNS. */
  readonly resolve?: Resolve | undefined
  /** Time limit for resolving, connecting and TLS together, in milliseconds; default 5 000. */
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

/** Maximum memoized results. One process has fewer callbacks than this. */
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

/** Result of resolving a name. */
export type Resolved =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[] }
  | { readonly kind: 'failed'; readonly cause: 'no_address' | 'too_many' | 'timeout' }

const addressesKeptMs = 5000
const failureKeptMs = 1000
const namesMax = 10_000
const addressesMax = 64

/**
 * Resolves a name by /etc/hosts and DNS, including the search domains of the cluster.
 * Uses c-ares, which needs no thread. `node:dns` calls getaddrinfo on a small thread pool, where a few names whose name servers never reply
 * would block the calls of all tenants (40 names: over 40 s, Bun 1.4.5).
 */
export const systemResolve: Resolve = async (name) => {
  const found = await Bun.dns.lookup(name, { backend: 'c-ares' })
  return found.map(({ address }) => address)
}

interface CachedName {
  readonly pending: Promise<Resolved>
  /** Result of the lookup; undefined while the lookup is in flight. */
  settled: { readonly value: Resolved; readonly expiresAtMs: number } | undefined
}

/**
 * Creates a caching resolver. It caches addresses for 5 s and failures for 1 s, for at most 10 000 names. Concurrent calls for a name share
 * one lookup. The resolver never rejects.
 */
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
    // Every address is validated before the first one is called, so their number is limited.
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
