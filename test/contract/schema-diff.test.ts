import { expect, test } from 'bun:test'
import { plainSchema } from './plain.ts'
import { compareSchemas, type Difference, type Direction, type Schemas } from './schema-diff.ts'

function differences(
  direction: Direction,
  older: object,
  newer: object,
  named: { older: Schemas; newer: Schemas } = { older: {}, newer: {} },
): readonly Difference[] {
  const found: Difference[] = []
  compareSchemas(plainSchema(older), plainSchema(newer), 'X', {
    direction,
    ...named,
    compared: new Set(),
    report: (difference) => void found.push(difference),
  })
  return found
}

const object = (properties: object, required: readonly string[] = [], more: object = {}) => ({
  type: 'object',
  properties,
  required,
  ...more,
})
const text = { type: 'string' }
const number = { type: 'number' }
const integer = { type: 'integer' }
const nothing = { type: 'null' }
const closed = { additionalProperties: false }

type Verdict = 'breaking' | 'compatible'
type Case = readonly [what: string, older: object, newer: object, request: Verdict, answer: Verdict]

/** Each pair of schemas is compared in both directions. */
const cases: readonly Case[] = [
  ['an optional field is added', object({}), object({ a: text }), 'compatible', 'compatible'],
  ['a required field is added', object({}), object({ a: text }, ['a']), 'breaking', 'compatible'],
  ['an optional field is removed', object({ a: text }), object({}), 'breaking', 'breaking'],
  ['a required field is removed', object({ a: text }, ['a']), object({}), 'breaking', 'breaking'],
  ['a field becomes optional', object({ a: text }, ['a']), object({ a: text }), 'compatible', 'breaking'],
  ['a field becomes required', object({ a: text }), object({ a: text }, ['a']), 'breaking', 'compatible'],
  ['unknown fields are refused', object({}), object({}, [], closed), 'breaking', 'compatible'],
  ['unknown fields are accepted', object({}, [], closed), object({}), 'compatible', 'compatible'],
  [
    'the values of a map become narrower',
    { additionalProperties: number },
    { additionalProperties: integer },
    'breaking',
    'compatible',
  ],
  [
    'the values of a map become wider',
    { additionalProperties: integer },
    { additionalProperties: number },
    'compatible',
    'breaking',
  ],
  ['a type becomes another', text, integer, 'breaking', 'breaking'],
  ['a number becomes an integer', number, integer, 'breaking', 'compatible'],
  ['an integer becomes a number', integer, number, 'compatible', 'breaking'],
  ['a value may be null', text, { type: ['string', 'null'] }, 'compatible', 'breaking'],
  ['a value may not be null any more', { type: ['string', 'null'] }, text, 'breaking', 'compatible'],
  ['a value may be null, as an alternative', text, { anyOf: [text, nothing] }, 'compatible', 'breaking'],
  ['an alternative is removed', { anyOf: [text, nothing] }, text, 'breaking', 'compatible'],
  [
    'an alternative gets a required field',
    { anyOf: [object({ a: text }, ['a']), object({ b: text }, ['b'])] },
    { anyOf: [object({ a: text, c: text }, ['a', 'c']), object({ b: text }, ['b'])] },
    'breaking',
    'compatible',
  ],
  [
    'an alternative loses a field',
    { anyOf: [object({ a: text, c: text }, ['a', 'c']), object({ b: text }, ['b'])] },
    { anyOf: [object({ a: text }, ['a']), object({ b: text }, ['b'])] },
    'breaking',
    'breaking',
  ],
  ['a type is added to any type', {}, text, 'breaking', 'compatible'],
  ['a value of a closed set is added', { enum: ['a'] }, { enum: ['a', 'b'] }, 'compatible', 'breaking'],
  ['a value of a closed set is removed', { enum: ['a', 'b'] }, { enum: ['a'] }, 'breaking', 'compatible'],
  [
    'a value of a set that may grow is added',
    { enum: ['a'], 'x-may-grow': true },
    { enum: ['a', 'b'], 'x-may-grow': true },
    'compatible',
    'compatible',
  ],
  [
    'a closed set of values may grow',
    { enum: ['a'] },
    { enum: ['a'], 'x-may-grow': true },
    'compatible',
    'breaking',
  ],
  ['a set of values becomes closed', text, { ...text, enum: ['a'] }, 'breaking', 'compatible'],
  ['a set of values becomes open', { ...text, enum: ['a'] }, text, 'compatible', 'breaking'],
  [
    'another alternative is added to alternatives that may grow',
    { anyOf: [object({ kind: { enum: ['a'] } }, ['kind'])], 'x-may-grow': true },
    {
      anyOf: [object({ kind: { enum: ['a'] } }, ['kind']), object({ kind: { enum: ['b'] } }, ['kind'])],
      'x-may-grow': true,
    },
    'compatible',
    'compatible',
  ],
  [
    'another alternative is added to closed alternatives, which may grow from now on',
    { anyOf: [object({ kind: { enum: ['a'] } }, ['kind'])] },
    {
      anyOf: [object({ kind: { enum: ['a'] } }, ['kind']), object({ kind: { enum: ['b'] } }, ['kind'])],
      'x-may-grow': true,
    },
    'compatible',
    'breaking',
  ],
  [
    'a constant becomes a set',
    { anyOf: [{ const: 'a' }] },
    { anyOf: [{ const: 'a' }, { const: 'b' }] },
    'compatible',
    'breaking',
  ],
  ['an upper bound is added', text, { ...text, maxLength: 5 }, 'breaking', 'compatible'],
  ['an upper bound rises', { maximum: 5 }, { maximum: 6 }, 'compatible', 'breaking'],
  ['a lower bound rises', { minItems: 1 }, { minItems: 2 }, 'breaking', 'compatible'],
  ['a lower bound is removed', { minLength: 1 }, {}, 'compatible', 'breaking'],
  ['a pattern is added', text, { ...text, pattern: '^a' }, 'breaking', 'compatible'],
  ['a pattern is removed', { ...text, pattern: '^a' }, text, 'compatible', 'breaking'],
  ['a pattern changes', { ...text, pattern: '^a' }, { ...text, pattern: '^b' }, 'breaking', 'breaking'],
  [
    'the values of a closed set lose their pattern',
    { enum: ['a'], pattern: '^a' },
    { enum: ['a'] },
    'compatible',
    'compatible',
  ],
  ['a default changes', { default: 1 }, { default: 2 }, 'breaking', 'compatible'],
  ['a default is removed', { default: 1 }, {}, 'breaking', 'compatible'],
  [
    'a validation of the API server is added',
    {},
    { 'x-kubernetes-validations': [{ rule: 'self > 1' }] },
    'breaking',
    'compatible',
  ],
  [
    'a validation of the API server is removed',
    { 'x-kubernetes-validations': [{ rule: 'self > 1' }] },
    {},
    'compatible',
    'breaking',
  ],
  [
    'the message of a validation changes',
    { 'x-kubernetes-validations': [{ rule: 'self > 1', message: 'a' }] },
    { 'x-kubernetes-validations': [{ rule: 'self > 1', message: 'b' }] },
    'compatible',
    'compatible',
  ],
  [
    'a list becomes a set of the API server',
    { 'x-kubernetes-list-type': 'atomic' },
    { 'x-kubernetes-list-type': 'set' },
    'breaking',
    'breaking',
  ],
  ['a field is deprecated', text, { ...text, deprecated: true }, 'compatible', 'compatible'],
  [
    'a description changes',
    { ...text, description: 'a' },
    { ...text, title: 'b' },
    'compatible',
    'compatible',
  ],
  ['elements of any type become typed', {}, { items: integer }, 'breaking', 'compatible'],
  ['typed elements become any', { items: integer }, {}, 'compatible', 'breaking'],
  ['an element becomes narrower', { items: number }, { items: integer }, 'breaking', 'compatible'],
  ['a keyword without a rule changes', { contains: text }, { contains: number }, 'breaking', 'breaking'],
  [
    'parts of an intersection are added',
    { allOf: [text] },
    { allOf: [text, { minLength: 1 }] },
    'breaking',
    'compatible',
  ],
]

