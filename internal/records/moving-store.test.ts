import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eq } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { orm } from '#internal/storage/index.ts'
import { endMove, type RecordDurability, recordDurabilities } from '#internal/tenants/index.ts'
import { usualCases } from '#test/support/nightly.ts'
import { builtInLimits } from '#test/support/records/built-in-limits.ts'
import { simulateCallers } from '#test/support/records/record-callers.ts'
import { findViolations } from '#test/support/records/record-history.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import {
  createTenantIn,
  MovingProcesses,
  moveRecords,
  storeNow,
  viewOf,
} from '#test/support/records/record-moves.ts'
import { acquireInput, lockMs, result, saveInput } from '#test/support/records/record-steps.ts'
import { testSeed } from '#test/support/seed.ts'
import { directoryTenant } from '#test/support/tenants/directory-tenant.ts'
import { acquireRecord } from './acquire.ts'
import { findLastFence } from './durable-store.ts'
import type { LockNote } from './lock-history.ts'
import { chooseRecordStore } from './moving-store.ts'
import { type AcquireInput, entryKey, type RecordStore, type SaveInput } from './store.ts'
import { recordEntries } from './tables.ts'

let lab: RecordLab
const notes: { readonly tenantId: TenantId; readonly note: LockNote }[] = []
beforeAll(async () => {
  lab = await openRecordLab({ note: ({ tenantId }, note) => notes.push({ tenantId, note }) })
}, 30_000)
afterAll(() => lab.close())

const minuteMs = 60_000
/** Limits that refuse a lock in the store that would grant it. */
const refused = { locksPerMinute: null, locksPerMonth: 0, recordBytes: null }

async function hasEntry(store: RecordDurability, tenantId: TenantId, key = 'k-1'): Promise<boolean> {
  if (store === 'redis') return lab.raw.exists(entryKey({ tenantId, scope: 'orders', key }))
  const text = 'SELECT FROM record_entries WHERE tenant_id = $1 AND key = $2'
  return ((await lab.pool.query(text, [tenantId, key])).rowCount ?? 0) > 0
}

/** Returns true if a caller waits for the lock, otherwise undefined. */
async function isWaited(store: RecordDurability, tenantId: TenantId): Promise<true | undefined> {
  if (store === 'redis') {
    const entry = await lab.raw.get(entryKey({ tenantId, scope: 'orders', key: 'k-1' }))
    return entry?.split('\n')[7] === '1' || undefined
  }
  const { isWaited, tenantId: owner } = recordEntries
  const [row] = await orm(lab.pool).select({ isWaited }).from(recordEntries).where(eq(owner, tenantId))
  return row?.isWaited || undefined
}

/** Callers of one tenant, on a process that does not learn of later moves. */
class Process {
  readonly #store: RecordStore
  readonly tenantId: TenantId

  constructor(store: RecordStore, tenantId: TenantId) {
    this.#store = store
    this.tenantId = tenantId
  }

  acquire(changes: Partial<AcquireInput> = {}) {
    return this.#store.acquire(acquireInput(this.tenantId, changes))
  }

  async fenceOf(key: string, lockToken = `of ${key}`): Promise<number> {
    const outcome = await this.acquire({ key, lockToken })
    if (outcome.kind !== 'locked') throw new Error(`not locked but ${outcome.kind}`)
    return outcome.fence
  }

  save(changes: Partial<SaveInput> = {}) {
    return this.#store.save(saveInput(this.tenantId, changes))
  }

  fetch(key = 'k-1') {
    return this.#store.fetch(acquireInput(this.tenantId, { key }))
  }

  remove(lockToken = '', key = 'k-1') {
    return this.#store.remove(acquireInput(this.tenantId, { key }), lockToken)
  }

  extend(lockToken: string, key = 'k-1') {
    return this.#store.extend(acquireInput(this.tenantId, { key }), lockToken, lockMs)
  }
}

const processNow = async (tenantId: TenantId) => new Process(await storeNow(lab, tenantId), tenantId)

