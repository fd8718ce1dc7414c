import { type Clock, within } from '#internal/base/index.ts'

/** What a check found; `reason` is for people and holds no secret. */
export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly reason: string }

/** Tells whether one thing that this process needs is there. May be slow or throw: it is bounded and counts as not ok. */
export type Check = (signal: AbortSignal) => CheckResult | Promise<CheckResult>

/** One named answer of a snapshot. */
export interface NamedCheck {
  readonly name: string
  readonly ok: boolean
  readonly reason: string | null
}

/** Health at a moment. */
export interface HealthSnapshot {
  readonly ok: boolean
  readonly checks: readonly NamedCheck[]
}

/** Shows that a loop still turns. */
export interface Heartbeat {
  /** Says that the loop turned just now. */
  beat(): void
  /** The loop ended as it should and is no longer watched. */
  stop(): void
}

/** A loop that is watched, at a moment. */
export interface HeartbeatState {
  readonly name: string
  /** Since its last turn. */
  readonly silentMs: number
  readonly silentMsMax: number
}

/** Readiness and liveness of one process. */
export interface Health {
  /** Adds a readiness check; a repeated name throws. */
  addCheck(name: string, check: Check): void
  /** Watches a loop: without a beat for `silentMsMax` the process counts as dead. A repeated name throws. */
  addHeartbeat(name: string, silentMsMax: number): Heartbeat
  /** From now on the process is not ready, so that no new work is sent to it. */
  startDraining(): void
  /** Whether `startDraining` was called; it stays so. */
  isDraining(): boolean
  /** Whether to send work here. Checks run at most once a second, however often this is asked; never rejects. */
  readiness(): Promise<HealthSnapshot>
  /** All loops that are watched, in the order in which they began. */
  heartbeats(): readonly HeartbeatState[]
  /** Whether to restart the process: its loops only, since a store that is away is not mended by a restart. */
  liveness(): HealthSnapshot
}

/** How health measures time. */
export interface HealthOptions {
  /** Default a monotonic one: a corrected wall clock must not make a process look dead. */
  readonly clock?: Clock
  /** Bound of one check; default 800 ms. */
  readonly checkMsMax?: number
}

const cacheMs = 1000
/** What is missing may be there a moment later, as at every start. */
const cacheFailedMs = 50
const reasonCharsMax = 200

/** Makes the health of a process, with no check in it yet. */
export function createHealth(options: HealthOptions = {}): Health {
  const { clock = { now: () => performance.now() }, checkMsMax = 800 } = options
  const checks = new Map<string, Check>()
  const beats = new Map<string, { lastMs: number; readonly silentMsMax: number }>()
  let cached:
    | { readonly atMs: number; forMs: number; readonly results: Promise<readonly NamedCheck[]> }
    | undefined
  let draining = false
  const heartbeats = () => {
    const nowMs = clock.now()
    return [...beats].map(([name, { lastMs, silentMsMax }]) => ({
      name,
      silentMs: nowMs - lastMs,
      silentMsMax,
    }))
  }

  return {
    addCheck(name, check) {
      if (checks.has(name)) throw new Error(`there is already a check ${name}`)
      checks.set(name, check)
      cached = undefined
    },
    addHeartbeat(name, silentMsMax) {
      if (beats.has(name)) throw new Error(`there is already a heartbeat ${name}`)
      const beat = { lastMs: clock.now(), silentMsMax }
      beats.set(name, beat)
      return {
        beat: () => {
          beat.lastMs = clock.now()
        },
        stop: () => {
          // Another of its name may have followed it.
          if (beats.get(name) === beat) beats.delete(name)
        },
      }
    },
    startDraining() {
      draining = true
    },
    isDraining: () => draining,
    async readiness() {
      const nowMs = clock.now()
      if (!cached || nowMs - cached.atMs >= cached.forMs || nowMs < cached.atMs) {
        const asked = Promise.all([...checks].map((each) => runCheck(each, checkMsMax)))
        cached = { atMs: nowMs, forMs: cacheMs, results: asked }
      }
      const held = cached
      const results = await held.results
      if (results.some(({ ok }) => !ok)) held.forMs = cacheFailedMs
      const all = draining
        ? [named('draining', { ok: false, reason: 'this process is ending' }), ...results]
        : results
      return { ok: all.every((each) => each.ok), checks: all }
    },
    heartbeats,
    liveness() {
      const results = heartbeats().map(({ name, silentMs, silentMsMax }) => {
        const ok = silentMs <= silentMsMax
        return named(name, ok ? { ok } : { ok, reason: `no turn for ${Math.round(silentMs / 1000)} s` })
      })
      return { ok: results.every((each) => each.ok), checks: results }
    },
  }
}

async function runCheck([name, check]: [string, Check], boundMs: number): Promise<NamedCheck> {
  const cancel = new AbortController()
  const late = (): CheckResult => ({ ok: false, reason: `no answer within ${boundMs} ms` })
  try {
    return named(name, await within(boundMs, Promise.try(check, cancel.signal), late))
  } catch (error) {
    // Its message may quote an address or a statement; the check's own log line tells more.
    return named(name, { ok: false, reason: error instanceof Error ? `failed: ${error.name}` : 'failed' })
  } finally {
    cancel.abort()
  }
}

function named(name: string, result: CheckResult): NamedCheck {
  return { name, ok: result.ok, reason: result.ok ? null : result.reason.slice(0, reasonCharsMax) }
}
