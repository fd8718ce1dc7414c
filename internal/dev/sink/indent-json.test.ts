import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { indentJson } from './indent-json.ts'

const whole = 10_000_000

test('any JSON is laid out as JSON.stringify does', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(indentJson(JSON.stringify(value), whole)).toBe(JSON.stringify(value, null, 2))
    }),
  )
})

test('tokens stay as they were written', () => {
  const text = ' {"id" : 820982911946154508,\r\n"price":1.50e+2, "name":"a\\u0041\\"}{,:" ,"none":[ ] }\n'
  expect(indentJson(text, whole).split('\n')).toEqual([
    '{',
    '  "id": 820982911946154508,',
    '  "price": 1.50e+2,',
    '  "name": "a\\u0041\\"}{,:",',
    '  "none": []',
    '}',
  ])
})

test('a text that was cut is laid out as far as it goes', () => {
  expect(indentJson('{"a":[1,"tw', whole)).toBe('{\n  "a": [\n    1,\n    "tw')
})

test('the output has its bound, and depth does not multiply it', () => {
  const text = '['.repeat(100_000) + ']'.repeat(100_000)
  expect(indentJson(text, 1000)).toHaveLength(1000)
  expect(indentJson(text, 100_000_000).length).toBeLessThan(text.length * 82)
  const escapes = `"${'\\"'.repeat(100_000)}"`
  expect(indentJson(escapes, whole)).toBe(escapes)
})
