import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { readStats } from '#internal/usage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { readMadeUpUntil, writeDemoHistory } from './demo-history.ts'

const hourMs = 3_600_000
const nowMs = Date.parse('2026-11-20T15:20:30Z')
const tenantId = someTenantId()

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'demo', 'demo', false, '{}', 1, now(), now(), now())`,
    [tenantId],
  )
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const read = (hours: number, stepMs: number) =>
  readStats(pool, { tenants: 'all', fromMs: nowMs - hours * hourMs, toMs: nowMs - 10 * 60_000, stepMs })

test('demo history: has data for every point of every chart, and is written only once', async () => {
  const random = () => 0.5
  expect(await readMadeUpUntil(pool, tenantId)).toBeUndefined()
  expect(await writeDemoHistory({ pool, tenantId, nowMs, random })).toBe(true)
  for (const [hours, stepMs] of [
    [1, 10 * 60_000],
    [24, 10 * 60_000],
    [48, 15 * 60_000],
    [168, hourMs],
    [719, 4 * hourMs],
  ] as const) {
    const { points, total } = await read(hours, stepMs)
    expect(points.filter(({ accepted, queue }) => accepted === 0 || queue === undefined)).toEqual([])
    expect(total.delivered).toBeGreaterThan(0)
    expect(total.latencyMs.p50).toBeLessThan(1_000)
  }
  const { total } = await read(24, 10 * 60_000)
  expect(total.failed).toBe(0)
  expect(await writeDemoHistory({ pool, tenantId, nowMs: nowMs + 60_000, random })).toBe(false)
  expect((await read(24, 10 * 60_000)).total).toEqual(total)
  expect(await readMadeUpUntil(pool, tenantId)).toBe(nowMs)
}, 30_000)

test('demo history: writes no stats for a tenant that already has a history', async () => {
  const other = someTenantId()
  await pool.query(
    `INSERT INTO stats_hourly SELECT $1, $2::timestamptz, 1, ${Array.from({ length: 20 }, () => 0).join(', ')}`,
    [other, new Date(nowMs - 100 * hourMs)],
  )
  expect(await writeDemoHistory({ pool, tenantId: other, nowMs, random: () => 0.5 })).toBe(false)
  expect(await readMadeUpUntil(pool, other)).toBeUndefined()
})
