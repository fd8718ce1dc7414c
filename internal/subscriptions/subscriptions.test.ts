import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, type EventId, type TenantId } from '#internal/base/index.ts'
import { findFeedPosition } from '#internal/events/feed.ts'
import { markFeed } from '#internal/events/feed-marks.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { insertEvents } from '#internal/events/insert.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import { createPool, type Pool, type PoolClient } from '#internal/storage/index.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { acknowledgeEvents, extendLease, releaseEvents } from './lease.ts'
import { type Pulled, pullEvents } from './pull.ts'
import {
  deleteSubscription,
  findReaders,
  listSubscriptions,
  purgeSubscriptions,
  readSubscription,
  seekSubscription,
  type WriteResult,
  writeSubscription,
} from './store.ts'
import { type SubscriptionName, subscriptionsMax } from './subscription.ts'

const name = 'shop' as SubscriptionName
let lab: DeliveryLab
let pool: Pool
let tenantId: TenantId

beforeAll(async () => {
  lab = await createDeliveryLab()
  const bounds = { connectionsMax: 8, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'test',
    sessionSettings: eventReadSettings,
    ...bounds,
  })
  return async () => {
    await pool.end()
    await lab.close()
  }
})
beforeEach(async () => {
  await truncateEvents(lab.pool, 'subscriptions', 'feed_marks')
  tenantId = (await lab.addTenant()).id
})

const write = (fields: Partial<Parameters<typeof writeSubscription>[1]> = {}): Promise<WriteResult> =>
  writeSubscription(pool, { tenantId, name, providers: [], types: [], ...fields })
const place = () => ({ tenantId, name })
const pull = (fields: { limit?: number; leaseSeconds?: number } = {}) =>
  pullEvents(pool, { ...place(), limit: 100, leaseSeconds: 60, ...fields }, Date.now())

/** Pulls, and fails unless the subscription exists. */
async function pulled(fields: Parameters<typeof pull>[0] = {}): Promise<Pulled & { ids: EventId[] }> {
  const result = await pull(fields)
  if (result.kind !== 'pulled') throw new Error(`the pull was ${result.kind}`)
  return { ...result, ids: result.events.map(({ id }) => id) }
}

const acknowledge = ({ ackToken = '' }: Pulled) =>
  acknowledgeEvents(pool, { ...place(), ackToken }, Date.now())

/** Pulls and acknowledges until nothing is left. Returns the ids in order. */
async function drain(limit = 100): Promise<EventId[]> {
  const all: EventId[] = []
  for (;;) {
    const found = await pulled({ limit })
    all.push(...found.ids)
    if (found.ackToken !== undefined) expect(await acknowledge(found)).toBe('done')
    else if (!found.hasMore) return all
  }
}

/** Stores an event in a transaction that the caller ends. */
async function storeUncommitted(client: PoolClient, fields: Partial<ReceivedEvent> = {}): Promise<EventId> {
  const event = receivedEvent({ tenantId, ...fields })
  await insertEvents(client, [event])
  return event.id
}

