import { beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { addressOf, siteBase } from '#cmd/dev/docs/links.ts'
import { pagePaths } from '#cmd/dev/docs/pages.ts'
import { buildSite, generatorFolder } from '#cmd/dev/docs/site.ts'
import { builtSite } from '#test/support/documents/built-site.ts'

/** Measured: 3.7 MB (November 2026). */
const siteBytesMax = 5_000_000
let files: ReadonlyMap<string, string>
let bytes = 0

beforeAll(async () => {
  const site = await builtSite()
  bytes = [...site.values()].reduce((sum, { gzipped }) => sum + gzipped.byteLength, 0)
  files = new Map(
    [...site].map(([path, { gzipped }]) => [path, Buffer.from(Bun.gunzipSync(gzipped)).toString()]),
  )
}, 240_000)

const ending = (name: string) => [...files].filter(([path]) => path.endsWith(`.${name}`))

/** Returns the path of the file that the back office serves for an address of the site. */
function fileOf(address: string): string | undefined {
  const path = decodeURI(address.slice(siteBase.length))
  const names = path === '' || path.endsWith('/') ? [`${path}index.html`] : [path, `${path}.html`]
  return names.find((name) => files.has(name))
}

test('site: has a page for each Markdown file below docs', () => {
  const missing = pagePaths().filter((page) => fileOf(siteBase + addressOf(page)) === undefined)
  expect(missing).toEqual([])
})

test('site: is not built again while its pages and its generator are unchanged', async () => {
  expect(await buildSite()).toBeUndefined()
})

test('site: has no inline script, inline style or event handler attribute, as the content policy of the dashboard requires', () => {
  const found = ending('html').flatMap(([path, html]) =>
    [...html.matchAll(/<script(?![^>]* src=)[^>]*>|<style|<[a-z][^<>]* (style|on[a-z]+)=/g)].map(
      ([text]) => `${path}: ${text}`,
    ),
  )
  expect(found).toEqual([])
  // Also checks scripts, which contain the HTML of pages that the browser navigates to: the policy applies to it as well.
  const styled = ending('js').filter(([, script]) => /<[a-z][^<>]* style=\\?"/.test(script))
  expect(styled.map(([path]) => path)).toEqual([])
})

test('site: loads nothing from another origin', () => {
  const tags = ending('html').flatMap(([path, html]) =>
    [...html.matchAll(/<(?:script|link|img|iframe|source)[^>]*? (?:src|href)="([^"]*)"/g)].flatMap(
      ([, url = '']) => (url.startsWith('/') || url.startsWith('data:') ? [] : [`${path}: ${url}`]),
    ),
  )
  const styles = ending('css').flatMap(([path, css]) =>
    [...css.matchAll(/(?:url\(|@import )\s*["']?([^"')]*)/g)].flatMap(([, url = '']) =>
      url.startsWith(siteBase) || url.startsWith('data:') ? [] : [`${path}: ${url}`],
    ),
  )
  const calls = ending('js').flatMap(([path, script]) =>
    [...script.matchAll(/(?:import|fetch)\(["'`](?:https?:)?\/\/[^"'`]*/g)].map(
      ([call]) => `${path}: ${call}`,
    ),
  )
  expect([...tags, ...styles, ...calls]).toEqual([])
})

test('site: every internal link points to an existing page and anchor', () => {
  const anchors = new Map(
    ending('html').map(([path, html]) => [
      path,
      new Set([...html.matchAll(/ (?:id|name)="([^"]+)"/g)].map(([, id]) => id)),
    ]),
  )
  const dead = ending('html').flatMap(([path, html]) =>
    [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].flatMap(([, url = '']) => {
      const [address = '', anchor] = url.replaceAll('&amp;', '&').split('#')
      if (/^[a-z]+:/.test(address) || address === '/') return []
      const target = address === '' ? path : fileOf(address)
      if (target === undefined) return [`${path}: ${url}`]
      if (anchor === undefined || anchor === '' || !target.endsWith('.html')) return []
      return anchors.get(target)?.has(decodeURIComponent(anchor)) ? [] : [`${path}: ${url}: no such anchor`]
    }),
  )
  expect([...new Set(dead)]).toEqual([])
})

test('site: all compressed files, which the image contains, are smaller than 5 MB together', () => {
  process.stdout.write(`documentation: ${(bytes / 1e6).toFixed(2)} MB in ${files.size} files\n`)
  expect(bytes).toBeLessThan(siteBytesMax)
})

test('site generator: its version is pinned exactly', () => {
  const { devDependencies } = JSON.parse(readFileSync(join(generatorFolder, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>
  }
  for (const version of Object.values(devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
})
