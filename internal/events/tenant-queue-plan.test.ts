import { beforeAll, describe, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import {
  claimRequest,
  createDeliveryLab,
  type DeliveryLab,
  idsOf,
} from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { blocksOf, explained, nodesOf, type PlanNode } from '#test/support/stores/explained.ts'
import { claimDue, loadEvents, queueSessionSettings } from './claim.ts'
import { complete } from './complete.ts'
import { releaseLeases, renewLeases } from './lease.ts'
import { callbackQueueOf } from './model.ts'
import { readQueueDepth } from './tenant-queue.ts'

const backlog = 100_000
let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})

/** Creates a pool with one session, so that all statements are prepared in this session. */
function onePool(url: string): Pool {
  return createPool({
    url,
    applicationName: 'latchkey test plan',
    connectionsMax: 1,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
    sessionSettings: queueSessionSettings,
  })
}

/** Adds deliveries to the queue in the form that intake stores. Few of them have events and payloads. */
async function pile(pool: Pool, tenantId: string, count: number): Promise<void> {
  const { expiresOn, payloadExpiresOn } = receivedEvent()
  await pool.query(
    `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
     SELECT $5 || lpad(n::text, 14, '0'), 'callback', $1, $3::date, $4::date, 100, 1, now() - interval '1 h'
     FROM generate_series(1, $2::integer) n`,
    // The first characters of an id determine the day of expiry.
    [tenantId, count, expiresOn, payloadExpiresOn, receivedEvent().id.slice(0, 16)],
  )
  await pool.query(
    `INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($1, 'callback', now()) ON CONFLICT (tenant_id, destination) DO UPDATE SET next_due_at = now()`,
    [tenantId],
  )
}

