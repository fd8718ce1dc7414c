import {
  type ApiError,
  apiError,
  hasRepeatedMember,
  isNestedTooDeep,
  jsonDepthMax,
} from '#internal/base/index.ts'
import type { BodyBudget, Holding } from './body-budget.ts'
import { brokeOff, readPieces, sentTooSlowly, tooLong } from './body-pieces.ts'

/** Up to this declared length, a body's room is taken at once; that is cheaper, and holds little for bytes that never come. */
const shortBytes = 64 * 1024

/** A body that was read whole, as bytes or as text, or why it was not. */
export type Body = { readonly kind: 'read'; readonly body: Uint8Array | string } | ApiError

/** What a body may be. */
export interface BodyBounds {
  readonly bytesMax: number
  /** Whether it is read as text where it is short and says so. */
  readonly isText: boolean
  /** The error of a longer one. */
  readonly tooLong: 'invalid_request' | 'body_too_large'
}

/** A body that is being read, or has been, with what it has taken of the budget; until `free`. */
export interface Room extends Holding {
  readonly kind: 'room'
  readonly bounds: BodyBounds
  /** The declared length; null where the body comes in chunks. */
  readonly bytesDeclared: number | null
}

/**
 * Prepares for a body that is about to be read, for an owner, and takes room for a short one. One that says it is too long is
 * refused unread.
 * @returns 400 for a compressed body, 400 or 413 for one that is too long, 503 when the budget has no room
 */
export function takeRoom(
  request: Request,
  bounds: BodyBounds,
  budget: BodyBudget,
  owner: string,
): Room | ApiError {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    return apiError('invalid_request', 'Send the body without Content-Encoding')
  }
  const declared = request.headers.get('content-length')
  const bytesDeclared = declared === null ? null : Number(declared)
  if (bytesDeclared !== null && !(bytesDeclared <= bounds.bytesMax)) return tooLong(bounds)
  const room: Room = { kind: 'room', owner, bounds, bytesDeclared, bytes: 0 }
  if (isShort(bytesDeclared) && !budget.grow(room, bytesDeclared)) {
    return apiError('overloaded', undefined, { 'Retry-After': '1' })
  }
  return room
}

/**
 * Reads a body. A short one has its room; any other takes it as it comes, and then frees what it did not need. The rest is the
 * caller's to free.
 * @returns 400 for a body that breaks off, is sent too slowly, or is no text where it should be; 400 or 413 for one too long;
 * 503 for one that found no room while it came
 */
export function readBody(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  const { bounds, bytesDeclared } = room
  if (!isShort(bytesDeclared)) return readPieces(request, room, budget)
  // Plain promises: an async function more on this path is felt by every request.
  const reading = bounds.isText ? readText(request, bytesDeclared) : readBytes(request)
  return budget.deadlines.guard(reading, sentTooSlowly)
}

function isShort(bytesDeclared: number | null): bytesDeclared is number {
  return bytesDeclared !== null && bytesDeclared <= shortBytes
}

/**
 * Text in which every wrong byte has become U+FFFD, and from which a byte order mark is gone: with rare exceptions that makes
 * it longer or shorter than declared.
 */
function readText(request: Request, bytesDeclared: number): Promise<Body> {
  return request
    .text()
    .then(
      (text) => (Buffer.byteLength(text) === bytesDeclared ? { kind: 'read', body: text } : notUtf8()),
      brokeOff,
    )
}

function notUtf8(): ApiError {
  return apiError('invalid_request', 'The body must be UTF-8 without byte order mark')
}

function readBytes(request: Request): Promise<Body> {
  return request.arrayBuffer().then((buffer) => ({ kind: 'read', body: new Uint8Array(buffer) }), brokeOff)
}

const byteOrderMark = '\ufeff'
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A JSON text with the value it means. */
export type JsonBody = { readonly kind: 'json'; readonly text: string; readonly value: unknown } | ApiError

/** Takes a body for JSON in UTF-8 (RFC 8259), at most `jsonDepthMax` levels deep; anything else is 400. */
export function parseJson(body: Uint8Array | string): JsonBody {
  const text = typeof body === 'string' ? body : decode(body)
  if (text === undefined || text.startsWith(byteOrderMark)) return notUtf8()
  if (isNestedTooDeep(text)) {
    return apiError('invalid_request', `The body must not be nested deeper than ${jsonDepthMax} levels`)
  }
  try {
    return { kind: 'json', text, value: JSON.parse(text) as unknown }
  } catch {
    return apiError('invalid_request', 'The body must be JSON')
  }
}

/** A JSON object as text and as value. */
export type JsonObject = { readonly kind: 'object'; readonly text: string; readonly value: object } | ApiError

/** Takes a body for a JSON object whose fields stand once each, since readers of JSON do not agree which of two counts. */
export function parseJsonObject(body: Uint8Array | string): JsonObject {
  const json = parseJson(body)
  if (json.kind === 'error') return json
  const { text, value } = json
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return apiError('invalid_request', 'The body must be a JSON object')
  }
  if (hasRepeatedMember(text, value)) return apiError('invalid_request', 'A field stands twice in the body')
  return { kind: 'object', text, value }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}
