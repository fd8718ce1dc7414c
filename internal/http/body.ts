import {
  type ApiError,
  apiError,
  hasRepeatedMember,
  isNestedTooDeep,
  jsonDepthMax,
} from '#internal/base/index.ts'
import type { BodyBudget, GivenUp, Holding } from './body-budget.ts'
import { Pages } from './body-pieces.ts'

/** A body that was read whole, or why it was not. */
export type Body = { readonly kind: 'read'; readonly body: Uint8Array } | ApiError

/** What a body may be. */
export interface BodyBounds {
  readonly bytesMax: number
  /** The error of a longer one. */
  readonly tooLong: 'invalid_request' | 'body_too_large'
}

/** A body that is being read, or has been, with what it has taken of the budget; until `free`. */
export interface Room extends Holding {
  readonly kind: 'room'
  readonly bounds: BodyBounds
}

/**
 * Prepares for a body that is about to be read. One that says it is too long is refused unread. Takes no memory yet.
 * @returns 400 for a compressed body, 400 or 413 for one that is too long
 */
export function roomFor(
  request: Request,
  bounds: BodyBounds,
  { owner, sourceOf }: Pick<Room, 'owner' | 'sourceOf'>,
): Room | ApiError {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    return apiError('invalid_request', 'Send the body without Content-Encoding')
  }
  const declared = request.headers.get('content-length')
  const bytesDeclared = declared === null ? null : Number(declared)
  if (bytesDeclared !== null && !(bytesDeclared <= bounds.bytesMax)) return tooLong(bounds)
  return { kind: 'room', owner, sourceOf, bounds, bytesDeclared, bytes: 0, arrival: undefined }
}

/** Maximum length that the runtime gathers, where the budget allows it. */
const gatheredBytes = 16 * 1024

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'>

/**
 * Reads a body and charges its bytes as they arrive. Ends with the body's own length charged; after an error the caller frees the rest.
 * @returns 400 for a body that breaks off or is sent too slowly; 400 or 413 for one too long; 503 `overloaded` for a complete one
 * without room, 503 `body_dropped` for an unfinished one without room or evicted
 */
export async function readBody(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  // Most bodies arrive with their head: Bun has gathered them by the next turn.
  await budget.turns.next()
  const { bytesDeclared } = room
  if (budget.gathersSmall && bytesDeclared !== null && bytesDeclared <= gatheredBytes) {
    // Costs 4 µs less than a stream (Bun 1.4.5, 2026-11), but does not tell how much has arrived.
    const whole = request.arrayBuffer()
    const buffer = Bun.peek(whole)
    return buffer instanceof ArrayBuffer ? charge(buffer, room, budget) : waitForWhole(whole, room, budget)
  }
  const reader = request.body?.getReader()
  if (!reader) return charge(noBytes, room, budget)
  return readArriving(reader, room, budget)
}

const noBytes = new ArrayBuffer(0)

function charge(buffer: ArrayBuffer, room: Room, budget: BodyBudget): Body {
  if (buffer.byteLength !== (room.bytesDeclared ?? 0)) return brokeOff()
  return budget.grow(room, buffer.byteLength, performance.now())
    ? { kind: 'read', body: new Uint8Array(buffer) }
    : overloaded()
}

/** Waits for a small body, which may be evicted. Until it is complete it has no progress and is charged nothing. */
function waitForWhole(whole: Promise<ArrayBuffer>, room: Room, budget: BodyBudget): Promise<Body> {
  return new Promise((resolve) => {
    budget.begin(room, performance.now(), (why) => resolve(givenUpError(why)))
    const end = (settle: () => Body) => {
      // One that was given up has its answer, and its connection ends.
      if (!room.arrival) return
      budget.finish(room)
      resolve(settle())
    }
    whole.then(
      (buffer) => end(() => charge(buffer, room, budget)),
      () => end(brokeOff),
    )
  })
}

