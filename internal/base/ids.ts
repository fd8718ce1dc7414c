/** String type that only its own constructor creates. `Name` distinguishes kinds of ids at compile time. */
export type Branded<Name extends string> = string & { readonly __brand: Name }

/** Tenant id: `ten_` and 26 characters. It does not depend on the name of the tenant's Kubernetes resource. */
export type TenantId = Branded<'TenantId'>

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz' // Crockford's base 32: no letters that look like digits

/** Encodes bytes in lowercase Crockford base 32, five bits per character, most significant bit first. */
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

/** Decodes base 32, and drops an incomplete last byte. @throws RangeError for a character outside the alphabet */
export function decodeBase32(text: string): Buffer {
  const bytes = Buffer.alloc(Math.floor((text.length * 5) / 8))
  let bits = 0
  let value = 0
  let at = 0
  for (let index = 0; index < text.length; index += 1) {
    const digit = values.get(text.charCodeAt(index))
    if (digit === undefined) throw new RangeError('the text is not base 32')
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

/** Random bytes from one large request, which is much cheaper than many small ones. Each byte is used once. */
const drawn = { bytes: Buffer.alloc(4096), used: 4096 }

/** Returns a random token of `byteCount` bytes (default 16, at most 4096) in base64url. */
export function randomToken(byteCount = 16): string {
  const bytes = drawRandom(byteCount)
  const token = bytes.toString('base64url')
  bytes.fill(0)
  return token
}

function drawRandom(byteCount: number): Buffer {
  if (drawn.used + byteCount > drawn.bytes.length) {
    crypto.getRandomValues(drawn.bytes)
    drawn.used = 0
  }
  drawn.used += byteCount
  return drawn.bytes.subarray(drawn.used - byteCount, drawn.used)
}

/** Pattern of ids with a prefix, for regular expressions and JSON Schema. */
export function idPattern(prefix: string): string {
  return `^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`
}

/** Number of characters in a tenant id. */
export const tenantIdChars = 'ten_'.length + 26
const tenantIdForm = new RegExp(idPattern('ten'))

/** Recognizes the form of a tenant id. */
export function isTenantId(text: string): text is TenantId {
  return tenantIdForm.test(text)
}

/** Creates a tenant id from 16 unique bytes, such as the hash of its resource's uid. */
export function tenantIdFromBytes(bytes: Uint8Array): TenantId {
  if (bytes.length < 16) throw new RangeError(`a tenant id needs at least 16 bytes, got ${bytes.length}`)
  return `ten_${encodeBase32(bytes.subarray(0, 16))}` as TenantId
}

/** Parses a tenant id that was read from a store of Latchkey. @throws RangeError for any other text */
export function parseTenantId(text: string): TenantId {
  if (!isTenantId(text)) throw new RangeError('the text is not a tenant id')
  return text
}

/** Event id: `evt_` and 26 characters. Ids sort by time of receipt and encode the expiry day. */
export type EventId = Branded<'EventId'>

/** Day as `YYYY-MM-DD`, UTC. */
export type Day = string

const dayMs = 86_400_000
const timeBytes = 6
const idBytes = 16
const eventIdForm = new RegExp(idPattern('evt'))

/**
 * Creates an event id from 48 bits of milliseconds, 8 bits of retention days and 72 random bits.
 * @param eventDays retention in days, 1 to 255
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

/** Parses an event id; returns undefined for any other text. */
export function parseEventId(text: string): EventId | undefined {
  return eventIdForm.test(text) ? (text as EventId) : undefined
}

/** Reads the time of receipt in milliseconds since the Unix epoch. */
export function receivedAtMsOf(id: EventId): number {
  return decodeBase32(id.slice(4)).readUIntBE(0, timeBytes)
}

/** Reads the first day on which the event can be deleted. */
export function expiryDayOf(id: EventId): Day {
  const bytes = decodeBase32(id.slice(4))
  return dayAfter(bytes.readUIntBE(0, timeBytes), bytes.readUInt8(timeBytes))
}

/**
 * Returns the UTC date that is `days` + 1 days after the date of `timeMs`. All times of one date have the same result, so that all events
 * received on one day expire together.
 */
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

/** Cache of texts of days, since only a few days are in use, and each is formatted many times per second. */
const dayTexts = new Map<number, Day>()
const dayTextsMax = 1_000

function fillRandom(target: Uint8Array): void {
  drawRandom(target.length).copy(target)
}
