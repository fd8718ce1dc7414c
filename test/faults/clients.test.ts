// Runs operations of both client libraries on the same keys, while their processes, the API and all stores are killed.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import pg from 'pg'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'
import { tenantYaml } from '#test/support/api.ts'
import { countOperations, type Effect, lineOfCounts } from '#test/support/clients/client-ledger.ts'
import { testOperations, testSeed } from '#test/support/seed.ts'
import { command } from '#test/support/stores/redis-topology.ts'
import { createTestPostgres, type TestPostgres } from '#test/support/stores.ts'
import { ClientLoad, type LoadOperation, operationMsMax } from './client-load.ts'
import { type DurableScene, durableTenantYaml, openDurableScene } from './durable-scene.ts'
import { loadApiKey } from './event-scene.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'

const root = resolve(import.meta.dir, '../..')
const seed = testSeed()
const operations = testOperations(4_000)
/** 100 operations for each key, or fewer in a short run. */
const keys = Math.max(200, Math.ceil(operations / 100))
/** Times that each fault happens. */
const rounds = Math.max(1, Math.round(operations / 20_000))
const redisApiKey = 'lk_test_redis_0123456789abcdef0123456789abcdef'
const hangMs = 2_000
const pauseMs = 300
/** Bound of the whole run. */
const runMsMax = 60_000 + operations * 20

let scene: DurableScene
let callers: TestPostgres
let admin: pg.Pool
let front: TcpProxy
let python: string
beforeAll(async () => {
  const requirements = resolve(root, 'test/clients/python/requirements.txt')
  python = `${await ensurePythonEnvironment(requirements)}/bin/python`
  ;[scene, callers] = await Promise.all([openDurableScene(), createTestPostgres()])
  await scene.tenants.apply(durableTenantYaml + tenantYaml('redis', redisApiKey))
  admin = new pg.Pool({ connectionString: callers.url, max: 1 })
  admin.on('error', () => undefined)
  await admin.query(await Bun.file(resolve(root, 'clients/typescript/latchkey-outcomes.sql')).text())
  await admin.query('CREATE TABLE effects (key text, by text)')
  front = await startTcpProxy(portOf(0))
}, 400_000)
afterAll(async () => {
  await admin?.end().catch(() => undefined)
  await front?.close()
  await scene?.close()
  await callers?.stop()
})

function portOf(at: number): number {
  return Number(new URL(scene.urls()[at] ?? '').port)
}

const faults: readonly (readonly [name: string, cause: (load: ClientLoad) => Promise<unknown> | void])[] = [
  ['a client process killed', (load) => load.killOne()],
  [
    'the API killed',
    async () => {
      scene.apis[0]?.signal('SIGKILL')
      front.redirect(portOf(1))
      await scene.restartApi(0)
      front.redirect(portOf(0))
    },
  ],
  ['Redis emptied', () => command(scene.redis, ['FLUSHALL'])],
  [
    'Redis killed and replaced by an empty Redis',
    async () => {
      scene.redis.signal('SIGKILL')
      await Bun.sleep(pauseMs)
      await scene.redis.restart()
    },
  ],
  [
    'the network to the API hung',
    async () => {
      front.hang()
      await Bun.sleep(hangMs)
      front.heal()
    },
  ],
  ['Postgres of the service killed', () => killPostgres(() => scene.postgres)],
  ['Postgres of the callers killed', () => killPostgres(() => callers)],
  [
    'all of them killed',
    async (load) => {
      load.killOne()
      scene.redis.signal('SIGKILL')
      await Promise.all([killPostgres(() => scene.postgres), killPostgres(() => callers)])
      await scene.redis.restart()
    },
  ],
]

async function killPostgres(of: () => TestPostgres): Promise<void> {
  of().signal('SIGKILL')
  await Bun.sleep(pauseMs)
  await of().restart()
}

async function readEffects(): Promise<Effect[]> {
  const { rows } = await admin.query<Effect>('SELECT key, by FROM effects')
  return rows
}

test(
  'client libraries: no effect is committed twice, and no effect that was reported as done is lost',
  async () => {
    const worker = resolve(import.meta.dir, 'client.worker.py')
    const load = new ClientLoad({
      seed,
      operations,
      keys,
      deathShare: operations > 10_000 ? 0.003 : 0.01,
      url: `http://127.0.0.1:${front.port}`,
      apiKeys: [loadApiKey, redisApiKey],
      workers: [
        [process.execPath, resolve(import.meta.dir, 'client-worker.main.ts')],
        [process.execPath, resolve(import.meta.dir, 'client-worker.main.ts')],
        [python, worker, 'sync'],
        [python, worker, 'async'],
      ],
      env: {
        CALLERS_DATABASE_URL: callers.url,
        PYTHONPATH: resolve(root, 'clients/python/src'),
        PYTHONDONTWRITEBYTECODE: '1',
      },
    })
    const turns = Array.from({ length: rounds }, () => faults).flat()
    for (const [at, [, cause]] of turns.entries()) {
      await load.untilDone(((at + 1) * operations) / (turns.length + 1), runMsMax)
      await cause(load)
    }
    await load.end()
    const effects = await readEffects()
    const count = (title: string, isOwn: (operation: LoadOperation) => boolean) => {
      const counts = countOperations(load.done.filter(isOwn), effects, operationMsMax)
      console.log(lineOfCounts(title, counts))
      return { seed, ...counts }
    }
    console.log(
      `seed ${seed}, ${keys} keys, ${load.kills} client processes killed, each other fault ${rounds} times`,
    )
    const inTransactions = count('in transactions', ({ kind }) => kind === 'transaction')
    const isOnce = (ofKey: string) => (each: LoadOperation) => each.kind === 'once' && each.apiKey === ofKey
    const inPostgres = count('by once alone, records in Postgres', isOnce(loadApiKey))
    const inRedis = count('by once alone, records in Redis', isOnce(redisApiKey))
    const zero = { lost: 0, different: 0, late: 0 }
    expect(inTransactions).toMatchObject({ ...zero, twice: 0, undecided: 0 })
    expect(inPostgres).toMatchObject({ ...zero, twice: 0 })
    // Allows repeated runs, since the records and locks of these operations are lost with Redis.
    expect(inRedis).toMatchObject(zero)
    expect(inTransactions.ran).toBeGreaterThan(keys / 2)
  },
  runMsMax + 120_000,
)
