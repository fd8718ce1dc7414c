/** Latchkey compared with the bare server. */
export interface Compared {
  readonly name: string
  /** Latchkey's calls per second divided by the bare server's. */
  readonly rateRatio: number
  /** Minimum of `rateRatio`. */
  readonly rateRatioMin: number
  /** Latchkey's p99 divided by the bare server's. */
  readonly p99Ratio: number
}

/** Measurements of a run that have bounds. */
export interface Figures {
  /** Comparisons with a bound. */
  readonly compared: readonly Compared[]
  /** Resident memory in MB after the load. */
  readonly residentMb: number
  /** Resident memory in MB at the end of each minute of the soak; empty without one. */
  readonly soakMb: readonly number[]
}

const p99RatioMax = 2
const residentMbMax = 190
/** Maximum of the last third's median divided by the middle third's: one-time allocations are done by then, so growth is a leak per call. */
const growthMax = 1.05
const soakMinutesMin = 6

/** Returns one sentence per missed bound. */
export function missedBounds({ compared, residentMb, soakMb }: Figures): string[] {
  const missed: string[] = []
  for (const { name, rateRatio, rateRatioMin, p99Ratio } of compared) {
    // The negations make NaN count as a missed bound.
    if (!(rateRatio >= rateRatioMin))
      missed.push(`${name}: ${rateRatio.toFixed(2)} of the bare rate, minimum ${rateRatioMin}`)
    if (!(p99Ratio <= p99RatioMax))
      missed.push(`${name}: p99 ${p99Ratio.toFixed(2)} times the bare one, maximum ${p99RatioMax}`)
  }
  const mostMb = Math.max(residentMb, ...soakMb)
  if (!(mostMb <= residentMbMax)) missed.push(`${mostMb} MB resident, maximum ${residentMbMax}`)
  const growth = growthOf(soakMb)
  if (growth !== undefined && !(growth <= growthMax))
    missed.push(`memory grew ${growth.toFixed(2)} times from the soak's middle to its end`)
  return missed
}

/** Returns the last third's median divided by the middle third's; undefined for a soak under 6 minutes. */
export function growthOf(soakMb: readonly number[]): number | undefined {
  if (soakMb.length < soakMinutesMin) return undefined
  const third = Math.floor(soakMb.length / 3)
  return median(soakMb.slice(-third)) / median(soakMb.slice(-2 * third, -third))
}

/** Returns the median, for an even count the upper one; NaN for none. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** Returns a quantile of ascending numbers: 0.5 is the median, 1 the maximum; NaN for none. */
export function quantileOf(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
