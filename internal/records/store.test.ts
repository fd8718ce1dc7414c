import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import {
  acquireInput,
  createSteps,
  lockMs,
  millisecondsLeft,
  result,
  saveInput,
} from '#test/support/records/record-steps.ts'
import { type AcquireInput, RecentKeys } from './store.ts'

/** In each state: the step, its outcome, and the state after it. `same` is the state before. */
const table: Record<string, readonly (readonly [step: string, outcome: string, next: string])[]> = {
  'no entry': [
    ['acquire', 'locked N', 'held by N'],
    ['acquire, attempt a', 'locked N', 'held by N'],
    ['acquire, token A again', 'locked A', 'held by A'],
    ['acquire, no fingerprint', 'locked N', 'held by N'],
    ['save as A', 'lost', 'same'],
    ['save without token', 'saved', 'record of nobody: r1'],
    ['remove', 'nothing', 'same'],
    ['release as A', 'nothing', 'same'],
    ['extend as A', 'lost', 'same'],
    ['fetch', 'none', 'same'],
  ],
  'held by A': [
    ['acquire', 'busy', 'same'],
    ['acquire, attempt a', 'locked A', 'same'],
    ['acquire, attempt b', 'busy', 'same'],
    ['acquire, token A again', 'locked A', 'same'],
    ['acquire, other fingerprint', 'mismatch', 'same'],
    ['acquire, own attempt, other fingerprint', 'mismatch', 'same'],
    ['acquire, no fingerprint', 'busy', 'same'],
    ['save as A', 'saved', 'record of A: r1'],
    ['save as nobody known', 'lost', 'same'],
    ['save without token', 'saved', 'record of A: r1'],
    ['remove', 'nothing', 'same'],
    ['release as A', 'existed', 'none'],
    ['release as B', 'nothing', 'same'],
    ['extend as A', 'extended', 'same'],
    ['extend as B', 'lost', 'same'],
    ['fetch', 'none', 'same'],
  ],
  'over, A': [
    ['acquire', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt a', 'locked A', 'held by A'],
    ['acquire, token A again', 'locked A', 'held by A'],
    ['acquire, other fingerprint', 'mismatch', 'same'],
    ['acquire, no fingerprint', 'locked N, taken over', 'held by N, taken over'],
    ['save as A', 'saved', 'record of A: r1'],
    ['save as nobody known', 'lost', 'same'],
    ['save without token', 'saved', 'record of A: r1'],
    ['remove', 'nothing', 'same'],
    ['release as A', 'existed', 'none'],
    ['extend as A', 'extended', 'held by A'],
    ['extend as B', 'lost', 'same'],
    ['fetch', 'none', 'same'],
  ],
  'taken over by B': [
    ['acquire', 'busy', 'same'],
    ['acquire, attempt a', 'busy', 'same'],
    ['acquire, attempt b', 'locked B, taken over', 'same'],
    ['acquire, token A again', 'busy', 'same'],
    ['acquire, other fingerprint', 'mismatch', 'same'],
    ['save as A', 'lost', 'same'],
    ['save as B', 'saved', 'record of B: r1'],
    ['save without token', 'saved', 'record of B: r1'],
    ['remove', 'nothing', 'same'],
    ['release as A', 'nothing', 'same'],
    ['release as B', 'existed', 'released'],
    ['extend as A', 'lost', 'same'],
    ['extend as B', 'extended', 'same'],
    ['fetch', 'none', 'same'],
  ],
  'taken over, B over too': [
    ['acquire', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt a', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt b', 'locked B, taken over', 'held by B, taken over'],
    ['save as A', 'lost', 'same'],
    ['save as B', 'saved', 'record of B: r1'],
    ['release as B', 'existed', 'released'],
    ['extend as B', 'extended', 'held by B, taken over'],
  ],
  'released by B': [
    ['acquire', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt a', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt b', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, other fingerprint', 'mismatch', 'same'],
    ['acquire, no fingerprint', 'locked N, taken over', 'held by N, taken over'],
    ['save as A', 'lost', 'same'],
    ['save as B', 'lost', 'same'],
    ['save without token', 'saved', 'record of nobody: r1'],
    ['remove', 'nothing', 'same'],
    ['release as B', 'nothing', 'same'],
    ['extend as B', 'lost', 'same'],
    ['fetch', 'none', 'same'],
  ],
  'record of A': [
    ['acquire', 'hit r1', 'same'],
    ['acquire, attempt a', 'hit r1', 'same'],
    ['acquire, token A again', 'hit r1', 'same'],
    ['acquire, other fingerprint', 'mismatch', 'same'],
    ['acquire, no fingerprint', 'hit r1', 'same'],
    ['save as A', 'saved', 'same'],
    ['save as nobody known', 'lost', 'same'],
    ['save without token', 'saved', 'same'],
    ['save another as A', 'exists', 'same'],
    ['save another without token', 'exists', 'same'],
    ['remove', 'existed', 'none'],
    ['release as A', 'nothing', 'same'],
    ['extend as A', 'lost', 'same'],
    ['fetch', 'hit r1', 'same'],
  ],
  'record of nobody': [
    ['acquire', 'hit r1', 'same'],
    ['acquire, other fingerprint', 'hit r1', 'same'],
    ['save as A', 'lost', 'same'],
    ['save without token', 'saved', 'same'],
    ['save another without token', 'exists', 'same'],
    ['remove', 'existed', 'none'],
    ['fetch', 'hit r1', 'same'],
  ],
}

describe.each(recordDurabilities)('records in %s', (durability) => {
  let lab: RecordLab
  /** Largest distance between consecutive fences of one microsecond. In Postgres, the remainder by 16 is the stripe. */
  const fenceStep = durability === 'redis' ? 1 : 16
  const { states, steps, readState } = createSteps(() => lab)
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())

  describe('state table', () => {
    const rows = Object.entries(table).flatMap(([state, cells]) =>
      cells.map((cell) => [state, ...cell] as const),
    )
    test.each(rows)(
      'record store: in state "%s", "%s" returns "%s" and changes the state to "%s"',
      async (state, step, outcome, next) => {
        const tenantId = await lab.createTenant()
        await states[state]?.(tenantId)
        const before = await readState(tenantId)
        expect(await steps[step]?.(tenantId)).toBe(outcome)
        expect(await readState(tenantId)).toBe(next === 'same' ? before : next)
      },
    )
  })

  async function acquired(input: AcquireInput) {
    const outcome = await lab.store.acquire(input)
    if (outcome.kind !== 'locked') throw new Error(`not locked but ${outcome.kind}`)
    return outcome
  }

  describe('acquisition', () => {
    test('acquisition: returns the caller’s token, the duration of the lock, and the time in µs as fence', async () => {
      const tenantId = await lab.createTenant()
      const outcome = await acquired(acquireInput(tenantId))
      expect(outcome.fence).toBeWithin(labStartMs * 1000, labStartMs * 1000 + fenceStep)
      expect(outcome).toEqual({
        kind: 'locked',
        lockToken: 'N',
        fence: expect.any(Number),
        expiresInMs: lockMs,
        takenOver: false,
      })
    })

    test('acquisition: a busy key returns the remaining duration of its lock', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A' }))
      await lab.setClock(tenantId, labStartMs + 20_000)
      expect(await lab.store.acquire(acquireInput(tenantId))).toEqual({ kind: 'busy', remainingMs: 40_000 })
    })

    test('acquisition: a re-entry keeps the fence of its lock, extends the lock to `lockMs` from now, and is not counted again', async () => {
      const tenantId = await lab.createTenant()
      const input = acquireInput(tenantId, { attemptId: 'a' })
      const first = await acquired({ ...input, lockToken: 'A' })
      await lab.setClock(tenantId, labStartMs + 20_000)
      const limits = { locksPerMinute: 1, locksPerMonth: 1, recordBytes: 1 }
      const again = await acquired({ ...input, limits, lockToken: 'B' })
      expect(again).toEqual(first)
      expect(await lab.store.acquire(acquireInput(tenantId))).toEqual({ kind: 'busy', remainingMs: lockMs })
    })

    test('acquisition: a takeover without a fingerprint keeps the fingerprint of the lock', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A' }))
      await lab.setClock(tenantId, labStartMs + lockMs)
      await acquired(acquireInput(tenantId, { fingerprint: '' }))
      expect((await lab.store.acquire(acquireInput(tenantId, { fingerprint: 'f2' }))).kind).toBe('mismatch')
    })

    test('acquisition: a released key can be locked immediately even if the clock has gone back', async () => {
      const tenantId = await lab.createTenant()
      await states['released by B']?.(tenantId)
      await lab.setClock(tenantId, labStartMs)
      expect((await acquired(acquireInput(tenantId))).takenOver).toBe(true)
    })
  })

  describe('fence', () => {
    test('fence: grows from one key to the next within one microsecond', async () => {
      const tenantId = await lab.createTenant()
      let last = labStartMs * 1000 - 1
      for (const key of ['a', 'b', 'c']) {
        const { fence } = await acquired(acquireInput(tenantId, { key }))
        expect(fence).toBeWithin(last + 1, last + 1 + fenceStep)
        last = fence
      }
    })

    test('fence: grows when the clock goes back by a day', async () => {
      const tenantId = await lab.createTenant()
      const first = await acquired(acquireInput(tenantId, { key: 'a' }))
      await lab.setClock(tenantId, labStartMs - 86_400_000)
      const second = await acquired(acquireInput(tenantId, { key: 'b' }))
      expect(second.fence).toBeWithin(first.fence + 1, first.fence + 1 + fenceStep)
    })

    test('fence: grows after a save without a lock', async () => {
      const tenantId = await lab.createTenant()
      const first = await acquired(acquireInput(tenantId, { key: 'a' }))
      await lab.store.save(saveInput(tenantId, { key: 'b' }))
      const third = await acquired(acquireInput(tenantId, { key: 'c' }))
      expect(third.fence).toBeWithin(first.fence + 2, first.fence + 2 + 2 * fenceStep)
    })
  })

  describe('save', () => {
    test('save: the record inherits ttl and fingerprint of the lock', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A', ttlMs: 500_000 }))
      await lab.store.save(saveInput(tenantId, { lockToken: 'A' }))
      expect(await millisecondsLeft(lab, tenantId)).toBeWithin(490_000, 500_001)
      expect((await lab.store.acquire(acquireInput(tenantId, { fingerprint: 'f2' }))).kind).toBe('mismatch')
    })

    test.each([
      [
        'the ttl of the save, which overrides the ttl of the lock',
        { lockToken: 'A', ttlMs: 900_000 },
        900_000,
      ],
      ['the default ttl without a lock', { key: 'other' }, 86_400_000],
      ['its own ttl without a lock', { key: 'other', ttlMs: 300_000 }, 300_000],
    ] as const)('save: the record lives for %s', async (_case, changes, livesMs) => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A' }))
      await lab.store.save(saveInput(tenantId, changes))
      const left = await millisecondsLeft(lab, tenantId, saveInput(tenantId, changes).key)
      expect(left).toBeWithin(livesMs - 10_000, livesMs + 1)
    })

    test('save: a save without a lock counts towards usage, but is never refused because of usage', async () => {
      const tenantId = await lab.createTenant()
      const limits = { locksPerMinute: 1, locksPerMonth: null, recordBytes: null }
      await acquired(acquireInput(tenantId, { key: 'a', limits }))
      expect((await lab.store.save(saveInput(tenantId, { key: 'b' }))).kind).toBe('saved')
      const over = await lab.store.acquire(
        acquireInput(tenantId, { key: 'c', limits: { ...limits, locksPerMinute: 2 } }),
      )
      expect(over.kind).toBe('limited')
    })

    test('save: a save by a late holder does not change the lock of the next holder', async () => {
      const tenantId = await lab.createTenant()
      await states['taken over by B']?.(tenantId)
      expect((await lab.store.save(saveInput(tenantId, { lockToken: 'A' }))).kind).toBe('lost')
      expect(await readState(tenantId)).toBe('held by B, taken over')
    })

    test.each([
      ['a body of 4 MiB', `"${'x'.repeat(4 << 20)}"`],
      ['letters of every width and line breaks as text', '"äß€😀 \\n \\u0000"'],
      ['received white space with real line breaks', '{\n "a" :\r\n 1.10 }'],
      ['a number beyond doubles', '820982911946154508'],
    ])('save: keeps %s', async (_case, body) => {
      const tenantId = await lab.createTenant()
      const record = `{"status":200,"headers":{},"body":${body}}`
      await lab.store.save(saveInput(tenantId, { record }))
      expect(await lab.store.fetch(acquireInput(tenantId))).toEqual({ kind: 'hit', record })
    })
  })

  describe('expiry of entries', () => {
    const dayMs = 86_400_000

    test.each([
      ['duration plus a day for a ttl under a day', { lockMs: 60_000, ttlMs: 7_200_000 }, 60_000 + dayMs],
      ['a second plus a day for a ttl of a second', { lockMs: 1000, ttlMs: 1000 }, 1000 + dayMs],
      [
        'duration plus three days for a ttl of three days',
        { lockMs: 60_000, ttlMs: 3 * dayMs },
        60_000 + 3 * dayMs,
      ],
      [
        'duration plus a week for a ttl of a month',
        { lockMs: 900_000, ttlMs: 30 * dayMs },
        900_000 + 7 * dayMs,
      ],
    ])('expiry: the entry of a lock is kept for the expected time: %s', async (_case, changes, livesMs) => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, changes))
      expect(await millisecondsLeft(lab, tenantId)).toBeWithin(livesMs - 10_000, livesMs + 1)
    })

    test('expiry: an extended lock is held for the requested duration from now on', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A' }))
      await lab.setClock(tenantId, labStartMs + lockMs - 1)
      const address = acquireInput(tenantId)
      expect(await lab.store.extend(address, 'A', 300_000)).toMatchObject({ expiresInMs: 300_000 })
      expect(await lab.store.acquire(address)).toEqual({ kind: 'busy', remainingMs: 300_000 })
      expect(await millisecondsLeft(lab, tenantId)).toBeWithin(290_000 + dayMs, 300_001 + dayMs)
      expect(await lab.store.extend(address, 'A', null)).toMatchObject({ expiresInMs: lockMs })
    })

    test.each([
      ['re-entered by its attempt', { attemptId: 'a', lockToken: 'B' }],
      ['waited for', { waits: true, lockToken: 'B' }],
    ])(
      'expiry: the entry of a lock that is %s is kept for the lock’s duration plus a day',
      async (_case, changes) => {
        const tenantId = await lab.createTenant()
        await acquired(acquireInput(tenantId, { attemptId: 'a', lockToken: 'A', ttlMs: 1000, lockMs: 1000 }))
        await lab.store.acquire(acquireInput(tenantId, { ttlMs: 1000, lockMs: 1000, ...changes }))
        expect(await millisecondsLeft(lab, tenantId)).toBeWithin(dayMs - 9_000, dayMs + 1001)
      },
    )

    test('expiry: after the release of a lock that was taken over, its tombstone is kept for a day', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A', ttlMs: 1000, lockMs: 1000 }))
      await lab.setClock(tenantId, labStartMs + 2600)
      const second = await acquired(acquireInput(tenantId, { lockToken: 'B', ttlMs: 1000, lockMs: 1000 }))
      expect(second.takenOver).toBe(true)
      await lab.store.remove(acquireInput(tenantId), 'B')
      expect(await millisecondsLeft(lab, tenantId)).toBeWithin(dayMs - 10_000, dayMs + 1)
      expect((await acquired(acquireInput(tenantId))).takenOver).toBe(true)
    })

    test('expiry: a record lives for the ttl of its lock, also when its holder saves a minute late', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A', ttlMs: 30_000, lockMs: 1000 }))
      await lab.setClock(tenantId, labStartMs + 60_000)
      expect(await lab.store.save(saveInput(tenantId, { lockToken: 'A' }))).toEqual({ kind: 'saved' })
      expect(await millisecondsLeft(lab, tenantId)).toBeWithin(20_000, 30_001)
    })

    test('expiry: an extension never lasts longer than the ttl', async () => {
      const tenantId = await lab.createTenant()
      await acquired(acquireInput(tenantId, { lockToken: 'A', ttlMs: 80_000 }))
      expect(await lab.store.extend(acquireInput(tenantId), 'A', 900_000)).toMatchObject({
        expiresInMs: 80_000,
      })
    })
  })

  describe('keys', () => {
    test('keys: similar pairs of scope and key do not collide', async () => {
      const tenantId = await lab.createTenant()
      const pairs = [
        ['a', 'b:c'],
        ['a:b', 'c'],
        ['{a}', 'b'],
        ['a', '{b}'],
        ['ä', '😀'],
        ['a\u0308', '😀'],
        ['orders', ' '],
        [' ', 'orders'],
      ] as const
      for (const [scope, key] of pairs) {
        const record = result(`${scope}/${key}`)
        expect((await lab.store.save(saveInput(tenantId, { scope, key, record }))).kind).toBe('saved')
      }
      for (const [scope, key] of pairs) {
        const found = await lab.store.fetch({ tenantId, scope, key })
        expect(found).toEqual({ kind: 'hit', record: result(`${scope}/${key}`) })
      }
    })

    test('keys: keys of two tenants do not collide', async () => {
      const [one, two] = [await lab.createTenant(), await lab.createTenant()]
      await lab.store.save(saveInput(one))
      expect(await lab.store.fetch(acquireInput(two))).toEqual({ kind: 'none' })
    })
  })
})

test('RecentKeys: keeps the latest keys, and never more than the maximum', () => {
  const keys = new RecentKeys<number>(10)
  for (let n = 0; n < 1_000; n += 1) keys.set(`key ${n}`, n)
  const remembered = Array.from({ length: 1_000 }, (_, n) => n).filter((n) => keys.get(`key ${n}`) === n)
  expect(remembered.length).toBeLessThanOrEqual(10)
  expect(remembered.slice(-5)).toEqual([995, 996, 997, 998, 999])
})

test('RecentKeys: a deleted key is not found again, whether it was old or new', () => {
  const keys = new RecentKeys<number>(4)
  for (const key of ['a', 'b', 'c']) keys.set(key, 1)
  for (const key of ['a', 'c']) keys.delete(key)
  expect(['a', 'b', 'c'].map((key) => keys.get(key) === 1)).toEqual([false, true, false])
})
