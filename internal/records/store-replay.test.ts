import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { expireEntry, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { acquireInput, result, saveInput } from '#test/support/records/record-steps.ts'
import type { AcquireInput } from './store.ts'

const record = result('r1')

describe.each(recordDurabilities)('replays of records in %s', (durability) => {
  let lab: RecordLab
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())

  const acquire = (tenantId: TenantId, changes: Partial<AcquireInput> = {}) =>
    lab.store.acquire(acquireInput(tenantId, changes))

  /** Returns a tenant whose record this process has already replayed, so that further checks read the record without the script. */
  async function replayedTenant(): Promise<TenantId> {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await lab.store.save(saveInput(tenantId, { lockToken: 'N' }))
    for (let time = 0; time < 2; time += 1) {
      expect(await acquire(tenantId)).toEqual({ kind: 'hit', record })
    }
    return tenantId
  }

  test('replay: a different fingerprint is refused, and a check without a fingerprint matches any record', async () => {
    const tenantId = await replayedTenant()
    expect(await acquire(tenantId, { fingerprint: 'f2' })).toEqual({ kind: 'mismatch' })
    expect(await acquire(tenantId, { fingerprint: '' })).toEqual({ kind: 'hit', record })
  })

  test.each(['removed by a call', 'expired'])(
    'replay: after a replayed record was %s, the next check locks the key again',
    async (how) => {
      const tenantId = await replayedTenant()
      if (how === 'removed by a call') await lab.store.remove(acquireInput(tenantId), '')
      else await expireEntry(lab, acquireInput(tenantId))
      expect(await acquire(tenantId)).toMatchObject({ kind: 'locked' })
      expect(await acquire(tenantId, { lockToken: 'M' })).toMatchObject({ kind: 'busy' })
    },
  )

  test('replay: if another process removes a record and saves a new one, the new one is returned', async () => {
    const tenantId = await replayedTenant()
    const other = lab.createStores()[durability]
    await other.remove(acquireInput(tenantId), '')
    await other.save(saveInput(tenantId, { ttlMs: 5 * 86_400_000, record: result('r2') }))
    expect(await acquire(tenantId)).toEqual({ kind: 'hit', record: result('r2') })
  })
})
