import { expect, test } from 'bun:test'
import { refusalCauses, refusedCauses } from '#internal/intake/index.ts'
import { adviceOf, attemptCauses, endCauseOf, statusAdvice } from './attempt-causes.ts'
import { refusedAdviceOf, refusedCauseAdvice } from './refused-causes.ts'

test('each cause of a refused call is explained, in words of its own, and nothing else is', () => {
  const causes = [...refusalCauses, ...refusedCauses]
  expect(Object.keys(refusedCauseAdvice).toSorted()).toEqual([...causes].toSorted())
  const titles = causes.map((cause) => refusedAdviceOf(cause).title)
  expect(new Set(titles).size).toBe(causes.length)
})

test.each(Object.entries({ ...refusedCauseAdvice, ...attemptCauses }))(
  '%s says what it means and what to do, in whole sentences',
  (cause, { title, means, todo }) => {
    expect(title).not.toContain('_')
    for (const text of [means, todo]) expect(text).toMatch(/^[A-Z].{10,}\.$/)
    expect(means).not.toContain(cause)
  },
)

test.each(['constructor', '__proto__', 'a_new_one'])(
  'a cause that nobody knows is shown by its word: %s',
  (cause) => {
    for (const advice of [adviceOf(cause), refusedAdviceOf(cause)]) {
      expect(advice.title).toBe(cause.replaceAll('_', ' '))
      expect(advice.todo).not.toBe('')
    }
    expect(endCauseOf(cause)).toBeUndefined()
  },
)

test('each status that is no success is explained', () => {
  for (let status = 100; status < 600; status += 1)
    expect([status, statusAdvice(status) !== undefined]).toEqual([status, status < 200 || status >= 300])
})

test('what ended an event is told from how its last attempt went', () => {
  expect(endCauseOf('attempts_exhausted')).toContain('All attempts')
  expect(endCauseOf('timeout')).toBeUndefined()
  expect(endCauseOf(null)).toBeUndefined()
})
