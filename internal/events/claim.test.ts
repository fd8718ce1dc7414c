import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { dayAfter, randomToken, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  claimRequest,
  createDeliveryLab,
  type DeliveryLab,
  idsOf,
} from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { claimDue, loadEvents } from './claim.ts'
import { releaseLeases, renewLeases } from './lease.ts'
import { callbackQueueOf, deliveryIdOf } from './model.ts'
import { sweepTenantQueues } from './tenant-queue.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool)
})

const tenants = (count: number) => Promise.all(Array.from({ length: count }, () => lab.addTenant()))
const countBy = (ids: readonly TenantId[]) =>
  Object.fromEntries(
    Map.groupBy(ids, (id) => id)
      .entries()
      .map(([id, all]) => [id, all.length]),
  )

describe('claimDue', () => {
  test('claim: takes a due delivery once and gives it a lease', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [id] = await lab.accept(tenant.id)
    const { claimed, hasMore } = await lab.claim()
    expect(hasMore).toBe(false)
    expect(claimed).toHaveLength(1)
    expect(claimed[0]).toMatchObject({
      eventId: id,
      tenantId: tenant.id,
      cycle: 1,
      attempts: 0,
      claims: 1,
      isRetry: false,
      isProbe: false,
    })
    const { rows } = await lab.pool.query('SELECT lease, leased_until > now() AS held FROM deliveries_due')
    expect(rows).toEqual([{ lease: 'lab', held: true }])
    expect((await lab.claim()).claimed).toEqual([])
  })

  test('loadEvents: reads events of several days with content and payload', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [first] = await lab.accept(tenant.id)
    const payloadExpiresOn = dayAfter(Date.now(), 7)
    const [second] = await lab.accept(tenant.id, 1, { payload: '{"a":1}', payloadExpiresOn })
    const { claimed } = await lab.claim()
    const loaded = await loadEvents(lab.pool, claimed)
    expect(first && loaded.get(first)).toMatchObject({
      kind: 'whole',
      content: { provider: 'generic', type: 'order.created' },
    })
    expect(second && loaded.get(second)).toMatchObject({ kind: 'whole', content: { payload: '{"a":1}' } })
  })

  test('loadEvents: skips an event of another tenant than the delivery’s tenant', async () => {
    const [owner, stranger] = await tenants(2)
    if (!owner || !stranger) throw new Error('no tenant')
    await lab.accept(owner.id)
    const { claimed } = await lab.claim()
    expect((await loadEvents(lab.pool, claimed)).size).toBe(1)
    const forged = claimed.map((claim) => ({ ...claim, tenantId: stranger.id }))
    expect((await loadEvents(lab.pool, forged)).size).toBe(0)
  })

  test('loadEvents: distinguishes an expired payload from a removed event', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [expired, gone] = await lab.accept(tenant.id, 2)
    await lab.pool.query('DELETE FROM event_payloads')
    await lab.pool.query('DELETE FROM events WHERE id = $1', [gone])
    const loaded = await loadEvents(lab.pool, (await lab.claim()).claimed)
    expect([...loaded]).toMatchObject([[expired, { kind: 'payload_expired', content: { id: expired } }]])
  })

  test('claim: takes equally many rows of several tenants, and of each the rows that have waited longest', async () => {
    const [many, ...few] = await tenants(5)
    if (!many) throw new Error('no tenant')
    await lab.accept(many.id, 400)
    for (const { id } of few) await lab.accept(id, 20)
    const first = await lab.claim({ rowsMax: 50 })
    expect(first.hasMore).toBe(true)
    expect(Object.values(countBy(first.claimed.map((claim) => claim.tenantId)))).toEqual([10, 10, 10, 10, 10])
    const served: TenantId[] = []
    for (let turn = 0; turn < 5; turn += 1) {
      const { claimed } = await lab.claim({ rowsMax: 1 })
      served.push(...claimed.map((claim) => claim.tenantId))
    }
    expect(new Set(served).size).toBe(5)
  })

  test('claim: takes at most as many rows of a tenant as the process can accept for that tenant', async () => {
    const [full, half, free] = await tenants(3)
    if (!full || !half || !free) throw new Error('no tenant')
    for (const { id } of [full, half, free]) await lab.accept(id, 100)
    const rooms = new Map([
      [callbackQueueOf(full.id), 0],
      [callbackQueueOf(half.id), 7],
    ])
    const { claimed } = await lab.claim({ rooms, notified: [callbackQueueOf(full.id)], queueRowsMax: 30 })
    expect(countBy(claimed.map((claim) => claim.tenantId))).toEqual({ [half.id]: 7, [free.id]: 30 })
  })

  test.each([
    ['a quarter are retries if both are many', { fresh: 100, retries: 100 }, { fresh: 30, retries: 10 }],
    ['retries take the rest of few first attempts', { fresh: 5, retries: 100 }, { fresh: 5, retries: 35 }],
    ['first attempts take the rest of few retries', { fresh: 100, retries: 3 }, { fresh: 37, retries: 3 }],
    ['first attempts take all rows without retries', { fresh: 100, retries: 0 }, { fresh: 40, retries: 0 }],
    ['retries take all rows without first attempts', { fresh: 0, retries: 100 }, { fresh: 0, retries: 40 }],
  ])('claim: divides its rows between first attempts and retries (%s)', async (_what, due, taken) => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, due.fresh + due.retries)
    await lab.pool.query(
      'UPDATE deliveries_due SET is_retry = true WHERE event_id IN (SELECT event_id FROM deliveries_due LIMIT $1)',
      [due.retries],
    )
    const { claimed } = await lab.claim({ rowsMax: 40 })
    const retries = claimed.filter((claim) => claim.isRetry).length
    expect({ fresh: claimed.length - retries, retries }).toEqual(taken)
  })

  test('claim: skips rows and tenant queues that other processes have locked, without waiting', async () => {
    const [held, free] = await tenants(2)
    if (!held || !free) throw new Error('no tenant')
    const heldIds = await lab.accept(held.id, 3)
    await lab.accept(free.id, 3)
    const client = await lab.pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT FROM deliveries_due WHERE event_id = $1 FOR UPDATE', [heldIds[0]])
      const first = await lab.claim()
      expect(first.claimed).toHaveLength(5)
      await lab.accept(free.id, 1)
      await client.query('SELECT FROM tenant_queues WHERE tenant_id = $1 FOR UPDATE', [free.id])
      expect((await lab.claim({ notified: [callbackQueueOf(free.id)] })).claimed).toEqual([])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    expect(
      (await lab.claim({ notified: [callbackQueueOf(held.id), callbackQueueOf(free.id)] })).claimed,
    ).toHaveLength(2)
  })

  test('claim: updates many rows of one page without writing indexes', async () => {
    const all = await tenants(8)
    for (const { id } of all) await lab.accept(id, 50)
    const client = await lab.pool.connect()
    try {
      await client.query('BEGIN')
      const lease = { token: randomToken(), lengthMs: 90_000 }
      // These counters can include updates of earlier transactions of the connection, so the test compares them before and after the claim.
      const countUpdates = async () => {
        const { rows } = await client.query<[updated: number, hot: number]>({
          text: `SELECT pg_stat_get_xact_tuples_updated(oid)::integer, pg_stat_get_xact_tuples_hot_updated(oid)::integer
            FROM pg_class WHERE oid = 'deliveries_due'::regclass`,
          rowMode: 'array',
        })
        return rows[0] ?? [0, 0]
      }
      const [updatedBefore, hotBefore] = await countUpdates()
      const taken = await claimDue(client as unknown as Pool, { ...claimRequest(), lease })
      expect(taken.claimed).toHaveLength(200)
      expect(await countUpdates()).toEqual([updatedBefore + 200, hotBefore + 200])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('claim: makes a tenant queue due again immediately when another process has locked one of its due retries', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [retry] = await lab.accept(tenant.id, 30)
    await lab.pool.query('UPDATE deliveries_due SET is_retry = true WHERE event_id = $1', [retry])
    const client = await lab.pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT FROM deliveries_due WHERE event_id = $1 FOR UPDATE', [retry])
      expect((await lab.claim({ rowsMax: 8 })).claimed).toHaveLength(7)
      expect(await lab.value('SELECT next_due_at <= now() FROM tenant_queues')).toBe(true)
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('claim: concurrent claims take each row only once', async () => {
    const all = await tenants(8)
    for (const { id } of all) await lab.accept(id, 50)
    const ids: string[] = []
    for (let turn = 0; ids.length < 400 && turn < 100; turn += 1) {
      const results = await Promise.all(
        ['a', 'b', 'c', 'd'].map((token) => lab.claim({ lease: { token, lengthMs: 90_000 }, rowsMax: 30 })),
      )
      ids.push(...results.flatMap(({ claimed }) => idsOf(claimed)))
    }
    expect(ids).toHaveLength(400)
    expect(new Set(ids).size).toBe(400)
  })

  test.each([
    ['suspended', 'UPDATE tenants SET suspended = true WHERE id = $1'],
    ['deleted', 'UPDATE tenants SET deleted_at = now() WHERE id = $1'],
    ['missing', 'DELETE FROM tenants WHERE id = $1'],
  ])('claim: takes no delivery of a tenant that is %s', async (_what, change) => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 2)
    await lab.pool.query(change, [tenant.id])
    expect((await lab.claim()).claimed).toEqual([])
    expect(
      await lab.value("SELECT next_due_at BETWEEN now() AND now() + interval '10 s' FROM tenant_queues"),
    ).toBe(true)
    expect(await lab.value('SELECT max(claims) FROM deliveries_due')).toBe(0)
  })

  test.each([
    ['suspended', 'suspended_at = now()', 0],
    ['open', "breaker_until = now() + interval '1 min'", 0],
    ['half open', "breaker_until = now() - interval '1 s'", 1],
    ['closed', "breaker_until = '-infinity'", 10],
  ])(
    'claim: takes the expected number of rows when the tenant’s breaker or callback is %s',
    async (_what, set, taken) => {
      const [tenant] = await tenants(1)
      if (!tenant) throw new Error('no tenant')
      await lab.accept(tenant.id, 10)
      await lab.pool.query(`UPDATE tenant_queues SET ${set}`)
      const { claimed } = await lab.claim({ notified: [callbackQueueOf(tenant.id)] })
      expect(claimed).toHaveLength(taken)
      expect(claimed.filter((claim) => claim.isProbe)).toHaveLength(taken === 1 ? 1 : 0)
      // A half-open breaker allows one probe at a time.
      expect((await lab.claim({ notified: [callbackQueueOf(tenant.id)] })).claimed).toEqual([])
    },
  )
})

