import { describe, expect, test } from 'bun:test'
import { acceptsGzip, createAssets } from './assets.ts'

const assets = createAssets()
const paths = [assets.stylesPath, assets.scriptPath, assets.iconPath]
const nameOf = (path: string) => path.replace('/assets/', '')

test.each(paths)('asset %s: is served plain and compressed, and browsers may cache it for a year', (path) => {
  const plain = assets.find(nameOf(path), null)
  const gzipped = assets.find(nameOf(path), 'br, gzip')
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
    expect(assets.find(name, null)).toBeUndefined()
})

test('assets: all compressed files together are smaller than 50,000 bytes', () => {
  const bytes = paths.reduce(
    (sum, path) => sum + (assets.find(nameOf(path), 'gzip')?.body.byteLength ?? 0),
    0,
  )
  expect(bytes).toBeLessThan(50_000)
})

test('assets: the style sheet loads no other file', () => {
  const styles = assets.find(nameOf(assets.stylesPath), null)
  expect(Buffer.from(styles?.body ?? []).toString()).not.toMatch(/url\(|@import/)
})

describe('Accept-Encoding', () => {
  test.each([
    ['gzip, deflate, br', true],
    ['GZIP;q=0.5', true],
    ['gzip;q=0', false],
    ['gzip;q=0.00, br', false],
    ['br', false],
    [null, false],
  ])('acceptsGzip: for the header Accept-Encoding %p, the result is %p', (header, expected) => {
    expect(acceptsGzip(header)).toBe(expected)
  })
})
