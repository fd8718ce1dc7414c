import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { openTenants, tenantYaml } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { readiness, startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'

const seenMsMax = 30_000
let database: TestDatabase
let env: Record<string, string>
const started: TestProcess[] = []

beforeAll(async () => {
  database = await createMigratedDatabase()
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
  }
})
afterAll(async () => {
  for (const each of started) each.signal('SIGKILL')
  await Promise.all(started.map(({ exited }) => exited))
  await database.drop()
})

async function start(more: Record<string, string> = {}) {
  const process = startProcess('backoffice', { ...env, ...more })
  started.push(process)
  const { port, opsPort } = await process.logged('listening')
  const [url, opsUrl] = [port, opsPort].map((each) => `http://localhost:${String(each)}`)
  return { ...process, url: url ?? '', opsUrl: opsUrl ?? '' }
}

test('backoffice: reports the queue metrics without a forwarder, and exits on SIGTERM', async () => {
  const backoffice = await start()
  expect(await readiness(backoffice.opsUrl, 200)).toBe(200)
  const shown = await poll(
    async () => {
      const text = await (await fetch(`${backoffice.opsUrl}/metrics`)).text()
      return text.match(/^latchkey_events_(due_count|due_age_seconds) \d+$/gm)?.toSorted()
    },
    { deadlineMs: seenMsMax },
  )
  expect(shown).toEqual(['latchkey_events_due_age_seconds 0', 'latchkey_events_due_count 0'])
  backoffice.signal('SIGTERM')
  expect(await backoffice.exited).toBe(0)
})

test('backoffice: is not ready before the schema exists', async () => {
  const empty = await createTestDatabase()
  const backoffice = await start({ LATCHKEY_DATABASE_URL: empty.url })
  const { checks } = (await (await fetch(`${backoffice.opsUrl}/readyz`)).json()) as {
    checks: { name: string; reason: string | null }[]
  }
  expect(checks.find(({ name }) => name === 'schema')?.reason).toContain('run latchkey migrate')
  backoffice.signal('SIGTERM')
  expect(await backoffice.exited).toBe(0)
  await empty.drop()
})

test('backoffice: without an API server, accepts only tenants’ API keys', async () => {
  const key = 'lk_backoffice_e2e_0123456789abcdef0123456'
  const tenants = await openTenants(database.url, env['LATCHKEY_REDIS_URL'] ?? '')
  await tenants.apply(tenantYaml('acme', key, [], 'dashboard'))
  const backoffice = await start()
  const call = (path: string, token?: string) =>
    fetch(
      `${backoffice.url}${path}`,
      token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } },
    )
  expect((await call('/internal/v1/openapi.json')).status).toBe(200)
  expect((await call('/internal/v1/tenants')).status).toBe(401)
  expect((await call('/internal/v1/tenants', 'some.kubernetes.token')).status).toBe(401)
  const page = (await (await call('/internal/v1/tenants', key)).json()) as { items: { slug: string }[] }
  expect(page.items.map(({ slug }) => slug)).toEqual(['acme'])
  expect((await call('/')).headers.get('content-type')).toContain('text/html')
  const metrics = await (await fetch(`${backoffice.opsUrl}/metrics`)).text()
  expect(metrics).toContain('latchkey_access_reviews_total{review="token",outcome="allowed"} 0')
  expect(metrics).toMatch(/latchkey_http_requests_total\{[^}]*route="\/internal\/v1\/tenants"[^}]*\} \d/)
  backoffice.signal('SIGTERM')
  expect(await backoffice.exited).toBe(0)
  await tenants.close()
})
