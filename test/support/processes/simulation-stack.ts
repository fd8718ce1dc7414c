import { keyRingText, openTenants } from '../api.ts'
import { type CallbackReceiver, startReceiver } from '../events/callback-receiver.ts'
import { simulationTenantYaml } from '../intake/simulation-calls.ts'
import { createMigratedDatabase } from '../migrated-database.ts'
import { testStores } from '../stores.ts'
import { type ApiProcess, startApiProcess, startProcess } from './api-process.ts'

/** API and forwarder processes with one tenant, on a new database. */
export interface SimulationStack {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Callback of the tenant. */
  readonly receiver: CallbackReceiver
  readonly api: ApiProcess
  /** Kills the API process, and waits for its end. */
  killApi(): Promise<void>
  startApi(): Promise<void>
  close(): Promise<void>
}

/** Opens a stack whose tenant sends simulations and receives webhooks. The caller closes it. */
export async function openSimulationStack(tenant: string, apiKey: string): Promise<SimulationStack> {
  const receiver = startReceiver()
  const database = await createMigratedDatabase()
  const { redisUrl } = await testStores()
  const tenants = await openTenants(database.url, redisUrl)
  await tenants.apply(simulationTenantYaml(tenant, apiKey, { callbackUrl: receiver.url }))
  const env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_KEY_RING: keyRingText('test', 7),
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
  }
  const forwarder = startProcess('forwarder', env)
  let api = await startApiProcess(env)
  await forwarder.logged('listening')
  return {
    databaseUrl: database.url,
    redisUrl,
    receiver,
    get api() {
      return api
    },
    killApi: async () => {
      api.signal('SIGKILL')
      await api.exited
    },
    startApi: async () => {
      api = await startApiProcess(env)
    },
    close: async () => {
      for (const process of [api, forwarder]) process.signal('SIGTERM')
      await Promise.all([api.exited, forwarder.exited])
      await tenants.close()
      await database.drop()
      await receiver.stop()
    },
  }
}
