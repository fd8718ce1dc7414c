import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { migrate, schemaVersion, schemaVersionNeeded } from './migrate.ts'
import { type Migration, migrations } from './migrations/list.ts'
import { createPool, type Pool } from './pool.ts'

const silent = { info: () => {}, warn: () => {} }
const open: Pool[] = []

function poolOf(url: string, applicationName = 'test'): Pool {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 2_000, connectTimeoutMs: 2_000 }
  const pool = createPool({ url, applicationName, ...bounds })
  open.push(pool)
  return pool
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((pool) => pool.end()))
})

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(async () => {
  await database.drop()
})

const step = (version: number, sql: string): Migration => ({ version, name: `step ${version}`, sql })
const first = step(1, 'CREATE TABLE one (n int); INSERT INTO one VALUES (1)')

test('migrate: migrates an empty database to the latest version, and does nothing on the second call', async () => {
  const pool = poolOf(database.url)
  expect(await schemaVersion(pool)).toBe(0)
  const both = [first, step(2, 'CREATE TABLE two (n int)')]
  const options = { log: silent, migrations: both }
  const results = await Promise.all([migrate(pool, options), migrate(poolOf(database.url), options)])
  expect(results.map(({ versionBefore }) => versionBefore).sort()).toEqual([0, 2])
  expect(await schemaVersion(pool)).toBe(2)
  expect((await pool.query('SELECT n FROM one')).rows).toEqual([{ n: 1 }])
})

test('migrate: refuses a database in which the text of an applied step differs', async () => {
  const changed = [step(1, 'CREATE TABLE other (n int)')]
  await expect(migrate(poolOf(database.url), { log: silent, migrations: changed })).rejects.toThrow(
    'a different text',
  )
})

test('migrate: leaves a newer database unchanged', async () => {
  const warnings: object[] = []
  const log = { info: () => {}, warn: (fields: object) => warnings.push(fields) }
  const result = await migrate(poolOf(database.url), { log, migrations: [first] })
  expect(result).toEqual({ versionBefore: 2, versionAfter: 2 })
  expect(warnings).toEqual([{ version: 2, known: 1 }])
})

test('migrate: rolls back a failed step and releases the lock', async () => {
  const pool = poolOf(database.url)
  const steps = [
    first,
    step(2, 'CREATE TABLE two (n int)'),
    step(3, 'CREATE TABLE three (n int); SELECT 1/0'),
  ]
  await expect(migrate(pool, { log: silent, migrations: steps })).rejects.toThrow('division by zero')
  expect(await schemaVersion(pool)).toBe(2)
  const mended = [...steps.slice(0, 2), step(3, 'CREATE TABLE three (n int)')]
  expect((await migrate(pool, { log: silent, migrations: mended })).versionAfter).toBe(3)
})

test('migrate: fails after its time limit while another process holds the lock', async () => {
  const pool = poolOf(database.url)
  const begun = Promise.withResolvers<void>()
  const sleeper = step(4, 'SELECT pg_sleep(30)')
  const known = [first, step(2, 'CREATE TABLE two (n int)'), step(3, 'CREATE TABLE three (n int)')]
  const holder = poolOf(database.url, 'holder')
  const holding = migrate(holder, { log: silent, migrations: [...known, sleeper] }).catch(() =>
    begun.resolve(),
  )
  await until('the first migration runs', async () => (await activity(pool, 'holder', 'pg_sleep')) > 0)
  await expect(migrate(pool, { log: silent, migrations: known, lockTimeoutMs: 50 })).rejects.toThrow(
    'lock timeout',
  )
  await pool.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holder'`)
  await holding
  await begun.promise
})

test('migrate: does not block queries while a migration step waits for a table in use', async () => {
  const waits = Promise.withResolvers<void>()
  const log = { info: () => {}, warn: () => waits.resolve() }
  const known = [first, step(2, 'CREATE TABLE two (n int)'), step(3, 'CREATE TABLE three (n int)')]
  const pool = poolOf(database.url)
  const user = await pool.connect()
  await user.query('BEGIN; LOCK TABLE one IN ACCESS SHARE MODE')
  const migrations = [...known, step(4, 'ALTER TABLE one ADD COLUMN more int')]
  const migrated = migrate(poolOf(database.url), { log, migrations })
  await waits.promise
  expect((await pool.query('SELECT n FROM one')).rows).toEqual([{ n: 1 }])
  await user.query('COMMIT')
  user.release()
  expect((await migrated).versionAfter).toBe(4)
})

test('migrations: have versions that start at 1 and have no gaps', () => {
  expect(migrations.map(({ version }) => version)).toEqual(migrations.map((_, index) => index + 1))
  expect(schemaVersionNeeded).toBe(migrations.length)
})

test('migrated database: has the schema version that this build needs', async () => {
  const migrated = await createMigratedDatabase()
  const pool = poolOf(migrated.url)
  expect(await schemaVersion(pool)).toBe(schemaVersionNeeded)
  await Promise.all(open.splice(0).map((each) => each.end()))
  await migrated.drop()
})

async function activity(pool: Pool, application: string, text: string): Promise<number> {
  const { rowCount } = await pool.query(
    'SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND query LIKE $2',
    [application, `%${text}%`],
  )
  return rowCount ?? 0
}
