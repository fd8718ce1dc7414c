import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tenantData } from '#cmd/serving/tenant-data.ts'
import { poll } from '#internal/dev/index.ts'
import { createPool, openRedis, type Pool, type RedisConnection, withTx } from '#internal/storage/index.ts'
import { createHealth, type Health } from '#internal/telemetry/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'
import { Directory, directoryChannel, notifyDirectories } from './directory.ts'
import { FolderSource } from './folder/folder-source.ts'
import { parseKeyRing } from './key-ring.ts'
import { parseTenant } from './parse-tenant.ts'
import { TenantController } from './reconcile/tenant-controller.ts'
import { publishTenant, upsertTenant } from './reconcile/tenant-writes.ts'
import { tenantIdOfUid } from './tenant-object.ts'

let database: TestDatabase
let pool: Pool
/** Pool of the component under test. */
let watched: Pool
let nowMs: number
let health: Health
const clock = { now: () => nowMs }
const quiet = () => undefined
const log = { info: quiet, warn: quiet, error: quiet }
const applicationName = 'watched'

beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  watched = createPool({ url: database.url, applicationName, ...bounds })
})
afterAll(async () => {
  await Promise.all([pool.end(), watched.end()])
  await database.drop()
})
beforeEach(() => {
  nowMs = 0
  health = createHealth({ clock })
})

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const met = await poll(async () => (await condition()) || undefined, { deadlineMs: 10_000 })
  if (met === undefined) throw new Error(`not within 10 s: ${what}`)
}

/** Runs `work` while a statement of the watched pool waits for a lock of the table. */
async function whileStuck(table: string, work: () => void): Promise<void> {
  await withTx(pool, async (client) => {
    await client.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
    await until('a reader that waits', async () => {
      const { rowCount } = await client.query(
        `SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
        [applicationName],
      )
      return rowCount === 1
    })
    work()
  })
}

test('tenant directory: a read that hangs fails liveness until a read succeeds', async () => {
  const directory = new Directory({ pool: watched, clock, log, health, pollMs: 5 })
  await directory.start()
  expect(health.liveness().checks).toMatchObject([{ name: 'tenant directory', ok: true }])
  await whileStuck('directory_version', () => {
    nowMs += 120_000
    expect(health.liveness().ok).toBe(false)
  })
  await until('a look', () => health.liveness().ok)
  await directory.stop()
  expect(health.liveness().checks).toEqual([])
})

test('tenant controller: a sweep that hangs fails liveness until a sweep succeeds', async () => {
  const ring = parseKeyRing(`a:${Buffer.alloc(32, 1).toString('base64')}`)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  const dir = mkdtempSync(join(tmpdir(), 'latchkey-liveness-'))
  const source = new FolderSource({ tenantsDir: dir, secretsDir: dir, log })
  const controller = new TenantController({
    callbackBounds: { cidrsMax: [], ports: [] },
    source,
    data: tenantData,
    pool: watched,
    keyRing: ring.keyRing,
    clock,
    log,
    health,
    actor: 'test',
    random: randomBytes,
    onChanged: async () => {},
    onPurge: async () => {},
    sweepMs: 5,
  })
  await controller.start()
  const sweepIsOk = () => health.liveness().checks.find(({ name }) => name === 'sweep of tenants')?.ok
  expect(sweepIsOk()).toBe(true)
  await whileStuck('tenants', () => {
    nowMs += 700_000
    expect(sweepIsOk()).toBe(false)
  })
  await until('a sweep', () => sweepIsOk() === true)
  await controller.stop()
  expect(health.liveness().checks).toEqual([])
  rmSync(dir, { recursive: true })
})

test('tenant directory: a notification over Redis causes a read immediately', async () => {
  const { redisUrl } = await testStores()
  const [writer, reader] = [0, 1].map(() => openRedis({ url: redisUrl, onError: quiet })) as [
    RedisConnection,
    RedisConnection,
  ]
  const directory = new Directory({ pool: watched, clock, log, pollMs: 3_600_000 })
  await directory.start()
  await until('the subscription', () =>
    reader
      .subscribe(directoryChannel, () => directory.notify())
      .then(
        () => true,
        () => false,
      ),
  )
  await putTenant('one')
  await until('an open connection', () =>
    notifyDirectories(writer).then(
      () => true,
      () => false,
    ),
  )
  await until('the tenant', () => directory.findTenantBySlug('one') !== undefined)
  await directory.stop()
  await Promise.all([writer.close(), reader.close()])
})

async function putTenant(name: string): Promise<void> {
  const parsed = parseTenant({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name },
    spec: { slug: name, callback: { url: 'https://hooks.example/' } },
  })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  const named = { id: tenantIdOfUid(name), uid: name, namespace: 'shops', name, slug: name }
  const row = { ...named, suspended: false, spec: parsed.tenant.spec, resourceCreatedAtMs: 0 }
  await withTx(pool, async (client) => {
    await upsertTenant(client, row, { nowMs: 0, conditions: [] })
    await publishTenant(client, row.id)
  })
}