describe('subscriptions', () => {
  test('subscription: can be created, found, changed and deleted', async () => {
    expect((await write({ types: ['order.*'] })).kind).toBe('created')
    expect((await write({ types: ['order.*'] })).kind).toBe('unchanged')
    expect((await write({ types: ['payment.*'] })).kind).toBe('changed')
    const found = await readSubscription(pool, place())
    expect(found).toEqual({
      name,
      providers: [],
      types: ['payment.*'],
      createdAtMs: expect.any(Number),
      acknowledgedAtMs: null,
      isLeased: false,
      availableAtMs: null,
      deleteAfterIdleDays: null,
      expiresAtMs: null,
    })
    expect(await listSubscriptions(pool, tenantId)).toEqual(found ? [found] : [])
    expect(await deleteSubscription(pool, place())).toBe(true)
    expect(await deleteSubscription(pool, place())).toBe(false)
    expect(await readSubscription(pool, place())).toBeUndefined()
    expect(await pull()).toEqual({ kind: 'unknown' })
  })

  test('subscriptions: a tenant can have at most 20, even with concurrent calls, and an unknown tenant cannot have any', async () => {
    const results = await Promise.all(
      Array.from({ length: subscriptionsMax + 5 }, (_, at) => write({ name: `s${at}` as SubscriptionName })),
    )
    expect(results.filter(({ kind }) => kind === 'created')).toHaveLength(subscriptionsMax)
    expect(results.filter(({ kind }) => kind === 'too_many')).toHaveLength(5)
    expect((await write({ tenantId: 'ten_unknown' as TenantId })).kind).toBe('unknown_tenant')
    expect(await purgeSubscriptions(pool, tenantId, 1_000)).toBe(subscriptionsMax)
    expect(await listSubscriptions(pool, tenantId)).toEqual([])
  })

  test('subscription: is deleted after its configured days without use, when the tenant creates another subscription', async () => {
    const idle = { deleteAfterIdleDays: 14 }
    for (const each of ['unused', 'used', 'held', 'acked'] as SubscriptionName[])
      await write({ name: each, ...idle })
    await write({ name: 'kept' as SubscriptionName })
    const stored = await readSubscription(pool, { tenantId, name: 'used' as SubscriptionName })
    const dayMs = 86_400_000
    expect(stored).toMatchObject({ ...idle, expiresAtMs: (stored?.createdAtMs ?? 0) + 14 * dayMs })
    await pool.query(
      `UPDATE subscriptions SET created_at = now() - interval '15 days', used_at = now() - interval '15 days'`,
    )
    const set = (what: string, of: string) =>
      pool.query(`UPDATE subscriptions SET ${what} = now() - interval '13 days' WHERE name = $1`, [of])
    await set('used_at', 'used')
    await set('held_until', 'held')
    await set('acknowledged_at', 'acked')
    expect(await write({ name: 'unused' as SubscriptionName, ...idle })).toMatchObject({ kind: 'unchanged' })
    expect(await write({ name: 'new' as SubscriptionName })).toMatchObject({
      kind: 'created',
      deleted: ['unused'],
    })
    const names = (await listSubscriptions(pool, tenantId)).map((each) => each.name as string)
    expect(names).toEqual(['acked', 'held', 'kept', 'new', 'used'])
  })

  test('subscription: a permanent subscription cannot be changed to a subscription that expires when unused', async () => {
    await write()
    expect((await write({ deleteAfterIdleDays: 14 })).kind).toBe('lasting')
    expect(await readSubscription(pool, { tenantId, name })).toMatchObject({ deleteAfterIdleDays: null })
  })

  test('subscription: changing its allowed days without use counts as use', async () => {
    await write({ deleteAfterIdleDays: 90 })
    await pool.query(
      `UPDATE subscriptions SET created_at = now() - interval '15 days', used_at = now() - interval '15 days'`,
    )
    expect((await write({ deleteAfterIdleDays: 14 })).kind).toBe('changed')
    await write({ name: 'new' as SubscriptionName })
    expect(await readSubscription(pool, { tenantId, name })).toBeDefined()
  })

  test('subscription: is accessible only to its own tenant', async () => {
    await write()
    const { id: other } = await lab.addTenant()
    expect(await listSubscriptions(pool, other)).toEqual([])
    await lab.accept(tenantId)
    const { ackToken = '' } = await pulled()
    expect(await acknowledgeEvents(pool, { tenantId: other, name, ackToken }, Date.now())).toBe('unknown')
    await writeSubscription(pool, { tenantId: other, name, providers: [], types: [] })
    expect(await acknowledgeEvents(pool, { tenantId: other, name, ackToken }, Date.now())).toBe('lost')
    expect(
      await pullEvents(pool, { tenantId: other, name, limit: 100, leaseSeconds: 60 }, Date.now()),
    ).toMatchObject({ events: [], hasMore: false })
  })
})

