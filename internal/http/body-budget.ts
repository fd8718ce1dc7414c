import {
  type Candidate,
  chooseVictims,
  type Progress,
  type Requester,
  scoreAfter,
  scoreAt,
  startProgress,
} from './body-victims.ts'

export const smallBytes: number = 64 * 1024
const longBytes = 1024 * 1024
/** Divisor of the budget. This part limits the small bodies of one owner and, separately, its large ones. One large body can exceed it. */
const ownersShare = 4
/** Divisor of the budget. While one large body exceeds its owner's limit, this part limits the owner's other large bodies in total. */
const besideShare = 64
/** Divisor of the budget. This part is kept free for small bodies. */
const reserveShare = 6
/** Divisor of the budget. This part limits all bodies over `longBytes` in total. A single body can exceed it. */
const longShare = 2
/** Divisor of an exceeded limit. If a source without its largest body takes more than this part, its bodies are evicted first. */
const sourcesShare = 16
/** Divisor of an exceeded limit. One eviction frees at least this part, if possible, so that bodies are ranked only rarely. */
const evictShare = 64
/** Default maximum number of unfinished bodies. Each costs about 10 KB in addition to its bytes (Bun 1.4.5, 2026-11). */
const bodiesMaxDefault = 2048
const gatheredBytesDefault = 4 * 1024
const sweepMs = 100

export interface Pace {
  /** Maximum declared length of a short body. */
  readonly shortBytes: number
  readonly shortMsMax: number
  /** Maximum total time of a long body: one with more than `shortBytes`, or with an undeclared length. */
  readonly longMsMax: number
  /** Maximum time without a byte for a long body. */
  readonly pauseMsMax: number
  /** Minimum rate of a long body, from `pauseMsMax` after its start. */
  readonly bytesPerSecondMin: number
  /** Age below which a small body can evict any unfinished body. */
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

export type GivenUp = 'too_slow' | 'evicted'

export interface Arrival extends Progress {
  /** Client network or tenant. Each source can use a limited share of the memory budget. */
  readonly source: string
  readonly startedAtMs: number
  bytesArrived: number
  lastByteAtMs: number
  score: number
  /** Ends the reading of the body with an error. Called at most once, after the memory of the body was released. */
  giveUp(why: GivenUp): void
}

/** Resumes all callers of one iteration of the event loop in the next iteration, with one timer. */
class LoopTurns {
  #next: PromiseWithResolvers<void> | undefined

  /** Resolves after the bytes that have already arrived are processed. */
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

/** Request body and its charge on a budget. */
export interface Holding {
  readonly owner: string
  /** Declared length; null for a chunked body. */
  readonly bytesDeclared: number | null
  /** Charged bytes. Only the budget changes this value. */
  bytes: number
  /** State that the budget sets; undefined for a complete body. */
  arrival: Arrival | undefined
  /** Returns the client network or tenant. Called once, and only if the body does not arrive together with the request head. */
  sourceOf(): string
}

interface Pool {
  readonly counts: 'all' | 'small' | 'large' | 'long'
  readonly limit: number
  /** Owner to which the limit applies; undefined if it applies to all owners in total. */
  readonly owner?: string
  /** Maximum bytes of all other bodies while one body exceeds the limit. Absent: no body can exceed it. */
  readonly besideMax?: number
  taken: number
  /** The only body that can exceed the limit. While undefined, the body that requests memory can exceed it. */
  wide?: Holding | undefined
}

interface Lack {
  readonly needed: number
  readonly pool: Pool
}

export interface BudgetBounds {
  /** Maximum bytes of all bodies in total. */
  readonly bytesMax: number
  /** Maximum number of unfinished bodies; default 2 048. */
  readonly bodiesMax?: number
  readonly pace?: Partial<Pace>
  /**
   * Maximum declared length of a body that the runtime buffers; default 4 KiB. Such bodies are charged only when complete, so up to
   * `bodiesMax` times this number of bytes are in memory without a charge.
   */
  readonly gatheredBytesMax?: number
}

/**
 * Memory budget for the request bodies of one process. Bytes are charged when they arrive; those of a body that the runtime buffers
 * (`gatheredBytesMax`), when the body is complete. They stay charged until the response is sent. When further bytes or a further unfinished
 * body would exceed a limit, the unfinished bodies with the least recent progress are evicted. A complete body is never evicted.
 */
export class BodyBudget {
  readonly pace: Pace
  readonly gatheredBytesMax: number
  readonly turns: LoopTurns = new LoopTurns()
  readonly #bytesMax: number
  readonly #bodiesMax: number
  readonly #all: Pool
  /** Limits for all owners, in the order of their checks. */
  readonly #pools: readonly Pool[]
  readonly #owned = new Map<string, readonly Pool[]>()
  readonly #arriving = new Set<Holding>()
  #timer: Timer | undefined

