/**
 * Measures webhooks: intake against a bare server, its rate and its latency, intake and delivery together, the effect of one tenant's faults on others, and the
 * latency of an idle system. Everything shares this machine's cores, so only the ratios are comparable. Exits with code 1 if a bound
 * is missed. See `options`.
 */
import { parseArgs } from 'node:util'
import { machine } from './processes.ts'
import { boundsTable, type Held, isKept } from './webhooks/bounds.ts'
import { measureBare, measureDeclared, measureIntake, type Numbers } from './webhooks/intake.ts'
import { measureLatency } from './webhooks/latency.ts'
import { measureMemory } from './webhooks/memory.ts'
import { listStatements, resetStatements } from './webhooks/meters.ts'
import { measureDead, measureHanging, measureManyHanging } from './webhooks/neighbours.ts'
import { runAtRate } from './webhooks/run-at-rate.ts'
import { seedBehind } from './webhooks/seed.ts'
import { type Stack, startStack } from './webhooks/stack.ts'
import { flatShareMin, measureTogether, startWarm, stepLine } from './webhooks/together.ts'

const options = {
  /** Parts to run, comma-separated: intake, declared, memory, together, latency, hanging, many, dead, steady, rest. */
  only: { type: 'string', default: 'intake,declared,memory,together,latency,hanging,many,dead,steady,rest' },
  /** Seconds of a run at one rate, after its warm-up. */
  seconds: { type: 'string', default: '15' },
  warm: { type: 'string', default: '5' },
  /** Pairs of intake rounds; half as many pairs of runs with and without a faulty tenant. */
  rounds: { type: 'string', default: '5' },
  /** Maximum steps of the search for the highest flat rate. */
  steps: { type: 'string', default: '6' },
  /** Events per second for `latency`, `hanging`, `many` and `dead`. Default: half of the highest flat rate, or of its bound if not measured. */
  rate: { type: 'string' },
  /** Backlog of the dead callback. */
  waiting: { type: 'string', default: '100000' },
  /** Loads this number of events, and repeats `intake` and `together` with them. */
  behind: { type: 'string', default: '0' },
  /** Folder for CPU profiles of API and forwarder. */
  profile: { type: 'string' },
  /** Folder of another checkout with the same migrations, whose API `intake` and `latency` measure in the same rounds. */
  beside: { type: 'string' },
  /** Prints the statements with the highest total time in Postgres. */
  statements: { type: 'boolean', default: false },
} as const
const { values } = parseArgs({ options })
const parts = new Set(values.only.split(','))
const measureMs = Number(values.seconds) * 1000
const warmMs = Number(values.warm) * 1000
const rounds = Number(values.rounds)
const pairs = Math.max(1, Math.round(rounds / 2))
const roundMs = 3000
const apiWarmRounds = 3
const hangingTenants = 1_000
/** Events per second of `steady`. */
const steadyRate = 500
const numbers: Numbers = { next: 0 }

const held: Held[] = []
const stack = await startStack({
  ...(values.profile !== undefined && { profileDir: values.profile }),
  ...(values.beside !== undefined && { besideDir: values.beside }),
})
try {
  const rates = await measureRates(stack, '')
  if (parts.has('declared'))
    held.push({
      name: 'intake of a declared provider relative to a built-in one',
      value: await measureDeclared(stack, numbers, { rounds, warmRounds: apiWarmRounds, roundMs }),
      atLeast: 0.8,
    })
  if (parts.has('memory'))
    held.push({
      name: 'memory of an API for 500 Providers and 1 000 tenants',
      value: await measureMemory(stack),
      unit: ' MB',
      atMost: 50,
    })
  const trouble = { rate: await rateFor(stack, rates.flat), warmMs, measureMs, pairs }
  if (parts.has('latency')) {
    const latency = await measureLatency(stack, numbers, { rounds, roundMs, highRate: trouble.rate })
    console.log(`\n${latency.table.join('\n')}\n`)
    held.push(...latency.held)
  }
  if (parts.has('hanging')) {
    const { p99Ratio } = await measureHanging(stack, numbers, trouble)
    held.push({
      name: 'p99 of nine tenants while the tenth hangs, relative to without',
      value: p99Ratio,
      atMost: 1.5,
    })
  }
  if (parts.has('many')) {
    const { p99Ratio } = await measureManyHanging(stack, numbers, { ...trouble, tenants: hangingTenants })
    held.push({ name: 'p99 with 1 000 hanging callbacks, relative to without', value: p99Ratio, atMost: 1.5 })
  }
  if (parts.has('dead')) {
    const { p99Ratio } = await measureDead(stack, numbers, { ...trouble, waiting: Number(values.waiting) })
    held.push({
      name: 'p99 with a backlog of a dead callback, relative to without',
      value: p99Ratio,
      atMost: 1.5,
    })
  }
  if (parts.has('steady')) held.push(...(await measureSteady(stack)))
  if (parts.has('rest')) held.push(...(await measureRest(stack)))
  if (Number(values.behind) > 0) {
    await loadBehind(stack, Number(values.behind))
    const behind = await measureRates(stack, ', with many stored events')
    holdToSame(rates, behind)
  }
  console.log(`\n${machine()}; Postgres with fsync, 1 KB bodies, ten tenants\n`)
  console.log(boundsTable(held).join('\n'))
  if (!held.every(isKept)) process.exitCode = 1
} finally {
  await stack.stop()
}

/** Events per second; undefined if not measured or not found. */
interface Rates {
  readonly intake: number | undefined
  readonly flat: number | undefined
}

