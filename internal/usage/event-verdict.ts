import type { EffectiveLimits, EventLimitName } from './limits.ts'
import { monthEndMs } from './reading.ts'

/**
 * Whether an event may come in. `free`: it may. `over`: it may, and is marked, since the month's hard limit is reached. `limited`: it
 * may not.
 */
export type EventVerdict =
  | { readonly kind: 'free' }
  | { readonly kind: 'over' }
  | {
      readonly kind: 'limited'
      readonly limit: EventLimitName
      readonly quota: number
      readonly retryAfterMs: number
    }

/** The last counts heard of, by windows of Redis' clock. */
export interface EventCounts {
  /** Minutes since the Unix epoch. */
  readonly minute: number
  readonly minuteCount: number
  readonly monthEndSec: number
  readonly monthCount: number
}

/** What is known when an event comes. */
export interface EventFacts {
  readonly counts: EventCounts
  /** Events committed here that are not in the counts yet. */
  readonly waiting: number
  /** Redis' clock, ms. */
  readonly nowMs: number
  /** Whether Redis answered of late; while it is away no event is refused. */
  readonly isRedisThere: boolean
}

const minuteMs = 60_000
const free: EventVerdict = { kind: 'free' }
const over: EventVerdict = { kind: 'over' }

/** Decides about one event. Counts are what is surely used, so what is refused is over its limit. Pure. */
export function decideEvent(
  { eventsPerMinute, eventsPerMonth }: EffectiveLimits,
  { counts, waiting, nowMs, isRedisThere }: EventFacts,
): EventVerdict {
  const isMinute = (counts.minute + 1) * minuteMs > nowMs
  const inMinute = (isMinute ? counts.minuteCount : 0) + waiting
  if (eventsPerMinute.hard !== null && inMinute >= eventsPerMinute.hard && isRedisThere) {
    const retryAfterMs = minuteMs - (nowMs % minuteMs)
    return { kind: 'limited', limit: 'eventsPerMinute', quota: eventsPerMinute.hard, retryAfterMs }
  }
  const inMonth = (counts.monthEndSec * 1000 > nowMs ? counts.monthCount : 0) + waiting
  if (eventsPerMonth.hard === null || inMonth < eventsPerMonth.hard) return free
  if (eventsPerMonth.over === 'accept' || !isRedisThere) return over
  const retryAfterMs = monthEndMs(nowMs) - nowMs
  return { kind: 'limited', limit: 'eventsPerMonth', quota: eventsPerMonth.hard, retryAfterMs }
}
