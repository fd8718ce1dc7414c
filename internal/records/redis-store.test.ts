import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { RedisUnavailable } from '#internal/storage/index.ts'
import { slotOf } from '#internal/storage/redis/slot-map.ts'
import { type LockLimits, meterKeys } from '#internal/usage/index.ts'
import { labStartMs, openRecordLab, type RecordLab, readMeter } from '#test/support/records/record-lab.ts'
import { acquireInput, createSteps, lockMs, ttlMs } from '#test/support/records/record-steps.ts'
import { entryKey, wakeChannel } from './store.ts'

let lab: RecordLab
const { states, steps, readState } = createSteps(() => lab)
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

test('fence: grows after the store has lost all data of the tenant', async () => {
  const tenantId = await lab.createTenant()
  const first = await lab.store.acquire(acquireInput(tenantId))
  await lab.raw.del(`{${tenantId}}:meta`, `{${tenantId}}:side`, entryKey(acquireInput(tenantId)))
  await lab.setClock(tenantId, labStartMs + 1)
  const second = await lab.store.acquire(acquireInput(tenantId))
  if (first.kind !== 'locked' || second.kind !== 'locked') throw new Error('not locked')
  expect(second.fence).toBeGreaterThan(first.fence)
})
test('keys: all keys of a tenant stay on one shard, regardless of their content', async () => {
  const tenantId = await lab.createTenant()
  const slots = new Set<number>()
  for (const key of ['k', '{x}', '}{', 'a}b{c}']) {
    slots.add(slotOf(entryKey({ tenantId, scope: '{s}', key })))
  }
  for (const key of [...Object.values(meterKeys(tenantId)), wakeChannel(tenantId)]) {
    slots.add(slotOf(key))
  }
  expect(slots.size).toBe(1)
})

describe('lock in an unknown format, as another version may have written', () => {
  const foreign = `L\n${labStartMs + lockMs}\nA\n1\n${ttlMs}\n${lockMs}\n0\n0\na\nf1`

  test.each([
    ['acquire', 'locked N, taken over', 'held by N, taken over'],
    ['acquire, attempt a', 'locked N, taken over', 'held by N, taken over'],
    ['save as A', 'lost', 'same'],
    ['save without token', 'saved', 'record of nobody: r1'],
    ['remove', 'nothing', 'same'],
    ['release as A', 'nothing', 'same'],
    ['extend as A', 'lost', 'same'],
    ['fetch', 'none', 'same'],
  ])('lock in an unknown format: "%s" returns "%s"', async (step, outcome, next) => {
    const tenantId = await lab.createTenant()
    await lab.raw.set(entryKey(acquireInput(tenantId)), foreign)
    expect(await steps[step]?.(tenantId)).toBe(outcome)
    if (next === 'same') expect(await lab.raw.get(entryKey(acquireInput(tenantId)))).toBe(foreign)
    else expect(await readState(tenantId)).toBe(next)
  })
})

describe('lost data', () => {
  test.each(Object.keys(steps))(
    'lost data: "%s" first creates the meters from Postgres and then returns the same as for a new key',
    async (step) => {
      const tenantId = await lab.createTenant()
      const fresh = await lab.createTenant()
      await states['held by A']?.(tenantId)
      await lab.raw.del(`{${tenantId}}:meta`, `{${tenantId}}:side`, entryKey(acquireInput(tenantId)))
      expect(await steps[step]?.(tenantId)).toBe((await steps[step]?.(fresh)) ?? 'no such step')
      expect(await lab.raw.exists(`{${tenantId}}:meta`)).toBe(true)
    },
  )

  test.each([
    ['an entry', 0],
    ['a record that was replayed before', 2],
  ])('lost data: %s is returned only after lost meters are created from Postgres', async (_case, replays) => {
    const tenantId = await lab.createTenant()
    await states['record of A']?.(tenantId)
    for (let nth = 0; nth < replays; nth += 1) await lab.store.acquire(acquireInput(tenantId))
    await lab.raw.del(`{${tenantId}}:meta`)
    expect((await lab.store.acquire(acquireInput(tenantId))).kind).toBe('hit')
    expect(await lab.raw.exists(`{${tenantId}}:meta`)).toBe(true)
  })

  test('lost data: a closed connection throws RedisUnavailable and never returns an outcome', async () => {
    const closed = await openRecordLab()
    const tenantId = await closed.createTenant()
    await closed.close()
    await expect(closed.store.acquire(acquireInput(tenantId))).rejects.toBeInstanceOf(RedisUnavailable)
  })
})

