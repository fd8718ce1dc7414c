import type { Clock } from '#internal/base/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { type ReplayStep, stepReplay } from './replay-step.ts'

/** What replays are worked off with. Everything in it stays its owner's. */
export interface ReplayerOptions {
  /** Made with `eventReadSettings`; one connection is enough. */
  readonly pool: Pool
  readonly clock: Clock
  /** Told of the tenants that have new work, after the commit. Must not throw. */
  readonly onQueued: (tenantIds: readonly string[]) => void
  /** Told of each step that did something or failed. Must not throw. */
  readonly onStep: (step: Exclude<ReplayStep, { readonly kind: 'idle' }>) => void
  /** Told of turns that found Postgres away. Must not throw. */
  readonly onError: (error: unknown, failures: number) => void
  readonly health?: Health
}

const intervalMs = 500
const turnMsMax = 5_000
/** The next turn goes on; a stop waits for no more than a step. */
const stepsMax = 40

/** Works on replays, one step after the other, until it is stopped. Any number of processes share them. Begins at once. */
export function startReplayer(options: ReplayerOptions): SupervisedLoop {
  const { pool, clock, onQueued, onStep, onError, health } = options
  return superviseLoop({
    ...{ name: 'replays', intervalMs, turnMsMax, onError, ...(health && { health }) },
    runOnce: async (signal) => {
      for (let steps = 0; steps < stepsMax && !signal.aborted; steps += 1) {
        const step = await stepReplay(pool, clock.now())
        if (step.kind === 'idle') return
        onStep(step)
        if (step.kind === 'stepped' && step.tenantIds.length > 0) onQueued(step.tenantIds)
      }
    },
  })
}
