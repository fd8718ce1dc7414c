import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { requeueFailed } from '#internal/events/cycles.ts'
import { callbackQueueOf } from '#internal/events/index.ts'
import { queueIdOf } from '#internal/events/model.ts'
import { closeBreaker, openBreaker, resumeQueues } from '#internal/events/tenant-queue.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { breakerOpenMs } from './health.ts'

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

const noContent = () => new Response(null, { status: 204 })
const stateOf = 'SELECT state FROM events WHERE id = $1'
const waiting = 'SELECT count(*) FROM deliveries_due'

describe('Forwarder: deliveries', () => {
  test('delivery: 300 events arrive once each, complete and signed by Standard Webhooks', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const ids = await lab.accept(tenant.id, 300)
    const { observed, attempts, stop } = lab.forwarder()
    const calls = await receiver.received(300)
    await lab.becomes(0, waiting)
    await stop()
    expect(calls.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(calls.every(({ verified }) => verified)).toBe(true)
    const [call] = calls
    const event = JSON.parse(call?.body ?? '') as Record<string, unknown>
    expect(event).toMatchObject({
      id: call?.id,
      provider: 'generic',
      tenantId: tenant.id,
      type: 'order.created',
    })
    expect(call?.body).toContain('"amount":820982911946154508')
    expect(call?.headers.get('content-type')).toBe('application/json')
    expect(call?.headers.get('latchkey-hops')).toBe('1')
    expect(
      await lab.value("SELECT count(*) FROM events WHERE state = 'processed' AND completed_at IS NOT NULL"),
    ).toBe(300)
    expect(
      await lab.value("SELECT count(*) FROM attempts WHERE outcome = 'delivered' AND status = 204"),
    ).toBe(300)
    expect(attempts.length).toBe(300)
    expect(attempts.every(({ delayMs }) => delayMs !== undefined && delayMs >= 0)).toBe(true)
    expect(observed).toEqual({
      lost: 0,
      unwritable: 0,
      swept: 0,
      released: 0,
      handed: 0,
      notified: [],
      opened: 0,
      suspended: 0,
      failed: [],
    })
  })

  test('delivery: an idle forwarder delivers an event within 50 ms of its notification', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const { forwarder, stop } = lab.forwarder()
    await lab.accept(tenant.id)
    forwarder.notify([callbackQueueOf(tenant.id)])
    await receiver.received(1)
    const waits: number[] = []
    for (let turn = 2; turn <= 12; turn += 1) {
      await lab.becomes(0, waiting)
      await lab.accept(tenant.id)
      const notifiedAtMs = Date.now()
      forwarder.notify([callbackQueueOf(tenant.id)])
      const [call] = (await receiver.received(turn)).slice(-1)
      waits.push((call?.atMs ?? Number.NaN) - notifiedAtMs)
    }
    await stop()
    expect(waits.toSorted((a, b) => a - b)[5]).toBeLessThan(50)
  })

  test('delivery: a failed delivery is repeated on schedule under the same id', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '200ms', '1h'] })
    receiver.answer(() => new Response('no', { status: receiver.calls.length === 1 ? 500 : 200 }))
    const [id] = await lab.accept(tenant.id)
    const { stop } = lab.forwarder()
    const [first, second] = await receiver.received(2)
    await lab.becomes('processed', stateOf, [id])
    await stop()
    expect(second?.id).toBe(first?.id ?? '')
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThanOrEqual(199)
    const { rows } = await lab.pool.query(
      'SELECT attempt, outcome, status, answer FROM attempts ORDER BY attempt',
    )
    expect(rows).toEqual([
      { attempt: 1, outcome: 'refused', status: 500, answer: 'no' },
      { attempt: 2, outcome: 'delivered', status: 200, answer: 'no' },
    ])
  })

  test('delivery: a failed last attempt ends as delivery_failed, and a redelivery begins one new cycle', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '0s'] })
    receiver.answer(() => new Response(null, { status: receiver.calls.length <= 2 ? 503 : 204 }))
    const [id] = await lab.accept(tenant.id)
    const { forwarder, stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [id])
    expect(receiver.calls.length).toBe(2)
    expect(await lab.value(waiting)).toBe(0)
    if (id === undefined) throw new Error('no event')
    const again = await Promise.all(
      Array.from({ length: 40 }, () => requeueFailed(lab.pool, [{ eventId: id }], Date.now())),
    )
    expect(again.flat()).toEqual([id])
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes('processed', stateOf, [id])
    await stop()
    expect(receiver.calls.length).toBe(3)
    const { rows } = await lab.pool.query(
      'SELECT cycle, attempt, cause FROM attempts ORDER BY cycle, attempt',
    )
    expect(rows).toEqual([
      { cycle: 1, attempt: 1, cause: null },
      { cycle: 1, attempt: 2, cause: 'attempts_exhausted' },
      { cycle: 2, attempt: 1, cause: null },
    ])
  })

  test('delivery: after a response 429 with Retry-After, the next attempt waits for the time in that header', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    receiver.answer(() => new Response(null, { status: 429, headers: { 'retry-after': '3600' } }))
    await lab.accept(tenant.id)
    const { stop } = lab.forwarder()
    await receiver.received(1)
    await lab.becomes(1, 'SELECT count(*) FROM deliveries_due WHERE is_retry AND lease IS NULL')
    await stop()
    const waitS = await lab.value<string>('SELECT extract(epoch FROM due_at - now()) FROM deliveries_due')
    expect(Number(waitS)).toBeGreaterThan(3_500)
    expect(Number(waitS)).toBeLessThanOrEqual(3_600)
  })

  test('delivery: a response 410 fails the event, and other events wait until the callback is resumed', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    receiver.answer(() => new Response(null, { status: 410 }))
    const [id] = await lab.accept(tenant.id)
    const { forwarder, observed, stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [id])
    expect(await lab.value('SELECT suspended_cause FROM tenant_queues')).toBe('gone')
    const [later] = await lab.accept(tenant.id)
    // An event of another tenant is claimed later. Its delivery shows that the claim skipped the suspended tenant.
    const other = startReceiver()
    const witness = await lab.addTenant({ url: other.url })
    await lab.accept(witness.id)
    forwarder.notify([callbackQueueOf(tenant.id), callbackQueueOf(witness.id)])
    await other.received(1)
    await other.stop()
    expect(receiver.calls.length).toBe(1)
    receiver.answer(noContent)
    expect(await resumeQueues(lab.pool, tenant.id)).toEqual([
      queueIdOf({ tenantId: tenant.id, destination: 'callback' }),
    ])
    expect(await resumeQueues(lab.pool, tenant.id)).toEqual([])
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes('processed', stateOf, [later])
    await stop()
    expect(observed.suspended).toBe(1)
  })

  test('delivery: after a resumption, one event is sent first, and all others once that one has succeeded', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const gone = () => new Response(null, { status: 410 })
    receiver.answer(gone)
    const [first] = await lab.accept(tenant.id)
    const { forwarder, observed, stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [first])
    for (let waiting = 0; waiting < 5; waiting += 1) await lab.accept(tenant.id)
    const countOf = (state: string) => lab.value(`SELECT count(*)::int FROM events WHERE state = '${state}'`)
    await resumeQueues(lab.pool, tenant.id)
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes('gone', 'SELECT suspended_cause FROM tenant_queues')
    // The suspension is written before the outcome of the event that caused it.
    await lab.becomes(2, "SELECT count(*)::int FROM events WHERE state = 'delivery_failed'")
    expect([receiver.calls.length, await countOf('delivery_failed'), await countOf('accepted')]).toEqual([
      2, 2, 4,
    ])
    receiver.answer(noContent)
    await resumeQueues(lab.pool, tenant.id)
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes(4, "SELECT count(*)::int FROM events WHERE state = 'processed'")
    await stop()
    expect([receiver.calls.length, observed.suspended]).toEqual([6, 2])
  })

  test('delivery: the response header `abort-message` fails only the event of that call', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    receiver.answer(
      () => new Response(null, { status: 422, headers: { 'webhook-delivery': 'abort-message' } }),
    )
    const [id] = await lab.accept(tenant.id)
    const { stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [id])
    await stop()
    expect(await lab.value('SELECT suspended_at FROM tenant_queues')).toBeNull()
    expect(await lab.value('SELECT cause FROM attempts')).toBe('aborted')
  })

  test('delivery: the first attempt waits if the schedule has a delay before it', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['300ms'] })
    const acceptedMs = Date.now()
    await lab.accept(tenant.id)
    const { stop } = lab.forwarder()
    const [call] = await receiver.received(1)
    await stop()
    expect((call?.atMs ?? 0) - acceptedMs).toBeGreaterThanOrEqual(299)
    expect(await lab.value('SELECT count(*) FROM attempts')).toBe(1)
  })

  test('delivery: without a usable signing secret an attempt fails without a call', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, secrets: ['no secret at all'], schedule: ['0s'] })
    const [id] = await lab.accept(tenant.id)
    const { stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [id])
    await stop()
    expect(await lab.value('SELECT cause FROM attempts')).toBe('signing_unavailable')
    expect(receiver.calls.length).toBe(0)
  })

  test('delivery: after five claims without a completion, one attempt is recorded as failed', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '0s'] })
    const [id] = await lab.accept(tenant.id)
    await lab.pool.query('UPDATE deliveries_due SET claims = 5')
    const { stop } = lab.forwarder()
    await lab.becomes('processed', stateOf, [id])
    await stop()
    const { rows } = await lab.pool.query('SELECT attempt, cause FROM attempts ORDER BY attempt')
    expect(rows).toEqual([
      { attempt: 1, cause: 'worker_lost' },
      { attempt: 2, cause: null },
    ])
  })

  test('delivery: an event with an expired payload fails, and a redelivery with a payload begins a new cycle', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const [id] = await lab.accept(tenant.id)
    if (id === undefined) throw new Error('no event')
    await lab.pool.query('DELETE FROM event_payloads')
    const { forwarder, stop } = lab.forwarder()
    await lab.becomes('delivery_failed', stateOf, [id])
    expect(await lab.value('SELECT cause FROM attempts')).toBe('payload_expired')
    expect(await requeueFailed(lab.pool, [{ eventId: id }], Date.now())).toEqual([])
    const payload = '{"again":true}'
    const candidate = { eventId: id, payload, payloadExpiresOn: '2031-01-01' }
    expect(await requeueFailed(lab.pool, [candidate], Date.now())).toEqual([id])
    forwarder.notify([callbackQueueOf(tenant.id)])
    const [call] = await receiver.received(1)
    await stop()
    expect(call?.body).toContain(`"payload":${payload}`)
  })

  test('delivery: drops a delivery whose event was already deleted by retention', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id)
    await lab.pool.query('DELETE FROM events')
    const { stop } = lab.forwarder()
    await lab.becomes(0, waiting)
    await stop()
    expect(receiver.calls.length).toBe(0)
    expect(await lab.value('SELECT count(*) FROM attempts')).toBe(0)
  })

  test('delivery: payloads of 1 MB arrive complete', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const payload = JSON.stringify({ big: 'x'.repeat(1_000_000) })
    const ids = await lab.accept(tenant.id, 24, { payload, payloadBytes: payload.length })
    const { stop } = lab.forwarder()
    const calls = await receiver.received(24)
    await lab.becomes(0, waiting)
    await stop()
    expect(calls.map((call) => call.id).toSorted()).toEqual(ids.toSorted())
    expect(calls.every(({ verified }) => verified)).toBe(true)
  })
})

