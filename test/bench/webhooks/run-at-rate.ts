import { quantileOf } from '../bounds.ts'
import { type Call, runOpenLoop } from '../open-loop.ts'
import { residentBytes } from '../processes.ts'
import { signedCall, slugOf } from './calls.ts'
import type { Numbers } from './intake.ts'
import { type CpuSeconds, countDue, countStatements, cpuBetween, productSeconds, readCpu } from './meters.ts'
import type { Stack } from './stack.ts'

/** One run at a fixed rate. */
export interface RunOptions {
  /** Events a second. */
  readonly rate: number
  readonly warmMs: number
  readonly measureMs: number
  /** Tenants whose deliveries are not looked at. */
  readonly slugsLeftOut?: readonly string[]
}

/** Times in milliseconds. */
export interface Quantiles {
  readonly p50: number
  readonly p99: number
}

/** What a run showed between its warm-up and its end. */
export interface RateFigures {
  readonly rate: number
  readonly isFlat: boolean
  /** Why it is not flat, or empty. */
  readonly why: string
  /** Unsettled deliveries, each second. */
  readonly due: readonly number[]
  /** From when a call was due until its answer. */
  readonly accept: Quantiles
  /** From the answer until the callback was called; not below 0. */
  readonly delivered: Quantiles
  /** From when a call was due until the callback was called. */
  readonly whole: Quantiles
  readonly statementsPerEvent: number
  readonly cpuPerThousand: number
  /** CPU seconds per 1 000 events of each part. */
  readonly cpuParts: CpuSeconds
  readonly forwarderMb: number
  readonly repeated: number
  /** Acknowledged, and not at the callback 20 s after the end. */
  readonly missing: number
}

const connections = 128
const sampleMs = 1000
const arrivalMsMax = 20_000
const arrivalPollMs = 200
/** A queue that grows by less than this share of the rate is flat: samples are taken between a batch's coming and its going. */
const growthShareMax = 0.02
/** A queue that ends with less than so many seconds' events has not grown, whatever its slope. */
const shortSeconds = 0.5
/** Calls that wait longer than this for their answer, on the median, were sent faster than they can be taken. */
const acceptMsMax = 500

/** Sends events at a rate to API and forwarder, and measures what follows the warm-up. The caller starts the forwarder. */
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
  // The observed window's own events: those that were answered in it, whenever they were due.
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

/** What the stack did from the end of the warm-up to the end of the sending. */
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

/** Waits for the last ones, but not for ever: what is missing then is reported. */
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
    // What never came has taken for ever, and must not make the rest look better.
    const arrivedAt =
      arrivedAtMs === undefined ? Number.POSITIVE_INFINITY : arrivedAtMs - performance.timeOrigin
    accept.push((answeredAt ?? Number.POSITIVE_INFINITY) - dueAt)
    delivered.push(answeredAt === undefined ? Number.POSITIVE_INFINITY : Math.max(0, arrivedAt - answeredAt))
    whole.push(arrivedAt - dueAt)
  }
  return { accept: quantiles(accept), delivered: quantiles(delivered), whole: quantiles(whole) }
}

/** The median and the 99th percentile; NaN of nothing. */
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
  // One stutter of the machine at the end makes a slope, and no queue.
  const isShort = Math.max(...due.slice(-3)) <= rate * shortSeconds
  if (!isShort && !(growth <= rate * growthShareMax)) return `queue grows by ${growth.toFixed(0)}/s`
  return missing > 0 ? `${missing} not delivered` : ''
}

/** By how much a series of samples, one a second, grows each second: the least squares' line. */
export function slopeOf(samples: readonly number[]): number {
  const mean = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length
  const middle = (samples.length - 1) / 2
  const level = mean(samples)
  const products = samples.map((sample, at) => (at - middle) * (sample - level))
  const squares = samples.map((_sample, at) => (at - middle) ** 2)
  return mean(products) / mean(squares)
}
