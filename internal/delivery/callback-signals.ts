import { setNewest, type TenantId } from '#internal/base/index.ts'
import { alertsMax, type CallbackSignal } from '#internal/events/index.ts'

/** Outcome of one attempt of a callback. */
export interface AttemptSignal {
  readonly succeeded: boolean
  readonly nowMs: number
  /** Answer or failure, in one word. */
  readonly cause: string
  /** True if the attempt shows trouble with the callback. */
  readonly isAlarm: boolean
}

/**
 * Counts the attempts of callbacks in trouble until they are written. Attempts of other callbacks are not counted: a callback is in trouble
 * from its first alarm in any process, until its owner needs no further notification. Bounded to 10 000 callbacks.
 */
export class CallbackSignals {
  #troubled: ReadonlySet<TenantId> = new Set()
  #signals = new Map<TenantId, CallbackSignal>()

  record(tenantId: TenantId, { succeeded, nowMs, cause, isAlarm }: AttemptSignal): void {
    const before = this.#signals.get(tenantId)
    if (!isAlarm && before === undefined && !this.#troubled.has(tenantId)) return
    const signal: CallbackSignal = {
      tenantId,
      failures: (before?.failures ?? 0) + (succeeded ? 0 : 1),
      lastFailureAtMs: succeeded ? before?.lastFailureAtMs : nowMs,
      lastSuccessAtMs: succeeded ? nowMs : before?.lastSuccessAtMs,
      cause: succeeded ? (before?.cause ?? cause) : cause,
      isAlarm: isAlarm || (before?.isAlarm ?? false),
    }
    setNewest(this.#signals, tenantId, signal, alertsMax)
  }

  /** Takes the signals since the last call. Give them back if they cannot be written. */
  take(): readonly CallbackSignal[] {
    const taken = [...this.#signals.values()]
    this.#signals = new Map()
    return taken
  }

  /** Adds signals that could not be written to those that were counted since. */
  giveBack(signals: readonly CallbackSignal[]): void {
    for (const old of signals) {
      const newer = this.#signals.get(old.tenantId)
      const merged: CallbackSignal = {
        ...old,
        ...newer,
        failures: old.failures + (newer?.failures ?? 0),
        lastFailureAtMs: newer?.lastFailureAtMs ?? old.lastFailureAtMs,
        lastSuccessAtMs: newer?.lastSuccessAtMs ?? old.lastSuccessAtMs,
        isAlarm: old.isAlarm || (newer?.isAlarm ?? false),
      }
      setNewest(this.#signals, old.tenantId, merged, alertsMax)
    }
  }

  /** Replaces the tenants whose callbacks are in trouble, as all processes know them. */
  setTroubled(tenantIds: readonly TenantId[]): void {
    this.#troubled = new Set(tenantIds)
  }
}
