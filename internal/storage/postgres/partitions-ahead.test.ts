import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
// Tests may import any file of a module. These imports write the rows for which partitions are created.
import { insertEvents } from '#internal/events/insert.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { ensurePartitionsAhead } from './partitions.ts'
import { createPool, type Pool } from './pool.ts'
import { classifySqlError } from './sql-failure.ts'

const dayMs = 86_400_000
/** A minute before midnight. */
const nowMs = Date.parse('2031-03-09T23:59:00Z')

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('DELETE FROM tenants')
  await pool.query('DELETE FROM settings')
  for (const name of await partitionNames()) await pool.query(`DROP TABLE ${name}`)
})

async function partitionNames(): Promise<string[]> {
  const { rows } = await pool.query<{ relname: string }>(
    `SELECT c.relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relkind = 'r' ORDER BY 1`,
  )
  return rows.map(({ relname }) => relname)
}

async function addTenant(id: string, spec: object, deletedAt: Date | null = null): Promise<void> {
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, $2, 1, now(), now(), now(), $3)`,
    [id, spec, deletedAt],
  )
}

const kept = (payloadDays: number, eventDays: number) => ({ retention: { payloadDays, eventDays } })

/** Stores an event as intake does, without making what it misses. */
async function store(receivedAtMs: number, payloadDays: number, eventDays: number): Promise<number> {
  const expiresOn = dayAfter(receivedAtMs, eventDays)
  const payloadExpiresOn = dayAfter(receivedAtMs, payloadDays)
  return (await insertEvents(pool, [receivedEvent({ expiresOn, payloadExpiresOn }, receivedAtMs)])).size
}

describe('partitions ahead', () => {
  test('partitions ahead: are created for today and the next two days, for retention periods of existing tenants only', async () => {
    await addTenant('ten_a', kept(30, 90))
    await addTenant('ten_b', kept(30, 90))
    await addTenant('ten_c', kept(7, 30))
    await addTenant('ten_gone', kept(1, 2), new Date(nowMs))
    await addTenant('ten_purged', {}, new Date(nowMs))
    const days = (keptDays: number) =>
      [0, 1, 2].map((later) => dayAfter(nowMs + later * dayMs, keptDays).replaceAll('-', ''))
    const names = (table: string, keptDays: readonly number[]) =>
      keptDays.flatMap((each) => days(each).map((day) => `${table}_${day}`))
    const expected = [
      ...names('events', [90, 30]),
      ...names('attempts', [90, 30]),
      ...names('executions', [90, 30]),
      ...names('event_payloads', [30, 7]),
      ...names('refused_calls', [30, 7]),
    ]
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(expected.length)
    expect(await partitionNames()).toEqual(expected.toSorted())
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(0)
  })

  test('partitions ahead: for a tenant that sets no retention, partitions follow the platform’s default retention', async () => {
    await addTenant('ten_open', { retention: {} })
    await ensurePartitionsAhead(pool, nowMs)
    expect(await store(nowMs, 30, 90)).toBe(1)
    await pool.query(
      `INSERT INTO settings VALUES ('', 'retention.payloadDays', '5', 1, now(), 'test'), ('', 'retention.eventDays', '8', 2, now(), 'test')`,
    )
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(15)
    expect(await store(nowMs, 5, 8)).toBe(1)
    await addTenant('ten_payloads', { retention: { payloadDays: 20 } })
    await addTenant('ten_events', { retention: { eventDays: 3 } })
    expect(await ensurePartitionsAhead(pool, nowMs)).toBeGreaterThan(0)
    expect(await store(nowMs, 20, 20)).toBe(1)
    expect(await store(nowMs, 3, 3)).toBe(1)
  })

  test('partitions ahead: events can be stored after midnight, and the next run adds the partitions of one more day', async () => {
    await addTenant('ten_a', kept(30, 90))
    await ensurePartitionsAhead(pool, nowMs)
    for (const days of [0, 1, 2]) expect(await store(nowMs + days * dayMs, 30, 90)).toBe(1)
    const missing = await store(nowMs + 3 * dayMs, 30, 90).catch((error: unknown) => error)
    expect(classifySqlError(missing).kind).toBe('partition_missing')
    expect(await ensurePartitionsAhead(pool, nowMs + dayMs)).toBe(5)
    expect(await store(nowMs + 3 * dayMs, 30, 90)).toBe(1)
  })

  test('partitions ahead: if a tenant has records in Postgres, cover records that expire today or in the next three days', async () => {
    await addTenant('ten_gone', {}, new Date(nowMs))
    await addTenant('ten_a', { retention: { payloadDays: 0 } })
    await pool.query("UPDATE tenants SET record_store = 'postgres' WHERE id = 'ten_gone'")
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(0)
    await pool.query("UPDATE tenants SET record_store = 'postgres'")
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(4)
    expect(await partitionNames()).toEqual(
      ['20310310', '20310311', '20310312', '20310313'].map((day) => `record_entries_${day}`),
    )
    expect(await ensurePartitionsAhead(pool, nowMs + dayMs)).toBe(1)
  })

  test('partitions ahead: concurrent processes create each partition once', async () => {
    await pool.query(
      `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
       SELECT id, id, 'shops', id, false,
         jsonb_build_object('retention', jsonb_build_object('payloadDays', p, 'eventDays', e)), 1, now(), now(), now()
       FROM generate_series(1, 90) e, generate_series(1, e) p, LATERAL (SELECT 'ten_' || p || '_' || e) AS t(id)`,
    )
    await Promise.all([ensurePartitionsAhead(pool, nowMs), ensurePartitionsAhead(pool, nowMs)])
    expect(await partitionNames()).toHaveLength(5 * 92)
  }, 60_000)

  test('partitions ahead: no partition is created without a valid tenant, and an invalid tenant does not block others', async () => {
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(0)
    await addTenant('ten_odd', { retention: { payloadDays: 0, eventDays: 900_000 } })
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(0)
    await addTenant('ten_a', kept(1, 1))
    expect(await ensurePartitionsAhead(pool, nowMs, AbortSignal.abort())).toBe(0)
    expect(await ensurePartitionsAhead(pool, nowMs)).toBe(15)
  })
})
