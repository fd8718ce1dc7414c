/**
 * Compares the API with a bare server on the same stores, in alternating rounds, so that the ratio holds on a noisy machine.
 * `--rounds N` (default 7) rounds of `--seconds S` (default 3); `--soak M` adds M minutes of load on the API and prints its memory,
 * whose growth has a bound from 6 minutes on. Exits with code 1 if a bound of `bounds.ts` is missed.
 */
import { parseArgs } from 'node:util'
import { type Compared, growthOf, median, missedBounds } from './bounds.ts'
import { type LoadResult, requestText, runLoad } from './load.ts'
import { type Measured, machine, residentBytes } from './processes.ts'
import { type Stack, startStack } from './stack.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    soak: { type: 'string', default: '0' },
  },
})
const rounds = Number(values.rounds)
const durationMs = Number(values.seconds) * 1000
const connections = 64
const warmRounds = Math.ceil(15_000 / durationMs)
const run = Date.now().toString(36)

/** Requests that make both servers do the same work. */
interface Pairing {
  readonly name: string
  bare(n: number): string
  api(n: number): string
}

const stack = await startStack()
try {
  const acquired = await compare(
    stack,
    acquirePairing(stack, 'acquire a fresh key; one EVALSHA of the same size', '/same-size'),
  )
  const leanest = await compare(
    stack,
    acquirePairing(stack, 'the same; one EVALSHA that only does SET NX', '/set-only'),
  )
  const replayed = await compare(stack, await replayPairing(stack))
  console.log(
    `\n${machine()}; ${connections} connections, ${rounds} rounds of ${values.seconds} s in turn, medians\n`,
  )
  console.log('| | bare /s | Latchkey /s | ratio | bare p99 ms | Latchkey p99 ms | ratio |')
  console.log('|---|---|---|---|---|---|---|')
  for (const { row } of [acquired, leanest, replayed]) console.log(row)
  const residentMb = megabytes(await residentBytes(stack.api.pid))
  console.log(
    `\nAPI: ready in ${Math.round(stack.api.readyMs)} ms, ${residentMb} MB resident after this load`,
  )
  const soakMb = await soak(stack, Number(values.soak))
  const growth = growthOf(soakMb)
  if (growth !== undefined) console.log(`memory growth, last third over middle third: ${growth.toFixed(2)}`)
  // The minimal lock lacks guarantees of a real one: it is printed without a bound.
  const missed = missedBounds({ compared: [acquired, replayed], residentMb, soakMb })
  for (const text of missed) console.error(`missed: ${text}`)
  if (missed.length > 0) process.exitCode = 1
} finally {
  await stack.stop()
}

function acquirePairing({ apiKey }: Pick<Stack, 'apiKey'>, name: string, barePath: string): Pairing {
  const headers = { Authorization: `Bearer ${apiKey}` }
  const body = (n: number) =>
    `{"scope":"payments","key":"order-${run}-${barePath.length}-${n}","ttlSeconds":86400}`
  return {
    name,
    bare: (n) => requestText('POST', barePath, headers, body(n)),
    api: (n) => requestText('POST', '/v1/record', headers, body(n)),
  }
}

async function replayPairing({ apiKey, bare, api }: Stack): Promise<Pairing> {
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
  const record = { status: 200, headers: {}, body: { text: 'x'.repeat(1000) } }
  const saved = [
    await fetch(`http://127.0.0.1:${bare.port}/set`, {
      method: 'PUT',
      headers,
      body: JSON.stringify({ key: 'replay', value: JSON.stringify({ cached: true, record }) }),
    }),
    await fetch(`http://127.0.0.1:${api.port}/v1/record`, {
      method: 'PUT',
      headers,
      body: JSON.stringify({ scope: 'payments', key: 'replay', ...record }),
    }),
  ]
  if (!saved.every((answer) => answer.ok)) throw new Error('saving the record to replay failed')
  const body = '{"scope":"payments","key":"replay","ttlSeconds":86400}'
  return {
    name: 'replay a 1 KB record; one GET',
    bare: () => requestText('POST', '/get', headers, body),
    api: () => requestText('POST', '/v1/record', headers, body),
  }
}

async function compare(parts: Stack, pairing: Pairing): Promise<Compared & { readonly row: string }> {
  const pairs: { bare: LoadResult; api: LoadResult }[] = []
  let sent = 0
  const measure = async (server: Measured, request: (n: number) => string) => {
    const from = sent
    const result = await runLoad({
      port: server.port,
      connections,
      durationMs,
      request: (n) => request(from + n),
    })
    sent = from + result.requests + connections
    if (result.failed > 0) throw new Error(`${pairing.name}: ${result.failed} answers were not 200`)
    return result
  }
  // Warm-up: both servers are measured after JIT compilation of their hot paths, as in production.
  for (let round = -warmRounds; round < rounds; round += 1) {
    const pair = { bare: await measure(parts.bare, pairing.bare), api: await measure(parts.api, pairing.api) }
    if (round >= 0) pairs.push(pair)
  }
  const bare = (of: keyof LoadResult) => median(pairs.map((pair) => pair.bare[of]))
  const api = (of: keyof LoadResult) => median(pairs.map((pair) => pair.api[of]))
  const ratio = (of: keyof LoadResult) => median(pairs.map((pair) => pair.api[of] / pair.bare[of]))
  const [rateRatio, p99Ratio] = [ratio('perSecond'), ratio('p99Ms')]
  const rates = [Math.round(bare('perSecond')), Math.round(api('perSecond')), rateRatio.toFixed(2)]
  const tails = [bare('p99Ms').toFixed(1), api('p99Ms').toFixed(1), p99Ratio.toFixed(2)]
  const row = `| ${[pairing.name, ...rates, ...tails].join(' | ')} |`
  return { name: pairing.name, rateRatio, p99Ratio, row }
}

/** Keeps load on the API; returns the resident memory in MB at the end of each minute. */
async function soak({ api, apiKey }: Stack, minutes: number): Promise<number[]> {
  const soakMb: number[] = []
  const pairing = acquirePairing({ apiKey }, 'soak', '/soak')
  for (let minute = 1; minute <= minutes; minute += 1) {
    const from = minute * 100_000_000
    const request = (n: number) => pairing.api(from + n)
    const { perSecond, failed, requests } = await runLoad({
      port: api.port,
      connections,
      durationMs: 60_000,
      request,
    })
    // A busy machine may stall Redis for a second; with more refusals the load would not be the intended one.
    if (failed > requests / 1000) throw new Error(`soak: ${failed} answers were not 200`)
    const resident = megabytes(await residentBytes(api.pid))
    soakMb.push(resident)
    console.log(`minute ${minute}: ${Math.round(perSecond)} acquisitions/s, ${resident} MB resident`)
  }
  return soakMb
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1_000_000)
}
