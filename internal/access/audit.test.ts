import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores/database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type AuditFilter, listAudit, writeAudit, writeLockCommitAudit } from './audit.ts'

let database: TestDatabase
let pool: Pool
const tenantId = someTenantId()
const startMs = Date.parse('2026-11-21T00:00:00Z')
const actions = ['replays.started', 'replays.cancelled', 'payloads.read'] as const

beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = createPool({
    url: database.url,
    applicationName: 'test audit',
    connectionsMax: 2,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
  })
  for (let nth = 0; nth < 12; nth += 1) {
    const action = actions[nth % 3] ?? 'payloads.read'
    const entry = { actor: nth % 2 === 0 ? 'user:Ada' : 'user:bob_%', action, detail: { nth } }
    await writeAudit(pool, { ...entry, tenantId: nth < 6 ? tenantId : null }, startMs + nth * 1_000)
  }
}, 30_000)
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const found = async (filter: AuditFilter) =>
  (await listAudit(pool, filter)).entries.map(({ detail }) => detail['nth'])

test.each([
  ['no filter', {}, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
  ['part of the actor, in any case', { actor: 'ADA' }, [10, 8, 6, 4, 2, 0]],
  ['LIKE wildcards taken literally', { actor: '_%' }, [11, 9, 7, 5, 3, 1]],
  ['prefix of the action', { action: 'replays.' }, [10, 9, 7, 6, 4, 3, 1, 0]],
  ['action and tenant', { action: 'payloads.read', tenantId }, [5, 2]],
  ['time', { fromMs: startMs + 3_000, toMs: startMs + 6_000 }, [5, 4, 3]],
  ['all filters', { actor: 'bob', action: 'replays.', tenantId, toMs: startMs + 2_000 }, [1]],
] as const)('listAudit: finds entries by %s', async (_by, filter, expected) => {
  expect(await found(filter)).toEqual([...expected])
})

test('writeAudit: throws for an entry that violates a unique index', async () => {
  const detail = { limit: 'locksPerMonth', period: '2026-11-01T00:00:00.000Z' }
  const crossing = { actor: 'api', action: 'usage.soft_limit_crossed', detail } as const
  const entry = { ...crossing, tenantId: someTenantId() }
  await writeAudit(pool, entry)
  await expect(writeAudit(pool, entry)).rejects.toThrow('audit_soft_limits')
})

test('writeLockCommitAudit: writes one entry per tenant, id and time of the commit', async () => {
  const owner = someTenantId()
  const detail = { kind: 'locks', id: 'batch-1', committedAt: '2026-11-21T00:00:00.000Z' }
  const entry = { actor: 'user:carl', action: 'usage.committed', tenantId: owner, detail } as const
  const later = { ...entry, detail: { ...detail, committedAt: '2026-11-22T00:00:01.000Z' } }
  for (const each of [entry, { ...entry, actor: 'user:dora' }, later, { ...entry, tenantId: someTenantId() }])
    await writeLockCommitAudit(pool, each, startMs)
  const { entries } = await listAudit(pool, { tenantId: owner })
  expect(entries.map((each) => [each.actor, each.detail])).toEqual([
    ['user:carl', later.detail],
    ['user:carl', detail],
  ])
})

test('listAudit: consecutive pages contain every entry', async () => {
  const seen: unknown[] = []
  let beforeId: number | undefined
  for (let pages = 0; pages < 10; pages += 1) {
    const page = await listAudit(pool, { actor: 'ada', limit: 2, beforeId })
    seen.push(...page.entries.map(({ detail }) => detail['nth']))
    beforeId = page.next
    if (beforeId === undefined) break
  }
  expect(seen).toEqual([10, 8, 6, 4, 2, 0])
})

test('listAudit: examines at most `examinedMax` entries per page, and the next page continues with the next entry', async () => {
  const share = { action: 'payloads.read', tenantId, limit: 1, examinedMax: 2 } as const
  expect(await listAudit(pool, share)).toMatchObject({ entries: [{ detail: { nth: 5 } }] })
  const seen: unknown[] = []
  let beforeId: number | undefined
  let pages = 0
  do {
    const page = await listAudit(pool, { ...share, toMs: startMs + 3_000, beforeId })
    seen.push(...page.entries.map(({ detail }) => detail['nth']))
    beforeId = page.next
    pages += 1
  } while (beforeId !== undefined && pages < 10)
  expect(seen).toEqual([2])
  expect(pages).toBeGreaterThan(2)
})

test('listAudit: continues after a page without matches, and stops at `fromMs`', async () => {
  await pool.query(
    `INSERT INTO audit (at, actor, action) SELECT $1::timestamptz, 'user:crowd', 'payloads.read' FROM generate_series(1, 50_000)`,
    [new Date(startMs + 86_400_000)],
  )
  const first = await listAudit(pool, { actor: 'ada' })
  expect(first.entries).toEqual([])
  expect(first.next).toBeGreaterThan(0)
  const second = await listAudit(pool, { actor: 'ada', beforeId: first.next })
  expect(second.entries.map(({ detail }) => detail['nth'])).toEqual([10, 8, 6, 4, 2, 0])
  expect(second.next).toBeUndefined()
  const ended = await listAudit(pool, { actor: 'ada', fromMs: startMs + 2 * 86_400_000 })
  expect(ended).toEqual({ entries: [], next: undefined })
}, 30_000)