test.each(cases)('schema comparison: decides if it breaks requests or answers that %s', (...row) => {
  const [, older, newer, request, answer] = row
  const verdictOf = (direction: Direction): Verdict =>
    differences(direction, older, newer).some(({ breaking }) => breaking) ? 'breaking' : 'compatible'
  expect({ request: verdictOf('request'), answer: verdictOf('answer') }).toEqual({ request, answer })
})

test('schema comparison: equal schemas do not differ if only the order or the notation is different', () => {
  const older = object({ a: { anyOf: [{ const: 'x' }, { const: 'y' }] }, description: text }, [
    'a',
    'description',
  ])
  const newer = object({ description: text, a: { enum: ['y', 'x'] } }, ['description', 'a'])
  expect(differences('request', older, newer)).toEqual([])
})

test('schema comparison: a difference in a named schema is reported once under its name, even if several places refer to it', () => {
  const refers = object({
    a: { $ref: '#/components/schemas/Part' },
    b: { $ref: '#/components/schemas/Part' },
  })
  const found = differences('answer', refers, refers, {
    older: { Part: plainSchema(object({ kept: text, gone: text })) },
    newer: { Part: plainSchema(object({ kept: text })) },
  })
  expect(found).toEqual([{ at: 'Part (answer).gone', change: 'removed', breaking: true }])
})

test('schema comparison: a renamed schema with equal fields does not differ', () => {
  const named = { Part: plainSchema(object({ a: text })), Piece: plainSchema(object({ a: text })) }
  const found = differences(
    'answer',
    { $ref: '#/x/Part' },
    { $ref: '#/x/Piece' },
    { older: named, newer: named },
  )
  expect(found).toEqual([])
})

test('schema comparison: a difference inside an alternative names its field', () => {
  const found = differences(
    'answer',
    { anyOf: [object({ kind: { const: 'a' }, x: text }), object({ kind: { const: 'b' } })] },
    { anyOf: [object({ kind: { const: 'a' }, x: integer }), object({ kind: { const: 'b' } })] },
  )
  expect(found).toEqual([{ at: 'X.x', change: 'type ["string"] became ["integer"]', breaking: true }])
})
