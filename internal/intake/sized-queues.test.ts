import { expect, test } from 'bun:test'
import type { BatchOutcome } from '#internal/events/index.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { SizedQueues } from './sized-queues.ts'

const large = () => receivedEvent({ payloadBytes: 5 * 1024 * 1024 })

test('small events neither wait for large ones nor share their failures', async () => {
  const held = Promise.withResolvers<BatchOutcome>()
  const spooled: string[] = []
  const queues = new SizedQueues({
    storeBatch: async (events) => ({ kind: 'settled', acceptances: events.map(() => 'stored') }),
    storeLarge: () => held.promise,
    spool: async ({ id }) => {
      spooled.push(id)
      return 'queued'
    },
  })
  const [one, other] = [large(), large()]
  const fates = [queues.accept(one), queues.accept(other)]
  expect(await queues.accept(receivedEvent())).toBe('stored')
  expect(queues.size).toBe(2)
  held.resolve({ kind: 'unavailable' })
  expect(await Promise.all(fates)).toEqual(['queued', 'queued'])
  expect(spooled.toSorted()).toEqual([one.id, other.id].toSorted())
  expect(await queues.accept(receivedEvent())).toBe('stored')
  expect(queues.openBreakers).toBe(1)
  queues.close()
})

test('large events that come together go one after another', async () => {
  let underWay = 0
  let most = 0
  const queues = new SizedQueues({
    storeBatch: async () => ({ kind: 'unavailable' }),
    storeLarge: async (events) => {
      underWay += 1
      most = Math.max(most, underWay)
      expect(events).toHaveLength(1)
      await new Promise((resolve) => setImmediate(resolve))
      underWay -= 1
      return { kind: 'settled', acceptances: ['stored'] }
    },
    spool: async () => 'unavailable',
  })
  expect(await Promise.all([large(), large(), large()].map((event) => queues.accept(event)))).toEqual(
    Array(3).fill('stored'),
  )
  expect(most).toBe(1)
})
