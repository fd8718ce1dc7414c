import type { CallFailureCause, CallResult, HeaderLine } from '#internal/egress/index.ts'
import type { Attempt, AttemptExchange, Ending, QueueId, SuspendedCause } from '#internal/events/index.ts'
import { hiddenMark, isCredentialHeader } from '#internal/redaction/index.ts'
import type { SentRequest } from './destinations/destination.ts'

/** `waitsMs` has one delay per attempt, including the first. */
export interface RetrySchedule {
  readonly waitsMs: readonly number[]
  readonly jitterPercent: number
}

/** Reason for the permanent failure of an event; a closed set. */
export type FailedCause = SuspendedCause | 'attempts_exhausted' | 'aborted' | 'payload_expired'

/**
 * Reason for an attempt without a call. `worker_lost`: several processes claimed the delivery and none completed it. `signing_unavailable`:
 * the destination has no usable signing secret, or the Secret with its URL is missing. `internal_error`: code of this service threw an exception.
 */
export type NotSentCause = 'worker_lost' | 'signing_unavailable' | 'internal_error'

export type AttemptResult =
  | CallResult
  | { readonly kind: 'not_sent'; readonly cause: NotSentCause; readonly durationMs: number }

export type AttemptEnding = Extract<Ending, { readonly attempt: Attempt }>

export interface MadeCall {
  readonly result: AttemptResult
  /** Undefined if no request was made. */
  readonly request?: SentRequest | undefined
  readonly startedAtMs: number
}

/** Maximum wait that a callback can ask for: longer values of `Retry-After` are shortened to this time. */
const retryAfterMsMax = 36_000_000

/**
 * Decides the outcome of an attempt. A 2xx is a success; any other status is a failure, including redirects. 410 and the response header
 * `webhook-delivery: disable` end the delivery cycle and suspend the callback. The header `webhook-delivery: abort-message` and a failed
 * last attempt end the delivery cycle. 429 and 503 can delay the next attempt by up to 10 h, but never bring it forward. Pure.
 */
export function concludeAttempt({
  attempt,
  result,
  attemptsBefore,
  schedule,
  random,
  nowMs,
}: {
  readonly attempt: Attempt
  readonly result: AttemptResult
  /** Completed attempts of the delivery cycle. */
  readonly attemptsBefore: number
  readonly schedule: RetrySchedule
  /** Random number in [0, 1). */
  readonly random: number
  readonly nowMs: number
}): { readonly ending: AttemptEnding; readonly suspends?: SuspendedCause | undefined } {
  const fail = (cause: FailedCause, suspends?: SuspendedCause) => ({
    ending: { kind: 'failed' as const, attempt: { ...attempt, cause: attempt.cause ?? cause } },
    suspends,
  })
  let askedMs = 0
  if (result.kind === 'answered') {
    const { status, headers } = result
    const wish = headers.webhookDelivery?.trim().toLowerCase()
    if (callSucceeded(result))
      return { ending: { kind: 'processed', attempt }, suspends: wish === 'disable' ? 'disabled' : undefined }
    if (wish === 'disable') return fail('disabled', 'disabled')
    if (status === 410) return fail('gone', 'gone')
    if (wish === 'abort-message') return fail('aborted')
    if (status === 429 || status === 503) askedMs = parseRetryAfterMs(headers.retryAfter, nowMs) ?? 0
  }
  const waitMs = schedule.waitsMs[attemptsBefore + 1]
  if (waitMs === undefined) return fail('attempts_exhausted')
  const jittered = jitteredMs(waitMs, schedule.jitterPercent, random)
  const dueAtMs = nowMs + Math.max(jittered, Math.min(askedMs, retryAfterMsMax))
  return { ending: { kind: 'later', dueAtMs, attempt } }
}

export function jitteredMs(waitMs: number, jitterPercent: number, random: number): number {
  return Math.round(waitMs * (1 + (jitterPercent / 100) * (2 * random - 1)))
}

/** Parses seconds or an HTTP date (RFC 9110, section 10.2.3); undefined for any other value. */
function parseRetryAfterMs(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const atMs = /^[A-Za-z]{3,9},? .{8,40}$/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

export function concludeWithoutPayload(nowMs: number): AttemptEnding {
  const end = { outcome: 'failed', status: null, cause: 'payload_expired', answer: null } as const
  return { kind: 'failed', attempt: { startedAtMs: nowMs, durationMs: 0, ...end } }
}

/** Returns whether the call succeeded; undefined if no call was made. */
export function callSucceeded(result: AttemptResult): boolean | undefined {
  if (result.kind === 'not_sent') return undefined
  return result.kind === 'answered' && result.status >= 200 && result.status < 300
}

export function attemptOf({ result, request, startedAtMs }: MadeCall): Attempt {
  const { durationMs } = result
  const exchange = request && exchangeOf(request, result)
  if (result.kind === 'answered') {
    const { status, answer } = result
    const outcome = callSucceeded(result) ? 'delivered' : 'refused'
    return { startedAtMs, durationMs, outcome, status, cause: null, answer, exchange }
  }
  const cause: CallFailureCause | NotSentCause = result.cause
  return { startedAtMs, durationMs, outcome: 'failed', status: null, cause, answer: null, exchange }
}

/** Hides the value of each header that is named like a credential. */
function exchangeOf(request: SentRequest, result: AttemptResult): AttemptExchange | undefined {
  if (result.kind === 'not_sent') return undefined
  const none = { headers: [], headersOmitted: 0, isAnswerCut: false }
  if (result.kind === 'failed') return { ...request, ...result.trace, ...none, problem: result.message }
  const { receivedHeaders, isAnswerCut, trace } = result
  const headers = receivedHeaders.lines.map((line): HeaderLine => {
    const [name] = line
    return isCredentialHeader(name) ? [name, hiddenMark] : line
  })
  return { ...request, ...trace, headers, headersOmitted: receivedHeaders.omitted, isAnswerCut }
}

/** `release_probe`: the probe of a half-open circuit breaker was not sent, so another probe is allowed. */
export type QueueChange =
  | { readonly kind: 'suspend'; readonly cause: SuspendedCause }
  | { readonly kind: 'open_breaker' | 'close_breaker' | 'release_probe' }

const strengths = { suspend: 3, open_breaker: 2, close_breaker: 1, release_probe: 0 } as const

/** Returns one change per queue. A suspension overrides the circuit breaker, in any order. The first of two equal changes is kept. */
export function strongestChanges(
  ends: Iterable<{ readonly queueId: QueueId; readonly queueChange: QueueChange | undefined }>,
): Map<QueueId, QueueChange> {
  const changes = new Map<QueueId, QueueChange>()
  for (const { queueId, queueChange } of ends) {
    if (queueChange === undefined) continue
    const known = changes.get(queueId)
    if (known === undefined || strengths[queueChange.kind] > strengths[known.kind])
      changes.set(queueId, queueChange)
  }
  return changes
}
