import type { Clock } from '#internal/base/index.ts'

/** How long an answer is kept, and how many are. */
export interface VerdictCacheOptions {
  readonly clock: Clock
  /** Longest time that an answer counts. */
  readonly msMax: number
  /** Answers kept at most; the oldest go first. */
  readonly entriesMax: number
  /** Questions under way at most. */
  readonly pendingMax: number
}

/** An answer, and until when it may be kept; `keepUntilMs` 0: not at all. */
export interface Verdict<T> {
  readonly value: T
  readonly keepUntilMs: number
}

/** Whose question it is, and how many of theirs may be under way: nobody takes the places of all. */
export interface VerdictShare {
  readonly name: string
  readonly pendingMax: number
}

/** Asks the same thing once, whoever wants to know, and remembers the answer for a short time. */
export class VerdictCache<T> {
  readonly #options: VerdictCacheOptions
  readonly #known = new Map<string, Verdict<T>>()
  readonly #pending = new Map<string, Promise<Verdict<T>>>()
  /** How many of each share are under way. */
  readonly #taken = new Map<string, number>()

  constructor(options: VerdictCacheOptions) {
    this.#options = options
  }

  /**
   * The answer, as kept or as `ask` gives it; undefined when too many questions are under way, in all or of that share.
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
      // Counted from when it was asked: what changes while the answer is on its way is not known to it.
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
    if (this.#known.size <= this.#options.entriesMax) return
    const oldest = this.#known.keys().next()
    if (!oldest.done) this.#known.delete(oldest.value)
  }
}
