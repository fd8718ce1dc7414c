import { type Compared, median } from './bounds.ts'
import { type LoadResult, requestText, runLoad } from './load.ts'
import type { Measured } from './processes.ts'
import type { Stack } from './stack.ts'

/** Number of connections of each load. */
export const connections = 64
const run = Date.now().toString(36)
let keys = 0

/** Requests that make both servers do the same work. `answer`: text of the previous answer on the connection. */
export interface Pairing {
  readonly name: string
  /** Minimum of the API's rate divided by that of the bare server. */
  readonly rateRatioMin: number
  bare(n: number, connection: number, answer: string): string
  api(n: number, connection: number, answer: string): string
}

/** Rounds of a comparison. */
export interface Rounds {
  readonly rounds: number
  readonly durationMs: number
  /** Rounds before the measured ones, which compile the hot paths of both servers, as in production. */
  readonly warmRounds: number
}

/** Work of the bare server for an acquisition, with the minimum of the API's rate relative to it. */
const bareAcquisitions = {
  '/same-size': { name: 'acquire a fresh key; one EVALSHA of the same size', rateRatioMin: 0.7 },
  // A smaller minimum, because this lock lacks the guarantees of a real lock.
  '/set-only': { name: 'the same; one EVALSHA that only does SET NX', rateRatioMin: 0.6 },
} as const

/** Returns acquisitions of fresh keys. */
export function acquirePairing(
  { apiKey }: Pick<Stack, 'apiKey'>,
  barePath: keyof typeof bareAcquisitions,
): Pairing {
  const headers = { Authorization: `Bearer ${apiKey}` }
  const body = () => `{"scope":"payments","key":"order-${run}-${keys++}","ttlSeconds":86400}`
  return {
    ...bareAcquisitions[barePath],
    bare: () => requestText('POST', barePath, headers, body()),
    api: () => requestText('POST', '/v1/record', headers, body()),
  }
}

/** Returns acquisitions of fresh keys, each followed by the save of its record on the same connection. */
export function pairPairing({ apiKey }: Pick<Stack, 'apiKey'>): Pairing {
  const headers = { Authorization: `Bearer ${apiKey}` }
  const requests = (acquirePath: string, savePath: string) => {
    const lastKeys: string[] = []
    return (_n: number, connection: number, answer: string) => {
      const token = /"lockToken":"([^"]+)"/.exec(answer)?.[1]
      const key = token === undefined ? `pair-${run}-${keys++}` : lastKeys[connection]
      lastKeys[connection] = key ?? ''
      return token === undefined
        ? requestText('POST', acquirePath, headers, `{"scope":"payments","key":"${key}","ttlSeconds":86400}`)
        : requestText(
            'PUT',
            savePath,
            headers,
            `{"scope":"payments","key":"${key}","lockToken":"${token}","status":201,"headers":{},"body":{"id":"${key}","amount":4200}}`,
          )
    }
  }
  return {
    name: 'acquire and save; two EVALSHA of the same size',
    rateRatioMin: 0.7,
    bare: requests('/same-size', '/save-same-size'),
    api: requests('/v1/record', '/v1/record'),
  }
}

/** Number of records that are replayed. */
const replayed = 64

/** Saves records of 1 KB on both servers and returns their replays. */
export async function replayPairing({ apiKey, bare, api }: Stack): Promise<Pairing> {
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
  const record = { status: 200, headers: {}, body: { text: 'x'.repeat(1000) } }
  const put = async (server: Measured, path: string, body: object) => {
    const init = { method: 'PUT', headers, body: JSON.stringify(body) }
    const { ok } = await fetch(`http://127.0.0.1:${server.port}${path}`, init)
    if (!ok) throw new Error('saving a record to replay failed')
  }
  for (let nth = 0; nth < replayed; nth += 1) {
    const key = `replay-${nth}`
    await put(bare, '/set', { key, value: JSON.stringify({ cached: true, record }) })
    await put(api, '/v1/record', { scope: 'payments', key, ...record })
  }
  const body = (n: number) => `{"scope":"payments","key":"replay-${n % replayed}","ttlSeconds":86400}`
  return {
    name: 'replay one of 64 records of 1 KB; one GET',
    rateRatioMin: 0.7,
    bare: (n) => requestText('POST', '/get', headers, body(n)),
    api: (n) => requestText('POST', '/v1/record', headers, body(n)),
  }
}

/** Measures both servers in alternating rounds, and returns the medians of the ratios and a row for the table. */
export async function compare(
  parts: Pick<Stack, 'bare' | 'api'>,
  pairing: Pairing,
  { rounds, durationMs, warmRounds }: Rounds,
): Promise<Compared & { readonly row: string }> {
  const pairs: { bare: LoadResult; api: LoadResult }[] = []
  let sent = 0
  const measure = async (server: Measured, request: Pairing['api']) => {
    const from = sent
    const result = await runLoad({
      port: server.port,
      connections,
      durationMs,
      request: (n, connection, answer) => request(from + n, connection, answer),
    })
    sent = from + result.requests + connections
    if (result.failed > 0) throw new Error(`${pairing.name}: ${result.failed} answers were not 200`)
    return result
  }
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
  const { name, rateRatioMin } = pairing
  return { name, rateRatio, rateRatioMin, p99Ratio, row }
}
