/** Kinds of failed calls, named after the reasons of the API server's `Status`. */
export type KubeFailureKind =
  | 'badRequest'
  | 'unauthorized'
  | 'forbidden'
  | 'notFound'
  | 'alreadyExists'
  | 'conflict'
  | 'gone'
  | 'invalid'
  | 'tooManyRequests'
  | 'exhausted'
  | 'unavailable'

/**
 * A failed call as a value. `exhausted`: a limit of this process was reached, and nothing was sent. `unavailable`: the server did
 * not decide; retrying may help, and a write may have happened.
 */
export interface KubeFailure {
  readonly kind: KubeFailureKind
  /** HTTP status; 0 without a response. */
  readonly status: number
  /** Error code below HTTP, such as `ECONNREFUSED` or `SELF_SIGNED_CERT_IN_CHAIN`, if known. */
  readonly code: string | undefined
  /** At most 1 000 characters; leaves out the server's message where that could quote a Secret. */
  readonly message: string
  /** Names of the fields that the server refuses, never their values. */
  readonly fields: readonly string[]
  /** From Retry-After, at most 60 s. */
  readonly retryAfterMs: number | undefined
}

/** Result of a call. */
export type KubeResult<T> = { readonly kind: 'ok'; readonly value: T } | KubeFailure

/** A failure as an exception, for callers that treat it as a broken dependency. */
export class KubeError extends Error {
  override readonly name = 'KubeError'
  readonly failure: KubeFailure

  constructor(what: string, failure: KubeFailure) {
    super(`${what}: ${failure.message}`)
    this.failure = failure
  }
}

/** Returns the value. @throws KubeError for a failure, its text prefixed with `what` */
export function expectOk<T>(what: string, result: KubeResult<T>): T {
  if (result.kind === 'ok') return result.value
  throw new KubeError(what, result)
}

/** A response other than 2xx. */
export interface FailedAnswer {
  readonly status: number
  /** Possibly truncated; a `Status` object where the API server itself responded. */
  readonly body: string
  readonly retryAfter: string | null
  /** Drops the server's message. */
  readonly secret: boolean
}

const messageCharsMax = 1000
const fieldsMax = 20
const retryAfterMsMax = 60_000

/** Parses a response other than 2xx. Never throws; ignores a body that is no `Status`, such as a proxy's page. */
export function readFailure(answer: FailedAnswer): KubeFailure {
  const status = parseStatus(answer.body)
  const kind = kindOf(answer.status, status.reason)
  const text =
    answer.secret || status.message === '' ? status.reason || `HTTP ${answer.status}` : status.message
  return {
    kind,
    status: answer.status,
    code: undefined,
    message: `${kind}: ${text}`.slice(0, messageCharsMax),
    fields: status.fields,
    retryAfterMs: retryAfterMsOf(answer.retryAfter) ?? status.retryAfterMs,
  }
}

/** Returns a failure without a response. `message` must not quote what was sent. */
export function unavailable(message: string, code?: string): KubeFailure {
  return {
    kind: 'unavailable',
    status: 0,
    code,
    message: `unavailable: ${message}`.slice(0, messageCharsMax),
    fields: [],
    retryAfterMs: undefined,
  }
}

/** Returns the failure of a call that was not sent, at a limit of this process. */
export function exhausted(message: string): KubeFailure {
  return { ...unavailable(''), kind: 'exhausted', message: `exhausted: ${message}` }
}

/** Returns an error's code, such as `ECONNREFUSED`; its message could quote what was sent. */
export function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}

/** Parses the `Status` of a watch's ERROR line; anything else is `unavailable`. */
export function readWatchError(object: unknown): KubeFailure {
  const code = isObject(object) && typeof object['code'] === 'number' ? object['code'] : 500
  return readFailure({ status: code, body: JSON.stringify(object), retryAfter: null, secret: false })
}

const byReason: Readonly<Record<string, KubeFailureKind>> = {
  AlreadyExists: 'alreadyExists',
  Conflict: 'conflict',
  Expired: 'gone',
  Gone: 'gone',
  Invalid: 'invalid',
  NotFound: 'notFound',
  Forbidden: 'forbidden',
  Unauthorized: 'unauthorized',
  TooManyRequests: 'tooManyRequests',
}
const byStatus: Readonly<Record<number, KubeFailureKind>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'notFound',
  409: 'conflict',
  410: 'gone',
  422: 'invalid',
  429: 'tooManyRequests',
}

/** The reason takes precedence: 409 has two meanings, and an admission webhook may refuse with any status. */
function kindOf(status: number, reason: string): KubeFailureKind {
  const known = byReason[reason] ?? byStatus[status]
  if (known !== undefined) return known
  // 408 and 3xx come from a gateway; the API server decided nothing.
  return status >= 400 && status < 500 && status !== 408 ? 'badRequest' : 'unavailable'
}

function parseStatus(body: string) {
  const status = parseJson(body)
  if (!isObject(status) || status['kind'] !== 'Status')
    return { reason: '', message: '', fields: [], retryAfterMs: undefined }
  const details = isObject(status['details']) ? status['details'] : {}
  const causes: readonly unknown[] = Array.isArray(details['causes']) ? details['causes'] : []
  const fields = causes.flatMap((cause) =>
    isObject(cause) && typeof cause['field'] === 'string' ? [cause['field']] : [],
  )
  return {
    reason: textOf(status['reason']),
    message: textOf(status['message']),
    fields: fields.slice(0, fieldsMax),
    retryAfterMs: retryAfterMsOf(details['retryAfterSeconds']),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Whole seconds, as the API server sends them; ignores the date form. */
function retryAfterMsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && value !== '' ? Number(value) : value
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined
  return Math.min(seconds * 1000, retryAfterMsMax)
}

/** True for a JSON object, false for arrays and null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
