import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import {
  openBrowser,
  seriousFindings,
  signIn,
  type TestBrowser,
  type Visitor,
} from '#test/support/dashboard/browser.ts'
import { type RunningDashboard, startDashboard } from '#test/support/dashboard/dashboard.ts'
import { nightlyTest } from '#test/support/nightly.ts'

const startsMs = 90_000
const pageBytesMax = 100_000
const viewerKey = 'lk_demo_viewer_000000000000000000000'
const recordsKey = 'lk_demo_0000000000000000000000000000'
let dashboard: RunningDashboard
let browser: TestBrowser

beforeAll(async () => {
  dashboard = await startDashboard()
  browser = await openBrowser()
}, startsMs)
afterAll(async () => {
  await browser.close()
  await dashboard.close()
}, startsMs)

/** Runs the steps in a new browser context, and expects no browser errors. */
async function visit(
  work: (page: Page, visitor: Visitor) => Promise<void>,
  options?: Parameters<TestBrowser['visitor']>[1],
): Promise<void> {
  const visitor = await browser.visitor(dashboard.origin, options)
  try {
    await work(visitor.page, visitor)
    expect(visitor.troubles).toEqual([])
  } finally {
    await visitor.close()
  }
}

const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
  fetch(`${dashboard.origin}${path}`, {
    method: 'POST',
    body: new URLSearchParams(fields),
    headers: { 'Sec-Fetch-Site': 'same-origin', ...headers },
    redirect: 'manual',
  })

/** Opens a session without a browser: its cookie, and a form's CSRF token. */
async function session(): Promise<{ cookie: string; csrf: string }> {
  const answer = await post('/sign-in', { token: dashboard.token, next: '/' })
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
  const page = await (await fetch(`${dashboard.origin}/`, { headers: { Cookie: cookie } })).text()
  return { cookie, csrf: /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '' }
}

describe('frame', () => {
  test('sign-in: an invalid token is refused with a message, and a valid token opens the requested page', () =>
    visit(async (page) => {
      await page.goto('/?range=7d')
      expect(new URL(page.url()).pathname).toBe('/sign-in')
      await page.getByLabel(/token/i).fill('nonsense')
      await page.getByRole('button', { name: 'Sign in' }).click()
      expect(await page.getByRole('alert').textContent()).toContain('not valid')
      await page.getByLabel(/token/i).fill(dashboard.token)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      expect(page.url()).toEndWith('/?range=7d')
    }))

  test('sign-in: the URL printed by the dev server fills in the token, which is then removed from the address bar', () =>
    visit(async (page) => {
      await page.goto(`/sign-in#token=${dashboard.token}`)
      expect(await page.getByLabel(/token/i).inputValue()).toBe(dashboard.token)
      expect(page.url()).toBe(`${dashboard.origin}/sign-in`)
    }))

  test('sign-out: ends the session on the server', async () => {
    const { cookie, csrf } = await session()
    const with_ = (path: string) =>
      fetch(`${dashboard.origin}${path}`, { headers: { Cookie: cookie }, redirect: 'manual' })
    expect((await with_('/')).status).toBe(200)
    const out = await post('/sign-out', { csrf }, { Cookie: cookie })
    expect([out.status, out.headers.get('location')]).toEqual([303, '/sign-in'])
    expect(out.headers.get('set-cookie')).toContain('Max-Age=0')
    expect((await with_('/')).headers.get('location')).toBe('/sign-in')
    expect((await with_('/live')).status).toBe(303)
  })

  test('sign-in: an API key needs a dashboard scope and opens only its tenant', async () => {
    const refused = await post('/sign-in', { token: recordsKey, next: '/' })
    expect(refused.status).toBe(403)
    expect(await refused.text()).toContain('neither the scope')
    await visit(async (page) => {
      await signIn(page, viewerKey)
      expect(await page.locator('.tenant-name').textContent()).toBe('demo')
      expect(await page.getByText('Busiest tenants').count()).toBe(0)
      for (const other of ['corner-shop', 'demo/corner-shop', 'nobody', 'ten_00000000000000000000000000']) {
        const answer = await page.goto(`/?tenant=${encodeURIComponent(other)}`)
        expect([other, answer?.status()]).toEqual([other, 404])
      }
    })
  })
})

