import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { readiness, startProcess, type TestProcess } from '#test/support/api-process.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
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
  const { opsPort } = await process.logged('listening')
  return { ...process, opsUrl: `http://localhost:${String(opsPort)}` }
}

test('the backoffice shows how much waits, without a forwarder, and ends when it is told', async () => {
  const backoffice = await start()
  expect(await readiness(backoffice.opsUrl, 200)).toBe(200)
  const shown = await poll(
    async () => {
      const text = await (await fetch(`${backoffice.opsUrl}/metrics`)).text()
      return text.match(/^latchkey_deliveries_(due_count|oldest_age_seconds) \d+$/gm)?.toSorted()
    },
    { deadlineMs: seenMsMax },
  )
  expect(shown).toEqual(['latchkey_deliveries_due_count 0', 'latchkey_deliveries_oldest_age_seconds 0'])
  backoffice.signal('SIGTERM')
  expect(await backoffice.exited).toBe(0)
})

test('the backoffice is not ready before the schema is there', async () => {
  const empty = await createTestDatabase()
  const backoffice = await start({ LATCHKEY_DATABASE_URL: empty.url })
  const { checks } = (await (await fetch(`${backoffice.opsUrl}/readyz`)).json()) as {
    checks: { name: string; reason: string | null }[]
  }
  expect(checks.find(({ name }) => name === 'schema')?.reason).toContain('run migrate')
  backoffice.signal('SIGTERM')
  expect(await backoffice.exited).toBe(0)
  await empty.drop()
})
