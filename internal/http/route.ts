import type { ApiError } from '#internal/base/index.ts'

/** A call as a route's handler sees it. */
export interface Call {
  readonly request: Request
  readonly requestId: string
  /** The body's bytes, or its text where the route reads text and its length was declared; empty where it reads none. */
  readonly body: Uint8Array | string
}

/** What a handler answers when it is no error. */
export interface Answer {
  readonly kind: 'answer'
  readonly status: number
  /** JSON text. */
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
  /** What happened, in one word of a closed set, for the log line and the metric. */
  readonly outcome: string
}

interface RouteShape {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Such as `/v1/record`, with `:name` for a parameter. */
  readonly path: string
  /** Bytes a body may have; 0 for a route that reads none. */
  readonly bodyBytesMax: number
  /**
   * Read the body as text, which is cheaper. Bytes that are none of UTF-8 are then refused, but for a few that come as
   * U+FFFD: only for routes that keep nothing as received and whose schema refuses that character. Default false.
   */
  readonly bodyIsText?: boolean
}

/** A route that anybody may call. */
export interface PublicRoute extends RouteShape {
  readonly access: 'public'
  handle(call: Call): Promise<Answer | ApiError> | Answer | ApiError
}

/** A route that needs an API key of one of the `Scope`s; `Principal` is who the key belongs to. */
export interface GuardedRoute<Principal, Scope extends string> extends RouteShape {
  readonly access: { readonly scope: Scope }
  handle(call: Call, principal: Principal): Promise<Answer | ApiError> | Answer | ApiError
}

/** One row of the table that shows every route with who may call it. */
export type Route<Principal, Scope extends string> = PublicRoute | GuardedRoute<Principal, Scope>
