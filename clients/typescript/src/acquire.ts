import type { Debug, OnceOptions } from './options.ts'
import { type Failure, LatchkeyRequestError, type StoredRecord } from './outcome.ts'
import { checkRecord, type Lock, removeRecord } from './records.ts'
import { repeat, sleep } from './repeat.ts'
import { callMsMax, type Failed, type Refused, type Reply, type Service } from './service.ts'

/** Maximum milliseconds that the service lets a call wait for a busy key. */
const serviceWaitMsMax = 25_000
/** Maximum milliseconds of each call that releases a lock after an abort. */
const abortedMsMax = 1000
const retryAfterMsDefault = 1000

/** Parameters of one acquisition, with defaults filled in. */
export interface Acquisition
  extends Pick<OnceOptions<unknown>, 'scope' | 'key' | 'fingerprint' | 'ttlSeconds' | 'signal'> {
  readonly attemptId: string
  readonly lockSeconds: number
  readonly waitMs: number
  readonly acquireMs: number
}

/** Result of an acquisition. */
export type Acquired =
  | { readonly kind: 'hit'; readonly record: StoredRecord }
  /** `heldFromMs`: time of `performance.now()` before the call that acquired the lock. */
  | { readonly kind: 'locked'; readonly lock: Lock; readonly heldFromMs: number }
  | Extract<Failure<never>, { kind: 'busy' | 'reused_key' | 'unavailable' }>

/**
 * Gets the record or the lock of a key. Waits for a busy key, and retries calls without a usable answer. Takes at most `waitMs` and
 * `acquireMs` in total. `onCall` is called before each call.
 * @throws LatchkeyRequestError for a call that can never succeed; the reason of the signal after its abort
 */
export async function acquire(
  parts: { readonly service: Service; readonly debug: Debug; onCall(): void },
  wanted: Acquisition,
): Promise<Acquired> {
  const { acquireMs, waitMs, signal } = wanted
  const startedAtMs = performance.now()
  const untilMs = startedAtMs + waitMs + acquireMs
  const onRepeat = ({ code }: Failed, pauseMs: number) =>
    parts.debug('acquisition repeated', { scope: wanted.scope, attemptId: wanted.attemptId, code, pauseMs })
  let waitUntilMs = startedAtMs + waitMs
  // The first call does not wait: most keys are not busy, and a call that does not wait is cheaper for the service.
  for (let isFirst = true; ; isFirst = false) {
    let heldFromMs = 0
    let waitMsOfCall = 0
    const mayWait = !isFirst
    const reply = await repeat({ untilMs, failingMs: acquireMs, signal, onRepeat }, () => {
      heldFromMs = performance.now()
      const leftMs = mayWait ? Math.max(0, Math.floor(waitUntilMs - heldFromMs)) : 0
      waitMsOfCall = Math.min(serviceWaitMsMax, leftMs)
      const callMs = waitMsOfCall + callMsMax
      const timeoutMs = acquireMs === 0 ? callMs : Math.max(1, Math.min(callMs, untilMs - heldFromMs))
      parts.onCall()
      return checkRecord(parts.service, requestOf(wanted, waitMsOfCall), { timeoutMs, signal })
    })
    if (signal?.aborted) {
      await giveBack(parts.service, wanted)
      signal.throwIfAborted()
    }
    if (reply.kind !== 'ok') return explain(reply)
    const { body } = reply
    if (body.cached) return { kind: 'hit', record: body.record as StoredRecord }
    const nowMs = performance.now()
    if (body.locked) {
      // The lock may have been granted at any time during the call. If much of the lock's time may have passed, another call with the same
      // attempt id renews the lock without waiting.
      if (waitMsOfCall === 0 || nowMs - heldFromMs < body.expiresInMs / 3)
        return { kind: 'locked', lock: body, heldFromMs }
      waitUntilMs = nowMs
    } else {
      const { retryAfterMs } = body
      if (nowMs >= waitUntilMs) return { kind: 'busy', retryAfterMs }
      if (mayWait) await sleep(Math.min(retryAfterMs, waitUntilMs - nowMs), signal)
    }
  }
}

function requestOf(wanted: Acquisition, waitMs: number) {
  const { scope, key, attemptId, lockSeconds, ttlSeconds, fingerprint } = wanted
  return {
    scope,
    key,
    attemptId,
    lockSeconds,
    ...(waitMs > 0 && { waitMs }),
    ...(ttlSeconds !== undefined && { ttlSeconds }),
    ...(fingerprint !== undefined && { fingerprint }),
  }
}

/**
 * Releases the lock that an aborted call may have acquired, without retries: acquires it again by its attempt id, which returns the token,
 * and releases it. If that fails, the lock expires.
 */
async function giveBack(service: Service, wanted: Acquisition): Promise<void> {
  const bounds = { timeoutMs: abortedMsMax }
  const reply = await checkRecord(service, requestOf(wanted, 0), bounds)
  if (reply.kind === 'ok' && !reply.body.cached && reply.body.locked)
    await removeRecord(service, wanted, reply.body.lockToken, bounds)
}

function explain(reply: Refused | Failed | Extract<Reply<never>, { kind: 'aborted' }>): Acquired {
  if (reply.kind === 'failed')
    return {
      kind: 'unavailable',
      reason: reply.reason,
      retryAfterMs: reply.retryAfterMs ?? retryAfterMsDefault,
      ...(reply.cause !== undefined && { cause: reply.cause }),
    }
  if (reply.kind === 'refused') {
    const { status, code, retryAfterMs = retryAfterMsDefault } = reply
    if (code === 'fingerprint_mismatch') return { kind: 'reused_key' }
    if (status === 429) return { kind: 'unavailable', reason: 'limit_exceeded', retryAfterMs }
    throw new LatchkeyRequestError(reply)
  }
  throw new Error('an aborted acquisition must reject with the reason of its AbortSignal')
}
