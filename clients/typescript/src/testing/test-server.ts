import { type Acquired, MemoryRecords, type TestRecord, type TestState } from './records.ts'
import { parseCall, type RecordCall, refusal } from './test-call.ts'

/** Operations of the service on records. `release` is a removal with a lock token. */
export type TestOperation = 'acquire' | 'save' | 'extend' | 'release' | 'remove' | 'fetch'

/**
 * Fault of one call. `call_lost`: fails before the call has an effect. `answer_lost`: fails after the call has had its effect. A status:
 * the call has no effect and is answered with this status and the service's error code for it.
 */
export type TestFailure =
  | 'call_lost'
  | 'answer_lost'
  | { readonly status: number; readonly code: string; readonly retryAfterSeconds?: number }

/** Options of `TestServer`. */
export interface TestServerOptions {
  /** Key that calls must present. Default `lk_test`. */
  readonly apiKey?: string
  /** Maximum bytes of a saved body as JSON. Default 262 144, as in the service. */
  readonly recordBodyBytesMax?: number
  /** Maximum ttl of records in seconds. Default 2 592 000, as in the service. */
  readonly recordTtlSecondsMax?: number
}

/** Takes the arguments of the global `fetch`, or those that servers pass to their handler. */
interface TestFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>
  (request: Request, context: unknown): Promise<Response>
}

interface Fault {
  readonly failure: TestFailure
  readonly operation: TestOperation | undefined
  timesLeft: number
}

const defaultTtlSeconds = 86_400
const retryAfterMsMax = 1000

/**
 * Service for tests: keeps records in memory with the states and answers of the real service, behind the same HTTP interface. Pass its
 * `url`, `apiKey` and `fetch` to `new Latchkey`.
 */
export class TestServer {
  readonly url = 'http://latchkey.test'
  readonly apiKey: string
  readonly #options: Required<TestServerOptions>
  readonly #records: MemoryRecords
  readonly #faults: Fault[] = []
  readonly #waiters = new Set<() => void>()
  #movedMs = 0

  constructor(options: TestServerOptions = {}) {
    const defaults = { apiKey: 'lk_test', recordBodyBytesMax: 262_144, recordTtlSecondsMax: 2_592_000 }
    this.#options = { ...defaults, ...options }
    this.apiKey = this.#options.apiKey
    this.#records = new MemoryRecords(() => Date.now() + this.#movedMs)
  }

  /**
   * Answers a request as the service does. Works without its object, so it can be passed to `new Latchkey` or used as the handler of a
   * server.
   */
  readonly fetch: TestFetch = async (input: string | URL | Request, init?: unknown): Promise<Response> => {
    const request = new Request(input, isInit(init) ? init : undefined)
    request.signal.throwIfAborted()
    const call = await parseCall(request, this.#options)
    if (call instanceof Response) return call
    const failure = this.#takeFailure(call.operation)
    if (failure === 'call_lost') throw new TypeError('TestServer: the call was lost')
    if (typeof failure === 'object')
      return refusal(failure.status, failure.code, 'Refused by failNext', failure.retryAfterSeconds)
    const response = await this.#answer(call, request.signal)
    if (failure === 'answer_lost') throw new TypeError('TestServer: the answer was lost')
    return response
  }

  /** Advances the clock of the service, so that locks end and records expire. Otherwise it follows the clock of the process. */
  advance(ms: number): void {
    this.#movedMs += ms
    this.#wake()
  }

  /** Makes the next calls fail. Failures take effect in the order in which they were added. Default: the next call of any operation. */
  failNext(
    failure: TestFailure,
    options: { readonly operation?: TestOperation; readonly times?: number } = {},
  ): void {
    this.#faults.push({ failure, operation: options.operation, timesLeft: options.times ?? 1 })
  }

  /** Returns the state of a key, and its record. */
  stateOf({ scope, key }: { readonly scope: string; readonly key: string }): TestState {
    return this.#records.stateOf(idOf(scope, key))
  }

  #takeFailure(operation: TestOperation): TestFailure | undefined {
    const at = this.#faults.findIndex((fault) => (fault.operation ?? operation) === operation)
    const fault = this.#faults[at]
    if (fault === undefined) return undefined
    fault.timesLeft -= 1
    if (fault.timesLeft <= 0) this.#faults.splice(at, 1)
    return fault.failure
  }

