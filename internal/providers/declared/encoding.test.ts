import { expect, test } from 'bun:test'
import { decodeText, digestDecoder } from './signature.ts'

test.each([
  ['hex', 'aB'.repeat(32), ['a'.repeat(63), 'a'.repeat(65), `${'a'.repeat(63)}g`, ` ${'a'.repeat(63)}`, '']],
  [
    'base64',
    `${'aB+/'.repeat(10)}abc=`,
    [
      'a'.repeat(44),
      'a'.repeat(43),
      `${'a'.repeat(42)}==`,
      `${'a-'.repeat(21)}a=`,
      `${'a'.repeat(43)}=\n`,
      '',
    ],
  ],
  [
    'base64url',
    `${'aB-_'.repeat(10)}abc`,
    ['a'.repeat(44), `${'a+'.repeat(21)}a`, `${'a'.repeat(43)}==`, ''],
  ],
] as const)('digestDecoder: %s decodes 32 bytes and refuses anything else', (encoding, good, bad) => {
  const decode = digestDecoder(encoding, 32)
  expect(decode(good)).toHaveLength(32)
  for (const text of bad) expect(decode(text)).toBeUndefined()
})

test.each([
  ['sha1', 20, `${'a'.repeat(27)}=`],
  ['sha384', 48, 'a'.repeat(64)],
  ['sha512', 64, `${'a'.repeat(86)}==`],
] as const)(
  'digestDecoder: a base64 digest of %s has %i bytes and the padding of this length',
  (_hash, bytes, text) => {
    expect(digestDecoder('base64', bytes)(text)).toHaveLength(bytes)
    expect(digestDecoder('base64', 32)(text)).toBeUndefined()
  },
)

test('decodeText: decodes at most 1368 characters, and refuses text that is not exactly in the encoding', () => {
  expect(decodeText('00fF', 'hex')).toEqual(Buffer.from([0, 255]))
  expect(decodeText('YQ==', 'base64')).toEqual(Buffer.from('a'))
  expect(decodeText('YQ', 'base64url')).toEqual(Buffer.from('a'))
  for (const text of ['', '0', '0g', '00 ']) expect(decodeText(text, 'hex')).toBeUndefined()
  for (const text of ['YR', 'YQB', 'YWJjx', 'YQ=\n']) expect(decodeText(text, 'base64url')).toBeUndefined()
  for (const text of ['YQ', 'YQ=', 'YR==', 'Y-==', 'YQ==\n'])
    expect(decodeText(text, 'base64')).toBeUndefined()
  expect(decodeText('a'.repeat(1368), 'base64')).toBeDefined()
  expect(decodeText('a'.repeat(1372), 'base64')).toBeUndefined()
})
