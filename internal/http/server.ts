import { Elysia } from 'elysia'
import { type ApiError, apiError, errorEnvelope, statusOf } from '#internal/base/index.ts'
import { type Room, readBody, roomFor } from './body.ts'
import { type Authority, type BodyBudgets, createEntry, type Entry } from './entry.ts'
import { allowedMethods } from './methods.ts'
import { refuseQuery } from './query.ts'
import { createRequestIds } from './request-id.ts'
import type { Answer, AnswerBody, Call, LogFields, Route } from './route.ts'

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
  /** Who called: as `nameOf` says it for an API key, or as the route itself does. */
  readonly tenant?: string | undefined
  /** What the route adds for the log. */
  readonly fields?: LogFields | undefined
  /** Any caller can cause this answer at will, without a key or a signing secret. Never set for a bug or a broken store. */
  readonly unverified?: true | undefined
}

/** What a public server is made of. */
export interface ServerOptions<Principal, Scope extends string> extends Authority<Principal, Scope>, Runtime {
  readonly routes: readonly Route<Principal, Scope>[]
  readonly budgets: BodyBudgets
}

/** What every call is served with. */
interface Runtime {
  /** Turns what a handler threw into an answer, or undefined for a bug. */
  explain(error: unknown): ApiError | undefined
  /** `cause` is a bug's error, or what the store said; never sent to the caller. */
  onAnswered(event: RequestEvent, cause: unknown): void
  /** How an error looks where people read it; undefined, or absent: as the envelope. Adds to the headers of the error. */
  present?(error: ApiError, request: Request, requestId: string): Shown | undefined
  /** Answers a `GET` of a path that no route has, where people read what they get; absent: as any other unknown path. */
  answerUnknown?(call: Call): Promise<Answer<AnswerBody> | ApiError>
  /** Whether this process is ending: then each answer ends its connection, so that the next call goes to another one. Absent: never. */
  isDraining?(): boolean
  /** Runs a handler inside a trace span; absent when traces are off. */
  readonly traced?: Traced
}

/** What of an answer the caller sees, beside its status. */
type Shown = Pick<Answer<AnswerBody>, 'body' | 'headers'>

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
    // A slash more at the end is another path, and unknown.
    strictPath: true,
    // Two processes must not share a port without knowing it, hence no reusePort.
    serve: { idleTimeout: idleTimeoutSeconds, maxRequestBodySize: noBound, reusePort: false },
  })
  // Before the routes, since it holds for those that come after it only: Elysia's own would send the error's message.
  app.onError(({ code, error, request }) => {
    const unknown = code === 'NOT_FOUND'
    const result = unknown ? unknownRoute(options.routes, request) : apiError('internal')
    const requestId = nextRequestId(request)
    const finished: Finished = {
      request,
      requestId,
      route: 'unknown',
      unverified: 'all',
      startedAt: performance.now(),
      ...(!unknown && { cause: error }),
    }
    if (result.code !== 'route_unknown' || request.method !== 'GET' || !options.answerUnknown)
      return respond(options, finished, result)
    const call = { request, requestId, params: noParams, body: noBytes }
    return serveUnknown(options, finished, { ...call, peerAddress: () => peerAddress(app.server, request) })
  })
  for (const route of options.routes) {
    const entry = createEntry(route, options, options.budgets)
    for (const path of pathsOf(entry)) {
      app.route(
        route.method,
        path,
        ({ request, params = noParams }) =>
          answerCall(options, entry, {
            request,
            requestId: nextRequestId(request),
            params,
            peerAddress: () => peerAddress(app.server, request),
            body: noBytes,
          }),
        {
          // Handlers take the bytes as they came: what is parsed, and how far it is read, is theirs to say.
          parse: 'none',
        },
      )
    }
  }
  return app
}

/** An empty parameter in the middle matches no `:name`: where malformed ones are admitted, such a path is registered as well. */
function pathsOf({ path, admitsMalformedParams }: Entry): string[] {
  const inTheMiddle = admitsMalformedParams ? (path.match(/:\w+(?=\/)/g) ?? []) : []
  return [path, ...inTheMiddle.map((name) => path.replace(name, ''))]
}

const noParams: Call['params'] = {}
const noBytes = new Uint8Array()

/** IPv4 as such, also where the socket listens for both families. */
function peerAddress(server: Pick<Bun.Server<unknown>, 'requestIP'> | null, request: Request): string | null {
  return server?.requestIP(request)?.address.replace(/^::ffff:(?=\d+\.)/i, '') ?? null
}

/** A call that is being served: its body comes late. */
type CallUnderWay = Omit<Call, 'body' | 'params'> & { body: Call['body']; params: Call['params'] }

function answerCall(runtime: Runtime, entry: Entry, call: CallUnderWay): Promise<Response> {
  const { traced } = runtime
  if (!traced) return serve(runtime, entry, call)
  const name = `${entry.method} ${entry.path}`
  return traced(name, call.request.headers.get('traceparent'), () => serve(runtime, entry, call))
}