describe('pull', () => {
  test('pull: a new subscription returns events from its creation on, or from an earlier start time if one is given', async () => {
    const [before] = await lab.accept(tenantId)
    await write()
    await write({ name: 'all' as SubscriptionName, fromMs: 0 })
    const [after] = await lab.accept(tenantId)
    expect(await drain()).toContain(after as EventId)
    const all = await pullEvents(
      pool,
      { tenantId, name: 'all' as SubscriptionName, limit: 100, leaseSeconds: 60 },
      Date.now(),
    )
    expect(all.kind === 'pulled' && all.events.map(({ id }) => id)).toEqual([before, after] as EventId[])
  })

  test('pull: events are returned in pages with their payloads, each event once', async () => {
    await write({ fromMs: 0 })
    const payload = '{"amount":820982911946154508}'
    const ids = await lab.accept(tenantId, 25, { payload, payloadBytes: payload.length })
    const first = await pulled({ limit: 10 })
    expect(first).toMatchObject({ hasMore: true, availableAtMs: null })
    expect(first.events[0]).toMatchObject({ tenantId, provider: 'generic', type: 'order.created', payload })
    expect(await acknowledge(first)).toBe('done')
    expect([...first.ids, ...(await drain(10))]).toEqual(ids.toSorted())
    expect((await pulled()).ids).toEqual([])
    expect((await readSubscription(pool, place()))?.acknowledgedAtMs).toBeGreaterThan(Date.now() - 60_000)
  })

  test('pull: leased events are not returned during the lease, and are returned with another token after it', async () => {
    await write({ fromMs: 0 })
    const ids = await lab.accept(tenantId, 3)
    const first = await pulled({ leaseSeconds: 1 })
    const held = await pulled()
    expect(held).toMatchObject({ events: [], ackToken: undefined })
    expect(held.availableAtMs).toBeGreaterThan(Date.now() - 1_000)
    expect((await readSubscription(pool, place()))?.isLeased).toBe(true)
    await Bun.sleep(1_100)
    const second = await pulled()
    expect(second.ids).toEqual(ids.toSorted())
    expect(await acknowledge(first)).toBe('lost')
    expect(await acknowledge(second)).toBe('done')
    expect(await acknowledge(second)).toBe('repeated')
  })

  test('pull: an acknowledgement after the lease has expired is valid until the events are leased again', async () => {
    await write({ fromMs: 0 })
    await lab.accept(tenantId)
    const first = await pulled({ leaseSeconds: 1 })
    await Bun.sleep(1_100)
    expect(await acknowledge(first)).toBe('done')
    expect((await pulled()).ids).toEqual([])
  })

  test('pull: released events are returned again after the delay, and a lease can be extended', async () => {
    await write({ fromMs: 0 })
    const ids = await lab.accept(tenantId)
    const first = await pulled()
    expect(await releaseEvents(pool, { ...place(), ackToken: first.ackToken ?? '' }, 1)).toBe('done')
    expect((await pulled()).ids).toEqual([])
    await Bun.sleep(1_100)
    const second = await pulled({ leaseSeconds: 1 })
    expect(second.ids).toEqual(ids)
    expect(await extendLease(pool, { ...place(), ackToken: second.ackToken ?? '' }, 60)).toBe('done')
    await Bun.sleep(1_100)
    expect((await pulled()).ids).toEqual([])
    expect(await extendLease(pool, { ...place(), ackToken: first.ackToken ?? '' }, 60)).toBe('lost')
  })

  test('pull: concurrent pulls return each event once', async () => {
    await write({ fromMs: 0 })
    const ids = await lab.accept(tenantId, 30)
    const results = await Promise.all(Array.from({ length: 8 }, () => pulled()))
    expect(results.flatMap((result) => result.ids)).toEqual(ids.toSorted())
    expect(results.filter(({ ackToken }) => ackToken !== undefined)).toHaveLength(1)
  })

  test.each<[string, { providers?: string[]; types?: string[] }, string[]]>([
    ['no filter', {}, ['card payment.succeeded', 'card order.created', 'generic payments.late']],
    ['a provider', { providers: ['generic'] }, ['generic payments.late']],
    ['a type', { types: ['order.created'] }, ['card order.created']],
    ['the start of a type', { types: ['payment.*'] }, ['card payment.succeeded']],
    [
      'several',
      { providers: ['card'], types: ['payment.*', 'order.created'] },
      ['card payment.succeeded', 'card order.created'],
    ],
  ])('pull: %s returns the events that match', async (_name, filter, expected) => {
    await write({ fromMs: 0, ...filter })
    await lab.accept(tenantId, 1, { provider: 'card', type: 'payment.succeeded' })
    await lab.accept(tenantId, 1, { provider: 'card', type: 'order.created' })
    await lab.accept(tenantId, 1, { provider: 'generic', type: 'payments.late' })
    await lab.accept(tenantId, 1, { provider: 'wallet', type: 'order.created', state: 'verified' })
    await lab.accept(tenantId, 1, { origin: { kind: 'test', actor: 'user:ada' } })
    const { events } = await pulled()
    expect(events.map(({ provider, type }) => `${provider} ${type}`)).toEqual(expected)
  })

  test('pull: finding a matching event behind many events that do not match takes several pulls', async () => {
    await write({ fromMs: 0, types: ['rare.one'] })
    await lab.accept(tenantId, 6_500)
    const [rare] = await lab.accept(tenantId, 1, { type: 'rare.one' })
    expect(await pulled()).toMatchObject({ events: [], ackToken: undefined, hasMore: true })
    expect(await drain()).toEqual([rare as EventId])
  }, 30_000)

  test('pull: returns at most 4 MiB of payloads, unless a single event is larger', async () => {
    await write({ fromMs: 0 })
    const payload = JSON.stringify({ text: 'x'.repeat(1_500_000) })
    const ids = await lab.accept(tenantId, 3, { payload, payloadBytes: payload.length })
    const first = await pulled()
    expect(first).toMatchObject({ hasMore: true })
    expect(first.ids).toHaveLength(2)
    await acknowledge(first)
    expect([...first.ids, ...(await drain())]).toEqual(ids.toSorted())
    const large = JSON.stringify({ text: 'x'.repeat(5_000_000) })
    await lab.accept(tenantId, 2, { payload: large, payloadBytes: large.length })
    expect((await pulled()).ids).toHaveLength(1)
  })

  test('pull: an event with an expired payload is returned without payload, and an expired event is not returned', async () => {
    await write({ fromMs: 0 })
    const [kept, gone] = await lab.accept(tenantId, 2)
    await lab.pool.query('DELETE FROM event_payloads')
    await lab.pool.query('DELETE FROM events WHERE id = $1', [gone])
    const { events } = await pulled()
    expect(events.map(({ id, ...rest }) => [id, 'payload' in rest])).toEqual([[kept as EventId, false]])
  })
})

