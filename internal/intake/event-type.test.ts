import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { isDottedType, judgeTypes, listedType, typeTable, unlistedType } from './event-type.ts'

test.each([
  ['charge.refund.updated', 'card.charge.refund.updated'],
  ['orders/create', 'card.orders.create'],
  ['v2.core.account[requirements].updated', 'card.v2.core.account.requirements.updated'],
  ['Pull-Request Opened', 'card.pull_request.opened'],
  ['..a..b..', 'card.a.b'],
  ['/', 'card.unknown'],
  ['', 'card.unknown'],
  ['żółw', 'card.w'],
  ['__proto__', 'card.__proto__'],
  ['a'.repeat(300), `card.${'a'.repeat(250)}`],
  [`${'a'.repeat(249)}.b`, `card.${'a'.repeat(249)}`],
])('the unlisted type %s becomes %s', (rawType, type) => {
  expect(unlistedType('card', rawType)).toBe(type)
})

test('an unlisted type always has the normalized form', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (rawType) => {
      expect(isDottedType(unlistedType('codehost', rawType))).toBe(true)
    }),
    { seed: 7 },
  )
})

test('a table sees its own rows only, and a row may leave the type to the body', () => {
  const table = typeTable({ a: 'x.a', b: (body) => (body.yes === true ? 'x.b' : undefined) })
  expect(listedType(table, 'a', {})).toBe('x.a')
  expect(listedType(table, 'b', { yes: true })).toBe('x.b')
  expect(listedType(table, 'b', {})).toBeUndefined()
  for (const rawType of ['c', 'constructor', '__proto__'])
    expect(listedType(table, rawType, {})).toBeUndefined()
})

test('a missing raw type is unknown, one that cannot be a label is refused', () => {
  const typeOf = (raw: string) => `x.${raw}`
  for (const missing of [undefined, null, '']) {
    expect(judgeTypes(missing, typeOf)).toEqual({ kind: 'types', rawType: 'unknown', type: 'x.unknown' })
  }
  for (const odd of [1, {}, [], true, 'a'.repeat(256), 'a\u0000', '\ud800']) {
    expect(judgeTypes(odd, typeOf)).toEqual({ kind: 'refused', cause: 'event_type_malformed' })
  }
})
