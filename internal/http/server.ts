import { Elysia } from 'elysia'
import {
  type ApiError,
  apiError,
  type ErrorCode,
  errorCodes,
  errorEnvelope,
  errorPageName,
  isApiError,
  randomToken,
  statusOf,
} from '#internal/base/index.ts'
import type { Tracing } from '#internal/telemetry/index.ts'
import { type BodyBounds, checkBodyHeaders, type IncomingBody, readBody } from './body.ts'
import { refuseQuery } from './parse.ts'
import type {
  Admitted,
  AdmittingRoute,
  Answer,
  AnswerBody,
  Authority,
  BodyBudgets,
  Call,
  GuardedRoute,
  Head,
  LetIn,
  LogFields,
  PublicRoute,
  Route,
  ServedRoute,
  SizedRouteShape,
} from './route.ts'

/** Finished request, for its log line and its metrics. Contains no secrets. */
export interface RequestEvent {
  readonly requestId: string
  readonly method: string
  /** Pattern of the path, or `unknown`. */
  readonly route: string
  readonly status: number
  /** Outcome from the handler, or the code of the error. */
  readonly outcome: string
  readonly durationMs: number
  /** Tenant by API key or by the route. */
  readonly tenant?: string | undefined
  readonly fields?: LogFields | undefined
  /** Marks a response that any caller can cause without a key or a signing secret. Never set for a bug or an unavailable store. */
  readonly unverified?: true | undefined
}

/** Options of a server. */
export interface ServerOptions<Principal, Scope extends string> extends Authority<Principal, Scope>, Runtime {
  readonly routes: readonly Route<Principal, Scope>[]
  readonly budgets: BodyBudgets
}

interface Runtime {
  /** Returns the error to send for an exception of a handler, or undefined for a bug. */
  explain(error: unknown): ApiError | undefined
  /** Called for each response. `cause` is the exception that caused an error; it is never sent to the caller. */
  onAnswered(event: RequestEvent, cause: unknown): void
  /** Renders an error as a page for a browser, and can add headers. Absent or undefined: the JSON envelope. */
  present?(error: ApiError, request: Request, requestId: string): Shown | undefined
  /** Handles a `GET` of an unknown path, for browsers. Absent or undefined: 404, as for any other method. */
  answerUnknown?(call: Call): Promise<Answer<AnswerBody> | ApiError | undefined>
  /** Path of the OpenAPI document of this port, which the 404 of an unknown path names. */
  readonly documentPath?: string
  /** Value of the header `Link` for an error, see `createErrorLinks`. Absent or undefined: no link. */
  readonly errorLink?: ((code: ErrorCode) => string | undefined) | undefined
  /** True while the process shuts down. Responses then close their connections, so that the next requests reach another process. */
  isDraining?(): boolean
  /** Runs each request in a span that continues the caller's `traceparent`. */
  readonly tracing?: Pick<Tracing, 'enabled' | 'span'>
}

type Shown = Pick<Answer<AnswerBody>, 'body' | 'headers'>

const idleTimeoutSeconds = 30
/**
 * Disables Bun's own limit, because Bun would send 413 without a body. The server enforces the limit of each route and sends the error
 * envelope. Bun does not buffer a body that no handler reads: 200 MiB sent to such a handler took 2 MB of memory (Bun 1.4.5, 2026-11).
 */
const noBound = Number.MAX_SAFE_INTEGER

