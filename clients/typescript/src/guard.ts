import { concatBytes, encodeText, hexOf, type ReadBytes, sha256, shortHash } from './bytes.ts'
import { parseKeyHeader } from './idempotency-key.ts'
import type { Latchkey } from './latchkey.ts'
import { saveMsDefault } from './once.ts'
import type { Codec, OnceOptions, WorkContext } from './options.ts'
import { nothingHappened, type Outcome } from './outcome.ts'
import { type ProblemCode, problemResponse } from './problem.ts'
import { type CapturedResponse, fromRecord, keptHeaderNames, toRecord } from './stored-response.ts'

const requestBytesDefault = 1024 * 1024
const responseBytesDefault = 180 * 1024
const ttlSecondsDefault = 86_400
/** Maximum milliseconds that a response waits for its record to be saved. The save then continues in the background. */
const heldMsMax = 2000
/** Characters of a scope that are kept; the rest is replaced by its hash. */
const scopeCharsMax = 100

type OnceBounds = 'ttlSeconds' | 'lockSeconds' | 'waitMs' | 'acquireMs' | 'onUnavailable'

/** Options of the middleware. `Arguments` are the types of the handler's arguments, the request first. */
export interface IdempotencyOptions<Arguments extends readonly unknown[]>
  extends Pick<OnceOptions<unknown>, OnceBounds> {
  /**
   * Returns a text that identifies the caller, such as the id of the user. Callers never see each other's responses. `'none'` for an
   * endpoint without users, whose callers share their keys.
   */
  readonly principal: 'none' | ((...args: Arguments) => string | Promise<string>)
  /**
   * Milliseconds to retry a save without a usable answer. Default 30 000; 0: no retry. The response waits for at most 2 000 ms; after that,
   * the save continues in the background while the process runs.
   */
  readonly saveMs?: number | undefined
  /** Namespace of the keys. Default: method and route, such as `POST /charges`. */
  readonly scope?: string | undefined
  /** Whether a request without a key is refused. Default true. */
  readonly required?: boolean | undefined
  /** Accepts a key without quotation marks, as older clients send it. Default false. */
  readonly acceptUnquoted?: boolean | undefined
  /** Methods that are guarded. Default POST and PATCH. */
  readonly methods?: readonly string[] | undefined
  /** Maximum bytes of a request's body; a longer one is refused with 413. Default 1 MiB. */
  readonly requestBytesMax?: number | undefined
  /** Maximum bytes of a response that is kept; a longer one is sent, but not replayed. Default 180 KiB. */
  readonly responseBytesMax?: number | undefined
  /** Response headers to keep in addition to the usual ones. `set-cookie` is refused. */
  readonly headersKept?: readonly string[] | undefined
  /** Returns whether a response of this status is saved. Default: below 500. A response that is not saved counts as an exception. */
  readonly save?: ((status: number) => boolean) | undefined
  /** Action if an earlier attempt ended without a response, and may have taken effect. Default `refuse`: 409. */
  readonly onTakenOver?: 'refuse' | 'run' | undefined
}

/** Operation of a running request. */
export interface Operation extends WorkContext {
  /** Declares that the handler had no effect: if its response is not saved, the next attempt runs the handler again. */
  nothingHappened(): void
}

const operations = new WeakMap<object, Operation>()

/** Returns the operation that runs for a request object of the framework, or undefined if the request is not guarded. */
export function operationOf(request: object): Operation | undefined {
  return operations.get(request)
}

/** Request, as an adapter passes it to the guard. */
export interface GuardedRequest<Arguments extends readonly unknown[]> {
  readonly method: string
  /** Value of `Idempotency-Key`. */
  readonly keyHeader: string | null | undefined
  /** Pattern of the route, or the path if the framework does not know the pattern. */
  readonly route: string
  /** Path and query as sent. */
  readonly target: string
  readonly args: Arguments
  /** Request object of the framework, for `operationOf`. */
  readonly object: object
  /** Reads the body, so that the handler can still read it. */
  readBody(bytesMax: number): Promise<ReadBytes>
}

