import type { Clock, TenantId } from '#internal/base/index.ts'

const underWayMax = 16
const tenantUnderWayMax = 2
/** Of one tenant, in a minute. Addresses come from whoever knows a tenant's slug, and most of them would be made up. */
const tenantFailuresMax = 30
const tenantsMax = 10_000
/** Of certificates that are in use: an address each, and the vendor has a handful. */
const refreshesMax = 8
const minuteMs = 60_000

/**
 * Who may begin a fetch: 16 are under way at most and 2 for one tenant, so that eight tenants have to be at it before a ninth
 * waits; a tenant for which 30 have failed within a minute gets none until the next. What is known to be the vendor's has places of
 * its own, since whoever knows a slug could fill the others with made-up addresses.
 */
export class FetchSlots {
  readonly #clock: Clock
  readonly #underWay = new Map<TenantId, number>()
  readonly #failures = new Map<TenantId, number>()
  #total = 0
  #refreshes = 0
  #minute = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes a slot for a tenant, to be given back once. @returns false where there is none: begin nothing then */
  take(tenantId: TenantId): boolean {
    this.#turnMinute()
    const underWay = this.#underWay.get(tenantId) ?? 0
    const failures = this.#failures.get(tenantId) ?? 0
    if (this.#total >= underWayMax || underWay >= tenantUnderWayMax) return false
    if (failures >= tenantFailuresMax || this.#failures.size >= tenantsMax) return false
    this.#underWay.set(tenantId, underWay + 1)
    this.#total += 1
    return true
  }

  /** Takes a slot for a certificate that is kept, to be given back once. @returns false where there is none */
  takeRefresh(): boolean {
    if (this.#refreshes >= refreshesMax) return false
    this.#refreshes += 1
    return true
  }

  /** Gives such a slot back. */
  giveBackRefresh(): void {
    this.#refreshes -= 1
  }

  /** Gives a slot back, and tells whether the fetch brought nothing. */
  giveBack(tenantId: TenantId, failed: boolean): void {
    const left = (this.#underWay.get(tenantId) ?? 1) - 1
    if (left === 0) this.#underWay.delete(tenantId)
    else this.#underWay.set(tenantId, left)
    this.#total -= 1
    this.#turnMinute()
    if (failed) this.#failures.set(tenantId, (this.#failures.get(tenantId) ?? 0) + 1)
  }

  #turnMinute(): void {
    const minute = Math.floor(this.#clock.now() / minuteMs)
    if (minute === this.#minute) return
    this.#minute = minute
    this.#failures.clear()
  }
}