  async #answer(call: RecordCall, signal: AbortSignal): Promise<Response> {
    const id = idOf(call.scope, call.key)
    switch (call.operation) {
      case 'acquire':
        return acquiredAnswer(await this.#acquire(id, call, signal))
      case 'save': {
        const { lockToken, record, ttlSeconds } = call
        const ttlMs = ttlSeconds === undefined ? undefined : ttlSeconds * 1000
        const saved = this.#records.save(id, { lockToken, record, ttlMs, defaultTtlMs: this.#defaultTtlMs() })
        if (saved !== 'saved') return saved === 'lost' ? lockLost() : recordExists()
        this.#wake()
        return Response.json({ ok: true })
      }
      case 'extend': {
        const lockMs = call.lockSeconds === undefined ? undefined : call.lockSeconds * 1000
        const held = this.#records.extend(id, call.lockToken, lockMs)
        if (!held) return lockLost()
        return Response.json({ ok: true, fence: held.fence, expiresInMs: held.expiresInMs })
      }
      case 'release':
      case 'remove': {
        const existed = this.#records.remove(id, call.lockToken)
        this.#wake()
        return Response.json({ ok: true, existed })
      }
      case 'fetch': {
        const state = this.#records.stateOf(id)
        return state.kind === 'completed' ? recordAnswer(state.record) : Response.json({ cached: false })
      }
      default:
        return call satisfies never
    }
  }

  async #acquire(
    id: string,
    call: Extract<RecordCall, { operation: 'acquire' }>,
    signal: AbortSignal,
  ): Promise<Acquired> {
    const ttlMs = call.ttlSeconds === undefined ? this.#defaultTtlMs() : call.ttlSeconds * 1000
    const { attemptId, fingerprint, waitMs, lockSeconds } = call
    const lockMs = Math.min(lockSeconds * 1000, ttlMs)
    const asked = { ttlMs, lockMs, attemptId, fingerprint, lockToken: crypto.randomUUID() }
    const untilMs = this.#nowMs() + waitMs
    for (;;) {
      signal.throwIfAborted()
      const acquired = this.#records.acquire(id, asked)
      const leftMs = untilMs - this.#nowMs()
      if (acquired.kind !== 'busy' || leftMs <= 0) return acquired
      await this.#change(Math.min(leftMs, acquired.remainingMs), signal)
    }
  }

  /** Resolves at the next change, or after `ms` at the latest. */
  #change(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiters.delete(end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.#waiters.add(end)
      signal.addEventListener('abort', end)
    })
  }

  #wake(): void {
    for (const end of this.#waiters) end()
  }

  #nowMs(): number {
    return Date.now() + this.#movedMs
  }

  #defaultTtlMs(): number {
    return Math.min(defaultTtlSeconds, this.#options.recordTtlSecondsMax) * 1000
  }
}

/** Returns false for other arguments that servers pass, because `new Request` would read their members as options. */
function isInit(value: unknown): value is RequestInit {
  return value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
}

function idOf(scope: string, key: string): string {
  return JSON.stringify([scope, key])
}

function acquiredAnswer(acquired: Acquired): Response {
  switch (acquired.kind) {
    case 'hit':
      return recordAnswer(acquired.record)
    case 'mismatch':
      return refusal(422, 'fingerprint_mismatch', 'This scope and key were used with another fingerprint')
    case 'locked': {
      const { lockToken, fence, expiresInMs, takenOver } = acquired
      return Response.json({
        cached: false,
        locked: true,
        lockToken,
        fence,
        expiresInMs,
        ...(takenOver && { takenOver }),
      })
    }
    case 'busy': {
      const retryAfterMs = Math.max(1, Math.min(Math.ceil(acquired.remainingMs), retryAfterMsMax))
      const headers = { 'Retry-After': String(Math.ceil(retryAfterMs / 1000)) }
      return Response.json({ cached: false, locked: false, retryAfterMs }, { headers })
    }
    default:
      return acquired satisfies never
  }
}

function recordAnswer(record: TestRecord): Response {
  return Response.json({ cached: true, record }, { headers: { 'Idempotent-Replayed': 'true' } })
}

function lockLost(): Response {
  return refusal(409, 'lock_lost', 'This lockToken does not own the lock any more')
}

function recordExists(): Response {
  return refusal(409, 'record_exists', 'Another result was already saved for this scope and key')
}
