// Runs a forwarder process with a tenant whose callback targets a port of a listed private network.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { callbackSecret, startReceiver } from '#test/support/events/callback-receiver.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const receiver = startReceiver()
const { port } = new URL(receiver.url)
let connections = 0
/** Fake database or kubelet that counts connections. */
const database = Bun.listen({
  hostname: '127.0.0.1',
  port: 0,
  socket: { open: () => void (connections += 1), data: () => undefined },
})
let api: TestApi
let pool: Pool
let forwarder: TestProcess | undefined

beforeAll(async () => {
  api = await startTestApi({ manifests: manifests(receiver.url) })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 5_000,
  })
}, 60_000)
afterEach(async () => {
  forwarder?.signal('SIGKILL')
  await forwarder?.exited
})
afterAll(async () => {
  await pool.end()
  await api.close()
  await receiver.stop()
  database.stop(true)
})

function manifests(url: string): string {
  const callback = `callback: {url: "${url}", allowedCIDRs: [127.0.0.0/8], retry: {schedule: [0s]}, signingSecretRef: {name: acme-signing}}`
  return `${webhookTenantYaml('acme', testApiKey).replace(/callback: .*/, callback)}apiVersion: v1
kind: Secret
metadata: {name: acme-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
}

interface Attempt {
  readonly outcome: string
  readonly cause: string | null
  readonly answer: string | null
}

test.each<[string, () => string, () => Record<string, string>, Attempt]>([
  [
    'a callback at a port outside LATCHKEY_CALLBACK_PORTS',
    () => receiver.url,
    () => ({}),
    { outcome: 'failed', cause: 'address_refused', answer: null },
  ],
  [
    'a callback at the port of a database, by address',
    () => `http://127.0.0.1:${database.port}/`,
    () => ({ LATCHKEY_CALLBACK_PORTS: port }),
    { outcome: 'failed', cause: 'address_refused', answer: null },
  ],
  [
    'a callback at the port of a database, by name',
    () => `http://localhost:${database.port}/`,
    () => ({ LATCHKEY_CALLBACK_PORTS: port }),
    { outcome: 'failed', cause: 'address_refused', answer: null },
  ],
  [
    'a callback at a port in LATCHKEY_CALLBACK_PORTS',
    () => receiver.url,
    () => ({ LATCHKEY_CALLBACK_PORTS: port }),
    { outcome: 'delivered', cause: null, answer: '' },
  ],
])(
  'forwarder: a delivery has the expected outcome for %s',
  async (title, url, settings, expected) => {
    await api.applyManifests(manifests(url()))
    await until('the tenant has this callback', () => {
      const tenant = api.directory.findTenantBySlug('acme')
      return tenant?.callback?.url === url()
    })
    forwarder = startProcess('forwarder', {
      LATCHKEY_DATABASE_URL: api.databaseUrl,
      LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
      LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
      LATCHKEY_OPS_PORT: '0',
      LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8,::1/128',
      ...settings(),
    })
    const { body, headers } = signGeneric(genericBody())
    const response = await fetch(`${api.url}/v1/t/acme/webhooks/generic`, { method: 'POST', body, headers })
    expect(response.status).toBe(200)
    const attempt = await until('the attempt is stored', async () => {
      const text = 'SELECT outcome, cause, answer FROM attempts ORDER BY started_at DESC LIMIT 1'
      const left = await pool.query<{ due: number }>('SELECT count(*)::int AS due FROM deliveries_due')
      return left.rows[0]?.due === 0 && (await pool.query<Attempt>(text)).rows[0]
    })
    console.log(`${title}: ${attempt.cause ?? attempt.outcome}; connections to the database: ${connections}`)
    expect(attempt).toEqual(expected)
    expect(connections).toBe(0)
  },
  30_000,
)