describe('forms', () => {
  test('forms: a form with a missing, invalid or foreign CSRF token is refused', async () => {
    const { cookie } = await session()
    const other = await session()
    for (const csrf of ['', 'x', other.csrf]) {
      const answer = await post('/sign-out', { csrf }, { Cookie: cookie })
      expect([answer.status, answer.headers.get('location')]).toEqual([400, null])
    }
  })

  test.each([
    ['of another site', { 'Sec-Fetch-Site': 'cross-site' }],
    ['of a sibling host', { 'Sec-Fetch-Site': 'same-site' }],
  ])('forms: a form %s is refused', async (_case, headers) => {
    const { cookie, csrf } = await session()
    expect(
      (await post('/theme', { csrf, theme: 'dark', next: '/' }, { ...headers, Cookie: cookie })).status,
    ).toBe(400)
    expect((await post('/sign-in', { token: dashboard.token }, headers)).status).toBe(400)
  })

  test('forms: the redirect after a form stays on this site', async () => {
    const { cookie, csrf } = await session()
    for (const next of ['//evil.example', 'https://evil.example/', '/\\evil.example']) {
      const answer = await post('/theme', { csrf, theme: 'dark', next }, { Cookie: cookie })
      expect(answer.headers.get('location')).toBe('/')
    }
  })
})

test('dashboard: a link on another site opens the page although the browser does not send the cookie', async () => {
  const { page, close } = await browser.visitor(dashboard.origin)
  const elsewhere = Bun.serve({
    port: 0,
    fetch: () =>
      new Response(`<a href="${dashboard.origin}/?range=6h">look</a>`, {
        headers: { 'Content-Type': 'text/html' },
      }),
  })
  try {
    await signIn(page, dashboard.token)
    // Uses the name `localhost`, which is another site than the dashboard.
    await page.goto(`http://localhost:${elsewhere.port}/`)
    await page.getByText('look').click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(page.url()).toEndWith('/?range=6h')
  } finally {
    await elsewhere.stop(true)
    await close()
  }
})

