import { describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import type { BatchOutcome, ReceivedEvent } from '#internal/events/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import { EventQueue, type EventQueueOptions, SizeClassQueues } from './event-queue.ts'

interface Batch {
  readonly events: readonly ReceivedEvent[]
  complete(outcome?: BatchOutcome): void
}

/** A queue whose batches end when the test says so. */
function heldQueue(options: Partial<EventQueueOptions> = {}) {
  const batches: Batch[] = []
  const spooled: ReceivedEvent[] = []
  const queue = new EventQueue({
    storeBatch: (events) => {
      const { promise, resolve } = Promise.withResolvers<BatchOutcome>()
      const stored: BatchOutcome = { kind: 'completed', acceptances: events.map(() => 'stored') }
      batches.push({ events, complete: (outcome = stored) => resolve(outcome) })
      return promise
    },
    spool: async (event) => {
      spooled.push(event)
      return 'queued'
    },
    ...options,
  })
  return { queue, batches, spooled }
}

const events = (count: number) => Array.from({ length: count }, () => receivedEvent())
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('batches', () => {
  test('event queue: a single event is stored after the current turn of the event loop, and events that arrive during its commit share the next commit', async () => {
    const { queue, batches } = heldQueue()
    const first = queue.accept(receivedEvent())
    await turn()
    const later = events(5).map((event) => queue.accept(event))
    await turn()
    expect(batches.map((batch) => batch.events.length)).toEqual([1])
    batches[0]?.complete()
    expect(await first).toBe('stored')
    await turn()
    expect(batches.map((batch) => batch.events.length)).toEqual([1, 5])
    batches[1]?.complete()
    expect(await Promise.all(later)).toEqual(Array(5).fill('stored'))
    expect(queue.size).toBe(0)
  })

  test('event queue: events that arrive in one turn of the event loop share a batch', async () => {
    const { queue, batches } = heldQueue()
    for (const event of events(5)) void queue.accept(event)
    await turn()
    expect(batches.map((batch) => batch.events.length)).toEqual([5])
  })

  test('event queue: an event that follows a commit waits for no timer', async () => {
    const { queue, batches } = heldQueue()
    for (let index = 0; index < 5; index += 1) {
      const accepted = queue.accept(receivedEvent())
      await turn()
      expect(batches).toHaveLength(index + 1)
      batches[index]?.complete()
      expect(await accepted).toBe('stored')
    }
  })

  test('event queue: a second batch starts at 64 waiting events, and a third never starts', async () => {
    const { queue, batches } = heldQueue()
    for (const count of [1, 63, 1, 100]) {
      for (const event of events(count)) void queue.accept(event)
      await turn()
    }
    expect(batches.map((batch) => batch.events.length)).toEqual([1, 64])
  })

  test('event queue: a batch has at most 500 rows', async () => {
    const { queue, batches } = heldQueue()
    for (const event of events(1_200)) void queue.accept(event)
    await turn()
    for (let index = 0; index < 2; index += 1) {
      batches[index]?.complete()
      await turn()
    }
    expect(batches.map((batch) => batch.events.length)).toEqual([500, 500, 200])
  })

  test('event queue: a batch has at most 4 MiB, and a larger body is stored alone', async () => {
    const { queue, batches } = heldQueue()
    void queue.accept(receivedEvent())
    await turn()
    const mib = 1024 * 1024
    for (const bytes of [3 * mib, mib / 2, 2 * mib, 9 * mib, 1]) {
      void queue.accept(receivedEvent({ payloadBytes: bytes }))
    }
    for (let index = 0; index < 4; index += 1) {
      batches[index]?.complete()
      await turn()
    }
    expect(batches.map((batch) => batch.events.length)).toEqual([1, 2, 1, 1, 1])
  })

  test('event queue: batches are sorted by dedupe key', async () => {
    const { queue, batches } = heldQueue()
    for (const event of events(200)) void queue.accept(event)
    await turn()
    const keys = batches[0]?.events.map((one) => one.dedupeKey) ?? []
    expect(keys).toHaveLength(200)
    expect(keys).toEqual(keys.toSorted())
  })
})

describe('duplicates', () => {
  const pairs = [
    ['stored', 'duplicate'],
    ['duplicate', 'duplicate'],
    ['queued', 'queued'],
    ['refused', 'refused'],
  ] as const
  test.each(pairs)(
    'event queue: if the result of an event in flight is %s, a duplicate of the event gets the result %s',
    async (original, duplicate) => {
      const { queue, batches } = heldQueue()
      const event = receivedEvent()
      const outcomes = [queue.accept(event), queue.accept({ ...event, id: receivedEvent().id })]
      await turn()
      expect(batches).toHaveLength(1)
      const outcome: BatchOutcome =
        original === 'queued' ? { kind: 'unavailable' } : { kind: 'completed', acceptances: [original] }
      batches[0]?.complete(outcome)
      expect(await Promise.all(outcomes)).toEqual([original, duplicate])
    },
  )

  test('event queue: if an event cannot be stored, a duplicate of the event also gets the result `unavailable`', async () => {
    const { queue, batches } = heldQueue({ spool: async () => 'unavailable' })
    const event = receivedEvent()
    const outcomes = [queue.accept(event), queue.accept(event)]
    await turn()
    batches[0]?.complete({ kind: 'unavailable' })
    expect(await Promise.all(outcomes)).toEqual(['unavailable', 'unavailable'])
  })
})

describe('Postgres unavailable', () => {
  test('circuit breaker: a failed batch opens the breaker, and waiting and later events are spooled immediately', async () => {
    const { queue, batches, spooled } = heldQueue()
    const first = queue.accept(receivedEvent())
    await turn()
    const outcomes = [first, ...events(9).map((event) => queue.accept(event))]
    batches[0]?.complete({ kind: 'unavailable' })
    expect(await Promise.all(outcomes)).toEqual(Array(10).fill('queued'))
    expect(await queue.accept(receivedEvent())).toBe('queued')
    expect(batches).toHaveLength(1)
    expect(spooled).toHaveLength(11)
  })

  test.each([
    ['an immediate error', 100, { kind: 'unavailable' } as const],
    ['a time-out', 1_000, undefined],
  ])(
    'circuit breaker: after %s the first probe runs after %d ms and the next probe one second later',
    async (_cause, firstMs, outcome) => {
      const clock = createMovedClock()
      const { queue, batches } = heldQueue({ sleep: clock.sleep, patienceMs: 20 })
      const failed = queue.accept(receivedEvent())
      await turn()
      if (outcome) batches[0]?.complete(outcome)
      expect(await failed).toBe('queued')
      await clock.advance(firstMs - 1)
      expect(batches).toHaveLength(1)
      await clock.advance(1)
      expect(batches).toHaveLength(2)
      batches[1]?.complete({ kind: 'unavailable' })
      await clock.settle()
      // The wait is shorter than a second by the duration of the probe, which the real clock measures.
      expect(clock.sleeping()[0]).toBeGreaterThan(500)
      expect(clock.sleeping()[0]).toBeLessThanOrEqual(1_000)
      await clock.advance(1_000)
      batches[2]?.complete()
      await clock.settle()
      expect(queue.isBreakerOpen).toBe(false)
    },
  )

  test('circuit breaker: a probe stores the latest spooled event, and the first success closes the breaker', async () => {
    const clock = createMovedClock()
    const changes: boolean[] = []
    const { queue, batches, spooled } = heldQueue({
      sleep: clock.sleep,
      onBreaker: (isOpen) => changes.push(isOpen),
    })
    const failed = queue.accept(receivedEvent())
    await turn()
    batches[0]?.complete({ kind: 'unavailable' })
    expect(await failed).toBe('queued')
    const latest = receivedEvent({ retriesOnRedelivery: true })
    expect(await queue.accept(latest)).toBe('queued')
    await clock.advance(99)
    expect(batches).toHaveLength(1)
    await clock.advance(1)
    const { retriesOnRedelivery: _retries, ...probe } = latest
    expect(batches[1]?.events).toEqual([probe])
    batches[1]?.complete({ kind: 'unavailable' })
    await clock.settle()
    expect([queue.isBreakerOpen, await queue.accept(receivedEvent())]).toEqual([true, 'queued'])
    await clock.advance(1_000)
    batches[2]?.complete()
    await clock.settle()
    const next = queue.accept(receivedEvent())
    await turn()
    batches[3]?.complete()
    expect(await next).toBe('stored')
    await clock.advance(60_000)
    expect([batches.length, spooled.length]).toEqual([4, 3])
    expect(changes).toEqual([true, false])
  })

  test('circuit breaker: a late success leaves the breaker open, and probes do not overlap', async () => {
    const clock = createMovedClock()
    const { queue, batches } = heldQueue({ sleep: clock.sleep, patienceMs: 20 })
    expect(await queue.accept(receivedEvent())).toBe('queued')
    batches[0]?.complete()
    await clock.advance(1_000)
    await clock.advance(60_000)
    expect(batches).toHaveLength(2)
    const startedAtMs = performance.now()
    await poll(async () => performance.now() - startedAtMs > 30 || undefined, {
      deadlineMs: 5_000,
      everyMs: 5,
    })
    batches[1]?.complete()
    await clock.settle()
    expect(queue.isBreakerOpen).toBe(true)
    queue.close()
    await clock.advance(60_000)
    expect(batches.length).toBeLessThanOrEqual(3)
  })

  test('circuit breaker: a batch that fails after the queue was closed starts no probes', async () => {
    const clock = createMovedClock()
    const { queue, batches } = heldQueue({ sleep: clock.sleep })
    const failed = queue.accept(receivedEvent())
    await turn()
    queue.close()
    batches[0]?.complete({ kind: 'unavailable' })
    expect(await failed).toBe('queued')
    await clock.advance(60_000)
    expect([batches.length, clock.sleeping()]).toEqual([1, []])
  })

  test('circuit breaker: if Postgres hangs while 200 events arrive, only those in flight at the first timeout have waited', async () => {
    const { queue, spooled } = heldQueue({ patienceMs: 50 })
    const underWay = events(5).map((event) => queue.accept(event))
    await Promise.all(underWay)
    const startedAtMs = performance.now()
    for (const event of events(195)) expect(await queue.accept(event)).toBe('queued')
    expect(performance.now() - startedAtMs).toBeLessThan(50 * 20)
    expect(spooled).toHaveLength(200)
    queue.close()
  })

  test('event queue: no event waits longer than patienceMs, even if it joined a batch late', async () => {
    const { queue, spooled } = heldQueue({ patienceMs: 20 })
    const outcomes = events(20).map((event) => queue.accept(event))
    expect(await Promise.all(outcomes)).toEqual(Array(20).fill('queued'))
    expect(spooled).toHaveLength(20)
  })

  test('circuit breaker: does not probe while late statements occupy all batch slots', async () => {
    const clock = createMovedClock()
    const { queue, batches } = heldQueue({ patienceMs: 20, sleep: clock.sleep, batchesMax: 1 })
    expect(await queue.accept(receivedEvent())).toBe('queued')
    await clock.advance(5_000)
    expect(batches).toHaveLength(1)
    batches[0]?.complete()
    await clock.advance(1_000)
    batches[1]?.complete()
    await clock.settle()
    const next = queue.accept(receivedEvent())
    await turn()
    expect(batches).toHaveLength(3)
    batches[2]?.complete()
    expect(await next).toBe('stored')
  })

  test('event queue: an event without a result in a completed batch is spooled alone', async () => {
    const { queue, batches, spooled } = heldQueue()
    const lone = queue.accept(receivedEvent())
    await turn()
    const [one, other] = events(2).map((event) => queue.accept(event))
    batches[0]?.complete()
    await lone
    await turn()
    batches[1]?.complete({ kind: 'completed', acceptances: ['stored', 'unavailable'] })
    expect([await one, await other].toSorted()).toEqual(['queued', 'stored'])
    expect(spooled).toHaveLength(1)
  })
})

const large = () => receivedEvent({ payloadBytes: 5 * 1024 * 1024 })

test('sized queues: small events do not wait for large events, and do not fail with them', async () => {
  const held = Promise.withResolvers<BatchOutcome>()
  const spooled: string[] = []
  const queues = new SizeClassQueues({
    storeBatch: async (events) => ({ kind: 'completed', acceptances: events.map(() => 'stored') }),
    storeLarge: () => held.promise,
    spool: async ({ id }) => {
      spooled.push(id)
      return 'queued'
    },
  })
  const [one, other] = [large(), large()]
  const outcomes = [queues.accept(one), queues.accept(other)]
  expect(await queues.accept(receivedEvent())).toBe('stored')
  expect(queues.size).toBe(2)
  held.resolve({ kind: 'unavailable' })
  expect(await Promise.all(outcomes)).toEqual(['queued', 'queued'])
  expect(spooled.toSorted()).toEqual([one.id, other.id].toSorted())
  expect(await queues.accept(receivedEvent())).toBe('stored')
  expect(queues.openBreakers).toBe(1)
  queues.close()
})

test('sized queues: concurrent large events are stored one after another', async () => {
  let underWay = 0
  let most = 0
  const queues = new SizeClassQueues({
    storeBatch: async () => ({ kind: 'unavailable' }),
    storeLarge: async (events) => {
      underWay += 1
      most = Math.max(most, underWay)
      expect(events).toHaveLength(1)
      await new Promise((resolve) => setImmediate(resolve))
      underWay -= 1
      return { kind: 'completed', acceptances: ['stored'] }
    },
    spool: async () => 'unavailable',
  })
  expect(await Promise.all([large(), large(), large()].map((event) => queues.accept(event)))).toEqual(
    Array(3).fill('stored'),
  )
  expect(most).toBe(1)
})
