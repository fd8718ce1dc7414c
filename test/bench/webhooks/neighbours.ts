import { parseKeyRing } from '#internal/tenants/index.ts'
import { startSlowCallback } from '#test/faults/slow-callback.ts'
import { acceptEvents } from '#test/support/accepted-event.ts'
import { cloneTenants } from '#test/support/cloned-tenants.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { median } from '../bounds.ts'
import { keyRing } from '../processes.ts'
import { slugOf } from './calls.ts'
import type { Numbers } from './intake.ts'
import { type RateFigures, type RunOptions, runAtRate } from './run-at-rate.ts'
import { seedWaiting } from './seed.ts'
import type { Stack } from './stack.ts'
import { startWarm, stepLine } from './together.ts'

/** How one tenant's trouble is measured on the others. */
export interface NeighbourOptions extends RunOptions {
  /** Runs without and with, in turn. */
  readonly pairs: number
}

/** What the others felt: 99th percentiles of accept to delivered, ms. */
export interface NeighbourFigures {
  readonly p99Without: number
  readonly p99With: number
  /** The median of the pairs' ratios. */
  readonly p99Ratio: number
}

/** A run with a fresh forwarder. */
type Run = () => Promise<RateFigures>

/** One of the ten tenants' callbacks answers after 30 s only, each time. */
export async function measureHanging(
  stack: Stack,
  numbers: Numbers,
  options: NeighbourOptions,
): Promise<NeighbourFigures> {
  const slug = slugOf(0)
  // From the warm-up on, so that calls have run into their time-out by the time that is measured.
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

/** So many more tenants' callbacks answer nothing at all, each with enough events to keep hanging. */
export async function measureManyHanging(
  stack: Stack,
  numbers: Numbers,
  { tenants, ...options }: NeighbourOptions & { readonly tenants: number },
): Promise<NeighbourFigures> {
  const ring = parseKeyRing(keyRing)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  const slow = startSlowCallback(() => undefined)
  const tenantIds = await cloneTenants(stack.observer, {
    ...{ of: slugOf(0), name: 'hanging', count: tenants, keyRing: ring.keyRing },
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

/** Fewer than open a breaker, so that nothing but the forwarder's room protects the others. */
const hangingEvents = 9

/** A tenant whose callback takes no connections has many events waiting, all of them due. */
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
    console.log(`without: ${stepLine(calm)}`)
    const troubled = await withTrouble()
    console.log(`with: ${stepLine(troubled)}`)
    p99s.push({ without: calm.delivered.p99, with: troubled.delivered.p99 })
  }
  return {
    p99Without: median(p99s.map((pair) => pair.without)),
    p99With: median(p99s.map((pair) => pair.with)),
    p99Ratio: median(p99s.map((pair) => pair.with / pair.without)),
  }
}
