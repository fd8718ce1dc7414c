import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { createPool, ensurePartitions, type Pool } from '#internal/storage/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type BatchOutcome, partitionsOf, type StoreBatchOptions, storeBatch } from './insert.ts'
import { callbackQueueOf, type ReceivedEvent } from './model.ts'

let database: TestDatabase
let pool: Pool
let notified: string[][]
let errors: string[]

beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = poolOf(database.url)
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  notified = []
  errors = []
  await truncateEvents(pool)
})

function poolOf(url: string): Pool {
  const bounds = { connectionsMax: 6, queryTimeoutMs: 5_000, connectTimeoutMs: 500 }
  return createPool({ url, applicationName: 'test', ...bounds })
}

function store(
  events: readonly ReceivedEvent[],
  fields: Partial<StoreBatchOptions> = {},
): Promise<BatchOutcome> {
  const sorted = events.toSorted((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1))
  const options: StoreBatchOptions = {
    pool,
    wake: (ids) => notified.push([...ids]),
    onError: (_error, kind) => errors.push(kind),
    ...fields,
  }
  return storeBatch(options, sorted)
}

async function acceptancesOf(
  events: readonly ReceivedEvent[],
  fields?: Partial<StoreBatchOptions>,
): Promise<string[]> {
  const outcome = await store(events, fields)
  return outcome.kind === 'completed' ? [...outcome.acceptances] : ['away']
}

async function rowsOf<T extends object>(text: string, values: unknown[] = []): Promise<T[]> {
  return (await pool.query<T>(text, values)).rows
}

const many = (count: number, fields: Partial<ReceivedEvent> = {}) =>
  Array.from({ length: count }, () => receivedEvent(fields))

describe('storeBatch', () => {
  test('storeBatch: stores events of two tenants in one commit, which creates their tenant queues, and wakes them', async () => {
    const [one, other] = [someTenantId(), someTenantId()]
    const events = [...many(3, { tenantId: one }), ...many(2, { tenantId: other })]
    expect(await acceptancesOf(events)).toEqual(Array(5).fill('stored'))
    expect(notified).toEqual([[one, other].toSorted().map(callbackQueueOf)])
    const transactions = await rowsOf('SELECT DISTINCT xmin FROM events')
    expect(transactions).toHaveLength(1)
    expect(await rowsOf('SELECT tenant_id FROM tenant_queues ORDER BY 1')).toEqual(
      [one, other].toSorted().map((tenant_id) => ({ tenant_id })),
    )
  })

  test('storeBatch: a second call with the same events changes nothing', async () => {
    const events = many(4)
    await store(events)
    const again = events.map((event) => ({ ...event, id: receivedEvent().id, payload: '{"changed":true}' }))
    expect(await acceptancesOf(again)).toEqual(Array(4).fill('duplicate'))
    expect(await rowsOf(`SELECT 1 FROM event_payloads WHERE payload LIKE '%changed%'`)).toEqual([])
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(4)
  })

  test('storeBatch: an event either waits for a pull or is delivered, and a verified event does neither', async () => {
    const [pulled, delivered] = [receivedEvent({ isPullOnly: true }), receivedEvent()]
    await store([pulled, delivered, receivedEvent({ state: 'verified' })])
    expect(await rowsOf('SELECT event_id AS id FROM pulls_due')).toEqual([{ id: pulled.id }])
    expect(await rowsOf('SELECT event_id AS id FROM deliveries_due')).toEqual([{ id: delivered.id }])
  })

  test('storeBatch: a repeat after a lost database reply returns `stored`, not `duplicate`', async () => {
    const events = many(3)
    await store(events)
    expect(await acceptancesOf(events)).toEqual(['stored', 'stored', 'stored'])
  })

  test('storeBatch: reports new events before it looks up duplicates', async () => {
    const [fresh, known] = [receivedEvent(), receivedEvent()]
    await store([known])
    const reported: string[] = []
    const events = [fresh, { ...known, id: receivedEvent().id }].toSorted((a, b) =>
      a.dedupeKey < b.dedupeKey ? -1 : 1,
    )
    const options = { pool, wake: () => undefined, onError: () => undefined }
    await storeBatch(options, events, ({ id }, acceptance) => reported.push(`${id} ${acceptance}`))
    expect(reported).toEqual([`${fresh.id} stored`])
  })

  test('storeBatch: reports the new events of a batch in which Postgres rejects another event', async () => {
    const [fresh, bad] = [receivedEvent(), receivedEvent({ rawType: 'order\u0000created' })]
    const reported: string[] = []
    const options = { pool, wake: () => undefined, onError: () => undefined }
    await storeBatch(options, [fresh, bad], ({ id }, acceptance) => reported.push(`${id} ${acceptance}`))
    expect(reported).toEqual([`${fresh.id} stored`])
  })

  test('storeBatch: creates neither delivery nor tenant queue for verified events', async () => {
    expect(await acceptancesOf(many(2, { state: 'verified' }))).toEqual(['stored', 'stored'])
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toEqual([])
    expect(await rowsOf('SELECT 1 FROM tenant_queues')).toEqual([])
    expect(notified).toEqual([[]])
  })

  test('storeBatch: wakes a sleeping tenant queue, and does not write to a tenant queue that is already due', async () => {
    const [asleep, busy] = [someTenantId(), someTenantId()]
    await pool.query(
      `INSERT INTO tenant_queues (tenant_id, destination, next_due_at, idle_checks) VALUES ($1, 'callback', 'infinity', 2), ($2, 'callback', '2026-01-01', 0)`,
      [asleep, busy],
    )
    const before = await rowsOf('SELECT ctid FROM tenant_queues WHERE tenant_id = $1', [busy])
    await store([receivedEvent({ tenantId: asleep }), receivedEvent({ tenantId: busy })])
    expect(await rowsOf('SELECT ctid FROM tenant_queues WHERE tenant_id = $1', [busy])).toEqual(before)
    expect(
      await rowsOf(
        'SELECT next_due_at <= now() AS due, idle_checks FROM tenant_queues WHERE tenant_id = $1',
        [asleep],
      ),
    ).toEqual([{ due: true, idle_checks: 0 }])
  })

  test('storeBatch: waits for another transaction that is inserting the same key', async () => {
    const event = receivedEvent()
    await ensurePartitions(pool, partitionsOf([event]))
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('INSERT INTO dedupe_keys VALUES ($1, $2, $3)', [
        event.dedupeKey,
        event.id,
        event.expiresOn,
      ])
      let completed = false
      const acceptances = acceptancesOf([{ ...event, id: receivedEvent().id }]).finally(() => {
        completed = true
      })
      const waits = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      while ((await rowsOf(waits)).length === 0) await new Promise((resolve) => setImmediate(resolve))
      expect(completed).toBe(false)
      await client.query('ROLLBACK')
      expect(await acceptances).toEqual(['stored'])
    } finally {
      client.release()
    }
  })
})

