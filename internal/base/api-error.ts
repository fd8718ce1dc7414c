/**
 * All errors of the API, with their status and a default text that says what to do next. The envelope's `error` is the reason phrase of the
 * status (RFC 9110). Texts never contain a value from the request.
 */
const catalogue = {
  invalid_request: [400, 'The request is not valid'],
  unauthenticated: [
    401,
    'Send a token as "Authorization: Bearer …": of kubectl create token NAME --audience latchkey, or an API key of scope dashboard or dashboard:read',
  ],
  forbidden: [403, 'You lack the right to do this: ask an administrator of Tenants for it'],
  api_key_invalid: [403, 'Send a valid API key as "Authorization: Bearer lk_…"'],
  api_key_scope: [403, 'This API key lacks the scope for this call: ask for a key with it'],
  tenant_suspended: [403, 'This tenant is suspended: ask the platform team'],
  route_unknown: [404, 'There is no such route on this port'],
  not_found: [404, 'There is nothing of this name, or you may not see it'],
  method_not_allowed: [405, 'This route does not take this method: see the Allow header'],
  provider_unknown: [404, 'There is no such provider: see the path of this call in GET /v1/openapi.json'],
  lock_lost: [
    409,
    'This lockToken does not own the lock any more: discard the result or check the record again',
  ],
  record_exists: [
    409,
    'Another result was already saved for this scope and key: read it with GET /v1/record',
  ],
  provider_not_ready: [
    409,
    'This tenant takes no calls of this provider: set the provider up in its Tenant, or name another one',
  ],
  conflict: [409, 'Something else is there by now: read it again. Nothing was changed'],
  body_too_large: [413, 'The body is longer than this route takes'],
  fingerprint_mismatch: [
    422,
    'This scope and key were used with another fingerprint: use a new key for a new request',
  ],
  idempotency_key_reused: [
    422,
    'This Idempotency-Key was used with another request: use a new key for a new request',
  ],
  limit_exceeded: [429, 'The usage limit is exceeded: wait as long as Retry-After says'],
  too_many_replays: [
    429,
    'Other replays have to end first: wait until one of them ends, or as long as Retry-After says',
  ],
  too_many_simulations: [
    429,
    'This tenant has as many simulations under way as it may: wait until one of them ends',
  ],
  internal: [500, 'Something broke on our side: try again, and report the requestId if it stays'],
  store_unavailable: [503, 'The record store does not answer: nothing is known about this key, try again'],
  database_unavailable: [
    503,
    'The database does not answer: whether anything was written is not known, repeat the call with its Idempotency-Key',
  ],
  queue_unavailable: [503, 'The event could not be stored: nothing was accepted, send it again'],
  certificate_unavailable: [
    503,
    'The certificate that this call is signed with could not be fetched: nothing was accepted, send it again',
  ],
  secrets_unreadable: [
    503,
    'The secrets of this tenant cannot be opened at the moment: nothing was done, try again later',
  ],
  provider_paused: [503, 'Calls of this provider are paused: nothing was accepted, send it again later'],
  starting: [503, 'This process has not read its tenants yet: try again'],
  unavailable: [
    503,
    'A store or the Kubernetes API does not answer: whether anything was written is not known, repeat the call as it was',
  ],
  body_dropped: [
    503,
    'The body had to make room for bodies that arrived faster: nothing was accepted, send it again',
  ],
  overloaded: [503, 'Too many calls are under way in this process: try again'],
  loop_detected: [
    508,
    'This event has been forwarded through here too often: a callback seems to send it back',
  ],
} as const satisfies Record<string, readonly [number, string]>

/** Stable error name, sent as `code`. */
export type ErrorCode = keyof typeof catalogue

/** All error codes. */
export const errorCodes = Object.keys(catalogue) as ErrorCode[]

/** Returns the name of an error's page in the documentation. */
export function errorPageName(code: ErrorCode): string {
  return code.replaceAll('_', '-')
}

/** Reason phrases of the statuses in the catalogue: RFC 9110 section 15, and RFC 5842 section 7.2 for 508. */
const phrases: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
  508: 'Loop Detected',
}

/** Expected failure that is returned to the caller. `message` replaces the default text with a more specific one. */
export interface ApiError {
  readonly kind: 'error'
  readonly code: ErrorCode
  readonly message?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Creates an error. `message` must not contain secrets or values from the request. */
export function apiError(
  code: ErrorCode,
  message?: string,
  headers?: Readonly<Record<string, string>>,
): ApiError {
  return { kind: 'error', code, ...(message !== undefined && { message }), ...(headers && { headers }) }
}

/** Returns whether a value is an `ApiError`. */
export function isApiError(value: unknown): value is ApiError {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'error'
}

/** Returns the HTTP status of an error. */
export function statusOf(code: ErrorCode): number {
  return catalogue[code][0]
}

/** Error envelope of the contract, with Latchkey's additional fields `code` and `requestId`. */
export interface ErrorEnvelope {
  readonly message: string
  readonly error: string
  readonly statusCode: number
  readonly code: ErrorCode
  readonly requestId: string
}

/** Returns the envelope of an error. */
export function errorEnvelope(error: ApiError, requestId: string): ErrorEnvelope {
  const [statusCode, text] = catalogue[error.code]
  const phrase = phrases[statusCode]
  if (phrase === undefined) throw new Error(`the status ${statusCode} has no reason phrase in the catalogue`)
  return { message: error.message ?? text, error: phrase, statusCode, code: error.code, requestId }
}
