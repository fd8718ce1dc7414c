import { readUpTo } from './bytes.ts'
import type { Fetch } from './options.ts'
import type { UnavailableReason } from './outcome.ts'

/** Maximum milliseconds of a call, in addition to the time for which it asks the service to wait. */
export const callMsMax = 5000
/** Maximum bytes of an answer. */
const answerBytesMax = 1024 * 1024
const messageCharsMax = 500

/** Answer of the service to a call. */
export type Reply<T> =
  | { readonly kind: 'ok'; readonly body: T }
  | Refused
  | Failed
  /** The caller's signal aborted. The call may have had its effect. */
  | { readonly kind: 'aborted' }

/** The service refused the call; an unchanged retry fails again. Includes 429, because a usage limit persists. */
export interface Refused {
  readonly kind: 'refused'
  readonly status: number | undefined
  readonly code: string
  readonly message: string
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined
}

/** No usable answer. The call may have had its effect, and a retry may succeed. */
export interface Failed {
  readonly kind: 'failed'
  readonly reason: Exclude<UnavailableReason, 'limit_exceeded'>
  /** Error code of the service, `http_<status>`, `no_answer`, `timeout` or `bad_answer`. */
  readonly code: string
  readonly retryAfterMs: number | undefined
  /** Exception of `fetch`. */
  readonly cause?: unknown
}

/** One call of the service. */
export interface Call<T> {
  readonly method: 'POST' | 'PUT' | 'GET' | 'DELETE'
  /** Path with query, beginning with `/v1`. */
  readonly path: string
  /** JSON text. */
  readonly body?: string
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** Returns undefined for a body that is not as documented. */
  parse(body: unknown): T | undefined
}

/** HTTP interface of the service. */
export class Service {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #fetch: Fetch

  /** @throws TypeError for a malformed address or API key, such as one of a missing environment variable */
  constructor({ url, apiKey, fetch }: { url: string; apiKey: string; fetch: Fetch | undefined }) {
    refuseMissing('url', url, 'LATCHKEY_URL')
    refuseMissing('apiKey', apiKey, 'LATCHKEY_API_KEY')
    const parsed = URL.canParse(url) ? new URL(url) : undefined
    if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search !== '' || parsed.hash !== '')
      throw new TypeError('Latchkey: `url` must be an http or https address without query and fragment')
    if (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey))
      throw new TypeError('Latchkey: `apiKey` must be a text of printable ASCII characters without spaces')
    this.#base = url.replace(/\/+$/, '')
    this.#headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
    // Calls the global function as a function, since some runtimes refuse to call it as a method of another object.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init))
  }

  /** Sends one call, without retries. Never throws. */
  async call<T>(call: Call<T>): Promise<Reply<T>> {
    const { method, path, body, timeoutMs, signal } = call
    if (signal?.aborted) return { kind: 'aborted' }
    const controller = new AbortController()
    const abort = () => controller.abort()
    const timer = setTimeout(abort, timeoutMs)
    signal?.addEventListener('abort', abort)
    try {
      const response = await this.#fetch(this.#base + path, {
        method,
        headers: this.#headers,
        signal: controller.signal,
        // Follows no redirects, so that the API key is not sent to another address.
        redirect: 'manual',
        ...(body !== undefined && { body }),
      })
      return replyOf(response, await readText(response), call.parse)
    } catch (cause) {
      if (signal?.aborted) return { kind: 'aborted' }
      return { ...failed('unreachable', controller.signal.aborted ? 'timeout' : 'no_answer'), cause }
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }
}

/** @throws TypeError for an option without a value, such as from an unset environment variable */
function refuseMissing(name: string, value: string | null | undefined, variable: string): void {
  if (value === undefined || value === null || value === '')
    throw new TypeError(
      `Latchkey: \`${name}\` is missing (${value === '' ? 'empty' : value}): if you pass process.env.${variable}, set it`,
    )
}

function replyOf<T>(
  response: Response,
  text: string | undefined,
  parse: (body: unknown) => T | undefined,
): Reply<T> {
  const { status, headers } = response
  const refused = { kind: 'refused', status, requestId: undefined, retryAfterMs: undefined } as const
  if (text === undefined)
    return {
      ...refused,
      code: 'answer_too_long',
      message: `The answer is longer than ${answerBytesMax} bytes`,
    }
  const body = parseJson(text)
  if (response.ok) {
    const parsed = parse(body)
    return parsed === undefined ? failed('unreachable', 'bad_answer') : { kind: 'ok', body: parsed }
  }
  const retryAfterMs = parseRetryAfter(headers.get('retry-after'))
  const error = isObject(body) ? body : {}
  const code = textOf(error['code']) ?? `http_${status}`
  if (status >= 500) return failed(reasonOf(code), code, retryAfterMs)
  const message = textOf(error['message'])?.slice(0, messageCharsMax) ?? `The answer has status ${status}`
  return { ...refused, code, message, requestId: textOf(error['requestId']), retryAfterMs }
}

function failed(reason: Failed['reason'], code: string, retryAfterMs?: number): Failed {
  return { kind: 'failed', reason, code, retryAfterMs }
}

/** Returns the reason of a failure. `http_…` is a response of another program, such as of a proxy without a backend. */
function reasonOf(code: string): Failed['reason'] {
  if (code.startsWith('http_')) return 'unreachable'
  return code === 'overloaded' || code === 'body_dropped' ? 'overloaded' : 'store_unavailable'
}

/** Returns the body of an answer, or undefined if it is too long. */
async function readText(response: Response): Promise<string | undefined> {
  const { headers, body } = response
  const length = headers.get('content-length')
  if (length !== null && Number(length) <= answerBytesMax && !headers.has('content-encoding'))
    return response.text()
  const read = await readUpTo(body, answerBytesMax)
  return read.kind === 'whole' ? new TextDecoder().decode(read.bytes) : undefined
}

/** Returns the milliseconds of a `Retry-After` header in seconds. A date, which the service never sends, is ignored. */
function parseRetryAfter(value: string | null): number | undefined {
  return value !== null && /^\d{1,6}$/.test(value) ? Number(value) * 1000 : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns whether a JSON value is an object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
