import { expect, test } from 'bun:test'
import { Shares } from './shares.ts'

test('one owner gets a quarter and leaves the rest to the others', () => {
  const shares = new Shares(100)
  expect([shares.take(20, 'a'), shares.take(6, 'a'), shares.take(5, 'a')]).toEqual([true, false, true])
  expect(['b', 'c', 'd', 'e'].map((owner) => shares.take(25, owner))).toEqual([true, true, true, false])
  expect(shares.taken).toBe(100)
})

test('what is given back can be taken again, by its owner and by others', () => {
  const shares = new Shares(40)
  for (const owner of ['a', 'b', 'c', 'd']) expect(shares.take(10, owner)).toBe(true)
  expect([shares.take(1, 'a'), shares.take(1, 'e')]).toEqual([false, false])
  shares.give(10, 'a')
  expect([shares.take(10, 'a'), shares.take(1, 'e')]).toEqual([true, false])
  shares.give(4, 'b')
  expect([shares.take(3, 'e'), shares.take(1, 'b')]).toEqual([true, true])
})

test('more than a quarter is for an owner that has nothing else', () => {
  const shares = new Shares(100)
  expect(shares.take(90, 'a')).toBe(true)
  expect(shares.take(1, 'a')).toBe(false)
  expect(shares.take(101, 'b')).toBe(false)
  expect(shares.take(10, 'b')).toBe(true)
})

test('a refusal takes nothing', () => {
  const shares = new Shares(8)
  expect(shares.take(9, 'a')).toBe(false)
  expect(shares.taken).toBe(0)
  expect(shares.take(8, 'a')).toBe(true)
})
