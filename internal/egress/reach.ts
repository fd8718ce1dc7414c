import type { CallbackUrl } from './callback-url.ts'
import type { ConnectPath } from './connect.ts'
import { Connections } from './connections.ts'
import { type Exchanged, exchange } from './exchange.ts'
import { type RequestContent, requestBytes } from './request-bytes.ts'
import type { CallFailureCause } from './result.ts'

/** What is sent, and how long it may take. */
export interface CallContent extends RequestContent {
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
  const connections = new Connections(path)

  /** Receivers tell repeats by `webhook-id`, so that a request may go out again when a kept connection was dead already. */
  async function once(attempt: Attempt, bytes: Buffer, target: Target): Promise<Exchanged> {
    const first = await exchange(connections, requestOf(attempt, bytes, target, false))
    return first.kind === 'failed' && first.stale
      ? exchange(connections, requestOf(attempt, bytes, target, true))
      : first
  }

  return {
    async reach(attempt) {
      const bytes = requestBytes(attempt.call, attempt.url)
      // Only our own caller can have made such a header.
      if (bytes === undefined) return { kind: 'failed', cause: 'protocol_error', stale: false }
      const addresses = attempt.addresses.slice(0, addressesTriedMax)
      const untilMs = attempt.startedAtMs + Math.min(connectMs, attempt.call.timeoutMs)
      let result: Exchanged = { kind: 'failed', cause: 'connect_timeout', stale: false }
      for (const [index, address] of addresses.entries()) {
        const leftMs = untilMs - performance.now()
        if (leftMs <= 0) break
        const shareMs = Math.max(addressMsMin, leftMs / (addresses.length - index))
        result = await once(attempt, bytes, { address, connectTimeoutMs: Math.min(leftMs, shareMs) })
        if (result.kind === 'answered' || !unreached.has(result.cause)) break
      }
      return result
    },
    close: () => connections.close(),
  }
}

interface Target {
  readonly address: string
  readonly connectTimeoutMs: number
}

function requestOf(
  { call, url, startedAtMs }: Attempt,
  bytes: Buffer,
  { address, connectTimeoutMs }: Target,
  isFresh: boolean,
) {
  return {
    endpoint: { address, port: url.port, tlsName: url.scheme === 'https' ? url.host : undefined },
    bytes,
    answerBytesMax: call.answerBytesMax ?? answerBytesMaxDefault,
    connectTimeoutMs,
    timeoutMs: call.timeoutMs - (performance.now() - startedAtMs),
    signal: call.signal,
    isFresh,
  }
}
