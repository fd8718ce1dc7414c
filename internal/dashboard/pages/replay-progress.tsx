import { parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import type { ReplayFilter, ReplayJob } from '#internal/replays/index.ts'
import { ShareBar } from '../components/block.tsx'
import { countText, Time } from '../components/text.tsx'

const stateWords = { delivery_failed: 'failed', processed: 'processed', verified: 'only verified' } as const

/** Which events a replay is of, in a line. */
export function ReplayFilterText({ filter }: { readonly filter: ReplayFilter }) {
  const { state, provider, type, fromMs, toMs, ids } = filter
  return (
    <span>
      {[ids === undefined ? undefined : `${ids.length} named`, state && stateWords[state], provider, type]
        .filter((word) => word !== undefined)
        .join(' · ') || 'all that ended'}
      , <Time atMs={fromMs} /> to {toMs === undefined ? 'its start' : <Time atMs={toMs} />}
    </span>
  )
}

/**
 * How far a replay has come, from 0 to 1: by events where all were counted, else by the time of receipt that it has reached.
 * Pure.
 */
export function replayShare(job: ReplayJob): number {
  const { state, total, queuedCount, skipped, examinedTo, filter, createdAtMs } = job
  if (state === 'completed') return 1
  const skippedCount = Object.values(skipped).reduce((sum, count) => sum + count, 0)
  if (total.isExact) return total.count === 0 ? 0 : Math.min(1, (queuedCount + skippedCount) / total.count)
  const reached = examinedTo === null ? undefined : parseEventId(examinedTo)
  if (reached === undefined) return 0
  const spanMs = (filter.toMs ?? createdAtMs) - filter.fromMs
  return spanMs <= 0 ? 0 : Math.max(0, Math.min(1, (receivedAtMsOf(reached) - filter.fromMs) / spanMs))
}

/** A bar with the same in words. */
export function ReplayProgress({
  job,
  isShort = false,
}: {
  readonly job: ReplayJob
  readonly isShort?: boolean
}) {
  const percent = `${Math.floor(replayShare(job) * 100)} %`
  const { total } = job
  const tone = job.state === 'failed' ? 'bad' : job.state === 'completed' ? 'good' : 'info'
  return (
    <span class="progress">
      <ShareBar share={replayShare(job)} label={`${percent} done`} tone={tone} />
      <span class="number">
        {percent}
        {!isShort && ` of ${total.isExact ? '' : 'at least '}${countText(total.count)} events`}
      </span>
    </span>
  )
}
