/**
 * Measures durable records beside ten million entries of 1 000 tenants in 31 partitions: the time of each call, alone and 64 at a time, and
 * the plans of the statements behind it with their pages. `--entries N` (default 10 000 000) are loaded into a new database, which takes some
 * minutes and 6 GB of disk. `--calls N` sets the calls of each kind (default 2 000). Exits with code 1 if a statement scans a whole table.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { dayAfter, type TenantId } from '#internal/base/index.ts'
import { removeStores, startPostgres } from '#internal/dev/index.ts'
import { DurableRecordStore, durableSessionSettings, purgeRecords } from '#internal/records/index.ts'
import type { RecordStore } from '#internal/records/store.ts'
import { createPool, ensurePartitions, migrate, type Pool } from '#internal/storage/index.ts'
import { recordEntryIds } from '#internal/usage/index.ts'
import { acquireInput, saveInput } from '#test/support/records/record-steps.ts'
import { insertDurableTenant } from '#test/support/records/record-tenants.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { median, quantileOf } from './bounds.ts'
import { seededRandom } from './events/requests.ts'
import { machine } from './processes.ts'
import { explainedPlans, plansOf } from './records/plans.ts'

const { values } = parseArgs({
  options: {
    entries: { type: 'string', default: '10000000' },
    calls: { type: 'string', default: '2000' },
  },
})
const entryCount = Number(values.entries)
const callCount = Number(values.calls)
const partitions = 31
const together = 64
const scope = 'bench'
const tenantIds = Array.from({ length: 1_000 }, someTenantId)
const random = seededRandom(1)

const dir = await mkdtemp(join(tmpdir(), 'latchkey-bench-'))
const dataDir = join(dir, 'stores')
const postgres = await startPostgres({
  dataDir,
  durable: true,
  settings: { shared_buffers: '1GB', max_wal_size: '4GB' },
})
const bounds = { url: postgres.url, connectTimeoutMs: 5_000, queryTimeoutMs: 600_000 }
const observer = createPool({ ...bounds, applicationName: 'bench', connectionsMax: 1 })
const pool = createPool({
  ...bounds,
  applicationName: 'bench records',
  connectionsMax: 4,
  sessionSettings: durableSessionSettings,
})
// A separate session, which explains each of its statements.
const explained = createPool({
  ...bounds,
  applicationName: 'bench plans',
  connectionsMax: 1,
  sessionSettings: { ...durableSessionSettings, ...explainedPlans },
})
try {
  await migrate(observer, { log: { info: () => undefined, warn: () => undefined } })
  const startedAt = performance.now()
  await fill()
  const { rows } = await observer.query<{ size: string }>(
    'SELECT pg_size_pretty(pg_database_size(current_database())) AS size',
  )
  console.log(
    `${entryCount} entries loaded in ${((performance.now() - startedAt) / 1000).toFixed(0)} s, ${rows[0]?.size} in the database\n`,
  )
  console.log(`| call | alone: p50 ms | p99 ms | ${together} at a time: µs per call |`)
  console.log('|---|---|---|---|')
  const store = openStore(pool)
  for (const { name, call } of kindsOfCalls(store)) console.log(await timed(name, call))
  console.log(
    `\n${machine()}; Postgres with fsync and 1 GB of shared buffers, ${partitions} partitions, ${tenantIds.length} tenants\n`,
  )
  const plans = plansOf(explained)
  for (const { name, call } of kindsOfCalls(openStore(explained))) {
    // Calls twice, since the first call of a session loads the system catalogues.
    for (let nth = 0; nth < 2; nth += 1) {
      plans.start(name)
      await call(oneKey())
    }
  }
  plans.start('purge of a tenant')
  await purgeRecords(explained, tenantIds[0] as TenantId, 5_000)
  console.log(plans.lines().join('\n'))
  for (const scan of plans.scans()) console.error(`missed: ${scan}`)
  if (plans.scans().length > 0) process.exitCode = 1
} finally {
  await Promise.all([observer, pool, explained].map((each) => each.end()))
  await postgres.stop()
  await removeStores(dataDir)
  await rm(dir, { recursive: true, force: true })
}
process.exit()

/** A tenant with a new key and the key of one of its records. */
interface Keys {
  readonly tenantId: TenantId
  readonly fresh: string
  readonly saved: string
}

function oneKey(): Keys {
  const at = Math.floor((random() * entryCount) / tenantIds.length)
  const tenant = Math.floor(random() * tenantIds.length)
  const tenantId = tenantIds[tenant] as TenantId
  return { tenantId, fresh: `new-${random()}`, saved: `k${at * tenantIds.length + tenant}` }
}

function openStore(of: Pool): RecordStore {
  const redis = { publish: async () => 0 }
  return new DurableRecordStore({ pool: of, redis, meter: { markUsed: () => undefined } })
}

interface KindOfCall {
  readonly name: string
  call(keys: Keys): Promise<unknown>
}

