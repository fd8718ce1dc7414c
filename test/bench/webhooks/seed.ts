import { createEventId, type Day, dayAfter } from '#internal/base/index.ts'
import { ensurePartitions, type Pool, partitionName, withTx } from '#internal/storage/index.ts'

const dayMs = 86_400_000
const eventDays = 90
const payloadDays = 30
const payload = '{"id":"seed","type":"order.created"}'
/** First twelve of an id's 26 characters, with its time and days; the rest, made in SQL, is a number and random. */
const idStartCharacters = 'evt_'.length + 12
const seedId = `$1 || lpad(to_hex(i), 8, '0') || substr(md5(i::text), 1, 5) || '0'`

/** Inserts events of a tenant into the queue, as just received and due now. */
export async function seedWaiting(
  pool: Pool,
  { tenantId, count }: { readonly tenantId: string; readonly count: number },
): Promise<void> {
  const nowMs = Date.now()
  const [expiresOn, payloadExpiresOn] = [dayAfter(nowMs, eventDays), dayAfter(nowMs, payloadDays)]
  await ensurePartitions(pool, [
    { table: 'events', day: expiresOn },
    { table: 'attempts', day: expiresOn },
    { table: 'event_payloads', day: payloadExpiresOn },
  ])
  // Ids depend on the start time, so a database that was seeded before gets different ids.
  const values = [idStart(nowMs), count, tenantId, expiresOn, payloadExpiresOn, payload]
  await pool.query(
    `WITH new AS (SELECT ${seedId} AS id, i FROM generate_series(1, $2::integer) i), stored AS (
       INSERT INTO events (id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at,
         headers, payload_bytes, payload_expires_on, state, cycle)
       SELECT id, $4::date, $3, 'generic', id, 'order.created', 'order.created', now(), now(), '{}', length($6), $5::date,
         'accepted', 1 FROM new
     ), payloads AS (
       INSERT INTO event_payloads (event_id, expires_on, payload) SELECT id, $5::date, $6 FROM new
     ), queue AS (
       INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($3, 'callback', now())
       ON CONFLICT (tenant_id, destination) DO UPDATE SET next_due_at = now()
     )
     INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
     SELECT id, 'callback', $3, $4::date, $5::date, length($6), 1, now() FROM new`,
    values,
  )
  // Updates planner statistics, as autovacuum would within a minute.
  await pool.query('ANALYZE deliveries_due, tenant_queues')
}

/** Stored events to load. */
export interface BehindOptions {
  readonly count: number
  readonly tenantIds: readonly string[]
  /** Days loaded concurrently, each on its own connection. */
  readonly lanes: number
}

/**
 * Loads delivered events, evenly over the retained days: dedupe keys, events, attempts, and payloads of the days within payload
 * retention. Creates, fills and attaches a day's tables in one transaction, so that the WAL gets each row once; only the benchmark's
 * load may run concurrently. Requires tables without these days.
 */
export async function seedBehind(pool: Pool, { count, tenantIds, lanes }: BehindOptions): Promise<void> {
  const todayMs = Math.floor(Date.now() / dayMs) * dayMs
  const days = Array.from({ length: eventDays }, (_none, ago) => todayMs - (ago + 1) * dayMs)
  const perDay = Math.ceil(count / days.length)
  const queue = [...days.entries()]
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [at, receivedMs] = next
      await seedDay(pool, { receivedMs, from: at * perDay, count: perDay, tenantIds })
    }
  }
  await Promise.all([seedKeys(pool, perDay * days.length), ...Array.from({ length: lanes }, work)])
  for (const table of ['dedupe_keys', 'events', 'event_payloads', 'attempts'])
    await pool.query(`VACUUM (ANALYZE) ${table}`)
  await pool.query('CHECKPOINT')
}

interface SeedDay {
  readonly receivedMs: number
  readonly from: number
  readonly count: number
  readonly tenantIds: readonly string[]
}

async function seedDay(pool: Pool, { receivedMs, from, count, tenantIds }: SeedDay): Promise<void> {
  const expiresOn = dayAfter(receivedMs, eventDays)
  const payloadExpiresOn = dayAfter(receivedMs, payloadDays)
  const series = `generate_series(${from}, ${from + count - 1}) i`
  const received = `(timestamptz '${new Date(receivedMs).toISOString()}' + i % 86400 * interval '1 s')`
  const id = seedId.replace('$1', `'${idStart(receivedMs)}'`)
  const tenant = `('{${tenantIds.join(',')}}'::text[])[1 + i % ${tenantIds.length}]`
  await withTx(pool, async (client) => {
    await client.query(`SET LOCAL maintenance_work_mem = '256MB'`)
    const fill = async (table: 'events' | 'event_payloads' | 'attempts', day: Day, select: string) => {
      const name = partitionName({ table, day })
      await client.query(`DROP TABLE IF EXISTS ${name}`)
      await client.query(`CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS)`)
      await client.query(`INSERT INTO ${name} ${select} FROM ${series}`)
      // Attaches the partition after it is filled, which creates the indexes of the parent table.
      await client.query(
        `ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${day}') TO (date '${day}' + 1)`,
      )
    }
    await fill(
      'events',
      expiresOn,
      `(id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers, payload_bytes,
         payload_expires_on, state, cycle, completed_at)
       SELECT ${id}, '${expiresOn}', ${tenant}, 'generic', 'seed_' || i, 'order.created', 'order.created', ${received},
         ${received}, '{}', ${payload.length}, '${payloadExpiresOn}', 'processed', 1, ${received}`,
    )
    await fill(
      'attempts',
      expiresOn,
      `(event_id, expires_on, cycle, attempt, started_at, duration_ms, outcome, status)
       SELECT ${id}, '${expiresOn}', 1, 1, ${received}, 20, 'processed', 200`,
    )
    if (payloadExpiresOn <= dayAfter(Date.now(), 0)) return
    await fill(
      'event_payloads',
      payloadExpiresOn,
      `(event_id, expires_on, payload) SELECT ${id}, '${payloadExpiresOn}', '${payload}'`,
    )
  })
}

/** Inserts random dedupe keys, as hashes are; their link to an event is not read. */
async function seedKeys(pool: Pool, count: number): Promise<void> {
  await withTx(pool, async (client) => {
    await client.query(`SET LOCAL maintenance_work_mem = '512MB'`)
    await client.query('ALTER TABLE dedupe_keys DROP CONSTRAINT dedupe_keys_pkey')
    await client.query('DROP INDEX dedupe_keys_expiry')
    await client.query(
      `INSERT INTO dedupe_keys (key, event_id, expires_on)
       SELECT md5('seed' || i)::uuid, 'evt_' || substr(md5(i::text), 1, 26), current_date + 1 + (i % ${eventDays})
       FROM generate_series(1, ${count}) i`,
    )
    await client.query('ALTER TABLE dedupe_keys ADD PRIMARY KEY (key)')
    await client.query('CREATE INDEX dedupe_keys_expiry ON dedupe_keys (expires_on)')
  })
}

function idStart(receivedMs: number): string {
  return createEventId(receivedMs, eventDays).slice(0, idStartCharacters)
}
