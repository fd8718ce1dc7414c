import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { AttemptDetail } from '#internal/backoffice/index.ts'
import { type DiffLine, differencesOf, headerDifferences, lineDifference } from './attempt-difference.ts'

const signs = { same: ' ', removed: '-', added: '+', skipped: '' }
const written = (lines: readonly DiffLine[]) => lines.map(({ kind, text }) => `${signs[kind]}${text}`)

describe('line difference', () => {
  test.each<[string, string, string, string[]]>([
    ['equal texts', 'a\nb', 'a\nb', []],
    ['a changed line', 'a\nb\nc', 'a\nx\nc', [' a', '-b', '+x', ' c']],
    ['an added line', 'a', 'a\nb', [' a', '+b']],
    [
      'members of JSON',
      '{"a":1,"b":2}',
      '{"a":1,"b":3}',
      [' {', '   "a": 1,', '-  "b": 2', '+  "b": 3', ' }'],
    ],
    ['equal lines far away', '1\n2\n3\n4\n5\n6', '1\n2\n3\n4\n5\n7', ['…', ' 3', ' 4', ' 5', '-6', '+7']],
    ['an empty text', '', 'a', ['-', '+a']],
  ])('line difference: %s', (_case, before, after, expected) => {
    expect(written(lineDifference(before, after))).toEqual(expected)
  })

  test('line difference: contains every line of both texts that is in only one of them', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 })
      .map((lines) => lines.join('\n'))
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = lineDifference(before, after)
        const count = (kind: string) => lines.filter((line) => line.kind === kind).length
        if (before === after) return lines.length === 0
        return count('added') - count('removed') === after.split('\n').length - before.split('\n').length
      }),
    )
  })

  test('line difference: two texts of 4096 lines are compared in limited time, with a result of limited size', () => {
    const lines = lineDifference('a\n'.repeat(4_096), 'b\n'.repeat(4_096))
    expect(lines.length).toBeLessThanOrEqual(800)
  })
})

test('header differences: lists added, removed and changed headers, with all values of a repeated header', () => {
  const of = (...lines: [string, string][]) => lines.map(([name, value]) => ({ name, value }))
  expect(
    headerDifferences(
      of(['same', '1'], ['gone', 'x'], ['two', 'a'], ['two', 'b']),
      of(['two', 'a'], ['same', '1'], ['new', 'y']),
    ),
  ).toEqual([
    { name: 'gone', before: 'x', after: undefined },
    { name: 'new', before: undefined, after: 'y' },
    { name: 'two', before: 'a\nb', after: 'a' },
  ])
})

test('differences: compares the results of two attempts even if an exchange was not recorded', () => {
  const attempt: AttemptDetail = {
    cycle: 1,
    attempt: 1,
    startedAtMs: 0,
    durationMs: 5,
    outcome: 'refused',
    status: 500,
    cause: null,
    answer: null,
    exchange: undefined,
  }
  expect(differencesOf(attempt, { ...attempt, status: null, cause: 'timeout' })).toEqual([
    { name: 'Result', before: 'answered 500', after: 'no response: timeout' },
  ])
  expect(differencesOf(attempt, attempt)).toEqual([])
})
