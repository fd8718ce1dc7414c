import {
  type Candidate,
  chooseVictims,
  type Progress,
  type Requester,
  scoreAfter,
  scoreAt,
  startProgress,
} from './body-victims.ts'

/** Maximum size of a small body. */
export const smallBytes: number = 64 * 1024
const longBytes = 1024 * 1024
/** Divisor of the budget: maximum share of one owner, separately for small and for larger bodies. A single larger body may exceed it. */
const ownersShare = 4
/** Divisor of the budget: maximum for an owner's other large bodies while one body exceeds the owner's share. */
const besideShare = 64
/** Divisor of the budget: reserve for small bodies, which larger ones cannot use. */
const reserveShare = 6
/** Divisor of the budget: maximum of all bodies over `longBytes`, or one of them. */
const longShare = 2
/** Divisor of a limit: a source above it, not counting its largest body, is evicted first. */
const sourcesShare = 16
/** Divisor of a limit: an eviction frees at least this much where it can, so that bodies are seldom ranked. */
const evictShare = 64
/** An unfinished body costs about 10 KB beside its bytes (Bun 1.4.5, 2026-11). */
const bodiesMaxDefault = 2048
const sweepMs = 100

/** Minimum pace of bodies. */
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
  /** Grace period, ms: a younger small body may evict any other. */
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

/** Reason an unfinished body is aborted: below the minimum pace, or evicted for another body. */
export type GivenUp = 'too_slow' | 'evicted'

/** State of an unfinished body. */
export interface Arrival extends Progress {
  /** Eviction group: client network or tenant. */
  readonly source: string
  readonly startedAtMs: number
  bytesArrived: number
  lastByteAtMs: number
  /** At `lastByteAtMs`. */
  score: number
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
  /** Set by the budget while the body is unfinished. */
  arrival: Arrival | undefined
  /** Returns the eviction group: client network or tenant. Called once, for a body that does not arrive with its head. */
  sourceOf(): string
}

/** A limit for the bodies of one size class, of all owners or of one. */
interface Pool {
  readonly counts: 'all' | 'small' | 'large' | 'long'
  readonly limit: number
  /** Undefined for a pool of all owners. */
  readonly owner?: string
  /** One body may exceed the limit alone, with at most this many bytes beside it. Absent: none may. */
  readonly besideMax?: number
  taken: number
  /** The body that exceeds the limit; undefined for pools that exempt the body that asks. */
  wide?: Holding | undefined
}

/** An exceeded limit with the bytes to free. */
interface Lack {
  readonly needed: number
  readonly pool: Pool
}

/** Bounds of a budget. */
export interface BudgetBounds {
  /** Bytes of all bodies. */
  readonly bytesMax: number
  /** Maximum of unfinished bodies; default 2 048. */
  readonly bodiesMax?: number
  readonly pace?: Partial<Pace>
  /**
   * Lets the runtime gather bodies of a declared length up to 16 KiB, which are charged once they are complete; default false.
   * For authenticated callers only: up to `bodiesMax` times 16 KiB are then not charged.
   */
  readonly gathersSmall?: boolean
}

/**
 * Memory of the bodies of one process, charged as bytes arrive and until their calls are answered. Without room for bytes or for
 * one more unfinished body, unfinished bodies with the least recent progress are evicted. A complete body is never evicted.
 */
export class BodyBudget {
  readonly pace: Pace
  readonly gathersSmall: boolean
  /** Shared by all calls that read their bodies. */
  readonly turns: LoopTurns = new LoopTurns()
  readonly #bytesMax: number
  readonly #bodiesMax: number
  readonly #all: Pool
  /** Pools of all owners, in the order in which they are checked. */
  readonly #pools: readonly Pool[]
  /** Pools of owners that hold something. */
  readonly #owned = new Map<string, readonly Pool[]>()
  readonly #arriving = new Set<Holding>()
  #timer: Timer | undefined

