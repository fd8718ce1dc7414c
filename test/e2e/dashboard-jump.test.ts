import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import {
  openBrowser,
  seriousFindings,
  sidewaysScrolling,
  signIn,
  type TestBrowser,
  type VisitorOptions,
} from '#test/support/dashboard/browser.ts'
import { type RunningDashboard, startDashboard } from '#test/support/dashboard/dashboard.ts'
import { usualCases } from '#test/support/nightly.ts'

const startsMs = 90_000
const stepMs = 60_000
let dashboard: RunningDashboard
let browser: TestBrowser

beforeAll(async () => {
  dashboard = await startDashboard({ LATCHKEY_DEV_DEMO: 'true' })
  browser = await openBrowser()
}, startsMs)
afterAll(async () => {
  await browser.close()
  await dashboard.close()
}, startsMs)

async function visit(
  path: string,
  work: (page: Page) => Promise<void>,
  options?: VisitorOptions,
): Promise<void> {
  const visitor = await browser.visitor(dashboard.origin, options)
  try {
    await signIn(visitor.page, dashboard.token, path)
    await work(visitor.page)
    expect(visitor.troubles).toEqual([])
  } finally {
    await visitor.close()
  }
}

const focused = (page: Page) => page.evaluate<string>('document.activeElement.getAttribute("name")')
const selected = (page: Page) => page.locator('dialog [role=option][aria-selected=true]')

test(
  'jump: Ctrl+K opens a dialog that searches while typing, Escape returns the focus, and Enter opens the chosen result',
  () =>
    visit('/events', async (page) => {
      await page.getByLabel('Event/provider id').focus()
      await page.keyboard.press('Control+K')
      await page.getByRole('option', { name: 'Audit log' }).waitFor()
      await page.keyboard.press('Escape')
      expect(await page.getByRole('dialog').count()).toBe(0)
      expect(await focused(page)).toBe('find')

      await page.keyboard.press('Control+K')
      let requests = 0
      page.on('request', (request) => {
        if (request.url().includes('/jump')) requests++
      })
      await page.keyboard.type('shop', { delay: 10 })
      await page.getByRole('option', { name: 'Demo Shop' }).waitFor()
      expect(requests).toBeLessThanOrEqual(2)
      const input = page.getByRole('combobox', { name: 'Tenant, event, type, setting or page' })
      const first = await selected(page).getAttribute('id')
      expect(await input.getAttribute('aria-activedescendant')).toBe(first)
      await page.keyboard.press('ArrowDown')
      expect(await input.getAttribute('aria-activedescendant')).not.toBe(first)
      await page.keyboard.press('ArrowUp')
      expect(await input.getAttribute('aria-activedescendant')).toBe(first)

      // Enter waits for the results of the latest input.
      await input.fill('audit')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/audit')
    }),
  stepMs,
)

const looks: readonly [string, VisitorOptions][] = [
  ['the dark theme at 320 px', { width: 320, height: 600, colorScheme: 'dark' }],
  ['the light theme at 1440 px', { width: 1_440 }],
]
test.each(usualCases(looks, 1))(
  'jump: the accessibility check of the open dialog reports no serious violation in %s',
  (_look, options) =>
    visit(
      '/events',
      async (page) => {
        for (const text of ['demo', 'no such thing']) {
          await page.keyboard.press('Control+K')
          const answered = page.waitForResponse((answer) => answer.url().includes(`find=${text.slice(0, 2)}`))
          await page.getByRole('combobox', { name: 'Tenant, event, type, setting or page' }).fill(text)
          await answered
          await page.getByText(/result|Nothing found/).waitFor()
          expect(await seriousFindings(page)).toEqual([])
          expect(await sidewaysScrolling(page)).toEqual([])
          await page.keyboard.press('Escape')
        }
      },
      options,
    ),
)

test(
  'jump: without scripts, the form in the header leads to the same results',
  () =>
    visit(
      '/events',
      async (page) => {
        await page.getByRole('search', { name: 'Jump to' }).getByRole('textbox').fill('demo shop')
        await page.keyboard.press('Enter')
        await page.getByRole('link', { name: 'Demo Shop' }).click()
        await page.getByRole('heading', { name: 'Demo Shop' }).waitFor()
      },
      { runsScripts: false },
    ),
  stepMs,
)

test(
  'charts: a click on a point opens the list for its time, and without scripts the values and the legend are links to this list',
  async () => {
    const isListOf = async (page: Page, minutes: number) => {
      await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
      const { searchParams } = new URL(page.url())
      const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name) ?? ''))
      expect(((to ?? 0) - (from ?? 0)) / 60_000).toBe(minutes)
    }
    await visit('/?range=1h', async (page) => {
      const drawing = page.locator('svg.drawing').first()
      await drawing.waitFor({ timeout: 45_000 })
      const { x, y, width, height } = (await drawing.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 }
      await page.mouse.move(x + width / 2, y + height / 2)
      await page.mouse.click(x + width / 2, y + height / 2)
      await isListOf(page, 1)
    })
    await visit(
      '/?range=1h&values=shown',
      async (page) => {
        await page.locator('.values tbody a').first().click()
        await isListOf(page, 1)
        await page.goBack()
        // The list covers an hour and the minute in progress, 61 minutes.
        await page.locator('.legend').getByRole('link', { name: 'Accepted' }).click()
        await isListOf(page, 61)
      },
      { runsScripts: false },
    )
  },
  stepMs,
)
