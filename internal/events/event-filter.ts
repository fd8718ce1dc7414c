import { createEventId, type Day, dayAfter, type EventId, type TenantId } from '#internal/base/index.ts'

/**
 * What became of an event. `accepted`: a delivery cycle of attempts is under way or waits; `verified`: stored and not to be delivered, as
 * long as its provider is only tried out.
 */
export const eventStates = ['accepted', 'processed', 'delivery_failed', 'verified'] as const
/** One of the states of an event. */
export type EventState = (typeof eventStates)[number]

/** Which events are meant: those that all of it applies to. */
export interface EventFilter {
  readonly tenantId?: TenantId
  /** Its neutral name. */
  readonly provider?: string
  /** A normalized type, whole. */
  readonly type?: string
  readonly state?: EventState
  /** Milliseconds since the epoch at which an event was received: this one and later. */
  readonly fromMs?: number
  /** Earlier than this one. */
  readonly toMs?: number
  /** At most 1 000. */
  readonly ids?: readonly EventId[]
}

/** A stretch of time as ids, which sort by it, and the days on which what was received in it may go. */
export interface EventRange {
  /** This one and later. */
  readonly lowId: string
  /** Earlier than this one. */
  readonly highId: string
  readonly firstDay: Day
  readonly lastDay: Day
}

const dayMs = 86_400_000
/** An id tells its days in one byte. */
const eventDaysMax = 255
/** 48 bits of milliseconds, as an id holds them. */
const timeMsMax = 2 ** 48 - 1

/**
 * The stretch of a filter. Events whose day has come are not in it, whether or not retention has taken them away yet. Pure.
 * @param nowMs the time, in milliseconds since the epoch
 */
export function rangeOf({ fromMs = 0, toMs = timeMsMax }: EventFilter, nowMs: number): EventRange {
  const [lowMs, highMs] = [clamped(fromMs), clamped(toMs)]
  const tomorrow = dayAfter(nowMs, 0)
  // Clocks differ, but no event is of the day after tomorrow.
  const latestMs = nowMs + dayMs
  const firstDay = dayAfter(Math.min(lowMs, latestMs), 1)
  return {
    lowId: lowestIdOf(lowMs),
    highId: lowestIdOf(highMs),
    firstDay: firstDay > tomorrow ? firstDay : tomorrow,
    lastDay: dayAfter(Math.min(highMs, latestMs), eventDaysMax),
  }
}

/** The range without what lies up to this id, or from it on, on the way that the events are walked. Pure. */
export function rangeBeyond(range: EventRange, id: string, order: 'newest' | 'oldest'): EventRange {
  if (order === 'newest') return id < range.highId ? { ...range, highId: id } : range
  // Sorts behind the id and before every other one.
  const next = `${id}!`
  return next > range.lowId ? { ...range, lowId: next } : range
}

/** The lowest id that an event may have which is received at a time. Pure. */
export function lowestIdOf(timeMs: number): EventId {
  return createEventId(timeMs, 0, (bytes) => bytes.fill(0))
}

function clamped(timeMs: number): number {
  return Math.min(timeMsMax, Math.max(0, Math.floor(timeMs)))
}
