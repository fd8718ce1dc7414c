import { expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { createPool, ensurePartitions, type Pool, runRetention } from '#internal/storage/index.ts'
import { startTcpProxy } from '#test/faults/tcp-proxy.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { labStartMs, openRecordLab, randomTenantId } from '#test/support/records/record-lab.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import { insertDurableTenant } from '#test/support/records/record-tenants.ts'
import { DurableRecordStore } from './durable-store.ts'

function openStore(pool: Pool): DurableRecordStore {
  return new DurableRecordStore({
    pool,
    redis: { publish: async () => 0 },
    meter: { markUsed: () => undefined },
  })
}

test('durable records: a call that was refused while it waited for a connection is not run afterwards', async () => {
  const database = await createMigratedDatabase()
  const url = new URL(database.url)
  const proxy = await startTcpProxy(Number(url.port))
  url.port = String(proxy.port)
  const bounds = { connectionsMax: 2, queryTimeoutMs: 700, connectTimeoutMs: 10_000 }
  const pool = createPool({ url: url.href, applicationName: 'test deadline', ...bounds })
  const direct = createPool({ url: database.url, applicationName: 'test deadline direct', ...bounds })
  const tenantId = randomTenantId()
  const store = openStore(pool)
  try {
    await insertDurableTenant(direct, tenantId)
    proxy.hang()
    const refused = store.acquire(acquireInput(tenantId, { key: 'refused', lockToken: 'refused' }))
    await expect(refused).rejects.toMatchObject({ name: 'RecordsUnavailable', reason: 'timeout' })
    proxy.heal()
    // This call runs after the transaction that would have run the refused call.
    expect(await store.acquire(acquireInput(tenantId, { key: 'next' }))).toMatchObject({ kind: 'locked' })
    const { rows } = await direct.query<{ key: string }>('SELECT key FROM record_entries')
    expect(rows).toEqual([{ key: 'next' }])
  } finally {
    await Promise.all([pool.end(), direct.end()])
    await proxy.close()
    await database.drop()
  }
})

test('durable records: a step is not run and changes nothing after its deadline or after its caller has given up', async () => {
  const lab = await openRecordLab({ durability: 'postgres' })
  const leftMs = 20.9
  let connect = async () => lab.pool.connect()
  const waiting = new Proxy(lab.pool, {
    get: (pool, name) => (name === 'connect' ? () => connect() : Reflect.get(pool, name).bind(pool)),
  })
  const store = openStore(waiting)
  try {
    const tenantId = await lab.createTenant()
    const timeout = { name: 'RecordsUnavailable', reason: 'timeout' }
    // Provides the connection after the deadline, but before the timer of the caller can fire.
    connect = async () => {
      const client = await lab.pool.connect()
      const overAtMs = performance.now() + leftMs
      while (performance.now() < overAtMs);
      return client
    }
    const place = { overAtMs: performance.now() + leftMs }
    await expect(store.acquire({ ...acquireInput(tenantId), ...place })).rejects.toMatchObject(timeout)
    // Provides the connection once the timer has fired, which may be a fraction of a millisecond before the deadline.
    for (let times = 0; times < 20; times += 1) {
      const late = Promise.withResolvers<void>()
      connect = () => late.promise.then(() => lab.pool.connect())
      const saved = store.save({ ...saveInput(tenantId), overAtMs: performance.now() + leftMs })
      await expect(saved.finally(late.resolve)).rejects.toMatchObject(timeout)
    }
    expect(await poll(async () => store.pending === 0 || undefined, { deadlineMs: 5000 })).toBe(true)
    expect((await lab.pool.query('SELECT FROM record_entries')).rowCount).toBe(0)
  } finally {
    await lab.close()
  }
})

test('durable records: a call that was refused while partitions were created is not run afterwards', async () => {
  const database = await createMigratedDatabase()
  const bounds = { connectionsMax: 3, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: database.url, applicationName: 'test partitions', ...bounds })
  const tenantId = randomTenantId()
  const store = openStore(pool)
  const blocker = await pool.connect()
  try {
    await insertDurableTenant(pool, tenantId)
    // No partition can be attached while this lock is held.
    await blocker.query('BEGIN; LOCK TABLE record_entries IN SHARE UPDATE EXCLUSIVE MODE')
    const refused = store.acquire(acquireInput(tenantId, { key: 'refused', lockToken: 'refused' }))
    await expect(refused).rejects.toMatchObject({ name: 'RecordsUnavailable', reason: 'refused' })
    await blocker.query('COMMIT')
    const next = () => store.acquire(acquireInput(tenantId, { key: 'next' })).catch(() => undefined)
    expect(await poll(next, { deadlineMs: 10_000 })).toMatchObject({ kind: 'locked' })
    const { rows } = await pool.query<{ key: string }>('SELECT key FROM record_entries')
    expect(rows).toEqual([{ key: 'next' }])
  } finally {
    blocker.release()
    await pool.end()
    await database.drop()
  }
})

const dayMs = 86_400_000

