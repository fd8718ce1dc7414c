import { expect, test } from 'bun:test'
import { Slots } from './waits.ts'

const never = new AbortController().signal

test('slots: a taker beyond the bound waits until one is released, in order of arrival', async () => {
  const slots = new Slots(2, 10)
  const releases = [await slots.take(never), await slots.take(never)]
  const order: string[] = []
  const third = slots.take(never).then((release) => {
    order.push('third')
    return release
  })
  const fourth = slots.take(never).then(() => order.push('fourth'))
  expect([slots.taken, slots.waiting]).toEqual([2, 2])
  releases[0]?.()
  releases[0]?.()
  const release = await third
  expect([slots.taken, slots.waiting]).toEqual([2, 1])
  release?.()
  await fourth
  expect(order).toEqual(['third', 'fourth'])
  releases[1]?.()
  expect([slots.taken, slots.waiting]).toEqual([1, 0])
})

test('slots: a taker whose signal fires gets nothing, and the next waiter gets the slot', async () => {
  const slots = new Slots(1, 10)
  const release = await slots.take(never)
  const gone = new AbortController()
  const first = slots.take(gone.signal)
  const second = slots.take(never)
  gone.abort()
  expect(await first).toBeUndefined()
  release?.()
  expect(await second).toBeDefined()
  expect(await slots.take(AbortSignal.abort())).toBeUndefined()
})

test('slots: a taker beyond the bound of waiting ones is turned away at once', async () => {
  const slots = new Slots(1, 1)
  await slots.take(never)
  void slots.take(never)
  expect(await slots.take(never)).toBeUndefined()
})