/** Reads a body piece by piece. It may be evicted meanwhile. */
async function readArriving(reader: Reader, room: Room, budget: BodyBudget): Promise<Body> {
  const pages = new Pages(room.bytesDeclared ?? room.bounds.bytesMax)
  let givenUp: GivenUp | undefined
  // In a turn of its own: `cancel` runs whatever is ready meanwhile, and calls that all drop each other's bodies would nest
  // until the stack is full (Bun 1.4.5, 2026-11).
  const cancel = () => void setImmediate(() => void reader.cancel().catch(() => undefined))
  budget.begin(room, performance.now(), (why) => {
    givenUp = why
    // Ends the read that is under way; Bun drops the rest of the body.
    cancel()
  })
  let refusal: ApiError | undefined
  try {
    // A read that is not waited for would reject unhandled when the connection breaks: none begins unless it is needed.
    for (;;) {
      const piece = await reader.read()
      if (givenUp) return givenUpError(givenUp)
      if (piece.done) break
      refusal = take(piece.value, pages, room, budget)
      // A body without a length may have ended with this piece: then it is complete, and is not compared.
      if (refusal?.code === 'body_dropped' && room.bytesDeclared === null && (await isOver(reader, budget))) {
        refusal = complete(pages, room, budget)
        break
      }
      if (refusal || pages.length === room.bytesDeclared) break
    }
  } catch {
    return givenUp ? givenUpError(givenUp) : brokeOff()
  } finally {
    budget.finish(room)
  }
  if (refusal) {
    cancel()
    return refusal
  }
  if (room.bytesDeclared !== null && pages.length !== room.bytesDeclared) return brokeOff()
  const body = pages.join()
  budget.free(room, pages.length)
  return { kind: 'read', body }
}

function take(bytes: Uint8Array, pages: Pages, room: Room, budget: BodyBudget): ApiError | undefined {
  const { bounds, bytesDeclared } = room
  if (pages.length + bytes.byteLength > bounds.bytesMax) return tooLong(bounds)
  pages.add(bytes)
  if (pages.length === bytesDeclared) return complete(pages, room, budget)
  const nowMs = performance.now()
  budget.progress(room, bytes.byteLength, nowMs)
  return budget.grow(room, pages.held, nowMs) ? undefined : dropped()
}

/** Charges a body whose bytes are all here. It can no longer be evicted. */
function complete(pages: Pages, room: Room, budget: BodyBudget): ApiError | undefined {
  budget.finish(room)
  return budget.grow(room, pages.held, performance.now()) ? undefined : overloaded()
}

/** Returns whether a stream has already ended; one that has not must be cancelled then. */
async function isOver(reader: Reader, { turns }: BodyBudget): Promise<boolean> {
  const next = reader.read().catch(() => undefined)
  const now = await Promise.race([next, turns.next()])
  return now !== undefined && now.done
}

function brokeOff(): ApiError {
  return apiError('invalid_request', 'The body broke off')
}

/** The rest of such a body is still on its way, so its connection cannot carry another request. */
const ending = { Connection: 'close' }

function givenUpError(why: GivenUp): ApiError {
  return why === 'evicted' ? dropped() : apiError('invalid_request', 'The body was sent too slowly', ending)
}

function tooLong({ tooLong: code, bytesMax }: BodyBounds): ApiError {
  const what = code === 'body_too_large' ? 'body' : 'request'
  return apiError(code, `The ${what} must not be longer than ${bytesMax} bytes`, ending)
}

function overloaded(): ApiError {
  return apiError('overloaded', undefined, { 'Retry-After': '1' })
}

function dropped(): ApiError {
  return apiError('body_dropped', undefined, { 'Retry-After': '1', ...ending })
}

function notUtf8(): ApiError {
  return apiError('invalid_request', 'The body must be UTF-8 without byte order mark')
}

const byteOrderMark = '\ufeff'
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A JSON text with the value it means. */
export type JsonBody = { readonly kind: 'json'; readonly text: string; readonly value: unknown } | ApiError

/** Takes a body for JSON in UTF-8 (RFC 8259), at most `jsonDepthMax` levels deep; anything else is 400. */
export function parseJson(body: Uint8Array): JsonBody {
  const text = decode(body)
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
export function parseJsonObject(body: Uint8Array): JsonObject {
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
