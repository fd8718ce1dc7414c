import { beforeAll, describe, expect, test } from 'bun:test'
import type { Pool } from '#internal/storage/index.ts'
import { blocksOf, explained, nodesOf } from '#test/support/stores/explained.ts'
import { openPlanDatabase } from '#test/support/stores/plan-database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { createSimulationId, type SimulationId } from './simulation.ts'
import { listSimulations, type SimulationListRequest } from './store.ts'

const count = 20_000
const examinedMax = 1_000
const nowMs = Date.now()
const [large, small] = [someTenantId(), someTenantId()]

let pool: Pool
beforeAll(async () => {
  const database = await openPlanDatabase()
  pool = database.pool
  const chargeback = { provider: 'card', outcome: 'lost', stepSeconds: 60 }
  // The oldest simulations failed. Every fiftieth simulation belongs to the small tenant.
  await pool.query(
    `INSERT INTO simulations (id, tenant_id, request, requested_by, state, due_at, created_at, ended_at, expires_on)
     SELECT $1 || lpad(nth::text, 8, '0'), CASE nth % 50 WHEN 0 THEN $3 ELSE $2 END, $4, 'ada',
       CASE WHEN nth <= 50 THEN 'failed' ELSE 'completed' END, '{}', now(), now(), current_date + 90
     FROM generate_series(1, ${count}) nth`,
    [createSimulationId(nowMs).slice(0, 22), large, small, JSON.stringify(chargeback)],
  )
  return () => database.close()
}, 60_000)

type Changes = Omit<SimulationListRequest, 'limit' | 'after'>

const cases: readonly (readonly [what: string, changes: Changes, found: number, blocksMax: number])[] = [
  ['no filter', {}, 50, 100],
  ['a large tenant', { tenantId: large }, 50, 100],
  ['a small tenant', { tenantId: small }, 50, 100],
  ['a common state', { state: 'completed' }, 50, 100],
  ['a state that the latest do not have', { state: 'failed' }, 0, 2_000],
  ['a state of a large tenant', { tenantId: large, state: 'failed' }, 0, 2_000],
  ['a state of a small tenant', { tenantId: small, state: 'failed' }, 1, 2_000],
  ['a state without simulations', { state: 'scheduled' }, 0, 2_000],
]

describe.each(['without statistics', 'with statistics'])('listSimulations plan, %s', (when) => {
  beforeAll(async () => {
    if (when === 'with statistics') await pool.query('VACUUM ANALYZE simulations')
  }, 60_000)

  test.each(cases)(
    'listSimulations: reading a page that is filtered by %s uses an index and reads few blocks',
    async (_what, changes, found, blocksMax) => {
      const client = await pool.connect()
      try {
        const request = { ...changes, limit: 50 }
        const read = (from: unknown) => listSimulations(from as Pool, request)
        expect((await read(client)).simulations).toHaveLength(found)
        const plans = await explained(client, read)
        const nodes = plans.flatMap(nodesOf)
        expect(nodes.filter((node) => /Seq Scan|Bitmap|Sort/.test(node['Node Type']))).toEqual([])
        expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(examinedMax)
        expect(Math.max(...plans.map(blocksOf))).toBeLessThanOrEqual(blocksMax)
      } finally {
        client.release()
      }
    },
  )
})

test('listSimulations: short pages continue until all simulations were examined', async () => {
  const ids: SimulationId[] = []
  let after: SimulationId | undefined
  let pages = 0
  do {
    const asked = { state: 'failed', limit: 20, ...(after && { after }) } as const
    const page = await listSimulations(pool, asked)
    ids.push(...page.simulations.map(({ simulationId }) => simulationId))
    after = page.next
    pages += 1
  } while (after !== undefined && pages < 100)
  expect(ids).toHaveLength(50)
  expect(ids).toEqual(ids.toSorted().toReversed())
  expect(pages).toBeLessThanOrEqual(count / examinedMax + 3)
})
