import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { countEventsLeft, type ReceivedEvent } from '#internal/events/index.ts'
// Tests may import any file of a module in `internal`, not only its `index.ts`.
import { createReceivedEvent } from '#internal/intake/intake.ts'
import { purgeRecords } from '#internal/records/index.ts'
import { createPool, ensurePartitions, type Pool } from '#internal/storage/index.ts'
import * as purge from '#internal/tenants/purge.ts'
import { removeTenant } from '#internal/tenants/reconcile/apply-plan.ts'
import { recordEntryId } from '#internal/usage/index.ts'
import { testKeyRing } from '#test/support/api.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { tenantData } from './tenant-data.ts'

const dayMs = 86_400_000
const nowMs = Date.parse('2026-11-01T12:00:00Z')
const tables = [
  'usage_hourly',
  'usage_emissions',
  'stats_minutely',
  'stats_hourly',
  'limit_overrides',
  'record_epochs',
  'record_entries',
  'record_hours',
  'record_bytes',
  'record_meters',
  'deliveries_due',
  'pulls_due',
  'tenant_queues',
  'destination_alerts',
  'refused_calls',
  'settings',
  'executions',
  'replays',
  'subscriptions',
  'simulations',
  'sessions',
  'saved_views',
  'events',
  'event_payloads',
  'attempts',
  'failed_deliveries',
  'dedupe_keys',
] as const

const { purgeSteps } = tenantData
const purgeTenant = (of: Pool, id: TenantId) => purge.purgeTenant(of, purgeSteps, id)
const purgeTenantBatch = (of: Pool, id: TenantId, rowsMax: number) =>
  purge.purgeTenantBatch(of, purgeSteps, id, rowsMax)

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
  await pool.query(`TRUNCATE tenants, api_keys, tenant_secrets, ${tables.join(', ')}`)
})

/** Events of several days and of two retentions, as a tenant has them whose days were changed. */
function eventsOf(id: TenantId): ReceivedEvent[] {
  return Array.from({ length: 11 }, (_none, nth) => {
    const retention = nth % 2 === 0 ? { payloadDays: 30, eventDays: 90 } : { payloadDays: 3, eventDays: 5 }
    const eventId = `evt "ü" ${nth}`
    const payload = `{"of":"${id}","nth":${nth}}`
    const type = 'order.created'
    return createReceivedEvent({
      origin: { kind: 'provider' },
      // One event waits for a pull, because its tenant has no callback.
      tenant: directoryTenant({ id, ...(nth === 4 && { callback: undefined }) }),
      retention,
      provider: nth < 6 ? 'card' : 'generic',
      event: { kind: 'event', sourceEventId: eventId, rawType: type, type, occurredAtMs: nowMs, payload },
      headers: '{}',
      receivedAtMs: nowMs + (nth % 3) * dayMs,
      state: 'accepted',
    })
  })
}

