import type { TenantId } from '#internal/base/index.ts'
import type { CallFailureCause, CallResult } from '#internal/egress/index.ts'
import type { AttemptRecord, ClaimedDelivery, Ending, SuspendedCause } from '#internal/events/index.ts'

/** End of an attempt, as far as it matters for what follows. */
export type AttemptEnd =
  | {
      readonly kind: 'answered'
      readonly status: number
      /** The answer's headers as received. */
      readonly retryAfter?: string | undefined
      readonly webhookDelivery?: string | undefined
    }
  | { readonly kind: 'unanswered' }

/** Waits before a tenant's attempts, the first included. */
export interface RetrySchedule {
  readonly waitsMs: readonly number[]
  readonly jitterPercent: number
}

/** Input of `decideNext`. */
export interface DecideInput {
  readonly end: AttemptEnd
  /** Number of the attempt in its delivery cycle, from 1. */
  readonly attempt: number
  readonly schedule: RetrySchedule
  /** In [0, 1). */
  readonly random: number
  readonly nowMs: number
}

/** Reason for which an event ends undelivered; a closed set. */
export type FailedCause = 'attempts_exhausted' | 'gone' | 'disabled' | 'aborted' | 'payload_expired'

/** Decision after an attempt. `suspends`: the callback asked for no further deliveries. */
export type Decision =
  | { readonly kind: 'processed'; readonly suspends: boolean }
  | { readonly kind: 'retry'; readonly dueAtMs: number }
  | { readonly kind: 'failed'; readonly cause: FailedCause; readonly suspends: boolean }

const retryAfterMsMax = 36_000_000

/**
 * Decides what follows an attempt. A 2xx is success, everything else a failure, redirects too. 410 and `webhook-delivery:
 * disable` end the event and suspend the callback, `webhook-delivery: abort-message` ends the event; a failed last attempt ends
 * it. Pure.
 */
export function decideNext(input: DecideInput): Decision {
  const { end } = input
  if (end.kind === 'unanswered') return decideAfterFailure(input, 0)
  const wish = end.webhookDelivery?.trim().toLowerCase()
  if (end.status >= 200 && end.status < 300) return { kind: 'processed', suspends: wish === 'disable' }
  if (wish === 'disable') return { kind: 'failed', cause: 'disabled', suspends: true }
  if (end.status === 410) return { kind: 'failed', cause: 'gone', suspends: true }
  if (wish === 'abort-message') return { kind: 'failed', cause: 'aborted', suspends: false }
  const asks = end.status === 429 || end.status === 503
  return decideAfterFailure(input, asks ? (parseRetryAfterMs(end.retryAfter, input.nowMs) ?? 0) : 0)
}

/** Spreads a wait evenly over both directions. Pure. */
export function jitteredMs(waitMs: number, jitterPercent: number, random: number): number {
  return Math.round(waitMs * (1 + (jitterPercent / 100) * (2 * random - 1)))
}

/** A callback may delay the next attempt by up to 10 h, but never bring it forward. */
function decideAfterFailure({ attempt, schedule, random, nowMs }: DecideInput, askedMs: number): Decision {
  const waitMs = schedule.waitsMs[attempt]
  if (waitMs === undefined) return { kind: 'failed', cause: 'attempts_exhausted', suspends: false }
  const jittered = jitteredMs(waitMs, schedule.jitterPercent, random)
  return { kind: 'retry', dueAtMs: nowMs + Math.max(jittered, Math.min(askedMs, retryAfterMsMax)) }
}