describe('plans beside a tenant queue of 100 000 rows', () => {
  test.each([
    ['a table of no pages', 20, 'VACUUM ANALYZE deliveries_due'],
    ['pages that nothing is left in', 20, 'ANALYZE deliveries_due'],
    ['partitions of one row', 1, 'ANALYZE'],
  ])('queue statements: prepared on %s, they use only indexes', async (_what, count, learn) => {
    await truncateEvents(lab.pool)
    const [dead, ...others] = await Promise.all(Array.from({ length: 10 }, () => lab.addTenant()))
    if (!dead) throw new Error('no tenant')
    const one = onePool(lab.databaseUrl)
    const ending = {
      kind: 'processed',
      attempt: { startedAtMs: 1, durationMs: 1, outcome: 'delivered', status: 204, cause: null, answer: '' },
    } as const
    const completeAll = async (pool: Pool, rows: Awaited<ReturnType<typeof claimDue>>) =>
      complete(
        pool,
        'lab',
        rows.claimed.map((delivery) => ({ delivery, ending })),
      )

    // The session prepares all statements while the tables and their statistics are nearly empty.
    await lab.accept(dead.id, count)
    await completeAll(one, await claimDue(one, claimRequest()))
    await lab.pool.query(learn)
    await lab.accept(dead.id, 1)
    const { lease } = claimRequest()
    await releaseLeases(one, lease.token, (await claimDue(one, claimRequest())).claimed)
    const only = await claimDue(one, claimRequest())
    expect((await renewLeases(one, lease, only.claimed)).size).toBe(1)
    expect((await loadEvents(one, only.claimed)).size).toBe(1)
    await completeAll(one, only)

    await pile(lab.pool, dead.id, backlog)
    for (const { id } of others) await lab.accept(id, 20)
    const client = await one.connect()
    const plans: PlanNode[] = []
    try {
      const request = { ...claimRequest(), rooms: new Map([[callbackQueueOf(dead.id), 0]]) }
      plans.push(...(await explained(client, (pool) => claimDue(pool, request))))
      plans.push(...(await explained(client, (pool) => claimDue(pool, claimRequest()))))
    } finally {
      client.release()
    }
    const mine = await lab.claim({
      notified: [callbackQueueOf(dead.id)],
      lease: { token: 'lab', lengthMs: 90_000 },
    })
    expect(idsOf(mine.claimed)).toHaveLength(64)
    const held = async (): Promise<[all: number, leased: number]> => {
      const count = 'SELECT count(*) FROM deliveries_due WHERE tenant_id = $1'
      return [
        await lab.value<number>(count, [dead.id]),
        await lab.value<number>(`${count} AND lease IS NOT NULL`, [dead.id]),
      ]
    }
    const before = await held()
    const again = await one.connect()
    try {
      // EXPLAIN ANALYZE executes the statements: all leases are renewed, half of the rows are completed and half are released.
      const [first, second] = [mine.claimed.slice(0, 32), mine.claimed.slice(32)]
      plans.push(...(await explained(again, (pool) => renewLeases(pool, lease, mine.claimed))))
      plans.push(...(await explained(again, (pool) => loadEvents(pool, mine.claimed))))
      plans.push(...(await explained(again, (pool) => completeAll(pool, { ...mine, claimed: first }))))
      const back = second
      plans.push(...(await explained(again, (pool) => releaseLeases(pool, lease.token, back))))
    } finally {
      again.release()
    }
    await one.end()

    expect(plans).toHaveLength(6)
    const nodes = plans.flatMap(nodesOf)
    // Rows are found by key, not compared pairwise.
    expect(Math.max(...nodes.map((node) => node['Rows Removed by Join Filter'] ?? 0))).toBeLessThan(64 * 10)
    const scans = nodes.filter((node) => node['Relation Name'] !== undefined)
    expect(scans.length).toBeGreaterThan(10)
    const byIndex = new Set(scans.map((node) => node['Index Name']?.replace(/^events_\d+_/, 'events_')))
    expect([...byIndex].filter((name) => name?.startsWith('events_'))).toEqual(['events_pkey'])
    const unindexed = scans.filter((node) => /Seq Scan|Bitmap/.test(node['Node Type']))
    expect(unindexed.map((node) => [node['Node Type'], node['Relation Name']])).toEqual([])
    const most = Math.max(
      ...scans.filter((node) => node['Node Type'].includes('Scan')).map((node) => node['Actual Rows']),
    )
    expect(most).toBeLessThanOrEqual(200)
    const [beside, both, renewed, loaded, completed, back] = plans.map(blocksOf)
    // A claim reads about 25 blocks per row at any queue length. The whole queue has several thousand blocks.
    expect(beside).toBeLessThan(180 * 40)
    expect(both).toBeLessThan(64 * 40 + 500)
    expect(renewed).toBeLessThan(64 * 20)
    expect(loaded).toBeLessThan(64 * 20)
    expect(completed).toBeLessThan(32 * 60 + 500)
    expect(back).toBeLessThan(32 * 20 + 100)
    expect(await held()).toEqual([before[0] - 32, before[1] - 64])
  })

  test('readQueueDepth: reads a long queue at a bounded cost', async () => {
    await lab.pool.query('ANALYZE deliveries_due')
    await lab.pool.query("UPDATE tenant_queues SET next_due_at = now() - interval '1 s'")
    const depth = await readQueueDepth(lab.pool)
    expect(depth.dueCount).toBeGreaterThan(10_000)
    expect(depth.oldestAgeMs).toBeGreaterThan(3_500_000)
    const one = onePool(lab.databaseUrl)
    await readQueueDepth(one)
    const client = await one.connect()
    const plans = await explained(client, readQueueDepth).finally(() => client.release())
    await one.end()
    expect(plans).toHaveLength(1)
    expect(Math.max(...plans.map(blocksOf))).toBeLessThan(11_000)
    await lab.pool.query('TRUNCATE deliveries_due')
    const tenant = await lab.addTenant()
    await lab.accept(tenant.id, 7)
    expect(await readQueueDepth(lab.pool)).toMatchObject({
      dueCount: 7,
      suspendedCount: 0,
      openBreakerCount: 0,
    })
    // A delivery under a lease does not count as waiting. After its lease expires, it counts as waiting since its due time.
    await lab.pool.query(`UPDATE deliveries_due SET due_at = now() - n * interval '100 s', leased_until = CASE n
      WHEN 7 THEN now() + interval '1 min' WHEN 6 THEN now() - interval '1 s' ELSE '-infinity' END
      FROM (SELECT event_id, row_number() OVER () AS n FROM deliveries_due) q WHERE q.event_id = deliveries_due.event_id`)
    const { dueCount, oldestAgeMs } = await readQueueDepth(lab.pool)
    expect([dueCount, Math.round(oldestAgeMs / 100_000)]).toEqual([6, 6])
  })
})
