import { expect, test } from 'bun:test'
import { parseKeyHeader } from './idempotency-key.ts'

type Mode = 'unquoted' | 'quoted'
const long = 'k'.repeat(200)
const keys: [what: string, header: string, key: string, mode?: Mode][] = [
  ['a UUID', '"8e03978e-40d5-43e8-bc93-6894a57f9324"', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
  ['escaped quotation marks and backslashes', String.raw`"a\"b\\c"`, String.raw`a"b\c`],
  ['spaces around the key', '  "a b"  ', 'a b'],
  ['a comma inside', '"a, b"', 'a, b'],
  ['200 characters', `"${long}"`, long],
  ['200 characters after unescaping', `"${'\\"'.repeat(200)}"`, '"'.repeat(200)],
  ['parameters of every type', '"a";b;c=1; d=-2.5;e="x\\"y";f=tok/en;g=:aGk=:;h=?0;i=@17;j=%"%c3%a9"', 'a'],
  ['an unquoted UUID if allowed', '8e03978e-40d5', '8e03978e-40d5', 'unquoted'],
  ['a quoted key where unquoted keys are allowed', '"a"', 'a', 'unquoted'],
]
test.each(keys)('Idempotency-Key: accepts %s', (...[, header, key, mode]) => {
  expect(parseKeyHeader(header, mode === 'unquoted')).toEqual({ kind: 'key', key })
})

const malformed: [what: string, header: string, mode?: Mode][] = [
  ['an empty header', ''],
  ['an empty string', '""'],
  ['201 characters', `"${long}k"`],
  ['an unquoted token', 'abc'],
  ['a missing end', '"abc'],
  ['an unescaped quotation mark', '"a"b"'],
  ['an unknown escape', String.raw`"a\b"`],
  ['a control character', '"a\tb"'],
  ['a character outside ASCII', '"é"'],
  ['two headers', '"a", "b"'],
  ['two unquoted headers', 'a, b', 'unquoted'],
  ['an unquoted key of 201 characters', `${long}k`, 'unquoted'],
  ['an unquoted key with a space', 'a b', 'unquoted'],
  ['a key with only one quotation mark where unquoted keys are allowed', '"a', 'unquoted'],
  ['an integer', '42'],
  ['a token', 'a;b'],
  ['a malformed parameter', '"a";B'],
  ['a parameter without its value', '"a";b='],
]
test.each(malformed)('Idempotency-Key: refuses %s', (...[, header, mode]) => {
  expect(parseKeyHeader(header, mode === 'unquoted')).toEqual({ kind: 'malformed' })
})

test.each([null, undefined])('Idempotency-Key: %p is treated as a missing key', (header) => {
  expect(parseKeyHeader(header)).toEqual({ kind: 'missing' })
})
