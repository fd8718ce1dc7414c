import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { endMove, type RecordDurability } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/record-lab.ts'
import { createTenantIn, moveRecords, storeNow, viewOf } from '#test/support/record-moves.ts'
import { acquireInput } from '#test/support/record-steps.ts'
import { DurableRecordStore } from './durable-store.ts'
import { endMoves } from './end-moves.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const earlierStore = async (tenantId: TenantId) => (await viewOf(lab, tenantId)).before

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
    const tenantId = await createTenantIn(lab, before)
    const input = acquireInput(tenantId, { ttlMs: 1000, lockMs: 1000 })
    await (await storeNow(lab, tenantId)).acquire(input)
    await moveRecords(lab, tenantId, current)
    await endMoves(partsOf(lab))
    expect(await earlierStore(tenantId)).toBe(before)
    const dayAndHoursMs = 27 * 3_600_000
    await lab.setClock(tenantId, labStartMs + dayAndHoursMs)
    await endMoves(partsOf(lab))
    expect(await earlierStore(tenantId)).toBeNull()
  },
)

test('end of a move: a tenant that moved again keeps its earlier store', async () => {
  const tenantId = await createTenantIn(lab, 'postgres')
  const { generation } = await moveRecords(lab, tenantId, 'redis')
  await moveRecords(lab, tenantId, 'postgres')
  await endMove(lab.pool, { id: tenantId, before: 'postgres', generation }, 0)
  expect(await earlierStore(tenantId)).toBe('redis')
})

test('end of a move: waits for a transaction in Postgres that began before the move', async () => {
  const tenantId = await createTenantIn(lab, 'postgres')
  const { pool, redis, meter, createStores } = lab
  const client = await pool.connect()
  await client.query('BEGIN')
  const query: unknown = client.query.bind(client)
  const ignore = () => undefined
  const connection = { query, on: ignore, off: ignore, release: ignore }
  const oneConnection = { query, connect: async () => connection } as unknown as Pool
  const inTransaction = new DurableRecordStore({ pool: oneConnection, redis, meter, ttlSecondsMax: 60 })
  const stores = { ...createStores(), postgres: inTransaction }
  expect(await (await storeNow(lab, tenantId, stores)).acquire(acquireInput(tenantId))).toMatchObject({
    kind: 'locked',
  })
  await moveRecords(lab, tenantId, 'redis')
  const ending = endMoves(partsOf(lab))
  const waits = async () => (await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rowCount === 1
  expect(await poll(async () => (await waits()) || undefined, { deadlineMs: 5000 })).toBe(true)
  await client.query('COMMIT')
  client.release()
  await ending
  expect(await earlierStore(tenantId)).toBe('postgres')
})
