import type { Clock, TenantId } from '#internal/base/index.ts'
import {
  bucketOf,
  emptyCell,
  type FigureCell,
  type FigureName,
  figureNames,
  latencyFrom,
  minuteMs,
  type QueueSight,
} from './stat.ts'

/** What a tally is bounded by. */
export interface TallyBounds {
  /** Tenants times minutes that are held at a time. */
  readonly cellsMax: number
  /** Causes of refusals that are told apart; later ones are `other`. */
  readonly causesMax: number
}

const usualBounds: TallyBounds = { cellsMax: 20_000, causesMax: 64 }
const queueMinutesMax = 240
const otherCause = 'other'
const places = Object.fromEntries(figureNames.map((name, at) => [name, at])) as Record<FigureName, number>

/**
 * Counts what happens, by tenant and minute, in memory. This is on the way of every event: one look-up and one addition. What has no
 * room is counted as dropped.
 */
export class FigureTally {
  readonly #clock: Clock
  readonly #bounds: TallyBounds
  readonly #minutes = new Map<number, Map<TenantId, FigureCell>>()
  readonly #causes = new Set<string>()
  readonly #queue = new Map<number, QueueSight>()
  #minute = Number.NaN
  #cells = new Map<TenantId, FigureCell>()
  #size = 0
  #dropped = 0

  constructor(clock: Clock, bounds: TallyBounds = usualBounds) {
    this.#clock = clock
    this.#bounds = bounds
  }

  /** Tenants times minutes that wait to be taken. */
  get size(): number {
    return this.#size
  }

  /** Things that happened and had no room, since the process began. */
  get dropped(): number {
    return this.#dropped
  }

  /** Counts one thing that happened now. */
  count(tenantId: TenantId, name: Exclude<FigureName, 'refused'>): void {
    this.#add(this.#cellOf(tenantId), places[name])
  }

  /** Counts a call that was refused now. @param cause of a closed set, since it is told apart */
  countRefused(tenantId: TenantId, cause: string): void {
    const cell = this.#cellOf(tenantId)
    if (!cell) return
    this.#add(cell, places.refused)
    const { causes } = cell
    const known = this.#causeOf(cause)
    causes.set(known, (causes.get(known) ?? 0) + 1)
  }

  /** Counts an event that arrived now. @param latencyMs since its receipt; undefined where that says nothing, as after a replay */
  countDelivered(tenantId: TenantId, latencyMs: number | undefined): void {
    const cell = this.#cellOf(tenantId)
    this.#add(cell, places.delivered)
    if (latencyMs !== undefined) this.#add(cell, latencyFrom + bucketOf(latencyMs))
  }

  /** Keeps what was seen of the queue, if it is the worst of this minute. */
  noteQueue({ dueCount, oldestAgeMs }: QueueSight): void {
    const atMs = this.#startOfMinute()
    const known = this.#queue.get(atMs)
    if (!known && this.#queue.size >= queueMinutesMax) return
    this.#queue.set(atMs, {
      dueCount: Math.max(dueCount, known?.dueCount ?? 0),
      oldestAgeMs: Math.max(oldestAgeMs, known?.oldestAgeMs ?? 0),
    })
  }

  /** Takes cells out, the oldest first: what happens afterwards in the same minute is another cell. */
  take(cellsMax: number): FigureCell[] {
    const taken: FigureCell[] = []
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

  /** Takes out what was seen of the queue, by the minute's start. */
  takeQueue(): Map<number, QueueSight> {
    const taken = new Map(this.#queue)
    this.#queue.clear()
    return taken
  }

  #cellOf(tenantId: TenantId): FigureCell | undefined {
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

  #add(cell: FigureCell | undefined, place: number): void {
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
