import { afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { callbackQueueOf, notificationsDestination, queueIdOf } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver
beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  await truncateEvents(lab.pool)
})
afterEach(() => receiver.stop())

const mib = 1024 * 1024

interface Statement {
  readonly name: string
  readonly values: readonly unknown[]
}

/** Wraps the lab's pool and calls `before` with each named statement. The statement fails if `before` throws. */
function observedPool(before: (statement: Statement) => void): Pool {
  return new Proxy(lab.pool, {
    get(pool, name) {
      const value: unknown = Reflect.get(pool, name, pool)
      if (name !== 'query') return typeof value === 'function' ? value.bind(pool) : value
      return async (query: Statement & { text: string; values: unknown[] }) => {
        before({ name: query.name ?? '', values: query.values })
        return await pool.query(query)
      }
    },
  })
}

test('loader: payloads of at most 4 MiB in total share a statement, and a larger payload is read alone', async () => {
  const loads: string[][] = []
  const pool = observedPool(({ name, values: [ids] }) => {
    if (name.startsWith('load_events') && Buffer.isBuffer(ids))
      loads.push(ids.toString('latin1').match(/evt_\w{26}/g) ?? [])
  })
  const tenant = await lab.addTenant({ url: receiver.url })
  const bytesOf = new Map<string, number>()
  for (const [count, payloadBytes] of [
    [6, mib],
    [1, 5 * mib],
    [3, mib],
  ] as const)
    for (const id of await lab.accept(tenant.id, count, { payloadBytes })) bytesOf.set(id, payloadBytes)
  const { stop } = lab.forwarder({ pool })
  await receiver.received(10)
  await stop()
  expect(loads.flat().toSorted()).toEqual([...bytesOf.keys()].toSorted())
  const sizes = loads.map((ids) => [ids.length, ids.reduce((sum, id) => sum + (bytesOf.get(id) ?? 0), 0)])
  expect(sizes.filter(([rows = 0, bytes = 0]) => rows > 1 && bytes > 4 * mib)).toEqual([])
  // At least one statement reads several payloads.
  expect(Math.max(...sizes.map(([rows = 0]) => rows))).toBeGreaterThan(1)
})

test.each([
  ['a renewal finds that another process claimed it', ['claim_due']],
  ['its lease cannot be renewed', ['claim_due', 'renew_leases']],
])(
  'loader: a delivery whose lease expires while it waits for payload memory is neither sent nor completed (%s)',
  async (_how, failing) => {
    const held = startReceiver()
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    held.answer(() => released.then(() => new Response(null, { status: 204 })))
    let isFailing = false
    const pool = observedPool(({ name }) => {
      if (isFailing && failing.includes(name)) throw new Error('refused by the test')
    })
    const { forwarder, observed, stop } = lab.forwarder({ pool, leaseMs: 900 })
    const holds = (count: number) =>
      poll(() => forwarder.stats().inFlight === count || undefined, { deadlineMs: 10_000 })
    const holders = await Promise.all(Array.from({ length: 4 }, () => lab.addTenant({ url: held.url })))
    for (const { id } of holders) await lab.accept(id, 1, { payloadBytes: 16 * mib })
    forwarder.notify('all')
    await held.received(4)
    const tenant = await lab.addTenant({ url: receiver.url })
    const [id] = await lab.accept(tenant.id, 1, { payloadBytes: mib })
    forwarder.notify([callbackQueueOf(tenant.id)])
    expect(await holds(5)).toBe(true)
    isFailing = true
    const ofIt = 'FROM deliveries_due WHERE event_id = $1'
    const isRenewing = !failing.includes('renew_leases')
    if (isRenewing) {
      const set = "lease = 'other', claims = claims + 1, leased_until = now() + interval '1 min'"
      await lab.pool.query(`UPDATE deliveries_due SET ${set} WHERE event_id = $1`, [id])
      expect(await holds(4)).toBe(true)
    } else {
      await lab.becomes(true, `SELECT leased_until < now() ${ofIt}`, [id])
      const rooms = new Map(holders.map((each) => [callbackQueueOf(each.id), 0]))
      const lease = { token: 'other', lengthMs: 90_000 }
      const { claimed } = await lab.claim({ lease, rooms, notified: [callbackQueueOf(tenant.id)] })
      expect(claimed.map(({ eventId }) => eventId)).toEqual([id as never])
    }
    release()
    expect(await holds(0)).toBe(true)
    await stop()
    await held.stop()
    expect([receiver.calls.length, observed.lost, observed.released]).toEqual([0, 1, 0])
    const { rows } = await lab.pool.query(`SELECT lease, claims, attempts ${ofIt}`, [id])
    expect(rows).toEqual([{ lease: 'other', claims: 2, attempts: 0 }])
  },
)

/** Receiver that answers when `release` is called. */
function startHeldReceiver() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const held = startReceiver()
  held.answer(() => released.then(() => new Response(null, { status: 204 })))
  return { held, release }
}

test('forwarder: a hanging callback with 64 deliveries leaves places to the notifications of its tenant', async () => {
  const { held, release } = startHeldReceiver()
  const owner = startReceiver()
  const { forwarder, stop } = lab.forwarder()
  const tenant = await lab.addTenant({ url: held.url, notifications: { url: owner.url } })
  await lab.accept(tenant.id, 65, { payloadBytes: 100 })
  forwarder.notify([callbackQueueOf(tenant.id)])
  await held.received(64)
  await lab.accept(tenant.id, 1, { payloadBytes: 100, origin: { kind: 'notification' } })
  forwarder.notify([queueIdOf({ tenantId: tenant.id, destination: notificationsDestination })])
  await owner.received(1)
  expect(held.calls).toHaveLength(64)
  release()
  await held.received(65)
  await stop()
  await Promise.all([held.stop(), owner.stop()])
})

test('loader: the callback and the notifications of a tenant share its payload memory, and another tenant is served', async () => {
  const { held, release } = startHeldReceiver()
  const owner = startReceiver()
  const { forwarder, stop } = lab.forwarder()
  const tenant = await lab.addTenant({ url: held.url, notifications: { url: owner.url } })
  await lab.accept(tenant.id, 1, { payloadBytes: 16 * mib })
  forwarder.notify([callbackQueueOf(tenant.id)])
  await held.received(1)
  await lab.accept(tenant.id, 1, { payloadBytes: 100, origin: { kind: 'notification' } })
  forwarder.notify([queueIdOf({ tenantId: tenant.id, destination: notificationsDestination })])
  const other = await lab.addTenant({ url: receiver.url })
  for (let each = 1; each <= 2; each += 1) {
    await lab.accept(other.id, 1)
    forwarder.notify([callbackQueueOf(other.id)])
    await receiver.received(each)
  }
  const isInFlight = () => forwarder.stats().inFlight === 2 || undefined
  expect(await poll(isInFlight, { deadlineMs: 10_000 })).toBe(true)
  expect(owner.calls).toHaveLength(0)
  release()
  await owner.received(1)
  await stop()
  await Promise.all([held.stop(), owner.stop()])
})
