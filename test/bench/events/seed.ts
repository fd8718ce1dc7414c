import { createEventId, type Day, dayAfter, type EventId } from '#internal/base/index.ts'
import { failedEventColumns } from '#internal/events/complete.ts'
import {
  type PartitionedTable,
  type Pool,
  type PoolClient,
  partitionName,
  textArrayParam,
  withTx,
} from '#internal/storage/index.ts'
import {
  arrayText,
  failedTenThousandths,
  placeText,
  providerShares,
  tenantShares,
  typeShares,
} from './shares.ts'

/** Events to load. */
export interface SeedOptions {
  readonly count: number
  /** One tenant per share, largest first. */
  readonly tenantIds: readonly string[]
  /** Days loaded concurrently, each on its own connection. */
  readonly lanes: number
}

/** Loaded events. */
export interface Seeded {
  /** Some thousand ids of unexpired events, of all days. */
  readonly ids: readonly EventId[]
  /** Expired days with full partitions, oldest first. */
  readonly expiredDays: readonly Day[]
}

const dayMs = 86_400_000
const eventDays = 90
const payloadDays = 30
/** Number of expired days. */
const expiredCount = 3
const sampledMax = 5_000
const refusedADay = 2_000
const locksADay = 20_000
const attemptsOfFailed = 10
const headers = '{"content-type":"application/json","user-agent":"bench","latchkey-hops":"1"}'
const payloadFiller = 'x'.repeat(300)

/**
 * Loads completed events, evenly over the retained days and some expired ones: dedupe keys, events, attempts, payloads of the days
 * within payload retention, refused calls, lock history of the expired days. Creates, fills, indexes and attaches a day's tables in
 * one transaction, so that the WAL gets each row once. Requires tables without these days.
 */
export async function seedEvents(pool: Pool, { count, tenantIds, lanes }: SeedOptions): Promise<Seeded> {
  if (tenantIds.length !== tenantShares.length)
    throw new RangeError(`${tenantShares.length} tenants are required`)
  const todayMs = Math.floor(Date.now() / dayMs) * dayMs
  const receivedDays = [
    ...daysAgo(eventDays + 2 + expiredCount, expiredCount),
    ...daysAgo(eventDays + 1, eventDays),
  ].map((ago) => todayMs - ago * dayMs)
  const daysCount = receivedDays.length
  const perDay = Math.ceil(count / daysCount)
  const sampled: EventId[] = []
  await pool.query('ALTER TABLE dedupe_keys DROP CONSTRAINT dedupe_keys_pkey')
  await pool.query('DROP INDEX dedupe_keys_expiry')
  const queue = [...receivedDays.entries()]
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [at, receivedMs] = next
      const ids = idsOfDay(receivedMs, perDay)
      await withTx(pool, (client) => seedDay(client, { receivedMs, ids, from: at * perDay, tenantIds }))
      const every = Math.ceil((perDay * daysCount) / sampledMax)
      if (at >= expiredCount) sampled.push(...ids.filter((_id, nth) => nth % every === 0))
    }
  }
  await Promise.all(Array.from({ length: lanes }, work))
  await indexKeys(pool)
  for (const table of [
    'events',
    'event_payloads',
    'attempts',
    'failed_deliveries',
    'refused_calls',
    'dedupe_keys',
  ])
    await pool.query(`VACUUM (ANALYZE) ${table}`)
  await pool.query('CHECKPOINT')
  return {
    ids: sampled,
    expiredDays: receivedDays.slice(0, expiredCount).map((ms) => dayAfter(ms, eventDays)),
  }
}

/** Lists `count` days that end `before` days ago, without the one that expires during today, so that the hour does not matter. */
function daysAgo(before: number, count: number): number[] {
  return Array.from({ length: count }, (_none, at) => before - 1 - at)
}

interface SeedDay {
  readonly receivedMs: number
  readonly ids: readonly EventId[]
  /** Number of the first event. */
  readonly from: number
  readonly tenantIds: readonly string[]
}

function idsOfDay(receivedMs: number, count: number): EventId[] {
  return Array.from({ length: count }, (_none, nth) =>
    createEventId(receivedMs + Math.floor((nth * dayMs) / count), eventDays),
  )
}

async function seedDay(client: PoolClient, day: SeedDay): Promise<void> {
  const expiresOn = dayAfter(day.receivedMs, eventDays)
  const payloadExpiresOn = dayAfter(day.receivedMs, payloadDays)
  const isExpired = expiresOn <= dayAfter(Date.now(), -1)
  await client.query(`SET LOCAL maintenance_work_mem = '256MB'; SET LOCAL work_mem = '64MB'`)
  const events = partitionName({ table: 'events', day: expiresOn })
  await fill(client, { table: 'events', day: expiresOn }, eventsText(day, { expiresOn, payloadExpiresOn }), [
    textArrayParam(day.ids),
  ])
  await fill(client, { table: 'attempts', day: expiresOn }, attemptsText(events))
  await client.query(failedText(events))
  await client.query(
    `INSERT INTO dedupe_keys (key, event_id, expires_on)
     SELECT encode(substring(sha256(convert_to(tenant_id || E'\\n' || provider || E'\\n' || source_event_id, 'UTF8')) FOR 16), 'hex')::uuid,
       id, expires_on FROM ${events}`,
  )
  // Fills payloads that have expired on some days, so that dropping a day drops every kind of partition.
  if (payloadExpiresOn >= dayAfter(Date.now(), -1 - expiredCount)) {
    await fill(client, { table: 'event_payloads', day: payloadExpiresOn }, payloadsText(events))
    await fill(client, { table: 'refused_calls', day: payloadExpiresOn }, refusedText(day, payloadExpiresOn))
  }
  if (isExpired) await fill(client, { table: 'executions', day: expiresOn }, lockHistoryText(day, expiresOn))
}

