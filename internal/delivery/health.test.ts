import { expect, test } from 'bun:test'
import { CallbackHealth } from './health.ts'

const minute = 60_000
const startMs = Date.UTC(2026, 10, 20)

/** Returns whether the last attempt opens the breaker. `+` is a success, `-` a failure. */
function opens(attempts: string, everyMs = 100): boolean {
  const health = new CallbackHealth()
  let opened = false
  for (const [index, each] of attempts.split('').entries())
    opened = health.record('a', each === '+', startMs + index * everyMs)
  return opened
}

test.each([
  ['nine failures', '---------', false],
  ['ten failures', '----------', true],
  ['seven of ten', '+++-------', true],
  ['six of ten', '++++------', false],
  ['a success, regardless of earlier results', '----------+', false],
  ['many successes and then ten failures', '+'.repeat(100) + '-'.repeat(10), false],
  ['many successes and then the necessary number of failures', '+'.repeat(100) + '-'.repeat(234), true],
])('circuit breaker: opens at the documented failure rate (%s)', (_what, attempts, opened) => {
  expect(opens(attempts)).toBe(opened)
})

test('circuit breaker: resets its failures when another process has closed the breaker', () => {
  const health = new CallbackHealth()
  const fail = (atMs: number) => health.record('a', false, atMs)
  for (let each = 0; each < 10; each += 1) fail(startMs)
  health.seenClosed('a', startMs + minute)
  expect(fail(startMs + minute)).toBe(true)
  health.opened('a', startMs + minute)
  health.seenClosed('a', startMs + minute + 29_999)
  expect(fail(startMs + minute + 29_999)).toBe(true)
  health.seenClosed('a', startMs + minute + 30_000)
  expect(fail(startMs + minute + 30_000)).toBe(false)
})

test('circuit breaker: counts only the last five minutes', () => {
  expect(opens('-'.repeat(10), minute / 2)).toBe(true)
  expect(opens('-'.repeat(10), minute)).toBe(false)
  expect(opens('+'.repeat(20) + '-'.repeat(10), 1)).toBe(false)
  const health = new CallbackHealth()
  for (let each = 0; each < 20; each += 1) health.record('a', true, startMs)
  for (let each = 1; each < 10; each += 1) health.record('a', false, startMs + 5 * minute)
  expect(health.record('a', false, startMs + 5 * minute)).toBe(true)
})

test('circuit breaker: counts the attempts of each callback separately, and from zero after the callback has recovered', () => {
  const health = new CallbackHealth()
  for (let each = 0; each < 10; each += 1) health.record('a', false, startMs)
  expect(health.record('b', false, startMs)).toBe(false)
  expect(health.record('a', false, startMs)).toBe(true)
  health.reset('a')
  expect(health.record('a', false, startMs)).toBe(false)
})

test('circuit breaker: forgets the oldest callback above 10 000 callbacks', () => {
  const health = new CallbackHealth()
  for (let each = 0; each < 9; each += 1) health.record('first', false, startMs)
  for (let each = 0; each < 10_000; each += 1) health.record(`t${each}`, true, startMs)
  expect(health.record('first', false, startMs)).toBe(false)
})
