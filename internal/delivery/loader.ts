import { type TenantId, within } from '#internal/base/index.ts'
import { type LoadedEvent, loadEvents } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Capacity } from './capacity.ts'
import type { Delivery } from './delivery.ts'
import type { ForwarderObserver } from './telemetry.ts'

/** The callbacks must not throw. */
export interface LoaderOptions {
  readonly pool: Pool
  readonly capacity: Capacity
  readonly observer: Pick<ForwarderObserver, 'failed'>
  /** Called with the event of a delivery, which then holds payload memory; undefined if retention removed the event. */
  onLoaded(delivery: Delivery, event: LoadedEvent | undefined): void
  onFailed(delivery: Delivery): void
  /** Called when a delivery's lease expired before memory for it was free. */
  onLost(delivery: Delivery): void
}

const rowsMax = 100
/** Maximum payload bytes per statement. A payload that is larger is read by a statement of its own. */
const bytesMax = 4 * 1024 * 1024
/** Two statements run at a time, so that a large payload does not delay later ones. */
const statementsMax = 2

/** Reads the events of claimed deliveries when payload memory is free. `Capacity` limits the number of deliveries. */
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

  /** True if no delivery waits for payload memory; reads can be in progress. */
  get isIdle(): boolean {
    return this.#waiting.length === 0
  }

  /** Removes a waiting delivery. Returns false if the delivery does not wait for payload memory. */
  remove(delivery: Delivery): boolean {
    const at = this.#waiting.indexOf(delivery)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Reads events while memory is free. Call it whenever memory was released. */
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

  /** Starts no further reads, waits at most `msMax` for reads in progress, and returns the deliveries that were waiting. */
  async stop(msMax: number): Promise<readonly Delivery[]> {
    this.#stopped = true
    const waiting = this.#waiting.splice(0)
    if (this.#loads.size > 0) await within<unknown>(msMax, Promise.all(this.#loads), () => undefined)
    return waiting
  }

  /**
   * Reserves memory in the order of claims. Head-of-line block: after a delivery that does not fit, all later ones wait, so that small
   * payloads cannot starve a large one. After a delivery whose tenant has used its quarter of the memory, later ones of that tenant wait.
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
      for (const delivery of batch) onLoaded(delivery, loaded.get(delivery.claim.eventId))
    } catch (error) {
      observer.failed('load', error)
      for (const delivery of batch) if (delivery.state === 'loading') onFailed(delivery)
    }
  }
}
