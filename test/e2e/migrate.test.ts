import { afterAll, beforeAll, expect, test } from 'bun:test'
import { nightlyTest } from '#test/support/nightly.ts'
import { startProcess } from '#test/support/processes/api-process.ts'
import { createTestPostgres, type TestPostgres } from '#test/support/stores.ts'

const waiting = 'Postgres is not usable yet; retrying'
let postgres: TestPostgres

beforeAll(async () => {
  postgres = await createTestPostgres()
}, 60_000)
afterAll(() => postgres.stop())

test('migrate: waits until Postgres has started, without a restart of the process', async () => {
  await postgres.stop()
  const migration = startProcess('migrate', { LATCHKEY_DATABASE_URL: postgres.url })
  await migration.logged(waiting)
  await postgres.restart()
  expect([await migration.exited, migration.output()]).toEqual([
    0,
    expect.stringContaining('schema is up to date'),
  ])
})

test('migrate: without a wait timeout, fails immediately with the reason', async () => {
  const url = new URL(postgres.url)
  url.pathname = '/not_there_yet'
  const migration = startProcess('migrate', {
    LATCHKEY_DATABASE_URL: url.href,
    LATCHKEY_MIGRATE_WAIT_SECONDS: '0',
  })
  expect(await migration.exited).toBe(1)
  expect(migration.output()).toContain('not_there_yet')
})

nightlyTest(
  'migrate: a refused password ends the wait after 15 s',
  async () => {
    const url = new URL(postgres.url)
    url.password = 'wrong'
    const startedMs = performance.now()
    const migration = startProcess('migrate', {
      LATCHKEY_DATABASE_URL: url.href,
      LATCHKEY_MIGRATE_WAIT_SECONDS: '600',
    })
    expect(await migration.exited).toBe(1)
    expect(performance.now() - startedMs).toBeWithin(10_000, 60_000)
    expect(migration.output()).toContain('password authentication failed')
  },
  90_000,
)

test('migrate: fails after the wait timeout with the reason and without the password', async () => {
  await postgres.stop()
  const migration = startProcess('migrate', {
    LATCHKEY_DATABASE_URL: postgres.url,
    LATCHKEY_MIGRATE_WAIT_SECONDS: '2',
  })
  expect(await migration.exited).toBe(1)
  expect(migration.lines(waiting)).toHaveLength(1)
  expect(migration.lines('migration failed')[0]).toHaveProperty('cause')
  expect(migration.output()).not.toContain(new URL(postgres.url).password)
})
