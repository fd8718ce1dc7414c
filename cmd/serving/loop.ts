import { type LoopOptions, type Scope, type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** A loop of a process. */
export interface ProcessLoopOptions extends Omit<LoopOptions, 'health'> {
  /** A last turn once the loop has stopped; what it throws is nobody's trouble any more. */
  readonly lastTurn?: () => Promise<void>
}

/** Turns a loop for the scope's life, shows in health that it turns, and counts its failures. */
export function openLoop(
  { lastTurn, ...options }: ProcessLoopOptions,
  { health, loopFailed }: Pick<ProcessTelemetry, 'health' | 'loopFailed'>,
  scope: Scope,
): Promise<SupervisedLoop> {
  const { name } = options
  const onError = (error: unknown, failures: number) => {
    loopFailed(name)
    options.onError(error, failures)
  }
  // Shown as 0 before the first one, so that the first is a rise.
  loopFailed(name, 0)
  return scope.open({
    name,
    open: () => superviseLoop({ ...options, onError, health }),
    close: async (loop) => {
      await loop.stop()
      await lastTurn?.().catch(() => undefined)
    },
  })
}
