import { expiryDayOf, type TenantId, within } from '#internal/base/index.ts'
import { type Leased, type LoadedEvent, loadEvents } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Capacity, Place } from './capacity.ts'
import type { ForwarderObserver } from './observer.ts'

/** A delivery from its claim to its answer. */
export interface Held extends Leased {
  readonly place: Place
  /** Room that was taken for its texts; undefined when none is. */
  bytes: number | undefined
  /** The callback was asked, whatever came of it. */
  wasCalled: boolean
}

/** What events are read with, and who goes on with them. */
export interface LoaderOptions {
  readonly pool: Pool
  readonly capacity: Capacity
  readonly observer: Pick<ForwarderObserver, 'failed'>
  /** There is room for its texts, which whoever hears this gives back; undefined: the event is gone. Must not throw. */
  readonly onLoaded: (held: Held, event: LoadedEvent | undefined) => void
  /** It could not be read; its room is given back. Must not throw. */
  readonly onFailed: (held: Held) => void
  /** Their leases ended before there was room. Must not throw. */
  readonly onLost: (lost: readonly Held[]) => void
}

const loadRowsMax = 100

/** Reads the events that did not come along with their claim, as soon as there is memory for them. Bounded by `Capacity`. */
export class Loader {
  readonly #options: LoaderOptions
  #waiting: Held[] = []
  /** Whoever found no memory lets nobody pass that comes later: nobody at all, or nobody of its tenant. */
  #blocked: 'all' | ReadonlySet<TenantId> = new Set()
  #loading: Promise<void> | undefined
  #stopped = false

  constructor(options: LoaderOptions) {
    this.#options = options
  }

  /** A delivery waits for memory that anybody may have, so that nothing else is to be read meanwhile. */
  get isFull(): boolean {
    return this.#waiting.length > 0 && this.#blocked === 'all'
  }

  /** Takes memory for a delivery whose texts are there already. False when there is none, or others waited for it before. */
  takeBytes(held: Held): boolean {
    const { tenantId } = held.delivery
    if (this.isFull) return false
    if (this.#waiting.length > 0 && this.#blocked !== 'all' && this.#blocked.has(tenantId)) return false
    return this.#take(held)
  }

  /** Gives back what was taken for a delivery; harmless when nothing was. */
  giveBytes(held: Held): void {
    if (held.bytes !== undefined) this.#options.capacity.giveBytes(held.bytes, held.delivery.tenantId)
    held.bytes = undefined
  }

  /** Takes a delivery whose event is to be read; `load` begins. */
  add(held: Held): void {
    this.#waiting.push(held)
  }

  /** Takes a delivery out that waits; false when it does not. */
  remove(leased: Leased): leased is Held {
    const at = this.#waiting.findIndex((held) => held === leased)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Reads what there is room for. Called whenever there may be some. */
  load(): void {
    if (this.#loading || this.#stopped || this.#waiting.length === 0) return
    this.#loading = this.#loadWhatFits().finally(() => {
      this.#loading = undefined
    })
  }

  /** Reads nothing more, waits for `msMax` at most for what is being read, and gives what waited. */
  async stop(msMax: number): Promise<readonly Held[]> {
    this.#stopped = true
    const waiting = this.#waiting.splice(0)
    if (this.#loading) await within(msMax, this.#loading, () => undefined)
    return waiting
  }

  async #loadWhatFits(): Promise<void> {
    for (let batch = this.#takeLoadable(); batch.length > 0; batch = this.#takeLoadable()) {
      const groups = Map.groupBy(batch, ({ delivery: { eventId, payloadExpiresOn } }) =>
        [expiryDayOf(eventId), payloadExpiresOn].join(' '),
      )
      for (const group of groups.values()) await this.#loadGroup(group)
    }
  }

  /**
   * Takes memory for each, in order: whoever finds none in the whole holds up all that come after it, so that small ones cannot
   * take for ever what a big one needs. A tenant that has its quarter holds up nobody but itself.
   */
  #takeLoadable(): Held[] {
    const fits: Held[] = []
    const rest: Held[] = []
    const lost: Held[] = []
    const blocked = new Set<TenantId>()
    let isFull = false
    for (const held of this.#waiting) {
      const { payloadBytes, tenantId } = held.delivery
      const mayTry = fits.length < loadRowsMax && !isFull && !blocked.has(tenantId)
      if (performance.now() >= held.leaseEndsMs) lost.push(held)
      else if (mayTry && this.#take(held)) fits.push(held)
      else {
        rest.push(held)
        if (mayTry && this.#options.capacity.bytesRoom < payloadBytes) isFull = true
        else if (mayTry) blocked.add(tenantId)
      }
    }
    this.#waiting = rest
    this.#blocked = isFull ? 'all' : blocked
    if (lost.length > 0) this.#options.onLost(lost)
    return fits
  }

  async #loadGroup(group: readonly Held[]): Promise<void> {
    const { pool, observer, onLoaded, onFailed } = this.#options
    const [first] = group
    if (first === undefined) return
    const { eventId, payloadExpiresOn } = first.delivery
    try {
      const eventIds = group.map(({ delivery }) => delivery.eventId)
      const loaded = await loadEvents(pool, { expiresOn: expiryDayOf(eventId), payloadExpiresOn, eventIds })
      for (const held of group) onLoaded(held, loaded.get(held.delivery.eventId))
    } catch (error) {
      observer.failed('load', error)
      for (const held of group) {
        this.giveBytes(held)
        onFailed(held)
      }
    }
  }

  #take(held: Held): boolean {
    const { payloadBytes, tenantId } = held.delivery
    if (!this.#options.capacity.takeBytes(payloadBytes, tenantId)) return false
    held.bytes = payloadBytes
    return true
  }
}
