import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool, migrate } from '#internal/storage/index.ts'
import { openTenants, type TestTenants, testApiKey } from '#test/support/api.ts'
import {
  type ApiProcess,
  readiness,
  startApiProcess,
  startProcess,
  type TestProcess,
} from '#test/support/api-process.ts'
import {
  createTestPostgres,
  createTestRedis,
  type TestPostgres,
  type TestRedis,
} from '#test/support/stores.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/webhook-calls.ts'

/** Short in the suite, longer by `LATCHKEY_TEST_FAULT_ROUNDS`. */
const rounds = Number(process.env['LATCHKEY_TEST_FAULT_ROUNDS'] ?? '1')
const senders = 16
/** Deliveries of one tenant that a forwarder has under way at a time; a kill of it or of Postgres repeats these at most. */
const inFlightMax = 64
const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`

let postgres: TestPostgres
let redis: TestRedis
let tenants: TestTenants
let api: ApiProcess
let forwarder: TestProcess
/** Which events arrived at the callback, and how often. */
const arrived = new Map<string, number>()
const sink = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { payload } = (await request.json()) as { payload: { id: string } }
    arrived.set(payload.id, (arrived.get(payload.id) ?? 0) + 1)
    return new Response('{}')
  },
})

beforeAll(async () => {
  ;[postgres, redis] = await Promise.all([
    createTestPostgres(),
    createTestRedis({ durable: true, extraArgs: ['--appendfsync', 'always'] }),
  ])
  await bringUpToDate()
  tenants = await openTenants(postgres.url, redis.url)
  const callback = `callback: {url: "http://127.0.0.1:${sink.port}/", allowedCIDRs: ["127.0.0.0/8"], retry: {schedule: ["0s", "1s", "1s", "1s", "1s"]}}`
  await tenants.apply(webhookTenantYaml('acme', testApiKey).replace(/callback: .*/, callback))
  api = await startApi()
  forwarder = await startForwarder()
}, 60_000)
afterAll(async () => {
  for (const one of [api, forwarder]) {
    one?.signal('SIGKILL')
    await one?.exited
  }
  await tenants?.close()
  await sink.stop(true)
  await Promise.all([postgres?.stop(), redis?.stop()])
})

async function bringUpToDate(): Promise<void> {
  const bounds = { connectionsMax: 1, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: postgres.url, applicationName: 'test', ...bounds })
  await migrate(pool, { log: { info: () => undefined, warn: () => undefined } })
  await pool.end()
}

const env = () => ({
  LATCHKEY_DATABASE_URL: postgres.url,
  LATCHKEY_REDIS_URL: redis.url,
  LATCHKEY_KEY_RING: keyRing,
  LATCHKEY_OPS_PORT: '0',
})

async function startApi(): Promise<ApiProcess> {
  const started = await startApiProcess(env())
  if ((await readiness(started.opsUrl, 200)) !== 200) throw new Error(started.output())
  return started
}

async function startForwarder(): Promise<TestProcess> {
  const started = startProcess('forwarder', { ...env(), LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8' })
  await started.logged('listening')
  return started
}

/** Providers as they are: each sends one event after another, and one that is not acknowledged again and again. */
function startLoad() {
  const acknowledged = new Set<string>()
  let ending = false
  const oneSender = async () => {
    while (!ending) {
      const id = crypto.randomUUID()
      while (!(await send(id))) await Bun.sleep(20)
      acknowledged.add(id)
    }
  }
  const all = Promise.all(Array.from({ length: senders }, oneSender))
  return {
    acknowledged,
    async untilMore(count: number) {
      const from = acknowledged.size
      const reached = await poll(async () => acknowledged.size >= from + count || undefined, {
        deadlineMs: 30_000,
      })
      if (!reached) throw new Error(`only ${acknowledged.size - from} of ${count} events were acknowledged`)
    },
    async end() {
      ending = true
      await all
    },
  }
}

async function send(id: string): Promise<boolean> {
  const call = signGeneric(genericBody(id))
  try {
    const answer = await fetch(`${api.url}/v1/t/acme/webhooks/generic`, {
      method: 'POST',
      ...call,
      signal: AbortSignal.timeout(10_000),
    })
    await answer.arrayBuffer()
    return answer.status === 200 || answer.status === 202
  } catch {
    return false
  }
}

test('SIGKILL of each part under load, one after the other, loses no acknowledged event', async () => {
  const load = startLoad()
  const kills = {
    api: async () => {
      api.signal('SIGKILL')
      await api.exited
      api = await startApi()
    },
    forwarder: async () => {
      forwarder.signal('SIGKILL')
      await forwarder.exited
      forwarder = await startForwarder()
    },
    redis: async () => {
      redis.signal('SIGKILL')
      await redis.restart()
    },
    postgres: async () => {
      postgres.signal('SIGKILL')
      await load.untilMore(1)
      await postgres.restart()
    },
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const kill of Object.values(kills)) {
      await load.untilMore(200)
      await kill()
    }
  }
  await load.untilMore(200)
  await load.end()
  const missing = () => [...load.acknowledged].filter((id) => !arrived.has(id))
  await poll(async () => missing().length === 0 || undefined, { deadlineMs: 90_000, everyMs: 100 })
  expect(missing()).toEqual([])
  const twice = [...arrived.values()].reduce((sum, count) => sum + count - 1, 0)
  // What was in flight at a kill has to be sent again; nothing else may be.
  const killsThatRepeat = rounds * 2
  expect(twice).toBeLessThanOrEqual(killsThatRepeat * inFlightMax)
  expect(Math.max(...arrived.values())).toBeLessThanOrEqual(1 + killsThatRepeat)
}, 180_000)
