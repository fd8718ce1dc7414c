import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tenantData } from '#cmd/serving/tenant-data.ts'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { FolderSource } from '../folder/folder-source.ts'
import { type KeyRing, parseKeyRing } from '../key-ring.ts'
import { parseTenantObject, tenantIdOfUid } from '../tenant-object.ts'
import type { TenantManifest } from '../tenant-source.ts'
import { type ApplyContext, applyPlan, removeTenant } from './apply-plan.ts'
import type { ConditionType } from './conditions.ts'
import { gatherTenant } from './gather-tenant.ts'
import { hashApiKey } from './plan-keys.ts'
import { planTenant, type TenantPlan } from './plan-tenant.ts'
import { TenantController } from './tenant-controller.ts'
import { slugReservedMs } from './tenant-writes.ts'

let database: TestDatabase
let pool: Pool
let root: string
let source: FolderSource
let nowMs: number
let logged: { level: string; fields: object; message: string }[]
const clock = { now: () => nowMs }
const day = 86_400_000

beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = openPool()
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query(
    'TRUNCATE tenants, api_keys, tenant_secrets, slug_reservations, audit, usage_hourly, record_epochs, writer_fence',
  )
  root = mkdtempSync(join(tmpdir(), 'latchkey-reconcile-'))
  mkdirSync(join(root, 'tenants'))
  nowMs = Date.parse('2026-11-01T00:00:00Z')
  logged = []
  source = openFolder()
})
afterEach(() => rmSync(root, { recursive: true }))

function openPool(url = database.url): Pool {
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  return createPool({ url, applicationName: 'test', ...bounds })
}

function ringOf(text: string): KeyRing {
  const parsed = parseKeyRing(text)
  if (parsed.kind === 'invalid') throw new Error(parsed.message)
  return parsed.keyRing
}

const keyText = (seed: string) => createHash('sha256').update(seed).digest('base64')
const keyRing = ringOf(`a:${keyText('a')}`)

const note = (level: string) => (fields: object, message: string) => {
  logged.push({ level, fields, message })
}
const log = { info: note('info'), warn: note('warn'), error: note('error') }

function openFolder(tenantsDir = join(root, 'tenants')): FolderSource {
  return new FolderSource({ tenantsDir, secretsDir: join(root, 'secrets'), log })
}

function controller(
  fields: Partial<ConstructorParameters<typeof TenantController>[0]> = {},
): TenantController {
  const onChanged = async () => {}
  return new TenantController({
    // Allows the same callback addresses as the dev server.
    callbackBounds: { cidrsMax: ['127.0.0.0/8'], ports: 'any' },
    source,
    data: tenantData,
    pool,
    keyRing,
    clock,
    log,
    random: randomBytes,
    actor: 'test',
    onChanged,
    onPurge: async () => {},
    ...fields,
  })
}

let writes = 0
function write(name: string, ...documents: string[]): void {
  writes += 1
  writeFileSync(join(root, 'tenants', name), `# ${'x'.repeat(writes)}\n${documents.join('\n---\n')}\n`)
}

const tenant = (name: string, spec = '', slug = name) => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${name}, namespace: shops}
spec:
  slug: ${slug}
  callback: {url: "https://hooks.example/"}
