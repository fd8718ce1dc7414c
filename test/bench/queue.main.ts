/**
 * Compares the claim and the completion, one statement each, with the same work as short statements that are pipelined in one
 * transaction. Both run by turns on one database, so that the ratios hold on a noisy machine. Processor time of Postgres is that of
 * the connection's own process, which needs Linux. `--pairs N` turns of each (default 12).
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { removeStores, startPostgres } from '#internal/dev/index.ts'
import { type ClaimedDelivery, claimDue, complete, queueSessionSettings } from '#internal/events/index.ts'
import { createPool, migrate, type Pool, type PoolClient } from '#internal/storage/index.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { median } from './bounds.ts'
import { machine } from './processes.ts'
import { type BenchEnding, benchExchange, claimInSteps, completeInSteps } from './queue/split.ts'
import { seedWaiting } from './webhooks/seed.ts'

const { values } = parseArgs({ options: { pairs: { type: 'string', default: '12' } } })
const pairs = Number(values.pairs)
const tenantCount = 10
const lease = { token: 'bench', lengthMs: 90_000 }
const startedAtMs = Date.now()
const dueAtMs = startedAtMs + 3_600_000
/** Warm-up of a case: prepared plans, and the compiler. */
const warmPairs = 3

/** A way to claim and to complete, on a connection of its own. */
interface Way {
  claim(rowsMax: number): Promise<readonly ClaimedDelivery[]>
  complete(endings: readonly BenchEnding[]): Promise<unknown>
  readonly pid: number
}

/** Time per event, in µs. */
interface Cost {
  readonly postgres: number
  readonly client: number
  readonly wall: number
}

/** Rows asked for by each claim, and how many claims make a turn. `waiting`: rows due per tenant, where fewer than its share. */
interface Case {
  readonly rows: number
  readonly claims: number
  readonly waiting?: number
}

const cases: readonly Case[] = [
  { rows: 200, claims: 5 },
  { rows: 20, claims: 25 },
  { rows: 200, claims: 25, waiting: 2 },
  { rows: 1, claims: 100 },
  { rows: 5, claims: 60 },
  { rows: 10, claims: 50 },
  { rows: 64, claims: 15 },
  { rows: 500, claims: 3 },
]

const dir = await mkdtemp(join(tmpdir(), 'latchkey-bench-'))
const dataDir = join(dir, 'stores')
const postgres = await startPostgres({
  dataDir,
  durable: true,
  settings: { shared_buffers: '512MB', max_wal_size: '4GB' },
})
const bounds = {
  url: postgres.url,
  applicationName: 'bench',
  connectTimeoutMs: 5_000,
  queryTimeoutMs: 60_000,
}
const observer = createPool({ ...bounds, connectionsMax: 1 })
const pools = [0, 1].map(() =>
  createPool({ ...bounds, connectionsMax: 1, sessionSettings: queueSessionSettings }),
)
try {
  await migrate(observer, { log: { info: () => undefined, warn: () => undefined } })
  const [long, split] = [await longWay(pools[0] as Pool), await splitWay(pools[1] as Pool)]
  console.log('| | rows | Postgres µs: one, split | ratio | client µs: one, split | ratio | wall ratio |')
  console.log('|---|---|---|---|---|---|---|')
  for (const each of cases) {
    const turns: Record<'claim' | 'complete', [Cost, Cost][]> = { claim: [], complete: [] }
    await seed(each)
    for (let pair = -warmPairs; pair < pairs; pair += 1) {
      const order = pair % 2 === 0 ? [long, split] : [split, long]
      const made = new Map<Way, Awaited<ReturnType<typeof turn>>>()
      for (const way of order) made.set(way, await turn(way, each))
      const [one, other] = [made.get(long), made.get(split)]
      if (pair < 0 || !one || !other) continue
      turns.claim.push([one.claim, other.claim])
      turns.complete.push([one.complete, other.complete])
    }
    for (const name of ['claim', 'complete'] as const) console.log(rowOf(name, each, turns[name]))
  }
  console.log(`\n${machine()}; Postgres with fsync, ten tenants, ${pairs} pairs of turns, medians`)
} finally {
  await Promise.all([observer, ...pools].map((pool) => pool.end()))
  await postgres.stop()
  await removeStores(dataDir)
  await rm(dir, { recursive: true, force: true })
}
process.exit()

async function longWay(pool: Pool): Promise<Way> {
  return {
    pid: await pidOf(pool),
    claim: async (rowsMax) =>
      (await claimDue(pool, { lease, notified: [], rooms: new Map(), rowsMax, queueRowsMax: 64 })).claimed,
    complete: (endings) =>
      complete(
        pool,
        lease.token,
        endings.map(({ delivery, kind }) => {
          const isDelivered = kind === 'processed'
          const attempt = {
            startedAtMs,
            durationMs: 12,
            cause: null,
            answer: '',
            exchange: benchExchange,
            outcome: isDelivered ? ('delivered' as const) : ('refused' as const),
            status: isDelivered ? 204 : 500,
          }
          return { delivery, ending: kind === 'later' ? { kind, dueAtMs, attempt } : { kind, attempt } }
        }),
      ),
  }
}

