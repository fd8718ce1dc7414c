import { quantileOf } from '../bounds.ts'
import { type Call, runOpenLoop } from '../open-loop.ts'
import { residentBytes } from '../processes.ts'
import { signedCall, slugOf } from './calls.ts'
import type { Numbers } from './intake.ts'
import { type CpuSeconds, countDue, countStatements, cpuBetween, productSeconds, readCpu } from './meters.ts'
import type { Stack } from './stack.ts'

/** Run at a fixed rate. */
export interface RunOptions {
  /** Events per second. */
  readonly rate: number
  readonly warmMs: number
  readonly measureMs: number
  /** Tenants whose deliveries are not measured. */
  readonly slugsLeftOut?: readonly string[]
}

/** Percentiles in ms. */
export interface Quantiles {
  readonly p50: number
  readonly p99: number
}

/** Measurements between warm-up and end. */
export interface RateFigures {
  readonly rate: number
  readonly isFlat: boolean
  /** Reason why the queue is not flat; else empty. */
  readonly why: string
  /** Incomplete deliveries, sampled each second. */
  readonly due: readonly number[]
  /** From the scheduled time of a call to its answer. */
  readonly accept: Quantiles
  /** From the answer to the callback's call; at least 0. */
  readonly delivered: Quantiles
  /** From the scheduled time of a call to the callback's call. */
  readonly whole: Quantiles
  readonly statementsPerEvent: number
  readonly cpuPerThousand: number
  /** CPU seconds per 1 000 events, by part. */
  readonly cpuParts: CpuSeconds
  readonly forwarderMb: number
  readonly repeated: number
  /** Events acknowledged and not delivered 20 s after the end. */
  readonly missing: number
}

const connections = 128
const sampleMs = 1000
const arrivalMsMax = 20_000
const arrivalPollMs = 200
/** Maximum growth of a flat queue as a share of the rate; samples vary, since events come and go in batches. */
const growthShareMax = 0.02
/** A queue that ends with fewer seconds of events counts as flat regardless of its slope. */
const shortSeconds = 0.5
/** Median latency of intake above which the rate exceeds its capacity. */
const acceptMsMax = 500

/** Sends events at a rate to the API, and measures API and forwarder after the warm-up. The caller starts the forwarder. */
export async function runAtRate(stack: Stack, numbers: Numbers, options: RunOptions): Promise<RateFigures> {
  const { rate, warmMs, measureMs } = options
  await stack.sink.reset()
  const from = numbers.next
  const startedAt = performance.now()
  const sending = runOpenLoop({
    port: stack.api.port,
    perSecond: rate,
    durationMs: warmMs + measureMs,
    connections,
    request: (n) => signedCall(from + n),
  })
  const [calls, window] = await Promise.all([sending, observe(stack, options)])
  numbers.next = from + calls.length
  const leftOut = new Set(options.slugsLeftOut ?? [])
  const looked = (n: number) => !leftOut.has(slugOf(from + n))
  const wanted = calls.flatMap(({ ok }, n) => (ok && looked(n) ? [from + n] : []))
  const { arrivals, missing } = await waitForArrivals(stack, wanted)
  const { repeated } = await stack.sink.counts()
  const measured = calls.flatMap((call, n) =>
    call.dueAt - startedAt >= warmMs && looked(n) ? [{ ...call, n: from + n }] : [],
  )
  const times = timesOf(measured, arrivals)
  // Events answered within the measured window, whenever they were scheduled.
  const events = calls.filter((call) => isWithin(call, window)).length
  const parts = partsPerThousand(window.used, events)
  const figures = {
    rate,
    due: window.due,
    ...times,
    statementsPerEvent: window.statements / events,
    cpuPerThousand: productSeconds(parts),
    cpuParts: parts,
    forwarderMb: window.forwarderMb,
    repeated,
    missing,
  }
  const why = whyNotFlat(figures, calls)
  return { ...figures, why, isFlat: why === '' }
}

/** Activity of the stack from the end of the warm-up to the end of sending. */
interface Window {
  readonly fromAt: number
  readonly toAt: number
  readonly due: readonly number[]
  readonly used: CpuSeconds
  readonly statements: number
  readonly forwarderMb: number
}

