import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { EventId, TenantId } from '#internal/base/index.ts'
// Tests may import any file of a module, not only its index.ts.
import { decodeHandOff, HandOffs } from '#internal/events/hand-off.ts'
import { callbackQueueOf, type QueueId, type ReceivedEvent } from '#internal/events/index.ts'
import { partitionsOf, storeBatch } from '#internal/events/insert.ts'
import { openBreaker, suspendQueue } from '#internal/events/tenant-queue.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab, type LabForwarder } from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { until } from '#test/support/until.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver
const running: LabForwarder[] = []

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  await truncateEvents(lab.pool)
})
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()))
  await receiver.stop()
})

const noContent = () => new Response(null, { status: 204 })
/** Owner tokens of leases, of forwarders that do not run. */
const [someone, one, two] = ['someone', 'one', 'two'].map((name) => name.padEnd(22, '_')) as [
  string,
  string,
  string,
]
const waiting = 'SELECT count(*) FROM deliveries_due'

/** Channels between intake and forwarders, in this process. */
class Channels {
  readonly offers: string[] = []
  readonly messages: string[] = []
  readonly notified: string[][] = []
  /** False to lose the messages to forwarders. */
  delivers = true
  #receivers: LabForwarder[] = []
  readonly handOffs = new HandOffs({ publish: (channel, message) => this.#publish(channel, message) })

  /** Starts a forwarder that offers, and waits for its first offer. */
  async forwarder(options: Parameters<DeliveryLab['forwarder']>[0] = {}): Promise<LabForwarder> {
    const before = this.offers.length
    const started = lab.forwarder({
      ...options,
      publishOffer: async (message) => {
        this.offers.push(message)
        this.handOffs.noteOffer(message)
      },
    })
    running.push(started)
    this.#receivers.push(started)
    await until('an offer', () => this.offers.length > before)
    return started
  }

  async store(events: readonly ReceivedEvent[]): Promise<void> {
    await ensurePartitions(lab.pool, partitionsOf(events))
    const batch = events.toSorted((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1))
    const { pool } = lab
    const options = { pool, handOffs: this.handOffs, onError: fail, wake: this.#wake.bind(this) }
    await storeBatch(options, batch)
  }

  #wake(due: readonly QueueId[], handed: readonly QueueId[] = []): void {
    this.notified.push([...due, ...handed.map((id) => `handed ${id}`)])
    for (const { forwarder } of this.#receivers) forwarder.notify(due)
  }

  async #publish(channel: string, message: string): Promise<boolean> {
    this.messages.push(message)
    const to = this.#receivers.find(({ forwarder }) => forwarder.handOffChannel === channel)
    if (this.delivers) to?.forwarder.receive(message)
    return to !== undefined
  }
}

function fail(error: unknown): void {
  throw error
}

const eventsOf = (tenantId: TenantId, count: number, fields: Partial<ReceivedEvent> = {}) =>
  Array.from({ length: count }, () => receivedEvent({ ...fields, tenantId }))

/** Creates a tenant whose queue is clear: it had work, and was checked since. */
async function clearTenant(channels: Channels, url = receiver.url) {
  const tenant = await lab.addTenant({ url })
  const before = receiver.calls.length
  await channels.store(eventsOf(tenant.id, 1))
  if (url === receiver.url) await receiver.received(before + 1)
  await lab.becomes(0, `${waiting} WHERE leased_until < now()`)
  await lab.becomes(true, 'SELECT next_due_at > now() FROM tenant_queues WHERE tenant_id = $1', [tenant.id])
  channels.notified.splice(0)
  return tenant
}

describe('hand-off', () => {
  test('hand-off: an event of a tenant without a backlog is delivered and completed once, without a claim', async () => {
    const channels = new Channels()
    const { observed, attempts } = await channels.forwarder()
    const tenant = await clearTenant(channels)
    const claims = observed.handed
    const events = eventsOf(tenant.id, 3)
    await channels.store(events)
    const calls = await receiver.received(4)
    expect(
      calls
        .slice(1)
        .map(({ id }) => id as EventId)
        .toSorted(),
    ).toEqual(events.map(({ id }) => id).toSorted())
    expect(calls.every(({ verified }) => verified)).toBe(true)
    await lab.becomes(0, waiting)
    expect(observed.handed - claims).toBe(3)
    expect(attempts.slice(1).every(({ delivery }) => delivery.claims === 1)).toBe(true)
    expect(channels.notified).toEqual([[`handed ${tenant.id}/callback`]])
    expect(await lab.value("SELECT count(*) FROM events WHERE state = 'processed'")).toBe(4)
    // The event that was handed off equals the one that a claim would read.
    const [event] = events
    const sent = JSON.parse(calls.find(({ id }) => id === event?.id)?.body ?? '') as Record<string, unknown>
    expect(sent).toMatchObject({
      receivedAt: new Date(event?.receivedAtMs ?? 0).toISOString(),
      occurredAt: new Date(event?.occurredAtMs ?? 0).toISOString(),
      payload: JSON.parse(event?.payload ?? ''),
    })
  })

  test('hand-off: an event whose message is lost is claimed when its lease expires', async () => {
    const channels = new Channels()
    await channels.forwarder({ leaseMs: 700 })
    const tenant = await clearTenant(channels)
    channels.delivers = false
    const [event] = eventsOf(tenant.id, 1)
    if (event === undefined) throw new Error('no event')
    await channels.store([event])
    expect(channels.messages).toHaveLength(1)
    await receiver.received(2)
    await lab.becomes(0, waiting)
    expect(receiver.calls.length).toBe(2)
  })

  test.each([
    [
      'a suspended callback',
      (id: TenantId) =>
        suspendQueue(lab.pool, { tenantId: id, destination: 'callback' }, { cause: 'gone', nowMs: 0 }),
    ],
    [
      'an open circuit breaker',
      (id: TenantId) => openBreaker(lab.pool, { tenantId: id, destination: 'callback' }, 60_000),
    ],
    [
      'a half-open circuit breaker',
      (id: TenantId) =>
        lab.pool.query(
          "UPDATE tenant_queues SET breaker_until = now() - interval '1 s' WHERE tenant_id = $1",
          [id],
        ),
    ],
    [
      'a backlog',
      (id: TenantId) =>
        lab.pool.query('UPDATE tenant_queues SET next_due_at = now() WHERE tenant_id = $1', [id]),
    ],
  ])('hand-off: an event of a tenant with %s is not handed off', async (_case, change) => {
    const channels = new Channels()
    const { observed } = await channels.forwarder({ paused: () => ({ all: true, tenants: new Set() }) })
    // Sends the offer of a forwarder that has not yet noticed the change.
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.pool.query(
      "INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($1, 'callback', 'infinity')",
      [tenant.id],
    )
    channels.handOffs.noteOffer(JSON.stringify([someone, 1, 3_500, []]))
    await change(tenant.id)
    await channels.store(eventsOf(tenant.id, 1))
    expect(channels.messages).toEqual([])
    expect(observed.handed).toBe(0)
    expect(await lab.value('SELECT count(*) FROM deliveries_due WHERE lease IS NULL AND claims = 0')).toBe(1)
  })

  test('hand-off: a tenant queue that sleeps is checked when the lease ends', async () => {
    const channels = new Channels()
    channels.handOffs.noteOffer(JSON.stringify([someone, 1, 30_000, []]))
    const tenant = await lab.addTenant({ url: receiver.url })
    await lab.pool.query(
      "INSERT INTO tenant_queues (tenant_id, destination, next_due_at, idle_checks) VALUES ($1, 'callback', 'infinity', 1)",
      [tenant.id],
    )
    await channels.store(eventsOf(tenant.id, 1))
    expect(
      await lab.value(
        'SELECT next_due_at = leased_until AND idle_checks = 0 FROM tenant_queues JOIN deliveries_due USING (tenant_id)',
      ),
    ).toBe(true)
    // A further event does not write the queue's row, since the queue will already be checked when the earlier lease ends.
    const version = await lab.value('SELECT xmin::text FROM tenant_queues')
    channels.handOffs.noteOffer(JSON.stringify([someone, 2, 30_000, []]))
    await channels.store(eventsOf(tenant.id, 1))
    expect(await lab.value('SELECT xmin::text FROM tenant_queues')).toBe(version as string)
    expect(
      await lab.value('SELECT count(*) FROM deliveries_due WHERE lease = $1 AND claims = 1', [someone]),
    ).toBe(2)
  })

  test('hand-off: if a tenant has no free slots, its further events are claimed as slots become free, and no event is lost', async () => {
    const channels = new Channels()
    const { observed, forwarder } = await channels.forwarder()
    const tenant = await clearTenant(channels)
    const { promise: asked, resolve: answer } = Promise.withResolvers<void>()
    receiver.answer(() => asked.then(noContent))
    const batches = Array.from({ length: 5 }, () => eventsOf(tenant.id, 30))
    for (const events of batches) await channels.store(events)
    await receiver.received(1 + 64)
    expect(forwarder.stats().inFlight).toBe(64)
    expect(observed.handed).toBeLessThanOrEqual(64)
    answer()
    await receiver.received(1 + 150)
    await lab.becomes(0, waiting)
    const ids = receiver.calls.map(({ id }) => id)
    expect([ids.length, new Set(ids).size]).toEqual([151, 151])
  })

  test('hand-off: messages that arrive during and after the stop of a forwarder are released', async () => {
    const channels = new Channels()
    const { forwarder, observed, stop } = await channels.forwarder({ leaseMs: 30_000 })
    const tenant = await clearTenant(channels)
    const { handed } = observed
    channels.delivers = false
    for (const event of eventsOf(tenant.id, 2)) await channels.store([event])
    const [during = '', after = ''] = channels.messages.slice(-2)
    const stopped = stop()
    forwarder.receive(during)
    await stopped
    const released = 'SELECT count(*) FROM deliveries_due WHERE lease IS NULL AND claims = 0'
    expect(await lab.value(released)).toBe(1)
    forwarder.receive(after)
    await lab.becomes(2, released)
    expect([observed.handed, receiver.calls.length]).toEqual([handed, 1])
  })

  test('hand-off: a message that was delayed beyond the lease is ignored', async () => {
    const channels = new Channels()
    const { forwarder, observed } = await channels.forwarder({ leaseMs: 500 })
    const tenant = await clearTenant(channels)
    const { handed } = observed
    channels.delivers = false
    await channels.store(eventsOf(tenant.id, 1))
    const [message = ''] = channels.messages.slice(-1)
    expect(decodeHandOff(message)?.events).toHaveLength(1)
    await receiver.received(2)
    await lab.becomes(0, waiting)
    forwarder.receive(message)
    expect([observed.handed, forwarder.stats().inFlight]).toEqual([handed, 0])
  })

  const { id, tenantId } = receivedEvent()
  const row = JSON.stringify([id, tenantId, 'generic', 'a', 'a', 1, '{}', '{}', 2, '2026-12-01'])

  test('hand-off: a message with one valid row of the current offer is accepted', async () => {
    const channels = new Channels()
    const { forwarder, observed } = await channels.forwarder()
    forwarder.receive(`[1,3500,[${row}]]`)
    expect(observed.handed).toBe(1)
  })

  test.each([
    ['text', 'x'],
    ['another form', '[1,2]'],
    ['a row of another form', '[1,3500,[["evt_1"]]]'],
    ['an id of another form', '[1,3500,[["evt_1","ten_1","generic","a","a",1,"{}","{}",2,"2026-12-01"]]]'],
    ['a future offer', `[99,3500,[${row}]]`],
    ['no number of an offer', `["1",3500,[${row}]]`],
    ['a lease beyond 30 s', `[1,30001,[${row}]]`],
  ])('hand-off: a message with %s is ignored', async (_case, message) => {
    const channels = new Channels()
    const { forwarder, observed } = await channels.forwarder()
    expect(() => forwarder.receive(message)).not.toThrow()
    expect([observed.handed, forwarder.stats().inFlight]).toEqual([0, 0])
  })

  test('offer: excludes a paused tenant and a tenant with few free slots, and excludes every tenant after a stop', async () => {
    const channels = new Channels()
    const paused = await lab.addTenant({ url: receiver.url })
    const { promise: asked, resolve: answer } = Promise.withResolvers<void>()
    receiver.answer(() => asked.then(noContent))
    const busy = await lab.addTenant({ url: receiver.url })
    await lab.accept(busy.id, 60)
    const { stop } = await channels.forwarder({
      paused: () => ({ all: false, tenants: new Set([paused.id]) }),
    })
    await receiver.received(60)
    const refusedNow = () => (JSON.parse(channels.offers.at(-1) ?? '[]') as unknown[])[3]
    await until(
      'an offer without both',
      () => Array.isArray(refusedNow()) && (refusedNow() as string[]).length === 2,
    )
    expect((refusedNow() as string[]).toSorted()).toEqual(
      [paused.id, busy.id].toSorted().map((id) => `${id}/callback`),
    )
    answer()
    await stop()
    expect(refusedNow()).toBe('all')
    expect(channels.handOffs.plan(eventsOf(busy.id, 1))).toBeUndefined()
  })
})

describe('HandOffs', () => {
  const offered = (refused: unknown = [], nowMs = () => 0) => {
    const handOffs = new HandOffs({ publish: async () => true, now: nowMs })
    handOffs.noteOffer(JSON.stringify([one, 7, 3_500, refused]))
    return handOffs
  }

  test.each<[string, Partial<ReceivedEvent>, number]>([
    ['an event of a provider', {}, 1],
    ['no event that is only verified', { state: 'verified' }, 0],
    ['no event that waits for a pull', { isPullOnly: true }, 0],
    ['no notification', { origin: { kind: 'notification' } }, 0],
    ['no event with a large payload', { payloadBytes: 16 * 1024 + 1 }, 0],
    ['no event with large headers', { headers: 'x'.repeat(16 * 1024) }, 0],
  ])('HandOffs: plans %s', (_case, fields, count) => {
    expect(offered().plan([receivedEvent(fields)])?.leaseTokens.size ?? 0).toBe(count)
  })

  test.each<[string, unknown]>([
    ['a token of another form', ['someone', 1, 3_500, []]],
    ['a number that is not an integer', [one, 1.5, 3_500, []]],
    ['a number of zero', [one, 0, 3_500, []]],
    ['a lease beyond an integer of Postgres', [one, 1, 2 ** 40, []]],
    ['a lease of days', [one, 1, 2 ** 30, []]],
    ['a lease beyond 30 s', [one, 1, 30_001, []]],
    ['no lease', [one, 1, 0, []]],
    ['a negative lease', [one, 1, -1, []]],
    ['a text that is no id of a tenant queue', [one, 1, 3_500, ['ten_a/callback']]],
    [
      'too many ids of tenant queues',
      [one, 1, 3_500, Array.from({ length: 257 }, () => callbackQueueOf(receivedEvent().tenantId))],
    ],
    ['no list', [one, 1, 3_500, {}]],
  ])('HandOffs: ignores an offer with %s', (_case, offer) => {
    const handOffs = new HandOffs({ publish: async () => true })
    handOffs.noteOffer(JSON.stringify(offer))
    expect(handOffs.plan([receivedEvent()])).toBeUndefined()
  })

  test('HandOffs: plans at most 32 events of a tenant in a batch', () => {
    const [one, other] = [receivedEvent(), receivedEvent()]
    const events = [...eventsOf(one.tenantId, 40), ...eventsOf(other.tenantId, 3)]
    expect(offered().plan(events)?.leaseTokens.size).toBe(35)
  })

  test('HandOffs: plans nothing for a tenant that all forwarders refuse, or if there are no forwarders', () => {
    const event = receivedEvent()
    expect(offered([callbackQueueOf(event.tenantId)]).plan([event])).toBeUndefined()
    expect(offered('all').plan([event])).toBeUndefined()
    expect(new HandOffs({ publish: async () => true }).plan([event])).toBeUndefined()
  })

  test('HandOffs: forwarders take turns, and a forwarder that is silent for 2.5 s gets no further events', () => {
    let nowMs = 0
    const handOffs = offered([], () => nowMs)
    handOffs.noteOffer(JSON.stringify([two, 1, 3_000, []]))
    const turn = () => {
      const event = receivedEvent()
      return handOffs.plan([event])?.leaseTokens.get(event.id)
    }
    expect(new Set([turn(), turn()])).toEqual(new Set([one, two]))
    nowMs = 2_000
    handOffs.noteOffer(JSON.stringify([two, 2, 3_000, []]))
    nowMs = 3_000
    expect([turn(), turn()]).toEqual([two, two])
  })

  test('HandOffs: a forwarder that does not listen gets no further events until its next offer', async () => {
    const handOffs = new HandOffs({ publish: async () => false })
    const offer = JSON.stringify([one, 1, 3_500, []])
    handOffs.noteOffer(offer)
    const event = receivedEvent()
    const plan = handOffs.plan([event])
    if (plan === undefined) throw new Error('no plan')
    handOffs.send(plan, [event])
    await until(() => handOffs.plan([event]) === undefined)
    handOffs.noteOffer(offer)
    expect(handOffs.plan([event])?.leaseTokens.size).toBe(1)
  })
})