/** A deleted tenant with rows in every table. */
async function fill(id: TenantId): Promise<void> {
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, '{"slug":"x"}', 1, now(), now(), now(), now())`,
    [id],
  )
  const events = eventsOf(id)
  await acceptEvents(pool, events)
  const refusedDays = ['2026-12-01', '2026-12-02']
  await ensurePartitions(
    pool,
    refusedDays.flatMap((day) => [
      { table: 'refused_calls', day },
      { table: 'executions', day },
      { table: 'record_entries', day },
    ]),
  )
  await pool.query(
    `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending)
     SELECT $1, nth, day::date, 's', 'k', 'open' FROM unnest($2::text[]) day, generate_series(1, 5) nth`,
    [id, refusedDays],
  )
  const entryIds = [1, 2, 3, 4, 5].map((nth) => recordEntryId(id, `${nth}`))
  await pool.query(
    `INSERT INTO record_entries SELECT entry, day::date, 1, $1, 's', 'k', 1, 't', 1, 1, 1, false, false, '', '', 300, 1, NULL
     FROM unnest($2::text[]) day, unnest($3::uuid[]) entry`,
    [id, refusedDays, entryIds],
  )
  for (const [table, columns] of [
    ['record_hours', 2],
    ['record_bytes', 2],
    ['record_meters', 11],
  ] as const)
    await pool.query(
      `INSERT INTO ${table} SELECT $1, nth, ${Array(columns).fill('nth').join(', ')} FROM generate_series(1, 7) nth`,
      [id],
    )
  await pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome)
     SELECT id, 'callback', expires_on, 1, attempt, now(), 5, 'failed' FROM events, generate_series(1, 7) attempt
     WHERE tenant_id = $1`,
    [id],
  )
  await pool.query("UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE tenant_id = $1", [
    id,
  ])
  await listFailedEvents(pool)
  await pool.query(
    `INSERT INTO refused_calls (id, expires_on, tenant_id, provider, cause, refused_at, headers)
     SELECT $1 || day || nth, day::date, $1, 'card', 'signature', now(), '{}'
     FROM unnest($2::text[]) day, generate_series(1, 4) nth`,
    [id, refusedDays],
  )
  await pool.query(
    `INSERT INTO usage_hourly SELECT $1, 'webhooks', now() + hour * interval '1 hour', 1 FROM generate_series(1, 6) hour`,
    [id],
  )
  await pool.query(
    `INSERT INTO usage_emissions SELECT $1, nth, 'exports', now(), 1, now() FROM generate_series(1, 9) nth`,
    [id],
  )
  for (const [table, rows] of [
    ['stats_minutely', 8],
    ['stats_hourly', 6],
  ])
    await pool.query(
      `INSERT INTO ${table} SELECT $1, now() + nth * interval '1 hour', ${Array(21).fill(0).join(', ')} FROM generate_series(1, ${rows}) nth`,
      [id],
    )
  await pool.query(`INSERT INTO limit_overrides VALUES ($1, 'recordBytes', 1, now(), 'r', now(), 'b')`, [id])
  await pool.query(`INSERT INTO record_epochs VALUES ($1, 'x', now())`, [id])
  await pool.query(
    `INSERT INTO settings SELECT $1, name, 'true', 1, now(), 'test' FROM unnest('{forwarding.paused,providers.card.paused}'::text[]) name`,
    [id],
  )
  await pool.query(
    `INSERT INTO replays (id, idempotency_key, tenant_id, filter, rate_per_second, requested_by, state, total_count, total_is_exact,
       ends_before, created_at, next_step_at)
     SELECT $1 || nth, nth, $1, '{}', 1, 'test', 'running', 1, true, 'evt_', now(), now() FROM generate_series(1, 5) nth`,
    [id],
  )
  await pool.query(
    `INSERT INTO destination_alerts (tenant_id, destination, since, cause, last_failure_at, check_at) VALUES ($1, 'callback', now(), 'http_500', now(), now())`,
    [id],
  )
  await pool.query(
    `INSERT INTO subscriptions (tenant_id, name, providers, types, position_transaction, position_event, received_from)
     SELECT $1, 's-' || nth, '{}', '{}', '0', '', '' FROM generate_series(1, 3) nth`,
    [id],
  )
  await pool.query(
    `INSERT INTO simulations (id, tenant_id, request, requested_by, state, due_at, next_at, created_at, expires_on)
     SELECT $1 || nth, $1, '{}', 'test', 'scheduled', ARRAY[now()], now(), now(), '2026-12-01' FROM generate_series(1, 7) nth`,
    [id],
  )
  await pool.query(
    `INSERT INTO sessions SELECT sha256(convert_to($1 || nth, 'UTF8')), '{}', 'key', $1, now(), now(), now()
     FROM generate_series(1, 3) nth`,
    [id],
  )
  await pool.query(
    `INSERT INTO saved_views SELECT $1, 'view ' || nth, $1, 'tenant=' || $1, now() FROM generate_series(1, 6) nth`,
    [id],
  )
}

/** Every row, as text, by table. */
async function rowsNow(): Promise<Record<string, string[]>> {
  const read = async (table: string) => {
    const { rows } = await pool.query<{ row: string }>(`SELECT t::text AS row FROM ${table} t ORDER BY 1`)
    return [table, rows.map(({ row }) => row)] as const
  }
  return Object.fromEntries(await Promise.all(tables.map(read)))
}

