/**
 * All errors of the API, with their status and a default text that names the next step. The envelope's `error` is the reason phrase of the
 * status (RFC 9110). Texts never contain a value from the request.
 */
const catalogue = {
  invalid_request: [400, 'The request is invalid'],
  unauthenticated: [
    401,
    'Send "Authorization: Bearer …" with a token of kubectl create token NAME --audience latchkey, or with an API key of the scope dashboard or dashboard:read',
  ],
  forbidden: [403, 'You do not have permission to do this: ask the platform team for a role'],
  api_key_invalid: [
    403,
    'The API key is missing, unknown or expired: send a valid one as "Authorization: Bearer lk_…"',
  ],
  api_key_scope: [
    403,
    'This API key does not have the scope that this call needs: add it to spec.apiKeys[].scopes of the Tenant, or use a key that has it',
  ],
  tenant_suspended: [403, 'This tenant is suspended: ask the platform team to resume it'],
  route_unknown: [404, 'This port has no such route: check the method and the path'],
  not_found: [404, 'The object does not exist, or you do not have permission to see it'],
  method_not_allowed: [
    405,
    'This route does not support this method: the Allow header lists those that it supports',
  ],
  provider_unknown: [
    404,
    'No provider of this name is in force: see status.urls of the Tenant, and the condition Ready of a Provider of your own',
  ],
  lock_lost: [409, 'This lockToken no longer owns the lock: discard the result, or read the record again'],
  record_exists: [
    409,
    'A different result is already saved for this scope and key: read it with GET /v1/record',
  ],
  provider_not_ready: [
    409,
    'This provider is not set up for the tenant: add it to spec.providers of the Tenant, or choose another provider',
  ],
  conflict: [
    409,
    'The object was changed in the meantime: read it again and repeat the change. Nothing was changed',
  ],
  body_too_large: [413, 'The body exceeds the maximum size of this route'],
  fingerprint_mismatch: [
    422,
    'This scope and key were already used with another fingerprint: use a new key for a different request',
  ],
  idempotency_key_reused: [
    422,
    'This Idempotency-Key was already used with a different request: use a new key for a new request',
  ],
  limit_exceeded: [429, 'The tenant’s usage limit is reached: retry after the seconds in Retry-After'],
  too_many_replays: [
    429,
    'Too many replays are running: retry after the seconds in Retry-After, or when one has ended',
  ],
  too_many_searches: [429, 'Too many searches of payloads: wait as long as Retry-After says'],
  too_many_simulations: [
    429,
    'This tenant has the maximum number of running simulations: wait until one ends, or cancel one',
  ],
  internal: [500, 'Internal error: try again, and report the requestId to the platform team if it persists'],
  store_unavailable: [503, 'The record store is unavailable, so the state of this key is unknown: try again'],
  database_unavailable: [
    503,
    'The database is unavailable, and the call may or may not have been applied: repeat it with the same Idempotency-Key',
  ],
  queue_unavailable: [503, 'The event could not be stored and was not accepted: send it again'],
  certificate_unavailable: [
    503,
    'The certificate or key set of this call’s signature could not be fetched, so the event was not accepted: send it again',
  ],
  secrets_unreadable: [
    503,
    'The secrets of this tenant cannot be decrypted at the moment, so nothing was done: try again later',
  ],
  provider_paused: [
    503,
    'Calls of this provider are paused, so the event was not accepted: send it again later',
  ],
  starting: [503, 'This process is starting and has not loaded its tenants yet: try again'],
  unavailable: [
    503,
    'A store or the Kubernetes API is unavailable, and the call may or may not have been applied: repeat it unchanged',
  ],
  body_dropped: [
    503,
    'The body arrived too slowly while memory for bodies was short, so it was dropped: send it again',
  ],
  overloaded: [503, 'This process is handling too many calls: try again'],
  loop_detected: [
    508,
    'Forwarding loop: this event has passed through here too often. Check whether a callback sends its events back',
  ],
} as const satisfies Record<string, readonly [number, string]>

/** Stable error name, sent as `code`. */
export type ErrorCode = keyof typeof catalogue

/** All error codes. */
export const errorCodes = Object.keys(catalogue) as ErrorCode[]

/** Name of an error's page in the documentation. */
export function errorPageName(code: ErrorCode): string {
  return code.replaceAll('_', '-')
}

/** Reason phrases of RFC 9110 section 15, and of RFC 5842 section 7.2 for 508. */
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

/** Recognizes an `ApiError`. */
export function isApiError(value: unknown): value is ApiError {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'error'
}

/** HTTP status of an error. */
export function statusOf(code: ErrorCode): number {
  return catalogue[code][0]
}

/** Formats an error for a response. */
export function errorEnvelope(
  error: ApiError,
  requestId: string,
): {
  readonly message: string
  readonly error: string
  readonly statusCode: number
  readonly code: ErrorCode
  readonly requestId: string
} {
  const [statusCode, text] = catalogue[error.code]
  const phrase = phrases[statusCode]
  if (phrase === undefined) throw new Error(`the status ${statusCode} has no reason phrase in the catalogue`)
  return { message: error.message ?? text, error: phrase, statusCode, code: error.code, requestId }
}
