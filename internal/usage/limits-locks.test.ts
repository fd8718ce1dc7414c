import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab, readMeter } from '#test/support/records/record-lab.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import type { LockLimits } from './limits.ts'

describe.each(recordDurabilities)('limits of locks in %s', (durability) => {
  let lab: RecordLab
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())

  const unlimited: LockLimits = { locksPerMinute: null, locksPerMonth: null, recordBytes: null }
  let keys = 0
  function acquire(tenantId: TenantId, limits: Partial<LockLimits> = {}, key = `k-${keys++}`) {
    const lockToken = crypto.randomUUID()
    return lab.store.acquire(acquireInput(tenantId, { key, lockToken, limits: { ...unlimited, ...limits } }))
  }

  test('locks per minute: locks are refused at the limit until the minute ends', async () => {
    const tenantId = await lab.createTenant()
    const limits = { locksPerMinute: 2 }
    for (const _lock of [1, 2]) expect((await acquire(tenantId, limits)).kind).toBe('locked')
    expect(await acquire(tenantId, limits)).toEqual({
      kind: 'limited',
      limit: 'locksPerMinute',
      retryAfterMs: 30_000,
    })
    await lab.setClock(tenantId, labStartMs + 29_999)
    expect(await acquire(tenantId, limits)).toMatchObject({ kind: 'limited', retryAfterMs: 1 })
    await lab.setClock(tenantId, labStartMs + 30_000)
    expect((await acquire(tenantId, limits)).kind).toBe('locked')
    expect((await readMeter(lab, tenantId)).minuteLocks).toBe(1)
  })

  test('locks per minute: a clock that goes back grants no new quota', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId, { locksPerMinute: 1 })
    await lab.setClock(tenantId, labStartMs - 3_600_000)
    expect((await acquire(tenantId, { locksPerMinute: 1 })).kind).toBe('limited')
  })

  test('locks per minute: a refusal changes neither lock, count nor fence', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId, { locksPerMinute: 1 })
    const before = await readMeter(lab, tenantId)
    await acquire(tenantId, { locksPerMinute: 1 }, 'refused')
    expect(await readMeter(lab, tenantId)).toEqual(before)
    expect((await acquire(tenantId, {}, 'refused')).kind).toBe('locked')
  })

  test('locks per minute: hits and busy responses are neither counted nor limited', async () => {
    const tenantId = await lab.createTenant()
    const nothing = { locksPerMinute: 0, locksPerMonth: 0, recordBytes: 0 }
    await acquire(tenantId, {}, 'held')
    await lab.store.save(saveInput(tenantId, { key: 'saved' }))
    const before = await readMeter(lab, tenantId)
    expect((await acquire(tenantId, nothing, 'held')).kind).toBe('busy')
    expect((await acquire(tenantId, nothing, 'saved')).kind).toBe('hit')
    expect(await readMeter(lab, tenantId)).toEqual(before)
  })

  test.each([
    ['within the year', '2026-11-21T10:00:00Z', '2026-12-01T00:00:00Z'],
    ['over the year’s end', '2026-12-31T23:59:58.500Z', '2027-01-01T00:00:00Z'],
    ['over a leap day', '2028-02-28T00:00:00Z', '2028-03-01T00:00:00Z'],
  ])('locks per month: locks are refused at the limit until the month ends: %s', async (_case, now, end) => {
    const tenantId = await lab.createTenant()
    const limits = { locksPerMonth: 1 }
    await lab.setClock(tenantId, Date.parse(now))
    expect((await acquire(tenantId, limits)).kind).toBe('locked')
    expect(await acquire(tenantId, limits)).toEqual({
      kind: 'limited',
      limit: 'locksPerMonth',
      retryAfterMs: Date.parse(end) - Date.parse(now),
    })
    await lab.setClock(tenantId, Date.parse(end) - 1)
    expect((await acquire(tenantId, limits)).kind).toBe('limited')
    await lab.setClock(tenantId, Date.parse(end))
    expect((await acquire(tenantId, limits)).kind).toBe('locked')
  })
})
