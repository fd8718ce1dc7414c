/** Why a call to the API server brought nothing. The names follow the reasons of its `Status`. */
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
 * A call that brought nothing, as a value. `exhausted`: a bound of this process was reached, and nothing was sent. `unavailable` is every case where the server did not decide: it may be tried again,
 * and a write may have happened all the same.
 */
export interface KubeFailure {
  readonly kind: KubeFailureKind
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number
  /** What failed below HTTP, such as `ECONNREFUSED` or `SELF_SIGNED_CERT_IN_CHAIN`, as far as it is known. */
  readonly code: string | undefined
  /** For people, at most 1 000 characters; without the server's own words where they could quote a Secret. */
  readonly message: string
  /** The fields that the server complains about; names only, never values. */
  readonly fields: readonly string[]
  /** How long the server asks to wait, at most 60 s. */
  readonly retryAfterMs: number | undefined
}

/** What a call brings. */
export type KubeResult<T> = { readonly kind: 'ok'; readonly value: T } | KubeFailure

/** A failure as an exception, for callers to whom it is a broken dependency. */
export class KubeError extends Error {
  override readonly name = 'KubeError'
  readonly failure: KubeFailure

  constructor(what: string, failure: KubeFailure) {
    super(`${what}: ${failure.message}`)
    this.failure = failure
  }
}

/** Gives the value. @throws KubeError otherwise, its text beginning with `what` */
export function expectOk<T>(what: string, result: KubeResult<T>): T {
  if (result.kind === 'ok') return result.value
  throw new KubeError(what, result)
}

/** What is known of an answer that is not 2xx. */
export interface FailedAnswer {
  readonly status: number
  /** The body as far as it was read; a `Status` object where the server itself answered. */
  readonly body: string
  readonly retryAfter: string | null
  /** Leaves out the server's message. */
  readonly secret: boolean
}

const messageCharsMax = 1000
const fieldsMax = 20
const retryAfterMsMax = 60_000

/** Reads an answer that is not 2xx. Never throws: a body that is no `Status` (a proxy's page) is left out. */
export function readFailure(answer: FailedAnswer): KubeFailure {
  const status = parseStatus(answer.body)
  const kind = kindOf(answer.status, status.reason)
  const told =
    answer.secret || status.message === '' ? status.reason || `HTTP ${answer.status}` : status.message
  return {
    kind,
    status: answer.status,
    code: undefined,
    message: `${kind}: ${told}`.slice(0, messageCharsMax),
    fields: status.fields,
    retryAfterMs: retryAfterMsOf(answer.retryAfter) ?? status.retryAfterMs,
  }
}

/** A failure that the server has no part in. `message` must not quote what was sent. */
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

/** A bound of this process was reached, and nothing was sent. */
export function exhausted(message: string): KubeFailure {
  return { ...unavailable(''), kind: 'exhausted', message: `exhausted: ${message}` }
}

/** The code of what failed below HTTP, such as `ECONNREFUSED`; never a text that could quote what was sent. */
export function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}

/** Reads the `Status` that ends a watch with an ERROR line; anything else counts as unavailable. */
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

/** The reason tells more than the number: 409 is two things, and a webhook may refuse with any number. */
function kindOf(status: number, reason: string): KubeFailureKind {
  const known = byReason[reason] ?? byStatus[status]
  if (known !== undefined) return known
  // 408 and 3xx are a gateway's doing; the server decided nothing.
  return status >= 400 && status < 500 && status !== 408 ? 'badRequest' : 'unavailable'
}

interface StatusFacts {
  readonly reason: string
  readonly message: string
  readonly fields: readonly string[]
  readonly retryAfterMs: number | undefined
}

function parseStatus(body: string): StatusFacts {
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

/** The server sends whole seconds; a date, which proxies may send, is not worth a clock here. */
function retryAfterMsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && value !== '' ? Number(value) : value
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined
  return Math.min(seconds * 1000, retryAfterMsMax)
}

/** Whether a value of JSON is an object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
