import { openTenants, type TestTenants } from '#test/support/api.ts'
import { webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { migrateUrl } from '#test/support/migrated-database.ts'
import { type ApiProcess, readiness, startApiProcess } from '#test/support/processes/api-process.ts'
import {
  createTestPostgres,
  createTestRedis,
  type TestPostgres,
  type TestRedis,
} from '#test/support/stores.ts'
import { loadApiKey } from './event-scene.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'

const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`

/** Manifest of tenant `acme`, whose records are in Postgres. */
export const durableTenantYaml = webhookTenantYaml('acme', loadApiKey, ['records: {durability: postgres}'])

/** Two API processes on their own stores, with tenant `acme`, whose records are in Postgres. */
export interface DurableScene {
  readonly postgres: TestPostgres
  readonly redis: TestRedis
  /** Before Postgres; all processes connect through it. */
  readonly proxy: TcpProxy
  readonly tenants: TestTenants
  readonly apis: readonly ApiProcess[]
  urls(): readonly string[]
  /** Kills the API process at this place, starts another one, and waits until it is ready. */
  restartApi(at: number): Promise<void>
  /** Starts a further API process, which the caller ends. */
  startApi(): Promise<ApiProcess>
  close(): Promise<void>
}

/** Starts stores and processes on a Postgres, by default a new one (about 4 s). */
export async function openDurableScene(given?: TestPostgres): Promise<DurableScene> {
  // Sets another default of synchronous_commit than Postgres does, since the guarantees of records do not depend on it.
  const [postgres, redis] = await Promise.all([
    given ?? createTestPostgres({ settings: { synchronous_commit: 'off' } }),
    createTestRedis(),
  ])
  await migrateUrl(postgres.url)
  const proxy = await startTcpProxy(Number(new URL(postgres.url).port))
  const databaseUrl = through(proxy, postgres.url)
  const tenants = await openTenants(postgres.url, redis.url)
  await tenants.apply(durableTenantYaml)
  const startApi = () =>
    startApiProcess({
      LATCHKEY_DATABASE_URL: databaseUrl,
      LATCHKEY_REDIS_URL: redis.url,
      LATCHKEY_KEY_RING: keyRing,
    })
  const startReady = async () => {
    const api = await startApi()
    if ((await readiness(api.opsUrl, 200)) !== 200) throw new Error(api.output())
    return api
  }
  const apis = await Promise.all([startReady(), startReady()])
  return {
    postgres,
    redis,
    proxy,
    tenants,
    apis,
    startApi,
    urls: () => apis.map(({ url }) => url),
    async restartApi(at) {
      apis[at]?.signal('SIGKILL')
      await apis[at]?.exited
      apis[at] = await startReady()
    },
    async close() {
      postgres.wake()
      redis.signal('SIGCONT')
      for (const api of apis) api.signal('SIGKILL')
      await Promise.all(apis.map(({ exited }) => exited))
      await tenants.close()
      await proxy.close()
      await Promise.all([postgres.stop(), redis.stop()])
    },
  }
}

function through(proxy: TcpProxy, url: string): string {
  const to = new URL(url)
  to.port = String(proxy.port)
  return to.href
}
