import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import fc from 'fast-check'
import { createParser, parseJsonObject, parseQuery, refuseQuery } from './parse.ts'

const valuesOf = (url: string) => {
  const query = parseQuery(url)
  return query.kind === 'query' ? { ...query.values } : query.message
}

describe('parseQuery', () => {
  test.each([
    ['no query string', 'http://h/p', {}],
    ['an empty query string', 'http://h/p?', {}],
    ['two parameters', 'http://h/p?scope=a&key=b', { scope: 'a', key: 'b' }],
    ['plus and %20 as a space', 'http://h/p?a=x+y&b=x%20y&c=x%2By', { a: 'x y', b: 'x y', c: 'x+y' }],
    ['an encoded name', 'http://h/p?%6Bey=v', { key: 'v' }],
    ['a parameter without value', 'http://h/p?key', { key: '' }],
    ['an equals sign in the value', 'http://h/p?key=a=b', { key: 'a=b' }],
    ['a question mark in the value', 'http://h/p?key=a?b', { key: 'a?b' }],
    ['repeated ampersands', 'http://h/p?&&key=a&', { key: 'a' }],
    [
      'names of Object.prototype members',
      'http://h/p?toString=1&constructor=2',
      { toString: '1', constructor: '2' },
    ],
    ['four-byte letters', 'http://h/p?key=%F0%9F%98%80', { key: '😀' }],
  ])('parseQuery: reads %s', (_case, url, expected) => {
    expect(valuesOf(url)).toEqual(expected)
  })

  test.each([
    ['a repeated parameter', 'a=1&a=1', 'is repeated'],
    ['a parameter repeated in percent-encoding', 'key=1&%6bey=2', 'is repeated'],
    ['a truncated escape', 'key=%4', 'UTF-8'],
    ['an escape that is not hexadecimal', 'key=%zz', 'UTF-8'],
    ['bytes that are not UTF-8', 'key=%ff', 'UTF-8'],
    ['half of a surrogate pair', 'key=%ED%A0%80', 'UTF-8'],
    ['a name that is not UTF-8', '%c3=1', 'UTF-8'],
    ['more than 8192 characters', `key=${'a'.repeat(8189)}`, '8192'],
  ])('parseQuery: returns 400 for %s', (_case, query, text) => {
    expect(valuesOf(`http://h/p?${query}`)).toContain(text)
  })

  test('parseQuery: accepts 8192 characters', () => {
    expect(valuesOf(`http://h/p?key=${'a'.repeat(8188)}`)).toEqual({ key: 'a'.repeat(8188) })
  })

  test('parseQuery: returns any percent-encoded text unchanged', () => {
    const text = fc.string({ unit: 'binary', maxLength: 20 })
    fc.assert(
      fc.property(
        fc.uniqueArray(text, { maxLength: 5 }),
        fc.array(text, { minLength: 5, maxLength: 5 }),
        (names, values) => {
          const pairs = names.map((name, index) => [name, values[index] ?? ''] as const)
          const url = `http://h/p?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`
          const query = parseQuery(url)
          expect(query.kind === 'query' && Object.entries(query.values).sort()).toEqual(
            pairs.map(([...pair]) => pair).sort(),
          )
        },
      ),
    )
  })
})

describe('refuseQuery', () => {
  const messageOf = (url: string) => refuseQuery(url)?.message

  test.each(['http://h/p', 'http://h/p?', 'http://h/p?&&'])(
    'refuseQuery: accepts a URL without parameters: %s',
    (url) => {
      expect(refuseQuery(url)).toBeUndefined()
    },
  )

  test('refuseQuery: the error names the first five parameters, truncated and escaped', () => {
    expect(messageOf('http://h/p?a=1&b&c&d&e')).toEndWith('send "a", "b", "c", "d", "e" in the body')
    expect(messageOf('http://h/p?a&b&c&d&e&f=secret')).toEndWith('"e" and more in the body')
    expect(messageOf(`http://h/p?${'x'.repeat(65)}`)).toContain(`"${'x'.repeat(64)}…"`)
    expect(messageOf('http://h/p?a%0a%22')).toContain('"a\\n\\""')
  })

  test('refuseQuery: a malformed query is reported as malformed', () => {
    expect(messageOf('http://h/p?a=%ff')).toContain('UTF-8')
  })
})

describe('parseJsonObject', () => {
  test('parseJsonObject: returns both the text and its value', () => {
    const text = '{"a": 1.10, "😀":820982911946154508}'
    expect(parseJsonObject(Buffer.from(text))).toEqual({ kind: 'object', text, value: JSON.parse(text) })
  })

  test.each([
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'UTF-8'],
    ['UTF-16', Buffer.from('{}', 'utf16le'), 'JSON'],
    ['a surrogate encoded in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'UTF-8'],
    ['a byte order mark', Buffer.from('\ufeff{}'), 'without byte order mark'],
    ['an empty body', Buffer.from(''), 'missing'],
    ['a truncated object', Buffer.from('{"a":'), 'JSON'],
    ['two values', Buffer.from('{}{}'), 'JSON'],
    ['a trailing comma', Buffer.from('{"a":1,}'), 'JSON'],
    ['NaN', Buffer.from('NaN'), 'JSON'],
    ['a list', Buffer.from('[]'), 'a JSON object'],
  ])('parseJsonObject: returns 400 for %s', (_case, bytes, text) => {
    expect(parseJsonObject(bytes)).toEqual({
      kind: 'error',
      code: 'invalid_request',
      message: expect.stringMatching(new RegExp(`^The body must be .*${text}`)),
    })
  })
})

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
      code: Type.Optional(Type.RegExp(/^[A-Za-z]{3,3}$/, { expected: 'a code of 3 letters' })),
      bound: Type.Optional(Type.Union([Type.Integer({ minimum: 0, maximum: 9 }), Type.Null()])),
      word: Type.Optional(Type.Union([Type.Literal('one'), Type.Literal('two')])),
      share: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
      text: Type.Optional(Type.String({ minLength: 1, maxLength: 9 })),
      least: Type.Optional(Type.Integer({ minimum: 1 })),
      names: Type.Optional(
        Type.Record(Type.String({ pattern: '^[a-z]{1,9}$' }), Type.Unknown(), {
          additionalProperties: false,
          expected: 'a JSON object whose names are lowercase letters',
        }),
      ),
      nothing: Type.Optional(Type.Null()),
    },
    { additionalProperties: false },
  ),
)

