import { setNewest } from '#internal/base/index.ts'
import {
  alertsMax,
  type DestinationKey,
  type DestinationSignal,
  type QueueId,
  queueIdOf,
} from '#internal/events/index.ts'
import { rememberedMax } from './capacity.ts'

/** Time for which an open circuit breaker blocks all deliveries of its tenant. */
export const breakerOpenMs = 30_000

interface Slice {
  index: number
  attempts: number
  failures: number
}

const sliceMs = 30_000
const slices = 10
const attemptsMin = 10
const failureShare = 0.7

/** Counts this process's attempts of the last 5 minutes, for at most 10 000 destinations. Above that, forgets the one added first. */
export class CallbackHealth {
  readonly #callbacks = new Map<
    string,
    {
      readonly slices: readonly Slice[]
      openedAtMs: number | undefined
    }
  >()

  /** Returns true if the circuit breaker must open: after a failure, if at least 70 % of 10 or more attempts in 5 minutes failed. */
  record(queueId: string, ok: boolean, nowMs: number): boolean {
    const all = this.#slicesOf(queueId)
    const index = Math.floor(nowMs / sliceMs)
    const slice = all[index % slices]
    if (slice === undefined) return false
    if (slice.index !== index) Object.assign(slice, { index, attempts: 0, failures: 0 })
    slice.attempts += 1
    if (ok) return false
    slice.failures += 1
    return isFailing(all, index)
  }

  /** Returns whether at least 70 % of the attempts of the last 5 minutes failed, however few there were. */
  isMostlyFailing(queueId: string, nowMs: number): boolean {
    const all = this.#callbacks.get(queueId)?.slices
    return all !== undefined && isFailing(all, Math.floor(nowMs / sliceMs), 1)
  }

  opened(queueId: string, nowMs: number): void {
    const known = this.#callbacks.get(queueId)
    if (known) known.openedAtMs = nowMs
  }

  /** Call it for a claim that is no probe. After the open time, it shows that another process closed the breaker: forgets the counts. */
  seenClosed(queueId: string, nowMs: number): void {
    const openedAtMs = this.#callbacks.get(queueId)?.openedAtMs
    if (openedAtMs !== undefined && nowMs - openedAtMs >= breakerOpenMs) this.reset(queueId)
  }

  reset(queueId: string): void {
    this.#callbacks.delete(queueId)
  }

  #slicesOf(queueId: string): readonly Slice[] {
    let known = this.#callbacks.get(queueId)
    if (known === undefined) {
      known = {
        slices: Array.from({ length: slices }, () => ({ index: -1, attempts: 0, failures: 0 })),
        openedAtMs: undefined,
      }
      setNewest(this.#callbacks, queueId, known, rememberedMax)
    }
    return known.slices
  }
}

function isFailing(all: readonly Slice[], index: number, leastAttempts = attemptsMin): boolean {
  let attempts = 0
  let failures = 0
  for (const slice of all) {
    if (slice.index <= index - slices) continue
    attempts += slice.attempts
    failures += slice.failures
  }
  return attempts >= leastAttempts && failures >= attempts * failureShare
}

/**
 * Counts attempts of callbacks in trouble until they are written, for at most 10 000 callbacks. A callback is in trouble from its first
 * alarm in any process, until its owner needs no further notification.
 */
export class DestinationSignals {
  #troubled: ReadonlySet<QueueId> = new Set()
  #signals = new Map<QueueId, DestinationSignal>()

  record(
    { tenantId, destination }: DestinationKey,
    {
      succeeded,
      nowMs,
      cause,
      isAlarm,
    }: {
      readonly succeeded: boolean
      readonly nowMs: number
      /** Status or failure, such as `http_503` or `timeout`. */
      readonly cause: string
      /** True if the attempt shows trouble with the callback. */
      readonly isAlarm: boolean
    },
  ): void {
    const queueId = queueIdOf({ tenantId, destination })
    const before = this.#signals.get(queueId)
    if (!isAlarm && before === undefined && !this.#troubled.has(queueId)) return
    const signal: DestinationSignal = {
      tenantId,
      destination,
      failures: (before?.failures ?? 0) + (succeeded ? 0 : 1),
      lastFailureAtMs: succeeded ? before?.lastFailureAtMs : nowMs,
      lastSuccessAtMs: succeeded ? nowMs : before?.lastSuccessAtMs,
      cause: succeeded ? (before?.cause ?? cause) : cause,
      isAlarm: isAlarm || (before?.isAlarm ?? false),
    }
    setNewest(this.#signals, queueId, signal, alertsMax)
  }

  /** Returns the signals since the last call. Pass them to `giveBack` if they cannot be written. */
  take(): readonly DestinationSignal[] {
    const taken = [...this.#signals.values()]
    this.#signals = new Map()
    return taken
  }

  /** Merges signals that could not be written with newer ones. */
  giveBack(signals: readonly DestinationSignal[]): void {
    for (const old of signals) {
      const queueId = queueIdOf(old)
      const newer = this.#signals.get(queueId)
      const merged: DestinationSignal = {
        ...old,
        ...newer,
        failures: old.failures + (newer?.failures ?? 0),
        lastFailureAtMs: newer?.lastFailureAtMs ?? old.lastFailureAtMs,
        lastSuccessAtMs: newer?.lastSuccessAtMs ?? old.lastSuccessAtMs,
        isAlarm: old.isAlarm || (newer?.isAlarm ?? false),
      }
      setNewest(this.#signals, queueId, merged, alertsMax)
    }
  }

  /** Replaces the list of destinations in trouble, which Postgres keeps for all processes. */
  setTroubled(queueIds: readonly QueueId[]): void {
    this.#troubled = new Set(queueIds)
  }
}
