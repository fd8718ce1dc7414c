import { type CallbackBounds, checkCallbackUrl, judgeAddresses } from './callback-url.ts'
import { parseEgressProxy } from './connect.ts'
import type { ExchangeFailed } from './exchange.ts'
import { type CallContent, createReach } from './reach.ts'
import { createResolver, type Resolve, type Resolved, systemResolve } from './resolve.ts'
import type { CallFailureCause, CallResult } from './result.ts'

/** One call to a tenant's callback, or to another address that somebody else named. */
export interface OutboundCall extends CallContent {
  readonly url: string
  /** The tenant's own list of non-public networks; counts inside the platform's only. */
  readonly allowedCIDRs: readonly string[]
}

/** Calls callbacks. */
export interface Outbound {
  /**
   * Sends one request and gives what came of it; never throws and never waits longer than `timeoutMs`. Repeating it is a new
   * request: receivers tell repeats by `webhook-id`. The same request goes out a second time, once, if a kept connection turns
   * out to have been closed before it.
   */
  send(call: OutboundCall): Promise<CallResult>
  /** Closes idle connections. Calls under way go on; repeating it is harmless. */
  close(): void
}

/** What calls are bound by. */
export interface OutboundOptions extends CallbackBounds {
  /** `LATCHKEY_EGRESS_PROXY`; proxy variables of the environment are ignored. */
  readonly egressProxy?: string | undefined
  /** Certificates in PEM that are trusted instead of the runtime's. */
  readonly ca?: string | undefined
  /** Where names are looked up; the system's hosts file and name servers unless given. */
  readonly resolve?: Resolve | undefined
  /** Milliseconds until a connection must stand, name and TLS included; 5 s unless given. */
  readonly connectMs?: number | undefined
}

const connectMsDefault = 5000

/** Makes the only way in which tenants' callbacks are called. @throws TypeError, URIError for a proxy that is no URL */
export function createOutbound(options: OutboundOptions): Outbound {
  const connectMs = options.connectMs ?? connectMsDefault
  const egressProxy = options.egressProxy === undefined ? undefined : parseEgressProxy(options.egressProxy)
  const { reach, close } = createReach({ egressProxy, ca: options.ca }, connectMs)
  const resolve = createResolver({
    resolve: options.resolve ?? systemResolve,
    now: () => performance.now(),
  })

  const bounds = { cidrsMax: options.cidrsMax, ports: options.ports }
  const check = remembered(checkCallbackUrl)
  const judge = remembered(
    (scheme: 'http' | 'https', port: string, addresses: readonly string[], list: readonly string[]) =>
      judgeAddresses({ scheme, port: Number(port) }, addresses, { ...bounds, allowedCIDRs: list }),
  )

  async function send(call: OutboundCall): Promise<CallResult> {
    const startedAtMs = performance.now()
    const failed = (cause: CallFailureCause, detail: string): CallResult => ({
      kind: 'failed',
      cause,
      detail,
      durationMs: performance.now() - startedAtMs,
    })
    if (call.signal?.aborted) return failed('aborted', details.aborted)
    const checked = check(call.url)
    if (checked.kind === 'refused') return failed('url_refused', `The callback’s URL ${checked.message}.`)
    const { url } = checked
    const resolved: Resolved = url.isAddress
      ? { kind: 'addresses', addresses: [url.host] }
      : await resolve(url.host, Math.min(connectMs, call.timeoutMs))
    if (resolved.kind === 'failed') return failed('dns_failed', dnsDetails[resolved.cause])
    const refusal = judge(url.scheme, String(url.port), resolved.addresses, call.allowedCIDRs)
    if (refusal) return failed('address_refused', `The callback’s URL ${refusal.message}.`)
    const result = await reach({ call, url, addresses: resolved.addresses, startedAtMs })
    return result.kind === 'answered'
      ? { ...result, durationMs: performance.now() - startedAtMs }
      : failed(result.cause, detailOf(result))
  }

  return { send, close }
}

/** Answers that are remembered: one for each callback of a process, mostly. */
const rememberedMax = 10_000

/** Remembers what was answered. Parts of a question that has several hold neither spaces nor commas. */
function remembered<Question extends readonly (string | readonly string[])[], Answer>(
  answer: (...question: Question) => Answer,
): (...question: Question) => Answer {
  const answers = new Map<string, { readonly value: Answer }>()
  return (...question) => {
    const key = question.join(' ')
    const known = answers.get(key)
    if (known) return known.value
    const value = answer(...question)
    if (answers.size >= rememberedMax) answers.clear()
    answers.set(key, { value })
    return value
  }
}

function detailOf({ cause, code, status }: ExchangeFailed): string {
  const began = status === undefined ? '' : ` An answer with status ${status} had begun.`
  return `${details[cause]}${code === undefined ? '' : ` (${code})`}${began}`
}

const details: Readonly<Record<CallFailureCause, string>> = {
  url_refused: 'The callback’s URL is not served.',
  dns_failed: 'The callback’s name could not be resolved.',
  address_refused: 'The callback’s address is not to be called.',
  connect_failed: 'The callback did not accept the connection.',
  connect_timeout: 'The callback did not accept the connection in time.',
  tls_failed: 'The callback’s certificate or TLS is not in order.',
  timeout: 'The callback did not answer in time.',
  reset: 'The connection ended before the answer did.',
  protocol_error: 'The answer was not HTTP/1.1, or its head was over 16 KiB.',
  proxy_failed: 'The platform’s egress proxy did not open the connection.',
  aborted: 'The call was ended by the platform.',
}

const dnsDetails: Readonly<Record<(Resolved & { kind: 'failed' })['cause'], string>> = {
  no_address: 'The callback’s name has no address.',
  too_many: 'The callback’s name has too many addresses.',
  timeout: 'The callback’s name could not be resolved in time.',
}
