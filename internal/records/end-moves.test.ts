import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { endMove, type RecordDurability } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/record-lab.ts'
import { acquireInput } from '#test/support/record-steps.ts'
import { endMoves } from './end-moves.ts'

const labs = {} as Record<RecordDurability, RecordLab>
beforeAll(async () => {
  labs.redis = await openRecordLab()
  labs.postgres = await openRecordLab({ durability: 'postgres' })
}, 30_000)
afterAll(() => Promise.all(Object.values(labs).map((lab) => lab.close())))

async function earlierStore(lab: RecordLab, tenantId: TenantId): Promise<string | null> {
  const { rows } = await lab.pool.query('SELECT record_store_before FROM tenants WHERE id = $1', [tenantId])
  return rows[0].record_store_before
}

const partsOf = ({ pool, meter, stores }: RecordLab) => ({
  pool,
  lastFence: (store: RecordDurability, tenantId: TenantId) => stores[store].lastFence(tenantId),
  closeRedis: (tenantId: TenantId) => meter.seed(tenantId),
  bytesInRedis: (tenantId: TenantId) => meter.recordBytes(tenantId),
})

test.each([
  ['redis', 'postgres'],
  ['postgres', 'redis'],
] as const)(
  'end of a move: from %s to %s, the earlier store is asked until its last entry has ended',
  async (before, current) => {
    const lab = labs[before]
    const tenantId = await lab.createTenant()
    if (before === 'redis')
      await lab.pool.query(
        `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
         VALUES ($1, $1, $1, $1, false, '{}', 0, now(), now(), now())`,
        [tenantId],
      )
    await lab.store.acquire(acquireInput(tenantId, { ttlMs: 1000, lockMs: 1000 }))
    await lab.pool.query(
      `UPDATE tenants SET record_store = $2, record_store_before = $3, record_store_generation = 1 WHERE id = $1`,
      [tenantId, current, before],
    )
    await endMoves(partsOf(lab))
    expect(await earlierStore(lab, tenantId)).toBe(before)
    const dayAndHoursMs = 27 * 3_600_000
    await lab.setClock(tenantId, labStartMs + dayAndHoursMs)
    await endMoves(partsOf(lab))
    expect(await earlierStore(lab, tenantId)).toBeNull()
  },
)

test('end of a move: a tenant that moved again keeps its earlier store', async () => {
  const lab = labs.postgres
  const tenantId = await lab.createTenant()
  await lab.pool.query(
    `UPDATE tenants SET record_store = 'redis', record_store_before = 'postgres', record_store_generation = 3 WHERE id = $1`,
    [tenantId],
  )
  await endMove(lab.pool, { id: tenantId, before: 'postgres', generation: 2 }, 0)
  expect(await earlierStore(lab, tenantId)).toBe('postgres')
})
