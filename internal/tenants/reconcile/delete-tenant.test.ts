import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tenantData } from '#cmd/serving/tenant-data.ts'
import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import { forgetMeters } from '#internal/usage/index.ts'
import { openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { FolderSource } from '../folder/folder-source.ts'
import { parseKeyRing } from '../key-ring.ts'
import { tenantIdOfUid } from '../tenant-object.ts'
import { TenantController } from './tenant-controller.ts'

/** Its record store stands for a process that has not seen a deletion and continues to use the id. */
let lab: RecordLab
let root: string
let nowMs: number
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())
beforeEach(async () => {
  await lab.pool.query('TRUNCATE tenants, api_keys, tenant_secrets, slug_reservations, usage_hourly')
  root = mkdtempSync(join(tmpdir(), 'latchkey-deletion-'))
  mkdirSync(join(root, 'tenants'))
  nowMs = Date.parse('2026-11-01T00:00:00Z')
})
afterEach(() => rmSync(root, { recursive: true }))

/** Unique names, since ids are derived from them and the tests share one Redis. */
let names = 0
beforeEach(() => {
  names += 1
})
const nameNow = () => `shop-${process.pid}-${names}`

function controller(onPurge = (id: TenantId) => forgetMeters(lab.redis, id)): TenantController {
  const ring = parseKeyRing(`a:${Buffer.alloc(32, 1).toString('base64')}`)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  const quiet = () => undefined
  const log = { info: quiet, warn: quiet, error: quiet }
  const folders = { tenantsDir: join(root, 'tenants'), secretsDir: join(root, 'secrets') }
  return new TenantController({
    callbackBounds: { cidrsMax: [], ports: [] },
    source: new FolderSource({ ...folders, log }),
    pool: lab.pool,
    data: tenantData,
    keyRing: ring.keyRing,
    clock: { now: () => nowMs },
    log,
    random: randomBytes,
    actor: 'test',
    onChanged: async () => {},
    onPurge,
  })
}

/** Reconciles the tenant and returns its id. */
async function create(deletionPolicy: 'Delete' | 'Retain'): Promise<TenantId> {
  writeFileSync(
    join(root, 'tenants', 'a.yaml'),
    `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${nameNow()}, namespace: shops}
spec: {slug: ${nameNow()}, callback: {url: "https://hooks.example/"}, deletionPolicy: ${deletionPolicy}}
`,
  )
  expect(await controller().runOnce()).toMatchObject({ applied: 1, failed: 0 })
  const { rows } = await lab.pool.query<{ id: string }>('SELECT id FROM tenants WHERE slug = $1', [nameNow()])
  return parseTenantId(rows[0]?.id ?? '')
}

async function remove(): Promise<void> {
  rmSync(join(root, 'tenants', 'a.yaml'))
  expect(await controller().runOnce()).toMatchObject({ removed: 1, failed: 0 })
}

/** Runs the sweep that removes the data. */
async function purge(): Promise<void> {
  nowMs += 60_000
  await controller().runOnce()
}

const record = '{"status":200,"headers":{},"body":1}'
const at = (tenantId: TenantId) => ({ tenantId, scope: 's', key: 'k' })

function save(tenantId: TenantId) {
  const input = { ...at(tenantId), lockToken: '', ttlMs: null, defaultTtlMs: 3_600_000, record }
  return lab.store.save(input)
}

/** The tenant's keys in Redis that never expire. */
async function keysWithoutExpiry(tenantId: TenantId): Promise<string[]> {
  const keys = await lab.raw.keys(`{${tenantId}}:*`)
  const lives = await Promise.all(keys.map((key) => lab.raw.pttl(key)))
  return keys.filter((_key, index) => lives[index] === -1).sort()
}

describe('a tenant deleted with its data', () => {
  test('deletion with data: a new Tenant of the same name is another tenant and sees no data of the deleted one', async () => {
    const first = await create('Delete')
    expect(first).toBe(tenantIdOfUid(`folder:shops/${nameNow()}`))
    await save(first)
    await remove()
    const second = await create('Delete')
    expect(second).not.toBe(first)
    expect(await lab.store.fetch(at(second))).toEqual({ kind: 'none' })
    await remove()
    const third = await create('Delete')
    expect(new Set([first, second, third]).size).toBe(3)
    // Checks that the controller compares the manifest with the rows of the new tenant and finds no difference.
    expect(await controller().runOnce()).toMatchObject({ applied: 0, removed: 0 })
  })

  test('deletion with data: only keys with an expiry remain in Redis', async () => {
    const id = await create('Delete')
    await save(id)
    expect(await keysWithoutExpiry(id)).toEqual([`{${id}}:meta`, `{${id}}:side`])
    await remove()
    await purge()
    expect(await keysWithoutExpiry(id)).toEqual([])
  })

  test('deletion with data: a process that has not noticed the deletion cannot recreate the tenant', async () => {
    const id = await create('Delete')
    await save(id)
    await remove()
    const next = await create('Delete')
    expect(await lab.store.fetch(at(id))).toMatchObject({ kind: 'hit' })
    await lab.store.remove(at(id), '')
    expect(await save(id)).toEqual({ kind: 'saved' })
    expect(await lab.store.fetch(at(next))).toEqual({ kind: 'none' })
    await purge()
    await expect(save(id)).rejects.toMatchObject({ name: 'RedisUnavailable' })
    expect(await keysWithoutExpiry(id)).toEqual([])
    expect(await save(next)).toEqual({ kind: 'saved' })
  })

  test('deletion with data: is retried until Redis is available, and the rows are kept until then', async () => {
    const id = await create('Delete')
    await save(id)
    await lab.meter.flush()
    await remove()
    nowMs += 60_000
    const failing = controller(() => Promise.reject(new Error('Redis is unavailable')))
    expect(await failing.runOnce()).toMatchObject({ failed: 0 })
    expect(failing.inForce()).toBe(true)
    const rows = () => lab.pool.query('SELECT 1 FROM usage_hourly WHERE tenant_id = $1', [id])
    expect((await rows()).rowCount).toBe(1)
    await controller().runOnce()
    expect((await rows()).rowCount).toBe(0)
    expect(await keysWithoutExpiry(id)).toEqual([])
    const purged: TenantId[] = []
    await controller(async (tenantId) => void purged.push(tenantId)).runOnce()
    expect(purged).toEqual([])
  })
})

test('deletion with retained data: a new Tenant of the same name gets the records back', async () => {
  const id = await create('Retain')
  await save(id)
  await remove()
  await purge()
  expect(await create('Retain')).toBe(id)
  expect(await lab.store.fetch(at(id))).toEqual({ kind: 'hit', record })
})
