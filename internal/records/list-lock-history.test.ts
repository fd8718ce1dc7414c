import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type LockHistoryFilter, listLockHistory } from './list-lock-history.ts'
import { type LockState, lockStates } from './lock-history.ts'
import { LockHistoryRecorder } from './lock-history-recorder.ts'

const nowMs = Date.parse('2026-11-21T10:00:00Z')
const hourMs = 3_600_000

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

function openRecorder(days = 90): LockHistoryRecorder {
  const onDropped = () => {
    throw new Error('nothing is to be dropped here')
  }
  return new LockHistoryRecorder({
    pool,
    clock: { now: () => nowMs },
    retentionDaysOf: () => days,
    onDropped,
  })
}

async function createTenant(): Promise<TenantId> {
  const id = someTenantId()
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now())`,
    [id],
  )
  return id
}

/** Records ten locks, one per hour and two in each state, with alternating scopes and keys. The latest began an hour ago. */
async function fill(tenantId: TenantId): Promise<void> {
  const recorder = openRecorder()
  for (let nth = 0; nth < 10; nth += 1) {
    const fence = (nowMs - (10 - nth) * hourMs) * 1000
    const address = { tenantId, scope: nth < 6 ? 'pay' : 'ship', key: `k${nth % 3}` }
    const state = lockStates[nth % 5]
    recorder.note(address, { kind: 'acquired', fence, heldMs: state === 'running' ? 24 * hourMs : 60_000 })
    const atMs = fence / 1000 + 1_000
    if (state === 'completed') recorder.note(address, { kind: state, fence, atMs, status: 201 })
    if (state === 'released' || state === 'taken_over') recorder.note(address, { kind: state, fence, atMs })
  }
  await recorder.flush()
}

type Changes = {
  readonly state?: LockState
  readonly fromMs?: number
  readonly toMs?: number
  readonly limit?: number
  readonly after?: number
  readonly scope?: string
  readonly key?: string
}

/** Returns the listed entries by their number in `fill`. */
async function nthsOf(tenantId: TenantId, changes: Changes): Promise<number[]> {
  const filter = { tenantId, limit: 100, ...changes } as LockHistoryFilter
  const { entries } = await listLockHistory(pool, filter, nowMs)
  return entries.map(({ acquiredAtMs }) => 10 - (nowMs - acquiredAtMs) / hourMs)
}

describe('list of lock history entries', () => {
  let tenantId: TenantId
  beforeAll(async () => {
    tenantId = await createTenant()
    await fill(tenantId)
    await fill(await createTenant())
  })

  test.each<[string, Changes, number[]]>([
    ['all, the latest first', {}, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
    ['running', { state: 'running' }, [5, 0]],
    ['completed', { state: 'completed' }, [6, 1]],
    ['released', { state: 'released' }, [7, 2]],
    ['taken over', { state: 'taken_over' }, [8, 3]],
    ['expired', { state: 'expired' }, [9, 4]],
    ['a scope', { scope: 'ship' }, [9, 8, 7, 6]],
    ['a scope and key', { scope: 'pay', key: 'k1' }, [4, 1]],
    ['a scope without entries', { scope: 'none' }, []],
    ['from a time on', { fromMs: nowMs - 2 * hourMs }, [9, 8]],
    ['before a time', { toMs: nowMs - 8 * hourMs }, [1, 0]],
    [
      'between times, in a scope and state',
      { fromMs: nowMs - 9 * hourMs, toMs: nowMs - hourMs, scope: 'pay', state: 'running' },
      [5],
    ],
    ['an empty time range', { fromMs: Number.MAX_VALUE, toMs: -1 }, []],
  ])('lock history: the filter returns the expected locks: %s', async (_name, changes, nths) => {
    expect(await nthsOf(tenantId, changes)).toEqual(nths)
  })

  test('lock history: pages stay stable while new locks are added', async () => {
    const own = await createTenant()
    await fill(own)
    const seen: number[] = []
    let after: number | undefined
    for (let page = 0; page < 5; page += 1) {
      const filter = { tenantId: own, limit: 3, ...(after && { after }) }
      const { entries, next } = await listLockHistory(pool, filter, nowMs)
      seen.push(...entries.map(({ acquiredAtMs }) => 10 - (nowMs - acquiredAtMs) / hourMs))
      const recorder = openRecorder()
      const note = { kind: 'acquired', fence: (nowMs + page) * 1000, heldMs: 1 } as const
      recorder.note({ tenantId: own, scope: 's', key: 'k' }, note)
      await recorder.flush()
      if (!next) break
      after = next
    }
    expect(seen).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
  })

  test('lock history: lists a lock once although the tenant’s retention changed while the lock was held', async () => {
    const own = await createTenant()
    const address = { tenantId: own, scope: 's', key: 'k' }
    const fence = (nowMs - hourMs) * 1000
    const [before, later] = [openRecorder(90), openRecorder(7)]
    before.note(address, { kind: 'acquired', fence, heldMs: 60_000 })
    await before.flush()
    later.note(address, { kind: 'completed', fence, atMs: nowMs, status: 200 })
    await later.flush()
    const { entries } = await listLockHistory(pool, { tenantId: own, limit: 10 }, nowMs)
    expect(entries).toMatchObject([
      { state: 'completed', expiresAtMs: nowMs - hourMs + 60_000, durationMs: hourMs },
    ])
  })

  test.each([0, 101, 1.5, Number.NaN])('lock history: refuses %p as a limit', async (limit) => {
    await expect(listLockHistory(pool, { tenantId, limit }, nowMs)).rejects.toThrow(RangeError)
  })
})
