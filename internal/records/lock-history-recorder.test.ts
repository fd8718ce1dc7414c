import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { testSeed } from '#test/support/seed.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { listLockHistory } from './list-lock-history.ts'
import { describeLock, factsOf, joinFacts, type LockNote } from './lock-history.ts'
import { LockHistoryRecorder } from './lock-history-recorder.ts'
import type { RecordAddress } from './record.ts'

const nowMs = Date.parse('2026-11-21T10:00:00Z')
const dayMs = 86_400_000
const clock = { now: () => nowMs }

let database: TestDatabase
let pool: Pool
let dropped: [reason: string, notes: number][]
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 2_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(() => {
  dropped = []
})

function openRecorder(
  options: Partial<ConstructorParameters<typeof LockHistoryRecorder>[0]> = {},
): LockHistoryRecorder {
  return new LockHistoryRecorder({
    pool,
    clock,
    retentionDaysOf: () => 90,
    onDropped: (reason, notes) => dropped.push([reason, notes]),
    ...options,
  })
}

async function createTenant(options: { deletedAt?: Date } = {}): Promise<TenantId> {
  const id = someTenantId()
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now(), $2)`,
    [id, options.deletedAt ?? null],
  )
  return id
}

/** Returns the fence of a tenant's n-th lock; locks are a millisecond apart. */
const fenceOf = (nth: number) => (nowMs + nth) * 1000 + 7
const addressOf = (tenantId: TenantId, key: string): RecordAddress => ({ tenantId, scope: 'pay', key })
const acquired = (fence: number): LockNote => ({ kind: 'acquired', fence, heldMs: 60_000 })
const completed = (fence: number): LockNote => {
  return { kind: 'completed', fence, atMs: Math.floor(fence / 1000) + 40, status: 200 }
}

async function listAll(tenantId: TenantId) {
  return (await listLockHistory(pool, { tenantId, limit: 100 }, nowMs)).entries
}

async function rowsOf(tenantId: TenantId) {
  const { rows } = await pool.query<{ expiresOn: string; inserted: boolean }>(
    `SELECT expires_on::text AS "expiresOn", xmax = 0 AS inserted FROM executions WHERE tenant_id = $1 ORDER BY fence`,
    [tenantId],
  )
  return rows
}

describe('recorder', () => {
  test('lock history recorder: writes acquisition and end of a lock in one flush as a single row', async () => {
    const tenantId = await createTenant()
    const recorder = openRecorder()
    for (let nth = 0; nth < 40; nth += 1)
      recorder.note(addressOf(tenantId, `k${nth}`), acquired(fenceOf(nth)))
    for (let nth = 0; nth < 40; nth += 1)
      recorder.note(addressOf(tenantId, `k${nth}`), completed(fenceOf(nth)))
    expect(recorder.size).toBe(80)
    await recorder.flush()
    expect(recorder.size).toBe(0)
    const rows = await rowsOf(tenantId)
    expect(rows).toHaveLength(40)
    expect(rows.every(({ inserted }) => inserted)).toBe(true)
    const entries = await listAll(tenantId)
    expect(entries.map(({ key, state, durationMs }) => [key, state, durationMs])).toEqual(
      Array.from({ length: 40 }, (_none, nth) => [`k${39 - nth}`, 'completed', 40]),
    )
  })

  const attempts = fc.integer({ min: 0, max: 3 })
  const story = fc.record({
    extensions: fc.array(
      fc.record({ atMs: fc.nat({ max: 900 }), heldMs: fc.integer({ min: 1, max: 900_000 }) }),
      {
        maxLength: 3,
      },
    ),
    end: fc.constantFrom('completed', 'released', 'taken_over', 'open'),
    endedAfterMs: fc.nat({ max: 1_000 }),
    beginningKnown: fc.boolean(),
    repeats: attempts,
  })

  test('lock history recorder: lock changes noted by several processes give the same rows, in any order and if repeated', async () => {
    const property = fc.asyncProperty(
      fc.array(story, { minLength: 1, maxLength: 8 }),
      fc.infiniteStream(fc.nat({ max: 1_000_000 })),
      async (stories, random) => {
        const tenantId = await createTenant()
        const draw = (below: number) => Number(random.next().value) % below
        const told = stories.flatMap((each, nth) => notesOf(tenantId, each, nth))
        const notes = told.flatMap((one) => Array.from({ length: 1 + draw(2) }, () => one))
        const recorders = [openRecorder(), openRecorder(), openRecorder()]
        while (notes.length > 0) {
          const [one] = notes.splice(draw(notes.length), 1)
          const recorder = recorders[draw(recorders.length)]
          if (one) recorder?.note(one.address, one.note)
          if (draw(4) === 0) await recorder?.flush()
        }
        await Promise.all(recorders.map((recorder) => recorder.flush()))
        expect(await listAll(tenantId)).toEqual(expectedOf(told))
        expect(dropped).toEqual([])
      },
    )
    await fc.assert(property, { numRuns: 20, seed: testSeed() })
  }, 60_000)

  test('lock history recorder: concurrent flushes of the same rows do not deadlock', async () => {
    const tenantId = await createTenant()
    const recorders = [openRecorder(), openRecorder(), openRecorder()]
    for (let round = 0; round < 5; round += 1) {
      for (const [at, recorder] of recorders.entries()) {
        const nths = Array.from({ length: 200 }, (_none, nth) => (at === 1 ? 199 - nth : nth))
        for (const nth of nths) recorder.note(addressOf(tenantId, `k${nth}`), completed(fenceOf(nth)))
      }
      await Promise.all(recorders.map((recorder) => recorder.flush()))
    }
    expect(await rowsOf(tenantId)).toHaveLength(200)
  })

  test('lock history recorder: rows expire by the tenant’s retention, and missing partitions are created', async () => {
    const [short, long] = [await createTenant(), await createTenant()]
    const recorder = openRecorder({ retentionDaysOf: (id) => (id === short ? 3 : 77) })
    for (const id of [short, long]) recorder.note(addressOf(id, 'k'), acquired(fenceOf(1)))
    await recorder.flush()
    expect((await rowsOf(short)).map(({ expiresOn }) => expiresOn)).toEqual(['2026-11-25'])
    expect((await rowsOf(long)).map(({ expiresOn }) => expiresOn)).toEqual(['2027-02-07'])
  })

  test('lock history recorder: skips unknown tenants, deleted tenants and expired days', async () => {
    const [gone, deleted, live] = [
      someTenantId(),
      await createTenant({ deletedAt: new Date() }),
      await createTenant(),
    ]
    const recorder = openRecorder({ retentionDaysOf: (id) => (id === gone ? undefined : 5) })
    for (const id of [gone, deleted, live]) recorder.note(addressOf(id, 'k'), acquired(fenceOf(1)))
    recorder.note(addressOf(live, 'old'), completed((nowMs - 6 * dayMs) * 1000))
    recorder.note(addressOf(live, 'not so old'), completed((nowMs - 5 * dayMs) * 1000))
    await recorder.flush()
    expect(recorder.size).toBe(0)
    expect(await listAll(gone)).toEqual([])
    expect(await listAll(deleted)).toEqual([])
    expect((await listAll(live)).map(({ key }) => key)).toEqual(['k', 'not so old'])
  })

  test('lock history recorder: counts a row that Postgres rejects, and writes later rows', async () => {
    const tenantId = await createTenant()
    const recorder = openRecorder()
    recorder.note(addressOf(tenantId, 'no\0text'), acquired(fenceOf(1)))
    await recorder.flush()
    expect(dropped).toEqual([['refused', 1]])
    recorder.note(addressOf(tenantId, 'text'), acquired(fenceOf(2)))
    await recorder.flush()
    expect((await listAll(tenantId)).map(({ key }) => key)).toEqual(['text'])
  })

  test('lock history recorder: a flush writes one batch with lock changes of every tenant, and flushAll writes all of them', async () => {
    const [busy, quiet] = [await createTenant(), await createTenant()]
    const recorder = openRecorder()
    for (let nth = 0; nth < 3_500; nth += 1) recorder.note(addressOf(busy, `k${nth}`), acquired(fenceOf(nth)))
    recorder.note(addressOf(quiet, 'k'), acquired(fenceOf(1)))
    await recorder.flush()
    expect(recorder.size).toBe(2_501)
    expect(await rowsOf(quiet)).toHaveLength(1)
    await recorder.flushAll()
    expect(recorder.size).toBe(0)
    expect(await rowsOf(busy)).toHaveLength(3_500)
    expect(dropped).toEqual([])
  })

  test('lock history recorder: respects its buffer limits while writes fail, and writes the buffer afterwards', async () => {
    const [busy, quiet] = [await createTenant(), await createTenant()]
    const recorder = openRecorder({ bounds: { notesMax: 500, bytesMax: 1_000_000 } })
    recorder.note(addressOf(busy, 'before'), acquired(fenceOf(0)))
    await pool.query('ALTER TABLE executions RENAME TO taken_away')
    try {
      await expect(recorder.flush()).rejects.toThrow()
      recorder.note(addressOf(quiet, 'k'), acquired(fenceOf(1)))
      for (let nth = 1; nth <= 2_000; nth += 1)
        recorder.note(addressOf(busy, `k${nth}`), acquired(fenceOf(nth)))
      await expect(recorder.flush()).rejects.toThrow()
    } finally {
      await pool.query('ALTER TABLE taken_away RENAME TO executions')
    }
    expect(recorder.size).toBe(501)
    expect(dropped).toEqual([['full', 1_501]])
    await recorder.flush()
    expect(recorder.size).toBe(500)
    await recorder.flush()
    expect(recorder.size).toBe(0)
    expect((await listAll(quiet)).map(({ key }) => key)).toEqual(['k'])
    const { rows } = await pool.query(
      'SELECT count(*)::int AS rows, min(fence) AS first FROM executions WHERE tenant_id = $1',
      [busy],
    )
    // The failed batch (k0) was kept, and so were the latest notes that fit into the buffer.
    expect(rows).toEqual([{ rows: 500, first: fenceOf(0) }])
    expect((await listAll(busy))[0]?.key).toBe('k2000')
  })
})

interface Story {
  readonly extensions: readonly { readonly atMs: number; readonly heldMs: number }[]
  readonly end: 'completed' | 'released' | 'taken_over' | 'open'
  readonly endedAfterMs: number
  readonly beginningKnown: boolean
  /** Number of later repetitions of the end. */
  readonly repeats: number
}

interface Told {
  readonly address: RecordAddress
  readonly note: LockNote
}

function notesOf(tenantId: TenantId, story: Story, nth: number): Told[] {
  const fence = fenceOf(nth)
  const address = addressOf(tenantId, `k${nth}`)
  const notes: LockNote[] = story.extensions.map(({ atMs, heldMs }) => {
    return { kind: 'extended', fence, atMs: nowMs + nth + atMs, heldMs }
  })
  if (story.beginningKnown || (story.end === 'open' && notes.length === 0)) notes.push(acquired(fence))
  for (let repeat = 0; repeat <= story.repeats; repeat += 1) {
    const atMs = nowMs + nth + story.endedAfterMs + repeat
    if (story.end === 'completed') notes.push({ kind: 'completed', fence, atMs, status: 202 })
    else if (story.end !== 'open') notes.push({ kind: story.end, fence, atMs })
  }
  return notes.map((note) => ({ address, note }))
}

function expectedOf(told: readonly Told[]) {
  const byFence = Map.groupBy(told, ({ note }) => note.fence)
  return [...byFence.values()]
    .map((ofOne) => ofOne.map(({ address, note }) => factsOf(address, note)).reduce(joinFacts))
    .toSorted((one, other) => other.fence - one.fence)
    .map((facts) => describeLock(facts, nowMs))
}
