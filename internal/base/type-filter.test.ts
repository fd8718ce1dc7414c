import { expect, test } from 'bun:test'
import { isOfType, parseTypeFilter } from './type-filter.ts'

test.each([
  ['a complete type', 'payment.succeeded', 'payment.succeeded'],
  ['a family', 'payment.*', 'payment.*'],
  ['a family in another case', 'Payment.*', 'payment.*'],
  ['a type in another case', 'PAYMENT.Succeeded', 'payment.succeeded'],
  ['an asterisk after a part of a word', 'pay*', undefined],
  ['only an asterisk', '*', undefined],
  ['an asterisk in the middle', 'payment.*.failed', undefined],
  ['two asterisks', 'payment.*.*', undefined],
])('parseTypeFilter: %s', (_name, text, expected) => {
  expect(parseTypeFilter(text)).toBe(expected)
})

test('isOfType: a family such as `payment.*` contains all types with its prefix, and a complete type contains only itself', () => {
  expect(isOfType('payment.succeeded', 'payment.*')).toBe(true)
  expect(isOfType('payment', 'payment.*')).toBe(false)
  expect(isOfType('payment.succeeded', 'payment.succeeded')).toBe(true)
  expect(isOfType('payment.succeeded', 'payment')).toBe(false)
})