describe('Forwarder: probes', () => {
  const openedBefore = "UPDATE tenant_queues SET breaker_until = now() - interval '1 s'"

  test.each([
    ['snoozed', async () => undefined],
    ['without payload', () => lab.pool.query('DELETE FROM event_payloads')],
    ['without event', () => lab.pool.query('DELETE FROM events')],
  ])('probe: after a probe that is %s, another probe is sent soon', async (what, change) => {
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id)
    await change()
    await lab.pool.query(openedBefore)
    const knows = what !== 'snoozed'
    const { stop } = lab.forwarder({
      directory: { findTenantById: () => (knows ? tenant : undefined), hasSnapshot: () => true },
    })
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL OR due_at <= now()')
    await stop()
    expect(receiver.calls.length).toBe(0)
    expect(
      await lab.value(
        "SELECT breaker_until BETWEEN now() - interval '5 s' AND now() + interval '1 s' FROM tenant_queues",
      ),
    ).toBe(true)
  })
})

describe('Forwarder: failing callbacks', () => {
  test('circuit breaker: an open breaker stops sends and the counts of attempts, and a successful probe closes the breaker', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '0s', '0s', '0s', '0s', '0s'] })
    receiver.answer(() => new Response(null, { status: 500 }))
    const ids = await lab.accept(tenant.id, 12)
    const { forwarder, observed, stop } = lab.forwarder()
    await lab.becomes(true, 'SELECT breaker_until > now() FROM tenant_queues')
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL')
    expect(observed.opened).toBeGreaterThan(0)
    const callsBefore = receiver.calls.length
    const spent = 'SELECT sum(attempts) FROM deliveries_due'
    const spentBefore = await lab.value<number>(spent)
    forwarder.notify([callbackQueueOf(tenant.id)])
    receiver.answer(noContent)
    // The open breaker blocks this claim. Afterwards the test lets the breaker's open time end.
    const claimsNothing = await lab.claim({ notified: [callbackQueueOf(tenant.id)] })
    expect(claimsNothing.claimed).toEqual([])
    expect([receiver.calls.length, await lab.value<number>(spent)]).toEqual([callsBefore, spentBefore])
    await lab.pool.query("UPDATE tenant_queues SET breaker_until = now() - interval '1 s'")
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes(12, "SELECT count(*) FROM events WHERE state = 'processed'")
    await stop()
    expect(await lab.value("SELECT breaker_until = '-infinity' FROM tenant_queues")).toBe(true)
    expect(receiver.calls.length - callsBefore).toBe(ids.length)
  })

  test('circuit breaker: 32 failing deliveries in flight and a failed probe count as one opening', async () => {
    const gates = Array.from({ length: 32 }, () => Promise.withResolvers<void>())
    let calls = 0
    receiver.answer(async () => {
      await gates[calls++]?.promise
      return new Response(null, { status: 500 })
    })
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '1h', '1h'] })
    await lab.accept(tenant.id, 32)
    const { forwarder, observed, stop } = lab.forwarder()
    await receiver.received(32)
    for (const [nth, gate] of gates.entries()) {
      gate.resolve()
      await lab.becomes(nth + 1, 'SELECT count(*) FROM attempts')
    }
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL')
    expect(observed.opened).toBe(1)
    await lab.pool.query('UPDATE deliveries_due SET due_at = now()')
    await lab.pool.query(
      "UPDATE tenant_queues SET breaker_until = now() - interval '1 s', next_due_at = now()",
    )
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes(33, 'SELECT count(*) FROM attempts')
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL')
    await stop()
    expect(observed.opened).toBe(1)
    expect(await lab.value('SELECT breaker_until > now() FROM tenant_queues')).toBe(true)
  })

  test('circuit breaker: only one process reports an opening when several processes open it at the same time', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id)
    const queueId = { tenantId: tenant.id, destination: 'callback' }
    const open = () =>
      Promise.all(Array.from({ length: 32 }, () => openBreaker(lab.pool, queueId, breakerOpenMs)))
    expect((await open()).filter(Boolean)).toHaveLength(1)
    expect((await open()).filter(Boolean)).toHaveLength(0)
    await closeBreaker(lab.pool, queueId)
    expect((await open()).filter(Boolean)).toHaveLength(1)
  })

  test('hanging callback: does not delay other tenants, and its calls time out', async () => {
    const hanging = startReceiver()
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    hanging.answer(() => released.then(noContent))
    const slow = await lab.addTenant({ url: hanging.url, timeoutSeconds: 1, schedule: ['0s', '1h'] })
    const quick = await lab.addTenant({ url: receiver.url })
    await lab.accept(slow.id, 200)
    const { forwarder, stop } = lab.forwarder()
    await hanging.received(64)
    const ids = await lab.accept(quick.id, 50)
    const notifiedAtMs = Date.now()
    forwarder.notify([callbackQueueOf(quick.id)])
    const calls = await receiver.received(50)
    expect(Math.max(...calls.map(({ atMs }) => atMs)) - notifiedAtMs).toBeLessThan(900)
    expect(new Set(calls.map(({ id }) => id))).toEqual(new Set(ids))
    await lab.becomes(true, "SELECT count(*) >= 64 FROM attempts WHERE cause = 'timeout'")
    await lab.becomes(true, 'SELECT breaker_until > now() FROM tenant_queues WHERE tenant_id = $1', [slow.id])
    // The first nine failures can have released places for further calls.
    expect(hanging.calls.length).toBeLessThan(64 + 10)
    release()
    await stop()
    await hanging.stop()
  })
})

