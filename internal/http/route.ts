import type { ApiError, ErrorCode } from '#internal/base/index.ts'
import type { BodyBounds } from './body.ts'
import type { BodyBudget } from './body-budget.ts'

/** Request before its body is read. */
export interface Head {
  readonly request: Request
  readonly requestId: string
  /** Decoded path parameters, 1–128 characters each, without control characters and U+FFFD. */
  readonly params: Readonly<Record<string, string>>
  /** Peer of the connection, which may be a proxy; null once the connection is closed. */
  peerAddress(): string | null
}

/** Request passed to a handler. */
export interface Call extends Head {
  /** Bytes as received; empty for a route that reads no body. */
  readonly body: Uint8Array
}

/** Additional fields of the request's log line: few, short, no secrets. The standard fields of the line take precedence. */
export type LogFields = Readonly<Record<string, string | number | boolean>>

/** A stream is forwarded as it produces data, and is cancelled when the caller disconnects. */
export type AnswerBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>

/** Response of a handler, except errors. The body is JSON text unless a header names another type. */
export interface Answer<Body extends AnswerBody = string> {
  readonly kind: 'answer'
  readonly status: number
  readonly body: Body
  readonly headers?: Readonly<Record<string, string>>
  /** Outcome for the log line and the metric label, from a closed set. */
  readonly outcome: string
  readonly log?: LogFields
  /** Error whose page in the documentation explains this response, if it is a refusal without the envelope. */
  readonly explainedAs?: ErrorCode
}

type Answered<Body extends AnswerBody = string> = Promise<Answer<Body> | ApiError> | Answer<Body> | ApiError

interface RouteShape {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path such as `/v1/record`. `:name` is a parameter; a last segment `*` stands for 1–128 characters, slashes included. */
  readonly path: string
}

export interface SizedRouteShape extends RouteShape {
  /** A longer body causes 400. 0 for a route that reads no body. */
  readonly bodyBytesMax: number
}

/** Route without authentication. */
export interface PublicRoute extends SizedRouteShape {
  readonly access: 'public'
  handle(call: Call): Answered<AnswerBody>
}

/** Route that needs an API key with a scope. `Principal` is the owner of the key. */
export interface GuardedRoute<Principal, Scope extends string> extends SizedRouteShape {
  readonly access: { readonly scope: Scope }
  handle(call: Call, principal: Principal): Answered
}

/** Authorized request, and the limits of its body. */
export interface Admission<Handed> {
  readonly kind: 'admitted'
  readonly admitted: Handed
  /** Tenant for the log line; absent if the caller is no tenant. */
  readonly tenant?: string
  /** Owner to which the body's bytes are charged in the body budget. Default: the tenant. */
  readonly owner?: string
  /** Maximum, counted as bytes arrive. A longer body causes 413 `body_too_large`. */
  readonly bodyBytesMax: number
  readonly log?: LogFields
}

/** Admitted request, or a response without reading the body. */
export type Admitted<Handed> = Admission<Handed> | Answer | ApiError

/** Route that authorizes each caller by path and headers. */
export interface AdmittingRoute<Handed> extends RouteShape {
  readonly access: {
    /** Authorizes a request, or returns the response to it. Runs before the body is read, so that refused requests take no memory. */
    admit(head: Head): Admitted<Handed> | Promise<Admitted<Handed>>
    /**
     * Returns the client network or tenant whose bodies are evicted together, for routes that do not know their callers before the body is
     * read. Called only if the body does not arrive together with the head. Default: the owner.
     */
    sourceOf?(head: Head): string | null
  }
  handle(call: Call, admitted: Handed): Answered<AnswerBody>
  /** `keyed` if `admit` admits only callers with an API key. Default: `anonymous`. */
  readonly budget?: keyof BodyBudgets
  /** Outcomes that any caller can cause without a key or a signing secret. The rate of their log lines is limited. Default: none. */
  readonly unverifiedOutcomes?: ReadonlySet<string>
  /** Calls `admit` even with path parameters that are malformed (passed as '') or empty (omitted). Default: 404 `route_unknown`. */
  readonly admitsMalformedParams?: true
}

/** Route with any kind of access. */
export type Route<Principal, Scope extends string> =
  | PublicRoute
  | GuardedRoute<Principal, Scope>
  // `admit` and `handle` are methods and therefore bivariant, so a route with any `Handed` is assignable. The server passes to a handler
  // only the result of `admit` of the same route.
  | AdmittingRoute<unknown>

export interface LetIn extends Pick<Admission<unknown>, 'kind' | 'admitted' | 'owner' | 'log'> {
  readonly tenant?: string
  readonly bounds: BodyBounds
}

export interface ServedRoute {
  readonly method: PublicRoute['method']
  readonly path: string
  /** Returns 400 for a query string, because the handler would ignore it. */
  readonly refusesQuery: boolean
  readonly budget: BodyBudget
  /** Outcomes that callers without credentials can cause. */
  readonly unverified: 'all' | 'until admitted' | ReadonlySet<string>
  readonly admitsMalformedParams: boolean
  admit(head: Head): LetIn | Answer | ApiError | Promise<LetIn | Answer | ApiError>
  sourceOf?(head: Head): string | null
  handle(
    call: Call,
    admitted: unknown,
  ): Promise<Answer<AnswerBody> | ApiError> | Answer<AnswerBody> | ApiError
}

export interface Authority<Principal, Scope extends string> {
  authorize(authorization: string | null, scope: Scope): Principal | ApiError
  nameOf(principal: Principal): string
}

/** Memory for bodies, separate so that a flood of unauthenticated requests does not affect callers with a key. */
export interface BodyBudgets {
  readonly keyed: BodyBudget
  readonly anonymous: BodyBudget
}