async function observe(stack: Stack, { warmMs, measureMs }: RunOptions): Promise<Window> {
  await Bun.sleep(warmMs)
  const fromAt = performance.now()
  const cpuBefore = readCpu(stack)
  const statementsBefore = await countStatements(stack.observer)
  const due: number[] = []
  while (performance.now() - fromAt < measureMs - sampleMs) {
    await Bun.sleep(sampleMs)
    due.push(await countDue(stack.observer))
  }
  const used = cpuBetween(cpuBefore, readCpu(stack))
  const statements = (await countStatements(stack.observer)) - statementsBefore
  const forwarderMb = stack.forwarder ? (await residentBytes(stack.forwarder.pid)) / 1_000_000 : 0
  return { fromAt, toAt: performance.now(), due, used, statements, forwarderMb }
}

function isWithin({ answeredAt }: Call, { fromAt, toAt }: Window): boolean {
  return answeredAt !== undefined && answeredAt >= fromAt && answeredAt < toAt
}

/** Waits a bounded time for the last deliveries; missing ones are reported. */
async function waitForArrivals(stack: Stack, wanted: readonly number[]) {
  const deadline = performance.now() + arrivalMsMax
  for (;;) {
    const arrivals = await stack.sink.arrivals()
    const missing = wanted.filter((n) => !arrivals.has(n)).length
    if (missing === 0 || performance.now() > deadline) return { arrivals, missing }
    await Bun.sleep(arrivalPollMs)
  }
}

function timesOf(
  measured: readonly (Call & { readonly n: number })[],
  arrivals: ReadonlyMap<number, number>,
): Pick<RateFigures, 'accept' | 'delivered' | 'whole'> {
  const accept: number[] = []
  const delivered: number[] = []
  const whole: number[] = []
  for (const { n, dueAt, answeredAt } of measured) {
    const arrivedAtMs = arrivals.get(n)
    // Missing events count as infinitely slow, so that they worsen the percentiles.
    const arrivedAt =
      arrivedAtMs === undefined ? Number.POSITIVE_INFINITY : arrivedAtMs - performance.timeOrigin
    accept.push((answeredAt ?? Number.POSITIVE_INFINITY) - dueAt)
    delivered.push(answeredAt === undefined ? Number.POSITIVE_INFINITY : Math.max(0, arrivedAt - answeredAt))
    whole.push(arrivedAt - dueAt)
  }
  return { accept: quantiles(accept), delivered: quantiles(delivered), whole: quantiles(whole) }
}

/** Returns p50 and p99; NaN without samples. */
export function quantiles(times: readonly number[]): Quantiles {
  const sorted = Float64Array.from(times).sort()
  const at = (share: number) => quantileOf(sorted, share)
  return { p50: at(0.5), p99: at(0.99) }
}

function partsPerThousand(used: CpuSeconds, events: number): CpuSeconds {
  const each = (seconds: number) => (seconds * 1000) / events
  return {
    api: each(used.api),
    bare: each(used.bare),
    beside: each(used.beside),
    forwarder: each(used.forwarder),
    postgres: each(used.postgres),
    redis: each(used.redis),
  }
}

type Unjudged = Omit<RateFigures, 'isFlat' | 'why'>

function whyNotFlat({ rate, due, accept, missing }: Unjudged, calls: readonly Call[]): string {
  const failed = calls.filter(({ ok }) => !ok).length
  if (failed > 0) return `${failed} calls not answered 200`
  if (!(accept.p50 <= acceptMsMax)) return `accept p50 ${accept.p50.toFixed(0)} ms`
  const growth = slopeOf(due)
  // Ignores the slope if the machine stalled at the end, which causes a slope without a backlog.
  const isShort = Math.max(...due.slice(-3)) <= rate * shortSeconds
  if (!isShort && !(growth <= rate * growthShareMax)) return `queue grows by ${growth.toFixed(0)}/s`
  return missing > 0 ? `${missing} not delivered` : ''
}

/** Returns the growth per second of samples taken each second, by least squares. */
export function slopeOf(samples: readonly number[]): number {
  const mean = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length
  const middle = (samples.length - 1) / 2
  const level = mean(samples)
  const products = samples.map((sample, at) => (at - middle) * (sample - level))
  const squares = samples.map((_sample, at) => (at - middle) ** 2)
  return mean(products) / mean(squares)
}