describe('claimDue beside 1 000 suspended tenants with due deliveries', () => {
  const suspendedCount = 1_000

  beforeEach(async () => {
    await lab.pool.query(
      `WITH made AS (
        INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
        SELECT id, id, 'shops', id, id, true, '{}', 1, now(), now(), now()
        FROM (SELECT 'ten_still' || n AS id FROM generate_series(1, $1::integer) n) t
        ON CONFLICT DO NOTHING)
      INSERT INTO tenant_queues (tenant_id, destination, next_due_at) SELECT 'ten_still' || n, 'callback', now() FROM generate_series(1, $1::integer) n`,
      [suspendedCount],
    )
  })

  /** Claims as a forwarder does: without a wait while `hasMore` is true. */
  async function claimAll(): Promise<{ taken: number; claims: number }> {
    for (let claims = 1, taken = 0; ; claims += 1) {
      const { claimed, hasMore } = await lab.claim()
      taken += claimed.length
      if (!hasMore || claims > 100) return { taken, claims }
    }
  }

  test('claim: serves an active tenant repeatedly beside 1 000 suspended tenants with due deliveries', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    for (let turn = 0; turn < 3; turn += 1) {
      await lab.accept(tenant.id, 3)
      await lab.pool.query('UPDATE tenant_queues SET next_due_at = now()')
      const { taken, claims } = await claimAll()
      expect(taken).toBe(3)
      expect(claims).toBeLessThan(suspendedCount / 50 + 5)
    }
  })

  test('claim: serves a notified tenant first beside 1 000 suspended tenants with due deliveries', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 1)
    await lab.claim({ notified: [callbackQueueOf(tenant.id)] })
    await lab.accept(tenant.id, 1)
    await lab.pool.query("UPDATE tenant_queues SET next_due_at = now() - interval '1 min'")
    expect((await lab.claim({ notified: [callbackQueueOf(tenant.id)] })).claimed).toHaveLength(1)
  })

  test('claim: at most half of the tenant queues that it serves are notified ones', async () => {
    const all = await tenants(40)
    for (const { id } of all) await lab.accept(id, 1)
    const { claimed } = await lab.claim({ notified: all.map(({ id }) => callbackQueueOf(id)) })
    expect(claimed).toHaveLength(25)
  })
})

