import { expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { startTcpProxy } from '#test/faults/tcp-proxy.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { randomTenantId } from '#test/support/record-lab.ts'
import { acquireInput } from '#test/support/record-steps.ts'
import { insertDurableTenant } from '#test/support/record-tenants.ts'
import { DurableRecordStore } from './durable-store.ts'

test('durable records: a call that was refused before a connection was there is not run afterwards', async () => {
  const database = await createMigratedDatabase()
  const url = new URL(database.url)
  const proxy = await startTcpProxy(Number(url.port))
  url.port = String(proxy.port)
  const bounds = { connectionsMax: 2, queryTimeoutMs: 700, connectTimeoutMs: 10_000 }
  const pool = createPool({ url: url.href, applicationName: 'test deadline', ...bounds })
  const direct = createPool({ url: database.url, applicationName: 'test deadline direct', ...bounds })
  const tenantId = randomTenantId()
  const store = new DurableRecordStore({
    ...{ pool, ttlSecondsMax: 86_400 },
    redis: { publish: async () => undefined },
    meter: { markUsed: () => undefined },
  })
  try {
    await insertDurableTenant(direct, tenantId)
    proxy.hang()
    const refused = store.acquire(acquireInput(tenantId, { key: 'refused', lockToken: 'refused' }))
    await expect(refused).rejects.toMatchObject({ name: 'RecordsUnavailable', reason: 'timeout' })
    proxy.heal()
    // Runs after the transaction in which the other call waited.
    expect(await store.acquire(acquireInput(tenantId, { key: 'next' }))).toMatchObject({ kind: 'locked' })
    const { rows } = await direct.query<{ key: string }>('SELECT key FROM record_entries')
    expect(rows).toEqual([{ key: 'next' }])
  } finally {
    await Promise.all([pool.end(), direct.end()])
    await proxy.close()
    await database.drop()
  }
})

test('durable records: a call that was refused while partitions were created is not run afterwards', async () => {
  const database = await createMigratedDatabase()
  const bounds = { connectionsMax: 3, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: database.url, applicationName: 'test partitions', ...bounds })
  const tenantId = randomTenantId()
  const store = new DurableRecordStore({
    ...{ pool, ttlSecondsMax: 86_400 },
    redis: { publish: async () => undefined },
    meter: { markUsed: () => undefined },
  })
  const blocker = await pool.connect()
  try {
    await insertDurableTenant(pool, tenantId)
    // No partition can be attached while this lock is held.
    await blocker.query('BEGIN; LOCK TABLE record_entries IN SHARE UPDATE EXCLUSIVE MODE')
    const refused = store.acquire(acquireInput(tenantId, { key: 'refused', lockToken: 'refused' }))
    await expect(refused).rejects.toMatchObject({ name: 'RecordsUnavailable', reason: 'timeout' })
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
