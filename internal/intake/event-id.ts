/** An event's id, judged. */
export type EventId =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'refused'; readonly cause: 'event_id_missing' | 'event_id_malformed' }

const missing: EventId = { kind: 'refused', cause: 'event_id_missing' }
const malformed: EventId = { kind: 'refused', cause: 'event_id_malformed' }
const eventIdCharsMax = 255

/**
 * Judges an id from a body: 1 to 255 characters without control characters or halves of surrogate pairs, which the
 * database could not hold.
 * @param value undefined, null and '' are missing ids; what is no text is malformed
 */
export function judgeEventId(value: unknown): EventId {
  if (value === undefined || value === null || value === '') return missing
  return typeof value === 'string' && isShortText(value, eventIdCharsMax)
    ? { kind: 'id', id: value }
    : malformed
}

/**
 * Judges an id from a header: as one from a body, and without a comma or space, since a header that came twice reads as
 * `a, b`, which would pass for a third id.
 */
export function judgeHeaderEventId(value: string): EventId {
  return /[\s,]/.test(value) ? malformed : judgeEventId(value)
}

/** Tells whether a text has 1 to `charsMax` characters, no control characters and no halves of surrogate pairs. */
export function isShortText(text: string, charsMax: number): boolean {
  return (
    text.length >= 1 &&
    text.length <= charsMax &&
    !/[\u0000-\u001f\u007f-\u009f]/.test(text) &&
    text.isWellFormed()
  )
}
