/** File of the documentation site. */
export interface SiteFile {
  /** Path below the site, such as `guides/records.html`. */
  readonly path: string
  readonly gzipped: Uint8Array<ArrayBuffer>
  /** Hash of the content, as a quoted entity tag. */
  readonly etag: string
}

const lengthBytes = 4
const etagChars = 20

/** Packs files into one archive: length of the index, index as JSON, compressed contents. Equal files give equal archives. */
export function packSite(files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>): Uint8Array<ArrayBuffer> {
  const sorted = [...files].toSorted(([one], [other]) => (one < other ? -1 : 1))
  const contents = sorted.map(([, content]) => Uint8Array.from(Bun.gzipSync(content, { level: 9 })))
  const index = sorted.map(([path, content], at) => {
    const hash = Buffer.from(Bun.SHA256.hash(content) as Uint8Array).toString('hex')
    return { path, etag: `"${hash.slice(0, etagChars)}"`, bytes: contents[at]?.byteLength ?? 0 }
  })
  const text = Buffer.from(JSON.stringify(index))
  const length = Buffer.alloc(lengthBytes)
  length.writeUInt32BE(text.byteLength)
  return Uint8Array.from(Buffer.concat([length, text, ...contents]))
}

/** Reads an archive that `packSite` wrote. The contents are views of the archive's bytes, not copies. */
export function unpackSite(archive: Uint8Array<ArrayBuffer>): ReadonlyMap<string, SiteFile> {
  const buffer = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)
  let from = lengthBytes + buffer.readUInt32BE(0)
  const index = JSON.parse(buffer.toString('utf8', lengthBytes, from)) as (Omit<SiteFile, 'gzipped'> & {
    readonly bytes: number
  })[]
  return new Map(
    index.map(({ path, etag, bytes }) => {
      const gzipped = archive.subarray(from, (from += bytes))
      return [path, { path, etag, gzipped }]
    }),
  )
}