describe('Forwarder: payload memory', () => {
  const mib = 1024 * 1024
  const claimedCount = 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL'

  test('payload memory: a large payload gets memory before small payloads that were claimed later', async () => {
    const held = startReceiver()
    const freed = startReceiver()
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const { promise: allowed, resolve: allow } = Promise.withResolvers<void>()
    held.answer(() => released.then(noContent))
    freed.answer(() => allowed.then(noContent))
    const { forwarder, stop } = lab.forwarder()
    const add = async (url: string, payloadBytes: number, count = 1) => {
      const tenant = await lab.addTenant({ url, timeoutSeconds: 30 })
      await lab.accept(tenant.id, count, { payloadBytes })
      forwarder.notify([callbackQueueOf(tenant.id)])
    }
    // These payloads leave 8 of 64 MiB free.
    for (let each = 0; each < 3; each += 1) await add(held.url, 16 * mib)
    await add(freed.url, 8 * mib)
    await Promise.all([held.received(3), freed.received(1)])
    await add(receiver.url, 12 * mib)
    const holds = async (count: number) => {
      const seen = await poll(() => forwarder.stats().inFlight === count || undefined, { deadlineMs: 10_000 })
      expect(seen).toBe(true)
    }
    await holds(5)
    await add(held.url, mib, 8)
    await holds(13)
    allow()
    await receiver.received(1)
    // The remaining 4 MiB are used by four small payloads.
    await held.received(7)
    release()
    await lab.becomes(0, waiting)
    await stop()
    await Promise.all([held.stop(), freed.stop()])
  })

  test('payload memory: a delivery whose payload is being read is released on stop', async () => {
    const { promise: asked, resolve: reads } = Promise.withResolvers<void>()
    const { promise: allowed, resolve: allow } = Promise.withResolvers<void>()
    const slow = new Proxy(lab.pool, {
      get(pool, name) {
        const value: unknown = Reflect.get(pool, name, pool)
        if (name !== 'query') return typeof value === 'function' ? value.bind(pool) : value
        return async (query: { name?: string; text: string; values: unknown[] }) => {
          if (query.name?.startsWith('load_events')) {
            reads()
            await allowed
          }
          return await pool.query(query)
        }
      },
    })
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id, 1, { payloadBytes: 8 * mib })
    const { forwarder, observed, stop } = lab.forwarder({ pool: slow })
    forwarder.notify([callbackQueueOf(tenant.id)])
    await asked
    const stopped = stop(10_000)
    allow()
    await stopped
    expect(observed.released).toBe(1)
    expect(await lab.value(claimedCount)).toBe(0)
    expect(receiver.calls.length).toBe(0)
  })
})

