import { expect, test } from 'bun:test'
import { hasValidHashes, signAdHoc } from './mach-o.ts'

const headerBytes = 32
const segmentBytes = 72
const codeBytes = 10_000

/** Returns a program of one text segment, whose signature is that of other code. */
function program(): Buffer {
  const bytes = Buffer.alloc(codeBytes + 64, 7)
  bytes.fill(0, 0, headerBytes + 2 * segmentBytes + 16)
  for (const [index, word] of [0xfeedfacf, 0x0100_0007, 3, 2, 3, 2 * segmentBytes + 16].entries())
    bytes.writeUInt32LE(word, 4 * index)
  const segments = [
    { name: '__TEXT', offset: 0, size: 8192 },
    { name: '__LINKEDIT', offset: 8192, size: bytes.length - 8192 },
  ]
  for (const [index, { name, offset, size }] of segments.entries()) {
    const command = headerBytes + index * segmentBytes
    bytes.writeUInt32LE(0x19, command)
    bytes.writeUInt32LE(segmentBytes, command + 4)
    bytes.write(name, command + 8)
    bytes.writeBigUInt64LE(BigInt(offset), command + 40)
    bytes.writeBigUInt64LE(BigInt(size), command + 48)
  }
  const command = headerBytes + 2 * segmentBytes
  for (const [index, word] of [0x1d, 16, codeBytes, 64].entries())
    bytes.writeUInt32LE(word, command + 4 * index)
  const directory = [0xfade0cc0, 64, 1, 0, 20, 0xfade0c02, 44]
  for (const [index, word] of directory.entries()) bytes.writeUInt32BE(word, codeBytes + 4 * index)
  return bytes
}

test('mach-o: an invalid signature is replaced with an ad hoc signature', () => {
  expect(hasValidHashes(program())).toBe(false)
  const signed = signAdHoc(program(), 'latchkey')
  expect(hasValidHashes(signed)).toBe(true)
  expect(hasValidHashes(signAdHoc(signed, 'latchkey'))).toBe(true)
  expect(signAdHoc(signed, 'latchkey').equals(signed)).toBe(true)
  const linkedit = headerBytes + segmentBytes
  expect(signed.readBigUInt64LE(linkedit + 48)).toBe(BigInt(signed.length - 8192))
  expect(signed.readBigUInt64LE(linkedit + 32)).toBe(16_384n)
})

test.each([
  ['the first page', 500],
  ['the last page', codeBytes - 1],
  ['a hash', -1],
])('mach-o: a signature is invalid after a change of %s', (_what, offset) => {
  const signed = signAdHoc(program(), 'latchkey')
  const at = offset < 0 ? signed.length + offset : offset
  signed.writeUInt8((signed[at] ?? 0) ^ 1, at)
  expect(hasValidHashes(signed)).toBe(false)
})

test('mach-o: a signature is invalid for a program with appended bytes', () => {
  const signed = signAdHoc(program(), 'latchkey')
  expect(hasValidHashes(Buffer.concat([signed, Buffer.alloc(1)]))).toBe(false)
})

test('mach-o: a file that is not a Mach-O program is refused', () => {
  expect(() => hasValidHashes(Buffer.alloc(64))).toThrow('not a 64-bit Mach-O file')
})
