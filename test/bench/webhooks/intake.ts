import { type Compared, median } from '../bounds.ts'
import { type LoadResult, runLoad } from '../load.ts'
import type { Measured } from '../processes.ts'
import { bareCall, declaredCall, signedCall } from './calls.ts'
import { cpuBetween, readCpu } from './meters.ts'
import type { Stack } from './stack.ts'

/** Measured server: the API, the bare server, or the API of another checkout (`--beside`). */
export type ServerName = 'bare' | 'api' | 'beside'

/** Returns a server of the stack. @throws without `--beside` for `beside` */
export function serverOf(stack: Stack, name: ServerName): Measured {
  const server = stack[name]
  if (!server) throw new Error(`the stack has no server ${name}`)
  return server
}

/** Returns the call that a server accepts. */
export function callOf(name: ServerName): (n: number) => string {
  return name === 'bare' ? bareCall : signedCall
}

/** Returns the servers to compare, the bare one first. */
export function serversOf(stack: Stack): readonly ServerName[] {
  return stack.beside ? ['bare', 'api', 'beside'] : ['bare', 'api']
}

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
export interface IntakeFigures extends Omit<Compared, 'rateRatioMin'> {
  readonly apiPerSecond: number
  /** Lines of a table. */
  readonly table: readonly string[]
}

const connections = 64

/** Measures intake of each server in turn, without a forwarder. @throws if a call is not answered 200 */
export async function measureIntake(
  stack: Stack,
  numbers: Numbers,
  options: IntakeOptions,
): Promise<IntakeFigures> {
  await stack.stopForwarder()
  const servers = serversOf(stack)
  const rounds: Record<ServerName, Turn>[] = []
  for (let round = -options.warmRounds; round < options.rounds; round += 1) {
    const turns: Partial<Record<ServerName, Turn>> = {}
    for (const name of inTurn(servers, round))
      turns[name] = await takeTurn(stack, name, numbers, options.roundMs)
    if (round >= 0) rounds.push(turns as Record<ServerName, Turn>)
  }
  const of = (name: ServerName, field: keyof Turn) => median(rounds.map((round) => round[name][field]))
  const ratio = (name: ServerName, field: keyof Turn) =>
    median(rounds.map((round) => round[name][field] / round.bare[field]))
  const row = (name: string, field: keyof Turn, digits: number) =>
    `| ${[name, ...servers.map((server) => of(server, field).toFixed(digits)), ...servers.slice(1).map((server) => ratio(server, field).toFixed(2))].join(' | ')} |`
  const each = servers.map((name) => rounds.map((round) => Math.round(round[name].perSecond)).join(' '))
  return {
    name: 'intake',
    rateRatio: ratio('api', 'perSecond'),
    p99Ratio: ratio('api', 'p99Ms'),
    apiPerSecond: of('api', 'perSecond'),
    table: [
      ...comparisonHead('intake', servers),
      row('events/s', 'perSecond', 0),
      row('p50 ms', 'p50Ms', 1),
      row('p99 ms', 'p99Ms', 1),
      row('CPU µs an event: server', 'serverUs', 0),
      row('CPU µs an event: Postgres', 'postgresUs', 0),
      `| ${['events/s of each round', ...each, ...servers.slice(1).map(() => '')].join(' | ')} |`,
    ],
  }
}

/** Returns the servers in another order each round, so that none always follows the same other one. */
export function inTurn(servers: readonly ServerName[], round: number): readonly ServerName[] {
  const first = Math.abs(round) % servers.length
  return [...servers.slice(first), ...servers.slice(0, first)]
}

/** Returns the head of a table with a column for each server, and one for its ratio to the bare server. */
export function comparisonHead(name: string, servers: readonly ServerName[]): readonly string[] {
  const columns = [name, ...servers, ...servers.slice(1).map((server) => `${server} / bare`)]
  return [`| ${columns.join(' | ')} |`, `|${'---|'.repeat(columns.length)}`]
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
  name: ServerName,
  numbers: Numbers,
  durationMs: number,
  call: (n: number) => string = callOf(name),
): Promise<Turn> {
  const from = numbers.next
  const before = readCpu(stack)
  const { port } = serverOf(stack, name)
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
