import { type TenantId, within } from '#internal/base/index.ts'
import { type LoadedEvent, loadEvents } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Capacity } from './capacity.ts'
import type { Delivery } from './delivery.ts'
import type { ForwarderObserver } from './observer.ts'

/** Dependencies of a loader. Its callbacks must not throw. */
export interface LoaderOptions {
  readonly pool: Pool
  readonly capacity: Capacity
  readonly observer: Pick<ForwarderObserver, 'failed'>
  /** Called with the event of a delivery, which holds payload memory; undefined if the event was removed. */
  onLoaded(delivery: Delivery, event: LoadedEvent | undefined): void
  /** Called when the event could not be read. */
  onFailed(delivery: Delivery): void
  /** Called when a delivery's lease ended before there was memory for it. */
  onLost(delivery: Delivery): void
}

const rowsMax = 100
/** Payload bytes per statement; a larger payload is read alone. */
const bytesMax = 4 * 1024 * 1024
/** Two, so that a large payload does not delay those behind it. */
const statementsMax = 2

/** Reads the events of claimed deliveries as payload memory allows. Bounded by `Capacity`. */
export class Loader {
  readonly #options: LoaderOptions
  #waiting: Delivery[] = []
  readonly #loads = new Set<Promise<void>>()
  #stopped = false

  constructor(options: LoaderOptions) {
    this.#options = options
  }

  /** Adds a delivery in state `claimed`. Call `load` afterwards. */
  add(delivery: Delivery): void {
    this.#waiting.push(delivery)
  }

  /** Removes a delivery that waits for memory; returns false if it does not wait. */
  remove(delivery: Delivery): boolean {
    const at = this.#waiting.indexOf(delivery)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Reads events while memory is free. Call it whenever memory was given back. */
  load(): void {
    while (!this.#stopped && this.#waiting.length > 0 && this.#loads.size < statementsMax) {
      const batch = this.#takeLoadable()
      if (batch.length === 0) return
      const load = this.#read(batch).finally(() => {
        this.#loads.delete(load)
        this.load()
      })
      this.#loads.add(load)
    }
  }

  /** Reads nothing more, waits at most `msMax` for reads in progress, and returns the deliveries that waited. */
  async stop(msMax: number): Promise<readonly Delivery[]> {
    this.#stopped = true
    const waiting = this.#waiting.splice(0)
    if (this.#loads.size > 0) await within<unknown>(msMax, Promise.all(this.#loads), () => undefined)
    return waiting
  }

  /**
   * Takes memory for deliveries in the order of their claims. Head-of-line block: after one that does not fit into the free memory
   * all later ones wait, so that small payloads cannot starve a large one; after one whose tenant has its share, that tenant's do.
   */
  #takeLoadable(): Delivery[] {
    const { capacity, onLost } = this.#options
    const fits: Delivery[] = []
    const rest: Delivery[] = []
    const lost: Delivery[] = []
    const blockedTenants = new Set<TenantId>()
    let isBlocked = false
    let bytes = 0
    for (const delivery of this.#waiting) {
      const { payloadBytes, tenantId } = delivery.claim
      const isFull = fits.length === rowsMax || (fits.length > 0 && bytes + payloadBytes > bytesMax)
      if (performance.now() >= delivery.leaseEndsMs) lost.push(delivery)
      else if (isBlocked || isFull || blockedTenants.has(tenantId)) {
        isBlocked ||= isFull
        rest.push(delivery)
      } else if (capacity.takeBytes(payloadBytes, tenantId)) {
        delivery.payloadBytesHeld = payloadBytes
        bytes += payloadBytes
        fits.push(delivery)
      } else {
        rest.push(delivery)
        if (capacity.bytesRoom < payloadBytes) isBlocked = true
        else blockedTenants.add(tenantId)
      }
    }
    this.#waiting = rest
    for (const delivery of lost) onLost(delivery)
    return fits
  }

  async #read(batch: readonly Delivery[]): Promise<void> {
    const { pool, observer, onLoaded, onFailed } = this.#options
    for (const delivery of batch) delivery.to('loading')
    try {
      const loaded = await loadEvents(
        pool,
        batch.map(({ claim }) => claim),
      )
      for (const delivery of batch) onLoaded(delivery, loaded.get(delivery.id))
    } catch (error) {
      observer.failed('load', error)
      for (const delivery of batch) if (delivery.state === 'loading') onFailed(delivery)
    }
  }
}
