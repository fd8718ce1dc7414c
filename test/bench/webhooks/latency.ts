import { median } from '../bounds.ts'
import { runLoad } from '../load.ts'
import { runOpenLoop } from '../open-loop.ts'
import type { Held } from './bounds.ts'
import {
  callOf,
  comparisonHead,
  inTurn,
  type Numbers,
  type ServerName,
  serverOf,
  serversOf,
} from './intake.ts'
import { cpuBetween, readCpu } from './meters.ts'
import { type Quantiles, quantiles } from './run-at-rate.ts'
import type { Stack } from './stack.ts'

/** Rounds of the measurement. */
export interface LatencyOptions {
  readonly rounds: number
  readonly roundMs: number
  /** Second fixed rate, in events per second. */
  readonly highRate: number
}

/** Bounds, and lines of a table. */
export interface LatencyFigures {
  readonly held: readonly Held[]
  readonly table: readonly string[]
}

/** One server under one load. */
interface Turn extends Quantiles {
  /** CPU microseconds per event, of server and Postgres. */
  readonly cpuUs: number
}

type Round = Record<ServerName, Turn>

const lowRate = 500
const connections = 128
/** Part of each run at a fixed rate that is not measured. */
const warmMs = 500
/** Maximum of the median latency relative to the bare server. */
const p50RatioMax = 2
/** Maximum of the p99 relative to the bare server at `highRate`. */
const p99RatioMax = 3

/**
 * Measures the latency of acceptance of each server in turn, of a single caller and at two fixed rates. No forwarder runs: it is notified
 * only by the API, so beside the bare server it would deliver in bursts.
 */
export async function measureLatency(
  stack: Stack,
  numbers: Numbers,
  { rounds, roundMs, highRate }: LatencyOptions,
): Promise<LatencyFigures> {
  await stack.stopForwarder()
  const loads = [
    { name: 'a single caller', run: (name: ServerName) => callAlone(stack, numbers, name, roundMs) },
    ...[lowRate, highRate].map((rate) => ({
      name: `${rate}/s`,
      run: (name: ServerName) => callAtRate(stack, numbers, name, { rate, roundMs }),
    })),
  ]
  const results: (readonly Round[])[] = []
  for (const { run } of loads) results.push(await measureRounds(serversOf(stack), rounds, run))
  const [alone = [], low = [], high = []] = results
  const bound = (name: string, of: readonly Round[], field: keyof Quantiles, atMost: number): Held => ({
    name: `accept ${field} ${name}, relative to the bare server`,
    value: ratioOf(of, 'api', field),
    atMost,
  })
  return {
    held: [
      bound('of a single caller', alone, 'p50', p50RatioMax),
      bound(`at ${lowRate}/s`, low, 'p50', p50RatioMax),
      bound(`at ${highRate}/s`, high, 'p50', p50RatioMax),
      bound(`at ${highRate}/s`, high, 'p99', p99RatioMax),
    ],
    table: [
      ...comparisonHead('accept', serversOf(stack)),
      ...results.flatMap((measured, at) => rowsOf(stack, loads[at]?.name ?? '', measured)),
    ],
  }
}

/** Measures each server once per round. The first round warms up. */
async function measureRounds(
  servers: readonly ServerName[],
  rounds: number,
  run: (name: ServerName) => Promise<Turn>,
): Promise<readonly Round[]> {
  const measured: Round[] = []
  for (let round = -1; round < rounds; round += 1) {
    const turns: Partial<Round> = {}
    for (const name of inTurn(servers, round)) turns[name] = await run(name)
    if (round >= 0) measured.push(turns as Round)
  }
  return measured
}

async function callAlone(
  stack: Stack,
  numbers: Numbers,
  name: ServerName,
  durationMs: number,
): Promise<Turn> {
  const from = numbers.next
  const before = readCpu(stack)
  const { port } = serverOf(stack, name)
  const { requests, failed, p50Ms, p99Ms } = await runLoad({
    port,
    connections: 1,
    durationMs,
    request: (n) => callOf(name)(from + n),
  })
  numbers.next = from + requests + 1
  if (failed > 0) throw new Error(`${name}: ${failed} answers were not 200`)
  return { p50: p50Ms, p99: p99Ms, cpuUs: cpuUsOf(stack, name, before, requests) }
}

/** Calls a server at a fixed rate. A call without an answer counts as infinitely slow. */
async function callAtRate(
  stack: Stack,
  numbers: Numbers,
  name: ServerName,
  { rate, roundMs }: { readonly rate: number; readonly roundMs: number },
): Promise<Turn> {
  const from = numbers.next
  const before = readCpu(stack)
  const calls = await runOpenLoop({
    port: serverOf(stack, name).port,
    perSecond: rate,
    durationMs: warmMs + roundMs,
    connections,
    request: (n) => callOf(name)(from + n),
  })
  numbers.next = from + calls.length
  const measured = calls.slice(Math.round((rate * warmMs) / 1000))
  const times = measured.map(({ dueAt, answeredAt }) => (answeredAt ?? Number.POSITIVE_INFINITY) - dueAt)
  return { ...quantiles(times), cpuUs: cpuUsOf(stack, name, before, calls.length) }
}

function cpuUsOf(stack: Stack, name: ServerName, before: ReturnType<typeof readCpu>, events: number): number {
  const used = cpuBetween(before, readCpu(stack))
  return ((used[name] + used.postgres) * 1_000_000) / events
}

function ratioOf(rounds: readonly Round[], name: ServerName, field: keyof Turn): number {
  return median(rounds.map((round) => round[name][field] / round.bare[field]))
}

function rowsOf(stack: Stack, name: string, rounds: readonly Round[]): readonly string[] {
  const servers = serversOf(stack)
  const fields = [
    { field: 'p50', title: 'p50 ms', digits: 2 },
    { field: 'p99', title: 'p99 ms', digits: 2 },
    { field: 'cpuUs', title: 'CPU µs an event, with Postgres', digits: 0 },
  ] as const
  return fields.map(({ field, title, digits }) => {
    const values = servers.map((server) =>
      median(rounds.map((round) => round[server][field])).toFixed(digits),
    )
    const ratios = servers.slice(1).map((server) => ratioOf(rounds, server, field).toFixed(2))
    return `| ${[`${name}: ${title}`, ...values, ...ratios].join(' | ')} |`
  })
}
