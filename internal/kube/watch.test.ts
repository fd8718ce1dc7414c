import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { JsonLines } from './watch.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

test('JSON lines: lines are complete regardless of how the bytes are split', () => {
  const values = fc.array(fc.jsonValue(), { maxLength: 8 })
  fc.assert(
    fc.property(values, fc.array(fc.nat(200), { maxLength: 10 }), (wanted, cuts) => {
      const whole = bytes(wanted.map((value) => `${JSON.stringify(value)}\n`).join(''))
      const lines = new JsonLines(1_000_000)
      const got: unknown[] = []
      let from = 0
      for (const cut of [...cuts.sort((a, b) => a - b), whole.length]) {
        const to = Math.min(Math.max(cut, from), whole.length)
        for (const line of lines.push(whole.subarray(from, to)))
          got.push(line.kind === 'value' ? line.value : line)
        from = to
      }
      expect(got).toEqual(JSON.parse(JSON.stringify(wanted)) as unknown[])
    }),
  )
})

test('JSON lines: an unfinished line is buffered, and an empty line is skipped', () => {
  const lines = new JsonLines(100)
  expect(lines.push(bytes('\n\r\n{"a":'))).toEqual([])
  expect(lines.push(bytes('1}\n'))).toEqual([{ kind: 'value', value: { a: 1 } }])
})

test('JSON lines: a line with invalid JSON ends the stream with an error at this line', () => {
  expect(new JsonLines(100).push(bytes('1\n<html>\n2\n'))).toEqual([
    { kind: 'value', value: 1 },
    { kind: 'broken', why: 'a line that is not JSON' },
  ])
})

test.each([
  ['unfinished', '"aaaaaaaaaaaa'],
  ['finished', '"aaaaaaaaa"\n'],
])('JSON lines: a line over the maximum length ends the stream with an error (%s line)', (_case, text) => {
  expect(new JsonLines(10).push(bytes(text))).toEqual([
    { kind: 'broken', why: 'a line that exceeds the maximum length' },
  ])
})
