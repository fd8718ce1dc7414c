import { expect, test } from 'bun:test'
import { systemClock } from '#internal/base/index.ts'
import type { Answer, AnswerBody, PublicRoute } from '#internal/http/index.ts'
import { createAssets } from '../assets/assets.ts'
import { documentAnswer } from '../render.tsx'
import { packSite, unpackSite } from './archive.ts'
import { documentationRoutes } from './documentation.tsx'
import { missingSite, missingSiteAlone } from './missing-site.tsx'
import { PlainContents } from './plain-contents.ts'

const site = unpackSite(
  packSite(
    new Map([
      ['index.html', Uint8Array.from(Buffer.from('<h1>Start</h1>'))],
      ['large.html', Uint8Array.from(Buffer.alloc(1_000, 'a'))],
    ]),
  ),
)

function pageOf(routes: readonly PublicRoute[], address = '/docs/', pattern = '/docs/') {
  const route = routes.find(({ path }) => path === pattern)
  return async (): Promise<Answer<AnswerBody>> => {
    const request = new Request(`http://127.0.0.1${address}`, { headers: { 'Accept-Encoding': 'identity' } })
    const answer = await route?.handle({ request } as Parameters<PublicRoute['handle']>[0])
    if (answer?.kind !== 'answer') throw new Error('no page')
    return answer
  }
}

const noSite = () => Promise.reject(new Error('the site is built'))

test('documentation: an archive that could not be read is read again by the next request', async () => {
  let reads = 0
  const page = pageOf(
    documentationRoutes(noSite, async () => {
      reads += 1
      if (reads === 1) throw new Error('EMFILE')
      return site
    }),
  )
  await expect(page()).rejects.toThrow('EMFILE')
  expect((await page()).status).toBe(200)
  expect((await page()).status).toBe(200)
  expect(reads).toBe(2)
})

test('documentation: a page for callers without gzip is decompressed once', async () => {
  const page = pageOf(documentationRoutes(noSite, async () => site))
  const [first, second] = await Promise.all([page(), page()])
  expect(Buffer.from(first.body as Uint8Array).toString()).toBe('<h1>Start</h1>')
  expect(second.body).toBe(first.body)
  expect((await page()).body).toBe(first.body)
})

test('plain contents: the least recently used file is dropped when the maximum total size is exceeded', async () => {
  const contents = new PlainContents(1_000)
  const [start, large] = [site.get('index.html'), site.get('large.html')]
  if (!start || !large) throw new Error('no files')
  const first = await contents.of(start)
  expect(await contents.of(start)).toBe(first)
  const one = await contents.of(large)
  expect(await contents.of(large)).toBe(one)
  const again = await contents.of(start)
  expect(again).not.toBe(first)
  expect(again).toEqual(first)
})

test.each([
  ['the first page, with a session', '/docs/', '/docs/', missingSite],
  ['the first page, without a session', '/docs/', '/docs/', missingSiteAlone],
  ['another page', '/docs/reference/errors/conflict', '/docs/*', missingSiteAlone],
])('documentation: without a built site, %s says how to build it', async (_case, address, pattern, page) => {
  const parts = { assets: createAssets(), clock: systemClock }
  const routes = documentationRoutes(
    async ({ request }) => documentAnswer(parts, request, page),
    async () => undefined,
  )
  const { status, outcome, headers, body } = await pageOf(routes, address, pattern)()
  expect([status, outcome, headers?.['Content-Type']]).toEqual([404, 'not_found', 'text/html; charset=utf-8'])
  const text = await new Response(body).text()
  expect(text.match(/<h1>/g)).toHaveLength(1)
  expect(text).toContain('<code>npm run docs</code>')
  expect(text).toContain('href="/"')
  // Only the page for callers without a session has the box of the sign-in page.
  expect(text.includes('<div class="sign-in-box">')).toBe(page === missingSiteAlone)
})
