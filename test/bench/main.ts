/**
 * Compares the API with a bare server on the same stores, in alternating rounds, so that the ratio holds on a noisy machine.
 * `--rounds N` (default 7) rounds of `--seconds S` (default 3); `--soak M` adds M minutes of load on the API and prints its memory,
 * whose growth has a bound from 6 minutes on; `--profile DIR` runs the API from source and writes its CPU profile to DIR. Exits with code 1 if a bound of `bounds.ts` is missed.
 */
import { parseArgs } from 'node:util'
import { growthOf, missedBounds } from './bounds.ts'
import { acquirePairing, compare, connections, pairPairing, replayPairing } from './compare.ts'
import { runLoad } from './load.ts'
import { machine, residentBytes } from './processes.ts'
import { type Stack, startStack } from './stack.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    soak: { type: 'string', default: '0' },
    profile: { type: 'string' },
  },
})
const rounds = Number(values.rounds)
const durationMs = Number(values.seconds) * 1000
const warmRounds = Math.ceil(15_000 / durationMs)

const stack = await startStack({ profileDir: values.profile })
try {
  const sizes = { rounds, durationMs, warmRounds }
  const acquired = await compare(stack, acquirePairing(stack, '/same-size'), sizes)
  const leanest = await compare(stack, acquirePairing(stack, '/set-only'), sizes)
  const replayed = await compare(stack, await replayPairing(stack), sizes)
  const paired = await compare(stack, pairPairing(stack), sizes)
  console.log(
    `\n${machine()}; ${connections} connections, ${rounds} rounds of ${values.seconds} s in turn, medians\n`,
  )
  console.log('| | bare /s | Latchkey /s | ratio | bare p99 ms | Latchkey p99 ms | ratio |')
  console.log('|---|---|---|---|---|---|---|')
  for (const { row } of [acquired, leanest, replayed, paired]) console.log(row)
  const residentMb = megabytes(await residentBytes(stack.api.pid))
  console.log(
    `\nAPI: ready in ${Math.round(stack.api.readyMs)} ms, ${residentMb} MB resident after this load`,
  )
  const soakMb = await soak(stack, Number(values.soak))
  const growth = growthOf(soakMb)
  if (growth !== undefined) console.log(`memory growth, last third over middle third: ${growth.toFixed(2)}`)
  const missed = missedBounds({ compared: [acquired, leanest, replayed, paired], residentMb, soakMb })
  for (const text of missed) console.error(`missed: ${text}`)
  if (missed.length > 0) process.exitCode = 1
} finally {
  await stack.stop()
}

/** Keeps load on the API; returns the resident memory in MB at the end of each minute. */
async function soak({ api, apiKey }: Stack, minutes: number): Promise<number[]> {
  const soakMb: number[] = []
  const pairing = acquirePairing({ apiKey }, '/same-size')
  for (let minute = 1; minute <= minutes; minute += 1) {
    const { perSecond, failed, requests } = await runLoad({
      port: api.port,
      connections,
      durationMs: 60_000,
      request: pairing.api,
    })
    // Tolerates few failures, as when Redis stalls for a second on a busy machine. With more failures, the load would not be the intended
    // load.
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
