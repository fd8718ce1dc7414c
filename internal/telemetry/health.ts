import { type Clock, within } from '#internal/base/index.ts'

/** Result of a health check. `reason` is shown to operators and contains no secret. */
export type CheckResult = { readonly ok: true } | { readonly ok: false; readonly reason: string }

/** Checks one dependency of the process. Has a time limit; an exception counts as a failure. */
export type Check = (signal: AbortSignal) => CheckResult | Promise<CheckResult>

export interface NamedCheck {
  readonly name: string
  readonly ok: boolean
  readonly reason: string | null
}

/** Readiness or liveness of the process at one moment. */
export interface HealthSnapshot {
  readonly ok: boolean
  readonly checks: readonly NamedCheck[]
}

/** Heartbeat of a loop. */
export interface Heartbeat {
  beat(): void
  /** Unregisters a loop that ended normally. */
  stop(): void
}

export interface HeartbeatState {
  readonly name: string
  readonly silentMs: number
  readonly silentMsMax: number
}

const cacheMs = 1000
/** Time for which a failed result is cached. Short, because dependencies often become available soon after start-up. */
const cacheFailedMs = 50
const reasonCharsMax = 200

/** Readiness and liveness of one process. */
export type Health = ReturnType<typeof createHealth>

/** Creates the health of a process, without any check. */
export function createHealth(
  options: {
    /** Default: monotonic, so that a correction of the wall clock cannot fail liveness. */
    readonly clock?: Clock
    /** Time limit per check. Default: 800 ms. */
    readonly checkMsMax?: number
  } = {},
) {
  const { clock = { now: () => performance.now() }, checkMsMax = 800 } = options
  const checks = new Map<string, Check>()
  const beats = new Map<string, { lastMs: number; readonly silentMsMax: number }>()
  let cached:
    | { readonly atMs: number; forMs: number; readonly results: Promise<readonly NamedCheck[]> }
    | undefined
  let draining = false
  const heartbeats = (): readonly HeartbeatState[] => {
    const nowMs = clock.now()
    return [...beats].map(([name, { lastMs, silentMsMax }]) => ({
      name,
      silentMs: nowMs - lastMs,
      silentMsMax,
    }))
  }

  return {
    /** @throws Error for a name that is already in use */
    addCheck(name: string, check: Check): void {
      if (checks.has(name)) throw new Error(`the health check ${name} already exists`)
      checks.set(name, check)
      cached = undefined
    },
    /** Watches a loop. Liveness fails after `silentMsMax` without a heartbeat. @throws Error for a name that is already in use */
    addHeartbeat(name: string, silentMsMax: number): Heartbeat {
      if (beats.has(name)) throw new Error(`the heartbeat ${name} already exists`)
      const beat = { lastMs: clock.now(), silentMsMax }
      beats.set(name, beat)
      return {
        beat: () => {
          beat.lastMs = clock.now()
        },
        stop: () => {
          // A newer loop may have been added under the same name.
          if (beats.get(name) === beat) beats.delete(name)
        },
      }
    },
    /** Makes the process permanently not ready, so that load balancers stop sending requests. */
    startDraining(): void {
      draining = true
    },
    isDraining: (): boolean => draining,
    /** Runs the readiness checks at most once per second, and returns the last result in between. Never rejects. */
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
        ? [named('draining', { ok: false, reason: 'the process is shutting down' }), ...results]
        : results
      return { ok: all.every((each) => each.ok), checks: all }
    },
    heartbeats,
    /** Ignores readiness checks, because a restart does not repair an unavailable store. */
    liveness: (): HealthSnapshot => livenessOf(heartbeats()),
  }
}

function livenessOf(loops: readonly HeartbeatState[]): HealthSnapshot {
  const results = loops.map(({ name, silentMs, silentMsMax }) => {
    const ok = silentMs <= silentMsMax
    return named(
      name,
      ok ? { ok } : { ok, reason: `the loop has sent no heartbeat for ${Math.round(silentMs / 1000)} s` },
    )
  })
  return { ok: results.every((each) => each.ok), checks: results }
}

async function runCheck([name, check]: [string, Check], boundMs: number): Promise<NamedCheck> {
  const cancel = new AbortController()
  const late = (): CheckResult => ({ ok: false, reason: `the check did not finish within ${boundMs} ms` })
  try {
    return named(name, await within(boundMs, Promise.try(check, cancel.signal), late))
  } catch (error) {
    // Omits the message, which may contain an address or a statement. The check itself logs the details.
    return named(name, { ok: false, reason: error instanceof Error ? `failed: ${error.name}` : 'failed' })
  } finally {
    cancel.abort()
  }
}

function named(name: string, result: CheckResult): NamedCheck {
  return { name, ok: result.ok, reason: result.ok ? null : result.reason.slice(0, reasonCharsMax) }
}