async function splitWay(pool: Pool): Promise<Way> {
  const within = async <T>(work: (client: PoolClient) => Promise<T>): Promise<T> => {
    const client = await pool.connect()
    try {
      // Sets the property that `pg` sets for its option of the same name.
      Object.assign(client, { pipeline: true })
      return await work(client)
    } finally {
      client.release()
    }
  }
  const times = { dueAt: new Date(dueAtMs).toISOString(), startedAt: new Date(startedAtMs).toISOString() }
  return {
    pid: await pidOf(pool),
    claim: (rowsMax) =>
      within((client) =>
        claimInSteps(client, { leaseToken: lease.token, leaseMs: lease.lengthMs, rowsMax, queueRowsMax: 64 }),
      ),
    complete: (endings) =>
      within((client) => completeInSteps(client, { leaseToken: lease.token, ...times }, endings)),
  }
}

async function seed({ rows, claims }: Case): Promise<void> {
  await observer.query(
    'TRUNCATE deliveries_due, tenant_queues, events, event_payloads, attempts, failed_deliveries',
  )
  const count = Math.ceil((rows * claims * 2 * (pairs + warmPairs) * 1.1) / tenantCount) + 100
  for (let n = 0; n < tenantCount; n += 1) {
    const tenantId = someTenantId()
    await observer.query(
      `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
       VALUES ($1, $1, 'shops', $1, $1, false, '{"callback":{}}', 1, now(), now(), now())`,
      [tenantId],
    )
    await seedWaiting(observer, { tenantId, count })
  }
}

/** Claims some batches and completes each as it was claimed. */
async function turn(way: Way, { rows, claims, waiting }: Case): Promise<{ claim: Cost; complete: Cost }> {
  const batches: (readonly ClaimedDelivery[])[] = []
  const claim: Cost[] = []
  for (let n = 0; n < claims; n += 1) {
    if (waiting !== undefined) await leaveWaiting(waiting)
    claim.push(await costOf(way, async () => void batches.push(await way.claim(rows))))
  }
  const endings = batches.map((batch) =>
    batch.map(
      (delivery, at): BenchEnding => ({
        delivery,
        kind: at % 20 === 7 ? 'failed' : at % 10 === 3 ? 'later' : 'processed',
      }),
    ),
  )
  const completed = await costOf(way, async () => {
    for (const batch of endings) await way.complete(batch)
  })
  const events = batches.reduce((sum, batch) => sum + batch.length, 0)
  const sum = (of: keyof Cost) => claim.reduce((total, cost) => total + cost[of], 0)
  const all = { postgres: sum('postgres'), client: sum('client'), wall: sum('wall') }
  return { claim: perEvent(all, events), complete: perEvent(completed, events) }
}

/** Leaves so many rows of each tenant due now, and has its tenant queue looked at. */
async function leaveWaiting(perTenant: number): Promise<void> {
  await observer.query(`UPDATE deliveries_due SET due_at = 'infinity' WHERE due_at < 'infinity'`)
  await observer.query(
    `UPDATE deliveries_due SET due_at = now() WHERE event_id = ANY(ARRAY(
      SELECT event_id FROM tenant_queues q CROSS JOIN LATERAL (
        SELECT event_id FROM deliveries_due WHERE tenant_id = q.tenant_id AND lease IS NULL AND NOT is_retry LIMIT $1) d))`,
    [perTenant],
  )
  await observer.query('UPDATE tenant_queues SET next_due_at = now(), idle_checks = 0')
}

async function costOf(way: Way, work: () => Promise<void>): Promise<Cost> {
  const before = { postgres: await cpuMicros(way.pid), client: process.cpuUsage(), wall: performance.now() }
  await work()
  const wall = (performance.now() - before.wall) * 1_000
  const { user, system } = process.cpuUsage(before.client)
  return { postgres: (await cpuMicros(way.pid)) - before.postgres, client: user + system, wall }
}

/** Time on a processor, which the kernel counts in nanoseconds. */
async function cpuMicros(pid: number): Promise<number> {
  return Number((await readFile(`/proc/${pid}/schedstat`, 'latin1')).split(' ')[0]) / 1_000
}

async function pidOf(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return rows[0]?.pid ?? 0
}

function perEvent({ postgres, client, wall }: Cost, events: number): Cost {
  return { postgres: postgres / events, client: client / events, wall: wall / events }
}

function rowOf(name: string, { rows, waiting }: Case, turns: readonly [Cost, Cost][]): string {
  const of = (at: 0 | 1, part: keyof Cost) => median(turns.map((each) => each[at][part])).toFixed(1)
  const ratio = (part: keyof Cost) => median(turns.map(([one, split]) => split[part] / one[part])).toFixed(2)
  const size = waiting === undefined ? `${rows}` : `${rows}, ${waiting * tenantCount} due`
  const costs = (part: keyof Cost) => [`${of(0, part)}, ${of(1, part)}`, ratio(part)]
  return `| ${[name, size, ...costs('postgres'), ...costs('client'), ratio('wall')].join(' | ')} |`
}
