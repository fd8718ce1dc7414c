import { parseKeyRing } from '#internal/tenants/index.ts'
import { startSlowCallback } from '#test/faults/slow-callback.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { cloneTenants } from '#test/support/tenants/cloned-tenants.ts'
import { median } from '../bounds.ts'
import { keyRing } from '../processes.ts'
import { slugOf } from './calls.ts'
import type { Numbers } from './intake.ts'
import { type RateFigures, type RunOptions, runAtRate } from './run-at-rate.ts'
import { seedWaiting } from './seed.ts'
import type { Stack } from './stack.ts'
import { startWarm, stepLine } from './together.ts'

/** Runs that compare other tenants with and without one faulty tenant. */
export interface NeighbourOptions extends RunOptions {
  /** Pairs of runs, without and with the fault. */
  readonly pairs: number
}

/** p99 of the other tenants from acceptance to delivery, in ms. */
export interface NeighbourFigures {
  readonly p99Without: number
  readonly p99With: number
  /** Median of the pairs' ratios. */
  readonly p99Ratio: number
}

/** Run with a new forwarder. */
type Run = () => Promise<RateFigures>

/** Measures nine tenants while the tenth's callback takes 30 s per answer. */
export async function measureHanging(
  stack: Stack,
  numbers: Numbers,
  options: NeighbourOptions,
): Promise<NeighbourFigures> {
  const slug = slugOf(0)
  // The callback hangs from the warm-up on, so that attempts have timed out before the measurement.
  const run = async (hangs: boolean) => {
    await stack.sink.hang(slug, hangs)
    try {
      return await runWarm(stack, numbers, { ...options, slugsLeftOut: [slug] })
    } finally {
      await stack.sink.hang(slug, false)
    }
  }
  return compareRuns(
    options.pairs,
    () => run(false),
    () => run(true),
  )
}

/** Measures the tenants while additional tenants' callbacks never answer, each with enough events to keep hanging. */
export async function measureManyHanging(
  stack: Stack,
  numbers: Numbers,
  { tenants, ...options }: NeighbourOptions & { readonly tenants: number },
): Promise<NeighbourFigures> {
  const ring = parseKeyRing(keyRing)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  const slow = startSlowCallback(() => undefined)
  const tenantIds = await cloneTenants(stack.observer, {
    of: slugOf(0),
    name: 'hanging',
    count: tenants,
    keyRing: ring.keyRing,
    callback: { url: slow.url },
  })
  const release = async () => {
    slow.release()
    await stack.observer.query('DELETE FROM deliveries_due WHERE tenant_id = ANY($1)', [tenantIds])
  }
  const hang = async () => {
    slow.hang()
    const each = Array.from({ length: hangingEvents })
    const events = tenantIds.flatMap((tenantId) => each.map(() => receivedEvent({ tenantId })))
    await acceptEvents(stack.observer, events)
  }
  try {
    return await compareRuns(
      options.pairs,
      () => runWarm(stack, numbers, options, release),
      () => runWarm(stack, numbers, options, hang),
    )
  } finally {
    await slow.stop()
  }
}

/** Fewer events than open a circuit breaker, so that only the forwarder's capacity limits protect the others. */
const hangingEvents = 9

/** Measures the tenants during a backlog of due events of a callback that refuses connections. */
export async function measureDead(
  stack: Stack,
  numbers: Numbers,
  { waiting, ...options }: NeighbourOptions & { readonly waiting: number },
): Promise<NeighbourFigures> {
  const tenantId = stack.tenantIds.get('dead') ?? ''
  const seed = () => seedWaiting(stack.observer, { tenantId, count: waiting })
  return compareRuns(
    options.pairs,
    () => runWarm(stack, numbers, options),
    () => runWarm(stack, numbers, options, seed),
  )
}

async function runWarm(
  stack: Stack,
  numbers: Numbers,
  options: RunOptions,
  prepare?: () => Promise<void>,
): Promise<RateFigures> {
  await startWarm(stack, numbers, { ...options, prepare })
  return runAtRate(stack, numbers, options)
}

async function compareRuns(pairs: number, without: Run, withTrouble: Run): Promise<NeighbourFigures> {
  const p99s: { without: number; with: number }[] = []
  for (let pair = 0; pair < pairs; pair += 1) {
    const calm = await without()
    console.log(`without fault: ${stepLine(calm)}`)
    const troubled = await withTrouble()
    console.log(`with fault: ${stepLine(troubled)}`)
    p99s.push({ without: calm.delivered.p99, with: troubled.delivered.p99 })
  }
  return {
    p99Without: median(p99s.map((pair) => pair.without)),
    p99With: median(p99s.map((pair) => pair.with)),
    p99Ratio: median(p99s.map((pair) => pair.with / pair.without)),
  }
}
