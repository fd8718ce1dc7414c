import { type ReadBytes, readUpTo } from './bytes.ts'
import { Guard, type GuardedRequest, type IdempotencyOptions, operationOf } from './guard.ts'
import type { Latchkey } from './latchkey.ts'
import { takeNothingHappened } from './outcome.ts'
import { type CapturedResponse, hasNoBody, keepHeaders } from './stored-response.ts'

export { type IdempotencyOptions, type Operation, operationOf } from './guard.ts'

/** Request handler of the Fetch API, with any further arguments that the framework passes. */
export type FetchHandler<Rest extends readonly unknown[]> = (
  request: Request,
  ...rest: Rest
) => Response | Promise<Response>

/**
 * Wraps a handler of the Fetch API, as Next.js route handlers, Elysia, Bun, Deno and edge runtimes call it, so that it runs at most once per
 * caller and `Idempotency-Key`. The body of the request must not have been read before.
 */
export function idempotent<Rest extends readonly unknown[]>(
  latchkey: Latchkey,
  options: IdempotencyOptions<readonly [request: Request, ...rest: Rest]> & {
    /** Pattern of the route, such as `/orders/:id/refunds`. Default: the path. */
    readonly route?: string
  },
  handler: FetchHandler<Rest>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const guard = new Guard<readonly [request: Request, ...rest: Rest]>(latchkey, options)
  return (request, ...rest) => {
    const args: readonly [request: Request, ...rest: Rest] = [request, ...rest]
    return respond(guard, guardedRequest(request, options.route, args), async () => handler(request, ...rest))
  }
}

/** The part of a context of Hono that is used. */
export interface HonoContext {
  readonly req: {
    readonly raw: Request
    readonly path: string
    readonly routePath: string
    arrayBuffer(): Promise<ArrayBuffer>
  }
  res: Response | undefined
  readonly error: Error | undefined
}

/**
 * Creates a middleware for Hono, for the handlers after it: `app.post('/charges', idempotency(latchkey, { principal }), handler)`. Use it
 * on the route, where the pattern is known. Middleware before it must read the body by `c.req`, not from `c.req.raw`.
 */
export function idempotency<Context extends HonoContext>(
  latchkey: Latchkey,
  options: IdempotencyOptions<readonly [context: Context]>,
): (context: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  const guard = new Guard(latchkey, options)
  return async (context, next) => {
    const { raw, path, routePath } = context.req
    // A middleware of several routes knows only its own pattern, so the path is used instead.
    const route = routePath.includes('*') ? path : routePath
    let hasRun = false
    const request = guardedRequest(raw, route, [context] as const)
    // Uses the body that Hono keeps if an earlier middleware has read it.
    const readBody = async (bytesMax: number) =>
      raw.bodyUsed ? within(await context.req.arrayBuffer(), bytesMax) : request.readBody(bytesMax)
    const response = await respond(guard, { ...request, readBody }, async () => {
      hasRun = true
      await next()
      // Checks `context.error`, because Hono turns an exception of the handler into a response.
      if (takeNothingHappened(context.error)) operationOf(raw)?.nothingHappened()
      return context.res as Response
    })
    return hasRun ? undefined : response
  }
}

function guardedRequest<Arguments extends readonly unknown[]>(
  request: Request,
  route: string | undefined,
  args: Arguments,
): GuardedRequest<Arguments> {
  const { pathname, search } = new URL(request.url)
  return {
    method: request.method,
    keyHeader: request.headers.get('idempotency-key'),
    route: route ?? pathname,
    target: pathname + search,
    args,
    object: request,
    readBody: async (bytesMax) => {
      if (request.bodyUsed)
        throw new TypeError(
          'Latchkey: the body of the request was read before; put the idempotency middleware first',
        )
      // Reads a clone, because the handler reads the request itself, whatever its class.
      return readUpTo(request.clone().body, bytesMax)
    },
  }
}

function within(buffer: ArrayBuffer, bytesMax: number): ReadBytes {
  return buffer.byteLength > bytesMax ? { kind: 'beyond' } : { kind: 'whole', bytes: new Uint8Array(buffer) }
}

async function respond<Arguments extends readonly unknown[]>(
  guard: Guard<Arguments>,
  request: GuardedRequest<Arguments>,
  handle: () => Promise<Response>,
): Promise<Response> {
  let response: Response | undefined
  const guarded = await guard.run(request, async () => {
    response = await handle()
    return capture(response, guard, request.route)
  })
  if (guarded.kind === 'unguarded') return handle()
  if (guarded.kind === 'answer') return responseOf(guarded.response)
  return response as Response
}

/** Reads a copy of the response, so that the response itself reaches the caller unchanged. */
async function capture(
  response: Response,
  guard: Pick<Guard<readonly unknown[]>, 'responseBytesMax' | 'headersKept'>,
  route: string,
): Promise<CapturedResponse> {
  const { status, headers } = response
  if (/^text\/event-stream\b/i.test(headers.get('content-type') ?? '')) {
    await response.body?.cancel()
    throw new TypeError(`Latchkey: ${route} answers with an event stream, which cannot be replayed`)
  }
  const body = await readUpTo(response.clone().body, guard.responseBytesMax)
  const kept = keepHeaders(headers, guard.headersKept)
  return { status, headers: kept, body: body.kind === 'whole' ? body.bytes : undefined }
}

function responseOf({ status, headers, body }: CapturedResponse): Response {
  const content = hasNoBody(status) || body === undefined ? null : (body as Uint8Array<ArrayBuffer>)
  return new Response(content, { status, headers })
}
