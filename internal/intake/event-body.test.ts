import { expect, test } from 'bun:test'
import { memberAt, readEventBody, readEventText, textAt } from './event-body.ts'

test('an object is read, and its text stays as received', () => {
  const text = '\n{ "a" : 1.0, "b":820982911946154508 }\r\n'
  expect(readEventBody(Buffer.from(text))).toEqual({
    kind: 'object',
    text,
    value: { a: 1, b: Number('820982911946154508') },
  })
})

test.each([
  ['a name twice', '{"a":1,"a":1}', 'body_ambiguous'],
  ['a name twice, once escaped', '{"a":1,"\\u0061":1}', 'body_ambiguous'],
  ['the prototype’s name twice', '{"__proto__":1,"__proto__":1}', 'body_ambiguous'],
  ['no object', '[]', 'body_not_json'],
  ['a byte order mark', '\ufeff{}', 'body_not_json'],
  ['a NUL in a text', '{"a":"\u0000"}', 'body_not_json'],
  ['257 levels', `{"a":${'['.repeat(256)}${']'.repeat(256)}}`, 'body_too_deep'],
  ['257 levels that never end', `{"a":${'['.repeat(256)}`, 'body_too_deep'],
])('%s is refused', (_what, text, cause) => {
  expect(readEventText(text)).toEqual({ kind: 'refused', cause: cause as 'body_ambiguous' })
  expect(readEventBody(Buffer.from(text))).toEqual({ kind: 'refused', cause: cause as 'body_ambiguous' })
})

test.each([
  ['an overlong encoding', [0xc0, 0xaf]],
  ['half a surrogate pair', [0xed, 0xa0, 0x80]],
  ['a cut character', [0xe2, 0x82]],
  ['Latin-1', [0xe9]],
])('%s is no UTF-8', (_what, bytes) => {
  const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
  expect(readEventBody(body)).toEqual({ kind: 'refused', cause: 'body_not_json' })
})

test('a path sees own members only, through objects only', () => {
  const body = JSON.parse('{"a":{"b":"x","c":[{"d":"y"}]},"e":null,"__proto__":{"f":"z"}}') as Record<
    string,
    unknown
  >
  expect(memberAt(body, 'a', 'b')).toBe('x')
  expect(textAt(body, 'a', 'b')).toBe('x')
  expect(memberAt(body, '__proto__', 'f')).toBe('z')
  for (const path of [
    ['f'],
    ['a', 'c', '0'],
    ['e', 'a'],
    ['a', 'b', 'length'],
    ['constructor'],
    ['a', 'toString'],
  ]) {
    expect(memberAt(body, ...path)).toBeUndefined()
  }
  expect(memberAt({}, '__proto__', 'toString')).toBeUndefined()
  expect(textAt(body, 'a')).toBeUndefined()
})
