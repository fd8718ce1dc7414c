import { Elysia } from 'elysia'
import { type ApiError, apiError, errorEnvelope, statusOf } from '#internal/base/index.ts'
import { type Body, type BodyBudget, readBody } from './body.ts'
import { allowedMethods } from './methods.ts'
import { createRequestIds } from './request-id.ts'
import type { Answer, Route } from './route.ts'

/** What is known of a request when it has been answered: one wide log line's worth, and nothing secret. */
export interface RequestEvent {
  readonly requestId: string
  readonly method: string
  /** The route's path with its parameters unfilled, or `unknown`. */
  readonly route: string
  readonly status: number
  /** An outcome of the handler, or an error's code. */
  readonly outcome: string
  readonly durationMs: number
  /** Whoever the API key belongs to, as `nameOf` says it. */
  readonly tenant?: string | undefined
}

/** What a public server is made of. */
export interface ServerOptions<Principal, Scope extends string> {
  readonly routes: readonly Route<Principal, Scope>[]
  /** Tells who calls, from the Authorization header, or refuses. Decided before a body is read. */
  authorize(authorization: string | null, scope: Scope): Principal | ApiError
  /** A principal's name for the log. */
  nameOf(principal: Principal): string
  /** Turns what a handler threw into an answer, or undefined for a bug. */
  explain(error: unknown): ApiError | undefined
  /** `cause` is a bug's error, or what the store said; never sent to the caller. */
  onAnswered(event: RequestEvent, cause: unknown): void
  /** Runs a handler inside a trace span; absent when traces are off. */
  readonly traced?: Traced
  readonly budget: BodyBudget
}

/** Runs `work` inside a span that continues the caller's `traceparent`. */
export type Traced = <T>(name: string, traceparent: string | null, work: () => Promise<T>) => Promise<T>

const idleTimeoutSeconds = 30
/**
 * Each route's own bound answers with the envelope where Bun would send a bare 413. What no route reads, Bun does not keep:
 * 200 MiB sent to a handler that reads nothing took 2 MB of memory (Bun 1.4.5, 2026-11).
 */
const noBound = Number.MAX_SAFE_INTEGER

/** Builds the Elysia app of a route table. It does not listen yet. */
export function createServer<Principal, Scope extends string>(options: ServerOptions<Principal, Scope>) {
  const nextRequestId = createRequestIds()
  const app = new Elysia({
    // Two processes must not share a port without knowing it, hence no reusePort.
    serve: { idleTimeout: idleTimeoutSeconds, maxRequestBodySize: noBound, reusePort: false },
  })
  // Before the routes, since it holds for those that come after it only: Elysia's own would send the error's message.
  app.onError(({ code, error, request }) => {
    const unknown = code === 'NOT_FOUND'
    const result = unknown ? unknownRoute(options.routes, request) : apiError('internal')
    const finished: Finished = {
      request,
      requestId: nextRequestId(request),
      route: 'unknown',
      startedAt: performance.now(),
      ...(!unknown && { cause: error }),
    }
    return respond(options, finished, result)
  })
  for (const route of options.routes) {
    app.route(
      route.method,
      route.path,
      ({ request }) => answerRoute(options, route, request, nextRequestId(request)),
      {
        // Handlers take the bytes as they came: what is parsed, and how far it is read, is theirs to say.
        parse: 'none',
      },
    )
  }
  return app
}

function answerRoute<Principal, Scope extends string>(
  options: ServerOptions<Principal, Scope>,
  route: Route<Principal, Scope>,
  request: Request,
  requestId: string,
): Promise<Response> {
  const { traced } = options
  if (!traced) return serve(options, route, request, requestId)
  const name = `${route.method} ${route.path}`
  return traced(name, request.headers.get('traceparent'), () => serve(options, route, request, requestId))
}

/**
 * Access, then the body, then the handler: each step may end the call. One async function for all of it, since each one more
 * is felt by every request.
 */
async function serve<Principal, Scope extends string>(
  options: ServerOptions<Principal, Scope>,
  route: Route<Principal, Scope>,
  request: Request,
  requestId: string,
): Promise<Response> {
  const finished: Finished = { request, requestId, route: route.path, startedAt: performance.now() }
  try {
    if (route.access === 'public') {
      const body = await bodyOf(options, route, request, 'anybody')
      if (body.kind === 'error') return respond(options, finished, body)
      return respond(options, finished, await route.handle({ request, requestId, body: body.body }))
    }
    const principal = options.authorize(request.headers.get('authorization'), route.access.scope)
    if (isError(principal)) return respond(options, finished, principal)
    finished.tenant = options.nameOf(principal)
    const body = route.bodyBytesMax === 0 ? noBody : await bodyOf(options, route, request, finished.tenant)
    if (body.kind === 'error') return respond(options, finished, body)
    return respond(options, finished, await route.handle({ request, requestId, body: body.body }, principal))
  } catch (cause) {
    finished.cause = cause
    return respond(options, finished, options.explain(cause) ?? apiError('internal'))
  }
}

const noBody: Body = { kind: 'read', body: new Uint8Array() }

function bodyOf<Principal, Scope extends string>(
  options: ServerOptions<Principal, Scope>,
  route: Route<Principal, Scope>,
  request: Request,
  owner: string,
): Promise<Body> | Body {
  return route.bodyBytesMax === 0 ? noBody : readBody(request, route, options.budget, owner)
}

function isError(value: unknown): value is ApiError {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'error'
}

function unknownRoute<Principal, Scope extends string>(
  routes: readonly Route<Principal, Scope>[],
  request: Request,
): ApiError {
  const allowed = allowedMethods(routes, new URL(request.url).pathname)
  return allowed.length === 0
    ? apiError('route_unknown')
    : apiError('method_not_allowed', undefined, { Allow: allowed.join(', ') })
}

interface Finished {
  readonly request: Request
  readonly requestId: string
  readonly route: string
  readonly startedAt: number
  tenant?: string
  cause?: unknown
}

function respond<Principal, Scope extends string>(
  options: ServerOptions<Principal, Scope>,
  { request, requestId, route, startedAt, tenant, cause }: Finished,
  result: Answer | ApiError,
): Response {
  const failed = result.kind === 'error'
  const status = failed ? statusOf(result.code) : result.status
  const body = failed ? JSON.stringify(errorEnvelope(result, requestId)) : result.body
  const event: RequestEvent = {
    requestId,
    method: request.method,
    route,
    status,
    outcome: failed ? result.code : result.outcome,
    durationMs: Math.round((performance.now() - startedAt) * 1000) / 1000,
    tenant,
  }
  options.onAnswered(event, cause)
  const headers: Record<string, string> = {
    'Content-Type': 'application/json',
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
  }
  return new Response(body, {
    status,
    headers: result.headers ? Object.assign(headers, result.headers) : headers,
  })
}
