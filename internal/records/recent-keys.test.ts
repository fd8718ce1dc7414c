import { expect, test } from 'bun:test'
import { RecentKeys } from './recent-keys.ts'

test('the keys that came last are remembered, and never more than the bound', () => {
  const keys = new RecentKeys(10)
  for (let n = 0; n < 1_000; n += 1) keys.add(`key ${n}`)
  const remembered = Array.from({ length: 1_000 }, (_, n) => n).filter((n) => keys.has(`key ${n}`))
  expect(remembered.length).toBeLessThanOrEqual(10)
  expect(remembered.slice(-5)).toEqual([995, 996, 997, 998, 999])
})

test('a key that is forgotten is gone, young or old', () => {
  const keys = new RecentKeys(4)
  for (const key of ['a', 'b', 'c']) keys.add(key)
  for (const key of ['a', 'c']) keys.delete(key)
  expect(['a', 'b', 'c'].map((key) => keys.has(key))).toEqual([false, true, false])
})
