import { type Candidate, chooseVictims, type Requester, rateOf } from './body-victims.ts'

/** One owner gets this fraction of the whole for small bodies and once more for larger ones, or one body. */
const ownersShare = 4
/** Bytes that an owner's larger bodies may have beside one that takes more than its share. */
const besideShare = 64
/** Bodies up to this size are small; larger ones leave them this fraction of the whole. */
export const smallBytes: number = 16 * 1024
const reserveShare = 6
/** Bodies over `longBytes` get this fraction of the whole together, or one of them: a shorter one always finds room beside them. */
const longShare = 2
const longBytes = 1024 * 1024
/** A source's bodies go first where they have more than this fraction of a limit, its heaviest one aside. */
const sourcesShare = 16
/** Under pressure bodies are dropped until this fraction of the limit is free, so that bodies are seldom ranked. */
const dropShare = 64
/** Each body that is waited for costs about 10 KB beside its bytes (Bun 1.4.5, 2026-11). */
const bodiesMaxDefault = 2048
const sweepMs = 100

/** How fast bodies have to arrive. */
export interface Pace {
  /** Declared length up to which a body is short. */
  readonly shortBytes: number
  /** Total time of a short body. */
  readonly shortMsMax: number
  /** Total time of any other body. */
  readonly longMsMax: number
  /** Longest time without a byte, of bodies that are not short; and the time before their rate counts. */
  readonly pauseMsMax: number
  /** Rate of bodies that are not short, from their start on, less the time above. */
  readonly bytesPerSecondMin: number
  /** Age below which a body is not compared by its rate. */
  readonly graceMs: number
}

const defaultPace: Pace = {
  shortBytes: 64 * 1024,
  shortMsMax: 10_000,
  longMsMax: 60_000,
  pauseMsMax: 5_000,
  bytesPerSecondMin: 16 * 1024,
  graceMs: 500,
}

/** Why a body is given up before it has arrived: it came too slowly, or others needed its room more. */
export type GivenUp = 'too_slow' | 'dropped'

/** A body that is waited for. */
export interface Arrival {
  /** As `sourceOf` of its body said. */
  readonly source: string
  readonly startedAtMs: number
  bytesArrived: number
  lastByteAtMs: number
  /** Ends the wait. Called once at most, after the body's memory was given back. */
  giveUp(why: GivenUp): void
}

/** Gathers all calls of one turn of the event loop to let them go on in the next, with one timer. */
class LoopTurns {
  #next: PromiseWithResolvers<void> | undefined

  /** Resolves when the bytes have been handled that had arrived by now. */
  next(): Promise<void> {
    this.#next ??= this.#begin()
    return this.#next.promise
  }

  #begin(): PromiseWithResolvers<void> {
    const turn = Promise.withResolvers<void>()
    setImmediate(() => {
      this.#next = undefined
      turn.resolve()
    })
    return turn
  }
}

/** A body with what it holds of a budget. */
export interface Holding {
  readonly owner: string
  /** Null where the body comes in chunks. */
  readonly bytesDeclared: number | null
  /** Changed by the budget only. */
  bytes: number
  /** Set by the budget while the body is waited for. */
  arrival: Arrival | undefined
  /** Address or owner under which the body is counted when room is short; asked only when it matters. */
  sourceOf(): string
}

/** Bytes of one owner. */
interface Owned {
  small: number
  large: number
  /** The body with which it went over its share. */
  wide: Holding | undefined
}

/** What is missing for a body to grow, and which bodies hold it. */
interface Lack {
  readonly needed: number
  readonly limit: number
  isHeldBy(body: Holding): boolean
}

/** Bounds of a budget. */
export interface BudgetBounds {
  /** Bytes of all bodies. */
  readonly bytesMax: number
  /** Bodies that are waited for at a time; default 2 048. */
  readonly bodiesMax?: number
  readonly pace?: Partial<Pace>
}

/**
 * Memory of the bodies of one process, charged as bytes arrive and until their calls are answered. Where there is no room left,
 * for bytes or for one more body to wait for, the bodies with the least progress are dropped first.
 */
export class BodyBudget {
  readonly pace: Pace
  /** Shared by all calls that read their bodies. */
  readonly turns: LoopTurns = new LoopTurns()
  readonly #bytesMax: number
  readonly #bodiesMax: number
  /** Changed in place, since every request comes by here. */
  readonly #owners = new Map<string, Owned>()
  readonly #arriving = new Set<Holding>()
  #taken = 0
  #takenByLarge = 0
  #takenByLong = 0
  #timer: Timer | undefined

