/** A string that only its own constructor makes; `Name` keeps ids of two kinds apart at compile time. */
export type Branded<Name extends string> = string & { readonly __brand: Name }

/** A tenant's id: `ten_` and 26 characters. It outlives the resource's name. */
export type TenantId = Branded<'TenantId'>

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz' // Crockford's base 32: no letter that reads like a digit

/** Encodes bytes as lowercase Crockford base 32, five bits a character, most significant first. */
export function encodeBase32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let value = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    bits += 8
    while (bits >= 5) {
      text += alphabet[(value >>> (bits - 5)) & 31]
      bits -= 5
    }
    value &= (1 << bits) - 1
  }
  if (bits > 0) text += alphabet[(value << (5 - bits)) & 31]
  return text
}

const values = new Map(Array.from(alphabet, (character, value) => [character.charCodeAt(0), value]))

/** Undoes `encodeBase32`: whole bytes only, the bits left over are dropped. @throws RangeError for another character */
export function decodeBase32(text: string): Buffer {
  const bytes = Buffer.alloc(Math.floor((text.length * 5) / 8))
  let bits = 0
  let value = 0
  let at = 0
  for (let index = 0; index < text.length; index += 1) {
    const digit = values.get(text.charCodeAt(index))
    if (digit === undefined) throw new RangeError('not base 32')
    value = (value << 5) | digit
    bits += 5
    if (bits >= 8) {
      bytes[at] = (value >>> (bits - 8)) & 255
      at += 1
      bits -= 8
    }
    value &= (1 << bits) - 1
  }
  return bytes
}

/** Random bytes drawn ahead, since one draw of many is much cheaper than many draws. Each is given out once. */
const drawn = { bytes: Buffer.alloc(4096), used: 4096 }

/** An unguessable token of `byteCount` random bytes (default 16, 128 bits; at most 4096), in base64url. */
export function randomToken(byteCount = 16): string {
  const bytes = drawRandom(byteCount)
  const token = bytes.toString('base64url')
  bytes.fill(0)
  return token
}

/** Returns a view of unused random bytes. */
function drawRandom(byteCount: number): Buffer {
  if (drawn.used + byteCount > drawn.bytes.length) {
    crypto.getRandomValues(drawn.bytes)
    drawn.used = 0
  }
  drawn.used += byteCount
  return drawn.bytes.subarray(drawn.used - byteCount, drawn.used)
}

/** The pattern of ids of one kind: the prefix and 16 bytes in base 32, for regular expressions and for JSON Schema. */
export function idPattern(prefix: string): string {
  return `^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`
}

const tenantIdForm = new RegExp(idPattern('ten'))

/** Whether a text from outside has the form of a tenant's id. */
export function isTenantId(text: string): text is TenantId {
  return tenantIdForm.test(text)
}

/** Makes a tenant's id from 16 bytes that are unique to it, such as the hash of its resource's uid. */
export function tenantIdFromBytes(bytes: Uint8Array): TenantId {
  if (bytes.length < 16) throw new RangeError(`a tenant id needs 16 bytes, got ${bytes.length}`)
  return `ten_${encodeBase32(bytes.subarray(0, 16))}` as TenantId
}

/** Reads a tenant's id from text that comes from our own stores; throws on anything else. */
export function parseTenantId(text: string): TenantId {
  if (!isTenantId(text)) throw new RangeError('not a tenant id')
  return text
}

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

function fillRandom(target: Uint8Array): void {
  drawRandom(target.length).copy(target)
}
