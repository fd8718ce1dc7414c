import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { createParser } from './validate.ts'

const parse = createParser(
  Type.Object(
    {
      name: Type.RegExp(/^[^\p{Cc}\p{Cs}]{1,5}$/u),
      token: Type.Optional(Type.RegExp(/^[^]{1,3}$/u)),
      seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 9 })),
      list: Type.Optional(Type.Array(Type.Unknown(), { minItems: 1, maxItems: 2 })),
      headers: Type.Optional(Type.Object({}, { additionalProperties: Type.String() })),
      flag: Type.Optional(Type.Boolean()),
      choice: Type.Optional(Type.String({ enum: ['one', 'two'], pattern: '^(one|two)$' })),
      code: Type.Optional(Type.RegExp(/^[A-Za-z]{3,3}$/)),
      nothing: Type.Optional(Type.Null()),
    },
    { additionalProperties: false },
  ),
)

function messageFor(value: unknown): string | undefined {
  const parsed = parse(value)
  return parsed.kind === 'error' ? parsed.message : `parsed ${JSON.stringify(parsed.value)}`
}

describe('a value', () => {
  test('that fits is given as it is', () => {
    const value = { name: 'ä😀', seconds: 9, list: [null], headers: { a: 'b' } }
    expect(parse(value)).toEqual({ kind: 'parsed', value })
  })

  test.each([
    ['a missing field', {}, '"name" is required'],
    [
      'a misspelt field',
      { name: 'a', second: 1 },
      '"second" is not a field of this call: check its spelling',
    ],
    [
      'null for text',
      { name: null },
      '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
    ],
    [
      'text that is too long',
      { name: '123456' },
      '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
    ],
    [
      'a control character',
      { name: 'a\nb' },
      '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
    ],
    [
      'half a surrogate pair',
      { name: '\ud800' },
      '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
    ],
    [
      'a token that is too long',
      { name: 'a', token: '1234' },
      '"token" must be a string of 1 to 3 characters',
    ],
    ['a number below', { name: 'a', seconds: 0 }, '"seconds" must be a whole number from 1 to 9'],
    ['a fraction', { name: 'a', seconds: 1.5 }, '"seconds" must be a whole number from 1 to 9'],
    ['a number as text', { name: 'a', seconds: '1' }, '"seconds" must be a whole number from 1 to 9'],
    ['too many elements', { name: 'a', list: [1, 2, 3] }, '"list" must be an array of 1 to 2 elements'],
    ['an array for an object', { name: 'a', headers: [] }, '"headers" must be a JSON object'],
    [
      'a value within that is no text',
      { name: 'a', headers: { 'x/y~': 1 } },
      '"headers.x/y~" must be a string',
    ],
    ['a number for a flag', { name: 'a', flag: 1 }, '"flag" must be true or false'],
    ['none of the words', { name: 'a', choice: 'three' }, '"choice" must be one of "one", "two"'],
    ['a number for a word', { name: 'a', choice: 1 }, '"choice" must be one of "one", "two"'],
    ['other than letters', { name: 'a', code: '12€' }, '"code" must be a string of 3 letters'],
    ['any other type', { name: 'a', nothing: 1 }, '"nothing" must be of the type that the contract gives'],
    ['no object', 'text', 'The body must be a JSON object'],
  ])('with %s names the field and what would be right', (_case, value, message) => {
    expect(messageFor(value)).toBe(message)
  })

  test('is never repeated in the message', () => {
    for (const field of ['name', 'token', 'seconds', 'list', 'flag', 'choice', 'code']) {
      expect(messageFor({ name: 'a', [field]: 'a-secret-value' })).not.toContain('secret')
    }
  })

  test('with a field’s name that is long or odd has it cut and escaped', () => {
    expect(messageFor({ name: 'a', ['x'.repeat(500)]: 1 })).toBe(
      `"${'x'.repeat(64)}…" is not a field of this call: check its spelling`,
    )
    expect(messageFor({ name: 'a', 'b\n"': 1 })).toBe(
      '"b\\n\\"" is not a field of this call: check its spelling',
    )
  })
})