  constructor({ bytesMax, bodiesMax = bodiesMaxDefault, pace = {} }: BudgetBounds) {
    this.#bytesMax = bytesMax
    this.#bodiesMax = bodiesMax
    this.pace = { ...defaultPace, ...pace }
  }

  /** Bytes that are taken now. */
  get taken(): number {
    return this.#taken
  }

  /** Bodies that are waited for now. */
  get arriving(): number {
    return this.#arriving.size
  }

  /**
   * Begins to wait for a body whose bytes are not all here. Always finds a place, if need be that of another body.
   * @param giveUp ends the wait; called once at most, after the body's memory was given back
   */
  begin(body: Holding, nowMs: number, giveUp: Arrival['giveUp']): void {
    if (this.#arriving.size >= this.#bodiesMax) this.#makePlace(nowMs)
    body.arrival = {
      source: body.sourceOf(),
      startedAtMs: nowMs,
      lastByteAtMs: nowMs,
      bytesArrived: 0,
      giveUp,
    }
    this.#arriving.add(body)
    this.#timer ??= setInterval(() => this.endLate(performance.now()), sweepMs)
  }

  /**
   * Charges a body with `bytes` in all, if that is more than it has. Without room, bodies that are waited for and make less
   * progress are dropped; a small body that has just begun is not compared.
   * @returns false, and nothing changes, when that gives no room either
   */
  grow(body: Holding, bytes: number, nowMs: number): boolean {
    if (bytes <= body.bytes) return true
    // Each turn drops a body at least.
    for (let lack = this.#lackOf(body, bytes); lack; lack = this.#lackOf(body, bytes)) {
      const { needed, limit, isHeldBy } = lack
      const candidates = [...this.#arriving].filter((other) => other !== body && isHeldBy(other))
      const requester = this.#requesterOf(body, bytes, nowMs)
      const victims = chooseVictims(candidates.map(asCandidate), {
        ...{ needed, wanted: Math.max(needed, limit / dropShare), sourceShare: limit / sourcesShare },
        ...{ nowMs, graceMs: this.pace.graceMs, requester },
      })
      if (victims.length === 0) return false
      for (const { body: victim } of victims) this.#giveUp(victim, 'dropped')
    }
    this.#charge(body, bytes)
    return true
  }

  /** Ends the wait for a body that has arrived or broken off. Repeating it is harmless. */
  finish(body: Holding): void {
    if (!this.#arriving.delete(body)) return
    body.arrival = undefined
    if (this.#arriving.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Gives back what a body holds beyond `bytesLeft`. Repeating it is harmless. */
  free(body: Holding, bytesLeft = 0): void {
    if (body.bytes > bytesLeft) this.#charge(body, bytesLeft)
  }

  /** Gives up the bodies that are too slow at this time. The budget calls it each 100 ms while it waits for any. */
  endLate(nowMs: number): void {
    for (const body of [...this.#arriving]) {
      const { arrival } = body
      if (arrival && isLate(this.pace, body.bytesDeclared, arrival, nowMs)) this.#giveUp(body, 'too_slow')
    }
  }

  #makePlace(nowMs: number): void {
    const candidates = [...this.#arriving].map((body) => ({ ...asCandidate(body), weight: 1 }))
    const victims = chooseVictims(candidates, {
      ...{ needed: 1, wanted: this.#bodiesMax / dropShare, sourceShare: this.#bodiesMax / sourcesShare },
      ...{ nowMs, graceMs: this.pace.graceMs, requester: undefined },
    })
    for (const { body } of victims) this.#giveUp(body, 'dropped')
  }

  #giveUp(body: Holding, why: GivenUp): void {
    const { arrival } = body
    this.finish(body)
    this.free(body)
    arrival?.giveUp(why)
  }

  #requesterOf(body: Holding, bytes: number, nowMs: number): Requester | undefined {
    const { arrival } = body
    const ageMs = arrival ? nowMs - arrival.startedAtMs : 0
    const { graceMs } = this.pace
    if (largeOf(body, bytes) === 0 && ageMs < graceMs) return undefined
    const bytesArrived = arrival?.bytesArrived ?? bytes
    return { source: arrival?.source ?? body.sourceOf(), rate: rateOf(bytesArrived, ageMs, graceMs) }
  }

  /** The first bound that keeps a body from growing, or undefined. */
  #lackOf(body: Holding, bytes: number): Lack | undefined {
    const { bytes: before } = body
    const largeMore = largeOf(body, bytes) - largeOf(body, before)
    const total = this.#taken + bytes - before - this.#bytesMax
    if (total > 0) return { needed: total, limit: this.#bytesMax, isHeldBy: (other) => other.bytes > 0 }
    if (largeMore > 0) {
      const limit = this.#bytesMax * (1 - 1 / reserveShare)
      const needed = this.#takenByLarge + largeMore - limit
      if (needed > 0) return { needed, limit, isHeldBy: (other) => largeOf(other, other.bytes) > 0 }
    }
    const longMore = longOf(bytes) - longOf(before)
    if (longMore > 0) {
      const limit = this.#bytesMax / longShare
      const others = this.#takenByLong - longOf(before)
      const needed = Math.min(others, others + longOf(bytes) - limit)
      if (needed > 0) return { needed, limit, isHeldBy: (other) => longOf(other.bytes) > 0 }
    }
    return this.#ownersLackOf(body, bytes)
  }

  #ownersLackOf(body: Holding, bytes: number): Lack | undefined {
    const owned = this.#owners.get(body.owner)
    if (!owned) return undefined
    const isOwners = (other: Holding) => other.owner === body.owner && other.bytes > 0
    const limit = this.#bytesMax / ownersShare
    const large = largeOf(body, bytes)
    if (large === 0) {
      const needed = owned.small + bytes - body.bytes - limit
      return needed > 0
        ? { needed, limit, isHeldBy: (other) => isOwners(other) && largeOf(other, other.bytes) === 0 }
        : undefined
    }
    const largeAfter = owned.large + large - largeOf(body, body.bytes)
    const { wide = body } = owned
    const beside = largeAfter - (wide === body ? large : wide.bytes) - this.#bytesMax / besideShare
    const needed = Math.min(largeAfter - limit, beside)
    return needed > 0
      ? { needed, limit, isHeldBy: (other) => isOwners(other) && largeOf(other, other.bytes) > 0 }
      : undefined
  }

  /** Writes down that a body holds `bytes` from now on. */
  #charge(body: Holding, bytes: number): void {
    const { bytes: before, owner } = body
    const more = bytes - before
    const largeMore = largeOf(body, bytes) - largeOf(body, before)
    let owned = this.#owners.get(owner)
    if (!owned) this.#owners.set(owner, (owned = { small: 0, large: 0, wide: undefined }))
    owned.large += largeMore
    owned.small += more - largeMore
    if (more > 0 && owned.large > this.#bytesMax / ownersShare) owned.wide ??= body
    if (bytes === 0 && owned.wide === body) owned.wide = undefined
    if (owned.large + owned.small === 0) this.#owners.delete(owner)
    this.#taken += more
    this.#takenByLarge += largeMore
    this.#takenByLong += longOf(bytes) - longOf(before)
    body.bytes = bytes
  }
}

function asCandidate(body: Holding): Candidate & { readonly body: Holding } {
  const { arrival, bytes } = body
  if (!arrival) throw new Error('a body that is not waited for is no candidate')
  const { source, startedAtMs, bytesArrived } = arrival
  return { body, weight: bytes, source, startedAtMs, bytesArrived }
}

/** `bytes` where a body that has so many, or declares more, is no small one. */
function largeOf(body: Holding, bytes: number): number {
  return bytes > smallBytes || (body.bytesDeclared ?? 0) > smallBytes ? bytes : 0
}

function longOf(bytes: number): number {
  return bytes > longBytes ? bytes : 0
}

/** Whether a body that is waited for has had its time. */
export function isLate(
  pace: Pace,
  bytesDeclared: number | null,
  { startedAtMs, lastByteAtMs, bytesArrived }: Pick<Arrival, 'startedAtMs' | 'lastByteAtMs' | 'bytesArrived'>,
  nowMs: number,
): boolean {
  const elapsedMs = nowMs - startedAtMs
  if (bytesDeclared !== null && bytesDeclared <= pace.shortBytes) return elapsedMs > pace.shortMsMax
  const { pauseMsMax, longMsMax, bytesPerSecondMin } = pace
  if (elapsedMs > longMsMax || nowMs - lastByteAtMs > pauseMsMax) return true
  return bytesArrived < ((elapsedMs - pauseMsMax) / 1000) * bytesPerSecondMin
}
