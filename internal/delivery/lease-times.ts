import { leaseMsMax } from '#internal/events/index.ts'

/** Minimum duration of a lease. With the poll interval of 1 s, other processes claim the deliveries of a killed process within 5 s. */
const leastMs = 3_500
/** A lease lasts this many times as long as the last statement on leases, so that no lease ends during a slow renewal. */
const statementShare = 5
/** Time after the end of failures in which owners keep expired leases: a renewal on a broken connection fails after 5 s and is repeated. */
const graceAfterMs = 6_000
/** Maximum time for which an expired lease is left to its owner while statements fail. */
const graceMsMax = 60_000

/** Decides how long leases of this process last, and which expired leases of others it does not take. Times are of `performance.now()`. */
export class LeaseTimes {
  readonly #leastMs: number
  #lengthMs: number
  #troubleSinceMs: number | undefined
  #recoveredAtMs: number | undefined
  /** Difference between the clock of Postgres and `performance.now()`. */
  #postgresAheadMs: number | undefined

  constructor(shortestMs: number = leastMs) {
    this.#leastMs = shortestMs
    this.#lengthMs = shortestMs
  }

  get leastMs(): number {
    return this.#leastMs
  }

  /** Duration of the next lease: five times the last statement, from 3.5 to 30 s. A statement shortens it by at most half. */
  get lengthMs(): number {
    return this.#lengthMs
  }

  /** Records a claim or a renewal that succeeded. */
  succeeded(startedMs: number, nowMs: number): void {
    this.#adapt(nowMs - startedMs)
    if (this.#troubleSinceMs !== undefined) this.#recoveredAtMs ??= nowMs
  }

  /** Records a failed claim or renewal. If the statement took long, the next lease is longer; it is never shorter. */
  failed(startedMs: number, nowMs: number): void {
    this.#adapt(Math.max(nowMs - startedMs, this.#lengthMs / statementShare))
    this.troubled(startedMs)
  }

  /** Records that other statements fail, which says nothing about the duration of leases. Safe to repeat. */
  troubled(nowMs: number): void {
    this.#troubleSinceMs ??= nowMs
    this.#recoveredAtMs = undefined
  }

  /**
   * Returns the time for which expired leases are left to their owners: 0, except while statements fail and for 6 s afterwards. While
   * Postgres fails, no process can renew leases. Without this time, the first to reconnect would repeat the others' deliveries.
   */
  graceMs(nowMs: number): number {
    if (this.#troubleSinceMs === undefined) return 0
    if (this.#recoveredAtMs !== undefined && nowMs - this.#recoveredAtMs >= graceAfterMs) {
      this.#troubleSinceMs = undefined
      this.#recoveredAtMs = undefined
      return 0
    }
    return Math.min(graceMsMax, nowMs - this.#troubleSinceMs + graceAfterMs)
  }

  /** Records the clock of Postgres from a reply. */
  seen(postgresMs: number, nowMs: number): void {
    this.#postgresAheadMs = postgresMs - nowMs
  }

  /** Estimates the clock of Postgres. The estimate is behind by the time that the last reply took. Undefined before the first reply. */
  postgresMs(nowMs: number): number | undefined {
    return this.#postgresAheadMs === undefined ? undefined : this.#postgresAheadMs + nowMs
  }

  #adapt(tookMs: number): void {
    const longMs = Math.max(statementShare * tookMs, this.#lengthMs / 2)
    this.#lengthMs = Math.round(
      Math.max(this.#leastMs, Math.min(Math.max(leaseMsMax, this.#leastMs), longMs)),
    )
  }
}

/** Part of its duration after which a lease is renewed. The rest leaves time for several tries. */
const renewShare = 0.5
/** Part of its duration after which a lease is renewed along with an older one, so that one statement renews many leases. */
const alongShare = 0.2

/**
 * Returns the leases to renew: none until one has reached half of its duration, then all that have reached a fifth of theirs. So two
 * renewals are at least 30 % of a lease apart: a lease that was left out had passed less than 20 %. Pure.
 */
export function leasesToRenew<One extends { readonly leaseEndsMs: number }>(
  leases: Iterable<One>,
  { nowMs, lengthMs }: { readonly nowMs: number; readonly lengthMs: number },
): One[] {
  const along: One[] = []
  let isTime = false
  for (const one of leases) {
    const leftMs = one.leaseEndsMs - nowMs
    if (leftMs < lengthMs * (1 - alongShare)) along.push(one)
    isTime ||= leftMs < lengthMs * (1 - renewShare)
  }
  return isTime ? along : []
}
