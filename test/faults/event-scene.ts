import { openTenants, type TestTenants } from '#test/support/api.ts'
import { checkDelivery } from '#test/support/events/delivery-check.ts'
import { webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { migrateUrl } from '#test/support/migrated-database.ts'
import {
  type ApiProcess,
  readiness,
  startApiProcess,
  startProcess,
  type TestProcess,
} from '#test/support/processes/api-process.ts'
import {
  createTestPostgres,
  createTestRedis,
  type TestPostgres,
  type TestRedis,
} from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { type EventLoad, type EventLoadOptions, startEventLoad } from './event-load.ts'

/** Slug of the tenant of `startLoad`. */
export const loadSlug = 'acme'
/** API key of that tenant, with scopes `records` and `webhooks`. */
export const loadApiKey = 'lk_test_acme_0123456789abcdef0123456789abcdef'
/** Maximum deliveries in flight per tenant and forwarder, which its end may repeat. */
export const inFlightMax = 64
const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`
const deliveredMsMax = 60_000

/** Options of a scene. */
export interface EventSceneOptions {
  readonly redisArgs?: readonly string[]
  /** Additional environment of the API. */
  readonly apiEnv?: Readonly<Record<string, string>>
  /** YAML of additional tenants. */
  readonly manifests?: string
}

/** API and forwarder processes on their own stores, with a callback that counts deliveries. */
export interface EventScene {
  readonly postgres: TestPostgres
  readonly redis: TestRedis
  /** API process; `restartApi` replaces it. */
  readonly api: ApiProcess
  /** Forwarder process; `restartForwarder` replaces it. */
  readonly forwarder: TestProcess
  /** Kills the API if it runs, starts another one, and waits until it is ready. */
  restartApi(): Promise<void>
  /** Kills the forwarder if it runs, and starts another one. */
  restartForwarder(): Promise<void>
  /** Starts a further forwarder, which `close` ends. */
  startForwarder(): Promise<TestProcess>
  /** Starts sending events of tenant `acme`; concurrent loads have separate ledgers. */
  startLoad(options?: Partial<EventLoadOptions>): EventLoad
  /** Ends the load and waits, for up to a minute, until all acknowledged events are delivered. */
  finish(load: EventLoad): Promise<void>
  close(): Promise<void>
}

/** Callback settings: plain http on 127.0.0.1, retried each second. */
export function callbackYaml(url: string, more = ''): string {
  return `callback: {url: "${url}", allowedCIDRs: ["127.0.0.0/8"], retry: {schedule: ["0s", "1s", "1s", "1s", "1s", "1s"]}${more}}`
}

/** Returns the manifest of a tenant with this callback. */
export function tenantAt(slug: string, apiKey: string, callback: string): string {
  return webhookTenantYaml(slug, apiKey).replace(/callback: .*/, callback)
}

/** Starts stores and processes (about 4 s). */
export async function openEventScene(options: EventSceneOptions = {}): Promise<EventScene> {
  const scene = new Scene(options)
  try {
    await scene.open()
  } catch (error) {
    await scene.close()
    throw error
  }
  return scene
}

class Scene implements EventScene {
  readonly #options: EventSceneOptions
  readonly #loads = new Set<EventLoad>()
  readonly #forwarders = new Set<TestProcess>()
  readonly #sink
  #postgres: TestPostgres | undefined
  #redis: TestRedis | undefined
  #tenants: TestTenants | undefined
  #api: ApiProcess | undefined
  #forwarder: TestProcess | undefined

  constructor(options: EventSceneOptions) {
    this.#options = options
    this.#sink = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const body = await request.text()
        checkDelivery({ headers: request.headers, body })
        const { payload } = JSON.parse(body) as { payload: { id: string } }
        for (const load of this.#loads) load.ledger.arrived(payload.id)
        return new Response(null, { status: 204 })
      },
    })
  }

  get postgres() {
    return there(this.#postgres)
  }

  get redis() {
    return there(this.#redis)
  }

  get api() {
    return there(this.#api)
  }

  get forwarder() {
    return there(this.#forwarder)
  }

  async open(): Promise<void> {
    const { redisArgs = ['--appendfsync', 'always'], manifests = '' } = this.#options
    ;[this.#postgres, this.#redis] = await Promise.all([
      createTestPostgres(),
      createTestRedis({ durable: true, extraArgs: redisArgs }),
    ])
    await migrateUrl(this.postgres.url)
    this.#tenants = await openTenants(this.postgres.url, this.redis.url)
    const acme = tenantAt(loadSlug, loadApiKey, callbackYaml(`http://127.0.0.1:${this.#sink.port}/`))
    await this.#tenants.apply(acme + manifests)
    await Promise.all([this.restartApi(), this.restartForwarder()])
  }

  async restartApi(): Promise<void> {
    await end(this.#api)
    this.#api = await startApiProcess({ ...this.#env(), ...this.#options.apiEnv })
    if ((await readiness(this.#api.opsUrl, 200)) !== 200) throw new Error(this.#api.output())
  }

  async restartForwarder(): Promise<void> {
    await end(this.#forwarder)
    this.#forwarder = await this.startForwarder()
  }

  async startForwarder(): Promise<TestProcess> {
    const env = { ...this.#env(), LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' }
    const started = startProcess('forwarder', env)
    this.#forwarders.add(started)
    await started.logged('listening')
    return started
  }

  startLoad(options: Partial<EventLoadOptions> = {}): EventLoad {
    const load = startEventLoad({ url: () => this.api.url, slug: loadSlug, ...options })
    this.#loads.add(load)
    return load
  }

  async finish(load: EventLoad): Promise<void> {
    await load.end()
    const all = () => load.ledger.missing().length === 0
    // Ignores the timeout, since the test reports undelivered events.
    await until('delivery of all acknowledged events', all, deliveredMsMax).catch(() => undefined)
  }

  async close(): Promise<void> {
    await Promise.all([end(this.#api), ...[...this.#forwarders].map(end)])
    await this.#tenants?.close()
    await this.#sink.stop(true)
    await Promise.all([this.#postgres?.stop(), this.#redis?.stop()])
  }

  #env() {
    return {
      LATCHKEY_DATABASE_URL: this.postgres.url,
      LATCHKEY_REDIS_URL: this.redis.url,
      LATCHKEY_KEY_RING: keyRing,
      LATCHKEY_OPS_PORT: '0',
    }
  }
}

async function end(process: TestProcess | undefined): Promise<void> {
  process?.signal('SIGKILL')
  await process?.exited
}

function there<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('the scene is not open')
  return part
}