describe('acknowledgement without a callback', () => {
  const statesOf = async (ids: readonly EventId[]) => {
    const { rows } = await lab.pool.query<{ state: string }>(
      'SELECT state FROM events WHERE id = ANY($1) ORDER BY array_position($1, id)',
      [ids],
    )
    return rows.map(({ state }) => state)
  }
  beforeEach(async () => {
    tenantId = (await lab.addTenant({ isPullOnly: true })).id
    await write({ fromMs: 0 })
  })

  test('acknowledgeEvents: acknowledged events become `processed`, and events that are only leased do not', async () => {
    const ids = (await lab.accept(tenantId, 3, { isPullOnly: true })).toSorted()
    expect(await acknowledge(await pulled({ limit: 2 }))).toBe('done')
    expect((await pulled()).ids).toEqual(ids.slice(2))
    expect(await statesOf(ids)).toEqual(['processed', 'processed', 'accepted'])
  })

  test('acknowledgeEvents: with the token of a released, expired or lost lease, only the acknowledged events become `processed`', async () => {
    const ids = await lab.accept(tenantId, 1, { isPullOnly: true })
    const first = await pulled()
    await releaseEvents(pool, { ...place(), ackToken: first.ackToken ?? '' }, 0)
    expect(await acknowledge(first)).toBe('lost')
    const second = await pulled()
    await lab.pool.query(`UPDATE subscriptions SET held_until = '-infinity'`)
    const third = await pulled()
    expect(await acknowledge(second)).toBe('lost')
    expect(await statesOf(ids)).toEqual(['accepted'])
    await lab.pool.query(`UPDATE subscriptions SET held_until = '-infinity'`)
    expect(await acknowledge(third)).toBe('done')
    expect(await acknowledge(third)).toBe('repeated')
    expect(await statesOf(ids)).toEqual(['processed'])
  })

  test('acknowledgeEvents: the first acknowledgement by any subscription makes the event `processed`, and other subscriptions still return it', async () => {
    const ids = await lab.accept(tenantId, 1, { isPullOnly: true })
    await write({ name: 'other' as SubscriptionName, fromMs: 0 })
    await acknowledge(await pulled())
    expect(await statesOf(ids)).toEqual(['processed'])
    const other = 'other' as SubscriptionName
    const again = await pullEvents(pool, { tenantId, name: other, limit: 10, leaseSeconds: 60 }, Date.now())
    if (again.kind !== 'pulled') throw new Error(again.kind)
    expect(again.events.map(({ id }) => id)).toEqual(ids)
    const token = { tenantId, name: other, ackToken: again.ackToken ?? '' }
    expect(await acknowledgeEvents(pool, token, Date.now())).toBe('done')
  })

  test('acknowledgeEvents: events that the filter excludes continue to wait for a pull', async () => {
    await write({ types: ['payment.*'] })
    const types = ['order.created', 'payment.failed', 'order.paid', 'payment.succeeded']
    const ids = []
    for (const type of types) ids.push(...(await lab.accept(tenantId, 1, { type, isPullOnly: true })))
    await acknowledge(await pulled())
    expect(await statesOf(ids)).toEqual(['accepted', 'processed', 'accepted', 'processed'])
  })

  test('writeSubscription: a change of the filter ends the lease, so that only events that match the new filter are acknowledged', async () => {
    const ids = await lab.accept(tenantId, 1, { isPullOnly: true })
    const before = await pulled()
    await write({ types: ['payment.*'] })
    expect(await acknowledge(before)).toBe('lost')
    expect((await pulled()).ids).toEqual([])
    expect(await statesOf(ids)).toEqual(['accepted'])
  })

  test('acknowledgeEvents: an acknowledgement does not affect the delivery while the tenant has a callback, and completes it after the callback is removed', async () => {
    const tenant = await lab.addTenant()
    tenantId = tenant.id
    await write({ fromMs: 0 })
    const ids = await lab.accept(tenantId)
    await acknowledge(await pulled())
    expect(await statesOf(ids)).toEqual(['accepted'])
    expect(await lab.value('SELECT count(*) FROM deliveries_due WHERE event_id = $1', [ids[0]])).toBe(1)
    await lab.setCallback(tenantId, undefined)
    await seekSubscription(pool, place(), 0)
    await acknowledge(await pulled())
    expect(await statesOf(ids)).toEqual(['processed'])
    expect(await lab.value('SELECT count(*) FROM deliveries_due WHERE event_id = $1', [ids[0]])).toBe(0)
  })

  test('findReaders: names the subscriptions that have not acknowledged an event and match it', async () => {
    const [id] = await lab.accept(tenantId, 1, { isPullOnly: true })
    if (id === undefined) throw new Error('no event')
    const named = (text: string) => text as SubscriptionName
    await write({ name: named('payments'), types: ['payment.*'], fromMs: 0 })
    await write({ name: named('orders'), types: ['order.*'], providers: ['generic'], fromMs: 0 })
    const find = async () => {
      const position = await findFeedPosition(pool, { id, tenantId })
      return findReaders(pool, { id, tenantId, provider: 'generic', type: 'order.created', position })
    }
    expect(await find()).toEqual({ total: 3, names: [named('orders'), name] })
    await acknowledge(await pulled())
    expect((await find()).names).toEqual([named('orders')])
  })
})

