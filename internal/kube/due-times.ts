interface Entry {
  readonly key: string
  dueAtMs: number
  /** Its place in the heap. */
  at: number
}

/** When each of many keys is due, at most one time a key. A binary heap, since most are moved before they are due. */
export class DueTimes {
  readonly #heap: Entry[] = []
  readonly #entries = new Map<string, Entry>()

  get size(): number {
    return this.#heap.length
  }

  /** When the first is due; undefined when there is none. */
  first(): number | undefined {
    return this.#heap[0]?.dueAtMs
  }

  /** When a key is due; undefined when it is not in here. */
  get(key: string): number | undefined {
    return this.#entries.get(key)?.dueAtMs
  }

  /** Sets when a key is due, whatever it was before. */
  set(key: string, dueAtMs: number): void {
    const entry = this.#entries.get(key) ?? { key, dueAtMs, at: this.#heap.length }
    entry.dueAtMs = dueAtMs
    this.#entries.set(key, entry)
    this.#heap[entry.at] = entry
    this.#settle(entry)
  }

  /** Takes a key out. One that is not in here is left alone. */
  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#entries.delete(key)
    const last = this.#heap.pop()
    if (!last || last === entry) return
    last.at = entry.at
    this.#heap[last.at] = last
    this.#settle(last)
  }

  /** Takes out the first key if it is due at `nowMs`. */
  takeDue(nowMs: number): string | undefined {
    const first = this.#heap[0]
    if (!first || first.dueAtMs > nowMs) return undefined
    this.delete(first.key)
    return first.key
  }

  clear(): void {
    this.#heap.length = 0
    this.#entries.clear()
  }

  /** Moves an entry up or down until its parent is not later and its children are not sooner. */
  #settle(entry: Entry): void {
    for (let up = this.#parentOf(entry); up && up.dueAtMs > entry.dueAtMs; up = this.#parentOf(entry))
      this.#swap(entry, up)
    for (let down = this.#soonerChildOf(entry); down && down.dueAtMs < entry.dueAtMs; ) {
      this.#swap(entry, down)
      down = this.#soonerChildOf(entry)
    }
  }

  #parentOf(entry: Entry): Entry | undefined {
    return entry.at === 0 ? undefined : this.#heap[(entry.at - 1) >> 1]
  }

  #soonerChildOf(entry: Entry): Entry | undefined {
    const left = this.#heap[2 * entry.at + 1]
    const right = this.#heap[2 * entry.at + 2]
    return right && left && right.dueAtMs < left.dueAtMs ? right : left
  }

  #swap(one: Entry, other: Entry): void {
    const at = one.at
    one.at = other.at
    other.at = at
    this.#heap[one.at] = one
    this.#heap[other.at] = other
  }
}
