import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { type LockState, listLockHistory } from '#internal/records/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

let database: TestDatabase
let pool: Pool
let api: TestApi
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  api = await startTestApi({ databaseUrl: database.url })
})
afterAll(async () => {
  await api.close()
  await pool.end()
  await database.drop()
})

async function statesOf(scope: string): Promise<LockState[]> {
  const { rows } = await pool.query<{ id: TenantId }>('SELECT id FROM tenants WHERE deleted_at IS NULL')
  const [tenant] = rows
  if (!tenant) throw new Error('the tenant is missing')
  const { entries } = await listLockHistory(pool, { tenantId: tenant.id, scope, limit: 100 }, Date.now())
  return entries.map(({ state }) => state)
}

async function lock(address: object, more: object = {}): Promise<string> {
  const { status, json } = await api.call('POST', '/v1/record', { ...address, ...more })
  expect([status, json['locked']]).toEqual([200, true])
  return String(json['lockToken'])
}

test('lock history: calls over HTTP appear without delay', async () => {
  const scope = 'history'
  const saved = { status: 200, headers: {}, body: { secret: 'never stored here' } }
  const [lost, done, back, held] = ['a', 'b', 'c', 'd'].map((key) => ({ scope, key }))
  await lock(lost ?? {}, { lockSeconds: 1 })
  await api.call('PUT', '/v1/record', { ...done, ...saved, lockToken: await lock(done ?? {}) })
  const token = await lock(back ?? {})
  await api.call('DELETE', `/v1/record?scope=${scope}&key=c&lockToken=${token}`)
  const checks = [{ ...held }]
  const { json } = await api.call('POST', '/v1/record/batch', { checks })
  expect(json['results']).toMatchObject([{ locked: true }])
  const soon = ['running', 'released', 'completed']
  await until('the ended locks', async () => (await statesOf(scope)).slice(0, 3).join() === soon.join())
  await until('the expired lock', async () => (await statesOf(scope)).at(3) === 'expired')
  await lock(lost ?? {}, { waitMs: 5_000 })
  await until(
    'the takeover',
    async () => (await statesOf(scope)).join() === ['running', ...soon, 'taken_over'].join(),
  )
  const { rows } = await pool.query<{ row: string }>('SELECT e::text AS row FROM executions e')
  expect(rows.filter(({ row }) => row.includes('secret'))).toEqual([])
})

test('lock history: a process shutdown flushes pending rows', async () => {
  const own = await startTestApi({ databaseUrl: database.url })
  try {
    const body = { scope: 'ending', key: 'k', status: 201, body: null }
    expect((await own.call('PUT', '/v1/record', body)).status).toBe(200)
  } finally {
    await own.close()
  }
  expect(await statesOf('ending')).toEqual(['completed'])
})