describe('order of commits', () => {
  test('order of commits: an event that commits later is returned and never skipped, even if its id is older', async () => {
    await write({ fromMs: 0 })
    // Creates the partitions and the tenant queue.
    await lab.accept(tenantId)
    await acknowledge(await pulled())
    const slow = await pool.connect()
    try {
      await slow.query('BEGIN')
      const late = await storeUncommitted(slow, { id: createEventId(Date.now() - 60_000, 90) })
      const others = await lab.accept(tenantId, 5)
      expect(await drain()).toEqual([])
      await slow.query('COMMIT')
      expect((await drain()).toSorted()).toEqual([late, ...others].toSorted())
    } finally {
      slow.release()
    }
  })

  test('order of commits: under concurrent commits in any order, each event is returned once', async () => {
    await write({ fromMs: 0 })
    const expected = await lab.accept(tenantId)
    let isStoring = true
    const storing = Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let turn = 0; turn < 25; turn += 1) {
          const client = await pool.connect()
          try {
            await client.query('BEGIN')
            const id = await storeUncommitted(client, {
              id: createEventId(Date.now() - Math.floor(Math.random() * 10_000), 90),
            })
            await Bun.sleep(Math.random() * 20)
            const isKept = Math.random() < 0.9
            await client.query(isKept ? 'COMMIT' : 'ROLLBACK')
            if (isKept) expected.push(id)
          } finally {
            client.release()
          }
        }
      }),
    ).finally(() => {
      isStoring = false
    })
    const given: EventId[] = []
    while (isStoring) given.push(...(await drain(7)))
    await storing
    given.push(...(await drain(7)))
    expect(given.toSorted()).toEqual(expected.toSorted())
    expect(new Set(given).size).toBe(given.length)
  }, 60_000)

  test('subscription: a position beyond all transactions is reported', async () => {
    await write()
    await lab.pool.query("UPDATE subscriptions SET position_transaction = '4611686018427387904'")
    expect(await pull()).toEqual({ kind: 'beyond_end' })
    await seekSubscription(pool, place(), 0)
    expect((await pull()).kind).toBe('pulled')
  })
})