/** Returns the kinds of calls in an order in which each finds the keys of an earlier one. */
function kindsOfCalls(store: RecordStore): readonly KindOfCall[] {
  const held: Keys[] = []
  const saved: Keys[] = []
  const replayed: Keys[] = []
  const take = (from: Keys[], otherwise: Keys) => from.shift() ?? otherwise
  return [
    {
      name: 'acquire a new key',
      call: async (keys) => {
        held.push(keys)
        return store.acquire(input(keys, keys.fresh))
      },
    },
    {
      name: 'extend its lock',
      call: async (other) => {
        const keys = take(held, other)
        held.push(keys)
        return store.extend(input(keys, keys.fresh), keys.fresh, null)
      },
    },
    {
      name: 'save its record',
      call: async (other) => {
        const keys = take(held, other)
        saved.push(keys)
        return store.save(
          saveInput(keys.tenantId, {
            scope,
            key: keys.fresh,
            lockToken: keys.fresh,
            record: record(keys.fresh),
          }),
        )
      },
    },
    {
      name: 'remove the record',
      call: async (other) => {
        const keys = take(saved, other)
        return store.remove(input(keys, keys.fresh), '')
      },
    },
    {
      name: 'replay an old record',
      call: async (keys) => {
        replayed.push(keys)
        return store.acquire(input(keys, keys.saved))
      },
    },
    {
      name: 'replay it again',
      call: async (other) => {
        const keys = take(replayed, other)
        return store.acquire(input(keys, keys.saved))
      },
    },
    { name: 'fetch an old record', call: (keys) => store.fetch(input(keys, keys.saved)) },
  ]
}

function input({ tenantId, fresh }: Keys, key: string) {
  return acquireInput(tenantId, { scope, key, lockToken: fresh, fingerprint: '', ttlMs: 86_400_000 })
}

function record(id: string): string {
  return `{"status":201,"headers":{},"body":{"id":"${id}","text":"${'x'.repeat(200)}"}}`
}

async function timed(name: string, call: KindOfCall['call']): Promise<string> {
  const alone: number[] = []
  const shared: number[] = []
  for (let nth = 0; nth < callCount; nth += 1) alone.push(await msOf(() => call(oneKey())))
  for (let sent = 0; sent < callCount; sent += together) {
    const keys = Array.from({ length: together }, oneKey)
    shared.push((await msOf(() => Promise.all(keys.map(call)))) / together)
  }
  const sorted = alone.toSorted((one, other) => one - other)
  const [p50, p99] = [0.5, 0.99].map((share) => quantileOf(sorted, share).toFixed(2))
  return `| ${[name, p50, p99, (median(shared) * 1000).toFixed(0)].join(' | ')} |`
}

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** Loads records that expire from tomorrow on, evenly by tenants and days, and their meters. */
async function fill(): Promise<void> {
  for (const tenantId of tenantIds) await insertDurableTenant(observer, tenantId)
  const nowMs = Date.now()
  const days = Array.from({ length: partitions + 1 }, (_, day) => dayAfter(nowMs, day - 1))
  await ensurePartitions(
    observer,
    days.map((day) => ({ table: 'record_entries', day })),
  )
  const prefixes = tenantIds.map((tenantId) => recordEntryIds(tenantId)[0].slice(0, 8))
  const ofDay = Math.ceil(entryCount / partitions)
  for (const [nth, day] of days.slice(1).entries())
    await observer.query(
      // The id of an entry as in `recordEntryId`. Rows are in the order of the primary key, so that its index is written sequentially.
      `INSERT INTO record_entries
       SELECT (prefix || left(encode(sha256(convert_to('{' || tenant || E'}:r:${scope}\\nk' || n, 'UTF8')), 'hex'), 24))::uuid AS id, $1::date, expires_at,
         tenant, '${scope}', 'k' || n, 0, '', n * 16, 86400000, 60000, false, false, '', '', 600, expires_at / 3600000 * 60 + 60, $6
       FROM generate_series($2::bigint, $3::bigint) AS n,
         LATERAL (SELECT ($4::text[])[1 + n % $7], ($5::text[])[1 + n % $7],
           ($1::date - date '1970-01-01') * 86400000::bigint + n * 7919 % 86400000) AS own (tenant, prefix, expires_at)
       ORDER BY id`,
      [
        day,
        nth * ofDay,
        Math.min((nth + 1) * ofDay, entryCount) - 1,
        tenantIds,
        prefixes,
        record('old'),
        tenantIds.length,
      ],
    )
  await observer.query(
    'INSERT INTO record_bytes SELECT tenant_id, bytes_until, 0, sum(bytes) FROM record_entries GROUP BY tenant_id, bytes_until',
  )
  await observer.query(
    `INSERT INTO record_meters (tenant_id, stripe, minute, month, swept, bytes)
     SELECT tenant_id, stripe, clock.ms / 60000, record_month(clock.ms), clock.ms / 60000, CASE stripe WHEN 0 THEN total ELSE 0 END
     FROM (SELECT tenant_id, sum(bytes) AS total FROM record_bytes GROUP BY tenant_id) AS own, generate_series(0, 14) AS stripe,
       (SELECT record_clock() / 1000 AS ms) AS clock`,
  )
  await observer.query('VACUUM ANALYZE')
}