${spec}`
const secret = (name: string, key: string, value: string) =>
  `{apiVersion: v1, kind: Secret, metadata: {name: ${name}, namespace: shops}, stringData: {${key}: "${value}"}}`

const idOf = (name: string) => tenantIdOfUid(`folder:shops/${name}`)
const withCard = '  providers: [{name: card, secretRef: {name: card}}]'
const withKey = '  apiKeys: [{name: default, scopes: [records]}]'
const brought = (name: string) =>
  `  apiKeys: [{name: default, scopes: [records], secretRef: {name: ${name}}}]`

async function version(): Promise<number> {
  const { rows } = await pool.query<{ version: number }>('SELECT version FROM directory_version')
  return rows[0]?.version ?? Number.NaN
}

async function tenantRow(name: string): Promise<Record<string, unknown> | undefined> {
  const { rows } = await pool.query<Record<string, unknown>>('SELECT * FROM tenants WHERE id = $1', [
    idOf(name),
  ])
  return rows[0]
}

async function keysOf(name: string): Promise<{ sha256Hex: string; endsAtMs: number | null }[]> {
  const { rows } = await pool.query<{ hex: string; ends_at: Date | null }>(
    `SELECT encode(sha256, 'hex') AS hex, ends_at FROM api_keys WHERE tenant_id = $1 ORDER BY created_at, ends_at`,
    [idOf(name)],
  )
  return rows.map(({ hex, ends_at }) => ({ sha256Hex: hex, endsAtMs: ends_at?.getTime() ?? null }))
}

function reasonOf(one: TenantController, name: string, type: ConditionType): string | undefined {
  return one
    .conditions()
    .get(`shops/${name}`)
    ?.find((condition) => condition.type === type)?.reason
}

describe('reconcile', () => {
  test('reconcile: writes a row, encrypted secrets, keys as SHA-256 and generated Secrets', async () => {
    write('a.yaml', tenant('one', `${withCard}\n${withKey}`), secret('card', 'a', 'card-signing-secret'))
    expect(await controller().runOnce()).toEqual({ applied: 1, removed: 0, failed: 0 })
    expect(await tenantRow('one')).toMatchObject({
      slug: 'one',
      namespace: 'shops',
      suspended: false,
      deleted_at: null,
    })
    const file = readFileSync(join(root, 'secrets', 'shops.one-key-default.yaml'), 'utf8')
    const key = /apiKey: (lk_[\w-]{43})\n/.exec(file)?.[1] ?? ''
    expect(await keysOf('one')).toEqual([{ sha256Hex: hashApiKey(key), endsAtMs: null }])
    const dump = await pool.query<{ text: string }>(
      `SELECT (SELECT json_agg(t)::text FROM tenants t) || (SELECT json_agg(s)::text FROM tenant_secrets s)
         || (SELECT string_agg(encode(ciphertext, 'escape'), '') FROM tenant_secrets)
         || (SELECT json_agg(a)::text FROM audit a) AS text`,
    )
    for (const hidden of ['card-signing-secret', key, 'whsec_']) {
      expect(dump.rows[0]?.text).not.toContain(hidden)
      expect(JSON.stringify(logged)).not.toContain(hidden)
    }
    const { rows } = await pool.query<{ field: string; key_id: string; nonce: Buffer; ciphertext: Buffer }>(
      `SELECT field, key_id, nonce, ciphertext FROM tenant_secrets WHERE field = 'provider:card'`,
    )
    const [row] = rows
    if (row === undefined) throw new Error('nothing was sealed')
    const sealed = { keyId: row.key_id, nonce: row.nonce, ciphertext: row.ciphertext }
    const opened = keyRing.open({ tenantId: idOf('one'), field: row.field }, sealed)
    expect(opened).toEqual({ kind: 'opened', text: 'card-signing-secret' })
  })

  test('reconcile: a callback that is removed and added again keeps its signing secret', async () => {
    const secretFile = () => readFileSync(join(root, 'secrets', 'shops.one-callback.yaml'), 'utf8')
    const sealed = async () =>
      (await pool.query(`SELECT FROM tenant_secrets WHERE field = 'callback'`)).rowCount
    write('a.yaml', tenant('one'))
    await controller().runOnce()
    const before = secretFile()
    expect([(await tenantRow('one'))?.destinations, await sealed()]).toEqual([['callback'], 1])
    write('a.yaml', tenant('one').replace(/ {2}callback: .*\n/, ''))
    const one = controller()
    await one.runOnce()
    expect([(await tenantRow('one'))?.destinations, await sealed()]).toEqual([[], 0])
    expect([reasonOf(one, 'one', 'CallbackAllowed'), reasonOf(one, 'one', 'Ready')]).toEqual([
      'NoCallback',
      'InForce',
    ])
    write('a.yaml', tenant('one'))
    await controller().runOnce()
    expect([(await tenantRow('one'))?.destinations, await sealed()]).toEqual([['callback'], 1])
    expect(secretFile()).toBe(before)
  })

  test('reconcile: writes nothing without changes, even after a restart', async () => {
    write('a.yaml', tenant('one', `${withCard}\n${withKey}`), secret('card', 'a', 's'), tenant('two'))
    await controller().runOnce()
    const before = await written()
    for (const one of [controller(), controller({ source: openFolder() })]) {
      nowMs += day
      expect(await one.runOnce()).toMatchObject({ applied: 0, removed: 0 })
    }
    expect(await written()).toEqual(before)
  })

  test('reconcile: a change of conditions only does not change the version', async () => {
    write('a.yaml', tenant('one', withCard), secret('card', 'a', 's'))
    await controller().runOnce()
    const before = await version()
    write('a.yaml', tenant('one', withCard))
    const one = controller()
    await one.runOnce()
    expect(await version()).toBe(before)
    expect(JSON.stringify((await tenantRow('one'))?.conditions)).toContain('SecretMissing')
    expect(reasonOf(one, 'one', 'Ready')).toBe('SecretMissing')
  })

  test('reconcile: notifies directories only of changes', async () => {
    let told = 0
    const one = controller({ onChanged: async () => void (told += 1) })
    write('a.yaml', tenant('one'))
    await one.runOnce()
    await one.runOnce()
    expect(told).toBe(1)
  })

  test('reconcile: logs a broken manifest once with file and line, and applies the other manifests', async () => {
    write('a.yaml', tenant('one', '  suspended: hunter2'), tenant('two'))
    const one = controller()
    await one.runOnce()
    await one.runOnce()
    const errors = logged.filter(({ level }) => level === 'error')
    expect(errors).toMatchObject([
      { fields: { file: join(root, 'tenants', 'a.yaml'), line: 8, field: 'spec.suspended' } },
    ])
    expect(await tenantRow('two')).toMatchObject({ slug: 'two' })
    write('a.yaml', tenant('one'), tenant('two'))
    await one.runOnce()
    expect(logged.map(({ message }) => message)).toContain('manifests were fixed')
    expect(JSON.stringify(logged)).not.toContain('hunter2')
  })

  test('reconcile: encrypts secrets again with a new first key, so that the old key can be removed', async () => {
    write('a.yaml', tenant('one', withCard), secret('card', 'a', 's'))
    await controller().runOnce()
    await controller({ keyRing: ringOf(`b:${keyText('b')},a:${keyText('a')}`) }).runOnce()
    const { rows } = await pool.query('SELECT DISTINCT key_id FROM tenant_secrets')
    expect(rows).toEqual([{ key_id: 'b' }])
    const before = await version()
    await controller({ keyRing: ringOf(`b:${keyText('b')}`) }).runOnce()
    expect(await version()).toBe(before)
  })
})

async function manifests(): Promise<TenantManifest[]> {
  await source.refresh()
  return [...source.tenants()].flatMap((object) => {
    const parsed = parseTenantObject(object)
    return parsed.kind === 'ok' ? [parsed.manifest] : []
  })
}

const secretsOf = () => source.secretsOf({}, () => true)

async function planOf(manifest: TenantManifest): Promise<TenantPlan> {
  const callbackBounds = { cidrsMax: [], ports: [] }
  const sources = {
    pool,
    data: tenantData,
    keyRing,
    secrets: secretsOf(),
    random: randomBytes,
    callbackBounds,
  }
  return planTenant(await gatherTenant(sources, manifest), nowMs, randomBytes)
}

/** The version and the transaction id of every row that a reconcile could write. */
async function written(): Promise<unknown> {
  const tables = ['tenants', 'api_keys', 'tenant_secrets', 'audit', 'directory_version', 'slug_reservations']
  const rows = await Promise.all(
    tables.map((table) => pool.query(`SELECT xmin::text FROM ${table} ORDER BY 1`)),
  )
  return [await version(), rows.map((result) => result.rows)]
}

test('reconcile: the sample tenants for developers become Ready', async () => {
  const tenantsDir = join(import.meta.dir, '../../../config/samples/dev')
  source = openFolder(tenantsDir)
  const one = controller()
  expect(await one.runOnce()).toMatchObject({ applied: 4, failed: 0 })
  expect(logged.filter(({ level }) => level !== 'info')).toEqual([])
  const ready = [...one.conditions()].map(([name, [condition]]) => [name, condition?.type, condition?.status])
  expect(ready).toEqual([
    ['demo/corner-shop', 'Ready', 'True'],
    ['demo/demo', 'Ready', 'True'],
    ['examples/shop', 'Ready', 'True'],
    ['examples/events', 'Ready', 'True'],
  ])
  const { rows } = await pool.query<{ slug: string }>(
    'SELECT slug FROM api_keys JOIN tenants ON tenants.id = tenant_id WHERE sha256 = $1',
    [Buffer.from(hashApiKey('lk_demo_0000000000000000000000000000'), 'hex')],
  )
  expect(rows).toEqual([{ slug: 'demo' }])
})

describe('API keys', () => {
  const [a, b] = [`lk_${'a'.repeat(40)}`, `lk_${'b'.repeat(40)}`]

  test('API keys: a replaced key stays valid for 24 hours', async () => {
    write('a.yaml', tenant('one', brought('k')), secret('k', 'apiKey', a))
    await controller().runOnce()
    nowMs += 1
    write('a.yaml', tenant('one', brought('k')), secret('k', 'apiKey', b))
    await controller().runOnce()
    const ended = { sha256Hex: hashApiKey(a), endsAtMs: nowMs + day }
    expect(await keysOf('one')).toEqual([ended, { sha256Hex: hashApiKey(b), endsAtMs: null }])
    nowMs += day
    await controller().runOnce()
    expect(await keysOf('one')).toEqual([{ sha256Hex: hashApiKey(b), endsAtMs: null }])
  })

  test('API keys: removing an entry invalidates its key immediately', async () => {
    write('a.yaml', tenant('one', brought('k')), secret('k', 'apiKey', a))
    await controller().runOnce()
    write('a.yaml', tenant('one'), secret('k', 'apiKey', a))
    await controller().runOnce()
    expect(await keysOf('one')).toEqual([])
  })

  test('API keys: a second tenant with the same key gets the reason KeyInUse', async () => {
    write('a.yaml', tenant('one', brought('k')), tenant('two', brought('k')), secret('k', 'apiKey', a))
    const one = controller()
    await one.runOnce()
    const reasons = ['one', 'two'].map((name) => reasonOf(one, name, 'ApiKeysIssued'))
    expect(reasons.toSorted()).toEqual(['Issued', 'KeyInUse'])
    expect([...(await keysOf('one')), ...(await keysOf('two'))]).toHaveLength(1)
  })
})

describe('slugs', () => {
  test('slugs: the first tenant keeps its slug, and a second tenant is not served until it chooses another slug', async () => {
    write('a.yaml', tenant('one', '', 'wanted'))
    const one = controller()
    await one.runOnce()
    write('b.yaml', tenant('a-second', '', 'wanted'))
    await one.runOnce()
    expect([reasonOf(one, 'one', 'SlugReserved'), reasonOf(one, 'a-second', 'SlugReserved')]).toEqual([
      'Held',
      'SlugTaken',
    ])
    expect(await tenantRow('a-second')).toMatchObject({ slug: null })
    write('b.yaml', tenant('a-second', '', 'other'))
    await one.runOnce()
    expect(await tenantRow('a-second')).toMatchObject({ slug: 'other' })
  })

  test('slugs: a freed slug is reserved for its tenant’s name for 30 days, then goes to the oldest claimant', async () => {
    write('c.yaml', tenant('c-older', '', 'wanted'))
    const one = controller()
    await one.runOnce()
    expect(reasonOf(one, 'c-older', 'SlugReserved')).toBe('Held')
    write('a.yaml', tenant('one', '', 'wanted'))
    await one.runOnce()
    expect(reasonOf(one, 'one', 'SlugReserved')).toBe('SlugTaken')
    nowMs += 1
    write('b.yaml', tenant('b-younger', '', 'wanted'))
    await one.runOnce()
    rmSync(join(root, 'tenants', 'c.yaml'))
    await one.runOnce()
    const waiting = ['one', 'b-younger'].map((name) => reasonOf(one, name, 'SlugReserved'))
    expect(waiting).toEqual(['SlugKept', 'SlugKept'])
    nowMs += slugReservedMs
    await one.runOnce()
    const after = ['one', 'b-younger'].map((name) => reasonOf(one, name, 'SlugReserved'))
    // Both tenants are reconciled concurrently, so the younger one sees that the older one waits for the slug or holds it.
    expect(after[0]).toBe('Held')
    expect(['SlugAwaited', 'SlugTaken']).toContain(after[1] ?? '')
  })

  test('slugs: a freed slug returns immediately to the resource that had it', async () => {
    write('a.yaml', tenant('one'))
    await controller().runOnce()
    rmSync(join(root, 'tenants', 'a.yaml'))
    await controller().runOnce()
    expect((await pool.query('SELECT slug, name FROM slug_reservations')).rows).toEqual([
      { slug: 'one', name: 'one' },
    ])
    write('a.yaml', tenant('one'))
    await controller().runOnce()
    expect(await tenantRow('one')).toMatchObject({ slug: 'one', deleted_at: null })
    expect((await pool.query('SELECT 1 FROM slug_reservations')).rowCount).toBe(0)
  })

  test('slugs: of two concurrent plans for a slug, one is applied and the other is a conflict', async () => {
    write('a.yaml', tenant('one', '', 'wanted'), tenant('two', '', 'wanted'))
    const context: ApplyContext = { pool, data: tenantData, keyRing, actor: 'test' }
    const plans = await Promise.all((await manifests()).map(planOf))
    const kinds = await Promise.all(
      plans.map(async (plan) => (await applyPlan(context, secretsOf(), plan, nowMs)).kind),
    )
    expect(kinds.sort()).toEqual(['applied', 'conflict'])
    expect((await pool.query('SELECT 1 FROM tenants')).rowCount).toBe(1)
  })
})

describe('a tenant whose manifest is gone', () => {
  const usage = async () => {
    await pool.query(
      `INSERT INTO usage_hourly SELECT $1, 'locks', now() - n * interval '1 hour', 1 FROM generate_series(1, 6000) n`,
      [idOf('one')],
    )
    await pool.query(`INSERT INTO record_epochs VALUES ($1, 'e', now())`, [idOf('one')])
  }
  const left = async () => {
    const { rows } = await pool.query<{ n: number }>(
      'SELECT (SELECT count(*) FROM usage_hourly) + (SELECT count(*) FROM record_epochs) AS n',
    )
    return rows[0]?.n
  }

  test.each([
    ['Retain', 6_001],
    ['Delete', 0],
  ])(
    'vanished tenant: is hidden with its keys and secrets, and the policy %s leaves %p rows of data',
    async (policy, rows) => {
      write('a.yaml', tenant('one', `  deletionPolicy: ${policy}\n${withKey}`))
      await controller().runOnce()
      await usage()
      const before = await version()
      rmSync(join(root, 'tenants', 'a.yaml'))
      expect(await controller().runOnce()).toMatchObject({ removed: 1, failed: 0 })
      expect(await left()).toBe(6_001)
      const deletedAt = new Date(nowMs)
      nowMs += 60_000
      await controller().runOnce()
      const row = await tenantRow('one')
      expect(row).toMatchObject({ slug: null, deleted_at: deletedAt, version: before + 1 })
      expect(row?.spec).toEqual(policy === 'Delete' ? {} : expect.objectContaining({ slug: 'one' }))
      expect(await keysOf('one')).toEqual([])
      expect((await pool.query('SELECT 1 FROM tenant_secrets')).rowCount).toBe(0)
      expect(await left()).toBe(rows)
      expect(await controller().runOnce()).toMatchObject({ applied: 0, removed: 0 })
      expect(await version()).toBe(before + 1)
    },
  )

  test('vanished tenant: a new Tenant of the same name gets the same tenant id and generated key', async () => {
    write('a.yaml', tenant('one', withKey))
    await controller().runOnce()
    const keys = await keysOf('one')
    rmSync(join(root, 'tenants', 'a.yaml'))
    await controller().runOnce()
    write('a.yaml', tenant('one', withKey))
    await controller().runOnce()
    expect(await keysOf('one')).toEqual(keys)
  })

  test('removed manifest: its tenant stays live while an unreadable file could contain it, even after a restart', async () => {
    write('a.yaml', tenant('one', withKey))
    write('b.yaml', tenant('two'))
    await controller().runOnce()
    write('a.yaml', 'a: [')
    rmSync(join(root, 'tenants', 'b.yaml'))
    expect(await controller().runOnce()).toMatchObject({ removed: 1 })
    source = openFolder()
    expect(await controller().runOnce()).toMatchObject({ removed: 0 })
    write('a.yaml', tenant('one', '  suspended: 5'))
    expect(await controller().runOnce()).toMatchObject({ removed: 0 })
    expect(await tenantRow('one')).toMatchObject({ slug: 'one', deleted_at: null })
    expect(await keysOf('one')).toHaveLength(1)
  })

  test('vanished tenant: tenants of another source stay live', async () => {
    write('a.yaml', tenant('one'))
    await controller().runOnce()
    await pool.query(`UPDATE tenants SET uid = 'a-cluster-uid'`)
    rmSync(join(root, 'tenants', 'a.yaml'))
    expect(await controller().runOnce()).toMatchObject({ removed: 0 })
  })
})

describe('a deposed leader', () => {
  test('deposed leader: the transactions of a deposed leader change nothing', async () => {
    write('a.yaml', tenant('one'))
    const [manifest] = await manifests()
    if (manifest === undefined) throw new Error('no manifest')
    const plan = await planOf(manifest)
    const by = (leaseTransitions: number) => {
      return { pool, data: tenantData, keyRing, actor: 'test', fence: { name: 'operator', leaseTransitions } }
    }
    expect((await applyPlan(by(2), secretsOf(), plan, nowMs)).kind).toBe('applied')
    const before = await written()
    expect((await applyPlan(by(1), secretsOf(), plan, nowMs)).kind).toBe('deposed')
    const live = { id: plan.tenantId, uid: manifest.uid, namespace: 'shops', name: 'one', slug: 'one' }
    expect((await removeTenant(by(1), live, { nowMs: nowMs })).kind).toBe('deposed')
    expect(await written()).toEqual(before)
    expect((await applyPlan(by(2), secretsOf(), plan, nowMs)).kind).toBe('applied')
  })
})

describe('a running controller', () => {
  test('running controller: applies a change of the folder within 2 s', async () => {
    write('a.yaml', tenant('one'))
    const one = controller({ clock: { now: () => Date.now() } })
    await one.start()
    expect(one.inForce()).toBe(true)
    const changedAtMs = Date.now()
    write('a.yaml', tenant('one'), tenant('two'))
    await until(async () => (await tenantRow('two')) !== undefined)
    expect(Date.now() - changedAtMs).toBeLessThan(2_000)
    await one.stop()
  })

  test('running controller: starts without Postgres and reconciles when Postgres becomes available', async () => {
    write('a.yaml', tenant('one'))
    const away = openPool()
    await allowConnections(false)
    const one = controller({ pool: away, clock: { now: () => Date.now() }, retryMsMax: 1_500 })
    await one.start()
    expect(one.inForce()).toBe(false)
    expect(logged.map(({ message }) => message)).toContain('reconcile failed and will be retried')
    await allowConnections(true)
    await until(async () => one.inForce())
    expect(await tenantRow('one')).toMatchObject({ slug: 'one' })
    await one.stop()
    await away.end()
  })
})

/** Makes Postgres refuse new connections to this database. Open connections of `pool` stay. */
async function allowConnections(allowed: boolean): Promise<void> {
  const url = new URL(database.url)
  const name = url.pathname.slice(1)
  url.pathname = '/postgres'
  const admin = openPool(url.href)
  await admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS ${allowed}`)
  await admin.end()
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const met = await poll(async () => (await condition()) || undefined, { deadlineMs: 10_000 })
  if (met === undefined) throw new Error('not true within 10 s')
}
