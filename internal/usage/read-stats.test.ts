import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { blocksOf, explained, nodesOf } from '#test/support/stores/explained.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { rankTenants, readStats, type StatsTenants } from './read-stats.ts'
import { countColumns } from './stats-tally.ts'

const minuteMs = 60_000
const hourMs = 3_600_000
const nowMs = Date.parse('2026-11-20T00:00:00Z')
const tenantsCount = 100
const minutesCount = 12 * 60
const ids = Array.from({ length: tenantsCount }, () => someTenantId()).toSorted()
const [first, second] = ids as [TenantId, TenantId]

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 60_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  const columns = ['accepted', 'duplicates', 'spooled', 'refused', 'delivered', 'failed', 'attempts_failed']
  expect(countColumns.slice(0, columns.length)).toEqual(columns)
  // Rows are written minute by minute, as in production, so a tenant's rows are far apart. The n-th tenant accepts n events per minute.
  for (const [table, step, count] of [
    ['stats_minutely', 'minute', minutesCount],
    ['stats_hourly', 'hour', 24],
  ] as const)
    await pool.query(
      `INSERT INTO ${table} SELECT tenant_id, $2::timestamptz - m * interval '1 ${step}', nth, 0, 0, 1, nth, 0, 0,
         ${'0, '.repeat(13)} nth, '{"signature_mismatch": 1}'
       FROM generate_series(${count}, 1, -1) m, unnest($1::text[]) WITH ORDINALITY AS t(tenant_id, nth)`,
      [['', ...ids], new Date(nowMs)],
    )
  await pool.query('VACUUM ANALYZE stats_minutely, stats_hourly')
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const read = (tenants: StatsTenants, fromMs: number, toMs: number, stepMs: number) =>
  readStats(pool, { tenants, fromMs, toMs, stepMs })

describe('reading stats', () => {
  test('readStats: fills gaps with empty points, and widens a span to whole steps', async () => {
    const { points, total } = await read([first], nowMs - 11 * minuteMs, nowMs + 9 * minuteMs, 10 * minuteMs)
    expect(points.map(({ atMs, accepted }) => [(atMs - nowMs) / minuteMs, accepted])).toEqual([
      [-20, 20],
      [-10, 20],
      [0, 0],
    ])
    expect(points[2]).toEqual({
      atMs: nowMs,
      accepted: 0,
      duplicates: 0,
      spooled: 0,
      refused: 0,
      delivered: 0,
      failed: 0,
      attemptsFailed: 0,
      refusedBy: {},
      queue: undefined,
      latencyMs: { p50: undefined, p95: undefined, p99: undefined },
    })
    expect(total).toMatchObject({ accepted: 40, refused: 20, refusedBy: { signature_mismatch: 20 } })
    expect(total.latencyMs).toEqual({ p50: 3_600_000, p95: 3_600_000, p99: 3_600_000 })
  })

  test('readStats: returns only the stats of the requested tenants, and none for an empty list', async () => {
    const hours = (tenants: StatsTenants) => read(tenants, nowMs - 24 * hourMs, nowMs, hourMs)
    expect((await hours([])).total.accepted).toBe(0)
    expect((await hours([first, second])).total.accepted).toBe(24 * (2 + 3))
    expect((await hours([someTenantId()])).total.accepted).toBe(0)
  })

  test.each([
    ['more than 200 points', 201, minuteMs],
    ['a step of half a minute', 1, 30_000],
    ['a step of an hour and a half', 1, 5_400_000],
  ])('readStats: refuses %s', async (_name, count, stepMs) => {
    await expect(read('all', nowMs, nowMs + count * stepMs, stepMs)).rejects.toThrow(RangeError)
  })

  test('readStats: reads rows by the primary key, regardless of the number of other rows', async () => {
    const client = await pool.connect()
    try {
      const onClient = { query: client.query.bind(client) } as unknown as Pool
      for (const tenants of ['all', [first]] as const) {
        const request = { tenants, fromMs: nowMs - 12 * hourMs, toMs: nowMs, stepMs: 5 * minuteMs }
        await readStats(onClient, request)
        const plans = await explained(client, (spy) => readStats(spy, request))
        expect(plans.length).toBe(tenants === 'all' ? 2 : 1)
        const scans = plans.flatMap(nodesOf).filter((node) => node['Relation Name'] === 'stats_minutely')
        expect(scans.length).toBeGreaterThan(0)
        for (const scan of scans) expect(scan['Actual Rows']).toBe(minutesCount)
        // In the worst case each row needs one block, plus the blocks of the index.
        for (const plan of plans) expect(blocksOf(plan)).toBeLessThan(minutesCount * 1.2)
      }
    } finally {
      client.release()
    }
  })
})

describe('ranking tenants', () => {
  const rank = (hours: number, tenants: StatsTenants = 'all', limit = 3) =>
    rankTenants(pool, { tenants, fromMs: nowMs - hours * hourMs, toMs: nowMs, orderBy: 'accepted', limit })

  test('rankTenants: returns tenants with the highest counts first, from minutes or hours, without the row for all tenants', async () => {
    const names = async (hours: number) => (await rank(hours)).map(({ tenantId }) => ids.indexOf(tenantId))
    expect(await names(1)).toEqual([99, 98, 97])
    expect(await names(24)).toEqual([99, 98, 97])
    expect((await rank(1))[0]).toMatchObject({ accepted: 60 * 101, refused: 60 })
    expect((await rank(24))[0]).toMatchObject({ accepted: 24 * 101, delivered: 24 * 101 })
    expect((await rank(24, 'all', 1_000)).length).toBe(tenantsCount)
  })

  test('rankTenants: returns only the requested tenants, and reads only the last day of a longer span', async () => {
    expect((await rank(24, [first])).map(({ tenantId }) => tenantId)).toEqual([first])
    expect(await rank(24, [])).toEqual([])
    expect(await rank(240)).toEqual(await rank(24))
  })
})