describe('leases', () => {
  test('lease: an expired lease lets another process claim the row, and a renewed lease does not', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 2)
    const mine = { token: 'mine', lengthMs: 90_000 }
    const first = await lab.claim({ lease: mine })
    await lab.pool.query("UPDATE deliveries_due SET leased_until = now() - interval '1 s'")
    const [kept] = first.claimed
    if (!kept) throw new Error('nothing was claimed')
    expect([...(await renewLeases(lab.pool, mine, [kept]))]).toEqual([deliveryIdOf(kept)])
    const second = await lab.claim({ notified: [callbackQueueOf(tenant.id)] })
    expect(second.claimed).toHaveLength(1)
    expect(second.claimed[0]).toMatchObject({ claims: 2 })
    expect(second.claimed[0]?.eventId).not.toBe(kept.eventId)
    const all = first.claimed
    expect([...(await renewLeases(lab.pool, mine, all))]).toEqual([deliveryIdOf(kept)])
    expect([...(await releaseLeases(lab.pool, 'mine', all))]).toEqual([deliveryIdOf(kept)])
    expect((await lab.claim()).claimed[0]).toMatchObject({
      eventId: kept.eventId,
      claims: 1,
    })
  })

  test('lease: a claim with a grace takes unleased rows, and expired leases only after the grace', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [old, recent] = await lab.accept(tenant.id, 2)
    await lab.claim({ lease: { token: 'unreachable', lengthMs: 90_000 } })
    const expire = (id: unknown, agoMs: number) =>
      lab.pool.query(
        "UPDATE deliveries_due SET leased_until = now() - $2 * interval '1 ms' WHERE event_id = $1",
        [id, agoMs],
      )
    await expire(old, 30_000)
    await expire(recent, 1_000)
    const [fresh] = await lab.accept(tenant.id, 1)
    const first = await lab.claim({ notified: [callbackQueueOf(tenant.id)], graceMs: 10_000 })
    expect(idsOf(first.claimed).toSorted()).toEqual([old, fresh].toSorted() as never)
    expect(idsOf((await lab.claim({ notified: [callbackQueueOf(tenant.id)] })).claimed)).toEqual([
      recent,
    ] as never)
  })

  test('lease: during a grace, a queue with expired leases is checked again when the grace ends, but after at most 5 s', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 1)
    await lab.claim({ lease: { token: 'unreachable', lengthMs: 90_000 } })
    await lab.pool.query("UPDATE deliveries_due SET leased_until = now() - interval '1 s'")
    const inMs = 'SELECT extract(epoch FROM next_due_at - now()) * 1000 FROM tenant_queues'
    for (const [graceMs, leastMs, mostMs] of [
      [4_000, 2_000, 3_000],
      [60_000, 4_000, 5_000],
    ] as const) {
      await lab.pool.query('UPDATE tenant_queues SET next_due_at = now(), idle_checks = 1')
      expect((await lab.claim({ graceMs })).claimed).toEqual([])
      const dueInMs = Number(await lab.value(inMs))
      expect(dueInMs).toBeGreaterThan(leastMs)
      expect(dueInMs).toBeLessThanOrEqual(mostMs)
    }
  })

  test('lease: a claim that runs long after it was sent takes no lease that expired in the meantime', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    const [old, recent] = await lab.accept(tenant.id, 2)
    const { ranAtMs = 0 } = await lab.claim({ lease: { token: 'stalled', lengthMs: 90_000 } })
    const expire = (id: unknown, agoMs: number) =>
      lab.pool.query(
        "UPDATE deliveries_due SET leased_until = now() - $2 * interval '1 ms' WHERE event_id = $1",
        [id, agoMs],
      )
    await expire(old, 30_000)
    await expire(recent, 15_000)
    const [fresh] = await lab.accept(tenant.id, 1)
    const late = await lab.claim({ notified: [callbackQueueOf(tenant.id)], sentAtMs: ranAtMs - 20_000 })
    expect(idsOf(late.claimed).toSorted()).toEqual([old, fresh].toSorted() as never)
    const next = await lab.claim({ notified: [callbackQueueOf(tenant.id)], sentAtMs: late.ranAtMs })
    expect(idsOf(next.claimed)).toEqual([recent] as never)
  })

  test.each([
    { event: 'a release and a claim by another process', isReleased: true, token: 'other' },
    { event: 'its expiry and another claim by the same process', isReleased: false, token: 'mine' },
  ])('lease: after $event, the first claim neither renews nor releases the row', async (row) => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id)
    const mine = { token: 'mine', lengthMs: 90_000 }
    const first = (await lab.claim({ lease: mine })).claimed
    if (row.isReleased) await releaseLeases(lab.pool, mine.token, first)
    else await lab.pool.query("UPDATE deliveries_due SET leased_until = now() - interval '1 s'")
    const second = await lab.claim({
      lease: { ...mine, token: row.token },
      notified: [callbackQueueOf(tenant.id)],
    })
    expect(second.claimed).toHaveLength(1)
    expect((await renewLeases(lab.pool, mine, first)).size).toBe(0)
    expect((await releaseLeases(lab.pool, mine.token, first)).size).toBe(0)
    expect(await lab.value<string>('SELECT lease FROM deliveries_due')).toBe(row.token)
  })

  test('lease: the lease of a crashed process does not block later rows, and its tenant queue sleeps until the lease expires', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 3)
    await lab.claim({ lease: { token: 'crashed', lengthMs: 90_000 } })
    const behind = await lab.accept(tenant.id, 1)
    expect(idsOf((await lab.claim({ lease: { token: 'other', lengthMs: 120_000 } })).claimed)).toEqual(behind)
    for (let look = 0; look < 2; look += 1) {
      await lab.pool.query('UPDATE tenant_queues SET next_due_at = now()')
      expect((await lab.claim()).claimed).toEqual([])
    }
    const leasedUntil = await lab.value<Date>('SELECT min(leased_until) FROM deliveries_due')
    expect(await lab.value<Date>('SELECT next_due_at FROM tenant_queues')).toEqual(leasedUntil)
  })

  test('lease: a row of a crashed process is claimed after its lease expires, without a notification', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 1)
    await lab.claim({ lease: { token: 'crashed', lengthMs: 200 } })
    const leasedUntil = await lab.value<Date>('SELECT leased_until FROM deliveries_due')
    expect(await lab.value<Date>('SELECT next_due_at FROM tenant_queues')).toEqual(leasedUntil)
    await lab.becomes(true, 'SELECT now() > leased_until FROM deliveries_due')
    expect((await lab.claim()).claimed).toHaveLength(1)
  })
})