/**
 * Access, then the body, then the handler: each step may end the call. One async function for all of it, since each one more
 * is felt by every request.
 */
async function serve(runtime: Runtime, entry: Entry, call: CallUnderWay): Promise<Response> {
  const { request, requestId } = call
  const { path: route, unverified } = entry
  const finished: Finished = { request, requestId, route, unverified, startedAt: performance.now() }
  let room: Room | undefined
  try {
    if (!areWellFormed(call.params)) {
      if (!entry.admitsMalformedParams) return respond(runtime, finished, apiError('route_unknown'))
      call.params = withoutMalformed(call.params)
    }
    const asked = entry.admit(call)
    // Most are decided from memory: nobody waits for those.
    const admission = asked instanceof Promise ? await asked : asked
    if (admission.kind !== 'admitted') return respond(runtime, finished, admission)
    const { admitted, tenant, owner = tenant ?? 'anybody', bounds } = admission
    finished.isAdmitted = true
    finished.tenant = tenant
    finished.fields = admission.log
    const refused = entry.refusesQuery ? refuseQuery(request.url) : undefined
    if (refused) return respond(runtime, finished, refused)
    if (bounds.bytesMax > 0) {
      const sourceOf = () => entry.sourceOf?.(call) ?? owner
      const made = roomFor(request, bounds, { owner, sourceOf })
      if (made.kind === 'error') return respond(runtime, finished, made)
      room = made
      const body = await readBody(request, room, entry.budget)
      if (body.kind === 'error') return respond(runtime, finished, body)
      call.body = body.body
    }
    return respond(runtime, finished, await entry.handle(call, admitted))
  } catch (cause) {
    finished.cause = cause
    return respond(runtime, finished, runtime.explain(cause) ?? apiError('internal'))
  } finally {
    if (room) entry.budget.free(room)
  }
}

const wellFormedParam = /^[^\p{Cc}\ufffd]{1,128}$/u

/** Bun puts U+FFFD where a path's percent-encoding is none of UTF-8. */
function areWellFormed(params: Call['params']): boolean {
  for (const name in params) {
    const value = params[name]
    if (value === undefined || !wellFormedParam.test(value)) return false
  }
  return true
}

function withoutMalformed(params: Call['params']): Call['params'] {
  const entries = Object.entries(params)
  return Object.fromEntries(entries.map(([name, value]) => [name, wellFormedParam.test(value) ? value : '']))
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

async function serveUnknown(runtime: Runtime, finished: Finished, call: Call): Promise<Response> {
  try {
    return respond(runtime, finished, (await runtime.answerUnknown?.(call)) ?? apiError('route_unknown'))
  } catch (cause) {
    finished.cause = cause
    return respond(runtime, finished, runtime.explain(cause) ?? apiError('internal'))
  }
}

interface Finished {
  readonly request: Request
  readonly requestId: string
  readonly route: string
  readonly startedAt: number
  readonly unverified: Entry['unverified']
  isAdmitted?: true
  tenant?: string | undefined
  fields?: LogFields | undefined
  cause?: unknown
}

function respond(runtime: Runtime, finished: Finished, result: Answer<AnswerBody> | ApiError): Response {
  const { request, requestId, route, startedAt, tenant, cause } = finished
  const failed = result.kind === 'error'
  const status = failed ? statusOf(result.code) : result.status
  const shown = failed ? showError(runtime, result, finished) : result
  const outcome = failed ? result.code : result.outcome
  const event: RequestEvent = {
    requestId,
    method: request.method,
    route,
    status,
    outcome,
    durationMs: Math.round((performance.now() - startedAt) * 1000) / 1000,
    tenant,
    fields: failed ? finished.fields : joined(finished.fields, result.log),
    unverified: isUnverified(finished, outcome) || undefined,
  }
  runtime.onAnswered(event, cause)
  // Given as one object that is there already, the headers cost half of what a new object's do.
  const response = new Response(shown.body, { status, headers: commonHeaders })
  response.headers.set('X-Request-Id', requestId)
  if (runtime.isDraining?.()) response.headers.set('Connection', 'close')
  for (const name in shown.headers) response.headers.set(name, shown.headers[name] ?? '')
  return response
}

function isUnverified({ unverified, isAdmitted, cause }: Finished, outcome: string): boolean {
  if (cause !== undefined) return false
  if (unverified === 'all') return true
  return unverified === 'until admitted' ? !isAdmitted : unverified.has(outcome)
}

function showError(runtime: Runtime, error: ApiError, { request, requestId }: Finished): Shown {
  const presented = runtime.present?.(error, request, requestId)
  if (presented) return { body: presented.body, headers: { ...error.headers, ...presented.headers } }
  const body = JSON.stringify(errorEnvelope(error, requestId))
  return error.headers ? { body, headers: error.headers } : { body }
}

const commonHeaders = new Headers({ 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })

function joined(some: LogFields | undefined, more: LogFields | undefined): LogFields | undefined {
  return some && more ? { ...some, ...more } : (some ?? more)
}
