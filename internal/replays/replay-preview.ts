import {
  type EventFilter,
  type EventScan,
  type EventSummary,
  rangeOf,
  scanBeyond,
  scanEvents,
} from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { ReplayCount, ReplayFilter } from './replay-job.ts'

/** What a replay would take up. */
export interface ReplayPreview {
  readonly count: ReplayCount
  /** The first 20 of them, oldest first. */
  readonly examples: readonly EventSummary[]
  /** The latest, where it is found within the bound. */
  readonly newest: EventSummary | undefined
}

/** What is told exactly. */
const countMax = 10_000
const stepRows = 1_000
const stepExamined = 10_000
/** Looked at in all, where an index does not know the filter: then the count says "at least". */
const stepsMax = 12
const examplesMax = 20
/** Looked at for the latest: those before it may have a delivery cycle under way. */
const newestRows = 100

/**
 * Counts what a replay would look at, exactly to 10 000 and within a bounded amount of work, and shows the first. Of those some
 * may yet be skipped. Give it a pool with `eventReadSettings`. A read, no locks.
 */
export async function previewReplay(pool: Pool, filter: ReplayFilter, nowMs: number): Promise<ReplayPreview> {
  const toMs = Math.min(filter.toMs ?? nowMs, nowMs)
  const bounded: EventFilter = { ...filter, toMs }
  const common = { filter: bounded, range: rangeOf(bounded, nowMs), examinedMax: stepExamined }
  let scan: EventScan = { ...common, order: 'oldest', rowsMax: stepRows }
  const examples: EventSummary[] = []
  let count = 0
  let isExact = false
  for (let step = 0; step < stepsMax && count < countMax && !isExact; step += 1) {
    const { events, searchedTo } = await scanEvents(pool, scan)
    const meant = events.filter(({ state }) => state !== 'accepted')
    count += meant.length
    examples.push(...meant.slice(0, examplesMax - examples.length))
    if (searchedTo === undefined) isExact = true
    else scan = scanBeyond(scan, searchedTo)
  }
  const latest = await scanEvents(pool, { ...common, order: 'newest', rowsMax: newestRows })
  const newest = latest.events.find(({ state }) => state !== 'accepted')
  return { count: { count, isExact }, examples, newest }
}