/** Text that exceeds the maximum size of an index row, even compressed. */
const wideText = randomBytes(6_000).toString('base64')

describe('storeBatch: an event that Postgres rejects', () => {
  test.each<[string, Partial<ReceivedEvent>]>([
    ['a NUL character in its payload (SQLSTATE 22021)', { payload: '{"a":"\0"}' }],
    ['an index row that is too large (SQLSTATE 54000)', { type: wideText }],
  ])('storeBatch: refuses an event with %s and stores the others of its batch', async (_why, fields) => {
    const rejected = receivedEvent(fields)
    const events = [...many(20), rejected].toSorted((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1))
    const acceptances = await acceptancesOf(events)
    expect(acceptances.filter((acceptance) => acceptance === 'stored')).toHaveLength(20)
    expect(acceptances[events.indexOf(rejected)]).toBe('refused')
    expect(errors).toEqual(['refused'])
    expect(await rowsOf('SELECT 1 FROM events')).toHaveLength(20)
    expect(await rowsOf('SELECT 1 FROM dedupe_keys WHERE event_id = $1', [rejected.id])).toEqual([])
  })
})

describe('storeBatch without Postgres', () => {
  test('storeBatch: returns `unavailable` for every event when Postgres is unavailable', async () => {
    const gone = poolOf('postgres://nobody@127.0.0.1:1/nothing')
    expect(await acceptancesOf(many(2), { pool: gone })).toEqual(['away'])
    expect(errors).toEqual(['unavailable'])
    await gone.end()
  })
})

describe('storeBatch: random concurrent batches', () => {
  test('storeBatch: random concurrent batches store each key once with one delivery', async () => {
    const tenants = [someTenantId(), someTenantId(), someTenantId()]
    const keys = Array.from({ length: 60 }, (_, index) => {
      return receivedEvent({ tenantId: tenants[index % 3] ?? someTenantId() })
    })
    const cycles = Array.from({ length: 24 }, () => {
      const picked = keys.filter(() => Math.random() < 0.4)
      return picked.map((event) => ({ ...event, id: receivedEvent().id }))
    })
    const acceptances = await Promise.all(
      cycles.filter((cycle) => cycle.length > 0).map((cycle) => acceptancesOf(cycle)),
    )
    const stored = acceptances.flat().filter((acceptance) => acceptance === 'stored')
    const used = new Set(cycles.flat().map(({ dedupeKey }) => dedupeKey))
    expect(stored).toHaveLength(used.size)
    expect(
      acceptances.flat().every((acceptance) => acceptance === 'stored' || acceptance === 'duplicate'),
    ).toBe(true)
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(used.size)
  })
})

describe('storeBatch: a duplicate of a failed event', () => {
  test('storeBatch: a duplicate of a failed event begins a new delivery cycle only if its tenant opted in, and never from the spool', async () => {
    const event = receivedEvent()
    await pool.query(
      `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
       VALUES ($1, $1, 'shops', $1, $1, false, '{"callback":{}}', 1, now(), now(), now())`,
      [event.tenantId],
    )
    await store([event])
    await pool.query(`UPDATE events SET state = 'delivery_failed'; DELETE FROM deliveries_due`)
    const again = { ...event, id: receivedEvent().id }
    const wanted = { ...again, retriesOnRedelivery: true } as const
    expect(await acceptancesOf([wanted], { requeues: false })).toEqual(['duplicate'])
    expect(await acceptancesOf([again])).toEqual(['duplicate'])
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toEqual([])
    expect(await acceptancesOf([wanted])).toEqual(['duplicate'])
    expect(await rowsOf('SELECT 1 FROM deliveries_due')).toHaveLength(1)
  })
})
