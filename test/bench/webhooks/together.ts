import { measureBare, type Numbers } from './intake.ts'
import { type RateFigures, runAtRate } from './run-at-rate.ts'
import type { Stack } from './stack.ts'

/** How long each part of the search takes. */
export interface TogetherOptions {
  readonly warmMs: number
  readonly measureMs: number
  /** Steps of the search at most. */
  readonly stepsMax: number
}

/** What intake and delivery together showed. */
export interface TogetherFigures {
  readonly barePerSecond: number
  /** Undefined when no rate that was tried stayed flat. */
  readonly flat: RateFigures | undefined
  readonly half: RateFigures | undefined
  readonly steps: readonly RateFigures[]
}

/** The share of the bare rate that the search begins with: its bound. */
export const flatShareMin = 0.22
const stepFactor = 1.2
const bareRounds = { rounds: 3, warmRounds: 2, roundMs: 3000 }

/**
 * Finds the highest rate at which the queue stays flat, by steps of a fifth upward from the bound, or downward while it does not;
 * then runs at half of it. The bare rate is measured before and after, since a machine's speed changes.
 */
export async function measureTogether(
  stack: Stack,
  numbers: Numbers,
  options: TogetherOptions,
): Promise<TogetherFigures> {
  await stack.stopForwarder()
  const before = await measureBare(stack, numbers, bareRounds)
  const steps: RateFigures[] = []
  const run = async (rate: number) => {
    await stack.restartForwarder()
    const figures = await runAtRate(stack, numbers, { ...options, rate })
    console.log(stepLine(figures))
    return figures
  }
  let flat: RateFigures | undefined
  let rate = Math.round(before * flatShareMin)
  while (steps.length < options.stepsMax) {
    const step = await run(rate)
    steps.push(step)
    if (step.isFlat) {
      const wasDescending = steps.length > 1 && flat === undefined
      flat = step
      if (wasDescending) break
      rate = Math.round(rate * stepFactor)
    } else {
      if (flat) break
      rate = Math.round(rate / stepFactor)
    }
  }
  const half = flat && (await run(Math.round(flat.rate / 2)))
  await stack.stopForwarder()
  const after = await measureBare(stack, numbers, { ...bareRounds, warmRounds: 0 })
  return { barePerSecond: (before + after) / 2, flat, half, steps }
}

/** A run in one line. */
export function stepLine(step: RateFigures): string {
  const { accept, delivered, whole, cpuParts: cpu } = step
  const pair = ({ p50, p99 }: { p50: number; p99: number }) => `${p50.toFixed(1)}/${p99.toFixed(1)}`
  return [
    `${step.rate}/s ${step.isFlat ? 'flat' : `not flat (${step.why})`}`,
    `ms p50/p99: accept ${pair(accept)}, accept to delivered ${pair(delivered)}, both ${pair(whole)}`,
    `${step.statementsPerEvent.toFixed(3)} statements an event`,
    `CPU s per 1 000: ${step.cpuPerThousand.toFixed(2)} (api ${cpu.api.toFixed(2)}, forwarder ${cpu.forwarder.toFixed(2)}, Postgres ${cpu.postgres.toFixed(2)}, Redis ${cpu.redis.toFixed(2)})`,
    `forwarder ${step.forwarderMb.toFixed(0)} MB; due ${step.due.join(' ')}; ${step.repeated} repeated`,
  ].join('; ')
}