  constructor({ bytesMax, bodiesMax = bodiesMaxDefault, pace = {}, gathersSmall = false }: BudgetBounds) {
    this.#bytesMax = bytesMax
    this.#bodiesMax = bodiesMax
    this.pace = { ...defaultPace, ...pace }
    this.gathersSmall = gathersSmall
    this.#all = { counts: 'all', limit: bytesMax, taken: 0 }
    this.#pools = [
      this.#all,
      { counts: 'large', limit: bytesMax * (1 - 1 / reserveShare), taken: 0 },
      { counts: 'long', limit: bytesMax / longShare, besideMax: 0, taken: 0 },
    ]
  }

  /** Bytes charged now. */
  get taken(): number {
    return this.#all.taken
  }

  /** Unfinished bodies now. */
  get arriving(): number {
    return this.#arriving.size
  }

  /**
   * Registers an unfinished body. Evicts others at `bodiesMax`; never fails.
   * @param giveUp aborts it; called once at most, after the body's memory was released
   */
  begin(body: Holding, nowMs: number, giveUp: Arrival['giveUp']): void {
    if (this.#arriving.size >= this.#bodiesMax) this.#makePlace(nowMs)
    body.arrival = {
      source: body.sourceOf(),
      startedAtMs: nowMs,
      bytesArrived: 0,
      giveUp,
      ...startProgress(nowMs),
    }
    this.#arriving.add(body)
    this.#timer ??= setInterval(() => this.endLate(performance.now()), sweepMs)
  }

  /** Counts bytes of an unfinished body as its progress. Charges nothing. */
  progress({ arrival }: Holding, bytes: number, nowMs: number): void {
    if (!arrival) return
    arrival.score = scoreAfter(arrival, bytes, nowMs)
    arrival.lastByteAtMs = nowMs
    arrival.bytesArrived += bytes
  }

  /**
   * Charges a body with `bytes` in all, if that is more than it has. Without room, evicts unfinished bodies: any for a complete
   * body and for a small one in its grace period, else those with at most half of its recent progress.
   * @returns false, and nothing changes, when that frees too little
   */
  grow(body: Holding, bytes: number, nowMs: number): boolean {
    if (bytes <= body.bytes) return true
    // Each turn evicts a body at least.
    for (let lack = this.#lackOf(body, bytes); lack; lack = this.#lackOf(body, bytes)) {
      const { needed, pool } = lack
      const { limit } = pool
      const candidates = [...this.#arriving].filter((other) => other !== body && isIn(pool, other))
      const requester = this.#requesterOf(body, bytes, nowMs)
      const victims = chooseVictims(candidates.map(asCandidate), {
        ...{ needed, wanted: Math.max(needed, limit / evictShare), sourceShare: limit / sourcesShare },
        ...{ nowMs, requester },
      })
      if (victims.length === 0) return false
      for (const { body: victim } of victims) this.#giveUp(victim, 'evicted')
    }
    this.#charge(body, bytes)
    return true
  }

  /** Unregisters a body that is complete or has broken off. Repeating it is harmless. */
  finish(body: Holding): void {
    if (!this.#arriving.delete(body)) return
    body.arrival = undefined
    if (this.#arriving.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Releases what a body holds beyond `bytesLeft`. Repeating it is harmless. */
  free(body: Holding, bytesLeft = 0): void {
    if (body.bytes > bytesLeft) this.#charge(body, bytesLeft)
  }

  /** Aborts the bodies that are too slow at this time. The budget calls it every 100 ms while there are unfinished ones. */
  endLate(nowMs: number): void {
    for (const body of [...this.#arriving]) {
      const { arrival } = body
      if (arrival && isLate(this.pace, body.bytesDeclared, arrival, nowMs)) this.#giveUp(body, 'too_slow')
    }
  }

  #makePlace(nowMs: number): void {
    const candidates = [...this.#arriving].map((body) => ({ ...asCandidate(body), weight: 1 }))
    const victims = chooseVictims(candidates, {
      ...{ needed: 1, wanted: this.#bodiesMax / evictShare, sourceShare: this.#bodiesMax / sourcesShare },
      ...{ nowMs, requester: undefined },
    })
    for (const { body } of victims) this.#giveUp(body, 'evicted')
  }

  #giveUp(body: Holding, why: GivenUp): void {
    const { arrival } = body
    this.finish(body)
    this.free(body)
    arrival?.giveUp(why)
  }

  /** Undefined for a body that is not compared. */
  #requesterOf(body: Holding, bytes: number, nowMs: number): Requester | undefined {
    const { arrival, bytesDeclared } = body
    if (!arrival || arrival.bytesArrived === bytesDeclared) return undefined
    if (largeOf(body, bytes) === 0 && nowMs - arrival.startedAtMs < this.pace.graceMs) return undefined
    return { source: arrival.source, score: scoreAt(arrival, nowMs) }
  }

  /** Returns the first limit that a body would exceed, or undefined. An owner that holds nothing has no limit of its own yet. */
  #lackOf(body: Holding, bytes: number): Lack | undefined {
    return findLack(this.#pools, body, bytes) ?? findLack(this.#owned.get(body.owner) ?? [], body, bytes)
  }

  /** Sets the bytes that a body holds. */
  #charge(body: Holding, bytes: number): void {
    const { bytes: before, owner } = body
    for (const pool of this.#pools) pool.taken += weigh(pool, body, bytes) - weigh(pool, body, before)
    let owned = this.#owned.get(owner)
    if (!owned) this.#owned.set(owner, (owned = this.#poolsOf(owner)))
    let held = 0
    for (const pool of owned) {
      pool.taken += weigh(pool, body, bytes) - weigh(pool, body, before)
      held += pool.taken
      if (pool.besideMax === undefined) continue
      if (bytes > before && pool.taken > pool.limit) pool.wide ??= body
      if (bytes === 0 && pool.wide === body) pool.wide = undefined
    }
    if (held === 0) this.#owned.delete(owner)
    body.bytes = bytes
  }

  #poolsOf(owner: string): readonly Pool[] {
    const limit = this.#bytesMax / ownersShare
    return [
      { counts: 'small', limit, owner, taken: 0 },
      { counts: 'large', limit, owner, besideMax: this.#bytesMax / besideShare, taken: 0 },
    ]
  }
}

function findLack(pools: readonly Pool[], body: Holding, bytes: number): Lack | undefined {
  for (const pool of pools) {
    const own = weigh(pool, body, bytes)
    const before = weigh(pool, body, body.bytes)
    if (own <= before) continue
    const after = pool.taken + own - before
    const { wide = body, besideMax } = pool
    const beside = besideMax === undefined ? Infinity : after - (wide === body ? own : wide.bytes) - besideMax
    const needed = Math.min(after - pool.limit, beside)
    if (needed > 0) return { needed, pool }
  }
  return undefined
}

/** Returns the bytes of a body that count in a pool. */
function weigh({ counts }: Pool, body: Holding, bytes: number): number {
  switch (counts) {
    case 'all':
      return bytes
    case 'small':
      return bytes - largeOf(body, bytes)
    case 'large':
      return largeOf(body, bytes)
    case 'long':
      return bytes > longBytes ? bytes : 0
  }
}

function isIn(pool: Pool, body: Holding): boolean {
  return (pool.owner === undefined || pool.owner === body.owner) && weigh(pool, body, body.bytes) > 0
}

function asCandidate(body: Holding): Candidate & { readonly body: Holding } {
  const { arrival, bytes } = body
  if (!arrival) throw new Error('a complete body is no candidate')
  const { source, startedAtMs, lastByteAtMs, score } = arrival
  return { body, weight: bytes, source, startedAtMs, lastByteAtMs, score }
}

/** Returns `bytes` for a large body, 0 for a small one. */
function largeOf(body: Holding, bytes: number): number {
  return bytes > smallBytes || (body.bytesDeclared ?? 0) > smallBytes ? bytes : 0
}

/** Returns whether an unfinished body is below the minimum pace or past its deadline. */
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
