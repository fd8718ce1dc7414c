import { type LoopOptions, type Scope, type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** A loop of a process. */
export interface ProcessLoopOptions extends Omit<LoopOptions, 'health'> {
  /** A last turn once the loop has stopped; what it throws is nobody's trouble any more. */
  readonly lastTurn?: () => Promise<void>
}

/** Turns a loop for the scope's life and shows in health that it turns. */
export function openLoop(
  { lastTurn, ...options }: ProcessLoopOptions,
  { health }: Pick<ProcessTelemetry, 'health'>,
  scope: Scope,
): Promise<SupervisedLoop> {
  return scope.open({
    name: options.name,
    open: () => superviseLoop({ ...options, health }),
    close: async (loop) => {
      await loop.stop()
      await lastTurn?.().catch(() => undefined)
    },
  })
}
