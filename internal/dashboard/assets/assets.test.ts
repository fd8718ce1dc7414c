import { expect, test } from 'bun:test'
import { createAssets } from './assets.ts'

const assets = createAssets()
const paths = [assets.stylesPath, assets.scriptPath, assets.iconPath]
const asking = (encoding?: string) =>
  new Request('http://localhost/', { headers: encoding === undefined ? {} : { 'accept-encoding': encoding } })
const nameOf = (path: string) => path.replace('/assets/', '')

test.each(paths)('asset %s: is served plain and compressed, and browsers may cache it for a year', (path) => {
  const plain = assets.find(nameOf(path), asking())
  const gzipped = assets.find(nameOf(path), asking('br, gzip'))
  if (!plain || !gzipped) throw new Error('no asset')
  expect(Buffer.from(Bun.gunzipSync(gzipped.body))).toEqual(Buffer.from(plain.body))
  expect(plain.body.byteLength).toBeGreaterThan(100)
  expect(gzipped.headers).toMatchObject({
    'Content-Encoding': 'gzip',
    'Cache-Control': 'public, max-age=31536000, immutable',
  })
  expect(plain.headers?.['Content-Encoding']).toBeUndefined()
})

test('assets: a file name without the current hash is not found', () => {
  for (const name of ['dashboard.css', 'dashboard.000000000000.js', '../package.json', ''])
    expect(assets.find(name, asking())).toBeUndefined()
})

test('assets: all compressed files together are smaller than 50,000 bytes', () => {
  const bytes = paths.reduce(
    (sum, path) => sum + (assets.find(nameOf(path), asking('gzip'))?.body.byteLength ?? 0),
    0,
  )
  expect(bytes).toBeLessThan(50_000)
})

test('assets: the style sheet loads no other file', () => {
  const styles = assets.find(nameOf(assets.stylesPath), asking())
  expect(Buffer.from(styles?.body ?? []).toString()).not.toMatch(/url\(|@import/)
})
