import { expect, test } from 'bun:test'
import { Bell } from './bell.ts'

const soonMs = 900

test('a sleep lasts as long as it was asked for', async () => {
  const startedAt = performance.now()
  await new Bell().sleep(50)
  expect(performance.now() - startedAt).toBeWithin(49, soonMs)
})

test('a ring ends the sleep', async () => {
  const bell = new Bell()
  const sleeping = bell.sleep(60_000)
  bell.ring()
  await sleeping
})

test('a ring while nobody sleeps ends the next sleep, and that one only', async () => {
  const bell = new Bell()
  bell.ring()
  bell.ring()
  await bell.sleep(60_000)
  const startedAt = performance.now()
  await bell.sleep(50)
  expect(performance.now() - startedAt).toBeWithin(49, soonMs)
})
