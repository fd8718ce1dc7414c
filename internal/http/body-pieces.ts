import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Body, Room } from './body.ts'
import { type BodyBudget, isTooSlow } from './body-budget.ts'

/** Room is taken, and memory used, in steps of this. */
const pageBytes = 16 * 1024

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read'>
type Piece = Awaited<ReturnType<Reader['read']>>

/**
 * Reads a body piece by piece and takes room for what has come, so that bytes that never come hold nothing. Ends with room
 * taken for the body as it is; after an error the room is still the caller's to free.
 * @returns 400 for a body that breaks off or comes too slowly; 400 or 413 for one too long; 503 when the budget has no room left
 */
export async function readPieces(request: Request, room: Room, budget: BodyBudget): Promise<Body> {
  const pages = new Pages()
  const reader = request.body?.getReader()
  const refusal = reader && (await readInto(pages, reader, room, budget))
  if (refusal) {
    // Nobody reads the rest: Bun drops it.
    reader?.cancel().catch(() => undefined)
    return refusal
  }
  if (room.bytesDeclared !== null && pages.length !== room.bytesDeclared) return brokeOff()
  budget.free(room, pages.length)
  return { kind: 'read', body: pages.join() }
}

async function readInto(
  pages: Pages,
  reader: Reader,
  room: Room,
  budget: BodyBudget,
): Promise<ApiError | undefined> {
  const { bytesMax } = room.bounds
  const startedAt = performance.now()
  try {
    // Ends with the body, which is bounded in length and in time.
    for (;;) {
      const piece = await budget.pauses.guard<Piece | undefined>(reader.read(), () => undefined)
      if (!piece) return sentTooSlowly()
      if (piece.done) return undefined
      const length = pages.length + piece.value.byteLength
      if (length > bytesMax) return tooLong(room.bounds)
      const pagesBytes = Math.ceil(length / pageBytes) * pageBytes
      if (!budget.grow(room, Math.min(pagesBytes, room.bytesDeclared ?? bytesMax))) return noRoomLeft()
      pages.add(piece.value)
      if (isTooSlow(budget.pace, length, performance.now() - startedAt)) return sentTooSlowly()
    }
  } catch {
    return brokeOff()
  }
}

/**
 * Bytes as they came, small pieces gathered in pages. Bun hands on each piece as the caller cut it: kept like that, pieces of a
 * byte take a hundred times the memory of their bytes (Bun 1.4.5, 2026-11).
 */
class Pages {
  readonly #full: Uint8Array[] = []
  #page: Uint8Array | undefined
  #pageUsed = 0
  length = 0

  add(bytes: Uint8Array): void {
    this.length += bytes.byteLength
    if (this.#pageUsed + bytes.byteLength > pageBytes) this.#endPage()
    if (bytes.byteLength >= pageBytes) {
      this.#full.push(bytes)
      return
    }
    this.#page ??= new Uint8Array(pageBytes)
    this.#page.set(bytes, this.#pageUsed)
    this.#pageUsed += bytes.byteLength
  }

  join(): Uint8Array {
    this.#endPage()
    return Buffer.concat(this.#full, this.length)
  }

  /** Keeps no more of a page than is used, so that what is held is what came. */
  #endPage(): void {
    if (this.#page) this.#full.push(this.#page.slice(0, this.#pageUsed))
    this.#page = undefined
    this.#pageUsed = 0
  }
}

/** The answer to a body that ends before its length. */
export function brokeOff(): ApiError {
  return apiError('invalid_request', 'The body broke off')
}

/** The answer to a body that took too long; the rest of it is still on its way. */
export function sentTooSlowly(): ApiError {
  return apiError('invalid_request', 'The body was sent too slowly', { Connection: 'close' })
}

/** The answer to a body over its bound. */
export function tooLong({ tooLong: code, bytesMax }: Room['bounds']): ApiError {
  const what = code === 'body_too_large' ? 'body' : 'request'
  // The rest of the body is still on its way: the connection cannot carry another request.
  return apiError(code, `The ${what} must not be longer than ${bytesMax} bytes`, { Connection: 'close' })
}

function noRoomLeft(): ApiError {
  return apiError('overloaded', undefined, { 'Retry-After': '1', Connection: 'close' })
}
