/**
 * Compares `once` of the client library in TypeScript with its two calls, acquisition and save, sent by the bare global `fetch`, at 64
 * concurrent operations, in alternating rounds on one API process. CPU is that of this process, which only sends. `--rounds N` (default 9)
 * rounds of `--seconds S` (default 2). Exits with code 1 if a bound is missed.
 */
import { parseArgs } from 'node:util'
import { Latchkey } from '../../clients/typescript/src/index.ts'
import { median } from './bounds.ts'
import { machine } from './processes.ts'
import { startStack } from './stack.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, seconds: { type: 'string', default: '2' } },
})
const rounds = Number(values.rounds)
const durationMs = Number(values.seconds) * 1000
const warmRounds = 2
const concurrent = 64
/** Maximum duration of an operation by `once`, divided by that of its bare calls. */
const ratioMax = 1.15
/** Maximum CPU that `once` needs beyond its bare calls, in milliseconds per operation. */
const cpuMsMax = 0.2
const run = Date.now().toString(36)
const scope = 'payments'
const result = { id: 'ch_81', amount: 4200 }

/** Measurement of one round. */
interface Round {
  readonly perSecond: number
  /** CPU of this process in milliseconds per operation. */
  readonly cpuMs: number
}

const stack = await startStack()
try {
  const url = `http://127.0.0.1:${stack.api.port}`
  const latchkey = new Latchkey({ url, apiKey: stack.apiKey })
  const operations = {
    bare: bareCalls(url, stack.apiKey),
    once: async (key: string) => {
      const { kind } = await latchkey.once({ scope, key }, () => result)
      if (kind !== 'ran') throw new Error(`once: ${kind}`)
    },
  }
  const results: Record<keyof typeof operations, Round[]> = { bare: [], once: [] }
  for (let round = -warmRounds; round < rounds; round += 1) {
    // Alternates the order, so that neither variant always runs second.
    const order = round % 2 === 0 ? (['bare', 'once'] as const) : (['once', 'bare'] as const)
    for (const name of order) {
      const measured = await measure(`${run}-${name}-${round}`, operations[name])
      if (round >= 0) results[name].push(measured)
    }
  }
  const of = (name: keyof typeof operations, field: keyof Round) =>
    median(results[name].map((each) => each[field]))
  const ratio = median(
    results.bare.map((each, at) => each.perSecond / (results.once[at]?.perSecond ?? Number.NaN)),
  )
  const cpuMs = median(results.once.map((each, at) => each.cpuMs - (results.bare[at]?.cpuMs ?? Number.NaN)))
  console.log(
    `\n${machine()}; ${concurrent} operations at a time, ${rounds} rounds of ${values.seconds} s in turn, medians\n`,
  )
  console.log('| | operations /s | CPU ms per operation |')
  console.log('|---|---|---|')
  for (const name of ['bare', 'once'] as const)
    console.log(`| ${name} | ${Math.round(of(name, 'perSecond'))} | ${of(name, 'cpuMs').toFixed(3)} |`)
  console.log(
    `\nonce takes ${ratio.toFixed(2)} times as long, and ${cpuMs.toFixed(3)} ms of CPU more per operation`,
  )
  if (!(ratio <= ratioMax)) missed(`${ratio.toFixed(2)} times as long, maximum ${ratioMax}`)
  if (!(cpuMs <= cpuMsMax)) missed(`${cpuMs.toFixed(3)} ms of CPU more, maximum ${cpuMsMax}`)
} finally {
  await stack.stop()
}

function missed(text: string): void {
  console.error(`missed: ${text}`)
  process.exitCode = 1
}

/** Returns the two calls of an operation as an application without the library sends them. */
function bareCalls(url: string, apiKey: string) {
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
  const call = async (method: string, body: object) => {
    const response = await fetch(`${url}/v1/record`, { method, headers, body: JSON.stringify(body) })
    if (response.status !== 200) throw new Error(`${method}: ${response.status}`)
    return (await response.json()) as { readonly lockToken?: string }
  }
  return async (key: string) => {
    const { lockToken } = await call('POST', { scope, key, lockSeconds: 60, attemptId: crypto.randomUUID() })
    await call('PUT', { scope, key, lockToken, status: 200, headers: {}, body: result })
  }
}

/** Runs operations one after another on each of the concurrent callers. */
async function measure(prefix: string, operation: (key: string) => Promise<void>): Promise<Round> {
  let count = 0
  const startedAtMs = performance.now()
  const cpuBefore = process.cpuUsage()
  const caller = async () => {
    while (performance.now() - startedAtMs < durationMs) {
      count += 1
      await operation(`${prefix}-${count}`)
    }
  }
  await Promise.all(Array.from({ length: concurrent }, caller))
  const { user, system } = process.cpuUsage(cpuBefore)
  return {
    perSecond: count / ((performance.now() - startedAtMs) / 1000),
    cpuMs: (user + system) / 1000 / count,
  }
}
