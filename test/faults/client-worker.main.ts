// Runs operations with the TypeScript library, as requested by JSON lines, and ends itself when a line requests it.
import { createInterface } from 'node:readline'
import pgDriver from 'pg'
import { Latchkey } from '../../clients/typescript/src/index.ts'
import { pg, withTransaction } from '../../clients/typescript/src/postgres.ts'
import type { WorkerRequest } from './client-load.ts'

const pool = new pgDriver.Pool({
  connectionString: process.env['CALLERS_DATABASE_URL'],
  max: 32,
  connectionTimeoutMillis: 2000,
})
pool.on('error', () => undefined)
const database = pg<pgDriver.PoolClient>(pool)
const insertText = 'INSERT INTO effects (key, by) VALUES ($1, $2)'

/** Ends this process as if its machine had lost power. */
function die(): Promise<never> {
  process.kill(process.pid, 'SIGKILL')
  return new Promise(() => undefined)
}

function latchkeyOf({ url, apiKey, dieAt }: WorkerRequest): Latchkey {
  const dyingFetch = async (input: string, init: RequestInit) => {
    const { pathname } = new URL(input)
    const isAcquisition = init.method === 'POST' && pathname === '/v1/record'
    const isSave = init.method === 'PUT'
    if (isAcquisition && dieAt === 'before the acquisition') await die()
    if (isSave && dieAt === 'before the save') await die()
    const response = await fetch(input, init)
    if (isAcquisition && dieAt === 'after the acquisition') await die()
    if (isSave && dieAt === 'after the save') await die()
    return response
  }
  return new Latchkey({ url, apiKey, fetch: dyingFetch })
}

async function run(request: WorkerRequest) {
  const { kind, id, key, dieAt, bounds } = request
  const latchkey = latchkeyOf(request)
  const address = { scope: 'chaos', key, ...bounds }
  const work = async (client: Pick<pgDriver.Pool, 'query'>) => {
    await client.query(insertText, [key, id])
    if (dieAt === 'after the effect') await die()
    return { by: id }
  }
  const outcome =
    kind === 'transaction'
      ? await withTransaction(latchkey, database, address, work)
      : await latchkey.once(address, () => work(pool))
  const by = outcome.kind === 'ran' || outcome.kind === 'replayed' ? outcome.value.by : undefined
  return { outcome: outcome.kind, by }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as WorkerRequest & { readonly call: number }
  void run(request)
    .catch((error: unknown) => ({ outcome: `exception: ${String(error)}` }))
    .then((result) => process.stdout.write(`${JSON.stringify({ call: request.call, result })}\n`))
}
process.exit()
