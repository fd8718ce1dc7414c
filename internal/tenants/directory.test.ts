import { heapStats } from 'bun:jsc'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool, withTx } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { directoryTenant } from '#test/support/tenants/directory-tenant.ts'
import { Directory, type DirectoryOptions } from './directory.ts'
import { type KeyRing, openTenantSecrets, parseKeyRing } from './key-ring.ts'
import type { TenantSpec } from './model.ts'
import { parseTenant } from './parse-tenant.ts'
import type { StoredKey } from './reconcile/gather-tenant.ts'
import { hashApiKey } from './reconcile/plan-keys.ts'
import type { SecretToPut } from './reconcile/plan-secrets.ts'
import type { TenantPlan, TenantRow } from './reconcile/plan-tenant.ts'
import {
  hideTenant,
  publishTenant,
  raiseDirectoryVersion,
  upsertTenant,
  writeKeys,
  writeSecrets,
} from './reconcile/tenant-writes.ts'
import { tenantIdOfUid } from './tenant-object.ts'

let database: TestDatabase
let pool: Pool
let directories: Directory[]
let pools: Pool[]
let logged: { level: string; fields: object }[]
let nowMs: number
const clock = { now: () => nowMs }

beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = openPool()
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE tenants, api_keys, tenant_secrets, slug_reservations')
  directories = []
  pools = []
  logged = []
  nowMs = Date.parse('2026-11-01T00:00:00Z')
})
afterEach(async () => {
  await Promise.all(directories.map((directory) => directory.stop()))
  await Promise.all(pools.map((one) => one.end()))
})

