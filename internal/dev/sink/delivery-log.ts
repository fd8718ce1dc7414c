import { Bell } from '#internal/base/index.ts'
import type { Delivery } from './delivery.ts'

/** Most deliveries that are kept. */
export const deliveriesKeptMax = 200
/** Of all kept bodies and headers, in characters; the oldest go first. */
const charsKeptMax = 16 * 1024 * 1024
const idsCountedMax = 10_000

/** Counts how many times each text came, for the 10 000 that came last. */
export class Tally {
  readonly #counts = new Map<string, number>()

  /** Counts one more; '' is counted as the first each time. */
  count(text: string): number {
    if (text === '') return 1
    const count = (this.#counts.get(text) ?? 0) + 1
    this.#counts.delete(text)
    this.#counts.set(text, count)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > idsCountedMax && oldest !== undefined) this.#counts.delete(oldest)
    return count
  }
}

/** The last deliveries in memory, and a wait for the next one. */
export class DeliveryLog {
  #kept: Delivery[] = []
  #chars = 0
  #newest = 0
  readonly #attempts = new Tally()
  readonly #bells = new Set<Bell>()

  /** The number of the newest delivery, 0 before the first. */
  get newest(): number {
    return this.#newest
  }

  /** How many wait now. */
  get waiting(): number {
    return this.#bells.size
  }

  /** Numbers a delivery, counts its webhook-id, keeps it and wakes all who wait. */
  add(fields: Omit<Delivery, 'number' | 'attempt'>): Delivery {
    this.#newest += 1
    const delivery = { ...fields, number: this.#newest, attempt: this.#attempts.count(fields.webhookId) }
    this.#kept.push(delivery)
    this.#chars += charsOf(delivery)
    while (this.#kept.length > deliveriesKeptMax || this.#chars > charsKeptMax)
      this.#chars -= charsOf(this.#kept.shift() ?? delivery)
    for (const bell of this.#bells) bell.ring()
    return delivery
  }

  /** Those kept that came after the one of this number, newest first. */
  after(number: number): readonly Delivery[] {
    return this.#kept.filter((each) => each.number > number).toReversed()
  }

  /** Gives the same as `after`, once there is one; nothing after `msMax`, or when the signal fires. */
  async waitAfter(number: number, msMax: number, signal: AbortSignal): Promise<readonly Delivery[]> {
    if (this.#newest > number || signal.aborted) return this.after(number)
    const bell = new Bell()
    this.#bells.add(bell)
    signal.addEventListener('abort', bell.ring, { once: true })
    await bell.sleep(msMax)
    signal.removeEventListener('abort', bell.ring)
    this.#bells.delete(bell)
    return this.after(number)
  }
}

function charsOf({ body, headers, path }: Delivery): number {
  return headers.reduce((sum, [name, value]) => sum + name.length + value.length, body.length + path.length)
}
