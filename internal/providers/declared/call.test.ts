import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type JsonObject } from '#internal/base/index.ts'
import { memberAt, memberReader, readEventBody, readEventText, readHeader, textAt } from './call.ts'
import { isDottedType, makeEvent, readEventId, readIsoTime, readUnixSeconds, unlistedType } from './event.ts'

const headerNames = ['x-ours', 'x-theirs', 'theirs']

test.each([
  ['a missing header is absent', {}, { kind: 'absent' }],
  ['the neutral header is read', { 'X-Ours': 'a' }, { kind: 'value', value: 'a' }],
  ['the vendor’s header is read', { 'X-THEIRS': 'a' }, { kind: 'value', value: 'a' }],
  [
    'equal values of both headers are one value',
    { 'x-ours': 'a', 'x-theirs': 'a', theirs: 'a' },
    { kind: 'value', value: 'a' },
  ],
  ['different values of two headers are a conflict', { 'x-ours': 'a', theirs: 'b' }, { kind: 'conflict' }],
  ['values that differ in case are a conflict', { 'x-ours': 'a', theirs: 'A' }, { kind: 'conflict' }],
  ['an empty header is absent', { 'x-ours': '' }, { kind: 'absent' }],
  ['an empty header beside a value is a conflict', { 'x-ours': '', 'x-theirs': 'a' }, { kind: 'conflict' }],
] as const)('readHeader: %s', (_what, headers, reading) => {
  expect(readHeader(new Headers(headers as Record<string, string>), { names: headerNames })).toEqual(reading)
})

test('readEventBody: parses an object and keeps its text as received', () => {
  const text = '\n{ "a" : 1.0, "b":820982911946154508 }\r\n'
  expect(readEventBody(Buffer.from(text))).toEqual({
    kind: 'object',
    text,
    value: { a: 1, b: Number('820982911946154508') },
  })
})

test.each([
  ['a repeated member', '{"a":1,"a":1}', 'body_ambiguous'],
  ['a repeated member, of which one is escaped', '{"a":1,"\\u0061":1}', 'body_ambiguous'],
  ['a repeated __proto__', '{"__proto__":1,"__proto__":1}', 'body_ambiguous'],
  ['an array', '[]', 'body_not_json'],
  ['a byte order mark', '\ufeff{}', 'body_not_json'],
  ['a NUL in a string', '{"a":"\u0000"}', 'body_not_json'],
  ['257 levels', `{"a":${'['.repeat(256)}${']'.repeat(256)}}`, 'body_too_deep'],
  ['257 unclosed levels', `{"a":${'['.repeat(256)}`, 'body_too_deep'],
])('readEventBody: refuses a body with %s', (_what, text, cause) => {
  expect(readEventText(text)).toEqual({ kind: 'refused', cause: cause as 'body_ambiguous' })
  expect(readEventBody(Buffer.from(text))).toEqual({ kind: 'refused', cause: cause as 'body_ambiguous' })
})

test.each([
  ['an overlong encoding', [0xc0, 0xaf]],
  ['a lone surrogate', [0xed, 0xa0, 0x80]],
  ['a cut character', [0xe2, 0x82]],
  ['Latin-1', [0xe9]],
])('readEventBody: refuses %s as invalid UTF-8', (_what, bytes) => {
  const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
  expect(readEventBody(body)).toEqual({ kind: 'refused', cause: 'body_not_json' })
})

test('memberAt: finds only own members of objects', () => {
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

test.each<[string, unknown]>([
  ['a.b', 'x'],
  ['a.c.1.d', 'y'],
  ['__proto__.f', 'z'],
  ['a.c.2', undefined],
  ['a.c.01', { d: 'y' }],
  ['a.c.length', undefined],
  ['a.b.length', undefined],
  ['e.a', undefined],
  ['constructor', undefined],
  ['a.toString', undefined],
])('memberReader: reads own members and elements at %s', (path, value) => {
  const body = JSON.parse('{"a":{"b":"x","c":[1,{"d":"y"}]},"e":null,"__proto__":{"f":"z"}}') as JsonObject
  expect(memberReader(path)(body)).toEqual(value)
})

test.each([
  ['2026-11-10T09:00:00Z', Date.UTC(2026, 10, 10, 9)],
  ['2026-11-10T10:30:00.25+01:30', Date.UTC(2026, 10, 10, 9, 0, 0, 250)],
  ['2026-11-10T09:00:00.123456789Z', Date.UTC(2026, 10, 10, 9, 0, 0, 123)],
  ['1970-01-01T00:00:00Z', 0],
  ['9999-12-31T23:59:59.999Z', 253_402_300_799_999],
  ['1969-12-31T23:59:59Z', undefined],
  ['9999-12-31T23:59:59-01:00', undefined],
  ['2026-11-10T09:00:00', undefined],
  ['2026-11-10 09:00:00Z', undefined],
  ['2026-11-10', undefined],
  ['2026-13-10T09:00:00Z', undefined],
  ['Tue, 10 Nov 2026 09:00:00 GMT', undefined],
  ['', undefined],
  [1_794_300_000, undefined],
  [null, undefined],
])('readIsoTime: parses %p as %p', (value, ms) => {
  expect(readIsoTime(value)).toBe(ms as number)
})

test.each([
  [0, 0],
  [1_794_300_000, 1_794_300_000_000],
  [1_794_300_000.25, 1_794_300_000_250],
  [-1, undefined],
  [Number.NaN, undefined],
  [Number.POSITIVE_INFINITY, undefined],
  [1_794_300_000_000, undefined],
  ['1794300000', undefined],
  [undefined, undefined],
])('readUnixSeconds: converts %p to %p', (value, ms) => {
  expect(readUnixSeconds(value)).toBe(ms as number)
})

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
])('unlistedType: converts %s to %s', (rawType, type) => {
  expect(unlistedType('card', rawType)).toBe(type)
})

test('unlistedType: always returns the normalized form', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (rawType) => {
      expect(isDottedType(unlistedType('codehost', rawType))).toBe(true)
    }),
    { seed: 7 },
  )
})

test('makeEvent: a missing raw type becomes `unknown`, and a malformed raw type is refused', () => {
  const made = (rawType: unknown) =>
    makeEvent({
      id: readEventId('1'),
      rawType,
      typeOf: (raw) => `x.${raw}`,
      occurredAtMs: undefined,
      payload: '{}',
    })
  for (const missing of [undefined, null, ''])
    expect(made(missing)).toMatchObject({ kind: 'event', rawType: 'unknown', type: 'x.unknown' })
  for (const odd of [1, {}, [], true, 'a'.repeat(256), 'a\u0000', '\ud800'])
    expect(made(odd)).toEqual({ kind: 'refused', cause: 'event_type_malformed' })
})
