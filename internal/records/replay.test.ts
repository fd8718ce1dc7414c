import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { openRecordLab, type RecordLab } from '#test/support/record-lab.ts'
import { type AcquireInput, entryKey } from './store.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const record = '{"status":200,"headers":{},"body":"saved"}'
const limits = { locksPerMinute: null, locksPerMonth: null, recordBytes: null }

function inputOf(tenantId: TenantId, fingerprint = 'f1'): AcquireInput {
  const names = { tenantId, scope: 'orders', key: 'k-1' }
  const times = { ttlMs: 7_200_000, lockMs: 60_000 }
  return { ...names, ...times, lockToken: 'N', fingerprint, attemptId: '', waits: false, limits }
}

/** Returns a tenant whose record this process has already replayed, so that further checks read the record without the script. */
async function replayedTenant(): Promise<TenantId> {
  const tenantId = await lab.createTenant()
  await lab.store.acquire(inputOf(tenantId))
  const names = { tenantId, scope: 'orders', key: 'k-1' }
  await lab.store.save({ ...names, lockToken: 'N', ttlMs: null, defaultTtlMs: 86_400_000, record })
  for (let time = 0; time < 2; time += 1) {
    expect(await lab.store.acquire(inputOf(tenantId))).toEqual({ kind: 'hit', record })
  }
  return tenantId
}

test('replay: a different fingerprint is refused, and a check without a fingerprint matches any record', async () => {
  const tenantId = await replayedTenant()
  expect(await lab.store.acquire(inputOf(tenantId, 'f2'))).toEqual({ kind: 'mismatch' })
  expect(await lab.store.acquire(inputOf(tenantId, ''))).toEqual({ kind: 'hit', record })
})

test.each(['removed by a call', 'expired'])(
  'replay: the next check locks the key again after a replayed record was %s',
  async (how) => {
    const tenantId = await replayedTenant()
    if (how === 'removed by a call') await lab.store.remove(inputOf(tenantId), '')
    else await lab.raw.del(entryKey(inputOf(tenantId)))
    expect(await lab.store.acquire(inputOf(tenantId))).toMatchObject({ kind: 'locked' })
    expect(await lab.store.acquire({ ...inputOf(tenantId), lockToken: 'M' })).toMatchObject({ kind: 'busy' })
  },
)

test('replay: a record whose meters are missing is returned only after the meters are seeded', async () => {
  const tenantId = await replayedTenant()
  await lab.raw.del(`{${tenantId}}:meta`)
  expect(await lab.store.acquire(inputOf(tenantId))).toEqual({ kind: 'hit', record })
  expect(await lab.raw.get(`{${tenantId}}:meta`)).not.toBeNull()
})
