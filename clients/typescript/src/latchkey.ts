import { type Parts, refuseUnknownOptions, runOnce, save, saveMsDefault } from './once.ts'
import {
  type Address,
  type Codec,
  type Debug,
  type LatchkeyOptions,
  type OnceOptions,
  valueCodec,
  type Work,
} from './options.ts'
import { type Json, LatchkeyRequestError, type Outcome, type Pending, type StoredRecord } from './outcome.ts'
import { RecordCache } from './record-cache.ts'
import { type CallBounds, fetchRecord, removeRecord, saveText } from './records.ts'
import { repeat } from './repeat.ts'
import { callMsMax, type Reply, Service } from './service.ts'

/** Maximum milliseconds to retry a read or a removal without a usable answer. */
const answerMsMax = 10_000

/** Bounds of `complete`. */
export interface CompleteOptions {
  /** Milliseconds to retry the save without a usable answer. Default 30 000. */
  readonly saveMs?: number | undefined
  /** Its abort ends the retries; the outcome is then `unknown`. */
  readonly signal?: AbortSignal | undefined
}

/** Client of the record API. Keeps nothing between calls except the optional cache: no connection, timer or promise. */
export class Latchkey {
  readonly #parts: Parts

  /** @throws TypeError if the address is malformed or the API key empty */
  constructor({ url, apiKey, fetch, debug = () => undefined, tracer, cache }: LatchkeyOptions) {
    const service = new Service({ url, apiKey, fetch })
    this.#parts = { service, debug: guarded(debug), tracer, cache: cache && new RecordCache(cache) }
  }

  /**
   * Runs `work` at most once per scope and key, and saves its result, a JSON value: `undefined` becomes `null`, and any other value that is
   * not JSON counts as an exception of `work`.
   * @throws the exception of `work`; LatchkeyRequestError for a call that can never succeed; the reason of `signal` if it aborts before `work`
   */
  async once<T>(options: OnceOptions<T>, work: Work<T>): Promise<Outcome<T>> {
    refuseUnknownOptions(options)
    return runOnce(this.#parts, valueCodec as Codec<T>, options, work)
  }

  /**
   * Runs `once` for a result that is saved in another form than its JSON value.
   * @internal
   */
  onceAs<T>(codec: Codec<T>, options: OnceOptions<T>, work: Work<T>): Promise<Outcome<T>> {
    return runOnce(this.#parts, codec, options, work)
  }

  /**
   * Saves a result that `once` could not save. Repeating it is safe: returns `ran` if the result is saved, `taken_over` if another caller has
   * run since, and `unknown` if it is still not known.
   */
  complete(
    pending: Pending,
    { saveMs = saveMsDefault, signal }: CompleteOptions = {},
  ): Promise<Outcome<Json>> {
    const unsaved = { pending, text: saveText(pending), value: pending.record.body }
    return save(this.#parts, unsaved, { saveMs, signal })
  }

  /**
   * Returns the saved record, or undefined if there is none, for example while the key is only locked.
   * @throws LatchkeyRequestError if the call is refused, or is not answered within 10 s
   */
  async fetchRecord(address: Address): Promise<StoredRecord | undefined> {
    const { service } = this.#parts
    return (await this.#answered(address, (bounds) => fetchRecord(service, address, bounds))) ?? undefined
  }

  /**
   * Removes the saved record, and returns whether it existed. Other processes can replay it from their caches until its maximum age.
   * @throws LatchkeyRequestError if the call is refused, or is not answered within 10 s
   */
  async removeRecord(address: Address): Promise<boolean> {
    const { service, cache } = this.#parts
    const existed = await this.#answered(address, (bounds) =>
      removeRecord(service, address, undefined, bounds),
    )
    cache?.delete(address)
    return existed
  }

  async #answered<T>({ scope }: Address, call: (bounds: CallBounds) => Promise<Reply<T>>): Promise<T> {
    const untilMs = performance.now() + answerMsMax
    const onRepeat = ({ code }: { code: string }, pauseMs: number) =>
      this.#parts.debug('call repeated', { scope, code, pauseMs })
    const reply = await repeat({ untilMs, onRepeat }, () =>
      call({ timeoutMs: Math.max(1, Math.min(callMsMax, untilMs - performance.now())) }),
    )
    if (reply.kind === 'ok') return reply.body
    if (reply.kind === 'refused') throw new LatchkeyRequestError(reply)
    const code = reply.kind === 'failed' ? reply.code : reply.kind
    throw new LatchkeyRequestError({ code, message: 'The service did not answer: try again later' })
  }
}

/** Returns a function that never throws: a failing log must not hide an operation that has happened. */
function guarded(debug: Debug): Debug {
  return (event, fields) => {
    try {
      debug(event, fields)
    } catch {
      // There is no other place to report it.
    }
  }
}
