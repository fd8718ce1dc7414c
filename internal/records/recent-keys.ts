/** Remembers the keys that were added last: at least half of `keysMax`, never more than that. */
export class RecentKeys {
  readonly #keysMax: number
  #young = new Set<string>()
  #old = new Set<string>()

  constructor(keysMax: number) {
    this.#keysMax = keysMax
  }

  has(key: string): boolean {
    return this.#young.has(key) || this.#old.has(key)
  }

  add(key: string): void {
    if (this.#young.size >= this.#keysMax / 2) {
      this.#old = this.#young
      this.#young = new Set()
    }
    this.#young.add(key)
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}