/** Creates the Elysia app of a route table, without listening. README.md explains why access is not an Elysia macro. */
export function createServer<Principal, Scope extends string>(options: ServerOptions<Principal, Scope>) {
  const nextRequestId = createRequestIds()
  const app = new Elysia({
    // A path with a trailing slash is a different, unknown path.
    strictPath: true,
    // Two processes must not share a port unnoticed.
    serve: { idleTimeout: idleTimeoutSeconds, maxRequestBodySize: noBound, reusePort: false },
  })
  // Applies only to routes registered later. Elysia's default handler would send the message of the error to the caller.
  app.onError(({ code, error, request }) => {
    const unknown = code === 'NOT_FOUND'
    const result = unknown ? unmatched(options, request) : apiError('internal')
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
    const served = createServedRoute(route, options, options.budgets)
    for (const path of pathsOf(served)) {
      app.route(
        route.method,
        path,
        ({ request, params = noParams }) =>
          answerCall(options, served, {
            request,
            requestId: nextRequestId(request),
            params,
            peerAddress: () => peerAddress(app.server, request),
          }),
        {
          // Elysia must not parse the body, because `serve` authorizes the request before it reads the body.
          parse: 'none',
        },
      )
    }
  }
  return app
}

/** Adds paths with an empty segment, which `:name` does not match, for routes that admit malformed parameters. */
function pathsOf({ path, admitsMalformedParams }: ServedRoute): string[] {
  const inTheMiddle = admitsMalformedParams ? (path.match(/:\w+(?=\/)/g) ?? []) : []
  return [path, ...inTheMiddle.map((name) => path.replace(name, ''))]
}

const noParams: Call['params'] = {}
const noBytes: Uint8Array = new Uint8Array()

/** Removes the IPv6 prefix that a dual-stack socket adds to IPv4 addresses. */
function peerAddress(server: Pick<Bun.Server<unknown>, 'requestIP'> | null, request: Request): string | null {
  return server?.requestIP(request)?.address.replace(/^::ffff:(?=\d+\.)/i, '') ?? null
}

function answerCall(runtime: Runtime, served: ServedRoute, head: Head): Promise<Response> {
  const { tracing } = runtime
  if (!tracing?.enabled) return serve(runtime, served, head)
  const traceparent = head.request.headers.get('traceparent')
  const name = `${served.method} ${served.path}`
  return tracing.span(name, { kind: 'server', traceparent }, () => serve(runtime, served, head))
}

/** Authorizes a request, reads its query and body, and calls the handler: in one function, because each async call costs time. */
async function serve(runtime: Runtime, served: ServedRoute, received: Head): Promise<Response> {
  const { request, requestId } = received
  const { path: route, unverified } = served
  const finished: Finished = { request, requestId, route, unverified, startedAt: performance.now() }
  let incoming: IncomingBody | undefined
  try {
    const isWellFormed = areWellFormed(received.params)
    if (!isWellFormed && !served.admitsMalformedParams)
      return respond(runtime, finished, routeUnknown(runtime.documentPath))
    const head = isWellFormed ? received : { ...received, params: withoutMalformed(received.params) }
    const admitting = served.admit(head)
    // Awaits only a promise, because most requests are authorized from memory and `await` would cost time.
    const admission = admitting instanceof Promise ? await admitting : admitting
    if (admission.kind !== 'admitted') return respond(runtime, finished, admission)
    const { admitted, tenant, owner = tenant ?? 'anonymous', bounds } = admission
    finished.isAdmitted = true
    finished.tenant = tenant
    finished.fields = admission.log
    const refused = served.refusesQuery ? refuseQuery(request.url) : undefined
    if (refused) return respond(runtime, finished, refused)
    let body = noBytes
    if (bounds.bytesMax > 0) {
      const sourceOf = () => served.sourceOf?.(head) ?? owner
      const made = checkBodyHeaders(request, bounds, { owner, sourceOf })
      if (made.kind === 'error') return respond(runtime, finished, made)
      incoming = made
      const read = await readBody(request, incoming, served.budget)
      if (isApiError(read)) return respond(runtime, finished, read)
      body = read
    }
    return respond(runtime, finished, await served.handle({ ...head, body }, admitted))
  } catch (cause) {
    finished.cause = cause
    return respond(runtime, finished, runtime.explain(cause) ?? apiError('internal'))
  } finally {
    if (incoming) served.budget.free(incoming)
  }
}

const wellFormedParam = /^[^\p{Cc}\ufffd]{1,128}$/u

/** Returns whether all path parameters are well-formed. U+FFFD is not, because Bun decodes invalid UTF-8 to it. */
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

function unmatched<Principal, Scope extends string>(
  options: ServerOptions<Principal, Scope>,
  request: Request,
): ApiError {
  const allowed = allowedMethods(options.routes, new URL(request.url).pathname)
  return allowed.length === 0
    ? routeUnknown(options.documentPath)
    : apiError('method_not_allowed', undefined, { Allow: allowed.join(', ') })
}

/** Error for a path without a route. @param documentPath path of the document of the port's API, if it has one */
export function routeUnknown(documentPath?: string): ApiError {
  if (documentPath === undefined) return apiError('route_unknown')
  return apiError('route_unknown', `This port has no such route: GET ${documentPath} lists its routes`)
}

async function serveUnknown(runtime: Runtime, finished: Finished, call: Call): Promise<Response> {
  try {
    return respond(
      runtime,
      finished,
      (await runtime.answerUnknown?.(call)) ?? routeUnknown(runtime.documentPath),
    )
  } catch (cause) {
    finished.cause = cause
    return respond(runtime, finished, runtime.explain(cause) ?? apiError('internal'))
  }
}

/**
 * Creates the values of the header `Link` (RFC 8288) that lead to the pages of errors, once per process.
 * @param docsUrl address of the documentation, absolute or a path, without a trailing slash
 */
export function createErrorLinks(docsUrl: string): (code: ErrorCode) => string {
  const linkOf = (code: ErrorCode) => `<${docsUrl}/reference/errors/${errorPageName(code)}>; rel="help"`
  const links = new Map(errorCodes.map((code) => [code, linkOf(code)]))
  return (code) => links.get(code) ?? linkOf(code)
}

interface Finished {
  readonly request: Request
  readonly requestId: string
  readonly route: string
  readonly startedAt: number
  readonly unverified: ServedRoute['unverified']
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
  // Passes a shared Headers object, which costs half as much as a new object literal.
  const response = new Response(shown.body, { status, headers: commonHeaders })
  response.headers.set('X-Request-Id', requestId)
  if (runtime.isDraining?.()) response.headers.set('Connection', 'close')
  for (const name in shown.headers) response.headers.set(name, shown.headers[name] ?? '')
  const explained = failed ? result.code : result.explainedAs
  const link = explained === undefined ? undefined : runtime.errorLink?.(explained)
  if (link !== undefined) response.headers.set('Link', link)
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

const requestIdForm = /^[\w.:-]{1,128}$/

/** Creates a function that returns an `X-Request-Id` of 1–128 letters, digits or `_ . : -`, otherwise a new id, unique across processes. */
export function createRequestIds(): (request: Request) => string {
  const prefix = randomToken(9)
  let count = 0
  return (request) => {
    const given = request.headers.get('x-request-id')
    if (given !== null && requestIdForm.test(given)) return given
    count += 1
    return `${prefix}-${count.toString(36)}`
  }
}

/** Methods of a path for the Allow header, with HEAD for each GET. Empty if no route has this path. */
export function allowedMethods(
  routes: readonly { readonly method: string; readonly path: string }[],
  pathname: string,
): readonly string[] {
  const segments = pathname.split('/')
  const methods = routes
    .filter((route) => matches(route.path.split('/'), segments))
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  // Removes duplicates: a literal path and a path with a parameter can match with the same method.
  return [...new Set(methods)]
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*'
  if (isOpen ? segments.length < pattern.length : segments.length !== pattern.length) return false
  return pattern.every(
    (part, index) =>
      part === '*' || (part.startsWith(':') ? segments[index] !== '' : part === segments[index]),
  )
}

function createServedRoute<Principal, Scope extends string>(
  route: Route<Principal, Scope>,
  authority: Authority<Principal, Scope>,
  budgets: BodyBudgets,
): ServedRoute {
  const { keyed, anonymous } = budgets
  if (isPublic(route)) {
    const admission: LetIn = { kind: 'admitted', admitted: undefined, bounds: boundsOf(route) }
    return { ...sized(route), budget: anonymous, unverified: 'all', admit: () => admission }
  }
  if (!('scope' in route.access)) return createAdmittingRoute(route as AdmittingRoute<unknown>, budgets)
  const guarded = route as GuardedRoute<Principal, Scope>
  const { scope } = guarded.access
  const bounds = boundsOf(guarded)
  return {
    ...sized(guarded),
    budget: keyed,
    unverified: 'until admitted',
    admit({ request }) {
      const principal = authority.authorize(request.headers.get('authorization'), scope)
      if (isApiError(principal)) return principal
      return { kind: 'admitted', admitted: principal, tenant: authority.nameOf(principal), bounds }
    },
  }
}

function isPublic(route: Route<unknown, string>): route is PublicRoute {
  return route.access === 'public'
}

function sized<Sized extends SizedRouteShape>(route: Sized) {
  return { ...route, admitsMalformedParams: false, refusesQuery: route.bodyBytesMax > 0 }
}

function boundsOf({ bodyBytesMax }: SizedRouteShape): BodyBounds {
  return { bytesMax: bodyBytesMax, tooLong: 'invalid_request' }
}

const noOutcomes: ReadonlySet<string> = new Set()

function createAdmittingRoute(route: AdmittingRoute<unknown>, budgets: BodyBudgets): ServedRoute {
  return {
    ...route,
    budget: budgets[route.budget ?? 'anonymous'],
    unverified: route.unverifiedOutcomes ?? noOutcomes,
    admitsMalformedParams: route.admitsMalformedParams ?? false,
    refusesQuery: false,
    ...(route.access.sourceOf && { sourceOf: (head: Head) => route.access.sourceOf?.(head) ?? null }),
    admit(head) {
      const result = route.access.admit(head)
      return result instanceof Promise ? result.then(letIn) : letIn(result)
    },
  }
}

function letIn(result: Admitted<unknown>): LetIn | Answer | ApiError {
  if (result.kind !== 'admitted') return result
  const bounds: BodyBounds = { bytesMax: result.bodyBytesMax, tooLong: 'body_too_large' }
  return { ...result, bounds }
}
