import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { endMove } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { createTenantIn, moveRecords, storeNow, viewOf } from '#test/support/records/record-moves.ts'
import { acquireInput } from '#test/support/records/record-steps.ts'
import { endMoves } from './end-moves.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const earlierStore = async (tenantId: TenantId) => (await viewOf(lab, tenantId)).before

const partsOf = ({ pool, meter, stores }: RecordLab) => ({
  pool,
  entryMsMax: 0,
  lastFenceInRedis: (tenantId: TenantId) => stores.redis.lastFence(tenantId),
  closeRedis: (tenantId: TenantId) => meter.seed(tenantId),
  bytesInRedis: (tenantId: TenantId) => meter.recordBytes(tenantId),
})

test.each([
  ['redis', 'postgres'],
  ['postgres', 'redis'],
] as const)(
  'end of a move: from %s to %s, the earlier store is queried until its last entry has expired',
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

test.each([
  ['redis', 'postgres'],
  ['postgres', 'redis'],
] as const)(
  'end of a move: from %s to %s, a key whose lock is taken over repeatedly does not delay the end',
  async (before, current) => {
    const tenantId = await createTenantIn(lab, before)
    const input = acquireInput(tenantId)
    await (await storeNow(lab, tenantId)).acquire(input)
    await moveRecords(lab, tenantId, current)
    const store = await storeNow(lab, tenantId)
    for (const times of [1, 2, 3]) {
      await lab.setClock(tenantId, labStartMs + times * (input.lockMs + 1))
      const again = await store.acquire({ ...input, lockToken: `${times}` })
      expect(again).toMatchObject({ kind: 'locked', takenOver: true })
    }
    const isEnded = async () => {
      await endMoves(partsOf(lab))
      return (await earlierStore(tenantId)) === null || undefined
    }
    expect(await poll(isEnded, { deadlineMs: 5000 })).toBe(true)
  },
)

test('end of a move: ending an outdated move does not remove the earlier store of a tenant that has moved again', async () => {
  const tenantId = await createTenantIn(lab, 'postgres')
  const { generation } = await moveRecords(lab, tenantId, 'redis')
  await moveRecords(lab, tenantId, 'postgres')
  await endMove(lab.pool, { id: tenantId, before: 'postgres', generation }, 0)
  expect(await earlierStore(tenantId)).toBe('redis')
})
