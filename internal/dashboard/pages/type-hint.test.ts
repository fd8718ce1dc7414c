import { expect, test } from 'bun:test'
import { typeProblemOf } from './type-hint.tsx'

test.each([
  ['a family without its asterisk', 'payment', ['payment.*']],
  ['a family without its asterisk in another case', 'Payment', ['payment.*']],
  ['a family in the plural', 'payments.*', ['payment.*']],
  ['a mistyped family', 'paymnt.*', ['payment.*']],
  ['the end of a type', 'under_review', ['chargeback.under_review']],
  ['an unknown type', 'zzz.created', []],
])('type hint: %s gets the expected suggestions', (_name, text, suggestions) => {
  const found = typeProblemOf(text)
  expect(found?.problem).toStartWith('No event type of the catalogue ')
  for (const each of suggestions) expect(found?.suggestions).toContain(each)
  if (suggestions.length === 0) expect(found?.suggestions).toEqual([])
  expect(found?.suggestions.length).toBeLessThanOrEqual(3)
})

test.each(['payment.*', 'Payment.Succeeded', 'latchkey.*', 'latchkey.test', 'slack.message', 'pay*'])(
  'type hint: %s gets no hint, because it is a known type or family, a type of a provider, or an invalid filter',
  (text) => {
    expect(typeProblemOf(text)).toBeUndefined()
  },
)