  constructor(bounds: BudgetBounds) {
    const {
      bytesMax,
      bodiesMax = bodiesMaxDefault,
      pace = {},
      gatheredBytesMax = gatheredBytesDefault,
    } = bounds
    this.#bytesMax = bytesMax
    this.#bodiesMax = bodiesMax
    this.pace = { ...defaultPace, ...pace }
    this.gatheredBytesMax = gatheredBytesMax
    this.#all = { counts: 'all', limit: bytesMax, taken: 0 }
    this.#pools = [
      this.#all,
      { counts: 'large', limit: bytesMax * (1 - 1 / reserveShare), taken: 0 },
      { counts: 'long', limit: bytesMax / longShare, besideMax: 0, taken: 0 },
    ]
  }

  get taken(): number {
    return this.#all.taken
  }

  get arriving(): number {
    return this.#arriving.size
  }

  /**
   * Registers an unfinished body. At `bodiesMax`, evicts other bodies. Never fails.
   * @param giveUp aborts the body; called at most once, after its memory was released
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

  /** Counts received bytes as progress of an unfinished body. Charges no bytes. */
  progress({ arrival }: Holding, bytes: number, nowMs: number): void {
    if (!arrival) return
    arrival.score = scoreAfter(arrival, bytes, nowMs)
    arrival.lastByteAtMs = nowMs
    arrival.bytesArrived += bytes
  }

  /**
   * Raises the charge of a body to `bytes`. If a limit is exceeded, evicts unfinished bodies: any of them for a complete body or for a
   * small body in its grace period, otherwise only bodies with at most half of its recent progress.
   * @returns false, without any change, if the evictions would free too little
   */
  grow(body: Holding, bytes: number, nowMs: number): boolean {
    if (bytes <= body.bytes) return true
    // The loop ends, because each iteration evicts at least one body.
    for (let lack = this.#lackOf(body, bytes); lack; lack = this.#lackOf(body, bytes)) {
      const { needed, pool } = lack
      const { limit } = pool
      const candidates = Array.from(this.#arriving).filter((other) => other !== body && isIn(pool, other))
      const requester = this.#requesterOf(body, bytes, nowMs)
      const victims = chooseVictims(candidates.map(asCandidate), {
        needed,
        wanted: Math.max(needed, limit / evictShare),
        sourceShare: limit / sourcesShare,
        nowMs,
        requester,
      })
      if (victims.length === 0) return false
      for (const { body: victim } of victims) this.#giveUp(victim, 'evicted')
    }
    this.#charge(body, bytes)
    return true
  }

  /** Unregisters a body that is complete or was cut off. Safe to repeat. */
  finish(body: Holding): void {
    if (!this.#arriving.delete(body)) return
    body.arrival = undefined
    if (this.#arriving.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Reduces the charge of a body to `bytesLeft`. Safe to repeat. */
  free(body: Holding, bytesLeft = 0): void {
    if (body.bytes > bytesLeft) this.#charge(body, bytesLeft)
  }

  /** Ends late bodies. Called every 100 ms while unfinished bodies exist. */
  endLate(nowMs: number): void {
    for (const body of Array.from(this.#arriving)) {
      const { arrival } = body
      if (arrival && isLate(this.pace, body.bytesDeclared, arrival, nowMs)) this.#giveUp(body, 'too_slow')
    }
  }

  #makePlace(nowMs: number): void {
    const candidates = Array.from(this.#arriving).map((body) => ({ ...asCandidate(body), weight: 1 }))
    const victims = chooseVictims(candidates, {
      needed: 1,
      wanted: this.#bodiesMax / evictShare,
      sourceShare: this.#bodiesMax / sourcesShare,
      nowMs,
      requester: undefined,
    })
    for (const { body } of victims) this.#giveUp(body, 'evicted')
  }

  #giveUp(body: Holding, why: GivenUp): void {
    const { arrival } = body
    this.finish(body)
    this.free(body)
    arrival?.giveUp(why)
  }

  /** Returns the source and progress that limit evictions, or undefined for a body that can evict any other. */
  #requesterOf(body: Holding, bytes: number, nowMs: number): Requester | undefined {
    const { arrival, bytesDeclared } = body
    if (!arrival || arrival.bytesArrived === bytesDeclared) return undefined
    if (largeOf(body, bytes) === 0 && nowMs - arrival.startedAtMs < this.pace.graceMs) return undefined
    return { source: arrival.source, score: scoreAt(arrival, nowMs) }
  }

  /** Finds a limit that `bytes` would exceed. An owner without charged bytes has no limit of its own yet. */
  #lackOf(body: Holding, bytes: number): Lack | undefined {
    return findLack(this.#pools, body, bytes) ?? findLack(this.#owned.get(body.owner) ?? [], body, bytes)
  }

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
  if (!arrival) throw new Error('a complete body cannot be evicted')
  const { source, startedAtMs, lastByteAtMs, score } = arrival
  return { body, weight: bytes, source, startedAtMs, lastByteAtMs, score }
}

function largeOf(body: Holding, bytes: number): number {
  return bytes > smallBytes || (body.bytesDeclared ?? 0) > smallBytes ? bytes : 0
}

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
