import { type ApiError, apiError } from '#internal/base/index.ts'
import type { BodyBudget, GivenUp, Holding } from './body-budget.ts'

export interface BodyBounds {
  readonly bytesMax: number
  readonly tooLong: 'invalid_request' | 'body_too_large'
}

/** Body that can be read. Its bytes stay charged on the budget until `free`. */
export interface IncomingBody extends Holding {
  readonly kind: 'incoming'
  readonly bounds: BodyBounds
}

/**
 * Checks the headers of a request before its body is read. Charges no bytes.
 * @returns 400 for a compressed body; 400 or 413 for a declared length over the limit
 */
export function checkBodyHeaders(
  request: Request,
  bounds: BodyBounds,
  { owner, sourceOf }: Pick<IncomingBody, 'owner' | 'sourceOf'>,
): IncomingBody | ApiError {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    return apiError('invalid_request', 'Send the body uncompressed, without Content-Encoding')
  }
  const declared = request.headers.get('content-length')
  const bytesDeclared = declared === null ? null : Number(declared)
  if (bytesDeclared !== null && !(bytesDeclared <= bounds.bytesMax)) return tooLong(bounds)
  return { kind: 'incoming', owner, sourceOf, bounds, bytesDeclared, bytes: 0, arrival: undefined }
}

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'>

/**
 * Reads a body and charges its bytes as they arrive. On success, exactly the length of the body stays charged; after an error the caller
 * must release the remaining charge.
 * @returns 400 for a body that is cut off or sent too slowly; 400 or 413 for a body that is too long; 503 `overloaded` for a complete body
 * without room in the budget; 503 `body_dropped` for an unfinished body without room, or for an evicted body
 */
export async function readBody(
  request: Request,
  incoming: IncomingBody,
  budget: BodyBudget,
): Promise<Uint8Array | ApiError> {
  // Most bodies arrive together with their head, and Bun has read them by the next iteration of the event loop.
  await budget.turns.next()
  const { bytesDeclared } = incoming
  if (bytesDeclared !== null && bytesDeclared <= budget.gatheredBytesMax) {
    // Reading the body whole costs 4 µs less than a stream (Bun 1.4.5, 2026-11), but does not report bytes as they arrive.
    const whole = request.arrayBuffer()
    const buffer = Bun.peek(whole)
    return buffer instanceof ArrayBuffer
      ? charge(buffer, incoming, budget)
      : waitForWhole(whole, incoming, budget)
  }
  const reader = request.body?.getReader()
  if (!reader) return charge(noBytes, incoming, budget)
  return readArriving(reader, incoming, budget)
}

const noBytes = new ArrayBuffer(0)

function charge(buffer: ArrayBuffer, incoming: IncomingBody, budget: BodyBudget): Uint8Array | ApiError {
  if (buffer.byteLength !== (incoming.bytesDeclared ?? 0)) return brokeOff()
  return budget.grow(incoming, buffer.byteLength, performance.now()) ? new Uint8Array(buffer) : overloaded()
}

/** Waits for a small body, which may be evicted. Charges its bytes only when it is complete; until then it shows no progress. */
function waitForWhole(
  whole: Promise<ArrayBuffer>,
  incoming: IncomingBody,
  budget: BodyBudget,
): Promise<Uint8Array | ApiError> {
  return new Promise((resolve) => {
    budget.begin(incoming, performance.now(), (why) => resolve(givenUpError(why)))
    const end = (result: () => Uint8Array | ApiError) => {
      // The body was aborted, so the error response was already sent.
      if (!incoming.arrival) return
      budget.finish(incoming)
      resolve(result())
    }
    whole.then(
      (buffer) => end(() => charge(buffer, incoming, budget)),
      () => end(brokeOff),
    )
  })
}

/**
 * Reads a body piece by piece. If the first piece has arrived and is the whole body, charges it without registering it as unfinished, which
 * takes half of the time. Any other body may be evicted while it arrives.
 */
