import { expect, test } from 'bun:test'
import { adviceOf, attemptCauses, endCauseOf, statusAdvice } from './causes.ts'

test.each(Object.entries(attemptCauses))(
  'cause %s: its meaning and the next step are explained in full sentences',
  (cause, { title, means, todo }) => {
    expect(title).not.toContain('_')
    for (const text of [means, todo]) expect(text).toMatch(/^[A-Z].{10,}\.$/)
    expect(means).not.toContain(cause)
  },
)

test.each(['constructor', '__proto__', 'a_new_one'])(
  'unknown cause: %s is shown as its own name',
  (cause) => {
    expect(adviceOf(cause).title).toBe(cause.replaceAll('_', ' '))
    expect(adviceOf(cause).todo).not.toBe('')
    expect(endCauseOf(cause)).toBeUndefined()
  },
)

test('response status: every status outside 200 to 299 has an explanation', () => {
  for (let status = 100; status < 600; status += 1)
    expect([status, statusAdvice(status) !== undefined]).toEqual([status, status < 200 || status >= 300])
})

test('event outcome: only causes that ended the event have an explanation', () => {
  expect(endCauseOf('gone')?.text).toContain('410 Gone')
  expect(endCauseOf('attempts_exhausted')).toBeUndefined()
  expect(endCauseOf('timeout')).toBeUndefined()
})
