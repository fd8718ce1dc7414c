import { type Branded, decodeBase32, encodeBase32, idPattern } from './id.ts'

/** An event's id: `evt_` and 26 characters. Sorts by time of receipt, and tells on which day the event may go. */
export type EventId = Branded<'EventId'>

/** A day as `YYYY-MM-DD`, UTC. */
export type Day = string

const dayMs = 86_400_000
const timeBytes = 6
const idBytes = 16
const eventIdForm = new RegExp(idPattern('evt'))

/**
 * Makes an event's id: 48 bits of milliseconds, 8 bits of days that the event is kept, 72 random bits.
 * @param eventDays 1 to 255
 */
export function createEventId(
  receivedAtMs: number,
  eventDays: number,
  random: (bytes: Uint8Array) => void = fillRandom,
): EventId {
  const bytes = Buffer.allocUnsafe(idBytes)
  bytes.writeUIntBE(receivedAtMs, 0, timeBytes)
  bytes.writeUInt8(eventDays, timeBytes)
  random(bytes.subarray(timeBytes + 1))
  return `evt_${encodeBase32(bytes)}` as EventId
}

/** Reads an event's id from text; undefined for anything else, also from outside. */
export function parseEventId(text: string): EventId | undefined {
  return eventIdForm.test(text) ? (text as EventId) : undefined
}

/** Milliseconds since the epoch at which the event was received. */
export function receivedAtMsOf(id: EventId): number {
  return decodeBase32(id.slice(4)).readUIntBE(0, timeBytes)
}

/** The first day on which the event may go. */
export function expiryDayOf(id: EventId): Day {
  const bytes = decodeBase32(id.slice(4))
  return dayAfter(bytes.readUIntBE(0, timeBytes), bytes.readUInt8(timeBytes))
}

/** The day that lies `days` whole days and the rest of its own day after a time: what is received in a day goes together. */
export function dayAfter(timeMs: number, days: number): Day {
  const index = Math.floor(timeMs / dayMs) + days + 1
  let known = dayTexts.get(index)
  if (known === undefined) {
    known = new Date(index * dayMs).toISOString().slice(0, 10)
    if (dayTexts.size >= dayTextsMax) dayTexts.clear()
    dayTexts.set(index, known)
  }
  return known
}

/** Few days are asked for, each many times a second. */
const dayTexts = new Map<number, Day>()
const dayTextsMax = 1_000

/** Random bytes drawn ahead, since one draw of many is much cheaper than many draws. */
const drawn = { bytes: Buffer.alloc(4_096), used: 4_096 }

function fillRandom(target: Uint8Array): void {
  if (drawn.used + target.length > drawn.bytes.length) {
    crypto.getRandomValues(drawn.bytes)
    drawn.used = 0
  }
  drawn.bytes.copy(target, 0, drawn.used, drawn.used + target.length)
  drawn.used += target.length
}
