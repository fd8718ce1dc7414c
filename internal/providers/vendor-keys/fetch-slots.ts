import type { Clock, TenantId } from '#internal/base/index.ts'

const inFlightMax = 16
const tenantInFlightMax = 2
/** Maximum number of failed fetches per tenant and minute. Anyone who knows the tenant's slug can cause them with invented addresses. */
const tenantFailuresMax = 30
const failingTenantsMax = 10_000
/** Maximum number of concurrent fetches of known addresses. A vendor has a handful of certificates, and one key set. */
const knownInFlightMax = 8
const knownPerMinuteMax = 120
const minuteMs = 60_000

/**
 * Limits fetches in flight to 16 in total and 2 per tenant. After 30 failures, a tenant gets no fetch for the rest of the minute. Known
 * addresses (refreshes, key sets) have separate slots, 8 in flight and 120 per minute, so that invented addresses cannot starve them.
 */
export class FetchSlots {
  readonly #clock: Clock
  readonly #inFlight = new Map<TenantId, number>()
  readonly #failures = new Map<TenantId, number>()
  #total = 0
  #known = 0
  #knownThisMinute = 0
  #minute = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Takes a slot, which must be released once. Returns false if no slot is free.
   * @param tenantId tenant whose call names the address; undefined for a known address
   */
  take(tenantId: TenantId | undefined): boolean {
    this.#turnMinute()
    if (tenantId === undefined) {
      if (this.#known >= knownInFlightMax || this.#knownThisMinute >= knownPerMinuteMax) return false
      this.#known += 1
      this.#knownThisMinute += 1
      return true
    }
    const inFlight = this.#inFlight.get(tenantId) ?? 0
    const failures = this.#failures.get(tenantId) ?? 0
    if (this.#total >= inFlightMax || inFlight >= tenantInFlightMax) return false
    if (failures >= tenantFailuresMax || this.#failures.size >= failingTenantsMax) return false
    this.#inFlight.set(tenantId, inFlight + 1)
    this.#total += 1
    return true
  }

  release(tenantId: TenantId | undefined, failed: boolean): void {
    if (tenantId === undefined) {
      this.#known -= 1
      return
    }
    const left = (this.#inFlight.get(tenantId) ?? 1) - 1
    if (left === 0) this.#inFlight.delete(tenantId)
    else this.#inFlight.set(tenantId, left)
    this.#total -= 1
    this.#turnMinute()
    if (failed) this.#failures.set(tenantId, (this.#failures.get(tenantId) ?? 0) + 1)
  }

  #turnMinute(): void {
    const minute = Math.floor(this.#clock.now() / minuteMs)
    if (minute === this.#minute) return
    this.#minute = minute
    this.#knownThisMinute = 0
    this.#failures.clear()
  }
}
