import { expect, test } from 'bun:test'
import { createRequestIds } from './request-id.ts'

const nameOf = (given?: string) =>
  createRequestIds()(
    new Request('http://localhost/', given === undefined ? {} : { headers: { 'X-Request-Id': given } }),
  )

test.each([
  ['letters, digits and the four signs', 'Abc_1.2:3-4'],
  ['one character', 'x'],
  ['128 characters', 'x'.repeat(128)],
])('the caller’s own name is kept: %s', (_case, given) => {
  expect(nameOf(given)).toBe(given)
})

test.each([
  ['nothing', ''],
  ['129 characters', 'x'.repeat(129)],
  ['a space', 'a b'],
  ['a quote', 'a"b'],
  ['a slash', 'a/b'],
  ['letters beyond ASCII', 'ä'],
])('another one is given for %s', (_case, given) => {
  expect(nameOf(given)).toMatch(/^[\w-]{12}-1$/)
})

test('names are unique within a process, and its beginning tells processes apart', () => {
  const [one, other] = [createRequestIds(), createRequestIds()]
  const request = new Request('http://localhost/')
  const names = Array.from({ length: 1000 }, () => [one(request), other(request)]).flat()
  expect(new Set(names).size).toBe(2000)
  expect(new Set(names.map((name) => name.slice(0, 12))).size).toBe(2)
})
