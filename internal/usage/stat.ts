import type { TenantId } from '#internal/base/index.ts'

/**
 * What is counted. `accepted`: new events that were taken, those that went to the `spool` first included. `refused`: calls that got
 * no 2xx. `delivered`, `failed`: rounds that ended. `attemptsFailed`: calls of callbacks that did not do.
 */
export const figureNames = [
  'accepted',
  'duplicates',
  'spooled',
  'refused',
  'delivered',
  'failed',
  'attemptsFailed',
] as const
/** One of the things that are counted. */
export type FigureName = (typeof figureNames)[number]

/** Upper bounds of the buckets of latency, in milliseconds; one more bucket holds what took longer. */
export const latencyBoundsMs = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 3_600_000,
] as const

/** The columns of all counts in the order in which a cell holds them: those of `figureNames`, then the buckets. */
export const countColumns: readonly string[] = [
  ...['accepted', 'duplicates', 'spooled', 'refused', 'delivered', 'failed', 'attempts_failed'],
  ...latencyBoundsMs.map((bound) => `latency_${bound}`),
  'latency_over',
]

/** Where the buckets begin among a cell's counts. */
export const latencyFrom = figureNames.length

/** A minute in milliseconds. */
export const minuteMs = 60_000
/** An hour in milliseconds. */
export const hourMs = 3_600_000

/** Counts of one tenant in one minute or hour. */
export interface FigureCell {
  /** '' for the installation as a whole. */
  readonly tenantId: TenantId | ''
  /** When the minute or hour began, ms since the epoch. */
  readonly atMs: number
  /** As `countColumns` has them. */
  readonly counts: number[]
  /** Refused calls by cause. */
  readonly causes: Map<string, number>
}

/** The queue of deliveries at a moment, or at its worst within a time. */
export interface QueueSight {
  readonly dueCount: number
  readonly oldestAgeMs: number
}

/** Makes a cell in which nothing was counted. */
export function emptyCell(tenantId: FigureCell['tenantId'], atMs: number): FigureCell {
  return { tenantId, atMs, counts: new Array<number>(countColumns.length).fill(0), causes: new Map() }
}

/** Adds one cell's counts to another's. */
export function addCell(to: FigureCell, from: FigureCell): void {
  from.counts.forEach((count, at) => {
    to.counts[at] = (to.counts[at] ?? 0) + count
  })
  for (const [cause, count] of from.causes) to.causes.set(cause, (to.causes.get(cause) ?? 0) + count)
}

/** Which of the buckets a latency falls into, from 0. */
export function bucketOf(latencyMs: number): number {
  const at = latencyBoundsMs.findIndex((bound) => latencyMs <= bound)
  return at < 0 ? latencyBoundsMs.length : at
}
