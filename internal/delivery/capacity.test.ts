import { expect, test } from 'bun:test'
import type { QueueId } from '#internal/events/index.ts'
import { Capacity, tenantDeliveriesMax } from './capacity.ts'

const queue = (name: string) => name as QueueId
const mb = 1024 * 1024

test('capacity: a tenant has 64 free places for deliveries, regardless of how many deliveries other tenants have', () => {
  const capacity = new Capacity()
  for (let each = 0; each < tenantDeliveriesMax; each += 1) capacity.take(queue('a'))
  capacity.take(queue('b'))
  expect(capacity.queueRooms()).toEqual(
    new Map([
      [queue('a'), 0],
      [queue('b'), tenantDeliveriesMax - 1],
    ]),
  )
  expect(capacity.count).toBe(tenantDeliveriesMax + 1)
  expect(capacity.room).toBe(1_024 - tenantDeliveriesMax - 1)
})

test('capacity: `give` returns whether the tenant was full, and forgets a tenant without deliveries', () => {
  const capacity = new Capacity()
  const places = Array.from({ length: tenantDeliveriesMax }, () => capacity.take(queue('a')))
  expect(places.splice(-2).map((place) => capacity.give(place, true))).toEqual([true, false])
  expect(capacity.give(capacity.take(queue('b')), true)).toBe(false)
  expect([...capacity.queueRooms().keys()]).toEqual([queue('a')])
})

test('capacity: responsive callbacks have reserved places until they hang', () => {
  let nowMs = 0
  const capacity = new Capacity(() => nowMs)
  capacity.give(capacity.take(queue('quick')), true)
  capacity.give(capacity.take(queue('uncalled')), false)
  const late = capacity.take(queue('late'))
  const busy = capacity.take(queue('busy'))
  nowMs = 1_999
  expect(capacity.responsivenessOf(queue('busy'))).toBe('unresponsive')
  capacity.give(busy, true)
  nowMs = 2_000
  capacity.give(late, true)
  const ids = ['quick', 'uncalled', 'late', 'busy', 'unknown'].map(queue)
  expect(ids.map((id) => capacity.responsivenessOf(id))).toEqual([
    'responsive',
    'unknown',
    'unresponsive',
    'responsive',
    'unknown',
  ])

  for (let each = 0; each < 1_024; each += 1) capacity.take(queue(`hangs-${each}`))
  expect([capacity.room, capacity.reservedRoom]).toEqual([0, 512])
  const places = Array.from({ length: 64 }, () => capacity.take(queue('quick')))
  expect([capacity.room, capacity.reservedRoom]).toEqual([0, 448])
  expect(capacity.queueRooms().get(queue('quick'))).toBe(0)
  nowMs = 2_499
  expect(capacity.responsivenessOf(queue('quick'))).toBe('responsive')
  nowMs = 2_500
  expect(capacity.responsivenessOf(queue('quick'))).toBe('unresponsive')
  expect(capacity.reservedRoom).toBe(512)
  expect(capacity.count).toBe(1_088)
  nowMs = 4_000
  for (const place of places) capacity.give(place, true)
  expect([capacity.count, capacity.responsivenessOf(queue('quick'))]).toEqual([1_024, 'unresponsive'])
})

test('capacity: formerly responsive callbacks that now hang occupy at most 2 048 places', () => {
  let nowMs = 0
  const capacity = new Capacity(() => nowMs)
  for (let each = 0; each < 1_024; each += 1) capacity.take(queue('hangs'))
  for (let cycle = 0; cycle < 2; cycle += 1) {
    expect(capacity.reservedRoom).toBe(512)
    for (let each = 0; each < 512; each += 1) capacity.take(queue('quick'))
    expect(capacity.reservedRoom).toBe(0)
    nowMs += 500
  }
  expect([capacity.room, capacity.reservedRoom, capacity.count]).toEqual([0, 0, 2_048])
})

test('capacity: a tenant whose circuit breaker has just opened has no free places', () => {
  const capacity = new Capacity()
  capacity.take(queue('a'))
  capacity.holdBack(queue('a'))
  capacity.holdBack(queue('b'))
  expect(capacity.queueRooms()).toEqual(
    new Map([
      [queue('a'), 0],
      [queue('b'), 0],
    ]),
  )
})

test('capacity: payload memory is limited to 64 MiB, and a tenant gets a quarter of it', () => {
  const capacity = new Capacity()
  expect(capacity.takeBytes(16 * mb, queue('a'))).toBe(true)
  expect(capacity.takeBytes(1, queue('a'))).toBe(false)
  for (const tenant of ['b', 'c', 'd'].map(queue)) expect(capacity.takeBytes(16 * mb, tenant)).toBe(true)
  expect(capacity.bytesRoom).toBe(0)
  expect(capacity.takeBytes(1, queue('e'))).toBe(false)
  capacity.giveBytes(16 * mb, queue('a'))
  expect(capacity.takeBytes(1, queue('e'))).toBe(true)
})