describe('Forwarder', () => {
  test('Forwarder: several processes deliver each event once', async () => {
    const tenants = await Promise.all(Array.from({ length: 5 }, () => lab.addTenant({ url: receiver.url })))
    const forwarders = Array.from({ length: 3 }, () => lab.forwarder())
    for (let turn = 0; turn < 20; turn += 1) {
      await Promise.all(tenants.map(({ id }) => lab.accept(id, 10)))
      for (const { forwarder } of forwarders) forwarder.notify('all')
    }
    await receiver.received(1_000)
    await lab.becomes(0, waiting)
    await Promise.all(forwarders.map(({ stop }) => stop()))
    expect(new Set(receiver.calls.map(({ id }) => id)).size).toBe(1_000)
    expect(receiver.calls.length).toBe(1_000)
    expect(forwarders.map(({ observed }) => observed.lost + observed.swept)).toEqual([0, 0, 0])
  })

  test('Forwarder: stop waits for calls in progress and releases the deliveries of hanging calls', async () => {
    const hanging = startReceiver()
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    hanging.answer(() => released.then(noContent))
    const stuck = await lab.addTenant({ url: hanging.url })
    const slow = await lab.addTenant({ url: receiver.url })
    const { promise: asked, resolve: answerSlow } = Promise.withResolvers<void>()
    receiver.answer(() => asked.then(noContent))
    await lab.accept(stuck.id, 3)
    const [slowId] = await lab.accept(slow.id)
    const first = lab.forwarder()
    await Promise.all([hanging.received(3), receiver.received(1)])
    const stopped = first.stop(2_500)
    answerSlow()
    await stopped
    expect(await lab.value(stateOf, [slowId])).toBe('processed')
    expect(first.observed.released).toBe(3)
    const { rows } = await lab.pool.query(
      'SELECT lease, claims, attempts, greatest(due_at, leased_until) <= now() AS due FROM deliveries_due',
    )
    expect(rows).toEqual(
      Array.from({ length: 3 }, () => ({ lease: null, claims: 0, attempts: 0, due: true })),
    )
    release()
    const second = lab.forwarder()
    await lab.becomes(4, "SELECT count(*) FROM events WHERE state = 'processed'")
    await second.stop()
    await hanging.stop()
  })

  test('Forwarder: the lease of a delivery is renewed while its call takes longer than the lease', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const { promise: asked, resolve: answer } = Promise.withResolvers<void>()
    receiver.answer(() => asked.then(noContent))
    const [id] = await lab.accept(tenant.id)
    const first = lab.forwarder({ leaseMs: 600 })
    const second = lab.forwarder({ leaseMs: 600 })
    await receiver.received(1)
    const claimedUntil = await lab.value<Date>('SELECT leased_until FROM deliveries_due')
    await lab.becomes(
      true,
      "SELECT now() > $1::timestamptz + interval '300 ms' FROM deliveries_due WHERE leased_until > now()",
      [claimedUntil],
    )
    answer()
    await lab.becomes('processed', stateOf, [id])
    await Promise.all([first.stop(), second.stop()])
    expect(receiver.calls.length).toBe(1)
    expect(first.observed.lost + second.observed.lost).toBe(0)
  })

  test('Forwarder: a row that this process claims again during its call is not sent twice', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '1h'] })
    const { promise: asked, resolve: answer } = Promise.withResolvers<void>()
    receiver.answer(() => asked.then(noContent))
    const [id] = await lab.accept(tenant.id)
    const { forwarder, stop, observed } = lab.forwarder()
    await receiver.received(1)
    for (let claims = 2; claims <= 3; claims += 1) {
      await lab.pool.query('UPDATE deliveries_due SET leased_until = now()')
      forwarder.notify([callbackQueueOf(tenant.id)])
      await lab.becomes(claims, 'SELECT claims FROM deliveries_due')
    }
    expect(forwarder.stats().inFlight).toBe(1)
    answer()
    await lab.becomes('processed', stateOf, [id])
    await stop()
    expect(receiver.calls.length).toBe(1)
    expect(forwarder.stats()).toEqual({ inFlight: 0, uncompleted: 0 })
    expect(observed.lost).toBe(0)
  })

  test('Forwarder: while outcomes cannot be written, it keeps the deliveries that have a response and claims nothing', async () => {
    const [tenant, other] = [
      await lab.addTenant({ url: receiver.url }),
      await lab.addTenant({ url: receiver.url }),
    ]
    const refuses = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '55000'; END$$`
    await lab.pool.query(refuses)
    await lab.pool.query(
      'CREATE TRIGGER refuse BEFORE INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION refuse()',
    )
    const [id] = await lab.accept(tenant.id)
    const first = lab.forwarder({ leaseMs: 600 })
    try {
      await receiver.received(1)
      const claimedUntil = await lab.value<Date>('SELECT leased_until FROM deliveries_due')
      const tries = () => first.observed.failed.length
      expect(await poll(() => tries() > 0 || undefined, { deadlineMs: 10_000 })).toBe(true)
      await lab.accept(other.id)
      first.forwarder.notify([callbackQueueOf(other.id)])
      const second = lab.forwarder({
        leaseMs: 600,
        directory: { findTenantById: () => undefined, hasSnapshot: () => true },
      })
      await lab.becomes(
        true,
        "SELECT now() > $1::timestamptz + interval '900 ms' FROM deliveries_due WHERE tenant_id = $2 AND leased_until > now() AND claims = 1",
        [claimedUntil, tenant.id],
      )
      await second.stop()
      expect(receiver.calls.length).toBe(1)
    } finally {
      await lab.pool.query('DROP TRIGGER refuse ON attempts')
      await lab.pool.query('DROP FUNCTION refuse')
    }
    await lab.becomes('processed', stateOf, [id])
    await lab.pool.query('UPDATE deliveries_due SET leased_until = now()')
    first.forwarder.notify([callbackQueueOf(other.id)])
    await receiver.received(2)
    await lab.becomes(0, waiting)
    await first.stop()
    expect(receiver.calls.length).toBe(2)
    expect([first.observed.lost, first.observed.unwritable]).toEqual([0, 0])
  })

  test('Forwarder: deliveries of a tenant continue after the tenant is suspended and resumed', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id)
    await lab.pool.query('UPDATE tenants SET suspended = true WHERE id = $1', [tenant.id])
    const { forwarder, stop } = lab.forwarder()
    await lab.becomes(true, 'SELECT next_due_at > now() FROM tenant_queues')
    expect(receiver.calls.length).toBe(0)
    await lab.pool.query('UPDATE tenants SET suspended = false WHERE id = $1', [tenant.id])
    forwarder.notify([callbackQueueOf(tenant.id)])
    await receiver.received(1)
    await stop()
  })
})

test('unreadable signing secrets: a delivery waits without an attempt while other tenants are served', async () => {
  const tenant = await lab.addTenant({ url: receiver.url })
  const served = await lab.addTenant({ url: receiver.url })
  lab.changeTenant(tenant.id, { secrets: tenant.secrets.map((each) => ({ ...each, keyId: 'lost' })) })
  const [id] = await lab.accept(tenant.id)
  const { stop, attempts } = lab.forwarder()
  await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE event_id = $1 AND due_at <= now()', [id])
  const [other] = await lab.accept(served.id)
  await lab.becomes('processed', stateOf, [other])
  expect(attempts.map(({ delivery }) => delivery.eventId)).toEqual([other as string] as never)
  expect(await lab.value('SELECT attempts FROM deliveries_due WHERE event_id = $1', [id])).toBe(0)
  expect(await lab.value('SELECT claims FROM deliveries_due WHERE event_id = $1', [id])).toBe(0)
  lab.changeTenant(tenant.id, { secrets: tenant.secrets })
  await lab.pool.query('UPDATE deliveries_due SET due_at = now() WHERE event_id = $1', [id])
  await lab.pool.query('UPDATE tenant_queues SET next_due_at = now() WHERE tenant_id = $1', [tenant.id])
  await lab.becomes('processed', stateOf, [id])
  await stop()
  expect(await lab.value('SELECT count(*) FROM attempts WHERE event_id = $1', [id])).toBe(1)
})