describe('tenant queues', () => {
  test('tenant queue: an empty queue is checked twice and then sleeps until an event arrives', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 1)
    await lab.claim()
    await lab.pool.query('DELETE FROM deliveries_due')
    const looks: unknown[] = []
    for (let look = 0; look < 3; look += 1) {
      await lab.pool.query('UPDATE tenant_queues SET next_due_at = now()')
      await lab.claim()
      const { rows } = await lab.pool.query(
        "SELECT idle_checks, next_due_at = 'infinity' AS sleeps FROM tenant_queues",
      )
      looks.push(rows[0])
    }
    const asleep = { idle_checks: 1, sleeps: true }
    expect(looks).toEqual([{ idle_checks: 1, sleeps: false }, asleep, asleep])
    await lab.accept(tenant.id, 1)
    expect((await lab.claim()).claimed).toHaveLength(1)
  })

  test('tenant queue: a queue whose rows are all future retries sleeps until the earliest retry is due', async () => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 2)
    await lab.pool.query("UPDATE deliveries_due SET is_retry = true, due_at = now() + interval '1 h'")
    await lab.claim()
    await lab.pool.query('UPDATE tenant_queues SET next_due_at = now()')
    await lab.claim()
    expect(
      await lab.value('SELECT next_due_at = (SELECT min(due_at) FROM deliveries_due) FROM tenant_queues'),
    ).toBe(true)
  })

  test('tenant queue: events stored during claims are all claimed without a notification or a sweep', async () => {
    const all = await tenants(3)
    const insert = async (tenantId: TenantId) => {
      for (let turn = 0; turn < 60; turn += 1) await lab.accept(tenantId, 1)
    }
    let claimed = 0
    let isStored = false
    const inserting = Promise.all(all.map(({ id }) => insert(id))).then(() => {
      isStored = true
    })
    // Makes tenant queues due immediately that would be checked again after five seconds.
    const wakeQueues =
      "UPDATE tenant_queues SET next_due_at = now() WHERE next_due_at < now() + interval '6 s'"
    for (let turn = 0; claimed < 180 && turn < 5_000; turn += 1) {
      claimed += (await lab.claim({ rowsMax: 20 })).claimed.length
      if (isStored) await lab.pool.query(wakeQueues)
    }
    await inserting
    expect(claimed).toBe(180)
    expect(await sweepTenantQueues(lab.pool)).toBe(0)
  })

  test('sweep: wakes stalled tenant queues and creates missing ones, and a second sweep finds none', async () => {
    const [asleep, missing, well, later] = await tenants(4)
    if (!asleep || !missing || !well || !later) throw new Error('no tenant')
    for (const { id } of [asleep, missing, well, later]) await lab.accept(id, 3)
    await lab.pool.query("UPDATE deliveries_due SET due_at = now() - interval '1 min'")
    await lab.pool.query("UPDATE deliveries_due SET due_at = now() + interval '1 min' WHERE tenant_id = $1", [
      later.id,
    ])
    await lab.pool.query("UPDATE tenant_queues SET next_due_at = 'infinity' WHERE tenant_id IN ($1, $2)", [
      asleep.id,
      later.id,
    ])
    await lab.pool.query('DELETE FROM tenant_queues WHERE tenant_id = $1', [missing.id])
    expect(await sweepTenantQueues(lab.pool)).toBe(2)
    expect(await sweepTenantQueues(lab.pool)).toBe(0)
    expect((await lab.claim()).claimed).toHaveLength(9)
  })

  test.each([
    ['suspended', 'UPDATE tenants SET suspended = true'],
    ['deleted', 'UPDATE tenants SET deleted_at = now()'],
    ['missing', 'DELETE FROM tenants'],
    ['live with a suspended callback', 'UPDATE tenant_queues SET suspended_at = now()'],
  ])('sweep: does not count the tenant queue as stalled when its tenant is %s', async (_what, change) => {
    const [tenant] = await tenants(1)
    if (!tenant) throw new Error('no tenant')
    await lab.accept(tenant.id, 3)
    await lab.pool.query("UPDATE deliveries_due SET due_at = now() - interval '1 min'")
    await lab.pool.query(change)
    await lab.claim()
    await lab.pool.query("UPDATE tenant_queues SET next_due_at = now() + interval '10 s'")
    expect(await sweepTenantQueues(lab.pool)).toBe(0)
  })
})
