import { expect, test } from 'bun:test'
import { Capacity, laneDeliveriesMax } from './capacity.ts'

const mb = 1024 * 1024

test('a tenant has room for its share and no more, whatever the others hold', () => {
  const capacity = new Capacity()
  for (let each = 0; each < laneDeliveriesMax; each += 1) capacity.take('a')
  capacity.take('b')
  expect(capacity.laneRooms()).toEqual(
    new Map([
      ['a', 0],
      ['b', laneDeliveriesMax - 1],
    ]),
  )
  expect(capacity.count).toBe(laneDeliveriesMax + 1)
  expect(capacity.room).toBe(1_024 - laneDeliveriesMax - 1)
})

test('giving says whether a full tenant has room again, and leaves nothing of one that has none left', () => {
  const capacity = new Capacity()
  for (let each = 0; each < laneDeliveriesMax; each += 1) capacity.take('a')
  expect(capacity.give('a')).toBe(true)
  expect(capacity.give('a')).toBe(false)
  capacity.take('b')
  expect(capacity.give('b')).toBe(false)
  expect([...capacity.laneRooms().keys()]).toEqual(['a'])
})

test('a tenant whose breaker has just opened has no room, also when it holds nothing', () => {
  const capacity = new Capacity()
  capacity.take('a')
  capacity.holdBack('a')
  capacity.holdBack('b')
  expect(capacity.laneRooms()).toEqual(
    new Map([
      ['a', 0],
      ['b', 0],
    ]),
  )
})

test('texts take 64 MiB at most, those of one tenant a quarter of it', () => {
  const capacity = new Capacity()
  expect(capacity.takeBytes(16 * mb, 'a')).toBe(true)
  expect(capacity.takeBytes(1, 'a')).toBe(false)
  for (const tenant of ['b', 'c', 'd']) expect(capacity.takeBytes(16 * mb, tenant)).toBe(true)
  expect(capacity.bytesRoom).toBe(0)
  expect(capacity.takeBytes(1, 'e')).toBe(false)
  capacity.giveBytes(16 * mb, 'a')
  expect(capacity.takeBytes(1, 'e')).toBe(true)
})
