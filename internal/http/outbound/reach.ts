import type http from 'node:http'
import { type CallbackAgent, createCallbackAgent } from './agent.ts'
import type { CallbackUrl } from './callback-url.ts'
import type { ConnectPath } from './connect.ts'
import { type Exchanged, exchange } from './exchange.ts'
import type { CallFailureCause } from './result.ts'

/** What is sent, and how long it may take. */
export interface CallContent {
  /** Names in lower case. `host`, `content-length`, `connection` and `accept-encoding` are set here. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** Default: POST. A GET has no body. */
  readonly method?: 'GET' | 'POST'
  /** How much of the answer is read and given; default 16 KiB. */
  readonly answerBytesMax?: number
  /** From the call until the answer's end, name resolution included. */
  readonly timeoutMs: number
  /** Ends the call, once its name is resolved; the result is `aborted`. */
  readonly signal?: AbortSignal
}

/** One call whose addresses have been judged. */
export interface Attempt {
  readonly call: CallContent
  readonly url: CallbackUrl
  /** All of them may be called. */
  readonly addresses: readonly string[]
  /** When the call began, by `performance.now()`; its times are counted from there. */
  readonly startedAtMs: number
}

/** A way to callbacks, and its end. */
export interface Reach {
  /** Tries the addresses in turn while nothing has been sent; never rejects. */
  reach(attempt: Attempt): Promise<Exchanged>
  /** Closes idle connections; repeating it is harmless. */
  close(): void
}

const answerBytesMaxDefault = 16_384
const addressesTriedMax = 4
/** What an address gets at least before the next one is tried. */
const addressMsMin = 1000

const unreached: ReadonlySet<CallFailureCause> = new Set(['connect_failed', 'connect_timeout'])

/**
 * Makes a way to callbacks that keeps connections for the calls that follow.
 * @param connectMs for resolving, connecting and agreeing on TLS, all addresses together
 */
export function createReach(path: ConnectPath, connectMs: number): Reach {
  const agentsOf = (keepAlive: boolean) => ({
    http: createCallbackAgent('http', path, keepAlive),
    https: createCallbackAgent('https', path, keepAlive),
  })
  const kept = agentsOf(true)
  const fresh = agentsOf(false)

  /** Receivers tell repeats by `webhook-id`, so that a request may go out again when a kept connection was dead already. */
  async function once(attempt: Attempt, address: string, connectTimeoutMs: number): Promise<Exchanged> {
    const { scheme } = attempt.url
    const first = await exchange(requestOf(attempt, address, connectTimeoutMs, kept[scheme]))
    return first.kind === 'failed' && first.stale
      ? exchange(requestOf(attempt, address, connectTimeoutMs, fresh[scheme]))
      : first
  }

  return {
    async reach(attempt) {
      const addresses = attempt.addresses.slice(0, addressesTriedMax)
      const untilMs = attempt.startedAtMs + Math.min(connectMs, attempt.call.timeoutMs)
      let result: Exchanged = { kind: 'failed', cause: 'connect_timeout', stale: false }
      for (const [index, address] of addresses.entries()) {
        const leftMs = untilMs - performance.now()
        if (leftMs <= 0) break
        const shareMs = Math.max(addressMsMin, leftMs / (addresses.length - index))
        result = await once(attempt, address, Math.min(leftMs, shareMs))
        if (result.kind === 'answered' || !unreached.has(result.cause)) break
      }
      return result
    },
    close() {
      kept.http.destroy()
      kept.https.destroy()
    },
  }
}

function requestOf(attempt: Attempt, address: string, connectTimeoutMs: number, agent: CallbackAgent) {
  const { call, url, startedAtMs } = attempt
  return {
    agent,
    method: call.method ?? 'POST',
    address,
    port: url.port,
    path: url.path,
    tlsName: url.scheme === 'https' ? url.host : undefined,
    headers: headersOf(call, url),
    body: call.body,
    answerBytesMax: call.answerBytesMax ?? answerBytesMaxDefault,
    connectTimeoutMs,
    timeoutMs: call.timeoutMs - (performance.now() - startedAtMs),
    signal: call.signal,
  }
}

function headersOf(
  { headers, body, method }: CallContent,
  { authority }: CallbackUrl,
): http.OutgoingHttpHeaders {
  return {
    ...headers,
    host: authority,
    ...(method === 'GET' ? {} : { 'content-length': Buffer.byteLength(body) }),
    // What is kept of an answer is text.
    'accept-encoding': 'identity',
    connection: 'keep-alive',
  }
}
