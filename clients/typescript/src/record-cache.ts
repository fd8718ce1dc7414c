import type { Address } from './options.ts'
import type { StoredRecord } from './outcome.ts'

interface Entry {
  readonly fingerprint: string | undefined
  /** JSON text, so that a caller's changes do not affect the record that the next caller gets. */
  readonly text: string
  readonly untilMs: number
}

/** Completed records of this process, the least recently used one first. */
export class RecordCache {
  readonly #entries = new Map<string, Entry>()
  readonly #entriesMax: number
  readonly #maxAgeMs: number

  constructor({ entriesMax, maxAgeMs }: { entriesMax: number; maxAgeMs: number }) {
    this.#entriesMax = entriesMax
    this.#maxAgeMs = maxAgeMs
  }

  /** Returns the record that was kept with the same fingerprint, unless it is too old. */
  get(address: Address, fingerprint: string | undefined): StoredRecord | undefined {
    const name = nameOf(address)
    const entry = this.#entries.get(name)
    if (entry === undefined || entry.fingerprint !== fingerprint) return undefined
    this.#entries.delete(name)
    if (!(performance.now() < entry.untilMs)) return undefined
    this.#entries.set(name, entry)
    return JSON.parse(entry.text) as StoredRecord
  }

  /** Keeps a record, at most for `ttlSeconds`. */
  set(
    {
      fingerprint,
      ttlSeconds,
      ...address
    }: Address & { fingerprint?: string | undefined; ttlSeconds?: number | undefined },
    record: StoredRecord,
  ): void {
    const ageMs = Math.min(this.#maxAgeMs, (ttlSeconds ?? Number.POSITIVE_INFINITY) * 1000)
    const name = nameOf(address)
    this.#entries.delete(name)
    this.#entries.set(name, { fingerprint, text: JSON.stringify(record), untilMs: performance.now() + ageMs })
    if (this.#entries.size <= this.#entriesMax) return
    const [oldest] = this.#entries.keys()
    if (oldest !== undefined) this.#entries.delete(oldest)
  }

  delete(address: Address): void {
    this.#entries.delete(nameOf(address))
  }
}

function nameOf({ scope, key }: Address): string {
  return JSON.stringify([scope, key])
}
