// The documentation in the dashboard of the dev server, which runs from source and serves the site that this test built.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  openBrowser,
  seriousFindings,
  sidewaysScrolling,
  type TestBrowser,
} from '#test/support/dashboard/browser.ts'
import { type RunningDashboard, startDashboard } from '#test/support/dashboard/dashboard.ts'
import { builtSite } from '#test/support/documents/built-site.ts'

const startMsMax = 300_000
let dashboard: RunningDashboard
let browser: TestBrowser

beforeAll(async () => {
  await builtSite()
  dashboard = await startDashboard()
  browser = await openBrowser()
}, startMsMax)
afterAll(async () => {
  await browser?.close()
  await dashboard?.close()
})

const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${dashboard.origin}${path}`, { headers, redirect: 'manual' })

test('documentation: needs no sign-in, and has the content policy of the dashboard', async () => {
  const answer = await get('/docs/reference/configuration')
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(await answer.text()).toContain('LATCHKEY_DATABASE_URL')
  const signIn = await get('/sign-in')
  expect(answer.headers.get('content-security-policy')).toBe(signIn.headers.get('content-security-policy'))
})

test.each([
  ['the folder without a slash', '/docs', 308, '/docs/'],
  ['a folder of pages without a slash', '/docs/runbooks', 308, '/docs/runbooks/'],
  ['a folder of pages', '/docs/runbooks/', 200, null],
  ['a page', '/docs/runbooks/redis-full', 200, null],
  ['an unknown page', '/docs/runbooks/no-such', 404, null],
  ['a path out of the site', '/docs/..%2f..%2fetc%2fpasswd', 404, null],
])('documentation: %s gets the response that a browser expects', async (_case, path, status, location) => {
  const answer = await get(path)
  expect([answer.status, answer.headers.get('location')]).toEqual([status, location])
})

test('documentation: a page with an unchanged entity tag responds 304, and a script may be cached for a year', async () => {
  const page = await get('/docs/runbooks/redis-full')
  const etag = page.headers.get('etag') ?? ''
  expect([etag.length, page.headers.get('cache-control')]).toEqual([22, 'no-cache'])
  const again = await get('/docs/runbooks/redis-full', { 'If-None-Match': etag })
  expect([again.status, await again.text()]).toEqual([304, ''])
  const [, script = ''] = /src="(\/docs\/assets\/[^"]+)"/.exec(await page.text()) ?? []
  expect((await get(script)).headers.get('cache-control')).toContain('immutable')
})

test('documentation: a caller that does not accept gzip gets the uncompressed page', async () => {
  const [plain, packed] = await Promise.all([
    get('/docs/runbooks/redis-full', { 'Accept-Encoding': 'identity' }),
    get('/docs/runbooks/redis-full', { 'Accept-Encoding': 'gzip' }),
  ])
  expect([plain.headers.get('content-encoding'), packed.headers.get('content-encoding')]).toEqual([
    null,
    'gzip',
  ])
  expect(await plain.text()).toBe(await packed.text())
})

test('documentation: search finds a page by one of its words, and opens the page without a violation of the content policy', async () => {
  const visitor = await browser.visitor(dashboard.origin)
  const { page } = visitor
  await page.goto('/docs/reference/configuration')
  await page.locator('button.DocSearch-Button').first().click()
  await page.locator('#localsearch-input').fill('LATCHKEY_SHUTDOWN_GRACE_SECONDS')
  const excerpt = page
    .locator('#localsearch-list .excerpt')
    .filter({ hasText: 'LATCHKEY_SHUTDOWN_GRACE_SECONDS' })
  await excerpt.first().waitFor()
  await page.locator('#localsearch-list a').first().click()
  await page.waitForURL(/\/docs\/.+/)
  await page.locator('main h1').first().waitFor()
  expect(visitor.troubles).toEqual([])
  await visitor.close()
})

test('documentation: follows the theme of the system, and remembers another theme after a click', async () => {
  const visitor = await browser.visitor(dashboard.origin, { colorScheme: 'dark' })
  const { page } = visitor
  await page.goto('/docs/runbooks/redis-full')
  const isDark = () => page.evaluate<boolean>("document.documentElement.classList.contains('dark')")
  expect(await isDark()).toBe(true)
  await page.locator('.VPNavBarAppearance button').click()
  expect(await isDark()).toBe(false)
  await page.reload()
  expect(await isDark()).toBe(false)
  expect(visitor.troubles).toEqual([])
  await visitor.close()
})

test.each([
  ['/docs/reference/configuration', 1_440, 'light'],
  ['/docs/reference/configuration', 320, 'dark'],
  ['/docs/guides/webhooks', 1_440, 'dark'],
  ['/docs/runbooks/redis-full', 320, 'light'],
  ['/docs/architecture/', 1_440, 'light'],
] as const)(
  'documentation: %s at %d px, %s: axe finds no serious problem, and the page does not scroll horizontally',
  async (path, width, colorScheme) => {
    const visitor = await browser.visitor(dashboard.origin, { width, colorScheme })
    await visitor.page.goto(path)
    await visitor.page.locator('main h1').first().waitFor()
    expect(await seriousFindings(visitor.page)).toEqual([])
    expect(await sidewaysScrolling(visitor.page)).toEqual([])
    expect(visitor.troubles).toEqual([])
    await visitor.close()
  },
)

test('documentation: a page can be read without scripts', async () => {
  const visitor = await browser.visitor(dashboard.origin, { runsScripts: false })
  await visitor.page.goto('/docs/runbooks/redis-full')
  expect(await visitor.page.locator('main h1').first().isVisible()).toBe(true)
  await visitor.close()
})
