import { type ApiError, apiError, Deadlines } from '#internal/base/index.ts'

/** How long a caller may take to send a body. */
const defaultReadMsMax = 10_000

/** A body that was read whole, as bytes or as text, or why it was not. */
export type Body = { readonly kind: 'read'; readonly body: Uint8Array | string } | ApiError

/** A single owner gets this fraction of a budget, or one body. */
const ownersShare = 4

/** Memory and time that bodies being read may take in one process. */
export class BodyBudget {
  readonly deadlines: Deadlines
  readonly #bytesMax: number
  #bytes = 0
  readonly #owners = new Map<string, number>()

  constructor(bytesMax: number, readMsMax: number = defaultReadMsMax) {
    this.#bytesMax = bytesMax
    this.deadlines = new Deadlines(readMsMax)
  }

  /**
   * Takes `bytes` of the budget for an owner; false when it has no room, or when this owner has a quarter of it already:
   * one tenant's slow bodies must leave room for everybody else's.
   */
  take(bytes: number, owner: string): boolean {
    const owned = (this.#owners.get(owner) ?? 0) + bytes
    if (this.#bytes + bytes > this.#bytesMax || owned > Math.max(this.#bytesMax / ownersShare, bytes))
      return false
    this.#bytes += bytes
    this.#owners.set(owner, owned)
    return true
  }

  /** Gives back what `take` took. */
  give(bytes: number, owner: string): void {
    this.#bytes -= bytes
    const left = (this.#owners.get(owner) ?? 0) - bytes
    if (left > 0) this.#owners.set(owner, left)
    else this.#owners.delete(owner)
  }
}

/** How a route wants its body. */
export interface BodyBounds {
  readonly bodyBytesMax: number
  readonly bodyIsText?: boolean
}

/**
 * Reads a body within its bounds, for an owner whose share of the budget it takes. One that says it is longer is refused unread; one that does not say is counted.
 * @returns 400 for a body that is too long, compressed, broken off or sent too slowly, 503 when the budget has no room
 */
export function readBody(
  request: Request,
  { bodyBytesMax: bytesMax, bodyIsText = false }: BodyBounds,
  budget: BodyBudget,
  owner: string,
): Promise<Body> | ApiError {
  const encoding = request.headers.get('content-encoding')
  if (encoding !== null && encoding !== 'identity') {
    return apiError('invalid_request', 'Send the body without Content-Encoding')
  }
  const declared = request.headers.get('content-length')
  const bytes = declared === null ? bytesMax : Number(declared)
  if (!(bytes <= bytesMax)) return tooLong(bytesMax)
  if (!budget.take(bytes, owner)) return apiError('overloaded', undefined, { 'Retry-After': '1' })
  // Plain promises: an async function more on this path is felt by every request.
  const readWhole = bodyIsText ? readText : readBytes
  const reading = declared === null ? countBytes(request, bytesMax) : readWhole(request, bytes)
  return budget.deadlines.guard(reading, sentTooSlowly, () => budget.give(bytes, owner))
}

/** Text in which every wrong byte has become U+FFFD: with rare exceptions that makes it longer or shorter than declared. */
function readText(request: Request, bytesDeclared: number): Promise<Body> {
  return request
    .text()
    .then(
      (text) => (Buffer.byteLength(text) === bytesDeclared ? { kind: 'read', body: text } : notUtf8()),
      brokeOff,
    )
}

function notUtf8(): ApiError {
  return apiError('invalid_request', 'The body must be UTF-8')
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

function tooLong(bytesMax: number): ApiError {
  // The rest of the body is still on its way: the connection cannot carry another request.
  return apiError('invalid_request', `The request must not be longer than ${bytesMax} bytes`, {
    Connection: 'close',
  })
}

async function countBytes(request: Request, bytesMax: number): Promise<Body> {
  if (request.body === null) return { kind: 'read', body: new Uint8Array() }
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for await (const chunk of request.body) {
      length += chunk.byteLength
      if (length > bytesMax) return tooLong(bytesMax)
      chunks.push(chunk)
    }
  } catch {
    return brokeOff()
  }
  return { kind: 'read', body: Buffer.concat(chunks) }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A JSON text with the value it means. */
export type JsonBody = { readonly kind: 'json'; readonly text: string; readonly value: unknown } | ApiError

/** Takes a body for JSON in UTF-8 (RFC 8259); anything else is 400. */
export function parseJson(body: Uint8Array | string): JsonBody {
  const text = typeof body === 'string' ? body : decode(body)
  if (text === undefined) return notUtf8()
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
