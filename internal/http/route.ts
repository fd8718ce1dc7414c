import { type ApiError, isApiError } from '#internal/base/index.ts'
import type { BodyBounds } from './body.ts'
import type { BodyBudget } from './body-budget.ts'

/** A call before its body is read. */
export interface Head {
  readonly request: Request
  readonly requestId: string
  /** Path parameters by name, decoded: 1–128 characters each, without control characters and U+FFFD. */
  readonly params: Readonly<Record<string, string>>
  /** Address of the connection's peer, which may be a proxy; null once the connection is closed. */
  peerAddress(): string | null
}

/** A call as a handler gets it. */
export interface Call extends Head {
  /** Body bytes as received; empty for a route that reads none. */
  readonly body: Uint8Array
}

/** Additional fields of the request's log line: few, short, no secrets. The line's own fields take precedence. */
export type LogFields = Readonly<Record<string, string | number | boolean>>

/** Response body. A stream is sent as it comes and cancelled when the caller disconnects. */
export type AnswerBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>

/** Response of a handler, errors aside; JSON text, unless a header names another type. */
export interface Answer<Body extends AnswerBody = string> {
  readonly kind: 'answer'
  readonly status: number
  readonly body: Body
  readonly headers?: Readonly<Record<string, string>>
  /** Label of the result for the log line and the metric, from a closed set. */
  readonly outcome: string
  readonly log?: LogFields
}

type Answered<Body extends AnswerBody = string> = Promise<Answer<Body> | ApiError> | Answer<Body> | ApiError

interface RouteShape {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** For example `/v1/record`; `:name` is a parameter. */
  readonly path: string
}

interface SizedRouteShape extends RouteShape {
  /** Maximum body length; a longer body is 400. 0 for a route that reads none. */
  readonly bodyBytesMax: number
}

/** A route without authentication. */
export interface PublicRoute extends SizedRouteShape {
  readonly access: 'public'
  handle(call: Call): Answered<AnswerBody>
}

/** A route that needs an API key with a scope; `Principal` is the key's owner. */
export interface GuardedRoute<Principal, Scope extends string> extends SizedRouteShape {
  readonly access: { readonly scope: Scope }
  handle(call: Call, principal: Principal): Answered
}

/** An authorized call and the bounds of its body. */
export interface Admission<Handed> {
  readonly kind: 'admitted'
  /** Passed to the route's handler. */
  readonly admitted: Handed
  /** Tenant for the log line; absent for a caller that is no tenant. */
  readonly tenant?: string
  /** Owner of the charge on the body budget; default the tenant. */
  readonly owner?: string
  /** Maximum body length, counted as bytes arrive; a longer body is 413 `body_too_large`. */
  readonly bodyBytesMax: number
  /** Logged whatever the result is. */
  readonly log?: LogFields
}

/** Result of authorization: the call goes on, or is answered without reading its body. */
export type Admitted<Handed> = Admission<Handed> | Answer | ApiError

/** A route that authorizes callers by itself, from path and headers. */
export interface AdmittingRoute<Handed> extends RouteShape {
  readonly access: {
    /** Authorizes a call or answers it. Runs before the body is read, so that refused calls cost no memory. */
    admit(head: Head): Admitted<Handed> | Promise<Admitted<Handed>>
    /**
     * Returns the eviction group of a call, for routes that do not know their callers before the body is read. Called only for a
     * body that does not arrive with its head. Default: the owner.
     */
    sourceOf?(head: Head): string | null
  }
  handle(call: Call, admitted: Handed): Answered
  /**
   * Outcomes that any caller can cause without a key or a signing secret. Their log lines are limited in rate. Default: none.
   */
  readonly unverifiedOutcomes?: ReadonlySet<string>
  /** Calls `admit` also for a malformed path parameter, which then reads as ''; an empty one is absent. Default: 404 `route_unknown`. */
  readonly admitsMalformedParams?: true
}

/** A row of the route table. */
export type Route<Principal, Scope extends string> =
  | PublicRoute
  | GuardedRoute<Principal, Scope>
  // `admit` and `handle` are methods, hence bivariant: a route of any `Handed` fits. The server passes to a handler only what the
  // `admit` of the same route returned.
  | AdmittingRoute<unknown>

/** An authorized call of any kind of route. */
export interface LetIn extends Pick<Admission<unknown>, 'kind' | 'admitted' | 'owner' | 'log'> {
  readonly tenant?: string
  readonly bounds: BodyBounds
}

/** A route as the server runs it, whatever its access: authorization before the body, a handler after it. */
export interface Entry {
  readonly method: PublicRoute['method']
  readonly path: string
  /** Answers 400 to a query string, which the handler would ignore. */
  readonly refusesQuery: boolean
  readonly budget: BodyBudget
  /** Outcomes that callers without credentials can cause. */
  readonly unverified: 'all' | 'until admitted' | ReadonlySet<string>
  readonly admitsMalformedParams: boolean
  admit(head: Head): LetIn | Answer | ApiError | Promise<LetIn | Answer | ApiError>
  /** Eviction group of a call; default: its owner. */
  sourceOf?(head: Head): string | null
  /** @param admitted result of this entry's `admit` */
  handle(
    call: Call,
    admitted: unknown,
  ): Promise<Answer<AnswerBody> | ApiError> | Answer<AnswerBody> | ApiError
}

/** Authenticates callers by API key. */
export interface Authority<Principal, Scope extends string> {
  /** Returns the key's owner, by the Authorization header, or the refusal. */
  authorize(authorization: string | null, scope: Scope): Principal | ApiError
  /** Returns a principal's name for the log. */
  nameOf(principal: Principal): string
}

/** Memory for bodies, kept apart so that a flood of unauthenticated calls leaves callers with a key alone. */
export interface BodyBudgets {
  readonly keyed: BodyBudget
  readonly anonymous: BodyBudget
}

/** Creates the entry of a row of the route table. */
export function createEntry<Principal, Scope extends string>(
  route: Route<Principal, Scope>,
  authority: Authority<Principal, Scope>,
  { keyed, anonymous }: BodyBudgets,
): Entry {
  if (isPublic(route)) {
    const admission: LetIn = { kind: 'admitted', admitted: undefined, bounds: boundsOf(route) }
    return { ...sized(route), budget: anonymous, unverified: 'all', admit: () => admission }
  }
  if (!('scope' in route.access)) return admittingEntry(route as AdmittingRoute<unknown>, anonymous)
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

function admittingEntry(route: AdmittingRoute<unknown>, budget: BodyBudget): Entry {
  return {
    ...route,
    budget,
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
