import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { builtInLimits } from '#test/support/records/built-in-limits.ts'
import { expireEntry, labStartMs, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { acquireInput, lockMs, readEntry, result, saveInput } from '#test/support/records/record-steps.ts'
import { directoryTenant } from '#test/support/tenants/directory-tenant.ts'
import { acquireRecord, type RecordTenant, toAcquired } from './acquire.ts'
import type { CheckRequest } from './requests.ts'
import { wakeChannel } from './store.ts'

/** A waiter polls after a second, so an earlier wake-up was not caused by a poll. */
const soonMs = 900
const record = result('r1')

function tenantOf(id: TenantId): RecordTenant {
  const records = { requireLockToken: false, ttlSecondsMax: 86_400, bodyBytesMax: 1000 }
  return directoryTenant({ id, records })
}

describe.each(recordDurabilities)('waiting for records in %s', (durability) => {
  let lab: RecordLab
  beforeAll(async () => {
    lab = await openRecordLab({ durability })
  }, 30_000)
  afterAll(() => lab.close())
  afterEach(() => expect(lab.waiters.count).toBe(0))

  /** Runs a check that waits, as a route does. */
  async function check(tenantId: TenantId, waitMs: number, signal?: AbortSignal, attemptId = '') {
    const request = { waitMs, ...(attemptId !== '' && { attemptId }) }
    return send(tenantId, request, signal)
  }

  async function send(tenantId: TenantId, changes: Partial<CheckRequest>, signal?: AbortSignal) {
    const { store, waiters } = lab
    const records = {
      storeOf: () => store,
      waiters,
      ttlSecondsMax: 86_400,
      bodyBytesMax: 1000,
      limitsOf: builtInLimits,
      onChecked: () => undefined,
    }
    const tenant = tenantOf(tenantId)
    const { scope, key } = acquireInput(tenantId)
    return toAcquired(
      records,
      await acquireRecord(records, tenant, { scope, key, ...changes }, signal),
      tenant,
    )
  }

  async function lockedTenant(): Promise<TenantId> {
    const tenantId = await lab.createTenant()
    await lock(tenantId, 'A')
    return tenantId
  }

  /** Waits until the lock records a waiting caller. From then on, the end of the lock is published. */
  async function untilWaited(tenantId: TenantId): Promise<void> {
    const marked = await poll(async () => (await readEntry(lab, tenantId))?.isWaited || undefined, {
      deadlineMs: 5000,
    })
    expect(marked).toBe(true)
  }

  async function listeners(tenantId: TenantId): Promise<number> {
    const reply = (await lab.raw.send('PUBSUB', ['SHARDNUMSUB', wakeChannel(tenantId)])) as [string, number]
    return reply[1]
  }

  const lock = (tenantId: TenantId, lockToken: string) =>
    lab.store.acquire(acquireInput(tenantId, { lockToken }))
  const save = (tenantId: TenantId, lockToken: string) => lab.store.save(saveInput(tenantId, { lockToken }))
  const release = (tenantId: TenantId, lockToken: string) =>
    lab.store.remove(acquireInput(tenantId), lockToken)

  describe('waiter', () => {
    test('waiter: is woken by the save and gets the record', async () => {
      const tenantId = await lockedTenant()
      const waiting = check(tenantId, 20_000)
      await untilWaited(tenantId)
      const startedAt = performance.now()
      await save(tenantId, 'A')
      expect(await waiting).toEqual({ kind: 'hit', record })
      expect(performance.now() - startedAt).toBeLessThan(soonMs)
    })

    test('waiter: is woken by the release and gets the lock', async () => {
      const tenantId = await lockedTenant()
      const waiting = check(tenantId, 20_000)
      await untilWaited(tenantId)
      const startedAt = performance.now()
      await release(tenantId, 'A')
      expect(await waiting).toMatchObject({ kind: 'locked', takenOver: false })
      expect(performance.now() - startedAt).toBeLessThan(soonMs)
    })

    test('waiter: is also woken if another caller has taken the lock over in the meantime', async () => {
      const tenantId = await lockedTenant()
      const waiting = check(tenantId, 20_000)
      await untilWaited(tenantId)
      await lab.setClock(tenantId, labStartMs + lockMs)
      const next = await lock(tenantId, 'B')
      // Either the waiting caller's poll or B takes the lock over first. If it is B, the release wakes the waiting caller.
      if (next.kind === 'locked') await release(tenantId, 'B')
      expect(await waiting).toMatchObject({ kind: 'locked', takenOver: true })
    })

    test('waiter: takes over the lock when it expires, without another call', async () => {
      const tenantId = await lab.createTenant()
      const startedAt = performance.now()
      await lab.store.acquire(acquireInput(tenantId, { lockToken: 'A', lockMs: 300 }))
      const waiting = check(tenantId, 20_000)
      await untilWaited(tenantId)
      await lab.setClock(tenantId, labStartMs + 300)
      expect(await waiting).toMatchObject({ kind: 'locked', takenOver: true })
      expect(performance.now() - startedAt).toBeWithin(295, 300 + soonMs)
    })

    test('waiter: notices the end of a lock that was not published within little more than a second', async () => {
      const tenantId = await lockedTenant()
      const waiting = check(tenantId, 20_000)
      await untilWaited(tenantId)
      const startedAt = performance.now()
      await expireEntry(lab, acquireInput(tenantId))
      expect((await waiting).kind).toBe('locked')
      expect(performance.now() - startedAt).toBeLessThan(1000 + soonMs)
    })

    test('waiter: gets a busy response when its wait is over', async () => {
      const tenantId = await lockedTenant()
      const startedAt = performance.now()
      expect(await check(tenantId, 250)).toEqual({ kind: 'busy', remainingMs: 60_000 })
      expect(performance.now() - startedAt).toBeWithin(249, 250 + soonMs)
    })

    test('waiter: a check that does not wait makes one attempt and is not announced', async () => {
      const tenantId = await lockedTenant()
      const before = await readEntry(lab, tenantId)
      expect((await check(tenantId, 0)).kind).toBe('busy')
      expect(await readEntry(lab, tenantId)).toEqual(before)
      expect(before?.isWaited).toBe(false)
    })

    test('waiter: a check with another fingerprint is refused immediately, not after its wait', async () => {
      const tenantId = await lab.createTenant()
      await lock(tenantId, 'A')
      const startedAt = performance.now()
      expect(await send(tenantId, { waitMs: 20_000, fingerprint: 'f2' })).toMatchObject({
        code: 'fingerprint_mismatch',
      })
      expect(performance.now() - startedAt).toBeLessThan(soonMs)
    })
  })

  describe('hang-up', () => {
    test('hang-up: ends the wait immediately, and the caller wins no lock afterwards', async () => {
      const tenantId = await lockedTenant()
      const caller = new AbortController()
      const waiting = check(tenantId, 20_000, caller.signal)
      await untilWaited(tenantId)
      const startedAt = performance.now()
      caller.abort()
      expect((await waiting).kind).toBe('busy')
      expect(performance.now() - startedAt).toBeLessThan(soonMs)
      await release(tenantId, 'A')
      expect(await readEntry(lab, tenantId)).toBeUndefined()
    })

    test.each([
      ['a lock granted in the meantime is released', '', undefined],
      ['a lock with an attempt id is kept, because the attempt can repeat the call', 'a', expect.anything()],
    ])('hang-up: %s', async (_case, attemptId, left) => {
      const tenantId = await lab.createTenant()
      const caller = new AbortController()
      const asked = check(tenantId, 20_000, caller.signal, attemptId)
      caller.abort()
      expect(await asked).toEqual({ kind: 'busy', remainingMs: 0 })
      expect(await readEntry(lab, tenantId)).toEqual(left)
    })

    test('hang-up: a caller that hung up before its wait does not try to get the lock', async () => {
      const tenantId = await lockedTenant()
      let tries = 0
      const outcome = await lab.waiters.wait(
        { tenantId, entry: 'e', waitMs: 20_000, signal: AbortSignal.abort() },
        { kind: 'busy', remainingMs: 7 },
        async () => {
          tries += 1
          return { kind: 'busy', remainingMs: 1 }
        },
      )
      expect(outcome).toEqual({ kind: 'busy', remainingMs: 7 })
      expect(tries).toBe(0)
    })
  })

  describe('waiters', () => {
    test('waiters: of many waiters for one key, one gets the lock, and the others get its record', async () => {
      const tenantId = await lockedTenant()
      const waiting = Array.from({ length: 50 }, () => check(tenantId, 20_000))
      await untilWaited(tenantId)
      await release(tenantId, 'A')
      const winner = await Promise.race(waiting.map(async (one) => one))
      if (winner.kind !== 'locked') throw new Error(`not locked but ${winner.kind}`)
      await save(tenantId, winner.lockToken)
      const kinds = (await Promise.all(waiting)).map((outcome) => outcome.kind).sort()
      expect(kinds).toEqual([...Array.from({ length: 49 }, () => 'hit' as const), 'locked'])
    })

    test('waiters: at most a quarter of the waiting callers can be of one tenant, and other tenants can use the rest', async () => {
      const busy = await Promise.all(Array.from({ length: 5 }, () => lockedTenant()))
      const [tenantId, ...others] = busy
      const last = others.pop()
      if (tenantId === undefined || last === undefined) throw new Error('no tenants')
      const callers = new AbortController()
      const waitersOf = (id: TenantId) => Array.from({ length: 250 }, () => check(id, 20_000, callers.signal))
      const untilCount = (count: number) =>
        poll(async () => lab.waiters.count === count || undefined, { deadlineMs: 5000 })
      const waiting = waitersOf(tenantId)
      expect(await untilCount(250)).toBe(true)
      const startedAt = performance.now()
      expect((await check(tenantId, 20_000)).kind).toBe('busy')
      expect(performance.now() - startedAt).toBeLessThan(soonMs)
      for (const other of others) waiting.push(...waitersOf(other))
      expect(await untilCount(1000)).toBe(true)
      expect((await check(last, 20_000)).kind).toBe('busy')
      expect(performance.now() - startedAt).toBeLessThan(5 * soonMs)
      callers.abort()
      expect(new Set((await Promise.all(waiting)).map((outcome) => outcome.kind))).toEqual(new Set(['busy']))
      const again = check(tenantId, 20_000)
      await untilWaited(tenantId)
      await save(tenantId, 'A')
      expect((await again).kind).toBe('hit')
    })

    test('waiters: no wake-up is lost while the subscription ends and begins again', async () => {
      const tenantId = await lab.createTenant()
      for (let round = 0; round < 30; round += 1) {
        await lock(tenantId, 'A')
        const startedAt = performance.now()
        const waiting = check(tenantId, 20_000)
        await untilWaited(tenantId)
        await save(tenantId, 'A')
        expect((await waiting).kind).toBe('hit')
        expect(performance.now() - startedAt).toBeLessThan(soonMs)
        await release(tenantId, '')
      }
    })

    test('waiters: share one subscription, which ends with the last waiter', async () => {
      const tenantId = await lockedTenant()
      const waiting = [check(tenantId, 20_000), check(tenantId, 20_000)]
      await untilWaited(tenantId)
      expect(await listeners(tenantId)).toBe(1)
      await save(tenantId, 'A')
      await Promise.all(waiting)
      expect(
        await poll(async () => (await listeners(tenantId)) === 0 || undefined, { deadlineMs: 5000 }),
      ).toBe(true)
    })
  })
})
