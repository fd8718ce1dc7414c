import { type Clock, within } from '#internal/base/index.ts'

/** Result of a check. `reason` is shown to operators and contains no secret. */
export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly reason: string }

/** Checks one dependency of the process. Bounded in time; an exception counts as not ok. */
export type Check = (signal: AbortSignal) => CheckResult | Promise<CheckResult>

/** Result of one check by name. */
export interface NamedCheck {
  readonly name: string
  readonly ok: boolean
  readonly reason: string | null
}

/** Readiness or liveness at one moment. */
export interface HealthSnapshot {
  readonly ok: boolean
  readonly checks: readonly NamedCheck[]
}

/** Heartbeat of a loop. */
export interface Heartbeat {
  /** Records a turn of the loop. */
  beat(): void
  /** Unregisters a loop that ended normally. */
  stop(): void
}

/** State of a watched loop at one moment. */
export interface HeartbeatState {
  readonly name: string
  /** Milliseconds since the last turn. */
  readonly silentMs: number
  readonly silentMsMax: number
}

/** Time sources of health. */
export interface HealthOptions {
  /** Default: monotonic, so that a corrected wall clock cannot fail liveness. */
  readonly clock?: Clock
  /** Time limit of one check. Default 800 ms. */
  readonly checkMsMax?: number
}

const cacheMs = 1000
/** Lifetime of a failed result: dependencies often become available within moments at start-up. */
const cacheFailedMs = 50
const reasonCharsMax = 200

/** Readiness and liveness of one process. */
export type Health = ReturnType<typeof createHealth>

/** Creates the health of a process, without any check. */
export function createHealth(options: HealthOptions = {}) {
  const { clock = { now: () => performance.now() }, checkMsMax = 800 } = options
  const checks = new Map<string, Check>()
  const beats = new Map<string, { lastMs: number; readonly silentMsMax: number }>()
  let cached:
    | { readonly atMs: number; forMs: number; readonly results: Promise<readonly NamedCheck[]> }
    | undefined
  let draining = false
  /** Returns all watched loops in the order they were added. */
  const heartbeats = (): readonly HeartbeatState[] => {
    const nowMs = clock.now()
    return [...beats].map(([name, { lastMs, silentMsMax }]) => ({
      name,
      silentMs: nowMs - lastMs,
      silentMsMax,
    }))
  }

  return {
    /** Adds a readiness check. @throws Error for a repeated name */
    addCheck(name: string, check: Check): void {
      if (checks.has(name)) throw new Error(`duplicate check ${name}`)
      checks.set(name, check)
      cached = undefined
    },
    /** Watches a loop: liveness fails without a beat for `silentMsMax`. @throws Error for a repeated name */
    addHeartbeat(name: string, silentMsMax: number): Heartbeat {
      if (beats.has(name)) throw new Error(`duplicate heartbeat ${name}`)
      const beat = { lastMs: clock.now(), silentMsMax }
      beats.set(name, beat)
      return {
        beat: () => {
          beat.lastMs = clock.now()
        },
        stop: () => {
          // A newer check may have the same name.
          if (beats.get(name) === beat) beats.delete(name)
        },
      }
    },
    /** Makes the process not ready for good, so that load balancers stop sending work. */
    startDraining(): void {
      draining = true
    },
    isDraining: (): boolean => draining,
    /** Runs the readiness checks, at most once a second; otherwise returns the last result. Never rejects. */
    async readiness(): Promise<HealthSnapshot> {
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
    /** Returns whether the watched loops still turn. Ignores readiness checks, since a restart does not repair an unavailable store. */
    liveness: (): HealthSnapshot => livenessOf(heartbeats()),
  }
}

function livenessOf(loops: readonly HeartbeatState[]): HealthSnapshot {
  const results = loops.map(({ name, silentMs, silentMsMax }) => {
    const ok = silentMs <= silentMsMax
    return named(name, ok ? { ok } : { ok, reason: `no turn for ${Math.round(silentMs / 1000)} s` })
  })
  return { ok: results.every((each) => each.ok), checks: results }
}

async function runCheck([name, check]: [string, Check], boundMs: number): Promise<NamedCheck> {
  const cancel = new AbortController()
  const late = (): CheckResult => ({ ok: false, reason: `no answer within ${boundMs} ms` })
  try {
    return named(name, await within(boundMs, Promise.try(check, cancel.signal), late))
  } catch (error) {
    // The message may contain an address or a statement, so only the error's name is shown; the check logs more.
    return named(name, { ok: false, reason: error instanceof Error ? `failed: ${error.name}` : 'failed' })
  } finally {
    cancel.abort()
  }
}

function named(name: string, result: CheckResult): NamedCheck {
  return { name, ok: result.ok, reason: result.ok ? null : result.reason.slice(0, reasonCharsMax) }
}
