import { expect, test } from 'bun:test'
import { packSite, unpackSite } from './archive.ts'

const bytesOf = (text: string) => Uint8Array.from(Buffer.from(text))
const files: [string, Uint8Array<ArrayBuffer>][] = [
  ['index.html', bytesOf('<h1>Start</h1>')],
  ['assets/a.js', bytesOf('let ä = 1')],
  ['empty.txt', bytesOf('')],
]
const gzipTime = { from: 4, to: 8 }

test('archive: equal files give equal archives, whatever their order', () => {
  expect(packSite(new Map(files.toReversed()))).toEqual(packSite(new Map(files)))
})

test('archive: does not contain the time at which it was compressed', () => {
  for (const { gzipped } of unpackSite(packSite(new Map(files))).values())
    expect([...gzipped.subarray(gzipTime.from, gzipTime.to)]).toEqual([0, 0, 0, 0])
})

test('archive: unpacking returns the files that were packed, each with an entity tag of its content', () => {
  const unpacked = unpackSite(packSite(new Map(files)))
  expect([...unpacked.keys()]).toEqual(['assets/a.js', 'empty.txt', 'index.html'])
  for (const [path, content] of files) {
    const file = unpacked.get(path)
    expect(file && Uint8Array.from(Bun.gunzipSync(file.gzipped))).toEqual(content)
  }
  const changed = unpackSite(packSite(new Map([...files, ['empty.txt', bytesOf('x')]])))
  const isSame = files.map(([path]) => changed.get(path)?.etag === unpacked.get(path)?.etag)
  expect(isSame).toEqual([true, true, false])
})
