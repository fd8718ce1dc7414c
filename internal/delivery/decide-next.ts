/** How an attempt ended, as far as it matters for what comes next. */
export type AttemptEnd =
  | {
      readonly kind: 'answered'
      readonly status: number
      /** The answer's headers as received. */
      readonly retryAfter?: string | undefined
      readonly webhookDelivery?: string | undefined
    }
  | { readonly kind: 'unanswered' }

/** When a tenant's deliveries are tried: the wait before each attempt, the first included. */
export interface RetrySchedule {
  readonly waitsMs: readonly number[]
  readonly jitterPercent: number
}

/** What is decided from. */
export interface DecideInput {
  readonly end: AttemptEnd
  /** Which attempt of its delivery cycle this was, from 1. */
  readonly attempt: number
  readonly schedule: RetrySchedule
  /** In [0, 1). */
  readonly random: number
  readonly nowMs: number
}

/** Why an event ends undelivered; a closed set. */
export type FailedCause = 'attempts_exhausted' | 'gone' | 'disabled' | 'aborted' | 'payload_expired'

/** What becomes of a delivery. `suspends`: its callback asked to be left alone. */
export type Decision =
  | { readonly kind: 'processed'; readonly suspends: boolean }
  | { readonly kind: 'retry'; readonly dueAtMs: number }
  | { readonly kind: 'failed'; readonly cause: FailedCause; readonly suspends: boolean }

const retryAfterMsMax = 36_000_000

/**
 * Decides what follows an attempt. A 2xx is success, everything else a failure, redirects too. 410 and `webhook-delivery:
 * disable` end the event and suspend the callback, `webhook-delivery: abort-message` ends the event; a failed last attempt ends it.
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

/** The wait with its jitter, spread evenly over both directions. */
export function jitteredMs(waitMs: number, jitterPercent: number, random: number): number {
  return Math.round(waitMs * (1 + (jitterPercent / 100) * (2 * random - 1)))
}

/** A callback may put the next attempt off, up to 10 h, but never bring it forward. */
function decideAfterFailure({ attempt, schedule, random, nowMs }: DecideInput, askedMs: number): Decision {
  const waitMs = schedule.waitsMs[attempt]
  if (waitMs === undefined) return { kind: 'failed', cause: 'attempts_exhausted', suspends: false }
  const jittered = jitteredMs(waitMs, schedule.jitterPercent, random)
  return { kind: 'retry', dueAtMs: nowMs + Math.max(jittered, Math.min(askedMs, retryAfterMsMax)) }
}

/** Seconds or an HTTP date, RFC 9110 section 10.2.3; undefined for anything else. */
function parseRetryAfterMs(text: string | undefined, nowMs: number): number | undefined {
  const value = text?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const atMs = /^[A-Za-z]{3,9},? .{8,40}$/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}