async function readArriving(
  reader: Reader,
  incoming: IncomingBody,
  budget: BodyBudget,
): Promise<Uint8Array | ApiError> {
  let next = reader.read()
  if (Bun.peek.status(next) === 'fulfilled') {
    const { value } = await next
    if (value && value.byteLength === incoming.bytesDeclared)
      return budget.grow(incoming, value.byteLength, performance.now()) ? value : overloaded()
  }
  const pages = new Pages(incoming.bytesDeclared ?? incoming.bounds.bytesMax)
  let givenUp: GivenUp | undefined
  // Runs in its own iteration of the event loop, because `cancel` runs pending callbacks synchronously: calls of requests that drop each
  // other's bodies would nest until the stack overflows (Bun 1.4.5, 2026-11).
  const cancel = () => void setImmediate(() => void reader.cancel().catch(() => undefined))
  budget.begin(incoming, performance.now(), (why) => {
    givenUp = why
    // Bun drops the rest of the body.
    cancel()
  })
  let refusal: ApiError | undefined
  try {
    // Starts a read only when it is awaited. Otherwise a broken connection would cause an unhandled rejection.
    for (; ; next = reader.read()) {
      const piece = await next
      if (givenUp) return givenUpError(givenUp)
      if (piece.done) break
      refusal = take(piece.value, pages, incoming, budget)
      // A body without a declared length may end with this piece, and a complete body can get memory regardless of its progress.
      if (
        refusal?.code === 'body_dropped' &&
        incoming.bytesDeclared === null &&
        (await isOver(reader, budget))
      ) {
        refusal = complete(pages, incoming, budget)
        break
      }
      if (refusal || pages.length === incoming.bytesDeclared) break
    }
  } catch {
    return givenUp ? givenUpError(givenUp) : brokeOff()
  } finally {
    budget.finish(incoming)
  }
  if (refusal) {
    cancel()
    return refusal
  }
  if (incoming.bytesDeclared !== null && pages.length !== incoming.bytesDeclared) return brokeOff()
  const body = pages.join()
  budget.free(incoming, pages.length)
  return body
}

function take(
  bytes: Uint8Array,
  pages: Pages,
  incoming: IncomingBody,
  budget: BodyBudget,
): ApiError | undefined {
  const { bounds, bytesDeclared } = incoming
  if (pages.length + bytes.byteLength > bounds.bytesMax) return tooLong(bounds)
  pages.add(bytes)
  if (pages.length === bytesDeclared) return complete(pages, incoming, budget)
  const nowMs = performance.now()
  budget.progress(incoming, bytes.byteLength, nowMs)
  return budget.grow(incoming, pages.held, nowMs) ? undefined : dropped()
}

function complete(pages: Pages, incoming: IncomingBody, budget: BodyBudget): ApiError | undefined {
  budget.finish(incoming)
  return budget.grow(incoming, pages.held, performance.now()) ? undefined : overloaded()
}

/** Returns whether a stream has already ended. If not, the caller must cancel it. */
async function isOver(reader: Reader, { turns }: BodyBudget): Promise<boolean> {
  const next = reader.read().catch(() => undefined)
  const now = await Promise.race([next, turns.next()])
  return now !== undefined && now.done
}

function brokeOff(): ApiError {
  return apiError('invalid_request', 'The connection ended before the whole body had arrived')
}

/** Closes the connection, which cannot carry another request while the client still sends the rest of the body. */
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

const pageBytes = 16 * 1024
const firstPageBytes = 1024

/**
 * Stores bytes in the order of their arrival and collects small pieces in pages. Bun delivers each piece as the client sent it; without
 * pages, pieces of one byte would take a hundred times the memory of their bytes (Bun 1.4.5, 2026-11).
 */
export class Pages {
  readonly #full: Uint8Array[] = []
  #page = new Uint8Array(0)
  #pageUsed = 0
  readonly #bytesMax: number
  length = 0
  /** Allocated bytes: at most twice the stored length plus 1 KiB, and at most `bytesMax`. */
  held = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  add(bytes: Uint8Array): void {
    this.length += bytes.byteLength
    if (bytes.byteLength >= pageBytes) {
      this.#endPage()
      this.#full.push(bytes)
      this.held += bytes.byteLength
      return
    }
    const fitting = bytes.subarray(0, this.#page.byteLength - this.#pageUsed)
    this.#page.set(fitting, this.#pageUsed)
    this.#pageUsed += fitting.byteLength
    if (fitting.byteLength < bytes.byteLength) this.#beginPage(bytes.subarray(fitting.byteLength))
  }

  /** Copies the bytes unless they fit in one page. */
  join(): Uint8Array {
    this.#endPage()
    const [only] = this.#full
    return only && this.#full.length === 1 ? only : Buffer.concat(this.#full, this.length)
  }

  /** Doubles page sizes from 1 to 16 KiB, so that a body with few bytes takes little memory. */
  #beginPage(bytes: Uint8Array): void {
    this.#endPage()
    const left = this.#bytesMax - this.length + bytes.byteLength
    const size = Math.min(pageBytes, Math.max(firstPageBytes, this.length), left)
    this.#page = new Uint8Array(size)
    this.#page.set(bytes)
    this.#pageUsed = bytes.byteLength
    this.held += size
  }

  #endPage(): void {
    if (this.#pageUsed > 0) {
      this.held -= this.#page.byteLength - this.#pageUsed
      this.#full.push(
        this.#pageUsed === this.#page.byteLength ? this.#page : this.#page.slice(0, this.#pageUsed),
      )
    }
    this.#page = new Uint8Array(0)
    this.#pageUsed = 0
  }
}
