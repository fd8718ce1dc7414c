import { type Day, dayAfter, expiryDayOf } from '#internal/base/index.ts'
import type { UsualDays } from './claim.ts'
import type { ClaimedDelivery } from './delivery.ts'

const rowsBetween = 50
/** The model's defaults, until rows tell better. */
const eventDays = 90
const payloadDays = 30

/** Knows on which days most of the claimed rows go, so that a claim can bring them along. */
export class UsualDaysTally {
  readonly #counts = new Map<string, { readonly days: UsualDays; count: number }>()
  #current: UsualDays
  #rows = 0

  constructor(nowMs: number) {
    this.#current = { expiresOn: dayAfter(nowMs, eventDays), payloadExpiresOn: dayAfter(nowMs, payloadDays) }
  }

  /** Those of most of the last fifty rows that were counted. */
  get current(): UsualDays {
    return this.#current
  }

  /** Counts a row; one of each claim is enough. */
  add({ eventId, payloadExpiresOn }: ClaimedDelivery): void {
    const expiresOn: Day = expiryDayOf(eventId)
    const name = `${expiresOn} ${payloadExpiresOn}`
    const known = this.#counts.get(name) ?? { days: { expiresOn, payloadExpiresOn }, count: 0 }
    known.count += 1
    this.#counts.set(name, known)
    this.#rows += 1
    if (this.#rows >= rowsBetween) this.#decide()
  }

  #decide(): void {
    let most = 0
    for (const { days, count } of this.#counts.values()) {
      if (count <= most) continue
      most = count
      this.#current = days
    }
    this.#counts.clear()
    this.#rows = 0
  }
}
