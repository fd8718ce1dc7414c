import type { Accepted, RefusedCause } from '#internal/intake/index.ts'
import type { ClaimedStep, StepVerdict } from './claim.ts'
import type { SimulationCause } from './simulation.ts'

/** What became of a simulated call: its fate as any call has one, or why none could be made. */
export type StepOutcome =
  | Accepted
  /** A mistake of ours. */
  | { readonly kind: 'broken' }
  | { readonly kind: 'no_caller'; readonly cause: RefusedCause | 'tenant_unknown' | 'signing_unavailable' }
  /** Not sent: it has been due for too long. */
  | { readonly kind: 'too_late' }

/** What passes by itself, or by somebody's hand: asked again in a while. */
const passingCauses: ReadonlySet<SimulationCause> = new Set([
  'tenant_unknown',
  'tenant_suspended',
  'provider_paused',
  'secrets_unreadable',
])
/** It is asked again later and later, so that what waits for somebody's hand leaves the turns to others. */
const passingWait = { firstMs: 10_000, msMax: 600_000 }
/** A month's limit may be lifted before the month is over. */
const limitedWaitMsMax = 600_000
const storeWait = { firstMs: 1_000, msMax: 60_000 }
/** Counted no further. */
const failuresMax = 1_000

const sent: StepVerdict = { kind: 'sent' }

/** Decides what follows a step. What a real call would be told to send again later is sent again later. Pure. */
export function decideStep(outcome: StepOutcome, { failures }: Pick<ClaimedStep, 'failures'>): StepVerdict {
  switch (outcome.kind) {
    case 'stored':
    case 'duplicate':
    case 'queued':
      return sent
    case 'unavailable':
    case 'unread':
    case 'uncertified':
      return later('store_unavailable', failures, storeWait)
    case 'unverifiable':
      return later('secrets_unreadable', failures, passingWait)
    case 'broken':
      return later('internal', failures, storeWait)
    case 'limited': {
      const cause = outcome.limit === 'eventsPerMinute' ? 'events_per_minute' : 'events_per_month'
      const waitMs = Math.min(limitedWaitMsMax, outcome.retryAfterMs)
      return { kind: 'later', cause, waitMs, failures: 0 }
    }
    case 'invalid':
      return { kind: 'failed', cause: outcome.cause }
    case 'looping':
      return { kind: 'failed', cause: 'loop_detected' }
    case 'refused':
      return { kind: 'failed', cause: 'event_refused' }
    case 'no_caller':
      return passingCauses.has(outcome.cause)
        ? later(outcome.cause, failures, passingWait)
        : { kind: 'failed', cause: outcome.cause }
    case 'too_late':
      return { kind: 'failed', cause: 'too_late' }
  }
}

interface Wait {
  readonly firstMs: number
  readonly msMax: number
}

function later(cause: SimulationCause, failures: number, { firstMs, msMax }: Wait): StepVerdict {
  const waitMs = Math.min(msMax, firstMs * 2 ** Math.min(failures, 10))
  return { kind: 'later', cause, waitMs, failures: Math.min(failures + 1, failuresMax) }
}