describe.each([
  ['redis', 'postgres'],
  ['postgres', 'redis'],
] as const)('move from %s to %s', (from, to) => {
  /** Tenant that moves after `before`, and processes with the view before and after. */
  async function moved(before: (old: Process) => Promise<unknown> = async () => undefined) {
    const tenantId = await createTenantIn(lab, from)
    const old = await processNow(tenantId)
    await before(old)
    await moveRecords(lab, tenantId, to)
    return { tenantId, old, now: await processNow(tenantId) }
  }

  const locked = (old: Process) => old.acquire({ lockToken: 'A', attemptId: 'a' })

  test('move: a record saved before the move is found after the move, and can be removed', async () => {
    const { tenantId, now } = await moved((old) => old.save())
    const hit = { kind: 'hit', record: result('r1') } as const
    for (let time = 0; time < 3; time += 1) expect(await now.acquire()).toEqual(hit)
    expect(await now.fetch()).toEqual(hit)
    expect(await now.save({ record: result('r2') })).toEqual({ kind: 'exists' })
    expect(await now.acquire({ fingerprint: 'other' })).toEqual(hit)
    expect(await hasEntry(to, tenantId)).toBe(false)
    expect(await now.remove()).toBe(true)
    expect(await now.fetch()).toEqual({ kind: 'none' })
    expect(await now.acquire()).toMatchObject({ kind: 'locked', takenOver: false })
    expect(await hasEntry(to, tenantId)).toBe(true)
  })

  test('move: the key of a lock from before the move stays busy for others, and its holder can re-enter, extend and save', async () => {
    const { tenantId, now } = await moved(locked)
    expect(await now.acquire()).toMatchObject({ kind: 'busy' })
    expect(await now.acquire({ attemptId: 'a' })).toMatchObject({ kind: 'locked', lockToken: 'A' })
    expect(await now.extend('A')).toMatchObject({ kind: 'extended' })
    expect(await now.extend('B')).toEqual({ kind: 'lost' })
    expect(await now.save({ lockToken: 'B' })).toEqual({ kind: 'lost' })
    expect(await now.save({ lockToken: 'A' })).toEqual({ kind: 'saved' })
    expect(await now.save({ lockToken: 'A' })).toEqual({ kind: 'saved' })
    expect(await now.acquire()).toMatchObject({ kind: 'hit' })
    expect(await hasEntry(to, tenantId)).toBe(false)
  })

  test('move: after the release of a lock from before the move, the next lock of its key is in the new store', async () => {
    const { tenantId, now } = await moved(locked)
    expect(await now.remove('A')).toBe(true)
    expect(await now.acquire()).toMatchObject({ kind: 'locked', takenOver: false })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([false, true])
    expect(await now.extend('N')).toMatchObject({ kind: 'extended' })
    expect(await now.remove('N')).toBe(true)
  })

  const over = (tenantId: TenantId) => lab.setClock(tenantId, labStartMs + lockMs + 1)

  /** Tenant that moves after A's lock, which is over then. */
  async function movedOver() {
    const scene = await moved(locked)
    await over(scene.tenantId)
    return scene
  }

  async function untilForgotten(tenantId: TenantId): Promise<void> {
    const isForgotten = async () => !(await hasEntry(from, tenantId)) || undefined
    expect(await poll(isForgotten, { deadlineMs: 5000 })).toBe(true)
  }

  test('move: an expired lock is taken over in the new store, the takeover is announced, and the late holder is refused', async () => {
    const { tenantId, now } = await movedOver()
    expect(await now.acquire({ fingerprint: 'other' })).toEqual({ kind: 'mismatch' })
    expect(await now.acquire({ fingerprint: '' })).toMatchObject({ kind: 'locked', takenOver: true })
    await untilForgotten(tenantId)
    expect(await hasEntry(to, tenantId)).toBe(true)
    expect(await now.save({ lockToken: 'A' })).toEqual({ kind: 'lost' })
    expect(await now.extend('A')).toEqual({ kind: 'lost' })
    expect(await now.remove('A')).toBe(false)
    expect(await now.acquire({ lockToken: 'M', attemptId: 'a' })).toMatchObject({ kind: 'busy' })
    expect(await now.acquire({ fingerprint: 'other' })).toEqual({ kind: 'mismatch' })
    expect(await now.remove('N')).toBe(true)
    expect(await now.acquire({ lockToken: 'M' })).toMatchObject({ kind: 'locked', takenOver: true })
  })

  test('move: the history of a lock that is taken over in the new store contains the end of this lock', async () => {
    const { tenantId, now } = await movedOver()
    await now.acquire()
    await now.acquire({ lockToken: 'M' })
    const ofTenant = notes.filter((each) => each.tenantId === tenantId).map(({ note }) => note)
    const [first, ended] = ofTenant
    expect(ofTenant.map(({ kind }) => kind)).toEqual(['acquired', 'taken_over', 'acquired'])
    expect(ended).toEqual({ kind: 'taken_over', fence: first?.fence ?? 0, atMs: labStartMs + lockMs + 1 })
  })

  test('move: after a lock was taken over and saved in the new store, the next lock of the key announces no takeover', async () => {
    const { tenantId, now } = await movedOver()
    await now.acquire()
    await untilForgotten(tenantId)
    await now.save({ lockToken: 'N' })
    await now.remove()
    expect(await now.acquire()).toMatchObject({ kind: 'locked', takenOver: false })
  })

  test('move: after a lock was taken over and released in the old store, the next lock in the new store announces a takeover', async () => {
    const { tenantId, now } = await moved(async (old) => {
      await locked(old)
      await lab.setStoreClock(from, old.tenantId, labStartMs + lockMs + 1)
      await old.acquire()
      await old.remove('N')
    })
    expect(await hasEntry(from, tenantId)).toBe(true)
    expect(await now.acquire()).toMatchObject({ kind: 'locked', takenOver: true })
    await untilForgotten(tenantId)
  })

  test('move: after a takeover that failed between its two steps, the late holder is refused and the next caller sees the takeover', async () => {
    const { tenantId, now } = await movedOver()
    expect(await now.acquire({ limits: refused })).toMatchObject({ kind: 'limited' })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([true, false])
    expect(await now.save({ lockToken: 'A' })).toEqual({ kind: 'lost' })
    expect(await now.extend('A')).toEqual({ kind: 'lost' })
    expect(await now.acquire()).toMatchObject({ kind: 'locked', lockToken: 'N', takenOver: true })
  })

  test('move: after a move back, a lock that expired between the moves without a result is announced as a takeover', async () => {
    const { tenantId, now } = await movedOver()
    await now.acquire({ limits: refused })
    await moveRecords(lab, tenantId, from)
    const back = await processNow(tenantId)
    expect(await back.save({ lockToken: 'A' })).toEqual({ kind: 'lost' })
    expect(await back.acquire()).toMatchObject({ kind: 'locked', takenOver: true })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([true, false])
  })

  test('move: a save without a token completes a lock in the earlier store, or in the new store if a takeover had begun', async () => {
    const { tenantId, now } = await movedOver()
    expect(await now.save()).toEqual({ kind: 'saved' })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([true, false])
    const other = await movedOver()
    await other.now.acquire({ limits: refused })
    expect(await other.now.save()).toEqual({ kind: 'saved' })
    await untilForgotten(other.tenantId)
    expect(await other.now.acquire()).toEqual({ kind: 'hit', record: result('r1') })
  })

  test.each(['locksPerMinute', 'recordBytes'] as const)(
    'move: the limit %s includes what the earlier store has counted',
    async (limit) => {
      const none = { locksPerMinute: null, locksPerMonth: null, recordBytes: null }
      const most = limit === 'recordBytes' ? 750 : 2
      const limits = { ...none, [limit]: most }
      const { now } = await moved((old) => old.acquire({ key: 'a', limits }))
      expect(await now.acquire({ key: 'b', limits })).toMatchObject({ kind: 'locked' })
      expect(await now.acquire({ key: 'c', limits })).toMatchObject({ kind: 'limited', limit })
      expect(await now.acquire({ key: 'c', limits: none })).toMatchObject({ kind: 'locked' })
    },
  )

  test.each<readonly [string, (old: Process) => Promise<unknown>]>([
    ['acquisition', (old) => old.acquire({ lockToken: 'M' })],
    ['save without a token', (old) => old.save({ record: result('r2') })],
    ['save by the holder', (old) => old.save({ lockToken: 'N' })],
    ['extension by the holder', (old) => old.extend('N')],
    ['release by the holder', (old) => old.remove('N')],
    ['removal', (old) => old.remove()],
    ['fetch', (old) => old.fetch()],
  ])(
    'move: a process that does not know of the move yet refuses a call for a key of the new store, not treating it as unknown: %s',
    async (_call, call) => {
      const { tenantId, old, now } = await moved()
      await now.acquire()
      await expect(call(old)).rejects.toMatchObject({ reason: 'moved' })
      expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([false, true])
      expect(await now.save({ lockToken: 'N' })).toEqual({ kind: 'saved' })
      // A key of which the earlier store has only a tombstone is refused as well.
      const marked = await movedOver()
      await marked.now.acquire({ limits: refused })
      await expect(call(marked.old)).rejects.toMatchObject({ reason: 'moved' })
      expect(await marked.now.acquire()).toMatchObject({ kind: 'locked', takenOver: true })
    },
  )

  test('move: a process that does not know of the move yet writes no new entry after another process has written one', async () => {
    const { tenantId, old, now } = await moved()
    await now.acquire({ key: 'other' })
    await expect(old.acquire()).rejects.toMatchObject({ reason: 'moved' })
    await expect(old.save()).rejects.toMatchObject({ reason: 'moved' })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([false, false])
  })

  test('move: after a move back, records and locks of both stores are found', async () => {
    const { tenantId, old, now } = await moved((before) => before.save({ key: 'first' }))
    await now.save({ key: 'second' })
    await now.acquire({ key: 'held', lockToken: 'H' })
    await moveRecords(lab, tenantId, from)
    const back = await processNow(tenantId)
    expect(await back.fetch('first')).toMatchObject({ kind: 'hit' })
    expect(await back.fetch('second')).toMatchObject({ kind: 'hit' })
    expect(await back.acquire({ key: 'held' })).toMatchObject({ kind: 'busy' })
    expect(await back.acquire({ key: 'new' })).toMatchObject({ kind: 'locked', takenOver: false })
    expect(await hasEntry(from, tenantId, 'new')).toBe(true)
    for (const late of [old, now]) {
      await expect(late.acquire({ key: 'newer' })).rejects.toMatchObject({ reason: 'moved' })
    }
    expect(await back.extend('H', 'held')).toMatchObject({ kind: 'extended' })
  })

  /** Lets a caller wait for a lock on a process that learns of a move before the lock is released. */
  async function waitThroughMove(signal?: AbortController) {
    const tenantId = await createTenantIn(lab, from)
    const choose = chooseRecordStore(lab.stores)
    let view = await viewOf(lab, tenantId)
    const old = new Process(choose(view), tenantId)
    await old.acquire({ lockToken: 'A' })
    const storeOf = () => {
      // The caller hangs up during the call of the store that gets the lock.
      if (view.generation > generation) signal?.abort()
      return choose(view)
    }
    const { generation } = view
    const tenant = directoryTenant({ id: tenantId })
    const waiting = acquireRecord(
      {
        storeOf,
        waiters: lab.waiters,
        limitsOf: builtInLimits,
        onChecked: () => undefined,
        ttlSecondsMax: 86_400,
        bodyBytesMax: 1000,
      },
      tenant,
      { scope: 'orders', key: 'k-1', waitMs: 20_000 },
      signal?.signal,
    )
    expect(await poll(() => isWaited(from, tenantId), { deadlineMs: 5000 })).toBe(true)
    view = await moveRecords(lab, tenantId, to)
    const now = new Process(choose(view), tenantId)
    await now.acquire({ key: 'other' })
    await now.remove('A')
    return { tenantId, now, outcome: await waiting }
  }

  test('move: a caller that waits during the move gets the lock in the new store', async () => {
    const { tenantId, outcome } = await waitThroughMove()
    expect(outcome).toMatchObject({ kind: 'locked', takenOver: false })
    expect([await hasEntry(from, tenantId), await hasEntry(to, tenantId)]).toEqual([false, true])
  })

  test('move: the lock of a caller that hung up while it waited during the move is released', async () => {
    const { now, outcome } = await waitThroughMove(new AbortController())
    expect(outcome).toMatchObject({ kind: 'busy' })
    expect(await now.acquire({ lockToken: 'M' })).toMatchObject({ kind: 'locked', lockToken: 'M' })
  })

  /** Sets the clock of the current store, and that of the earlier one ahead of it. */
  async function setClocks(tenantId: TenantId, nowMs: number, aheadMs: number): Promise<void> {
    await lab.setClock(tenantId, nowMs)
    await lab.setStoreClock(from, tenantId, nowMs + aheadMs)
  }

  async function endIt(tenantId: TenantId): Promise<void> {
    const { generation } = await viewOf(lab, tenantId)
    const ofRedis = () => lab.stores.redis.lastFence(tenantId)
    const fence = from === 'redis' ? await ofRedis() : await findLastFence(lab.pool, tenantId)
    await endMove(lab.pool, { id: tenantId, before: from, generation }, fence)
  }

  test.each([
    ['agree', 0],
    ['differ by ten minutes', 10 * minuteMs],
    ['differ by ten minutes the other way', -10 * minuteMs],
  ])(
    'move: fences of a tenant grow during the move, after the move and after a move back, if the clocks of the stores %s',
    async (_case, aheadMs) => {
      const tenantId = await createTenantIn(lab, from)
      await setClocks(tenantId, labStartMs, aheadMs)
      const fences = [await (await processNow(tenantId)).fenceOf('over')]
      await moveRecords(lab, tenantId, to)
      const now = await processNow(tenantId)
      fences.push(await now.fenceOf('a'))
      for (const locks of [1, 2]) {
        await setClocks(tenantId, labStartMs + locks * (lockMs + 1), aheadMs)
        fences.push(await now.fenceOf('over', `${locks}`), await now.fenceOf(`b${locks}`))
      }
      await endIt(tenantId)
      fences.push(await (await processNow(tenantId)).fenceOf('c'))
      await moveRecords(lab, tenantId, from)
      const back = await processNow(tenantId)
      await setClocks(tenantId, labStartMs + 3 * (lockMs + 1), aheadMs)
      fences.push(await back.fenceOf('d'), await back.fenceOf('a', 'again'), await back.fenceOf('e'))
      expect(fences).toEqual([...new Set(fences)].sort((one, other) => one - other))
    },
  )

  test.each([
    ['during the move', false],
    ['after the end of the move', true],
  ])(
    'move: a new fence is higher than all fences of the earlier store, even if that store is now empty and its clock is ahead, %s',
    async (_when, isOver) => {
      const tenantId = await createTenantIn(lab, from)
      await setClocks(tenantId, labStartMs, 10 * minuteMs)
      const old = await processNow(tenantId)
      const before = await old.fenceOf('k-1', 'A')
      await old.remove('A')
      await moveRecords(lab, tenantId, to)
      if (isOver) await endIt(tenantId)
      expect(await (await processNow(tenantId)).fenceOf('k-1')).toBeGreaterThan(before)
    },
  )
})

