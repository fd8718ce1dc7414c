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

describe('JSON as people read it', () => {
  test('is laid out as JSON.stringify does it, whatever the value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        expect(laidOut(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2))
        expect(laidOut(JSON.stringify(value, null, 1))).toBe(JSON.stringify(value, null, 2))
      }),
      { numRuns: 200 },
    )
  })

  test('keeps every character of any text but blanks between pieces', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        expect(laidOut(text).replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''))
      }),
      { numRuns: 500 },
    )
  })

  test('tells names, texts, numbers, words and what was hidden apart', () => {
    expect(kindsOf('{"a" : "b", "c":[-1.5e3,true,null],"d":"[redacted]"}')).toEqual([
      ...['name "a"', 'text "b"', 'name "c"', 'number -1.5e3', 'word true', 'word null'],
      ...['name "d"', 'hidden "[redacted]"'],
    ])
  })

  test.each([
    ['a number longer than a double', '{"n":12345678901234567890.10}', '12345678901234567890.10'],
    ['a name that stands twice', '{"a":1,"a":2}', '"a": 1,\n  "a": 2'],
    ['text that was cut within a string', '{"a":"bcd', '"bcd'],
    ['no JSON at all', '<b>not  this</b>', '<b>not  this</b>'],
    ['what only begins like JSON', '{ gateway  timed out }', 'gateway timed out'],
  ])('%s stays as it is', (_what, text, part) => {
    expect(laidOut(text)).toContain(part)
  })

  test('is of a bounded size, however deep or long the text is', () => {
    const deep = laidOut('['.repeat(60_000))
    expect(deep.length).toBeLessThan(600_000)
    expect(deep.replaceAll(/\s/g, '')).toHaveLength(60_000)
    const many = jsonTokens(`[${'"a",'.repeat(30_000)}`)
    expect(many.length).toBeLessThan(8_100)
    expect(many.filter(({ kind }) => kind === 'text').length).toBeLessThan(8_000)
  })
})
