import { expect, test } from 'bun:test'
import { findJsonError } from './json-error.ts'

test.each([
  ['', 1, 1, true],
  ['{', 1, 2, true],
  ['{"a":1', 1, 7, true],
  ['{"a":1,}', 1, 8, false],
  ['{"a" 1}', 1, 6, false],
  ['{"a":}', 1, 6, false],
  ['{a:1}', 1, 2, false],
  ["{'a':1}", 1, 2, false],
  ['[1,]', 1, 4, false],
  ['[1 2]', 1, 4, false],
  ['[1}', 1, 3, false],
  ['{"a":1}x', 1, 8, false],
  ['{"a":NaN}', 1, 6, false],
  ['{"a":01}', 1, 6, false],
  ['{"a":1.}', 1, 6, false],
  ['{"a":"b\n"}', 1, 6, false],
  ['{"a":"\\x"}', 1, 6, false],
  ['{\n  "a": 1,\n  "b": tru\n}', 3, 8, false],
  ['/* no */{}', 1, 1, false],
  ['{"ü":"😀",}', 1, 11, false],
])('JSON error: the position in %j is line %d, column %d', (text, line, column, isEnd) => {
  expect(() => JSON.parse(text) as unknown).toThrow()
  expect(findJsonError(text)).toEqual({ line, column, isEnd })
})

test.each([
  '{}',
  '[]',
  ' {"a":[1,-0.5e+3,true,false,null,"\\u00e9\\n"],"b":{"c":[]}} ',
  '"x"',
  '0',
  '[[[]]]',
  `"${'\\\\'.repeat(200_000)}${'x'.repeat(1_000_000)}"`,
])('JSON error: valid JSON has no error position', (text) => {
  expect(findJsonError(text)).toBeUndefined()
})

test('JSON error: for randomly changed texts, reports an error exactly when JSON.parse throws', () => {
  const whole = '{"a":[1,-2.5e3,{"b":"x\\n\\u0041"},true,null],"c":"" , "d":{}}'
  const characters = ['"', '{', '}', '[', ']', ',', ':', '1', '-', '.', 'e', ' ', '\\', 't', '\n', '']
  let seed = 7
  const next = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
  for (let round = 0; round < 5_000; round += 1) {
    const at = next(whole.length)
    const text = whole.slice(0, at) + characters[next(characters.length)] + whole.slice(at + next(3))
    let isValid = true
    try {
      JSON.parse(text)
    } catch {
      isValid = false
    }
    expect([text, findJsonError(text) === undefined]).toEqual([text, isValid])
  }
})