/** Parses seconds or an HTTP date, RFC 9110 section 10.2.3; undefined for anything else. */
function parseRetryAfterMs(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const atMs = /^[A-Za-z]{3,9},? .{8,40}$/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

/**
 * Reason for which an attempt failed without a call. `worker_lost`: several processes claimed the delivery and none completed it.
 * `signing_unavailable`: the tenant has no usable signing secret. `internal_error`: our code threw.
 */
export type NotSentCause = 'worker_lost' | 'signing_unavailable' | 'internal_error'

/** Result of an attempt. */
export type AttemptResult =
  | CallResult
  | { readonly kind: 'not_sent'; readonly cause: NotSentCause; readonly durationMs: number }

/** An ending that records an attempt. */
export type AttemptEnding = Extract<Ending, { readonly attempt: AttemptRecord }>

/** Input of `concludeAttempt`. */
export interface ConcludeInput extends Omit<DecideInput, 'end' | 'attempt'> {
  readonly delivery: ClaimedDelivery
  readonly result: AttemptResult
  readonly startedAtMs: number
}

/** Turns the result of an attempt into the ending to write; `suspends` where the callback asked for suspension. Pure. */
export function concludeAttempt(input: ConcludeInput): {
  readonly ending: AttemptEnding
  readonly suspends: SuspendedCause | undefined
} {
  const { delivery, result } = input
  const decision = decideNext({ ...input, end: endOf(result), attempt: delivery.attempts + 1 })
  const attempt = recordOf(input)
  switch (decision.kind) {
    case 'processed':
      return { ending: { kind: 'processed', attempt }, suspends: decision.suspends ? 'disabled' : undefined }
    case 'retry':
      return { ending: { kind: 'later', dueAtMs: decision.dueAtMs, attempt }, suspends: undefined }
    case 'failed': {
      const suspends = decision.cause === 'gone' || decision.cause === 'disabled' ? decision.cause : undefined
      return {
        ending: { kind: 'failed', attempt: { ...attempt, cause: attempt.cause ?? decision.cause } },
        suspends,
      }
    }
  }
}

/** Returns the ending of an event whose payload has expired: it fails without a call. Pure. */
export function concludeWithoutPayload(nowMs: number): AttemptEnding {
  const end = { outcome: 'failed', status: null, cause: 'payload_expired', answer: null } as const
  return { kind: 'failed', attempt: { startedAtMs: nowMs, durationMs: 0, ...end } }
}

/** Returns whether a call succeeded, for the circuit breaker; undefined if there was none. Pure. */
export function callSucceeded(result: AttemptResult): boolean | undefined {
  if (result.kind === 'not_sent') return undefined
  return result.kind === 'answered' && result.status >= 200 && result.status < 300
}

function endOf(result: AttemptResult): AttemptEnd {
  if (result.kind !== 'answered') return { kind: 'unanswered' }
  const { retryAfter, webhookDelivery } = result.headers
  return { kind: 'answered', status: result.status, retryAfter, webhookDelivery }
}

function recordOf({ result, startedAtMs }: ConcludeInput): AttemptRecord {
  const { durationMs } = result
  if (result.kind === 'answered') {
    const { status, answer } = result
    const outcome = callSucceeded(result) ? 'delivered' : 'refused'
    return { startedAtMs, durationMs, outcome, status, cause: null, answer }
  }
  const cause: CallFailureCause | NotSentCause = result.cause
  return { startedAtMs, durationMs, outcome: 'failed', status: null, cause, answer: null }
}

/** Change of a whole tenant queue. `release_probe`: the probe of a half-open breaker was not sent, so another one may be. */
export type QueueChange =
  | { readonly kind: 'suspend'; readonly cause: SuspendedCause }
  | { readonly kind: 'open_breaker' | 'close_breaker' | 'release_probe' }

/** End of a delivery, with the change that it makes to its tenant queue. */
export interface Conclusion {
  readonly ending: Ending
  readonly queueChange?: QueueChange | undefined
}

const strengths = { suspend: 3, open_breaker: 2, close_breaker: 1, release_probe: 0 } as const

/** Returns the change of a tenant queue that wins: a request of the callback before what was counted. Pure. */
export function strongerChange(one: QueueChange, other: QueueChange): QueueChange {
  return strengths[other.kind] > strengths[one.kind] ? other : one
}

/** Returns the change to write for each tenant queue, whatever the order of the ends. Pure. */
export function strongestChanges(
  ends: Iterable<{ readonly tenantId: TenantId; readonly queueChange: QueueChange | undefined }>,
): Map<TenantId, QueueChange> {
  const changes = new Map<TenantId, QueueChange>()
  for (const { tenantId, queueChange } of ends) {
    if (queueChange === undefined) continue
    const known = changes.get(tenantId)
    changes.set(tenantId, known === undefined ? queueChange : strongerChange(known, queueChange))
  }
  return changes
}
