import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import type { AcquireInput } from '#internal/records/store.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import {
  labStartMs,
  openRecordLab,
  type RecordLab,
  readBuckets,
  readCounted,
  readLivingBytes,
  readMeter,
} from '#test/support/records/record-lab.ts'
import type { LockLimits } from './limits.ts'

const secondMs = 1000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const unlimited: LockLimits = { locksPerMinute: null, locksPerMonth: null, recordBytes: null }

describe.each(recordDurabilities)('bytes of records and locks in %s', (durability) => {
  let lab: RecordLab
  /** Minimum bytes of an entry. */
  const entryBytes = durability === 'redis' ? 144 : 256
  const ttlMsMax = (durability === 'redis' ? 365 : 31) * dayMs
  /** Most by which the clock moves at random. In Postgres each move by days creates partitions. */
  const moveMsMax = (durability === 'redis' ? 80 : 2) * dayMs
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())

  function lockOf(tenantId: TenantId, changes: Partial<AcquireInput> = {}) {
    return lab.store.acquire({
      tenantId,
      scope: 's',
      key: 'k',
      ttlMs: dayMs,
      lockMs: minuteMs,
      lockToken: 'A',
      fingerprint: '',
      attemptId: 'a',
      waits: false,
      limits: unlimited,
      ...changes,
    })
  }

  /** Acquires a key's lock under the token `t-<key>`. */
  function acquire(tenantId: TenantId, limits: Partial<LockLimits> = {}, key = 'fresh') {
    return lockOf(tenantId, {
      key,
      lockToken: `t-${key}`,
      attemptId: '',
      limits: { ...unlimited, ...limits },
    })
  }

  function save(tenantId: TenantId, key: string, ttlMs: number, record = '{}') {
    return lab.store.save({ tenantId, scope: 's', key, lockToken: '', ttlMs, defaultTtlMs: ttlMs, record })
  }

  const meterOf = (tenantId: TenantId) => readMeter(lab, tenantId)

  const livingBytes = (tenantId: TenantId) => readLivingBytes(lab, tenantId)

  /** Makes the store read the meters without changing an entry. */
  async function touch(tenantId: TenantId): Promise<void> {
    await lab.store.remove({ tenantId, scope: 's', key: 'no such key' }, '')
  }

  test('record bytes: are the UTF-8 bytes of key and text plus a constant, and are freed when the record is removed', async () => {
    const tenantId = await lab.createTenant()
    await save(tenantId, 'ключ😀', dayMs, '{"body":"ä"}')
    const [counted] = await readCounted(lab, { tenantId, scope: 's', key: 'ключ😀' })
    const first = (await meterOf(tenantId)).bytes
    expect(first).toBe(counted?.bytes ?? Number.NaN)
    await save(tenantId, 'b', dayMs, '{"body":1}')
    await save(tenantId, 'b', dayMs, '{"body":2}')
    expect((await meterOf(tenantId)).bytes).toBe(await livingBytes(tenantId))
    await lab.store.remove({ tenantId, scope: 's', key: 'b' }, '')
    await lab.store.remove({ tenantId, scope: 's', key: 'b' }, '')
    expect((await meterOf(tenantId)).bytes).toBe(first)
  })

  const address = (tenantId: TenantId) => ({ tenantId, scope: 's', key: 'k' })

  test.each<readonly [step: string, take: (tenantId: TenantId) => Promise<unknown>]>([
    ['acquired', async () => undefined],
    ['entered again with a longer fingerprint', (t) => lockOf(t, { fingerprint: 'f'.repeat(255) })],
    ['entered again for a ttl of a week', (t) => lockOf(t, { ttlMs: 7 * dayMs })],
    ['found busy by a caller that waits', (t) => lockOf(t, { lockToken: 'B', attemptId: 'b', waits: true })],
    ['extended into another hour', (t) => lab.store.extend(address(t), 'A', 60 * minuteMs)],
    ['completed in the same hour', (t) => lab.store.save(saveOf(t, dayMs))],
    ['completed for a minute', (t) => lab.store.save(saveOf(t, minuteMs))],
    ['completed without its token', (t) => lab.store.save({ ...saveOf(t, 3 * hourMs), lockToken: '' })],
    ['released', (t) => lab.store.remove(address(t), 'A')],
    [
      'taken over by a longer attempt id',
      async (t) => {
        await lab.setClock(t, labStartMs + hourMs)
        await lockOf(t, { lockToken: 'B', attemptId: 'b'.repeat(128) })
      },
    ],
    [
      'taken over and released',
      async (t) => {
        await lab.setClock(t, labStartMs + hourMs)
        await lockOf(t, { lockToken: 'B', attemptId: 'b' })
        await lab.store.remove(address(t), 'B')
      },
    ],
  ])(
    'record bytes: follow a lock that is %s, and are freed when its entry has expired',
    async (_step, take) => {
      const tenantId = await lab.createTenant()
      expect((await lockOf(tenantId)).kind).toBe('locked')
      expect((await meterOf(tenantId)).bytes).toBeGreaterThan(entryBytes)
      await take(tenantId)
      expect((await meterOf(tenantId)).bytes).toBe(await livingBytes(tenantId))
      const living = await livingBytes(tenantId)
      expect(await readBuckets(lab, tenantId)).toEqual(living > 0 ? [living] : [])
      await lab.setClock(tenantId, labStartMs + 9 * dayMs)
      await touch(tenantId)
      expect((await meterOf(tenantId)).bytes).toBe(0)
    },
  )

  const saveOf = (tenantId: TenantId, ttlMs: number) => ({
    ...address(tenantId),
    lockToken: 'A',
    ttlMs,
    defaultTtlMs: ttlMs,
    record: '{}',
  })

  test('record bytes: never exceed the limit through locks, and a lock is granted again after bytes are freed', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId, {}, 'k-00')
    const each = (await meterOf(tenantId)).bytes
    const limits = { recordBytes: 3 * each }
    expect((await acquire(tenantId, limits, 'k-01')).kind).toBe('locked')
    expect(await acquire(tenantId, { recordBytes: 3 * each - 1 }, 'k-02')).toMatchObject({ kind: 'limited' })
    expect((await acquire(tenantId, limits, 'k-02')).kind).toBe('locked')
    expect(await acquire(tenantId, limits, 'k-03')).toEqual({
      kind: 'limited',
      limit: 'recordBytes',
      retryAfterMs: 30_000,
    })
    await lab.store.remove({ tenantId, scope: 's', key: 'k-00' }, 't-k-00')
    expect((await acquire(tenantId, limits, 'k-03')).kind).toBe('locked')
    expect((await meterOf(tenantId)).bytes).toBe(3 * each)
  })

  test('record bytes: at the limit, a lock can be taken over by a lock of the same size, but not by a longer one', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId, {}, 'k-1')
    const limits = { recordBytes: (await meterOf(tenantId)).bytes }
    await lab.setClock(tenantId, labStartMs + minuteMs)
    const longer = { lockToken: 'B', attemptId: 'b'.repeat(9), limits: { ...unlimited, ...limits } }
    expect(await lockOf(tenantId, { ...longer, key: 'k-1' })).toMatchObject({ kind: 'limited' })
    expect(await acquire(tenantId, limits, 'k-1')).toMatchObject({ kind: 'locked', lockToken: 't-k-1' })
    await lab.setClock(tenantId, labStartMs + 2 * minuteMs)
    const same = { ...longer, attemptId: '', lockToken: 't-k-2', key: 'k-1' }
    expect(await lockOf(tenantId, same)).toMatchObject({ kind: 'locked', takenOver: true })
  })

  test('record bytes: at the limit, hits, busy responses, re-entries, extensions and late saves are not refused', async () => {
    const tenantId = await lab.createTenant()
    const limits = { ...unlimited, recordBytes: 1 }
    await save(tenantId, 'saved', dayMs)
    await lockOf(tenantId)
    expect((await lockOf(tenantId, { lockToken: 'B', attemptId: 'b', limits })).kind).toBe('busy')
    expect((await lockOf(tenantId, { lockToken: 'B', attemptId: 'a', limits })).kind).toBe('locked')
    expect((await acquire(tenantId, limits, 'saved')).kind).toBe('hit')
    expect((await acquire(tenantId, limits, 'new')).kind).toBe('limited')
    expect((await lab.store.extend(address(tenantId), 'A', null)).kind).toBe('extended')
    await lab.setClock(tenantId, labStartMs + hourMs)
    expect((await lab.store.save(saveOf(tenantId, dayMs))).kind).toBe('saved')
    expect((await save(tenantId, 'without a lock', dayMs)).kind).toBe('saved')
    expect((await meterOf(tenantId)).bytes).toBe(await livingBytes(tenantId))
  })

  test('record bytes: at the limit, re-entries with maximum fields keep the earlier fingerprint and attempt id', async () => {
    const tenantId = await lab.createTenant()
    const limits = { ...unlimited, recordBytes: 20_000 }
    const lockMs = 9 * secondMs
    const taken: string[] = []
    for (let nth = 0; nth < 200; nth += 1) {
      const key = `k-${nth}`
      const { kind } = await lockOf(tenantId, { key, lockMs, lockToken: key, attemptId: '', limits })
      if (kind === 'limited') break
      taken.push(key)
    }
    const full = (await meterOf(tenantId)).bytes
    expect([taken.length > 50, taken.length < 200, full <= limits.recordBytes]).toEqual([true, true, true])
    const longest = {
      fingerprint: 'f'.repeat(255),
      attemptId: 'a'.repeat(128),
      lockMs: hourMs,
      ttlMs: 7 * dayMs,
    }
    for (const key of taken) {
      expect((await lockOf(tenantId, { key, lockToken: key, ...longest, limits })).kind).toBe('locked')
    }
    const { bytes } = await meterOf(tenantId)
    // Longer durations add digits: 1 for ttlMs and 3 for lockMs. The remaining bytes fit at most one long entry.
    expect(bytes).toBeLessThanOrEqual(limits.recordBytes + 4 * taken.length)
    expect(bytes).toBe(await livingBytes(tenantId))
    const other = { lockToken: 'other', attemptId: longest.attemptId, fingerprint: 'g', limits }
    expect((await lockOf(tenantId, { ...other, key: taken.at(-1) ?? '' })).kind).toBe('busy')
  })

  test.each([
    ['a short life', 5 * minuteMs, 6 * minuteMs],
    ['two hours', 2 * hourMs, 2 * hourMs + minuteMs],
    ['over two hours, by the hour', 3 * hourMs, 4 * hourMs],
    ['a month', 30 * dayMs, 30 * dayMs + hourMs],
    ['the longest ttl', ttlMsMax, ttlMsMax + hourMs],
  ])('record bytes: are freed when the record has expired: %s', async (_case, ttlMs, laterMs) => {
    const tenantId = await lab.createTenant()
    await save(tenantId, 'a', ttlMs)
    await lab.setClock(tenantId, labStartMs + ttlMs - 31 * secondMs)
    await touch(tenantId)
    expect((await meterOf(tenantId)).bytes).toBe(await livingBytes(tenantId))
    await lab.setClock(tenantId, labStartMs + laterMs)
    await touch(tenantId)
    expect((await meterOf(tenantId)).bytes).toBe(0)
  })

  test.each([
    ['an hour and a half', 5 * minuteMs, 90 * minuteMs],
    ['the longest ttl', ttlMsMax - dayMs, ttlMsMax],
  ])('record bytes: are freed by the first call after a silence of %s', async (_case, ttlMs, laterMs) => {
    const tenantId = await lab.createTenant()
    await save(tenantId, 'a', ttlMs)
    await lab.setClock(tenantId, labStartMs + laterMs)
    await touch(tenantId)
    expect((await meterOf(tenantId)).bytes).toBe(0)
    expect(await readBuckets(lab, tenantId)).toEqual([])
  })

  test('record bytes: bytes of entries written while the clock was set back are also freed', async () => {
    const tenantId = await lab.createTenant()
    await touch(tenantId)
    await lab.setClock(tenantId, labStartMs - 5 * hourMs)
    await save(tenantId, 'short', minuteMs)
    await save(tenantId, 'long', 3 * hourMs)
    await lab.setClock(tenantId, labStartMs - 3 * dayMs)
    await acquire(tenantId)
    await lab.setClock(tenantId, labStartMs + hourMs)
    await touch(tenantId)
    expect((await meterOf(tenantId)).bytes).toBe(0)
  })

  test('record bytes: are never negative, never less than the live entries, and all freed in the end', async () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('save' as const),
        key: fc.nat(9),
        ttlMs: fc.integer({ min: 1, max: 30 * 24 * 60 }).map((m) => m * minuteMs),
      }),
      fc.record({
        do: fc.constant('lock' as const),
        key: fc.nat(9),
        ttlMs: fc.integer({ min: 1, max: 10 * 24 * 60 }).map((m) => m * minuteMs),
      }),
      fc.record({ do: fc.constant('remove' as const), key: fc.nat(9) }),
      fc.record({
        do: fc.constant('move' as const),
        byMs: fc.integer({ min: -3 * 60, max: moveMsMax / minuteMs }).map((m) => m * minuteMs),
      }),
      fc.record({
        do: fc.constant('move' as const),
        byMs: fc.integer({ min: 1, max: 90 }).map((m) => m * minuteMs),
      }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (taken) => {
        const tenantId = await lab.createTenant()
        let nowMs = labStartMs
        const endsMs = new Map<number, number>()
        const recordEndsMs = new Map<number, number>()
        for (const one of taken) {
          const key = one.do === 'move' ? '' : `${one.key}`
          if (one.do === 'move') await lab.setClock(tenantId, (nowMs += one.byMs))
          else if (one.do === 'remove') {
            if (await lab.store.remove({ tenantId, scope: 's', key }, '')) {
              endsMs.delete(one.key)
              recordEndsMs.delete(one.key)
            }
          } else if (one.do === 'lock') {
            const { kind } = await lockOf(tenantId, { key, ttlMs: one.ttlMs, attemptId: '' })
            const traceMs = Math.min(Math.max(one.ttlMs, dayMs), 7 * dayMs)
            if (kind === 'locked') endsMs.set(one.key, nowMs + minuteMs + traceMs)
          } else if ((await save(tenantId, key, one.ttlMs, `"${nowMs}"`)).kind === 'saved') {
            // A repeated save does not make the record live longer.
            const isRepeat = (recordEndsMs.get(one.key) ?? 0) > nowMs
            if (!isRepeat) endsMs.set(one.key, nowMs + one.ttlMs)
            if (!isRepeat) recordEndsMs.set(one.key, nowMs + one.ttlMs)
          }
          await touch(tenantId)
          const living = [...endsMs.values()].filter((endMs) => endMs > nowMs)
          const { bytes } = await meterOf(tenantId)
          expect(bytes).toBeGreaterThanOrEqual(hasGoneBack(taken) ? 0 : living.length * entryBytes)
        }
        await lab.setClock(tenantId, labStartMs + 20_000 * dayMs)
        await touch(tenantId)
        expect((await meterOf(tenantId)).bytes).toBe(0)
        expect(await readBuckets(lab, tenantId)).toEqual([])
      }),
      { numRuns: 25 },
    )
  })

  // After the clock went back, a record can live longer than its bucket.
  const hasGoneBack = (taken: readonly { do: string; byMs?: number }[]) =>
    taken.some(({ byMs = 0 }) => byMs < 0)
})
