import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { formatTraceparent, parseTraceparent } from './traceparent.ts'

const trace = '0af7651916cd43dd8448eb211c80319c'
const span = 'b7ad6b7169203331'

test.each([
  ['sampled', `00-${trace}-${span}-01`, true],
  ['not sampled', `00-${trace}-${span}-00`, false],
  ['other flags set', `00-${trace}-${span}-03`, true],
  ['a later version with more parts', `cc-${trace}-${span}-01-what-comes`, true],
])('%s is read', (_case, header, sampled) => {
  expect(parseTraceparent(header)).toEqual({ traceId: trace, spanId: span, sampled })
})

test.each([
  ['empty', ''],
  ['capitals', `00-${trace.toUpperCase()}-${span}-01`],
  ['version ff', `ff-${trace}-${span}-01`],
  ['no trace', `00-${'0'.repeat(32)}-${span}-01`],
  ['no span', `00-${trace}-${'0'.repeat(16)}-01`],
  ['a short trace', `00-${trace.slice(1)}-${span}-01`],
  ['version 00 with more parts', `00-${trace}-${span}-01-x`],
  ['no flags', `00-${trace}-${span}`],
  ['spaces', ` 00-${trace}-${span}-01`],
  ['far too long', `cc-${trace}-${span}-01-${'x'.repeat(300)}`],
])('%s begins a new trace', (_case, header) => {
  expect(parseTraceparent(header)).toBeUndefined()
})

test('what is written is read back', () => {
  const hex = (length: number) =>
    fc
      .array(fc.constantFrom(...'0123456789abcdef'.split('')), { minLength: length, maxLength: length })
      .map((digits) => digits.join(''))
      .filter((text) => !/^0+$/.test(text))
  fc.assert(
    fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, sampled) => {
      const place = { traceId, spanId, sampled }
      expect(parseTraceparent(formatTraceparent(place))).toEqual(place)
    }),
  )
})
