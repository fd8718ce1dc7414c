import { type ApiError, apiError, Deadlines, Shares } from '#internal/base/index.ts'

/** How long a caller may take to send a body. */
const defaultReadMsMax = 10_000

/** A body that was read whole, as bytes or as text, or why it was not. */
export type Body = { readonly kind: 'read'; readonly body: Uint8Array | string } | ApiError

/** Memory that bodies may take in one process, from before they are read until their calls are answered; and their time. */
export class BodyBudget {
  readonly deadlines: Deadlines
  readonly #bytes: Shares

  /** @param bytesMax of all bodies; one owner gets a quarter of it, or one body */
  constructor(bytesMax: number, readMsMax: number = defaultReadMsMax) {
    this.#bytes = new Shares(bytesMax)
    this.deadlines = new Deadlines(readMsMax)
  }

  /** Takes `bytes` for an owner; false when there is no room, or when this owner has its share already. */
  take(bytes: number, owner: string): boolean {
    return this.#bytes.take(bytes, owner)
  }

  /** Gives back what a body's room holds beyond `bytesLeft`. Repeating it is harmless. */
  free(room: Room, bytesLeft = 0): void {
    if (room.bytes <= bytesLeft) return
    this.give(room.bytes - bytesLeft, room.owner)
    room.bytes = bytesLeft
  }

  /** Gives back what `take` took. */
  give(bytes: number, owner: string): void {
    this.#bytes.give(bytes, owner)
  }
}

/** What a body may be. */
export interface BodyBounds {
  readonly bytesMax: number
  /** Whether it is read as text where its length is declared. */
  readonly isText: boolean
  /** The error of a longer one. */
  readonly tooLong: 'invalid_request' | 'body_too_large'
}

/** A body's part of the budget, taken from before it is read until `free`. */
export interface Room {
  readonly kind: 'room'
  readonly owner: string
  readonly bounds: BodyBounds
  /** The declared length; null where the body comes in chunks. */
  readonly bytesDeclared: number | null
  /** What is taken now. */
  bytes: number
}

/**
 * Takes room for a body that is about to be read, for an owner. One that says it is too long is refused unread.
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
  const bytes = bytesDeclared ?? bounds.bytesMax
  if (!(bytes <= bounds.bytesMax)) return tooLong(bounds)
  if (!budget.take(bytes, owner)) return apiError('overloaded', undefined, { 'Retry-After': '1' })
  return { kind: 'room', owner, bounds, bytesDeclared, bytes }
}

/**
 * Reads a body into its room. One whose length was not declared is counted as it comes, and then frees what it did not need;
 * the rest is the caller's to free.
 * @returns 400 for a body that breaks off, is sent too slowly, or is no text where it should be; 400 or 413 for one too long
 */
export function readBody(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  // Plain promises: an async function more on this path is felt by every request.
  return budget.deadlines.guard(startReading(request, room, budget), sentTooSlowly)
}

function startReading(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  const { bounds, bytesDeclared } = room
  if (bytesDeclared === null) return countBytes(request, room, budget)
  return bounds.isText ? readText(request, bytesDeclared) : readBytes(request)
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

function brokeOff(): Body {
  return apiError('invalid_request', 'The body broke off')
}

function sentTooSlowly(): Body {
  return apiError('invalid_request', 'The body was sent too slowly', { Connection: 'close' })
}

function tooLong({ tooLong: code, bytesMax }: BodyBounds): ApiError {
  const what = code === 'body_too_large' ? 'body' : 'request'
  // The rest of the body is still on its way: the connection cannot carry another request.
  return apiError(code, `The ${what} must not be longer than ${bytesMax} bytes`, { Connection: 'close' })
}

async function countBytes(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for await (const chunk of request.body ?? []) {
      length += chunk.byteLength
      if (length > room.bounds.bytesMax) return tooLong(room.bounds)
      chunks.push(chunk)
    }
  } catch {
    return brokeOff()
  }
  budget.free(room, length)
  return { kind: 'read', body: Buffer.concat(chunks) }
}

const byteOrderMark = '\ufeff'
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A JSON text with the value it means. */
export type JsonBody = { readonly kind: 'json'; readonly text: string; readonly value: unknown } | ApiError

/** Takes a body for JSON in UTF-8 (RFC 8259); anything else is 400. */
export function parseJson(body: Uint8Array | string): JsonBody {
  const text = typeof body === 'string' ? body : decode(body)
  if (text === undefined || text.startsWith(byteOrderMark)) return notUtf8()
  try {
    return { kind: 'json', text, value: JSON.parse(text) as unknown }
  } catch {
    return apiError('invalid_request', 'The body must be JSON')
  }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}
