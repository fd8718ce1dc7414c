import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { jsonTokens } from './json.tsx'

const laidOut = (text: string) =>
  jsonTokens(text)
    .map((token) => token.text)
    .join('')
const kindsOf = (text: string) =>
  jsonTokens(text)
    .filter(({ kind }) => kind !== 'plain')
    .map(({ kind, text: piece }) => `${kind} ${piece}`)

describe('JSON block', () => {
  test('JSON block: formats any JSON value like JSON.stringify with indent 2', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        expect(laidOut(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2))
        expect(laidOut(JSON.stringify(value, null, 1))).toBe(JSON.stringify(value, null, 2))
      }),
      { numRuns: 200 },
    )
  })

  test('JSON block: keeps every character of any text except white space', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        expect(laidOut(text).replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''))
      }),
      { numRuns: 500 },
    )
  })

  test('JSON block: distinguishes names, strings, numbers, words and redacted values', () => {
    expect(kindsOf('{"a" : "b", "c":[-1.5e3,true,null],"d":"[redacted]"}')).toEqual([
      'name "a"',
      'text "b"',
      'name "c"',
      'number -1.5e3',
      'word true',
      'word null',
      'name "d"',
      'hidden "[redacted]"',
    ])
  })

  test.each([
    ['a number longer than a double', '{"n":12345678901234567890.10}', '12345678901234567890.10'],
    ['a repeated name', '{"a":1,"a":2}', '"a": 1,\n  "a": 2'],
    ['text that ends within a string', '{"a":"bcd', '"bcd'],
    ['text that is not JSON', '<b>not  this</b>', '<b>not  this</b>'],
    ['text that only begins like JSON', '{ gateway  timed out }', 'gateway timed out'],
  ])('JSON block: shows %s exactly as received', (_what, text, part) => {
    expect(laidOut(text)).toContain(part)
  })

  test('JSON block: the output size is limited for deeply nested text and for long text', () => {
    const deep = laidOut('['.repeat(60_000))
    expect(deep.length).toBeLessThan(600_000)
    expect(deep.replaceAll(/\s/g, '')).toHaveLength(60_000)
    const many = jsonTokens(`[${'"a",'.repeat(30_000)}`)
    expect(many.length).toBeLessThan(8_100)
    expect(many.filter(({ kind }) => kind === 'text').length).toBeLessThan(8_000)
  })
})
