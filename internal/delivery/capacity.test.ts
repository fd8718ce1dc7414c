import { expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { callbackQueueOf, notificationsDestination, type QueueId, queueIdOf } from '#internal/events/index.ts'
import { Capacity, queueDeliveriesMax, tenantDeliveriesMax } from './capacity.ts'

const tenant = (name: string) => name as TenantId
const queue = (name: string) => callbackQueueOf(tenant(name))
const notificationsQueue = (name: string) =>
  queueIdOf({ tenantId: tenant(name), destination: notificationsDestination })
const mb = 1024 * 1024

/** Capacity for tenants with two queues each. */
const createCapacity = (now?: () => number) => new Capacity((id) => [queue(id), notificationsQueue(id)], now)
const take = (capacity: Capacity, name: string) => capacity.take(tenant(name), queue(name))
const takeNotification = (capacity: Capacity, name: string) =>
  capacity.take(tenant(name), notificationsQueue(name))

test('capacity: a queue has 64 places, regardless of how many other queues of its tenant and of other tenants use', () => {
  const capacity = createCapacity()
  for (let each = 0; each < queueDeliveriesMax; each += 1) take(capacity, 'a')
  takeNotification(capacity, 'a')
  take(capacity, 'b')
  const almostAll = queueDeliveriesMax - 1
  expect(capacity.queueRooms()).toEqual(
    new Map([
      [queue('a'), 0],
      [notificationsQueue('a'), almostAll],
      [queue('b'), almostAll],
    ]),
  )
  expect([capacity.count, capacity.room]).toEqual([66, 1_024 - 66])
})

test('capacity: the queues of a tenant share a quarter of the places, and another tenant keeps its own', () => {
  const queues = Array.from({ length: 6 }, (_, at) =>
    queueIdOf({ tenantId: tenant('a'), destination: `to-${at}` }),
  )
  const capacity = new Capacity(() => queues)
  const places = queues
    .slice(0, 4)
    .flatMap((id) => Array.from({ length: queueDeliveriesMax - 1 }, () => capacity.take(tenant('a'), id)))
  take(capacity, 'b')
  const roomOf = (id: QueueId) => capacity.queueRooms().get(id)
  // 4 × 63 deliveries leave 4 of the tenant's 256 places, so the two queues without a delivery have room for only 4.
  expect(queues.map(roomOf)).toEqual([1, 1, 1, 1, 4, 4])
  for (const id of queues.slice(0, 4)) places.push(capacity.take(tenant('a'), id))
  expect(places).toHaveLength(tenantDeliveriesMax)
  expect(queues.map(roomOf)).toEqual([0, 0, 0, 0, 0, 0])
  expect(capacity.roomOf(tenant('a'), queues[5] as QueueId)).toBe(0)
  expect(roomOf(queue('b'))).toBe(queueDeliveriesMax - 1)
  expect(places.splice(-2).map((place) => capacity.give(place, true))).toEqual([true, true])
  expect(queues.map(roomOf)).toEqual([0, 0, 1, 1, 2, 2])
})

test('capacity: `give` returns whether the queue was full, and forgets a queue without deliveries', () => {
  const capacity = createCapacity()
  const places = Array.from({ length: queueDeliveriesMax }, () => take(capacity, 'a'))
  expect(places.splice(-2).map((place) => capacity.give(place, true))).toEqual([true, false])
  expect(capacity.give(take(capacity, 'b'), true)).toBe(false)
  expect([...capacity.queueRooms().keys()]).toEqual([queue('a')])
})

test('capacity: responsive callbacks have reserved places until they hang', () => {
  let nowMs = 0
  const capacity = createCapacity(() => nowMs)
  capacity.give(take(capacity, 'quick'), true)
  capacity.give(take(capacity, 'uncalled'), false)
  const late = take(capacity, 'late')
  const busy = take(capacity, 'busy')
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

  for (let each = 0; each < 1_024; each += 1) take(capacity, `hangs-${each}`)
  expect([capacity.room, capacity.reservedRoom]).toEqual([0, 512])
  const places = Array.from({ length: 64 }, () => take(capacity, 'quick'))
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
  const capacity = createCapacity(() => nowMs)
  for (let each = 0; each < 1_024; each += 1) take(capacity, 'hangs')
  for (let cycle = 0; cycle < 2; cycle += 1) {
    expect(capacity.reservedRoom).toBe(512)
    for (let each = 0; each < 512; each += 1) take(capacity, 'quick')
    expect(capacity.reservedRoom).toBe(0)
    nowMs += 500
  }
  expect([capacity.room, capacity.reservedRoom, capacity.count]).toEqual([0, 0, 2_048])
})

test('capacity: a tenant queue whose circuit breaker has just opened has no free places', () => {
  const capacity = createCapacity()
  take(capacity, 'a')
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
  const capacity = createCapacity()
  expect(capacity.takeBytes(16 * mb, tenant('a'))).toBe(true)
  expect(capacity.takeBytes(1, tenant('a'))).toBe(false)
  for (const id of ['b', 'c', 'd'].map(tenant)) expect(capacity.takeBytes(16 * mb, id)).toBe(true)
  expect(capacity.bytesRoom).toBe(0)
  expect(capacity.takeBytes(1, tenant('e'))).toBe(false)
  capacity.giveBytes(16 * mb, tenant('a'))
  expect(capacity.takeBytes(1, tenant('e'))).toBe(true)
})
