import { beforeAll, describe, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'
import { blocksOf, explained, nodesOf, type PlanNode } from '#test/support/stores/explained.ts'
import { openPlanDatabase } from '#test/support/stores/plan-database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type LockHistoryFilter, listLockHistory } from './list-lock-history.ts'
import type { LockHistoryEntry } from './lock-history.ts'

const dayMs = 86_400_000
const nowMs = Date.now()
const today = Math.floor(nowMs / dayMs) * dayMs
const days = 89
const perDay = 1_000
const examinedMax = 2_000
const [large, other] = [someTenantId(), someTenantId()]

let pool: Pool
beforeAll(async () => {
  const database = await openPlanDatabase()
  pool = database.pool
  await fill()
  return () => database.close()
}, 120_000)

/**
 * 89 000 locks on 89 days. Every second lock is open, and all open locks have expired except the oldest. Few locks are released or have the
 * scope `rare`. A third of the locks has one scope, and half of that third has one key.
 */
async function fill(): Promise<void> {
  const wanted = Array.from({ length: days + 5 }, (_, nth) => ({
    table: 'executions' as const,
    day: dayAfter(nowMs, nth),
  }))
  await ensurePartitions(pool, wanted)
  for (let ago = 0; ago < days; ago += 1) {
    const from = today - ago * dayMs
    await pool.query(
      `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, held_until, ended_at, ending, status)
       SELECT $1, $2::bigint + nth, $3, CASE WHEN nth = 7 THEN 'rare' WHEN nth % 3 = 0 THEN 'pay' ELSE 'ship' END,
         CASE WHEN nth % 6 = 0 THEN 'hot' ELSE 'k' || nth END,
         CASE WHEN nth = 2 AND $4 THEN now() + interval '1 h' ELSE to_timestamp($2 / 1e6) END, NULL,
         CASE WHEN nth % 2 = 0 THEN 'open' WHEN nth = 5 THEN 'released' ELSE 'completed' END, 200
       FROM generate_series(1, ${perDay}) nth`,
      [large, from * 1000, dayAfter(from, 90), ago === days - 1],
    )
  }
}

type Changes = Partial<Pick<LockHistoryFilter, 'state' | 'fromMs' | 'toMs'>> & {
  readonly scope?: string
  readonly key?: string
  readonly tenantId?: LockHistoryFilter['tenantId']
}

const filterOf = (changes: Changes) => ({ tenantId: large, limit: 50, ...changes })

/** Returns a page and the plans of its statements, as a session that has prepared the statements uses them. */
async function page(
  changes: Changes,
): Promise<{ plans: PlanNode[]; listed: Awaited<ReturnType<typeof listLockHistory>> }> {
  const client = await pool.connect()
  const filter = filterOf(changes)
  try {
    const listed = await listLockHistory(client as unknown as Pool, filter, nowMs)
    const plans = await explained(client, async (spy) => {
      type Query = (...args: never[]) => Promise<unknown>
      const both = {
        async query(...args: never[]) {
          await (spy.query as Query)(...args)
          return await (client.query as unknown as Query).apply(client, args)
        },
      }
      await listLockHistory(both as unknown as Pool, filter, nowMs)
    })
    return { plans, listed }
  } finally {
    client.release()
  }
}

/** Reads all pages of a filter; `pages` is their number. */
async function walked(changes: Changes): Promise<{ entries: LockHistoryEntry[]; pages: number }> {
  const entries: LockHistoryEntry[] = []
  let after: number | undefined
  for (let pages = 1; pages < 100; pages += 1) {
    const listed = await listLockHistory(pool, { ...filterOf(changes), limit: 100, after }, nowMs)
    entries.push(...listed.entries)
    after = listed.next
    if (after === undefined) return { entries, pages }
  }
  throw new Error('it does not end')
}

const from = today - 40 * dayMs

/** `blocksMax`: an examined row costs at most one block, plus the descent into each partition. */
const cases: readonly (readonly [what: string, changes: Changes, found: number, blocksMax: number])[] = [
  ['nothing', {}, 50, 600],
  ['another tenant', { tenantId: other }, 0, 600],
  ['running without recent matches', { state: 'running' }, 0, 3_000],
  ['expired', { state: 'expired' }, 50, 800],
  ['completed', { state: 'completed' }, 50, 800],
  ['released', { state: 'released' }, 50, 900],
  ['taken over without matches', { state: 'taken_over' }, 0, 600],
  ['a scope of few', { scope: 'rare' }, 50, 900],
  ['a scope of few, running', { scope: 'rare', state: 'running' }, 0, 900],
  ['a scope without entries', { scope: 'none' }, 0, 600],
  ['a scope of many', { scope: 'pay' }, 50, 3_000],
  ['a scope of many, running', { scope: 'pay', state: 'running' }, 0, 3_000],
  ['a scope of many without released entries', { scope: 'pay', state: 'released' }, 0, 3_000],
  ['a key', { scope: 'pay', key: 'k9' }, 50, 900],
  ['a key of many, running', { scope: 'pay', key: 'hot', state: 'running' }, 0, 3_000],
  ['a day long ago', { fromMs: from, toMs: from + dayMs, state: 'completed' }, 50, 600],
]

describe.each(['without statistics', 'with statistics'])('lock history of 89 000 entries %s', (when) => {
  beforeAll(async () => {
    if (when === 'with statistics') await pool.query('VACUUM ANALYZE executions')
  }, 120_000)

  test.each(cases)(
    'lock history: a page by %s uses index scans and reads few rows',
    async (_what, changes, found, blocksMax) => {
      const { plans, listed } = await page(changes)
      expect(listed.entries).toHaveLength(found)
      const nodes = plans.flatMap(nodesOf)
      const whole = nodes.filter((node) => /Seq Scan|Bitmap/.test(node['Node Type']))
      expect(whole.map((node) => [node['Node Type'], node['Relation Name']])).toEqual([])
      expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(examinedMax + 1)
      expect(Math.max(...plans.map(blocksOf))).toBeLessThanOrEqual(blocksMax)
    },
  )
})

describe('lock history pages that examine every row', () => {
  test('lock history: the pages of locks in state `running` find the single running lock among 44 500 open locks', async () => {
    const { entries, pages } = await walked({ state: 'running' })
    expect(entries).toHaveLength(1)
    expect(entries[0]?.state).toBe('running')
    // The last page examines the remaining rows.
    expect(pages).toBe(Math.ceil((days * perDay) / 2 / examinedMax))
  })

  test.each<[string, Changes, number]>([
    ['a scope of many', { scope: 'pay', fromMs: today - 14 * dayMs }, 15 * 333],
    ['a scope of few', { scope: 'rare' }, days],
    ['a scope of many, released', { scope: 'ship', state: 'released' }, days],
    [
      'a key of many, expired',
      { scope: 'pay', key: 'hot', state: 'expired', fromMs: today - 14 * dayMs },
      15 * 166,
    ],
    ['completed', { state: 'completed', fromMs: today - 2 * dayMs }, 3 * 499],
  ])('lock history: the pages return every matching lock once: %s', async (_what, changes, count) => {
    const { entries } = await walked(changes)
    const fences = entries.map(({ fence }) => fence)
    expect(fences).toEqual([...new Set(fences)].toSorted((one, two) => two - one))
    expect(fences).toHaveLength(count)
  })
})
