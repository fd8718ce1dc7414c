import { expect, test } from 'bun:test'
import { Slots } from './waits.ts'

const never = new AbortController().signal

test('slots: callers wait in order of arrival while all slots are taken', async () => {
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

test('slots: a caller whose signal fires gets no slot, and the next waiter gets it', async () => {
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

test('slots: a caller is refused immediately when the queue of waiters is full', async () => {
  const slots = new Slots(1, 1)
  await slots.take(never)
  void slots.take(never)
  expect(await slots.take(never)).toBeUndefined()
})
