// Code signatures of programs for macOS: layouts of <mach-o/loader.h> and <kern/cs_blobs.h>. Written here, because Bun 1.4.5 signs for arm64
// only, and the packages for npm that sign call Apple's codesign, which runs on macOS alone (2026-11).
import { createHash } from 'node:crypto'

/** Values of load commands and of blobs in a signature. */
const magic64 = 0xfeedfacf
const segmentCommand = 0x19
const signatureCommand = 0x1d
const signatureMagic = 0xfade0cc0
const directoryMagic = 0xfade0c02
/** Version of a code directory that names the segment with the code. */
const directoryVersion = 0x20400
/** Flags of an ad hoc signature made by a linker: `codesign` replaces such a signature without `--force`. */
const adHocFlags = 0x20002
const mainProgramFlag = 1n
const sha256Type = 2
const hashBytes = 32
const pageBytes = 4096
const pageBits = 12
/** On Apple silicon, segments in memory begin at multiples of this size. */
const memoryPageBytes = 16_384
const directoryHeaderBytes = 88
const indexBytes = 20

interface Segment {
  readonly command: number
  readonly offset: number
  readonly bytes: number
}

/**
 * Returns whether the hashes of the signature match the whole program. On Apple silicon, macOS ends a program at its start if they do not.
 * Certificates are not checked.
 * @throws if the program is no 64-bit Mach-O file with a signature
 */
export function hasValidHashes(program: Buffer): boolean {
  const { signature } = readLayout(program)
  const directory = directoryOf(program, signature)
  const word = (index: number) => program.readUInt32BE(directory + 4 * index)
  const [hashesAt, count, limit] = [word(4), word(7), word(8)]
  if (limit !== signature.offset || signature.offset + signature.bytes !== program.length) return false
  if (program[directory + 36] !== hashBytes || program[directory + 39] !== pageBits) return false
  const hashes = program.subarray(directory + hashesAt, directory + hashesAt + count * hashBytes)
  return hashesOf(program.subarray(0, limit)).equals(hashes)
}

/**
 * Returns a copy of a program whose signature is replaced by an ad hoc signature.
 * @throws as `hasValidHashes`
 */
export function signAdHoc(program: Buffer, identifier: string): Buffer {
  const { text, linkedit, signature } = readLayout(program)
  const codeBytes = signature.offset
  const hashesAt = directoryHeaderBytes + Buffer.byteLength(identifier) + 1
  const count = Math.ceil(codeBytes / pageBytes)
  const directoryBytes = hashesAt + count * hashBytes
  const blob = Buffer.alloc(indexBytes + directoryBytes)
  // The signature has one blob, the code directory (type 0), after the index.
  writeWords(blob, 0, [signatureMagic, blob.length, 1, 0, indexBytes])
  const directory = blob.subarray(indexBytes)
  writeWords(directory, 0, [directoryMagic, directoryBytes, directoryVersion, adHocFlags, hashesAt])
  writeWords(directory, 20, [directoryHeaderBytes, 0, count, codeBytes])
  directory.set([hashBytes, sha256Type, 0, pageBits], 36)
  directory.writeBigUInt64BE(BigInt(text.offset), 64)
  directory.writeBigUInt64BE(BigInt(text.bytes), 72)
  directory.writeBigUInt64BE(mainProgramFlag, 80)
  directory.write(identifier, directoryHeaderBytes)

  const code = Buffer.from(program.subarray(0, codeBytes))
  code.writeUInt32LE(blob.length, signature.command + 12)
  const linkeditBytes = codeBytes + blob.length - linkedit.offset
  const inMemory = Math.ceil(linkeditBytes / memoryPageBytes) * memoryPageBytes
  code.writeBigUInt64LE(BigInt(inMemory), linkedit.command + 32)
  code.writeBigUInt64LE(BigInt(linkeditBytes), linkedit.command + 48)
  // Hashes the code after the load commands are changed, since its first page contains them.
  directory.set(hashesOf(code), hashesAt)
  return Buffer.concat([code, blob])
}

function writeWords(bytes: Buffer, offset: number, words: readonly number[]): void {
  for (const [index, word] of words.entries()) bytes.writeUInt32BE(word, offset + 4 * index)
}

function hashesOf(code: Buffer): Buffer {
  const pages = Array.from({ length: Math.ceil(code.length / pageBytes) }, (_, page) =>
    code.subarray(page * pageBytes, (page + 1) * pageBytes),
  )
  return Buffer.concat(pages.map((page) => createHash('sha256').update(page).digest()))
}

function directoryOf(program: Buffer, signature: Segment): number {
  const count = program.readUInt32BE(signature.offset + 8)
  const blobs = Array.from({ length: Math.min(count, 16) }, (_, index) => {
    const offset = program.readUInt32BE(signature.offset + 16 + 8 * index)
    return signature.offset + offset
  })
  const directory = blobs.find((offset) => program.readUInt32BE(offset) === directoryMagic)
  if (directory === undefined) throw new Error('the signature has no code directory')
  return directory
}

function readLayout(program: Buffer): {
  readonly text: Segment
  readonly linkedit: Segment
  readonly signature: Segment
} {
  if (program.readUInt32LE(0) !== magic64) throw new Error('not a 64-bit Mach-O file')
  const found: Record<string, Segment> = {}
  let command = 32
  for (let left = program.readUInt32LE(16); left > 0; left -= 1) {
    const kind = program.readUInt32LE(command)
    if (kind === segmentCommand) {
      const name = program.toString('latin1', command + 8, command + 24).replace(/\0+$/, '')
      const [offset, bytes] = [command + 40, command + 48].map((at) => Number(program.readBigUInt64LE(at)))
      found[name] = { command, offset: offset ?? 0, bytes: bytes ?? 0 }
    } else if (kind === signatureCommand) {
      const [offset, bytes] = [program.readUInt32LE(command + 8), program.readUInt32LE(command + 12)]
      found['signature'] = { command, offset, bytes }
    }
    command += program.readUInt32LE(command + 4)
  }
  const { __TEXT: text, __LINKEDIT: linkedit, signature } = found
  if (!text || !linkedit || !signature) throw new Error('the Mach-O file has no segments or no signature')
  return { text, linkedit, signature }
}
