import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool, withTx } from '#internal/storage/index.ts'
import { openTenants, type TestTenants, tenantYaml } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { Directory } from './directory.ts'
import type { RecordStoreOfTenant } from './directory-codec.ts'
import type { RecordDurability } from './model.ts'
import { endMove, listMovedTenants, lockRecordDefault, moveRecordStores } from './record-stores.ts'

let database: TestDatabase
let pool: Pool
let tenants: TestTenants
beforeAll(async () => {
  const { redisUrl } = await testStores()
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  tenants = await openTenants(database.url, redisUrl)
}, 30_000)
afterAll(async () => {
  await tenants.close()
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query(`TRUNCATE tenants, api_keys, tenant_secrets, slug_reservations, settings`)
})

/** Applies tenants with the durability of their spec; null for one that leaves it to the platform. */
async function apply(of: Readonly<Record<string, RecordDurability | null>>): Promise<void> {
  const manifests = Object.entries(of).map(([name, durability]) => {
    const spec = durability === null ? [] : [`records: {durability: ${durability}}`]
    return tenantYaml(name, `lk_${name}_0123456789abcdef0123456789abcdef`, spec)
  })
  await tenants.apply(manifests.join(''))
}

async function setDefault(durability: RecordDurability): Promise<void> {
  await withTx(pool, async (client) => {
    await client.query('SELECT FROM settings_version FOR UPDATE')
    await client.query(
      `INSERT INTO settings VALUES ('', 'records.durability', $1, 1, now(), 'test')
       ON CONFLICT (tenant_id, name) DO UPDATE SET value = excluded.value`,
      [JSON.stringify(durability)],
    )
    await moveRecordStores(client)
  })
}

/** Returns where the records of tenants are, as a new directory has it. */
async function shown(): Promise<Record<string, RecordStoreOfTenant>> {
  const ignore = () => undefined
  const directory = new Directory({
    pool,
    clock: { now: () => Date.now() },
    log: { info: ignore, warn: ignore, error: ignore },
  })
  await directory.start()
  const found = ['own', 'open', 'other'].flatMap((slug) => {
    const tenant = directory.findTenantBySlug(slug)
    return tenant ? [[slug, tenant.recordStore] as const] : []
  })
  await directory.stop()
  return Object.fromEntries(found)
}

const inRedis: RecordStoreOfTenant = { current: 'redis', before: null, generation: 0, fence: 0 }
const startedInPostgres: RecordStoreOfTenant = { current: 'postgres', before: null, generation: 1, fence: 0 }
const movedToPostgres: RecordStoreOfTenant = { ...startedInPostgres, before: 'redis' }

test('record store: a new tenant starts in the store that its `durability` names, and has no earlier store', async () => {
  await apply({ own: 'postgres', open: null })
  expect(await shown()).toEqual({ own: startedInPostgres, open: inRedis })
  await setDefault('postgres')
  await apply({ own: 'postgres', open: null, other: null })
  expect((await shown())['other']).toEqual(startedInPostgres)
})

test('record store: a change of the spec moves the tenant, and each further change increments the generation', async () => {
  await apply({ own: 'redis' })
  await apply({ own: 'postgres' })
  expect(await shown()).toEqual({ own: movedToPostgres })
  await apply({ own: 'postgres', open: null })
  expect((await shown())['own']).toEqual(movedToPostgres)
  await apply({ own: null })
  expect(await shown()).toEqual({ own: { current: 'redis', before: 'postgres', generation: 2, fence: 0 } })
})

test('record store: a change of the default moves all tenants that do not set their own durability', async () => {
  await apply({ own: 'redis', open: null, other: 'postgres' })
  await setDefault('postgres')
  expect(await shown()).toEqual({ own: inRedis, open: movedToPostgres, other: startedInPostgres })
  await setDefault('postgres')
  expect((await shown())['open']).toEqual(movedToPostgres)
})

/** Resolves once a statement in the database waits for a lock. */
const untilBlocked = () =>
  until('a statement waits for a lock', async () => {
    const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    return (await pool.query(text)).rowCount === 1
  })

test('record store: a tenant that is created while the default changes starts with the new default', async () => {
  const { created } = await withTx(pool, async (client) => {
    await client.query('SELECT FROM settings_version FOR UPDATE')
    await client.query(
      `INSERT INTO settings VALUES ('', 'records.durability', '"postgres"', 1, now(), 'test')`,
    )
    await moveRecordStores(client)
    const creation = apply({ open: null })
    await Promise.race([creation, untilBlocked()])
    return { created: creation }
  })
  await created
  expect(await shown()).toEqual({ open: startedInPostgres })
})

test('record store: a change of the default waits for a tenant that is being created, and then moves this tenant', async () => {
  await apply({ open: null })
  await pool.query("UPDATE tenants SET record_store = 'postgres'")
  const { changed } = await withTx(pool, async (client) => {
    await lockRecordDefault(client)
    await client.query("UPDATE tenants SET record_store = 'redis'")
    const change = setDefault('postgres')
    await untilBlocked()
    return { changed: change }
  })
  await changed
  expect(await shown()).toEqual({ open: movedToPostgres })
})

test('record store: a running directory is notified of a change of the default', async () => {
  await apply({ open: null })
  const ignore = () => undefined
  const log = { info: ignore, warn: ignore, error: ignore }
  const directory = new Directory({ pool, clock: { now: () => Date.now() }, log })
  await directory.start()
  await setDefault('postgres')
  directory.notify()
  const seen = await poll(
    async () => directory.findTenantBySlug('open')?.recordStore.current === 'postgres' || undefined,
    { deadlineMs: 5000 },
  )
  await directory.stop()
  expect(seen).toBe(true)
})

test('record store: a deleted tenant does not move', async () => {
  await apply({ open: null })
  await apply({})
  await setDefault('postgres')
  const { rows } = await pool.query(
    'SELECT record_store AS current, record_store_generation AS generation FROM tenants',
  )
  expect(rows).toEqual([{ current: 'redis', generation: 0 }])
  expect(await listMovedTenants(pool, 0)).toEqual([])
})

test('record store: the end of a move is published, keeps the highest fence and does not end a later move', async () => {
  await apply({ own: 'redis' })
  await apply({ own: 'postgres' })
  expect(await listMovedTenants(pool, 60_000)).toEqual([])
  const [moved] = await listMovedTenants(pool, 0)
  if (!moved) throw new Error('no tenant has moved')
  await endMove(pool, moved, 7)
  expect(await shown()).toEqual({ own: { ...startedInPostgres, fence: 7 } })
  await apply({ own: 'redis' })
  await endMove(pool, moved, 9)
  expect((await shown())['own']).toMatchObject({ before: 'postgres', generation: 2 })
  const [back] = await listMovedTenants(pool, 0)
  if (back) await endMove(pool, back, 5)
  expect(await shown()).toEqual({ own: { current: 'redis', before: null, generation: 2, fence: 7 } })
})
