import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Answer } from '#internal/http/index.ts'
import { RedisUnavailable } from '#internal/storage/index.ts'
import type { Acquired } from './acquire.ts'
import { type CheckOutcome, suggestRetryMs } from './record.ts'

const replayed = { 'Idempotent-Replayed': 'true' }

/** The JSON text of a check's answer, contract section 2.2: fields beside the promised ones come after them. */
export function acquiredText(acquired: Acquired): string {
  switch (acquired.kind) {
    case 'hit':
      return hitText(acquired.record)
    case 'locked':
      // Numbers and a base64url token only: nothing here needs escaping.
      return `{"cached":false,"locked":true,"lockToken":"${acquired.lockToken}","fence":${acquired.fence},"expiresInMs":${acquired.expiresInMs}${acquired.takenOver ? ',"takenOver":true' : ''}}`
    case 'busy':
      return `{"cached":false,"locked":false,"retryAfterMs":${suggestRetryMs(acquired.remainingMs)}}`
    default:
      return acquired satisfies never
  }
}

/** The JSON text of a found record. */
export function hitText(record: string): string {
  return `{"cached":true,"record":${record}}`
}

/** What a check is counted as. */
export function outcomeOf(acquired: Acquired | ApiError): CheckOutcome {
  switch (acquired.kind) {
    case 'error':
      return acquired.code
    case 'locked':
      return acquired.takenOver ? 'taken_over' : 'locked'
    default:
      return acquired.kind
  }
}

/** A check's answer over HTTP: a replay and a busy key also say so in a header. */
export function acquiredAnswer(acquired: Acquired): Answer {
  const body = acquiredText(acquired)
  const outcome = outcomeOf(acquired)
  switch (acquired.kind) {
    case 'hit':
      return { kind: 'answer', status: 200, body, headers: replayed, outcome }
    case 'locked':
      return { kind: 'answer', status: 200, body, outcome }
    case 'busy': {
      const seconds = Math.ceil(suggestRetryMs(acquired.remainingMs) / 1000)
      return { kind: 'answer', status: 200, body, headers: { 'Retry-After': String(seconds) }, outcome }
    }
    default:
      return acquired satisfies never
  }
}

/** A found record over HTTP. */
export function hitAnswer(record: string): Answer {
  return { kind: 'answer', status: 200, body: hitText(record), headers: replayed, outcome: 'hit' }
}

/** An answer without headers of its own. */
export function plainAnswer(outcome: string, value: object): Answer {
  return { kind: 'answer', status: 200, body: JSON.stringify(value), outcome }
}

/** The answer to a call that the store left without one: 503 within a second, never "not cached". Undefined for a bug. */
export function explainStoreError(error: unknown): ApiError | undefined {
  if (!(error instanceof RedisUnavailable)) return undefined
  const headers = { 'Retry-After': '1' }
  return apiError(error.reason === 'overloaded' ? 'overloaded' : 'store_unavailable', undefined, headers)
}
