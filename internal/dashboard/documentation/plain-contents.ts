import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { SiteFile } from './archive.ts'

const gunzipped = promisify(gunzip)
const plainBytesMaxDefault = 8 * 1_048_576
const sizeBytes = 4

/**
 * Decompressed files of the site, for callers that accept no gzip. Decompression runs outside of the event loop, once for concurrent calls,
 * and results are cached up to a maximum size. So anonymous calls cannot use much processor time or memory.
 */
export class PlainContents {
  readonly #bytesMax: number
  /** Contents by path, least recently used first. */
  readonly #kept = new Map<string, Promise<Uint8Array<ArrayBuffer>>>()
  readonly #sizes = new Map<string, number>()
  #bytes = 0

  constructor(bytesMax = plainBytesMaxDefault) {
    this.#bytesMax = bytesMax
  }

  /** @throws if the file is no gzip */
  of(file: SiteFile): Promise<Uint8Array<ArrayBuffer>> {
    const known = this.#kept.get(file.path)
    const content = known ?? decompress(file)
    this.#kept.delete(file.path)
    this.#kept.set(file.path, content)
    if (known === undefined) this.#admit(file)
    return content
  }

  #admit({ path, gzipped }: SiteFile): void {
    // RFC 1952: the last four bytes are the size of the content.
    const size = Buffer.from(gzipped.buffer, gzipped.byteOffset, gzipped.byteLength).readUInt32LE(
      gzipped.byteLength - sizeBytes,
    )
    this.#sizes.set(path, size)
    this.#bytes += size
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#bytesMax) return
      this.#kept.delete(oldest)
      this.#bytes -= this.#sizes.get(oldest) ?? 0
      this.#sizes.delete(oldest)
    }
  }
}

async function decompress({ gzipped }: SiteFile): Promise<Uint8Array<ArrayBuffer>> {
  return Uint8Array.from(await gunzipped(gzipped))
}
