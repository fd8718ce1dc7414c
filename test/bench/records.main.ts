/**
 * Compares records in Postgres (`durability: postgres`) with records in Redis, for two tenants of one API process, in alternating rounds:
 * acquire and save on 64 connections, replay on 64 connections, and acquire and save on one connection. `--rounds N` (default 7) rounds of
 * `--seconds S` (default 3). Postgres commits with fsync.
 */
import { parseArgs } from 'node:util'
import { median } from './bounds.ts'
import { type LoadResult, requestText, runLoad } from './load.ts'
import { machine } from './processes.ts'
import { durableApiKey, startStack } from './stack.ts'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, seconds: { type: 'string', default: '3' } },
})
const rounds = Number(values.rounds)
const durationMs = Number(values.seconds) * 1000
const warmRounds = 2
const run = Date.now().toString(36)
let keys = 0

const stack = await startStack()
try {
  const stores = { redis: stack.apiKey, postgres: durableApiKey }
  for (const apiKey of Object.values(stores)) await saveReplayed(apiKey)
  console.log(`\n${machine()}; ${rounds} rounds of ${values.seconds} s in turn, medians\n`)
  console.log(
    '| | redis /s | postgres /s | ratio | redis p50 ms | postgres p50 ms | redis p99 ms | postgres p99 ms |',
  )
  console.log('|---|---|---|---|---|---|---|---|')
  // A pair is two requests, so its rate is half that of a request and its time double.
  console.log(
    await compare('acquire and save, 64 connections', {
      connections: 64,
      requestsPer: 2,
      requestOf: pairRequest,
    }),
  )
  console.log(
    await compare('replay 1 KB, 64 connections', {
      connections: 64,
      requestsPer: 1,
      requestOf: replayRequest,
    }),
  )
  console.log(
    await compare('acquire and save, 1 connection', {
      connections: 1,
      requestsPer: 2,
      requestOf: pairRequest,
    }),
  )

  async function compare(name: string, load: Load): Promise<string> {
    const results = { redis: [] as LoadResult[], postgres: [] as LoadResult[] }
    for (let round = -warmRounds; round < rounds; round += 1) {
      for (const store of ['redis', 'postgres'] as const) {
        const request = load.requestOf(stores[store])
        const result = await runLoad({
          port: stack.api.port,
          connections: load.connections,
          durationMs,
          request,
        })
        if (result.failed > 0) throw new Error(`${name}: ${result.failed} answers were not 200`)
        if (round >= 0) results[store].push(result)
      }
    }
    const of = (store: 'redis' | 'postgres', field: keyof LoadResult) =>
      median(results[store].map((each) => each[field]))
    const rate = (store: 'redis' | 'postgres') => Math.round(of(store, 'perSecond') / load.requestsPer)
    const ratio = median(
      results.redis.map((each, at) => (results.postgres[at]?.perSecond ?? 0) / each.perSecond),
    )
    const ms = (field: 'p50Ms' | 'p99Ms') =>
      (['redis', 'postgres'] as const).map((store) => (of(store, field) * load.requestsPer).toFixed(2))
    return `| ${[name, rate('redis'), rate('postgres'), ratio.toFixed(2), ...ms('p50Ms'), ...ms('p99Ms')].join(' | ')} |`
  }
} finally {
  await stack.stop()
}

/** Load on one tenant. */
interface Load {
  readonly connections: number
  readonly requestsPer: number
  requestOf(apiKey: string): (n: number, connection: number, answer: string) => string
}

/** Returns requests that acquire a new key and then save its record, on each connection. */
function pairRequest(apiKey: string) {
  const headers = { Authorization: `Bearer ${apiKey}` }
  const lastKeys: string[] = []
  return (_n: number, connection: number, answer: string): string => {
    const lockToken = /"lockToken":"([^"]+)"/.exec(answer)?.[1]
    if (lockToken !== undefined) {
      const key = lastKeys[connection]
      const record = { status: 201, headers: {}, body: { id: key, amount: 4200 } }
      return requestText(
        'PUT',
        '/v1/record',
        headers,
        JSON.stringify({ scope: 'payments', key, lockToken, ...record }),
      )
    }
    const key = `order-${run}-${keys++}`
    lastKeys[connection] = key
    return requestText(
      'POST',
      '/v1/record',
      headers,
      JSON.stringify({ scope: 'payments', key, ttlSeconds: 86_400 }),
    )
  }
}

function replayRequest(apiKey: string) {
  const text = requestText(
    'POST',
    '/v1/record',
    { Authorization: `Bearer ${apiKey}` },
    '{"scope":"payments","key":"replay"}',
  )
  return () => text
}

async function saveReplayed(apiKey: string): Promise<void> {
  const record = { status: 200, headers: {}, body: { text: 'x'.repeat(1000) } }
  const answer = await fetch(`http://127.0.0.1:${stack.api.port}/v1/record`, {
    method: 'PUT',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ scope: 'payments', key: 'replay', ...record }),
  })
  if (!answer.ok) throw new Error(`saving the record to replay failed: ${answer.status}`)
}