/** All tables that have a column for a tenant or an event; the audit gets its row with the deletion. */
async function tablesThatNameIt(): Promise<string[]> {
  const { rows } = await pool.query<{ table: string }>(
    `SELECT DISTINCT c.table_name AS table FROM information_schema.columns c JOIN pg_class t ON t.relname = c.table_name
     WHERE c.table_schema = current_schema() AND t.relkind IN ('r', 'p') AND NOT t.relispartition
       AND c.column_name ~ '(tenant|event)_id$' AND c.table_name <> 'audit'`,
  )
  return rows.map(({ table }) => table)
}

/** The tables with a row in which the tenant's id stands, or that of one of its events, in any column. */
async function placesOf(id: TenantId, eventIds: readonly string[]): Promise<string[]> {
  const { rows: all } = await pool.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace ORDER BY 1`,
  )
  const places: string[] = []
  for (const { name } of all) {
    const { rowCount } = await pool.query(`SELECT FROM ${name} t WHERE t::text ~ $1 LIMIT 1`, [
      [id, ...eventIds].join('|'),
    ])
    if (rowCount === 1) places.push(name)
  }
  return places
}

const countsOf = (rows: Record<string, string[]>) => tables.map((table) => rows[table]?.length ?? 0)
const emptied = async (id: TenantId) =>
  (await pool.query(`SELECT 1 FROM tenants WHERE id = $1 AND spec = '{}'`, [id])).rowCount === 1

/** Until a statement on this database waits for a lock. */
async function untilBlocked(): Promise<void> {
  const isBlocked = async () => {
    const { rowCount } = await pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return (rowCount ?? 0) > 0 || undefined
  }
  expect(await poll(isBlocked, { deadlineMs: 4_000 })).toBe(true)
}

describe('purge', () => {
  test('purge: deletes the tenant’s rows from every table and no other rows, and a repeated purge changes nothing', async () => {
    const [kept, gone] = [someTenantId(), someTenantId()]
    await fill(kept)
    const before = await rowsNow()
    await fill(gone)
    expect(countsOf(before)).toEqual([
      6, 9, 8, 6, 1, 1, 10, 7, 7, 7, 10, 1, 1, 1, 8, 2, 10, 5, 3, 7, 3, 6, 11, 11, 77, 11, 11,
    ])
    expect(countsOf(await rowsNow())).toEqual(countsOf(before).map((count) => count * 2))
    for (let times = 0; times < 2; times += 1) {
      expect((await purgeTenant(pool, gone)).isDone).toBe(true)
      expect(await rowsNow()).toEqual(before)
    }
    expect([await emptied(gone), await emptied(kept)]).toEqual([true, false])
  })

  test('purge: the tenant’s id remains only in the audit log', async () => {
    const id = someTenantId()
    await fill(id)
    await pool.query(`UPDATE tenants SET deleted_at = NULL, slug = 'x' WHERE id = $1`, [id])
    await pool.query(
      `INSERT INTO api_keys VALUES (sha256('x'), $1, 'default', '{records}', NULL, NULL, now(), 'lk_12345678')`,
      [id],
    )
    await pool.query(
      `INSERT INTO tenant_secrets VALUES ($1, 'callback', 0, 'key', decode(repeat('00', 12), 'hex'), 'x', 's', '1', now())`,
      [id],
    )
    const { rows } = await pool.query<{ id: string }>('SELECT id FROM events WHERE tenant_id = $1', [id])
    const eventIds = rows.map((row) => row.id)
    const places = await placesOf(id, eventIds)
    // Fails for a new table, which must be filled above and purged.
    expect(places).toEqual(expect.arrayContaining(await tablesThatNameIt()))
    const context = { pool, data: tenantData, keyRing: testKeyRing, actor: 'test' }
    const tenant = { id, uid: id, namespace: 'shops', name: id, slug: 'x' }
    expect(await removeTenant(context, tenant, { nowMs })).toMatchObject({ kind: 'applied' })
    expect((await purgeTenant(pool, id)).isDone).toBe(true)
    // The rows that remain record that the tenant existed, reserve its slug, and name the user who deleted it.
    expect(await placesOf(id, eventIds)).toEqual(['audit', 'slug_reservations', 'tenants'])
  })

  test('purge: deletes at most rowsMax rows, and deletes dependent rows before their events', async () => {
    const id = someTenantId()
    await fill(id)
    const rowsMax = 4
    const events = await countEventsLeft(pool, id, 1_000)
    expect(events).toBeGreaterThan(1)
    expect(await countEventsLeft(pool, id, events - 1)).toBe(events - 1)
    let before = countsOf(await rowsNow())
    let batches = 0
    while ((await purgeTenantBatch(pool, id, rowsMax)) > 0) {
      const after = countsOf(await rowsNow())
      // Excludes attempts, whose maximum applies to each statement: there is one statement for each day.
      const removed = before.map((count, at) => count - (after[at] ?? 0))
      expect(Math.max(...removed.filter((_count, at) => tables[at] !== 'attempts'))).toBeLessThanOrEqual(
        rowsMax,
      )
      const orphans = await pool.query(
        `SELECT event_id FROM attempts UNION ALL SELECT event_id FROM event_payloads
         UNION ALL SELECT event_id FROM dedupe_keys EXCEPT ALL (SELECT id FROM events, generate_series(1, 9))`,
      )
      expect(orphans.rowCount).toBe(0)
      before = after
      batches += 1
      expect(batches).toBeLessThan(100)
    }
    expect(countsOf(await rowsNow())).toEqual(tables.map(() => 0))
  })

  test('purge: continues after a concurrent or interrupted purge', async () => {
    const id = someTenantId()
    await fill(id)
    for (let batch = 0; batch < 12; batch += 1) {
      await Promise.all([purgeTenantBatch(pool, id, 3), purgeTenantBatch(pool, id, 3)])
    }
    expect((await purgeTenant(pool, id)).isDone).toBe(true)
    expect(countsOf(await rowsNow())).toEqual(tables.map(() => 0))
  })

  test('purge: deletes rows that another transaction is updating', async () => {
    const id = someTenantId()
    await fill(id)
    for (const [table, column] of [
      ['usage_hourly', 'amount'],
      ['stats_minutely', 'accepted'],
    ] as const) {
      const writer = await pool.connect()
      await writer.query('BEGIN')
      await writer.query(`UPDATE ${table} SET ${column} = ${column} + 1 WHERE tenant_id = $1`, [id])
      const purged = untilBlocked().then(() => writer.query('COMMIT'))
      while ((await rowsNow())[table]?.length !== 0)
        expect(await purgeTenantBatch(pool, id, 1_000)).toBeGreaterThan(0)
      await purged
      writer.release()
    }
  })

  test('purge: limits the bytes of records that one batch deletes', async () => {
    const [kept, gone] = [someTenantId(), someTenantId()]
    await fill(kept)
    await fill(gone)
    await pool.query('UPDATE record_entries SET bytes = 40 * 1024 * 1024')
    expect(await purgeRecords(pool, gone, 1_000)).toBe(2)
    const { rows } = await pool.query('SELECT tenant_id AS owner FROM record_entries')
    expect(rows.filter(({ owner }) => owner === gone)).toHaveLength(8)
    expect(rows.filter(({ owner }) => owner === kept)).toHaveLength(10)
  })

  test('purge: limits the number of payload bytes that one batch deletes', async () => {
    const id = someTenantId()
    await fill(id)
    await pool.query(`UPDATE events SET payload_bytes = 40 * 1024 * 1024; DELETE FROM deliveries_due`)
    const eventsNow = async () => (await rowsNow())['events']?.length
    while ((await eventsNow()) === 11) expect(await purgeTenantBatch(pool, id, 1_000)).toBeGreaterThan(0)
    expect(await eventsNow()).toBe(10)
  })
})
