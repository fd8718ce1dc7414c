import { type Clock, setNewest } from '#internal/base/index.ts'

export interface VerdictCacheOptions {
  readonly clock: Clock
  readonly msMax: number
  /** Maximum number of results in the cache; the oldest result is evicted first. */
  readonly entriesMax: number
  /** Maximum number of pending reviews of all callers in total. */
  readonly pendingMax: number
}

/** Result, and the time until which it may be cached; 0: it is not cached. */
export interface Verdict<T> {
  readonly value: T
  readonly keepUntilMs: number
}

/** Cache of review results. Concurrent requests for the same key wait for one review. */
export class VerdictCache<T> {
  readonly #options: VerdictCacheOptions
  readonly #known = new Map<string, Verdict<T>>()
  readonly #pending = new Map<string, Promise<Verdict<T>>>()
  /** Number of pending reviews in each group of callers; the key is the `share` of `get`. */
  readonly #taken = new Map<string, number>()

  constructor(options: VerdictCacheOptions) {
    this.#options = options
  }

  /**
   * Returns undefined if too many reviews are pending, in total or in the group of callers that `share` names. Each group has a maximum, so
   * that no group can use up the total. @throws errors of `ask`
   */
  async get(
    key: string,
    share: { readonly name: string; readonly pendingMax: number },
    ask: () => Promise<Verdict<T>>,
  ): Promise<T | undefined> {
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
      // Measures the age from the start of the review, because its result may not reflect a permission that changed meanwhile.
      this.#keep(key, { ...verdict, keepUntilMs: Math.min(verdict.keepUntilMs, askedAtMs + msMax) })
      return verdict
    } finally {
      this.#pending.delete(key)
    }
  }

  #keep(key: string, verdict: Verdict<T>): void {
    if (verdict.keepUntilMs <= this.#options.clock.now()) this.#known.delete(key)
    else setNewest(this.#known, key, verdict, this.#options.entriesMax)
  }
}

/** Digests of the tokens accepted most recently. A token can have expired since then. */
export class ProvenTokens {
  readonly #digests = new Set<string>()
  readonly #digestsMax: number

  constructor(digestsMax: number) {
    this.#digestsMax = digestsMax
  }

  has(digest: string): boolean {
    return this.#digests.has(digest)
  }

  note(digest: string, isKnown: boolean): void {
    this.#digests.delete(digest)
    if (isKnown) this.#digests.add(digest)
    const [oldest] = this.#digests
    if (this.#digests.size > this.#digestsMax && oldest !== undefined) this.#digests.delete(oldest)
  }
}
