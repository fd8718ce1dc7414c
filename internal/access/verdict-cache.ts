import type { Clock } from '#internal/base/index.ts'

/** Bounds of a verdict cache. */
export interface VerdictCacheOptions {
  readonly clock: Clock
  /** Maximum age of an answer. */
  readonly msMax: number
  /** Maximum of kept answers; the oldest is dropped first. */
  readonly entriesMax: number
  /** Maximum of pending reviews. */
  readonly pendingMax: number
}

/** An answer and the time until which it may be kept; 0: not at all. */
export interface Verdict<T> {
  readonly value: T
  readonly keepUntilMs: number
}

/** A group of callers with its own maximum of pending reviews, so that no group takes all places. */
export interface VerdictShare {
  readonly name: string
  readonly pendingMax: number
}

/** Caches answers for a short time and shares pending reviews of the same key. */
export class VerdictCache<T> {
  readonly #options: VerdictCacheOptions
  readonly #known = new Map<string, Verdict<T>>()
  readonly #pending = new Map<string, Promise<Verdict<T>>>()
  /** Pending reviews by share. */
  readonly #taken = new Map<string, number>()

  constructor(options: VerdictCacheOptions) {
    this.#options = options
  }

  /**
   * Returns the kept answer or that of `ask`; undefined when too many reviews are pending, in all or of the share.
   * @throws what `ask` throws
   */
  async get(key: string, share: VerdictShare, ask: () => Promise<Verdict<T>>): Promise<T | undefined> {
    const { clock, pendingMax } = this.#options
    const known = this.#known.get(key)
    if (known !== undefined && clock.now() < known.keepUntilMs) return known.value
    const pending = this.#pending.get(key)
    if (pending !== undefined) return (await pending).value
    const taken = this.#taken.get(share.name) ?? 0
    if (taken >= share.pendingMax || this.#pending.size >= pendingMax) return undefined
    this.#taken.set(share.name, taken + 1)
    const asked = this.#ask(key, ask).finally(() => this.#leave(share.name))
    this.#pending.set(key, asked)
    return (await asked).value
  }

  #leave(name: string): void {
    const left = (this.#taken.get(name) ?? 1) - 1
    if (left === 0) this.#taken.delete(name)
    else this.#taken.set(name, left)
  }

  async #ask(key: string, ask: () => Promise<Verdict<T>>): Promise<Verdict<T>> {
    const { clock, msMax } = this.#options
    try {
      const askedAtMs = clock.now()
      const verdict = await ask()
      // Aged from the request: a change during the review is not part of the answer.
      this.#keep(key, { ...verdict, keepUntilMs: Math.min(verdict.keepUntilMs, askedAtMs + msMax) })
      return verdict
    } finally {
      this.#pending.delete(key)
    }
  }

  #keep(key: string, verdict: Verdict<T>): void {
    this.#known.delete(key)
    if (verdict.keepUntilMs <= this.#options.clock.now()) return
    this.#known.set(key, verdict)
    const [oldest] = this.#known.keys()
    if (this.#known.size > this.#options.entriesMax && oldest !== undefined) this.#known.delete(oldest)
  }
}

/** Digests of the latest tokens that a review accepted; they may have expired since. */
export class ProvenTokens {
  readonly #digests = new Set<string>()
  readonly #digestsMax: number

  constructor(digestsMax: number) {
    this.#digestsMax = digestsMax
  }

  has(digest: string): boolean {
    return this.#digests.has(digest)
  }

  /** Stores the result of a review. */
  note(digest: string, isKnown: boolean): void {
    this.#digests.delete(digest)
    if (isKnown) this.#digests.add(digest)
    const [oldest] = this.#digests
    if (this.#digests.size > this.#digestsMax && oldest !== undefined) this.#digests.delete(oldest)
  }
}
