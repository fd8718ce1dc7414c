import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE tenants, settings CASCADE')
})

async function addTenant(
  name: string,
  store: string,
  {
    before = null,
    suspended = false,
    deleted = false,
    hasCallback = true,
    providers = [],
  }: {
    before?: string | null
    suspended?: boolean
    deleted?: boolean
    hasCallback?: boolean
    providers?: readonly string[]
  } = {},
): Promise<void> {
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at, deleted_at,
       record_store, record_store_before)
     VALUES ($1, $1, 'shops', $2, $3, $7, 1, now(), now(), now(), CASE WHEN $4 THEN now() END, $5, $6)`,
    [
      someTenantId(),
      name,
      suspended,
      deleted,
      store,
      before,
      { ...(hasCallback && { callback: {} }), providers: providers.map((each) => ({ name: each })) },
    ],
  )
}

const run = (...args: string[]) =>
  latchkey(['migrate', '--check-rollback', ...args], { LATCHKEY_DATABASE_URL: database.url })

test('latchkey migrate --check-rollback: succeeds if all active tenants have their records in Redis', async () => {
  await addTenant('plain', 'redis')
  await addTenant('asleep', 'postgres', { suspended: true })
  await addTenant('gone', 'postgres', { deleted: true })
  expect(await run()).toEqual({
    code: 0,
    out: 'The rollback is safe: no tenant in service has records in Postgres or a declared provider, and each has a callback\n',
    err: '',
  })
})

test('latchkey migrate --check-rollback: fails and names the tenants with records in Postgres, also after a move out of Postgres', async () => {
  await addTenant('plain', 'redis')
  await addTenant('durable', 'postgres')
  await addTenant('leaving', 'redis', { before: 'postgres' })
  const { code, out, err } = await run()
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain('Tenants in service that can have records in Postgres: 2\n')
  expect(err).toContain('shops/durable  postgres\n')
  expect(err).toContain('shops/leaving  redis     postgres\n')
  expect(err).not.toContain('plain')
})

test('latchkey migrate --check-rollback: fails while Postgres is the default store of records, even without tenants that use it', async () => {
  await addTenant('plain', 'redis')
  await pool.query(`INSERT INTO settings VALUES ('', 'records.durability', '"postgres"', 1, now(), 'test')`)
  const { code, out, err } = await run()
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain('latchkey settings set records.durability redis')
  const json = await run('--json')
  expect([json.code, JSON.parse(json.out)]).toEqual([1, { problem: err.trimEnd() }])
})

test('latchkey migrate --check-rollback: fails and names the tenants without a callback, but not deleted ones', async () => {
  await addTenant('plain', 'redis')
  await addTenant('reel', 'redis', { hasCallback: false })
  await addTenant('gone', 'redis', { hasCallback: false, deleted: true })
  const { code, err } = await run()
  expect(code).toBe(1)
  expect(err).toContain('Tenants without one: 1\nshops/reel\n')
})

test('latchkey migrate --check-rollback: fails and counts the tenants of each declared provider, in addition to other problems', async () => {
  await addTenant('plain', 'redis', { providers: ['card'] })
  await addTenant('one', 'redis', { providers: ['card', 'slack'] })
  await addTenant('two', 'postgres', { providers: ['slack', 'acme'] })
  await addTenant('gone', 'redis', { providers: ['slack'], deleted: true })
  const { code, err } = await run()
  expect(code).toBe(1)
  expect(err).toContain('Tenants that have one: 2\nPROVIDER  TENANTS\nslack     2\nacme      1\n')
  expect(err).toContain('Tenants in service that can have records in Postgres: 1\n')
  expect(err).not.toContain('card')
})

test('latchkey migrate --check-rollback: names at most 20 tenants and counts the others', async () => {
  for (let at = 0; at < 23; at += 1) await addTenant(`shop-${at}`, 'postgres')
  const { err } = await run()
  expect(err.match(/^shops\//gm)).toHaveLength(20)
  expect(err).toContain('\nand 3 more\n')
})

test('latchkey migrate --check-rollback: rejects arguments', async () => {
  expect(await run('now')).toMatchObject({ code: 2, out: '' })
})

test('latchkey migrate --check-rollback: the error names the cause if the database, its schema or a setting is missing', async () => {
  const check = (url: string) => latchkey(['migrate', '--check-rollback'], { LATCHKEY_DATABASE_URL: url })
  const missing = await check('')
  expect(missing.code).toBe(2)
  expect(missing.err).toContain('LATCHKEY_DATABASE_URL is missing')
  const away = await check('postgres://u:hidden@127.0.0.1:9/x')
  expect(away.code).toBe(1)
  expect(away.err).toMatch(/^The command failed: .*ECONNREFUSED/)
  expect(away.err).not.toContain('hidden')
  const empty = await createTestDatabase()
  const { code, err } = await check(empty.url)
  await empty.drop()
  expect(code).toBe(1)
  expect(err).toContain('run latchkey migrate first')
})