/** Runs the parts `intake` and `together`. */
async function measureRates(measured: Stack, suffix: string): Promise<Rates> {
  await resetStatements(measured.observer)
  let intakeRate: number | undefined
  if (parts.has('intake')) {
    const intake = await measureIntake(measured, numbers, { rounds, warmRounds: apiWarmRounds, roundMs })
    console.log(`\n${intake.table.join('\n')}\n`)
    intakeRate = intake.apiPerSecond
    held.push({ name: `intake relative to the bare server${suffix}`, value: intake.rateRatio, atLeast: 0.6 })
  }
  await printStatements(measured)
  if (!parts.has('together')) return { intake: intakeRate, flat: undefined }
  const { barePerSecond, flat, half } = await measureTogether(measured, numbers, {
    warmMs,
    measureMs,
    stepsMax: Number(values.steps),
  })
  await printStatements(measured)
  console.log(`\nbare intake ${barePerSecond.toFixed(0)}/s, highest flat rate ${flat?.rate ?? 'none'}/s\n`)
  const of = (value: number | undefined) => value ?? Number.NaN
  held.push(
    {
      name: `highest flat rate relative to the bare server${suffix}`,
      value: of(flat?.rate) / barePerSecond,
      atLeast: flatShareMin,
    },
    {
      name: `SQL statements per event at the highest flat rate${suffix}`,
      value: of(flat?.statementsPerEvent),
      atMost: 0.2,
    },
    {
      name: `CPU per 1 000 events at the highest flat rate${suffix}`,
      value: of(flat?.cpuPerThousand),
      unit: ' s',
      atMost: 0.4,
    },
    {
      name: `accept to delivered at half of it, p50${suffix}`,
      value: of(half?.delivered.p50),
      unit: ' ms',
      atMost: 3,
    },
    {
      name: `accept to delivered at half of it, p99${suffix}`,
      value: of(half?.delivered.p99),
      unit: ' ms',
      atMost: 20,
    },
    {
      name: `forwarder resident${suffix}`,
      value: Math.max(of(flat?.forwarderMb), of(half?.forwarderMb)),
      unit: ' MB',
      atMost: 180,
    },
  )
  return { intake: intakeRate, flat: flat?.rate }
}

/** Expects the same rates with many stored events, within the noise of the machine and the step of the search. */
function holdToSame(before: Rates, behind: Rates): void {
  const ratio = (of: keyof Rates) => (behind[of] ?? Number.NaN) / (before[of] ?? Number.NaN)
  if (parts.has('intake'))
    held.push({
      name: 'intake with many stored events, relative to without',
      value: ratio('intake'),
      atLeast: 0.8,
    })
  if (parts.has('together'))
    held.push({
      name: 'highest flat rate with many stored events, relative to without',
      value: ratio('flat'),
      atLeast: 0.8,
    })
}

async function rateFor(measured: Stack, flatRate: number | undefined): Promise<number> {
  if (values.rate !== undefined) return Number(values.rate)
  if (flatRate !== undefined) return Math.round(flatRate / 2)
  if (!['latency', 'hanging', 'many', 'dead'].some((part) => parts.has(part))) return 0
  const bare = await measureBare(measured, numbers, { rounds: 3, warmRounds: 2, roundMs })
  return Math.round((bare * flatShareMin) / 2)
}

/** Measures a moderate load, far below the highest flat rate. */
async function measureSteady(measured: Stack): Promise<readonly Held[]> {
  await startWarm(measured, numbers, { rate: steadyRate })
  const figures = await runAtRate(measured, numbers, { rate: steadyRate, warmMs, measureMs })
  console.log(`steady: ${stepLine(figures)}`)
  const { p50, p99 } = figures.delivered
  return [
    { name: `accept to delivered at ${steadyRate}/s, p50`, value: p50, unit: ' ms', atMost: 0.8 },
    { name: `accept to delivered at ${steadyRate}/s, p99`, value: p99, unit: ' ms', atMost: 5 },
    {
      name: `CPU per 1 000 events at ${steadyRate}/s`,
      value: figures.cpuPerThousand,
      unit: ' s',
      atMost: 1.1,
    },
  ]
}

/** Measures fifty single events, 200 ms apart. */
async function measureRest(measured: Stack): Promise<readonly Held[]> {
  await startWarm(measured, numbers, { rate: 200 })
  const figures = await runAtRate(measured, numbers, { rate: 5, warmMs: 2000, measureMs: 10_000 })
  console.log(`at rest: ${stepLine(figures)}`)
  const { p50, p99 } = figures.delivered
  return [
    { name: 'accept at rest, p99', value: figures.accept.p99, unit: ' ms', atMost: 5 },
    { name: 'accept to first attempt at rest, p50', value: p50, unit: ' ms', atMost: 50 },
    { name: 'accept to first attempt at rest, p99', value: p99, unit: ' ms', atMost: 50 },
  ]
}

async function loadBehind({ observer, tenantIds, stopForwarder }: Stack, count: number): Promise<void> {
  await stopForwarder()
  const startedAt = performance.now()
  await seedBehind(observer, { count, tenantIds: [...tenantIds.values()], lanes: 2 })
  console.log(`\n${count} events loaded in ${((performance.now() - startedAt) / 1000).toFixed(0)} s\n`)
}

async function printStatements({ observer }: Stack): Promise<void> {
  if (!values.statements) return
  for (const { query, calls, totalMs, rows } of await listStatements(observer, 12))
    console.log(
      `${calls} calls, ${rows} rows, ${totalMs.toFixed(0)} ms, ${(totalMs / calls).toFixed(2)} ms each: ${query.slice(0, 160)}`,
    )
}
