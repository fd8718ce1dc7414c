import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { eventReadSettings } from '#internal/events/index.ts'
import { createPool, ensurePartitions, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { listRefusedCalls, RefusedCalls } from './refused-calls.ts'

const dayMs = 86_400_000
const nowMs = Date.parse('2031-05-06T12:00:00Z')
const [tenantId, otherId] = [someTenantId(), someTenantId()]

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({
    url: database.url,
    applicationName: 'test',
    ...bounds,
    sessionSettings: eventReadSettings,
  })
  const clock = { now: () => atMs }
  const refused = new RefusedCalls(pool, clock)
  let atMs = nowMs - 4 * dayMs
  for (let nth = 0; nth < 25; nth += 1) {
    atMs += dayMs / 8
    for (const id of [tenantId, otherId]) {
      expect(refused.hasRoom(id, 'loop_detected')).toBe(true)
      refused.note({
        tenantId: id,
        days: nth % 2 === 0 ? 30 : 1,
        provider: 'card',
        cause: 'loop_detected',
        sourceAddress: '192.0.2.1',
        headers: `{"nth":"${nth}"}`,
        sample: nth === 24 ? 'x' : null,
      })
    }
  }
  await ensurePartitions(pool, [{ table: 'refused_calls', day: dayAfter(nowMs, 60) }])
  await refused.flush()
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const nthOf = (headers: string) => Number((JSON.parse(headers) as { nth: string }).nth)

test('listRefusedCalls: pages list calls newest first, each call once, without expired calls', async () => {
  const pages: number[][] = []
  let after: string | undefined
  do {
    const page = await listRefusedCalls(pool, { tenantId, limit: 4, ...(after && { after }) }, nowMs)
    pages.push(page.calls.map(({ headers }) => nthOf(headers)))
    after = page.next
  } while (after !== undefined)
  // Odd calls have one day of retention: only those from yesterday and today remain.
  const kept = Array.from({ length: 25 }, (_none, nth) => nth).filter((nth) => nth % 2 === 0 || nth >= 19)
  expect(pages.flat()).toEqual(kept.toReversed())
  expect(pages.slice(0, -1).every((page) => page.length === 4)).toBe(true)
})

test('listRefusedCalls: returns a call as it was recorded', async () => {
  const { calls } = await listRefusedCalls(pool, { tenantId, limit: 1 }, nowMs)
  expect(calls).toEqual([
    {
      id: expect.stringMatching(/^ref_[0-9a-z]{26}$/),
      tenantId,
      provider: 'card',
      cause: 'loop_detected',
      refusedAtMs: nowMs - 4 * dayMs + (25 * dayMs) / 8,
      sourceAddress: '192.0.2.1',
      headers: '{"nth":"24"}',
      sample: 'x',
    },
  ])
})

test('listRefusedCalls: returns an empty page for a tenant without calls and throws a RangeError for an invalid limit', async () => {
  expect(await listRefusedCalls(pool, { tenantId: someTenantId(), limit: 5 }, nowMs)).toEqual({
    calls: [],
    next: undefined,
  })
  for (const limit of [0, 101, 1.5])
    expect(listRefusedCalls(pool, { tenantId, limit }, nowMs)).rejects.toThrow(RangeError)
})

test('listRefusedCalls: a filtered page examines 1 000 calls and continues on the next page', async () => {
  const busyId = someTenantId()
  const day = dayAfter(nowMs, 30)
  await ensurePartitions(pool, [{ table: 'refused_calls', day }])
  // 2 500 calls, every 700th of another provider. The 1 000th examined call matches the filter.
  await pool.query(
    `INSERT INTO refused_calls (id, expires_on, tenant_id, provider, cause, refused_at, headers)
     SELECT 'ref_' || lpad(nth::text, 26, '0'), $2, $1, CASE WHEN nth % 700 = 0 OR nth = 1501 THEN 'codehost' ELSE 'card' END,
       CASE WHEN nth % 2 = 0 THEN 'signature_mismatch' ELSE 'loop_detected' END, now(), '{}'
     FROM generate_series(1, 2500) AS nth`,
    [busyId, day],
  )
  const walk = async (filter: { provider?: string; cause?: string }) => {
    const pages: number[][] = []
    let after: string | undefined
    do {
      const page = await listRefusedCalls(
        pool,
        { tenantId: busyId, limit: 100, ...filter, ...(after !== undefined && { after }) },
        nowMs,
      )
      pages.push(page.calls.map(({ id }) => Number(id.slice(4))))
      after = page.next
    } while (after !== undefined)
    return pages
  }
  expect(await walk({ provider: 'codehost' })).toEqual([[2100, 1501], [1400, 700], []])
  expect(await walk({ provider: 'codehost', cause: 'loop_detected' })).toEqual([[1501], [], []])
  expect(await walk({ provider: 'gateway' })).toEqual([[], [], []])
  expect((await walk({ cause: 'loop_detected' })).flat()).toHaveLength(1_250)
})

test.each([
  ['of one tenant', tenantId],
  ['of all tenants', undefined],
])('listRefusedCalls: a time range includes its start and excludes its end, %s', async (_case, owner) => {
  const asked = { ...(owner && { tenantId: owner }), fromMs: nowMs - dayMs, toMs: nowMs - dayMs / 2 }
  const nths = async (more: object) =>
    (await listRefusedCalls(pool, { ...asked, limit: 10, ...more }, nowMs)).calls
      .filter((call) => call.tenantId === tenantId)
      .map(({ headers }) => nthOf(headers))
  expect(await nths({})).toEqual([24, 23])
  expect(await nths({ provider: 'card' })).toEqual([24, 23])
  expect(await nths({ provider: 'wallet' })).toEqual([])
})