function eventsText(
  { receivedMs, from, tenantIds, ids }: SeedDay,
  { expiresOn, payloadExpiresOn }: { readonly expiresOn: Day; readonly payloadExpiresOn: Day },
): string {
  const chance = (salt: number) => `abs(hashint8extended(g, ${salt})) % 10000`
  const shares = (of: readonly (readonly [string, number])[]) => of.map(([, share]) => share)
  const names = (of: readonly (readonly [string, number])[]) => arrayText(of.map(([name]) => name))
  return `(id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers, payload_bytes,
      payload_expires_on, state, cycle, completed_at)
    SELECT id, '${expiresOn}', tenant_id, provider, 'seed_' || g, type, type, received_at, received_at, '${headers}',
      ${payloadFiller.length}, '${payloadExpiresOn}',
      CASE WHEN provider = 'wallet' AND g % 3 = 0 THEN 'verified' WHEN ${chance(4)} < ${failedTenThousandths} THEN 'delivery_failed'
        ELSE 'processed' END, 1, received_at + interval '1 s'
    FROM (SELECT id, ${from} + nth AS g,
        timestamptz '${new Date(receivedMs).toISOString()}' + (nth - 1) * interval '${dayMs / ids.length} ms' AS received_at
      FROM unnest($1::text[]) WITH ORDINALITY AS n(id, nth)) numbered
    CROSS JOIN LATERAL (SELECT
      (${arrayText(tenantIds)})[${placeText(tenantShares, chance(1))}] AS tenant_id,
      (${names(providerShares)})[${placeText(shares(providerShares), chance(2))}] AS provider,
      (${names(typeShares)})[${placeText(shares(typeShares), chance(3))}] AS type) chosen`
}

function attemptsText(events: string): string {
  return `(event_id, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, answer)
    SELECT id, expires_on, 1, nth, received_at + nth * interval '1 s', 20,
      CASE state WHEN 'delivery_failed' THEN 'refused' ELSE 'delivered' END,
      CASE state WHEN 'delivery_failed' THEN 500 ELSE 200 END, '{"ok":true}'
    FROM ${events} CROSS JOIN LATERAL generate_series(1, CASE state WHEN 'delivery_failed' THEN ${attemptsOfFailed} ELSE 1 END) nth
    WHERE state <> 'verified'`
}

function failedText(events: string): string {
  return `INSERT INTO failed_deliveries (${failedEventColumns}, destination) SELECT ${failedEventColumns}, 'callback' FROM ${events} WHERE state = 'delivery_failed'`
}

function payloadsText(events: string): string {
  return `(event_id, expires_on, payload)
    SELECT id, payload_expires_on, '{"id":"' || source_event_id || '","type":"' || type || '","text":"${payloadFiller}"}' FROM ${events}`
}

function refusedText({ receivedMs, tenantIds }: SeedDay, expiresOn: Day): string {
  const start = createEventId(receivedMs, 1).slice('evt_'.length, 'evt_'.length + 9)
  return `(id, expires_on, tenant_id, provider, cause, refused_at, headers)
    SELECT 'ref_${start}' || lpad(nth::text, 17, '0'), '${expiresOn}', (${arrayText(tenantIds)})[1 + nth % ${tenantIds.length}],
      'card', 'signature_mismatch', timestamptz '${new Date(receivedMs).toISOString()}', '${headers}'
    FROM generate_series(1, ${refusedADay}) nth`
}

function lockHistoryText({ receivedMs, tenantIds }: SeedDay, expiresOn: Day): string {
  return `(tenant_id, fence, expires_on, scope, key, ending, status)
    SELECT (${arrayText(tenantIds)})[1 + nth % ${tenantIds.length}], ${receivedMs * 1000} + nth, '${expiresOn}', 'orders', 'order-' || nth,
      'completed', 200
    FROM generate_series(1, ${locksADay}) nth`
}

/** Creates a partition with rows, then indexes, so that attaching it is immediate. */
async function fill(
  client: PoolClient,
  place: { readonly table: PartitionedTable; readonly day: Day },
  select: string,
  values: readonly unknown[] = [],
): Promise<void> {
  const { table, day } = place
  const name = partitionName(place)
  await client.query(`CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS)`)
  await client.query(`INSERT INTO ${name} ${select}`, [...values])
  const { rows } = await client.query<{ text: string }>(
    `SELECT coalesce('ALTER TABLE ${name} ADD ' || pg_get_constraintdef(c.oid),
       regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE INDEX \\S+ ON .*?${table} ', 'CREATE INDEX ON ${name} ')) AS text
     FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid WHERE i.indrelid = '${table}'::regclass`,
  )
  for (const { text } of rows) await client.query(text)
  await client.query(
    `ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${day}') TO (date '${day}' + 1)`,
  )
}

async function indexKeys(pool: Pool): Promise<void> {
  await withTx(pool, async (client) => {
    await client.query(`SET LOCAL maintenance_work_mem = '1GB'`)
    await client.query('ALTER TABLE dedupe_keys ADD PRIMARY KEY (key)')
    await client.query('CREATE INDEX dedupe_keys_expiry ON dedupe_keys (expires_on)')
  })
}
