/** How Latchkey did against the bare server. */
export interface Compared {
  readonly name: string
  /** Latchkey's calls a second over the bare server's. */
  readonly rateRatio: number
  /** Latchkey's 99th percentile over the bare server's. */
  readonly p99Ratio: number
}

/** What one run of the benchmark is held to. */
export interface Figures {
  /** Comparisons that a bound holds for; others are only printed. */
  readonly compared: readonly Compared[]
  /** Resident memory in MB after the load. */
  readonly residentMb: number
  /** Resident memory in MB at the end of each minute of the soak; empty without one. */
  readonly soakMb: readonly number[]
}

const rateRatioMin = 0.7
const p99RatioMax = 2
const residentMbMax = 150
/** The last third's median over the middle third's: by then what is kept once is there, and what still grows is kept for each call. */
const growthMax = 1.05
const soakMinutesMin = 6

/** The bounds that a run missed, a sentence each; none when all is well. */
export function missedBounds({ compared, residentMb, soakMb }: Figures): string[] {
  const missed: string[] = []
  for (const { name, rateRatio, p99Ratio } of compared) {
    // A figure that could not be taken misses its bound as well, hence the negations.
    if (!(rateRatio >= rateRatioMin))
      missed.push(`${name}: ${rateRatio.toFixed(2)} of the bare rate, at least ${rateRatioMin} wanted`)
    if (!(p99Ratio <= p99RatioMax))
      missed.push(`${name}: p99 ${p99Ratio.toFixed(2)} times the bare one, at most ${p99RatioMax} wanted`)
  }
  const mostMb = Math.max(residentMb, ...soakMb)
  if (!(mostMb <= residentMbMax)) missed.push(`${mostMb} MB resident, at most ${residentMbMax} wanted`)
  const growth = growthOf(soakMb)
  if (growth !== undefined && !(growth <= growthMax))
    missed.push(`memory grew ${growth.toFixed(2)} times from the soak's middle to its end`)
  return missed
}

/** The median of the last third over that of the middle third; undefined for a soak too short to tell, under 6 minutes. */
export function growthOf(soakMb: readonly number[]): number | undefined {
  if (soakMb.length < soakMinutesMin) return undefined
  const third = Math.floor(soakMb.length / 3)
  return median(soakMb.slice(-third)) / median(soakMb.slice(-2 * third, -third))
}

/** The middle one of some numbers, the greater of two; NaN for none. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** The value that this share of ascending numbers lies below: 0.5 is the median, 1 the last; NaN for none. */
export function quantileOf(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
