import { isJsonObject } from '#internal/base/index.ts'
/** Kinds of failed calls, named after the reasons in the API server's `Status`. */
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
 * A failed call, returned as a value. `exhausted`: this process reached a limit and sent nothing. `unavailable`: the server made no
 * decision; a retry may succeed, and a write may have happened.
 */
export interface KubeFailure {
  readonly kind: KubeFailureKind
  /** 0 if there was no response. */
  readonly status: number
  /** Network or TLS error code, such as `ECONNREFUSED` or `SELF_SIGNED_CERT_IN_CHAIN`, if known. */
  readonly code: string | undefined
  /** Description of at most 1 000 characters. Leaves out the server's message if it could quote a Secret. */
  readonly message: string
  /** Names of the fields that the server refused, never their values. */
  readonly fields: readonly string[]
  /** Delay requested by the server's Retry-After header, at most 60 s. */
  readonly retryAfterMs: number | undefined
}

/** Result of a call: the value, or a failure. */
export type KubeResult<T> = { readonly kind: 'ok'; readonly value: T } | KubeFailure

/** A failure as an exception, for callers that treat it as an unavailable dependency. */
export class KubeError extends Error {
  override readonly name = 'KubeError'
  readonly failure: KubeFailure

  constructor(what: string, failure: KubeFailure) {
    super(`${what}: ${failure.message}`)
    this.failure = failure
  }
}

/** Returns the value of a successful result. @throws KubeError for a failure, with `what` as the prefix of its message */
export function expectOk<T>(what: string, result: KubeResult<T>): T {
  if (result.kind === 'ok') return result.value
  throw new KubeError(what, result)
}

const messageCharsMax = 1000
const fieldsMax = 20
const retryAfterMsMax = 60_000

/** Never throws. Ignores a body that is not a `Status`, such as the HTML page of a proxy. */
export function readFailure(answer: {
  readonly status: number
  /** Body of the response, possibly truncated: a `Status` object if the API server itself responded. */
  readonly body: string
  readonly retryAfter: string | null
  /** Leaves the server's message out of the failure. */
  readonly secret: boolean
}): KubeFailure {
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

/** `message` must not quote the request. */
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

/** Failure of a call that was not sent, because this process reached a limit. */
export function exhausted(message: string): KubeFailure {
  return { ...unavailable(''), kind: 'exhausted', message: `exhausted: ${message}` }
}

/** Returns the code of an error. Never returns its message, which could quote the request. */
export function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}

/** An object that is not a `Status` becomes `unavailable`. */
export function readWatchError(object: unknown): KubeFailure {
  const code = isJsonObject(object) && typeof object['code'] === 'number' ? object['code'] : 500
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

/** The reason takes precedence over the HTTP status: 409 has two meanings, and an admission webhook can refuse with any status. */
function kindOf(status: number, reason: string): KubeFailureKind {
  const known = byReason[reason] ?? byStatus[status]
  if (known !== undefined) return known
  // 408 and 3xx come from a gateway, which means that the API server has made no decision.
  return status >= 400 && status < 500 && status !== 408 ? 'badRequest' : 'unavailable'
}

function parseStatus(body: string) {
  const status = parseJson(body)
  if (!isJsonObject(status) || status['kind'] !== 'Status')
    return { reason: '', message: '', fields: [], retryAfterMs: undefined }
  const details = isJsonObject(status['details']) ? status['details'] : {}
  const causes: readonly unknown[] = Array.isArray(details['causes']) ? details['causes'] : []
  const fields = causes.flatMap((cause) =>
    isJsonObject(cause) && typeof cause['field'] === 'string' ? [cause['field']] : [],
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

/** Converts the seconds that the API server sends to at most 60 000 ms. Ignores the HTTP date form. */
function retryAfterMsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && value !== '' ? Number(value) : value
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined
  return Math.min(seconds * 1000, retryAfterMsMax)
}
