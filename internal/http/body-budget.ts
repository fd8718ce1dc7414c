import { Deadlines } from '#internal/base/index.ts'

/** One owner gets this fraction of the whole, or one body. */
const ownersShare = 4
/** What the other bodies of an owner may have beside one that takes more than its share. */
const besideShare = 64
/** Bodies over `longBytes` get this fraction of the whole together, or one of them: a short one always finds room beside them. */
const longShare = 2
const longBytes = 1024 * 1024

/** How fast bodies have to come. */
export interface Pace {
  /** For a short body whose length is declared, all in all. */
  readonly shortMsMax: number
  /** For any other body, all in all. */
  readonly longMsMax: number
  /** Without a byte; and the time that a body has before its rate counts. */
  readonly pauseMsMax: number
  /** The rate of any other body from its begin on, less the time above. */
  readonly bytesPerSecondMin: number
}

const defaultPace: Pace = {
  shortMsMax: 10_000,
  longMsMax: 60_000,
  pauseMsMax: 5_000,
  bytesPerSecondMin: 16 * 1024,
}

/** Whether `bytes` are too few after `elapsedMs`, or not all here although the time is over. */
export function isTooSlow(
  { pauseMsMax, longMsMax, bytesPerSecondMin }: Pace,
  bytes: number,
  elapsedMs: number,
): boolean {
  return elapsedMs > longMsMax || bytes < ((elapsedMs - pauseMsMax) / 1000) * bytesPerSecondMin
}

/** What a body has taken of a budget. */
export interface Holding {
  readonly owner: string
  /** Changed by the budget only. */
  bytes: number
}

/** What one owner has. */
interface Owned {
  bytes: number
  /** The body with which it went over its share. */
  wide: Holding | undefined
}

/** Memory that bodies may take in one process, from when they come until their calls are answered; and their time. */
export class BodyBudget {
  readonly pace: Pace
  /** Of short bodies. */
  readonly deadlines: Deadlines
  /** Of the pieces of others. */
  readonly pauses: Deadlines
  readonly #bytesMax: number
  /** What each has; changed in place, since this is on the way of every request. */
  readonly #owners = new Map<string, Owned>()
  #taken = 0
  #takenByLong = 0

  /** @param bytesMax of all bodies; one owner gets a quarter of it, or one body; those over 1 MiB half of it, or one */
  constructor(bytesMax: number, pace: Partial<Pace> = {}) {
    this.#bytesMax = bytesMax
    this.pace = { ...defaultPace, ...pace }
    this.deadlines = new Deadlines(this.pace.shortMsMax)
    this.pauses = new Deadlines(this.pace.pauseMsMax)
  }

  /** How many bytes are taken now. */
  get taken(): number {
    return this.#taken
  }

  /** Has a body hold `bytes` in all, more than it does; false, and nothing changes, when there is no room or its owner has its share. */
  grow(body: Holding, bytes: number): boolean {
    const more = bytes - body.bytes
    if (more <= 0) return true
    if (this.#taken + more > this.#bytesMax) return false
    const longMore = bytes > longBytes ? bytes - bytesIfLong(body.bytes) : 0
    if (longMore > 0 && !this.#hasRoomForLong(body, longMore)) return false
    const owned = this.#owners.get(body.owner)
    if (owned) {
      if (owned.bytes + more > this.#bytesMax / ownersShare && !this.#isWide(owned, body, more)) return false
      owned.bytes += more
    } else this.#owners.set(body.owner, { bytes: more, wide: undefined })
    this.#taken += more
    this.#takenByLong += longMore
    body.bytes = bytes
    return true
  }

  /** Gives back what a body holds beyond `bytesLeft`. Repeating it is harmless. */
  free(body: Holding, bytesLeft = 0): void {
    const less = body.bytes - bytesLeft
    const owned = this.#owners.get(body.owner)
    if (less <= 0 || !owned) return
    this.#taken -= less
    this.#takenByLong -= bytesIfLong(body.bytes) - bytesIfLong(bytesLeft)
    body.bytes = bytesLeft
    owned.bytes -= less
    if (bytesLeft === 0 && owned.wide === body) owned.wide = undefined
    if (owned.bytes <= 0) this.#owners.delete(body.owner)
  }

  #hasRoomForLong(body: Holding, more: number): boolean {
    const isLone = this.#takenByLong === bytesIfLong(body.bytes)
    return isLone || this.#takenByLong + more <= this.#bytesMax / longShare
  }

  /**
   * Whether an owner's bodies may go over its share: one of them, with few bytes beside it. Without those, a large body that
   * comes piece by piece would hardly ever arrive at a busy tenant.
   */
  #isWide(owned: Owned, body: Holding, more: number): boolean {
    const wide = owned.wide ?? body
    const beside = owned.bytes - wide.bytes + (wide === body ? 0 : more)
    if (beside > this.#bytesMax / besideShare) return false
    owned.wide = wide
    return true
  }
}

function bytesIfLong(bytes: number): number {
  return bytes > longBytes ? bytes : 0
}
