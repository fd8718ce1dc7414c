import { gzipSync } from 'node:zlib'

/** File of an archive. */
export interface ArchivedFile {
  /** At most 100 bytes. */
  readonly name: string
  readonly mode: number
  readonly bytes: Uint8Array
}

const blockBytes = 512
const nameBytesMax = 100
/** Modification time of all files in seconds, the one that npm gives to the files of a package. */
const mtime = 499_162_500

/** Returns a gzipped tar archive (POSIX ustar) whose bytes depend only on the files: root's, with a fixed time. */
export function tarGz(files: readonly ArchivedFile[]): Uint8Array {
  const blocks = files.flatMap((file) => [
    header(file),
    file.bytes,
    new Uint8Array(-file.bytes.length & (blockBytes - 1)),
  ])
  return gzipSync(Buffer.concat([...blocks, new Uint8Array(2 * blockBytes)]), { level: 6 })
}

function header({ name, mode, bytes }: ArchivedFile): Uint8Array {
  if (Buffer.byteLength(name) > nameBytesMax) throw new Error(`${name}: longer than ${nameBytesMax} bytes`)
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, offset: number, digits: number) =>
    block.write(value.toString(8).padStart(digits, '0'), offset)
  block.write(name)
  octal(mode, 100, 7)
  octal(0, 108, 7)
  octal(0, 116, 7)
  octal(bytes.length, 124, 11)
  octal(mtime, 136, 11)
  block.write('        0', 148)
  block.write('ustar\x0000', 257)
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  )
  block.write('\0 ', 154)
  return block
}
