import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createEventId, expiryDayOf } from '#internal/base/index.ts'
import { createPool, ensurePartitions, type Pool, runRetention } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { retentionNowMs, retentionSteps } from './retention.ts'

const dayMs = 86_400_000
const nowMs = Date.parse('2031-05-06T12:00:00Z')

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const ago = (days: number) => new Date(nowMs - days * dayMs)

const statsDays = [
  ['stats_minutely', 2],
  ['stats_hourly', 35],
  ['stats_queue', 35],
  ['stats_writers', 1],
] as const

async function turn(): Promise<Record<string, number>> {
  const removed: Record<string, number> = {}
  const trouble: unknown[] = []
  const result = await runRetention({
    ...retentionSteps(pool),
    pool,
    nowMs,
    signal: new AbortController().signal,
    observer: {
      partitionDropped: () => undefined,
      partitionBlocked: ({ table }) => void trouble.push(table),
      rowsRemoved: (table, count) => void (removed[table] = (removed[table] ?? 0) + count),
      failed: (table, error) => void trouble.push(table, error),
      expiredAgeSeen: (ageMs) => void (ageMs > 0 && trouble.push(ageMs)),
    },
  })
  expect({ result, trouble }).toEqual({ result: 'done', trouble: [] })
  return removed
}

/** Two rows of each: `gone` is a second past its time, `kept` is not. */
async function fill(): Promise<void> {
  const pairs = (days: number) => [
    ['gone', new Date(ago(days).getTime() - 1_000)] as const,
    ['kept', new Date(ago(days).getTime() + 1_000)] as const,
  ]
  for (const [name, at] of pairs(400)) {
    await pool.query('INSERT INTO audit (at, actor, action) VALUES ($1, $2, $2)', [at, name])
    await pool.query('INSERT INTO usage_hourly VALUES ($1, $1, $2, 1)', [name, at])
    for (const spec of ['{}', '{"deletionPolicy":"Retain"}'])
      await pool.query(
        `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at, deleted_at)
         VALUES ($1, $1, 'shops', $1, false, $2, 1, $3, $3, $3, $3)`,
        [`${name} ${spec}`, spec, at],
      )
  }
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ('live', 'live', 'shops', 'live', false, '{}', 1, $1, $1, $1)`,
    [ago(1000)],
  )
  for (const [table, days] of statsDays)
    for (const [name, at] of pairs(days)) {
      const zeros = table === 'stats_queue' ? '1, 1' : Array(21).fill(0).join(', ')
      const text =
        table === 'stats_writers'
          ? `INSERT INTO stats_writers VALUES ($1, 1, $2)`
          : `INSERT INTO ${table} SELECT ${table === 'stats_queue' ? '' : '$1::text, '}$2::timestamptz, ${zeros} WHERE $1 <> ''`
      await pool.query(text, [name, at])
    }
  for (const [name, at] of pairs(0)) {
    await pool.query(`INSERT INTO slug_reservations VALUES ($1, 'shops', 'x', $2)`, [name, at])
    await pool.query(
      `INSERT INTO sessions VALUES (sha256(convert_to($1, 'UTF8')), '{}', $1, NULL, $2, $3, $2)`,
      [name, at, ago(0)],
    )
  }
  for (const [name, at] of pairs(365))
    await pool.query(`INSERT INTO saved_views VALUES ('user:ada', $1, NULL, 'state=processed', $2)`, [
      name,
      at,
    ])
  for (const [name, at] of [...pairs(90), ['unended', null] as const])
    await pool.query(
      `INSERT INTO replays (id, idempotency_key, filter, rate_per_second, requested_by, state, total_count, total_is_exact, ends_before,
         created_at, ended_at, next_step_at) VALUES ($1, $1, '{}', 1, 'test', 'running', 1, true, 'evt_', $2, $3, $2)`,
      [name, ago(1000), at],
    )
  for (const [name, at] of pairs(40))
    await pool.query(`INSERT INTO usage_emissions VALUES ($1, $1, 'x.y', $2, 1, $2)`, [name, at])
  for (const [name, day, endedAt] of [
    ['gone', '2031-05-06', ago(1)],
    ['kept', '2031-05-07', ago(1)],
    ['unended', '2031-05-06', null],
  ])
    await pool.query(
      `INSERT INTO simulations (id, tenant_id, request, requested_by, state, due_at, created_at, ended_at, expires_on)
       VALUES ($1, $1, '{}', 'test', 'running', '{}', now(), $3, $2)`,
      [name, day, endedAt],
    )
  await pool.query(
    `INSERT INTO dedupe_keys VALUES (md5('a')::uuid, 'gone', '2031-05-06'), (md5('b')::uuid, 'kept', '2031-05-07')`,
  )
  for (const eventDays of [1, 2]) {
    const id = createEventId(ago(2).getTime(), eventDays)
    await pool.query(
      `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
       VALUES ($1, 'callback', $2, $3, $3, 1, 1, now())`,
      [id, eventDays === 1 ? 'gone' : 'kept', expiryDayOf(id)],
    )
  }
  await ensurePartitions(pool, [
    { table: 'events', day: '2031-05-06' },
    { table: 'events', day: '2031-05-07' },
  ])
}

test('retention: one run deletes the expired rows of every table and nothing else, and a second run deletes nothing', async () => {
  await fill()
  const one = {
    deliveries_due: 1,
    dedupe_keys: 1,
    replays: 1,
    simulations: 1,
    usage_hourly: 1,
    usage_emissions: 1,
    stats_minutely: 1,
    stats_hourly: 1,
    stats_queue: 1,
    stats_writers: 1,
    slug_reservations: 1,
    tenants: 1,
    audit: 1,
    sessions: 1,
    saved_views: 1,
  }
  expect(await turn()).toEqual(one)
  expect(await turn()).toEqual({})
  const left = async (text: string) => (await pool.query<{ name: string }>(text)).rows.map(({ name }) => name)
  expect(await left('SELECT actor AS name FROM audit')).toEqual(['kept'])
  expect(await left('SELECT actor_name AS name FROM sessions')).toEqual(['kept'])
  expect(await left('SELECT name FROM saved_views')).toEqual(['kept'])
  expect(await left('SELECT meter AS name FROM usage_hourly')).toEqual(['kept'])
  expect(await left('SELECT tenant_id AS name FROM stats_minutely')).toEqual(['kept'])
  expect(await left('SELECT tenant_id AS name FROM stats_hourly')).toEqual(['kept'])
  expect(await left('SELECT writer AS name FROM stats_writers')).toEqual(['kept'])
  expect(await left('SELECT slug AS name FROM slug_reservations')).toEqual(['kept'])
  expect(await left('SELECT id AS name FROM replays ORDER BY 1')).toEqual(['kept', 'unended'])
  expect(await left('SELECT id AS name FROM simulations ORDER BY 1')).toEqual(['kept', 'unended'])
  expect(await left('SELECT id AS name FROM usage_emissions')).toEqual(['kept'])
  expect(await left('SELECT event_id AS name FROM dedupe_keys')).toEqual(['kept'])
  expect(await left('SELECT tenant_id AS name FROM deliveries_due')).toEqual(['kept'])
  const retained = '{"deletionPolicy":"Retain"}'
  expect((await left('SELECT id AS name FROM tenants')).toSorted()).toEqual(
    [`gone ${retained}`, `kept ${retained}`, 'kept {}', 'live'].toSorted(),
  )
  expect(await left(`SELECT relname AS name FROM pg_class WHERE relispartition AND relkind = 'r'`)).toEqual([
    'events_20310507',
  ])
})

test.each([
  ['three days ahead of', 3 * dayMs, 0],
  ['three days behind', -3 * dayMs, -3 * dayMs],
])(
  'retention: with the clock of the process %s that of Postgres, uses the earlier time of the two',
  async (_case, offMs, expectedMs) => {
    const clockMs = Date.now()
    const usedMs = await retentionNowMs(pool, { now: () => clockMs + offMs })
    expect(Math.abs(usedMs - clockMs - expectedMs)).toBeLessThan(60_000)
  },
)

test('retention: storage/README.md states the retention period and the deletion step of every table', async () => {
  const { rows } = await pool.query<{ name: string; partitioned: boolean }>(
    `SELECT relname AS name, relkind = 'p' AS partitioned FROM pg_class
     WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace ORDER BY 1`,
  )
  const readme = await Bun.file(join(import.meta.dir, '../../internal/storage/README.md')).text()
  const written = new Map<string, string>()
  for (const [, names, remover] of readme.matchAll(/^\| (`[a-z_`, ]+`) \| .+ \| (.+) \|$/gm))
    for (const [, name] of (names ?? '').matchAll(/`([a-z_]+)`/g)) written.set(name ?? '', remover ?? '')
  expect([...written.keys()].toSorted()).toEqual(rows.map(({ name }) => name).toSorted())
  const { before, after } = retentionSteps(pool)
  const inBatches = [...before, ...after].map(({ table }) => table)
  for (const { name, partitioned } of rows) {
    expect([name, written.get(name)?.includes('a partition a day')]).toEqual([name, partitioned])
    expect([name, written.get(name)?.includes('retention, in batches')]).toEqual([
      name,
      inBatches.includes(name),
    ])
  }
})
