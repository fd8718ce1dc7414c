import type { ApiError } from '#internal/base/index.ts'

/** What is known of a call before its body is read. */
export interface Head {
  readonly request: Request
  readonly requestId: string
  /** The path's parameters by name, decoded: 1–128 characters each, without control characters and U+FFFD. */
  readonly params: Readonly<Record<string, string>>
  /** Where the connection comes from, which is a proxy where there is one; null once the connection is gone. */
  peerAddress(): string | null
}

/** A call as a route's handler sees it. */
export interface Call extends Head {
  /** The body's bytes as received; empty where the route reads none. */
  readonly body: Uint8Array
}

/** Fields that a log line gets beside its own, which keep their names: few, short, and nothing secret. */
export type LogFields = Readonly<Record<string, string | number | boolean>>

/** What an answer may carry; a stream is sent as it comes, and cancelled when the caller goes. */
export type AnswerBody = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>

/** What a handler answers when it is no error; JSON text, unless a header names another type. */
export interface Answer<Body extends AnswerBody = string> {
  readonly kind: 'answer'
  readonly status: number
  readonly body: Body
  readonly headers?: Readonly<Record<string, string>>
  /** What happened, in one word of a closed set, for the log line and the metric. */
  readonly outcome: string
  readonly log?: LogFields
}

type Answered<Body extends AnswerBody = string> = Promise<Answer<Body> | ApiError> | Answer<Body> | ApiError

interface RouteShape {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Such as `/v1/record`, with `:name` for a parameter. */
  readonly path: string
}

interface SizedRouteShape extends RouteShape {
  /** Bytes a body may have, over which it is 400; 0 for a route that reads none. */
  readonly bodyBytesMax: number
}

/** A route that anybody may call. */
export interface PublicRoute extends SizedRouteShape {
  readonly access: 'public'
  handle(call: Call): Answered<AnswerBody>
}

/** A route that needs an API key of one of the `Scope`s; `Principal` is who the key belongs to. */
export interface GuardedRoute<Principal, Scope extends string> extends SizedRouteShape {
  readonly access: { readonly scope: Scope }
  handle(call: Call, principal: Principal): Answered
}

/** A call that is let in, and what is read of it. */
export interface Admission<Handed> {
  readonly kind: 'admitted'
  /** Handed on to the route's handler. */
  readonly admitted: Handed
  /** Whose call it is, for the log line; absent where it is no tenant's. */
  readonly tenant?: string
  /** Whose share of the body budget is taken; default the tenant's. */
  readonly owner?: string
  /** Bytes the body may have, counted as they come; over it the call is 413 `body_too_large`. */
  readonly bodyBytesMax: number
  /** Goes into the log line whatever the call ends with. */
  readonly log?: LogFields
}

/** What becomes of a call before its body is read. */
export type Admitted<Handed> = Admission<Handed> | Answer | ApiError

/**
 * A route that decides by itself who may call, from the path and the headers. Its handler gets the body's bytes exactly as
 * received.
 */
export interface AdmittingRoute<Handed> extends RouteShape {
  readonly access: {
    /** Lets a call in or answers it. Runs before a body is read, so what it answers costs no memory. */
    admit(head: Head): Admitted<Handed> | Promise<Admitted<Handed>>
    /**
     * Where a call comes from, for routes whose callers are not known before their body is read: bodies of the source that has the
     * most are dropped first when room is short. Asked only then. Default: the owner.
     */
    sourceOf?(head: Head): string | null
  }
  handle(call: Call, admitted: Handed): Answered
  /**
   * Outcomes that any caller can cause at will, whether or not it holds a key or a signing secret. Their log lines are limited.
   * Default: none.
   */
  readonly unverifiedOutcomes?: ReadonlySet<string>
  /** Calls `admit` also when a path parameter is malformed, which then reads as '' (an empty one is absent). Default: such a call is 404 `route_unknown`. */
  readonly admitsMalformedParams?: true
}

/** One row of the table that shows every route with who may call it. */
export type Route<Principal, Scope extends string> =
  | PublicRoute
  | GuardedRoute<Principal, Scope>
  // Each such route hands on something of its own. As these are methods, one of any type stands in the table, and the server
  // gives a handler nothing but what its own `admit` returned.
  | AdmittingRoute<unknown>