describe('acquisitions that share a script', () => {
  const acquireAll = (tenantId: TenantId, limits: Partial<LockLimits>, count = 20) =>
    Promise.all(
      Array.from({ length: count }, (_, nth) => {
        const changes = { key: `k-${nth}`, lockToken: `T${nth}` }
        const { limits: none } = acquireInput(tenantId)
        return lab.store.acquire(acquireInput(tenantId, { ...changes, limits: { ...none, ...limits } }))
      }),
    )

  test('shared script: each caller gets the lock of its own key, with a fence of its own', async () => {
    const tenantId = await lab.createTenant()
    const outcomes = await acquireAll(tenantId, {})
    expect(outcomes.map((outcome) => outcome.kind === 'locked' && outcome.lockToken)).toEqual(
      Array.from({ length: 20 }, (_, nth) => `T${nth}`),
    )
    expect(new Set(outcomes.map((outcome) => outcome.kind === 'locked' && outcome.fence)).size).toBe(20)
    expect((await readMeter(lab, tenantId)).minuteLocks).toBe(20)
  })

  test('shared script: of acquisitions of one key, one gets the lock and the others are busy', async () => {
    const tenantId = await lab.createTenant()
    const inputs = Array.from({ length: 20 }, (_, nth) => acquireInput(tenantId, { lockToken: `T${nth}` }))
    const outcomes = await Promise.all(inputs.map((input) => lab.store.acquire(input)))
    expect(outcomes.filter(({ kind }) => kind === 'locked').length).toBe(1)
    expect(outcomes.filter(({ kind }) => kind === 'busy').length).toBe(19)
  })

  test.each([
    ['locksPerMinute', { locksPerMinute: 5 }, 5],
    ['recordBytes', { recordBytes: 1500 }, 5],
  ])('shared script: limit %s is exact, and refused locks do not count', async (limit, limits, granted) => {
    const tenantId = await lab.createTenant()
    const outcomes = await acquireAll(tenantId, limits)
    expect(outcomes.filter(({ kind }) => kind === 'locked').length).toBe(granted)
    expect(outcomes.filter((outcome) => outcome.kind === 'limited' && outcome.limit === limit).length).toBe(
      20 - granted,
    )
    expect(await readMeter(lab, tenantId)).toMatchObject({ minuteLocks: granted, monthLocks: granted })
  })
})

test('records in Redis: if script and creation of meters are slow, a call is refused within a second and gets no lock later', async () => {
  const tenantId = await lab.createTenant()
  const blocker = await lab.pool.connect()
  await blocker.query('BEGIN')
  await blocker.query('LOCK TABLE usage_hourly IN ACCESS EXCLUSIVE MODE')
  await lab.raw.send('CLIENT', ['PAUSE', '500', 'ALL'])
  const startedAt = performance.now()
  await expect(lab.store.acquire(acquireInput(tenantId))).rejects.toMatchObject({ reason: 'timeout' })
  expect(performance.now() - startedAt).toBeWithin(500, 1000)
  const seeding = lab.meter.seed(tenantId)
  await blocker.query('COMMIT')
  blocker.release()
  await seeding
  expect(await lab.store.fetch(acquireInput(tenantId))).toEqual({ kind: 'none' })
  expect(await lab.raw.exists(entryKey(acquireInput(tenantId)))).toBe(false)
})