test('dashboard: every response has a Content-Security-Policy that allows only our origin and no inline scripts', async () => {
  const { cookie } = await session()
  for (const path of ['/', '/sign-in', '/nothing-here', '/?tenant=nobody']) {
    const answer = await fetch(`${dashboard.origin}${path}`, { headers: { Cookie: cookie } })
    const policy = answer.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toMatch(/unsafe|http:|https:|\*/)
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const html = await answer.text()
    expect(html).not.toMatch(/\sstyle=|\son[a-z]+=|<script(?! src="\/assets\/)|<style|javascript:/i)
    expect(html).not.toMatch(/(src|href)="(https?:)?\/\//)
  }
})

test('dashboard: the theme can be switched without scripts, and is remembered', () =>
  visit(
    async (page) => {
      await signIn(page, dashboard.token)
      const theme = () => page.locator('html').getAttribute('data-theme')
      expect(await theme()).toBe('auto')
      await page.getByRole('button', { name: 'Dark' }).click()
      await page.getByRole('button', { name: 'Dark', pressed: true }).waitFor()
      await page.goto('/?range=1h')
      expect(await theme()).toBe('dark')
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByRole('heading', { name: 'Sign in to Latchkey' }).waitFor()
      expect(await theme()).toBe('dark')
    },
    { runsScripts: false },
  ))

test('dashboard: the search opens the matching tenant, or the list of tenants if no tenant matches', () =>
  visit(async (page) => {
    await signIn(page, dashboard.token, '/?range=6h')
    await page.getByLabel('Tenant', { exact: true }).fill('demo/corner-shop')
    await page.getByRole('button', { name: 'Show this tenant' }).click()
    await page.getByRole('link', { name: 'Show all tenants' }).waitFor()
    expect(new URL(page.url()).searchParams.get('tenant')).toStartWith('ten_')
    await page.getByLabel('Tenant', { exact: true }).fill('no such shop')
    await page.getByRole('button', { name: 'Show this tenant' }).click()
    await page.waitForURL('**/tenants?search=no+such+shop')
  }))

test('dashboard: the first tab stop skips the navigation', () =>
  visit(async (page) => {
    await signIn(page, dashboard.token)
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
  }))

test('dashboard: the navigation opens on a phone without scripts', () =>
  visit(
    async (page) => {
      await signIn(page, dashboard.token)
      expect(await page.getByRole('link', { name: 'Tenants' }).isVisible()).toBe(false)
      await page.getByRole('link', { name: 'Menu', exact: true }).click()
      expect(await page.getByRole('link', { name: 'Tenants' }).isVisible()).toBe(true)
      const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
      expect(overflow).toBe(0)
    },
    { width: 390, height: 844, runsScripts: false },
  ))

test('dashboard: times are in the browser’s time zone, in UTC on hover, and all in UTC after a switch', () =>
  visit(
    async (page) => {
      await signIn(page, dashboard.token, '/audit')
      await page.getByText('Times in Asia/Tokyo').waitFor()
      const time = page.locator('td time, th time').first()
      const instant = Date.parse((await time.getAttribute('datetime')) ?? '')
      const utc = new Date(instant).toISOString()
      const tokyo = new Date(instant + 9 * 3_600_000).toISOString()
      expect(await time.textContent()).toEndWith(`, ${tokyo.slice(11, 19)}`)
      expect(await time.getAttribute('title')).toBe(`${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC`)
      // The filter accepts a time in the format of the list.
      await page.getByLabel('From (Asia/Tokyo)').fill(tokyo.slice(0, 19))
      await page.getByRole('button', { name: 'Filter' }).click()
      await page.waitForURL(/from=/)
      expect(await page.locator('td time, th time').last().getAttribute('datetime')).toStartWith(
        utc.slice(0, 19),
      )
      await page.getByRole('button', { name: 'UTC', exact: true }).click()
      await page.getByText('Times in UTC').waitFor()
      expect(await page.getByLabel('From (UTC)').inputValue()).toBe(utc.slice(0, 19))
      expect(await time.textContent()).toEndWith(' UTC')
      await page.getByRole('button', { name: 'Tokyo', exact: true }).click()
      await page.getByText('Times in Asia/Tokyo').waitFor()
    },
    { timezone: 'Asia/Tokyo' },
  ))

nightlyTest(
  'dashboard: the overview refreshes by itself and shows new data',
  () =>
    visit(async (page) => {
      await signIn(page, dashboard.token, '/?range=1h')
      const accepted = page.locator('.tile').filter({ hasText: 'Accepted' }).locator('.tile-value')
      expect(await accepted.textContent()).toBe('0')
      const answer = await fetch(`${dashboard.api}/v1/webhooks/generic`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${recordsKey}`, 'Content-Type': 'application/json' },
        body: '{}',
      })
      // The call is unsigned, so it is counted as refused.
      expect(answer.status).toBe(400)
      const refused = page.locator('.tile').filter({ hasText: 'Refused' }).locator('.tile-value')
      await refused.filter({ hasText: /^1$/ }).waitFor({ timeout: 45_000 })
    }),
  60_000,
)

test.each(['light', 'dark'] as const)(
  'sign-in: the page has no serious accessibility finding in the %s theme and transfers few bytes',
  (colorScheme) =>
    visit(
      async (page, { transferredBytes }) => {
        await page.goto('/sign-in', { waitUntil: 'load' })
        expect(await seriousFindings(page)).toEqual([])
        expect(await transferredBytes()).toBeLessThan(pageBytesMax)
      },
      { colorScheme },
    ),
)

test(
  'dashboard: the demo’s overview has no serious finding, and the dev server stops while a browser streams the page',
  async () => {
    const own = await startDashboard({ LATCHKEY_DEV_DEMO: 'true' })
    const visitor = await browser.visitor(own.origin)
    const { page } = visitor
    try {
      const followed = page.waitForResponse((answer) => new URL(answer.url()).pathname === '/live')
      await signIn(page, own.token, '/?range=24h')
      await followed
      // Waits for the demo's history, which is written concurrently and appears with the next update of the page.
      await page.locator('svg.drawing').nth(3).waitFor({ timeout: 45_000 })
      const { transferredBytes } = visitor
      for (const look of [{}, { colorScheme: 'dark' as const }]) {
        await page.emulateMedia(look)
        expect(await seriousFindings(page)).toEqual([])
      }
      await page.locator('svg.drawing').first().hover()
      expect(await page.locator('[data-readout]').first().textContent()).toMatch(/Accepted \d+/)
      expect(await transferredBytes()).toBeLessThan(pageBytesMax)
      expect(visitor.troubles).toEqual([])
    } finally {
      const startedAt = performance.now()
      await own.close()
      expect(performance.now() - startedAt).toBeLessThan(20_000)
      await visitor.close()
    }
  },
  startsMs,
)
