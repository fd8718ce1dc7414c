import type { Clock, TenantId } from '#internal/base/index.ts'

/**
 * `accepted`: new events, including those spooled first. `refused`: calls without a 2xx response. `delivered`, `failed`: completed delivery
 * cycles. `attemptsFailed`: failed delivery attempts.
 */
export const statNames = [
  'accepted',
  'duplicates',
  'spooled',
  'refused',
  'delivered',
  'failed',
  'attemptsFailed',
] as const
/** Name of a count. */
export type StatName = (typeof statNames)[number]

/** Upper bounds; one additional bucket counts longer latencies. */
export const latencyBoundsMs = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 3_600_000,
] as const

/** Postgres columns in the order of `StatsCell.counts`: first those of `statNames`, then the latency buckets. */
export const countColumns: readonly string[] = [
  ...statNames.map((name) => (name === 'attemptsFailed' ? 'attempts_failed' : name)),
  ...latencyBoundsMs.map((bound) => `latency_${bound}`),
  'latency_over',
]

/** Index of the first latency bucket in a cell's counts. */
export const latencyFrom = statNames.length

export const minuteMs = 60_000
export const hourMs = 3_600_000

export interface StatsCell {
  /** Empty for the sum over all tenants. */
  readonly tenantId: TenantId | ''
  /** Start of the minute or hour. */
  readonly atMs: number
  /** Ordered as `countColumns`. */
  readonly counts: number[]
  readonly causes: Map<string, number>
}

/** State of the queue at one time, or its maximum over a time span. */
export interface QueueSight {
  readonly dueCount: number
  readonly oldestAgeMs: number
}

export function emptyCell(tenantId: StatsCell['tenantId'], atMs: number): StatsCell {
  return { tenantId, atMs, counts: new Array<number>(countColumns.length).fill(0), causes: new Map() }
}

export function addCell(to: StatsCell, from: StatsCell): void {
  from.counts.forEach((count, at) => {
    to.counts[at] = (to.counts[at] ?? 0) + count
  })
  for (const [cause, count] of from.causes) to.causes.set(cause, (to.causes.get(cause) ?? 0) + count)
}

export function bucketOf(latencyMs: number): number {
  const at = latencyBoundsMs.findIndex((bound) => latencyMs <= bound)
  return at < 0 ? latencyBoundsMs.length : at
}

/** Maximum numbers. `cellsMax`: cells, one per tenant and minute. `causesMax`: causes of refusals; further causes count as `other`. */
const usualBounds = { cellsMax: 20_000, causesMax: 64 }
const queueMinutesMax = 240
const otherCause = 'other'
const places = Object.fromEntries(statNames.map((name, at) => [name, at])) as Record<StatName, number>

/** Counts outcomes by tenant and minute in memory. Drops outcomes above its memory limit and counts them as dropped. */
export class StatsTally {
  readonly #clock: Clock
  readonly #bounds: typeof usualBounds
  readonly #minutes = new Map<number, Map<TenantId, StatsCell>>()
  readonly #causes = new Set<string>()
  readonly #queue = new Map<number, QueueSight>()
  #minute = Number.NaN
  #cells = new Map<TenantId, StatsCell>()
  #size = 0
  #dropped = 0

  constructor(clock: Clock, bounds: typeof usualBounds = usualBounds) {
    this.#clock = clock
    this.#bounds = bounds
  }

  /** Cells that `take` has not returned yet. */
  get size(): number {
    return this.#size
  }

  /** Outcomes dropped for lack of memory since process start. */
  get dropped(): number {
    return this.#dropped
  }

  count(tenantId: TenantId, name: Exclude<StatName, 'refused'>): void {
    this.#add(this.#cellOf(tenantId), places[name])
  }

  /** @param cause from a closed set of values */
  countRefused(tenantId: TenantId, cause: string): void {
    const cell = this.#cellOf(tenantId)
    if (!cell) return
    this.#add(cell, places.refused)
    const { causes } = cell
    const known = this.#causeOf(cause)
    causes.set(known, (causes.get(known) ?? 0) + 1)
  }

  /** @param latencyMs time since receipt; undefined if that time is meaningless, as after a replay */
  countDelivered(tenantId: TenantId, latencyMs: number | undefined): void {
    const cell = this.#cellOf(tenantId)
    this.#add(cell, places.delivered)
    if (latencyMs !== undefined) this.#add(cell, latencyFrom + bucketOf(latencyMs))
  }

  /** Keeps the maximum per minute. */
  noteQueue({ dueCount, oldestAgeMs }: QueueSight): void {
    const atMs = this.#startOfMinute()
    const known = this.#queue.get(atMs)
    if (!known && this.#queue.size >= queueMinutesMax) return
    this.#queue.set(atMs, {
      dueCount: Math.max(dueCount, known?.dueCount ?? 0),
      oldestAgeMs: Math.max(oldestAgeMs, known?.oldestAgeMs ?? 0),
    })
  }

  /** Removes and returns cells, oldest first. Later outcomes of the same minute create another cell. */
  take(cellsMax: number): StatsCell[] {
    const taken: StatsCell[] = []
    for (const [minute, cells] of this.#minutes) {
      for (const [tenantId, cell] of cells) {
        if (taken.length >= cellsMax) return taken
        cells.delete(tenantId)
        this.#size -= 1
        taken.push(cell)
      }
      if (minute !== this.#minute) this.#minutes.delete(minute)
    }
    return taken
  }

  /** Removes and returns the maximum state of the queue in each minute, by the start of the minute in ms since the epoch. */
  takeQueue(): Map<number, QueueSight> {
    const taken = new Map(this.#queue)
    this.#queue.clear()
    return taken
  }

  #cellOf(tenantId: TenantId): StatsCell | undefined {
    const minute = this.#startOfMinute()
    if (minute !== this.#minute) this.#turnTo(minute)
    const known = this.#cells.get(tenantId)
    if (known) return known
    if (this.#size >= this.#bounds.cellsMax) {
      this.#dropped += 1
      return undefined
    }
    const cell = emptyCell(tenantId, minute)
    this.#cells.set(tenantId, cell)
    this.#size += 1
    return cell
  }

  #turnTo(minute: number): void {
    if (this.#cells.size === 0) this.#minutes.delete(this.#minute)
    this.#minute = minute
    this.#cells = this.#minutes.get(minute) ?? new Map()
    this.#minutes.set(minute, this.#cells)
  }

  #add(cell: StatsCell | undefined, place: number): void {
    if (cell) cell.counts[place] = (cell.counts[place] ?? 0) + 1
  }

  #causeOf(cause: string): string {
    if (this.#causes.has(cause)) return cause
    if (this.#causes.size >= this.#bounds.causesMax) return otherCause
    this.#causes.add(cause)
    return cause
  }

  #startOfMinute(): number {
    const nowMs = this.#clock.now()
    return nowMs - (nowMs % minuteMs)
  }
}
