import type { Address, Debug } from './options.ts'
import { LatchkeyOutcomeError } from './outcome.ts'
import { extendLock, type Lock, removeRecord } from './records.ts'
import { decidePauseMs, repeat, sleep } from './repeat.ts'
import { callMsMax, type Service } from './service.ts'

/** Maximum milliseconds to give up a lock. If that fails, the lock expires. */
const giveUpMsMax = 2000
/** Maximum wait, within `giveUpMsMax`, for an extension in flight: it would undo the shortening of the lock. */
const extensionMsMax = 1000
/** Seconds that a lock is held after an exception of `work`. */
const shortenedSeconds = 1

/** Dependencies of `HeldLock`. */
export interface LockParts {
  readonly service: Service
  readonly debug: Debug
  readonly address: Address
  readonly lock: Lock
  readonly lockSeconds: number
  /**
   * Time of `performance.now()` before the call that acquired the lock. The service holds the lock at least `expiresInMs` from this time.
   */
  readonly heldFromMs: number
  readonly signal: AbortSignal | undefined
}

/** Lock of a running operation, extended after each third of its time. Has at most one timer or one call in flight. */
export class HeldLock {
  readonly #parts: LockParts
  readonly #controller = new AbortController()
  readonly #onAbort: () => void
  #expiresAtMs: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #extension: Promise<void> | undefined
  #failures = 0
  #lost: 'no' | 'expired' | 'taken' = 'no'
  #stopped = false

  constructor(parts: LockParts) {
    this.#parts = parts
    this.#expiresAtMs = parts.heldFromMs + parts.lock.expiresInMs
    this.#onAbort = () => this.#controller.abort(parts.signal?.reason)
    parts.signal?.addEventListener('abort', this.#onAbort)
    if (parts.signal?.aborted) this.#onAbort()
    this.#extendAt(parts.heldFromMs + parts.lock.expiresInMs / 3)
  }

  /** Aborts when the lock is lost, when its time has passed without an extension, or with the caller's signal. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get lockToken(): string {
    return this.#parts.lock.lockToken
  }

  /** Returns whether an exception of `work` only reports that the signal aborted because of the lock. */
  explains(error: unknown): boolean {
    const { reason } = this.#controller.signal
    if (this.#lost === 'no' || !(reason instanceof LatchkeyOutcomeError)) return false
    return error === reason || (error instanceof Error && error.cause === reason)
  }

  /** Stops extending the lock. Idempotent. */
  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#parts.signal?.removeEventListener('abort', this.#onAbort)
  }

  /** Releases the lock, since `work` had no effect under it. The service still remembers an earlier takeover. */
  async release(): Promise<void> {
    this.stop()
    const { service, address, lock } = this.#parts
    await this.#giveUp((timeoutMs) => removeRecord(service, address, lock.lockToken, { timeoutMs }))
  }

  /** Shortens the lock, so that the next caller soon gets the lock with `takenOver`. */
  async shorten(): Promise<void> {
    this.stop()
    const untilMs = performance.now() + giveUpMsMax
    if (this.#extension) {
      const ended = new AbortController()
      void this.#extension.then(() => ended.abort())
      await sleep(extensionMsMax, ended.signal)
    }
    const { service, address, lock } = this.#parts
    const shortened = { lockToken: lock.lockToken, lockSeconds: shortenedSeconds }
    await this.#giveUp((timeoutMs) => extendLock(service, address, shortened, { timeoutMs }), untilMs)
  }

  async #giveUp(
    call: (timeoutMs: number) => ReturnType<typeof removeRecord | typeof extendLock>,
    untilMs = performance.now() + giveUpMsMax,
  ): Promise<void> {
    if (this.#lost === 'taken') return
    const { debug, address } = this.#parts
    const onRepeat = () => undefined
    const reply = await repeat<unknown>({ untilMs, onRepeat }, () => call(untilMs - performance.now()))
    if (reply.kind !== 'ok') debug('lock not given up', { scope: address.scope, reply: reply.kind })
  }

  #extendAt(atMs: number): void {
    const start = () => {
      this.#extension = this.#extend().finally(() => {
        this.#extension = undefined
      })
    }
    this.#timer = setTimeout(start, Math.max(0, atMs - performance.now()))
  }

  async #extend(): Promise<void> {
    const { service, debug, address, lock, lockSeconds } = this.#parts
    const startedAtMs = performance.now()
    if (startedAtMs >= this.#expiresAtMs) return this.#lose('expired')
    const timeoutMs = Math.min(callMsMax, this.#expiresAtMs - startedAtMs)
    const wanted = { lockToken: lock.lockToken, lockSeconds }
    const reply = await extendLock(service, address, wanted, { timeoutMs })
    if (this.#stopped) return undefined
    if (reply.kind === 'ok') {
      this.#failures = 0
      this.#expiresAtMs = startedAtMs + reply.body
      debug('lock extended', { scope: address.scope, expiresInMs: reply.body })
      return this.#extendAt(startedAtMs + reply.body / 3)
    }
    if (reply.kind === 'refused' && reply.code === 'lock_lost') return this.#lose('taken')
    // Any other refusal, such as of a suspended tenant, does not end the lock: it is held until its time has passed.
    const retryAfterMs = reply.kind === 'aborted' ? undefined : reply.retryAfterMs
    const pauseMs = decidePauseMs(this.#failures, retryAfterMs, Math.random())
    this.#failures += 1
    debug('extension repeated', { scope: address.scope, pauseMs })
    return this.#extendAt(Math.min(performance.now() + pauseMs, this.#expiresAtMs))
  }

  #lose(how: 'expired' | 'taken'): void {
    this.#lost = how
    this.#parts.debug('lock lost', { scope: this.#parts.address.scope, how })
    this.#controller.abort(new LatchkeyOutcomeError({ kind: 'taken_over', phase: 'during' }))
  }
}
