import { type Compared, median } from '../bounds.ts'
import { type LoadResult, runLoad } from '../load.ts'
import { bareCall, declaredCall, signedCall } from './calls.ts'
import { cpuBetween, readCpu } from './meters.ts'
import type { Stack } from './stack.ts'

/** Rounds of the measurement. */
export interface IntakeOptions {
  readonly rounds: number
  readonly warmRounds: number
  readonly roundMs: number
}

/** Counter that gives each event of a run a unique number. */
export interface Numbers {
  /** Next unused number. */
  next: number
}

/** Round of one server. */
interface Turn extends LoadResult {
  /** CPU microseconds per call, of server and Postgres. */
  readonly serverUs: number
  readonly postgresUs: number
}

/** Comparison of both servers. */
export interface IntakeFigures extends Compared {
  readonly barePerSecond: number
  readonly apiPerSecond: number
  /** Lines of a table. */
  readonly table: readonly string[]
}

const connections = 64

/** Measures intake of the API and of the bare server in turn, without a forwarder. @throws if a call is not answered 200 */
export async function measureIntake(
  stack: Stack,
  numbers: Numbers,
  options: IntakeOptions,
): Promise<IntakeFigures> {
  await stack.stopForwarder()
  const pairs: { bare: Turn; api: Turn }[] = []
  for (let round = -options.warmRounds; round < options.rounds; round += 1) {
    const pair = {
      bare: await takeTurn(stack, 'bare', numbers, options.roundMs),
      api: await takeTurn(stack, 'api', numbers, options.roundMs),
    }
    if (round >= 0) pairs.push(pair)
  }
  const bare = (of: keyof Turn) => median(pairs.map((pair) => pair.bare[of]))
  const api = (of: keyof Turn) => median(pairs.map((pair) => pair.api[of]))
  const ratio = (of: keyof Turn) => median(pairs.map((pair) => pair.api[of] / pair.bare[of]))
  const row = (name: string, of: keyof Turn, digits: number) =>
    `| ${name} | ${bare(of).toFixed(digits)} | ${api(of).toFixed(digits)} | ${ratio(of).toFixed(2)} |`
  return {
    name: 'intake',
    rateRatio: ratio('perSecond'),
    p99Ratio: ratio('p99Ms'),
    barePerSecond: bare('perSecond'),
    apiPerSecond: api('perSecond'),
    table: [
      '| intake | bare | Latchkey | ratio |',
      '|---|---|---|---|',
      row('events/s', 'perSecond', 0),
      row('p50 ms', 'p50Ms', 1),
      row('p99 ms', 'p99Ms', 1),
      row('CPU µs an event: server', 'serverUs', 0),
      row('CPU µs an event: Postgres', 'postgresUs', 0),
      `| each round | ${pairs.map((pair) => Math.round(pair.bare.perSecond)).join(' ')} | ${pairs.map((pair) => Math.round(pair.api.perSecond)).join(' ')} | ${pairs.map((pair) => (pair.api.perSecond / pair.bare.perSecond).toFixed(2)).join(' ')} |`,
    ],
  }
}

/** Returns the rate of a declared provider relative to the built-in one, measured in turn. @throws if a call is not answered 200 */
export async function measureDeclared(
  stack: Stack,
  numbers: Numbers,
  { rounds, warmRounds, roundMs }: IntakeOptions,
): Promise<number> {
  await stack.stopForwarder()
  const ratios: number[] = []
  for (let round = -warmRounds; round < rounds; round += 1) {
    const builtIn = await takeTurn(stack, 'api', numbers, roundMs)
    const declared = await takeTurn(stack, 'api', numbers, roundMs, declaredCall)
    if (round >= 0) ratios.push(declared.perSecond / builtIn.perSecond)
  }
  return median(ratios)
}

async function takeTurn(
  stack: Stack,
  name: 'bare' | 'api',
  numbers: Numbers,
  durationMs: number,
  call: (n: number) => string = name === 'bare' ? bareCall : signedCall,
): Promise<Turn> {
  const from = numbers.next
  const before = readCpu(stack)
  const { port } = stack[name]
  const result = await runLoad({ port, connections, durationMs, request: (n) => call(from + n) })
  const used = cpuBetween(before, readCpu(stack))
  numbers.next = from + result.requests + connections
  if (result.failed > 0) throw new Error(`${name}: ${result.failed} answers were not 200`)
  const us = (seconds: number) => (seconds * 1_000_000) / result.requests
  return { ...result, serverUs: us(used[name]), postgresUs: us(used.postgres) }
}

/** Returns the bare server's median rate, the baseline of other rates. */
export async function measureBare(
  stack: Stack,
  numbers: Numbers,
  { rounds, warmRounds, roundMs }: IntakeOptions,
): Promise<number> {
  const rates: number[] = []
  for (let round = -warmRounds; round < rounds; round += 1) {
    const { perSecond } = await takeTurn(stack, 'bare', numbers, roundMs)
    if (round >= 0) rates.push(perSecond)
  }
  return median(rates)
}
