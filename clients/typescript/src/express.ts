import { Guard, type IdempotencyOptions } from './guard.ts'
import type { Latchkey } from './latchkey.ts'
import { type NodeMessage, readNodeBody, readUnparsedBody } from './node-http.ts'
import { type NodeResponse, ResponseCapture, sendCaptured } from './node-response.ts'
import type { Receiver } from './webhooks.ts'

export { type IdempotencyOptions, type Operation, operationOf } from './guard.ts'

const lockSecondsDefault = 60

declare global {
  // oxlint-disable-next-line typescript/no-namespace -- as @types/express-serve-static-core declares it
  namespace Express {
    /** Requests of Express. Libraries such as passport add their members here. */
    interface Request {}
  }
}

/** Used part of a request of Express. It has no `body`, because TypeScript would give its type to the handler's `request.body`. */
export interface ExpressRequest extends NodeMessage, Express.Request {
  get(name: string): string | undefined
  readonly originalUrl: string
  readonly baseUrl: string
  readonly route?: { readonly path?: unknown } | undefined
}

type Next = (error?: unknown) => void

/**
 * Creates a middleware for Express 4 and 5, for the handlers after it: `app.post('/charges', idempotency(latchkey, { principal }), handler)`.
 * Use it on the route, where the pattern is known, after the middleware that identifies the caller. Body parsers may come before or after.
 */
export function idempotency<Req extends ExpressRequest>(
  latchkey: Latchkey,
  options: IdempotencyOptions<readonly [request: Req]>,
): (request: Req, response: NodeResponse, next: Next) => void {
  const guard = new Guard(latchkey, options)
  const hungUpMsMax = (options.lockSeconds ?? lockSecondsDefault) * 1000
  return (request, response, next) => void respond(guard, { request, response, next, hungUpMsMax })
}

interface Call<Req> {
  readonly request: Req
  readonly response: NodeResponse
  readonly next: Next
  readonly hungUpMsMax: number
}

/** Never rejects: exceptions before the handler go to `next`. */
async function respond<Req extends ExpressRequest>(
  guard: Guard<readonly [request: Req]>,
  { request, response, next, hungUpMsMax }: Call<Req>,
): Promise<void> {
  const { method = '', originalUrl, baseUrl, route, headers } = request
  const path =
    route?.path === undefined ? originalUrl.replace(/\?.*$/s, '') : `${baseUrl}${String(route.path)}`
  let capture: ResponseCapture | undefined
  try {
    const guarded = await guard.run(
      {
        method,
        route: path,
        target: originalUrl,
        args: [request] as const,
        object: request,
        keyHeader: headers['idempotency-key']?.toString(),
        readBody: (bytesMax) => readNodeBody(request, bytesMax),
      },
      () => {
        const { responseBytesMax: bytesMax, headersKept } = guard
        capture = new ResponseCapture(response, { bytesMax, headersKept, route: path, hungUpMsMax })
        next()
        return capture.captured
      },
    )
    if (guarded.kind === 'unguarded') next()
    else if (guarded.kind === 'answer') sendCaptured(response, guarded.response)
    else capture?.release()
  } catch (error) {
    // Lets a called handler respond, even if it still runs after its caller hung up. No error handler must respond instead.
    if (capture) capture.release()
    else if (!response.headersSent) next(error)
  }
}

/**
 * Adapts a receiver of webhooks to Express: `app.post('/webhooks', expressReceiver(receive))`. Use it before body parsers, or after
 * `express.raw`, since a signature covers the bytes of the body.
 */
export function expressReceiver(
  receive: Receiver,
): (request: NodeMessage, response: NodeResponse, next: Next) => void {
  return (request, response, next) => void deliver(receive, request, response).then(undefined, next)
}

async function deliver(receive: Receiver, request: NodeMessage, response: NodeResponse): Promise<void> {
  const delivered = await receive.deliver({
    header: (name) => request.headers[name]?.toString(),
    readBody: (bytesMax) => readUnparsedBody(request, bytesMax),
  })
  sendCaptured(response, { ...delivered, body: undefined })
}