/** Next step of the adapter. */
export type Guarded =
  /** Call the handler; the request is not guarded. */
  | { readonly kind: 'unguarded' }
  /** The handler ran: send its response. */
  | { readonly kind: 'ran' }
  /** Send this response; the handler did not run, or has no response. */
  | { readonly kind: 'answer'; readonly response: CapturedResponse & { readonly body: Uint8Array } }

/** Response that is not saved. */
class NotSaved extends Error {}

/** Runs the handlers of guarded requests at most once per caller and key. */
export class Guard<Arguments extends readonly unknown[]> {
  readonly requestBytesMax: number
  readonly responseBytesMax: number
  readonly headersKept: ReadonlySet<string>
  readonly #latchkey: Latchkey
  readonly #options: IdempotencyOptions<Arguments>
  readonly #methods: ReadonlySet<string>
  readonly #codec: Codec<CapturedResponse> = {
    toRecord: (response) => toRecord(response, this.responseBytesMax),
    fromRecord: (record) => fromRecord(record, this.headersKept),
  }

  /** @throws TypeError for options that would let callers see each other's responses */
  constructor(latchkey: Latchkey, options: IdempotencyOptions<Arguments>) {
    const { principal, methods = ['POST', 'PATCH'], headersKept, requestBytesMax, responseBytesMax } = options
    if (principal !== 'none' && typeof principal !== 'function')
      throw new TypeError("Latchkey: `principal` must be a function that identifies the caller, or 'none'")
    this.#latchkey = latchkey
    this.#options = options
    this.#methods = new Set(methods.map((method) => method.toUpperCase()))
    this.headersKept = keptHeaderNames(headersKept)
    this.requestBytesMax = requestBytesMax ?? requestBytesDefault
    this.responseBytesMax = responseBytesMax ?? responseBytesDefault
  }

  /** Returns whether requests of a method are guarded. */
  guards(method: string): boolean {
    return this.#methods.has(method)
  }

  /**
   * Runs `work` for a request with a new key. `work` calls the handler and returns its complete response, or a response without a body if
   * the body is longer than `responseBytesMax`.
   * @throws the exception of `work`, of `principal`, and LatchkeyRequestError
   */
  async run(
    request: GuardedRequest<Arguments>,
    work: (operation: Operation) => Promise<CapturedResponse>,
  ): Promise<Guarded> {
    const { required = true, acceptUnquoted, ttlSeconds = ttlSecondsDefault } = this.#options
    const header = this.guards(request.method) ? parseKeyHeader(request.keyHeader, acceptUnquoted) : undefined
    if (header === undefined || (header.kind === 'missing' && !required)) return { kind: 'unguarded' }
    if (header.kind !== 'key')
      return problem(`idempotency_key_${header.kind}`, { detail: `Keys are kept for ${ttlSeconds} seconds.` })
    const caller = await this.#hashPrincipal(request.args)
    const body = await request.readBody(this.requestBytesMax)
    if (body.kind === 'beyond') return problem('idempotency_request_too_large')
    let response: CapturedResponse | undefined
    try {
      const options = await this.#onceOptions(request, `${caller}:${header.key}`, body.bytes)
      const outcome = await this.#latchkey.onceAs(this.#codec, options, async (context) => {
        response = await this.#runHandler(request.object, context, work)
        return response
      })
      return await this.#resultOf(outcome, response)
    } catch (error) {
      if (error instanceof NotSaved) return { kind: 'ran' }
      throw error
    }
  }

  async #hashPrincipal(args: Arguments): Promise<string> {
    const { principal } = this.#options
    if (principal === 'none') return '-'
    const text: unknown = await principal(...args)
    // Without this check, all callers for whom `principal` returns nothing would share their responses.
    if (typeof text !== 'string' || text === '')
      throw new TypeError('Latchkey: `principal` must return a text that identifies the caller')
    return shortHash(text)
  }

  async #onceOptions(request: GuardedRequest<Arguments>, key: string, body: Uint8Array) {
    const { ttlSeconds, lockSeconds, waitMs, acquireMs, onUnavailable, onTakenOver } = this.#options
    const { saveMs: savedMsMax = saveMsDefault } = this.#options
    const { method, route, target } = request
    const scope = await shortenScope(this.#options.scope ?? `${method} ${route}`)
    const fingerprint = hexOf(await sha256(concatBytes([encodeText(`${method}\n${target}\n`), body])))
    const saveMs = Math.min(savedMsMax, heldMsMax)
    const bounds = { ttlSeconds, lockSeconds, waitMs, acquireMs, saveMs, onUnavailable, onTakenOver }
    return { ...bounds, scope, key, fingerprint }
  }

  async #runHandler(
    object: object,
    context: WorkContext,
    work: (operation: Operation) => Promise<CapturedResponse>,
  ): Promise<CapturedResponse> {
    let isWithoutEffect = false
    const operation: Operation = {
      ...context,
      nothingHappened: () => {
        isWithoutEffect = true
      },
    }
    operations.set(object, operation)
    const response = await work(operation)
    const { save = (status) => status < 500 } = this.#options
    if (save(response.status)) return response
    const error = new NotSaved(`The response has status ${response.status}`)
    throw isWithoutEffect ? nothingHappened(error) : error
  }

  async #resultOf(
    outcome: Outcome<CapturedResponse>,
    response: CapturedResponse | undefined,
  ): Promise<Guarded> {
    switch (outcome.kind) {
      case 'ran':
        return { kind: 'ran' }
      case 'replayed':
        return replay(outcome.value)
      case 'unknown':
        if (outcome.reason === 'no_answer') this.#saveLater(outcome)
        else await this.#saveWithoutBody(outcome)
        return { kind: 'ran' }
      case 'taken_over':
        // A handler that ran has had its effect, so its caller gets the response.
        return response === undefined ? problem('idempotency_outcome_unknown') : { kind: 'ran' }
      case 'reused_key':
        return problem('idempotency_key_reused')
      case 'busy':
        return problem('idempotency_key_in_use', outcome)
      case 'unavailable':
        return problem('idempotency_unavailable', outcome)
    }
  }

  /** Continues a save that was not answered while the response waited. */
  #saveLater({ pending }: Outcome<CapturedResponse> & { kind: 'unknown' }): void {
    const saveMs = (this.#options.saveMs ?? saveMsDefault) - heldMsMax
    if (saveMs > 0) void this.#latchkey.complete(pending, { saveMs })
  }

  /** Saves at least that the handler ran if the service refused the response, for example because of its size. */
  async #saveWithoutBody({ reason, pending, value }: Outcome<CapturedResponse> & { kind: 'unknown' }) {
    if (reason !== 'refused' || value.body === undefined) return
    const record = toRecord({ ...value, body: undefined }, this.responseBytesMax)
    await this.#latchkey.complete({ ...pending, record })
  }
}

function problem(code: ProblemCode, details?: Parameters<typeof problemResponse>[1]): Guarded {
  return { kind: 'answer', response: problemResponse(code, details) }
}

function replay({ status, headers, body }: CapturedResponse): Guarded {
  if (body === undefined) return problem('idempotency_response_not_kept')
  const response = { status, headers: { ...headers, 'idempotent-replayed': 'true' }, body }
  return { kind: 'answer', response }
}

/** Replaces the part of a scope beyond 100 characters by its hash. */
async function shortenScope(scope: string): Promise<string> {
  // Splits by characters, so that no character is cut in half.
  const characters = Array.from(scope)
  if (characters.length <= scopeCharsMax) return scope
  const rest = characters.slice(scopeCharsMax).join('')
  return `${characters.slice(0, scopeCharsMax).join('')}~${await shortHash(rest)}`
}
