import { expect, test } from 'bun:test'
import { Bell, Shares } from './shares.ts'

test('Shares: one owner gets at most a quarter of the total', () => {
  const shares = new Shares(100)
  expect([shares.take(20, 'a'), shares.take(6, 'a'), shares.take(5, 'a')]).toEqual([true, false, true])
  expect(['b', 'c', 'd', 'e'].map((owner) => shares.take(25, owner))).toEqual([true, true, true, false])
  expect(shares.taken).toBe(100)
})

test('Shares: a returned amount can be taken again by any owner', () => {
  const shares = new Shares(40)
  for (const owner of ['a', 'b', 'c', 'd']) expect(shares.take(10, owner)).toBe(true)
  expect([shares.take(1, 'a'), shares.take(1, 'e')]).toEqual([false, false])
  shares.give(10, 'a')
  expect([shares.take(10, 'a'), shares.take(1, 'e')]).toEqual([true, false])
  shares.give(4, 'b')
  expect([shares.take(3, 'e'), shares.take(1, 'b')]).toEqual([true, true])
})

test('Shares: only an owner without a share can take more than a quarter', () => {
  const shares = new Shares(100)
  expect(shares.take(90, 'a')).toBe(true)
  expect(shares.take(1, 'a')).toBe(false)
  expect(shares.take(101, 'b')).toBe(false)
  expect(shares.take(10, 'b')).toBe(true)
})

test('Shares: a refused take has no effect', () => {
  const shares = new Shares(8)
  expect(shares.take(9, 'a')).toBe(false)
  expect(shares.taken).toBe(0)
  expect(shares.take(8, 'a')).toBe(true)
})

const soonMs = 900

test('Bell: `sleep` lasts for the requested time', async () => {
  const startedAt = performance.now()
  await new Bell().sleep(50)
  expect(performance.now() - startedAt).toBeWithin(49, soonMs)
})

test('Bell: `ring` ends the sleep', async () => {
  const bell = new Bell()
  const sleeping = bell.sleep(60_000)
  bell.ring()
  await sleeping
})

test('Bell: a ring without a sleeper ends only the next sleep', async () => {
  const bell = new Bell()
  bell.ring()
  bell.ring()
  await bell.sleep(60_000)
  const startedAt = performance.now()
  await bell.sleep(50)
  expect(performance.now() - startedAt).toBeWithin(49, soonMs)
})
