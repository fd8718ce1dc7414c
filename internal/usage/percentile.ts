import { latencyBoundsMs } from './stat.ts'

/**
 * The time within which a share of what the buckets hold arrived, in milliseconds: spread evenly within a bucket, and the last bound
 * where it lies beyond all. Undefined for empty buckets. Pure.
 * @param share from 0 to 1
 */
export function percentileMs(buckets: readonly number[], share: number): number | undefined {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const wanted = share * total
  let below = 0
  for (const [at, count] of buckets.entries()) {
    const from = latencyBoundsMs[at - 1] ?? 0
    const to = latencyBoundsMs[at] ?? from
    if (count > 0 && below + count >= wanted)
      return Math.round(from + ((to - from) * (wanted - below)) / count)
    below += count
  }
  return latencyBoundsMs.at(-1)
}
