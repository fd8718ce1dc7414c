import type { CallFailureCause, CallResult } from '#internal/egress/index.ts'
import type { AttemptRecord, ClaimedDelivery, Ending, SuspendedCause } from '#internal/events/index.ts'
import { type AttemptEnd, decideNext, type RetrySchedule } from './decide-next.ts'

/**
 * Why an attempt counts as failed although nothing was sent. `worker_lost`: several workers took the delivery and none came back.
 * `signing_unavailable`: the tenant has no usable signing secret, and nothing goes out unsigned. `internal_error`: a fault of ours.
 */
export type NotSentCause = 'worker_lost' | 'signing_unavailable' | 'internal_error'

/** What came of an attempt. */
export type AttemptResult =
  | CallResult
  | { readonly kind: 'not_sent'; readonly cause: NotSentCause; readonly durationMs: number }

/** An attempt with what is needed to conclude from it. */
export interface ConcludeInput {
  readonly delivery: ClaimedDelivery
  readonly result: AttemptResult
  readonly startedAtMs: number
  readonly schedule: RetrySchedule
  /** In [0, 1). */
  readonly random: number
  readonly nowMs: number
}

/** What is written of an attempt, and whether its callback asked to be left alone. */
export interface Conclusion {
  readonly ending: Extract<Ending, { readonly attempt: AttemptRecord }>
  readonly suspends: SuspendedCause | undefined
}

/** Turns what came of an attempt into what is written. Pure. */
export function concludeAttempt(input: ConcludeInput): Conclusion {
  const { delivery, result, schedule, random, nowMs } = input
  const decision = decideNext({
    end: endOf(result),
    attempt: delivery.attempts + 1,
    schedule,
    random,
    nowMs,
  })
  const attempt = recordOf(input)
  switch (decision.kind) {
    case 'processed':
      return { ending: { kind: 'processed', attempt }, suspends: decision.suspends ? 'disabled' : undefined }
    case 'retry':
      return { ending: { kind: 'later', dueAtMs: decision.dueAtMs, attempt }, suspends: undefined }
    case 'failed': {
      const cause = attempt.cause ?? decision.cause
      const suspends = decision.cause === 'gone' || decision.cause === 'disabled' ? decision.cause : undefined
      return {
        ending: { kind: 'failed', attempt: { ...attempt, cause } },
        suspends: decision.suspends ? suspends : undefined,
      }
    }
  }
}

/** What is written of an event whose payload is gone: it ends without a call. */
export function concludeWithoutPayload(
  nowMs: number,
): Extract<Ending, { readonly kind: 'failed' | 'processed' }> {
  const attempt: AttemptRecord = {
    startedAtMs: nowMs,
    durationMs: 0,
    outcome: 'failed',
    status: null,
    cause: 'payload_expired',
    answer: null,
  }
  return { kind: 'failed', attempt }
}

/** Whether a callback did well, for its breaker; undefined where nobody asked it. */
export function callbackDidWell(result: AttemptResult): boolean | undefined {
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
    const outcome = callbackDidWell(result) ? 'delivered' : 'refused'
    return { startedAtMs, durationMs, outcome, status, cause: null, answer }
  }
  const cause: CallFailureCause | NotSentCause = result.cause
  return { startedAtMs, durationMs, outcome: 'failed', status: null, cause, answer: null }
}