function messageFor(value: unknown): string | undefined {
  const parsed = parse(value)
  return parsed.kind === 'error' ? parsed.message : `parsed ${JSON.stringify(parsed.value)}`
}

const names =
  '"name", "token", "seconds", "list", "headers", "flag", "choice", "code", "bound", "word", "share", "text", "least", "names", "nothing"'

describe('createParser', () => {
  test('createParser: returns a valid value unchanged', () => {
    const value = { name: 'ä😀', seconds: 9, list: [null], headers: { a: 'b' } }
    expect(parse(value)).toEqual({ kind: 'parsed', value })
  })

  test.each([
    ['a missing field', {}, '"name" is required'],
    ['a misspelt field', { name: 'a', second: 1 }, `"second" is not a field of this call: it takes ${names}`],
    [
      'null in place of text',
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
      'a lone surrogate',
      { name: '\ud800' },
      '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
    ],
    [
      'a token that is too long',
      { name: 'a', token: '1234' },
      '"token" must be a string of 1 to 3 characters',
    ],
    ['a number below the minimum', { name: 'a', seconds: 0 }, '"seconds" must be a whole number from 1 to 9'],
    ['a fraction', { name: 'a', seconds: 1.5 }, '"seconds" must be a whole number from 1 to 9'],
    ['a number as text', { name: 'a', seconds: '1' }, '"seconds" must be a whole number from 1 to 9'],
    ['too many elements', { name: 'a', list: [1, 2, 3] }, '"list" must be an array of 1 to 2 elements'],
    ['an array in place of an object', { name: 'a', headers: [] }, '"headers" must be a JSON object'],
    [
      'a nested value that is not text',
      { name: 'a', headers: { 'x/y~': 1 } },
      '"headers.x/y~" must be a string',
    ],
    ['a number in place of a boolean', { name: 'a', flag: 1 }, '"flag" must be true or false'],
    ['a word outside the enum', { name: 'a', choice: 'three' }, '"choice" must be one of one, two'],
    ['a number in place of an enum word', { name: 'a', choice: 1 }, '"choice" must be one of one, two'],
    [
      'a number below a minimum without a maximum',
      { name: 'a', least: 0 },
      '"least" must be a whole number of at least 1',
    ],
    [
      'a negative number or null',
      { name: 'a', bound: -1 },
      '"bound" must be a whole number from 0 to 9, or null',
    ],
    ['a word outside a union', { name: 'a', word: 'three' }, '"word" must be one of one, two'],
    ['a number above a maximum', { name: 'a', share: 2 }, '"share" must be a number from 0 to 1'],
    ['an empty text', { name: 'a', text: '' }, '"text" must be a string of 1 to 9 characters'],
    [
      'a name that no pattern allows',
      { name: 'a', names: { A: 1 } },
      '"names.A" has no valid name: "names" must be a JSON object whose names are lowercase letters',
    ],
    [
      'text with characters other than letters',
      { name: 'a', code: '12€' },
      '"code" must be a code of 3 letters',
    ],
    ['a number in place of null', { name: 'a', nothing: 1 }, '"nothing" must be null'],
    ['text in place of the object', 'text', 'The body must be a JSON object'],
  ])('createParser: the error names the field and its allowed values for %s', (_case, value, message) => {
    expect(messageFor(value)).toBe(message)
  })

  test('createParser: the error names every invalid field once, and at most ten', () => {
    expect(messageFor({ name: null, seconds: 0, second: 1 })).toBe(
      [
        `"second" is not a field of this call: it takes ${names}`,
        '"name" must be a string of 1 to 5 characters without control characters or U+FFFD',
        '"seconds" must be a whole number from 1 to 9',
      ].join('; '),
    )
    const strangers = Object.fromEntries(Array.from({ length: 500 }, (_none, nth) => [`x${nth}`, 1]))
    const message = messageFor({ name: 'a', ...strangers })
    expect(message?.match(/is not a field/g)).toHaveLength(10)
    expect(message).toEndWith('; and more')
  })

  test('createParser: the error message never contains the value', () => {
    for (const field of ['name', 'token', 'seconds', 'list', 'flag', 'choice', 'code']) {
      expect(messageFor({ name: 'a', [field]: 'a-secret-value' })).not.toContain('secret')
    }
  })

  test('createParser: the error message truncates and escapes field names', () => {
    expect(messageFor({ name: 'a', ['x'.repeat(500)]: 1 })).toBe(
      `"${'x'.repeat(64)}…" is not a field of this call: it takes ${names}`,
    )
    expect(messageFor({ name: 'a', 'b\n"': 1 })).toBe(
      `"b\\n\\"" is not a field of this call: it takes ${names}`,
    )
  })
})
