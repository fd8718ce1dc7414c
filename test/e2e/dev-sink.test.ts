import { afterEach, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { removeStores } from '#internal/dev/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { tenantIdOfUid } from '#internal/tenants/index.ts'
import { type DevServer, startDevServer } from '#test/support/processes/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { createTestDatabase } from '#test/support/stores/database.ts'

const sampleSecret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='
let server: DevServer | undefined
const dataDir = scratchFolder()
afterEach(async () => {
  server?.signal('SIGKILL')
  await server?.exited
  await removeStores(dataDir)
})

test('dev receiver: verifies deliveries of the sample tenant, and shows them in its list and in the terminal', async () => {
  server = startDevServer({ dataDir })
  const { sink } = await server.ready()
  const body = JSON.stringify({
    id: 'evt_1',
    provider: 'card',
    type: 'chargeback.under_review',
    payload: {},
    tenantId: tenantIdOfUid('folder:demo/demo'),
  })
  const now = new Date()
  const answer = await fetch(sink, {
    method: 'POST',
    headers: {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(sampleSecret).sign('evt_1', now, body),
    },
    body,
  })
  expect(await answer.json()).toEqual({ number: 1, attempt: 1, signature: 'ok' })
  await server.prints('card chargeback.under_review → demo  evt_1  signature ok\n')
  expect(await (await fetch(sink)).text()).toContain(
    'card chargeback.under_review → demo  evt_1  signature ok\n',
  )
  server.signal('SIGINT')
  expect(await server.exited).toBe(0)
}, 120_000)

test('dev receiver: gets the sample tenant’s deliveries when it runs on a free port', async () => {
  const database = await createTestDatabase()
  const ports = {
    LATCHKEY_API_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_DEV_SINK_PORT: '0',
  }
  server = startDevServer({ dataDir, env: { ...ports, LATCHKEY_DATABASE_URL: database.url } })
  const { sink } = await server.ready()
  const pool = createPool({
    url: database.url,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 5000,
    connectTimeoutMs: 5000,
  })
  const { rows } = await pool.query("SELECT spec->'callback'->>'url' AS url FROM tenants WHERE slug = 'demo'")
  await pool.end()
  expect(rows).toEqual([{ url: `${sink}/` }])
  server.signal('SIGINT')
  expect(await server.exited).toBe(0)
  await database.drop()
}, 120_000)
