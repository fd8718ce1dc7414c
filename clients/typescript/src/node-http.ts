import { concatBytes, encodeText, type ReadBytes } from './bytes.ts'
import { canonicalJson } from './fingerprint.ts'

/** The part of a request of `node:http` that is used. */
export interface NodeMessage {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** True once the whole message has been received. */
  readonly complete: boolean
  readonly readableEnded: boolean
  read(): unknown
  unshift(chunk: Uint8Array): unknown
  on(event: string, listener: (error?: unknown) => void): unknown
  off(event: string, listener: (error?: unknown) => void): unknown
}

/** Request whose body a parser may have replaced by its result. */
export interface NodeRequest extends NodeMessage {
  readonly body?: unknown
}

/**
 * Returns the body of a request: from an earlier parser, or else from the stream. Puts the bytes back into the stream, so that a later
 * parser or handler reads them as usual.
 * @throws if the caller hangs up
 */
export async function readNodeBody(request: NodeRequest, bytesMax: number): Promise<ReadBytes> {
  if (request.readableEnded) return parsedBody(request.body, bytesMax)
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  if (encoding === undefined && (length === undefined || length === '0'))
    return { kind: 'whole', bytes: new Uint8Array() }
  if (Number(length ?? 0) > bytesMax) return { kind: 'beyond' }
  const parts: Uint8Array[] = []
  for (let size = 0; ; ) {
    for (let part = request.read(); part !== null; part = request.read()) {
      const bytes = bytesOf(part)
      parts.push(bytes)
      size += bytes.byteLength
    }
    if (size > bytesMax) return { kind: 'beyond' }
    if (request.complete) {
      const bytes = concatBytes(parts)
      // Puts the bytes back in the same tick, since a stream that stays empty for a tick ends.
      if (size > 0) request.unshift(bytes)
      return { kind: 'whole', bytes }
    }
    await readable(request)
  }
}

/** Returns the bytes of a body. @throws if a parser has read it and kept only its result, or the caller hangs up */
export async function readUnparsedBody(request: NodeRequest, bytesMax: number): Promise<ReadBytes> {
  const { readableEnded, body } = request
  if (readableEnded && body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array))
    throw new TypeError('Latchkey: a parser has read the body before the receiver, which needs its bytes')
  return readNodeBody(request, bytesMax)
}

/** Returns the bytes that a parser has kept, or else the JSON text of its result. */
export function parsedBody(body: unknown, bytesMax: number): ReadBytes {
  const bytes = body === undefined ? new Uint8Array() : bytesOf(body)
  return bytes.byteLength > bytesMax ? { kind: 'beyond' } : { kind: 'whole', bytes }
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value
  return encodeText(typeof value === 'string' ? value : canonicalJson(value))
}

function readable(request: NodeRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    const events = ['readable', 'end', 'error', 'aborted', 'close'] as const
    const stop = () => {
      for (const event of events) request.off(event, listeners[event])
    }
    const more = () => {
      stop()
      resolve()
    }
    const fail = (cause?: unknown) => {
      stop()
      reject(new Error('The caller hung up before its request was complete', { cause }))
    }
    const listeners = { readable: more, end: more, error: fail, aborted: fail, close: fail }
    for (const event of events) request.on(event, listeners[event])
  })
}
