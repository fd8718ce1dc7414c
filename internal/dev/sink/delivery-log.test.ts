import { expect, test } from 'bun:test'
import type { Delivery } from './delivery.ts'
import { DeliveryLog, deliveriesKeptMax, Tally } from './delivery-log.ts'

function received(fields: Partial<Delivery> = {}): Omit<Delivery, 'number' | 'attempt'> {
  return {
    ...{ receivedAtMs: 0, path: '/', webhookId: 'evt_1', tenant: '', provider: '', type: '', eventId: '' },
    ...{ signature: { kind: 'ok' }, status: 200, headers: [], bodyBytes: 0, body: '', isJson: false },
    ...fields,
  }
}

const numbers = (deliveries: readonly Delivery[]) => deliveries.map(({ number }) => number)

test('the newest come first, and of too many the oldest go', () => {
  const log = new DeliveryLog()
  for (let count = 0; count < deliveriesKeptMax + 5; count += 1) log.add(received())
  const kept = log.after(0)
  expect(kept).toHaveLength(deliveriesKeptMax)
  expect([kept[0]?.number, kept.at(-1)?.number]).toEqual([deliveriesKeptMax + 5, 6])
  expect(numbers(log.after(deliveriesKeptMax + 3))).toEqual([deliveriesKeptMax + 5, deliveriesKeptMax + 4])
})

test('few long ones are kept, and room comes back as they go', () => {
  const log = new DeliveryLog()
  const body = 'x'.repeat(256 * 1024)
  for (let count = 0; count < 100; count += 1) log.add(received({ body, path: '' }))
  expect(log.after(0)).toHaveLength(64)
  for (let count = 0; count < 300; count += 1) log.add(received())
  expect(log.after(0)).toHaveLength(deliveriesKeptMax)
})

test('a webhook-id that comes again counts up, an absent one does not', () => {
  const log = new DeliveryLog()
  const ids = ['evt_1', 'evt_2', 'evt_1', '', '', 'evt_1']
  expect(ids.map((webhookId) => log.add(received({ webhookId })).attempt)).toEqual([1, 1, 2, 1, 1, 3])
})

test('ten thousand ids are counted, those that came last', () => {
  const tally = new Tally()
  tally.count('first')
  tally.count('second')
  for (let id = 0; id < 9_998; id += 1) tally.count(`${id}`)
  expect(tally.count('first')).toBe(2)
  tally.count('one more')
  expect([tally.count('first'), tally.count('second')]).toEqual([3, 1])
})

test('whoever waits gets what comes, at once what has come, and nothing once it ends', async () => {
  const log = new DeliveryLog()
  const ending = new AbortController()
  const waits = [log.waitAfter(0, 60_000, ending.signal), log.waitAfter(0, 60_000, ending.signal)]
  expect(log.waiting).toBe(2)
  log.add(received())
  expect((await Promise.all(waits)).map(numbers)).toEqual([[1], [1]])
  expect(log.waiting).toBe(0)
  expect(numbers(await log.waitAfter(0, 60_000, ending.signal))).toEqual([1])
  expect(await log.waitAfter(1, 1, ending.signal)).toEqual([])
  const last = log.waitAfter(1, 60_000, ending.signal)
  ending.abort()
  expect(await last).toEqual([])
  expect(await log.waitAfter(1, 60_000, ending.signal)).toEqual([])
  expect(log.waiting).toBe(0)
})