async function listPartitions(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'record_entries'::regclass ORDER BY 1`,
  )
  return rows.map(({ name }) => name)
}

test('durable records: a late save whose record outlives every partition creates only the partition of its expiry day', async () => {
  const lab = await openRecordLab({ durability: 'postgres' })
  try {
    const tenantId = await lab.createTenant()
    const long = { key: 'long', lockToken: 'long' }
    await lab.store.acquire(acquireInput(tenantId, { ...long, ttlMs: 300 * dayMs }))
    await lab.setClock(tenantId, labStartMs + 2 * dayMs)
    const others = await Promise.all(
      [await lab.createTenant(), tenantId].map(async (id) => {
        await lab.setClock(id, labStartMs + 2 * dayMs)
        return lab.store.acquire(acquireInput(id))
      }),
    )
    expect(others.map(({ kind }) => kind)).toEqual(['locked', 'locked'])
    expect(await lab.store.save(saveInput(tenantId, long))).toEqual({ kind: 'saved' })
    expect(await listPartitions(lab.pool)).toEqual(
      [300, 302, 3]
        .map((days) => `record_entries_${dayAfter(labStartMs, days).replaceAll('-', '')}`)
        .toSorted(),
    )
  } finally {
    await lab.close()
  }
})

test('durable records: while a partition cannot be created, only the calls that need this partition fail', async () => {
  const lab = await openRecordLab({ durability: 'postgres' })
  const blocker = await lab.pool.connect()
  try {
    const [one, other] = [await lab.createTenant(), await lab.createTenant()]
    await lab.store.acquire(acquireInput(one))
    await blocker.query('BEGIN; LOCK TABLE record_entries IN SHARE UPDATE EXCLUSIVE MODE')
    const keys = Array.from({ length: 100 }, (_, n) => `k-${n}`)
    // Waits for all calls, so that a call that exceeds its second on a busy machine fails this test and not later ones.
    const calls = Promise.allSettled(keys.map((key) => lab.store.acquire(acquireInput(other, { key }))))
    const long = lab.store.acquire(acquireInput(one, { key: 'long', ttlMs: 300 * dayMs }))
    // On a busy machine, the time limit of the call ends before that of the lock.
    await expect(long).rejects.toMatchObject({ name: 'RecordsUnavailable' })
    const locked = { status: 'fulfilled', value: { kind: 'locked' } }
    expect(await calls).toMatchObject(keys.map(() => locked))
    await blocker.query('COMMIT')
    const again = () =>
      lab.store.acquire(acquireInput(one, { key: 'long', ttlMs: 300 * dayMs })).catch(() => undefined)
    expect(await poll(again, { deadlineMs: 10_000 })).toMatchObject({ kind: 'locked' })
  } finally {
    blocker.release()
    await lab.close()
  }
})

/** Creates the partitions of the lab's first days, so that no call of a test has to create one in its time. */
async function createPartitions(pool: Pool): Promise<void> {
  const days = Array.from({ length: 12 }, (_, day) => dayAfter(labStartMs, day))
  await ensurePartitions(
    pool,
    days.map((day) => ({ table: 'record_entries', day })),
  )
}

test.each([
  ['released', 'N', 'locked'],
  ['held', undefined, 'busy'],
] as const)(
  'durable records: if the next lock of its key is %s, an expired record does not reappear after the clock went back',
  async (_case, released, next) => {
    const lab = await openRecordLab({ durability: 'postgres' })
    try {
      await createPartitions(lab.pool)
      const tenantId = await lab.createTenant()
      const input = acquireInput(tenantId)
      await lab.store.save(saveInput(tenantId))
      await lab.setClock(tenantId, labStartMs + 3 * dayMs)
      expect(await lab.store.acquire(input)).toMatchObject({ kind: 'locked', takenOver: false })
      await lab.setClock(tenantId, labStartMs + 1)
      if (released !== undefined) expect(await lab.store.remove(input, released)).toBe(true)
      expect(await lab.store.fetch(input)).toEqual({ kind: 'none' })
      expect((await lab.store.acquire({ ...input, lockToken: 'next' })).kind).toBe(next)
      const { rowCount } = await lab.pool.query('SELECT FROM record_entries WHERE tenant_id = $1', [tenantId])
      expect(rowCount).toBe(1)
    } finally {
      await lab.close()
    }
  },
)

/** Runs retention without steps that delete rows, and returns the names of the tables whose partitions were dropped. */
async function dropPartitions(pool: Pool, nowMs: number): Promise<readonly string[]> {
  const dropped: string[] = []
  await runRetention({
    pool,
    nowMs,
    signal: new AbortController().signal,
    before: [],
    after: [],
    observer: {
      partitionDropped: ({ table }) => void dropped.push(table),
      partitionBlocked: () => undefined,
      rowsRemoved: () => undefined,
      failed: () => undefined,
      expiredAgeSeen: () => undefined,
    },
  })
  return dropped
}

test('durable records: retention keeps records and locks until they expire, and drops their partition afterwards', async () => {
  const lab = await openRecordLab({ durability: 'postgres' })
  try {
    const tenantId = await lab.createTenant()
    const endMs = Math.floor(labStartMs / dayMs) * dayMs + 2 * dayMs
    const ttlMs = endMs - 1 - labStartMs
    const lock = acquireInput(tenantId, { key: 'lock', lockMs: 1_000, ttlMs })
    await lab.store.save(saveInput(tenantId, { ttlMs }))
    await lab.store.acquire(lock)
    const lastMs = endMs - 2_000
    await lab.setClock(tenantId, lastMs)
    expect(await dropPartitions(lab.pool, lastMs)).toEqual([])
    expect(await lab.store.fetch(saveInput(tenantId))).toMatchObject({ kind: 'hit' })
    const late = { ...lock, lockToken: 'late' }
    expect(await lab.store.acquire(late)).toMatchObject({ kind: 'locked', takenOver: true })
    expect(await dropPartitions(lab.pool, endMs + dayMs / 2)).toEqual(['record_entries'])
    const { rows } = await lab.pool.query<{ key: string }>('SELECT key FROM record_entries')
    expect(rows).toEqual([{ key: 'lock' }])
  } finally {
    await lab.close()
  }
})
