import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { openRecordLab, type RecordLab, randomTenantId } from '#test/support/records/record-lab.ts'
import { forgetEmissions, recordUsage, type UsageEmission } from './emissions.ts'
import type { LimitBounds } from './limits.ts'
import { listHours } from './store.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const dayMs = 86_400_000
const nowMs = Date.UTC(2026, 10, 21, 10, 30)

async function liveTenant(): Promise<TenantId> {
  const id = randomTenantId()
  await lab.pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now())`,
    [id],
  )
  return id
}

const emissionOf = (tenantId: TenantId, more: Partial<UsageEmission> = {}): UsageEmission => ({
  id: 'em-1',
  tenantId,
  kind: 'exports.rows',
  amount: 10,
  occurredAtMs: nowMs,
  ...more,
})
const unlimited = { soft: null, hard: null }
const record = (emission: UsageEmission, bounds: LimitBounds = unlimited) =>
  withTx(lab.pool, (client) => recordUsage(client, emission, { bounds, nowMs, by: 'user:reporter' }))
const amounts = async (tenantId: TenantId) =>
  (await listHours(lab.pool, tenantId, { fromMs: 0, toMs: nowMs + dayMs })).map(
    ({ hourMs, kind, amount }) => [new Date(hourMs).toISOString().slice(5, 13), kind, amount],
  )

test('emissions: concurrent and repeated calls with one id count once', async () => {
  const id = await liveTenant()
  const results = await Promise.all(Array.from({ length: 8 }, () => record(emissionOf(id))))
  expect(results.map(({ kind }) => kind).toSorted()).toEqual([...Array(7).fill('known'), 'recorded'])
  expect(await amounts(id)).toEqual([['11-21T10', 'exports.rows', 10]])
})

test('emissions: calls with other ids add to the same hour or start another hour', async () => {
  const id = await liveTenant()
  for (const more of [
    { id: 'a' },
    { id: 'b', amount: 5 },
    { id: 'c', occurredAtMs: nowMs - dayMs },
    { id: 'd', kind: 'x' },
  ]) {
    expect(await record(emissionOf(id, more))).toMatchObject({ kind: 'recorded' })
  }
  expect(await amounts(id)).toEqual([
    ['11-20T10', 'exports.rows', 10],
    ['11-21T10', 'exports.rows', 15],
    ['11-21T10', 'x', 10],
  ])
})

test('emissions: different content under a known id is a conflict, and ids of tenants are independent', async () => {
  const [id, other] = [await liveTenant(), await liveTenant()]
  await record(emissionOf(id))
  expect(await record(emissionOf(id, { amount: 11 }))).toEqual({ kind: 'conflict' })
  expect(await amounts(id)).toEqual([['11-21T10', 'exports.rows', 10]])
  expect(await record(emissionOf(other))).toMatchObject({ kind: 'recorded' })
})

describe('emissions: refuses an emission', () => {
  test.each<[string, Partial<UsageEmission>, string]>([
    ['without an id', { id: '' }, 'id'],
    ['of a reserved meter', { kind: 'locks' }, 'itself'],
    ['that is older than 35 days', { occurredAtMs: nowMs - 36 * dayMs }, '35 days'],
    ['that is in the future', { occurredAtMs: nowMs + dayMs }, '35 days'],
    ['of an unknown tenant', { tenantId: randomTenantId() }, 'no such tenant'],
  ])('emissions: refuses an emission %s', async (_case, more, words) => {
    const id = await liveTenant()
    expect(await record(emissionOf(id, more))).toMatchObject({
      kind: 'refused',
      problem: expect.stringContaining(words),
    })
    expect(await amounts(id)).toEqual([])
  })
})

test('forgetEmissions: removes a limited number of expired ids and keeps their amounts', async () => {
  await lab.pool.query('DELETE FROM usage_emissions')
  const id = await liveTenant()
  for (const name of ['a', 'b', 'c']) await record(emissionOf(id, { id: name }))
  const laterMs = nowMs + 40 * dayMs
  expect(await forgetEmissions(lab.pool, laterMs, 2)).toEqual({ removed: 0, hasMore: false })
  expect(await forgetEmissions(lab.pool, laterMs + 1, 2)).toEqual({ removed: 2, hasMore: true })
  expect(await forgetEmissions(lab.pool, laterMs + 1, 2)).toEqual({ removed: 1, hasMore: false })
  expect(await amounts(id)).toEqual([['11-21T10', 'exports.rows', 30]])
})

test('forgetEmissions: skips ids that another process is removing', async () => {
  await lab.pool.query('DELETE FROM usage_emissions')
  const id = await liveTenant()
  for (const name of ['a', 'b', 'c']) await record(emissionOf(id, { id: name }))
  const other = await lab.pool.connect()
  await other.query('BEGIN')
  await other.query(`DELETE FROM usage_emissions WHERE id IN ('a', 'b')`)
  const laterMs = nowMs + 41 * dayMs
  expect(await forgetEmissions(lab.pool, laterMs)).toEqual({ removed: 1, hasMore: false })
  await other.query('COMMIT')
  other.release()
  expect(await forgetEmissions(lab.pool, laterMs)).toEqual({ removed: 0, hasMore: false })
})