function openPool(url = database.url): Pool {
  const bounds = { connectionsMax: 4, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  return createPool({ url, applicationName: 'test', ...bounds })
}

function directoryOf(fields: Partial<DirectoryOptions> = {}): Directory {
  const note = (level: string) => (noted: object) => {
    logged.push({ level, fields: noted })
  }
  const log = { info: note('info'), warn: note('warn'), error: note('error') }
  const directory = new Directory({ pool, clock, log, ...fields })
  directories.push(directory)
  return directory
}

function specOf(slug: string, more: object = {}): TenantSpec {
  const callback = { url: 'https://hooks.example/' }
  const metadata = { name: slug }
  const spec = { slug, callback, limits: { locksPerMinute: { hard: 60 } }, ...more }
  const parsed = parseTenant({ apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', metadata, spec })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.tenant.spec
}

interface Put {
  readonly slug?: string | null
  readonly suspended?: boolean
  readonly keys?: readonly Partial<StoredKey>[]
  readonly spec?: object
  readonly secrets?: readonly SecretToPut[]
}

const keyRing = ringOf('test', 7)

function ringOf(id: string, byte: number): KeyRing {
  const parsed = parseKeyRing(`${id}:${Buffer.alloc(32, byte).toString('base64')}`)
  if (parsed.kind === 'invalid') throw new Error(parsed.message)
  return parsed.keyRing
}

const idOf = (name: string) => tenantIdOfUid(`uid-${name}`)
const keyOf = (name: string) => `lk_${name.padEnd(40, '0')}`
const base64Of = (key: string) => createHash('sha256').update(key).digest('base64')

/** Writes a tenant as the reconciler would, without the parts that a directory does not read. */
async function put(
  name: string,
  { slug = name, suspended = false, keys = [{}], spec = {}, secrets = [] }: Put = {},
): Promise<void> {
  const row: TenantRow = {
    id: idOf(name),
    uid: `uid-${name}`,
    namespace: 'shops',
    name,
    slug,
    suspended,
    spec: specOf(name, spec),
    resourceCreatedAtMs: 0,
  }
  const whole = keys.map((key): StoredKey => {
    const sha256Hex = hashApiKey(keyOf(name))
    return {
      sha256Hex,
      prefix: keyOf(name).slice(0, 11),
      name: 'default',
      scopes: ['records', 'webhooks'],
      expiresAtMs: null,
      endsAtMs: null,
      ...key,
    }
  })
  const plan: TenantPlan = {
    tenantId: row.id,
    generate: [],
    row,
    rowChange: 'changed',
    keys: { put: whole, remove: [] },
    secrets: { put: secrets, remove: [] },
    conditions: [],
    conditionsChanged: false,
    warnings: [],
  }
  await withTx(pool, async (client) => {
    await upsertTenant(client, row, { nowMs, conditions: [] })
    await publishTenant(client, row.id)
    await writeKeys(client, plan, nowMs)
    await writeSecrets(client, plan, keyRing)
  })
}

async function remove(name: string): Promise<void> {
  await withTx(pool, async (client) => {
    const tenant = { id: idOf(name), uid: `uid-${name}`, namespace: 'shops', name, slug: name }
    await hideTenant(client, tenant, { nowMs, keepData: false })
    await publishTenant(client, tenant.id)
  })
}

/** Waits for a condition and gives how long that took, in ms. */
async function until(condition: () => boolean): Promise<number> {
  const startedAtMs = performance.now()
  const met = await poll(async () => condition() || undefined, { deadlineMs: 10_000 })
  if (met === undefined) throw new Error('the condition did not come true within 10 s')
  return performance.now() - startedAtMs
}

describe('snapshot', () => {
  test('directory: finds tenants by key, id and slug', async () => {
    await put('one')
    const directory = directoryOf()
    expect(directory.hasSnapshot()).toBe(false)
    expect(directory.ageMs(nowMs)).toBe(Number.POSITIVE_INFINITY)
    await directory.start()
    expect(directory.hasSnapshot()).toBe(true)
    const tenant = directoryTenant({
      id: idOf('one'),
      name: 'one',
      slug: 'one',
      limits: { locksPerMinute: { hard: 60 } },
      retention: {},
    })
    expect(directory.findTenantById(idOf('one'))).toEqual(tenant)
    expect(directory.findTenantBySlug('one')).toEqual(tenant)
    const found = directory.findKey(base64Of(keyOf('one')))
    expect(found?.tenant).toEqual(tenant)
    expect(found?.key).toEqual({
      name: 'default',
      scopes: new Set(['records', 'webhooks']),
      expiresAtMs: null,
    })
    expect(directory.findKey(base64Of(keyOf('other')))).toBeUndefined()
    expect(directory.findTenantBySlug('other')).toBeUndefined()
    expect(directory.findTenantById(idOf('other'))).toBeUndefined()
  })

  test('directory: a snapshot that is read in small pages is complete', async () => {
    const names = ['a', 'b', 'c', 'd', 'e']
    for (const name of names) await put(name)
    const directory = directoryOf({ pageRows: 2 })
    await directory.start()
    expect(names.map((name) => directory.findTenantBySlug(name)?.name)).toEqual(names)
  })

  test('directory: a tenant without a slug is not found by slug or by key', async () => {
    await put('one', { slug: null })
    const directory = directoryOf()
    await directory.start()
    expect(directory.findTenantById(idOf('one'))?.slug).toBeNull()
    expect(directory.findTenantBySlug('one')).toBeUndefined()
    expect(directory.findKey(base64Of(keyOf('one')))).toBeUndefined()
  })
})

describe('ended keys', () => {
  test.each<[string, Partial<StoredKey>]>([
    ['expired', { expiresAtMs: 1_000 }],
    ['rotated out and past its overlap', { endsAtMs: 1_000 }],
    ['past the earlier of both', { endsAtMs: 1_000, expiresAtMs: 2_000 }],
  ])('directory: does not find a key that is %s', async (_case, key) => {
    await put('one', { keys: [key] })
    const directory = directoryOf()
    await directory.start()
    nowMs = 999
    expect(directory.findKey(base64Of(keyOf('one')))?.key.expiresAtMs).toBe(1_000)
    nowMs = 1_000
    expect(directory.findKey(base64Of(keyOf('one')))).toBeUndefined()
  })
})

describe('changes', () => {
  test('directory: polling discovers a change within 2 s', async () => {
    const directory = directoryOf()
    await directory.start()
    await put('one')
    const tookMs = await until(() => directory.findTenantBySlug('one') !== undefined)
    expect(tookMs).toBeLessThan(2_000)
  })

  test('directory: `notify` causes a read immediately, even while another read is running', async () => {
    const directory = directoryOf({ pollMs: 3_600_000 })
    await directory.start()
    for (const name of ['a', 'b', 'c']) {
      directory.notify()
      await put(name)
      directory.notify()
      await until(() => directory.findTenantBySlug(name) !== undefined)
    }
  })

  test('directory: applies every kind of change', async () => {
    const directory = directoryOf({ pollMs: 5, pageRows: 1 })
    for (const name of ['one', 'two', 'three']) await put(name)
    await directory.start()
    await put('one', { suspended: true })
    await until(() => directory.findTenantBySlug('one')?.suspended === true)
    await remove('two')
    await until(() => directory.findTenantBySlug('two') === undefined)
    expect(directory.findKey(base64Of(keyOf('two')))).toBeUndefined()
    expect(directory.findTenantById(idOf('two'))).toBeUndefined()
    await pool.query('DELETE FROM api_keys WHERE tenant_id = $1', [idOf('three')])
    await put('three', { keys: [] })
    await until(() => directory.findKey(base64Of(keyOf('three'))) === undefined)
    expect(directory.stats()).toEqual({ tenants: 2, keys: 1, overfull: false })
  })

  test('directory: a key that moved to another tenant is found with that tenant', async () => {
    const directory = directoryOf({ pollMs: 5 })
    await put('one')
    await put('two', { keys: [] })
    await directory.start()
    await pool.query('DELETE FROM api_keys')
    await put('two', { keys: [{ sha256Hex: hashApiKey(keyOf('one')) }] })
    await until(() => directory.findKey(base64Of(keyOf('one')))?.tenant.name === 'two')
    await put('one', { keys: [] })
    await put('last')
    await until(() => directory.findTenantBySlug('last') !== undefined)
    expect(directory.findKey(base64Of(keyOf('one')))?.tenant.name).toBe('two')
  })

  test('directory: a transaction that commits late is not skipped', async () => {
    const directory = directoryOf({ pollMs: 5 })
    await directory.start()
    const [begun, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    await put('slow')
    const slow = withTx(pool, async (client) => {
      const version = await raiseDirectoryVersion(client)
      await client.query('UPDATE tenants SET suspended = true, version = $1 WHERE name = $2', [
        version,
        'slow',
      ])
      begun.resolve()
      await finish.promise
    })
    await begun.promise
    const fast = put('fast')
    finish.resolve()
    await Promise.all([slow, fast])
    await until(() => directory.findTenantBySlug('fast') !== undefined)
    expect(directory.findTenantBySlug('slow')?.suspended).toBe(true)
  })

  test('directory: a version lower than before, for example after a database restore, causes a complete read', async () => {
    const directory = directoryOf({ pollMs: 5 })
    await put('one')
    await put('two')
    await directory.start()
    await pool.query('DELETE FROM api_keys; DELETE FROM tenants')
    await pool.query('UPDATE directory_version SET version = 0')
    await until(() => directory.stats().tenants === 0)
    expect(directory.findTenantBySlug('one')).toBeUndefined()
  })
})

describe('without Postgres', () => {
  test('directory without Postgres: has no snapshot, and reads a snapshot when Postgres becomes available', async () => {
    await put('one')
    await postgresBack(false)
    const directory = directoryOf({ pool: ownPool() })
    await directory.start()
    expect(directory.hasSnapshot()).toBe(false)
    expect(directory.findKey(base64Of(keyOf('one')))).toBeUndefined()
    expect(logged.map(({ level }) => level)).toContain('warn')
    await postgresBack(true)
    expect(await until(() => directory.hasSnapshot())).toBeLessThan(2_500)
    expect(directory.findTenantBySlug('one')?.name).toBe('one')
  })

  test('directory without Postgres: keeps its contents while its age increases, and catches up afterwards', async () => {
    await put('one')
    const directory = directoryOf({ pool: ownPool(), pollMs: 5 })
    await directory.start()
    await postgresBack(false)
    await until(() => logged.some(({ level }) => level === 'warn'))
    nowMs += 60_000
    expect(directory.ageMs(nowMs)).toBe(60_000)
    expect(directory.findKey(base64Of(keyOf('one')))?.tenant.name).toBe('one')
    expect(directory.findTenantBySlug('one')?.name).toBe('one')
    await put('two')
    await postgresBack(true)
    await until(() => directory.findTenantBySlug('two') !== undefined)
    // Waits until the read is complete, since it reads declarations after tenants.
    await until(() => directory.ageMs(nowMs) === 0)
  })

  test('directory without Postgres: stop does not wait for Postgres', async () => {
    await postgresBack(false)
    const directory = directoryOf({ pool: ownPool() })
    await directory.start()
    await directory.stop()
    expect(directory.hasSnapshot()).toBe(false)
    await postgresBack(true)
  })
})

function ownPool(): Pool {
  const one = openPool()
  pools.push(one)
  return one
}

/** Lets Postgres refuse this database and drop its connections but those of `pool`, as if it were unavailable to others. */
async function postgresBack(back: boolean): Promise<void> {
  const url = new URL(database.url)
  const name = url.pathname.slice(1)
  // Keeps this open connection of `pool`, so that the tests can change rows while the database refuses new connections.
  const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  url.pathname = '/postgres'
  const admin = openPool(url.href)
  await admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS ${back}`)
  const others = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2'
  if (!back) await admin.query(others, [name, rows[0]?.pid])
  await admin.end()
}

describe('callbacks and secrets', () => {
  const secretOf = (field: string, ordinal: number, value: string): SecretToPut => {
    return { field, ordinal, value, sourceName: 's', sourceVersion: '1', createdAtMs: nowMs }
  }

  test('directory: contains each tenant’s callback, wallet stage and enabled providers', async () => {
    const providers = [
      { name: 'stripe', secretRef: { name: 's' } },
      { name: 'github', secretRef: { name: 's' }, enabled: false },
      { name: 'shopify', secretRef: { name: 's' }, storefront: { shopDomain: 'a.example' } },
    ]
    await put('one', {
      spec: { providers, retention: { payloadDays: 3, eventDays: 7 }, redaction: { fields: ['iban'] } },
    })
    const directory = directoryOf()
    await directory.start()
    expect(directory.findTenantBySlug('one')).toMatchObject({
      callback: { url: 'https://hooks.example/', rules: { timeoutSeconds: 15 } },
      providers: [{ name: 'card' }, { name: 'storefront', storefront: { shopDomain: 'a.example' } }],
      retention: { payloadDays: 3, eventDays: 7 },
      walletStage: 'off',
      redactedFields: ['iban'],
    })
  })

  test('directory: valid secrets are decrypted in order and only with their key ring, and are never stored in plain text', async () => {
    const secrets = [
      secretOf('provider:card', 1, 'second'),
      secretOf('provider:card', 0, 'x'.repeat(400)),
      secretOf('callback', 0, 'third'),
    ]
    await put('one', { secrets })
    const directory = directoryOf()
    await directory.start()
    const tenant = directory.findTenantById(idOf('one'))
    if (!tenant) throw new Error('the tenant is missing')
    const opened = openTenantSecrets(keyRing, tenant, 'provider:card')
    expect(opened).toEqual({ values: ['x'.repeat(400), 'second'], unreadableKeyIds: [] })
    expect(openTenantSecrets(keyRing, tenant, 'callback').values).toEqual(['third'])
    expect(openTenantSecrets(ringOf('other', 7), tenant, 'callback')).toEqual({
      values: [],
      unreadableKeyIds: ['test'],
    })
    expect(openTenantSecrets(ringOf('test', 8), tenant, 'callback')).toEqual({
      values: [],
      unreadableKeyIds: ['test'],
    })
    expect(JSON.stringify(tenant)).not.toContain('third')
  })
})

test('directory: a tenant without a callback is read without a callback', async () => {
  await put('one', { spec: { callback: undefined } })
  await put('two')
  const directory = directoryOf()
  await directory.start()
  expect(directory.findTenantBySlug('one')?.callback).toBeUndefined()
  expect(directory.findTenantBySlug('two')?.callback).toMatchObject({ url: 'https://hooks.example/' })
})

describe('size', () => {
  /** Rows as the reconciler writes them, made by the database since 10 000 transactions would take long. */
  async function seed(count: number): Promise<void> {
    await pool.query(
      `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
       SELECT 'ten_' || translate(lpad(n::text, 26, '0'), 'ilou', ''), n::text, 'namespace-of-the-shops', 'tenant-number-' || n,
         'slug-number-' || n, false, $2, 0, now(), now(), now() FROM generate_series(1, $1::int) n`,
      [count, specOf('any')],
    )
    await pool.query(
      `INSERT INTO api_keys (sha256, tenant_id, name, scopes, created_at, prefix)
       SELECT sha256((id || k)::bytea), id, 'key-' || k, '{records,webhooks}', now(), 'lk_12345678' FROM tenants, generate_series(1, 2) k`,
    )
  }

  test('directory: a tenant with two keys needs less than 1.5 KB of memory on average over 10 000 tenants', async () => {
    await seed(10_000)
    const directory = directoryOf({ pollMs: 3_600_000 })
    const before = heapBytes()
    await directory.start()
    const bytesPerTenant = (heapBytes() - before) / 10_000
    expect(directory.stats()).toEqual({ tenants: 10_000, keys: 20_000, overfull: false })
    expect(bytesPerTenant).toBeLessThan(1_536)
  }, 10_000)

  test('directory: tenants beyond `tenantsMax` are not served, cause an error log, and are added when another tenant is removed', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await put(name)
    const directory = directoryOf({ tenantsMax: 3, pollMs: 5, pageRows: 2 })
    await directory.start()
    expect(directory.stats()).toMatchObject({ tenants: 3, overfull: true })
    expect(logged.filter(({ level }) => level === 'error')).toMatchObject([{ fields: { tenantsMax: 3 } }])
    const held = ['a', 'b', 'c', 'd'].find((name) => directory.findTenantBySlug(name) !== undefined)
    await remove(held ?? '')
    await until(() => !directory.stats().overfull)
    expect(directory.stats().tenants).toBe(3)
  })
})

function heapBytes(): number {
  Bun.gc(true)
  Bun.gc(true)
  return heapStats().heapSize
}
