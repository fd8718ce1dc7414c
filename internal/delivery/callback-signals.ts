import { setNewest } from '#internal/base/index.ts'
import {
  alertsMax,
  type DestinationKey,
  type DestinationSignal,
  type QueueId,
  queueIdOf,
} from '#internal/events/index.ts'

/**
 * Counts the attempts of callbacks in trouble until they are written. Attempts of other callbacks are not counted: a callback is in trouble
 * from its first alarm in any process, until its owner needs no further notification. Bounded to 10 000 callbacks.
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
      /** Answer or failure, in one word. */
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

  /** Takes the signals since the last call. Give them back if they cannot be written. */
  take(): readonly DestinationSignal[] {
    const taken = [...this.#signals.values()]
    this.#signals = new Map()
    return taken
  }

  /** Adds signals that could not be written to those that were counted since. */
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

  /** Replaces the tenant queues of destinations in trouble, as all processes know them. */
  setTroubled(queueIds: readonly QueueId[]): void {
    this.#troubled = new Set(queueIds)
  }
}