test.each(
  recordDurabilities.flatMap((from) => usualCases([0, 1, 2, 3], 1).map((nth) => [from, nth] as const)),
)(
  'move: concurrent callers never see an unannounced second run, two owners or two results while a tenant moves from %s and back (%d)',
  async (from, nth) => {
    const seed = testSeed() + nth
    const tenantId = await createTenantIn(lab, from)
    const moving = new MovingProcesses(lab, tenantId, await viewOf(lab, tenantId))
    const history = await simulateCallers(lab, {
      seed,
      callers: 24,
      rounds: 16,
      keys: ['a', 'b', 'c', 'd', 'e', 'f'],
      tenantId,
      storeOf: () => moving.storeOfNextCall(),
    })
    await moving.moving
    expect((await viewOf(lab, tenantId)).generation).toBeGreaterThan(2)
    expect({ seed, violations: findViolations(history) }).toEqual({ seed, violations: [] })
  },
  30_000,
)

test.each(['acquire', 'save'] as const)(
  'move: a process that does not know of the move yet writes nothing to Redis after Redis was emptied: %s',
  async (call) => {
    const tenantId = await createTenantIn(lab, 'redis')
    const old = await processNow(tenantId)
    await old.acquire({ key: 'other' })
    await moveRecords(lab, tenantId, 'postgres')
    await (await processNow(tenantId)).acquire({ key: 'another' })
    await lab.raw.del(...(await lab.raw.keys(`{${tenantId}}:*`)))
    await expect(old[call]()).rejects.toMatchObject({ reason: 'moved' })
    expect(await hasEntry('redis', tenantId)).toBe(false)
  },
)
