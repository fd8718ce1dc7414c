import { measureBare, type Numbers } from './intake.ts'
import { type RateFigures, type RunOptions, runAtRate } from './run-at-rate.ts'
import type { Stack } from './stack.ts'

/** Durations of the search. */
export interface TogetherOptions {
  readonly warmMs: number
  readonly measureMs: number
  /** Maximum steps of the search. */
  readonly stepsMax: number
}

/** Results of intake and delivery together. */
export interface TogetherFigures {
  readonly barePerSecond: number
  /** Undefined if the queue stayed flat at no tried rate. */
  readonly flat: RateFigures | undefined
  readonly half: RateFigures | undefined
  readonly steps: readonly RateFigures[]
}

/** Share of the bare rate at which the search starts, which is its bound. */
export const flatShareMin = 0.4
const stepFactor = 1.2
const startWarmMs = 30_000
const bareRounds = { rounds: 3, warmRounds: 2, roundMs: 3000 }

/**
 * Finds the highest rate at which the queue stays flat, in steps of a fifth upward from the bound, or downward while it is not flat;
 * then runs at half of it. Measures the bare rate before and after, since the machine's speed varies.
 */
export async function measureTogether(
  stack: Stack,
  numbers: Numbers,
  options: TogetherOptions,
): Promise<TogetherFigures> {
  await stack.stopForwarder()
  const before = await measureBare(stack, numbers, bareRounds)
  const startRate = Math.round(before * flatShareMin)
  await startWarm(stack, numbers, { rate: startRate })
  const steps = await search(stack, numbers, { ...options, rate: startRate })
  const flat = steps.findLast(({ isFlat }) => isFlat)
  let half: RateFigures | undefined
  if (flat) {
    // Restarts the processes, since an overloaded step leaves its memory allocated.
    const rate = Math.round(flat.rate / 2)
    await startWarm(stack, numbers, { rate })
    half = await runAtRate(stack, numbers, { ...options, rate })
    console.log(stepLine(half))
  }
  await stack.stopForwarder()
  const after = await measureBare(stack, numbers, { ...bareRounds, warmRounds: 0 })
  return { barePerSecond: (before + after) / 2, flat, half, steps }
}

/** Starts a new forwarder and runs it and the API until their hot paths are compiled. */
export async function startWarm(
  stack: Stack,
  numbers: Numbers,
  { rate, slugsLeftOut = [], prepare }: WarmOptions,
): Promise<void> {
  await stack.restartForwarder(prepare)
  await runAtRate(stack, numbers, { rate, slugsLeftOut, warmMs: 1000, measureMs: startWarmMs })
}

/** Warm-up rate. */
export interface WarmOptions extends Pick<RunOptions, 'rate' | 'slugsLeftOut'> {
  /** Runs between the end of the old forwarder and the start of the new one. */
  readonly prepare?: (() => Promise<void>) | undefined
}

async function search(
  stack: Stack,
  numbers: Numbers,
  options: TogetherOptions & { readonly rate: number },
): Promise<readonly RateFigures[]> {
  const steps: RateFigures[] = []
  let { rate } = options
  for (;;) {
    const step = await runAtRate(stack, numbers, { ...options, rate })
    console.log(stepLine(step))
    const [last] = steps.slice(-1)
    steps.push(step)
    // Ends when the queue stays flat at one of two neighbouring rates and grows at the other.
    if ((last && last.isFlat !== step.isFlat) || steps.length === options.stepsMax) return steps
    rate = Math.round(step.isFlat ? rate * stepFactor : rate / stepFactor)
    if (step.missing > 0) await startWarm(stack, numbers, { rate })
  }
}

/** Formats a run as one line. */
export function stepLine(step: RateFigures): string {
  const { accept, delivered, whole, cpuParts: cpu } = step
  const pair = ({ p50, p99 }: { p50: number; p99: number }) => `${p50.toFixed(1)}/${p99.toFixed(1)}`
  return [
    `${step.rate}/s ${step.isFlat ? 'flat' : `not flat (${step.why})`}`,
    `ms p50/p99: accept ${pair(accept)}, accept to delivered ${pair(delivered)}, total ${pair(whole)}`,
    `${step.statementsPerEvent.toFixed(3)} statements per event`,
    `CPU s per 1 000: ${step.cpuPerThousand.toFixed(2)} (api ${cpu.api.toFixed(2)}, forwarder ${cpu.forwarder.toFixed(2)}, Postgres ${cpu.postgres.toFixed(2)}, Redis ${cpu.redis.toFixed(2)})`,
    `forwarder ${step.forwarderMb.toFixed(0)} MB; due ${step.due.join(' ')}; ${step.repeated} repeated`,
  ].join('; ')
}