describe('seek', () => {
  test('seekSubscription: moves a subscription to a given time or to the present, and ends its lease', async () => {
    await write({ fromMs: 0 })
    const hour = 3_600_000
    const nowMs = Date.now()
    const at = (ms: number) => acceptEvents(lab.pool, [receivedEvent({ tenantId }, ms)])
    const [old] = await at(nowMs - 2 * hour)
    const [recent] = await at(nowMs - hour)
    expect(await drain()).toEqual([old, recent] as EventId[])
    await seekSubscription(pool, place(), nowMs - 1.5 * hour)
    const leased = await pulled()
    expect(leased.ids).toEqual([recent as EventId])
    const moved = await seekSubscription(pool, place(), undefined)
    expect(moved).toMatchObject({ isLeased: false, availableAtMs: null })
    expect(await acknowledge(leased)).toBe('lost')
    const [next] = await at(nowMs)
    expect(await drain()).toContain(next as EventId)
    expect(await seekSubscription(pool, { tenantId, name: 'none' as SubscriptionName }, 0)).toBeUndefined()
  })
  test('seekSubscription: the first pull after a seek to a time returns the events from this time on, despite many earlier events', async () => {
    await write()
    const nowMs = Date.now()
    const hour = 3_600_000
    const early = Array.from({ length: 6_500 }, () => receivedEvent({ tenantId }, nowMs - 4 * hour))
    await acceptEvents(lab.pool, early)
    await markFeed(lab.pool)
    await lab.pool.query(`UPDATE feed_marks SET at = now() - interval '2 h'`)
    // Stores an event that was received before the feed mark but stored after it, as from the spool, and an event that was received later.
    await acceptEvents(lab.pool, [receivedEvent({ tenantId }, nowMs - 3 * hour)])
    const [wanted] = await acceptEvents(lab.pool, [receivedEvent({ tenantId }, nowMs - hour)])
    await seekSubscription(pool, place(), nowMs - 1.5 * hour)
    expect(await pulled()).toMatchObject({ ids: [wanted as EventId], hasMore: false })
    await seekSubscription(pool, place(), nowMs - 3.5 * hour)
    expect(await pulled()).toMatchObject({ ids: [], hasMore: true })
    expect(await drain()).toHaveLength(2)
  }, 30_000)
})
