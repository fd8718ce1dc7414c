import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { openBrowser, signIn, type TestBrowser } from '#test/support/dashboard/browser.ts'
import { type RunningDashboard, startDashboard } from '#test/support/dashboard/dashboard.ts'

const startsMs = 90_000
const stepMs = 60_000
const recordsKey = 'lk_demo_0000000000000000000000000000'
let dashboard: RunningDashboard
let browser: TestBrowser

beforeAll(async () => {
  dashboard = await startDashboard()
  browser = await openBrowser()
  await fetch(`${dashboard.api}/v1/record`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${recordsKey}`,
      'x-api-key': recordsKey,
      'Content-Type': 'application/json',
    },
    body: JSON.stringify({ scope: 'payments', key: 'order-1' }),
  })
}, startsMs)
afterAll(async () => {
  await browser.close()
  await dashboard.close()
}, startsMs)

/** Signs in, runs the steps, and expects no browser errors. */
async function visit(
  work: (page: Page) => Promise<void>,
  options?: Parameters<TestBrowser['visitor']>[1],
): Promise<void> {
  const visitor = await browser.visitor(dashboard.origin, options)
  try {
    await signIn(visitor.page, dashboard.token, '/tenants')
    await work(visitor.page)
    expect(visitor.troubles).toEqual([])
  } finally {
    await visitor.close()
  }
}

const button = (page: Page, name: string) => page.getByRole('button', { name })

describe('without scripts', () => {
  const runsScripts = false

  test(
    'dashboard without scripts: a tenant can be found, and its callback receives a test event',
    () =>
      visit(
        async (page) => {
          await page.getByLabel('Search').fill('DEM')
          await button(page, 'Filter').click()
          await page.getByRole('link', { name: 'Demo Shop' }).click()
          await page.getByText('/v1/t/demo/webhooks/card').waitFor()
          await page.getByRole('link', { name: 'Send a test event' }).click()
          await button(page, 'Send the test event').click()
          await page.getByText('The callback accepted the event').waitFor()
        },
        { runsScripts },
      ),
    stepMs,
  )

  test(
    'dashboard without scripts: after a validation error and a confirmation, a limit is overridden and later restored',
    () =>
      visit(
        async (page) => {
          await page.goto('/usage?tenant=demo')
          await page.getByRole('link', { name: 'Override Events per month' }).click()
          const until = page.getByLabel('Until (UTC)')
          const tomorrow = await until.inputValue()
          await page.getByLabel('Amount').fill('250000')
          await page.getByLabel('Reason').fill('A sale on Friday')
          await until.fill('2026-01-01T00:00:00')
          await button(page, 'Continue').click()
          await page.getByText('This time has passed').waitFor()
          expect(await until.getAttribute('aria-invalid')).toBe('true')
          expect(await page.getByLabel('Amount').inputValue()).toBe('250000')
          await until.fill(tomorrow)
          await button(page, 'Continue').click()
          await button(page, 'Override the limit').click()
          await page.getByText('“A sale on Friday”').waitFor()
          await page.getByRole('link', { name: /^End the override of/ }).click()
          await button(page, 'End the override').click()
          await page.getByText('the override was ended').waitFor()
          await page.goto('/audit?action=usage.')
          await page.getByText('A sale on Friday').first().waitFor()
        },
        { runsScripts },
      ),
    stepMs,
  )

  test(
    'dashboard without scripts: a setting can be changed and cleared',
    () =>
      visit(
        async (page) => {
          await page.goto('/settings')
          await page.getByRole('link', { name: 'Change providers.codehost.paused' }).click()
          await page.getByLabel('Value').selectOption('true')
          await button(page, 'Change the setting').click()
          await page.getByText('Paused', { exact: true }).waitFor()
          await page.getByRole('link', { name: 'Clear providers.codehost.paused' }).click()
          await button(page, 'Resume').click()
          await page.getByText('Calls of codehost for all tenants are accepted again').waitFor()
        },
        { runsScripts },
      ),
    stepMs,
  )

  test(
    'dashboard without scripts: lock history can be found by scope and key',
    () =>
      visit(
        async (page) => {
          await page.goto('/executions?tenant=demo')
          await page.getByLabel('Scope').fill('payments')
          await page.getByLabel('Key').fill('order-1')
          await button(page, 'Filter').click()
          await page.getByRole('link', { name: 'order-1' }).waitFor()
          expect(new URL(page.url()).searchParams.get('key')).toBe('order-1')
        },
        { runsScripts },
      ),
    stepMs,
  )
})

test(
  'dashboard: a simulation is started, advanced and followed to its end without reloading the page',
  () =>
    visit(async (page) => {
      await page.goto('/simulations/new?tenant=demo')
      await page.getByLabel('Seconds between events').fill('3600')
      await page.getByLabel('Outcome').selectOption('lost')
      await button(page, 'Start the simulation').click()
      await page.getByText('The simulation was started').waitFor()
      const sent = (count: number) => page.locator('.badge', { hasText: /^Sent$/ }).nth(count - 1)
      await sent(1).waitFor()
      for (const next of ['chargeback.under_review', 'chargeback.lost'])
        await button(page, `Send ${next} now`).click()
      await page.getByText('The next event is due now').waitFor()
      // From here on, all changes arrive over the stream, without clicks or requests.
      await page.evaluate('window.isSame = true')
      await sent(3).waitFor()
      await page.locator('.badge', { hasText: 'Completed' }).waitFor()
      expect(await page.evaluate<boolean>('window.isSame === true')).toBe(true)
    }),
  stepMs,
)

test(
  'dashboard: an open page shows a pause, with a way to resume, and its end within two seconds',
  () =>
    visit(async (page) => {
      const context = page.context()
      const other = await context.newPage()
      const followed = page.waitForResponse((answer) => answer.url().includes('/live'))
      await page.goto('/audit')
      await followed
      await other.goto('/settings/change?name=forwarding.paused')
      await other.getByLabel('Value').selectOption('true')
      await button(other, 'Change the setting').click()
      const pausedAt = performance.now()
      await page.getByText('Deliveries paused for all tenants').waitFor({ timeout: 5_000 })
      expect(performance.now() - pausedAt).toBeLessThan(2_000)
      await other.goto('/')
      await other.getByRole('link', { name: 'Resume', exact: true }).click()
      await button(other, 'Resume').click()
      const resumedAt = performance.now()
      await page.getByText('Deliveries paused for all tenants').waitFor({ state: 'detached', timeout: 5_000 })
      expect(performance.now() - resumedAt).toBeLessThan(2_000)
    }),
  stepMs,
)

test(
  'dashboard: a pause and its end change the badges within two seconds, without moving anything under the pointer or the focus',
  () =>
    visit(async (page) => {
      const context = page.context()
      const other = await context.newPage()
      const followed = page.waitForResponse((answer) => answer.url().includes('/live'))
      await page.goto('/tenants/demo')
      await followed
      const link = page.locator('main').getByRole('link', { name: 'Lock history' })
      await link.focus()
      await link.hover()
      const place = async () => ({
        box: await link.boundingBox(),
        isFocused: await link.evaluate((element) => element === document.activeElement),
        isHovered: await link.evaluate((element) => element.matches(':hover')),
      })
      const before = await place()
      expect(before).toMatchObject({ isFocused: true, isHovered: true })
      const badge = (name: string) => page.locator('h1 .badge', { hasText: name }).waitFor({ timeout: 2_000 })
      const change = async (value: string) => {
        await other.goto('/settings/change?name=forwarding.paused&tenant=demo')
        await other.getByLabel('Value').selectOption(value)
        await button(other, 'Change the setting').click()
      }
      await badge('Ready')
      await change('true')
      await badge('Paused')
      await page.locator('.news-bar').getByText('Deliveries paused for demo').waitFor({ timeout: 2_000 })
      expect(await place()).toEqual(before)
      await change('false')
      await badge('Ready')
      await page.getByText('Deliveries paused for demo').waitFor({ state: 'detached', timeout: 2_000 })
      expect(await place()).toEqual(before)

      // A notice that was on the page when it loaded keeps its place after the pause ends.
      await change('true')
      const again = page.waitForResponse((answer) => answer.url().includes('/live'))
      await page.reload()
      await again
      const notice = page.locator('.notice', { hasText: 'Deliveries paused for demo' })
      await notice.waitFor()
      await link.focus()
      await link.hover()
      const under = await place()
      await change('false')
      await badge('Ready')
      await page.locator('.notice.is-ended').waitFor({ timeout: 2_000 })
      expect(await place()).toEqual(under)
      expect(await notice.getByRole('link', { name: 'Resume' }).isVisible()).toBe(false)
      // The overview also keeps the places of its notices.
      await page.goto('/?tenant=demo')
      await change('true')
      await page.locator('.news-bar').getByText('Deliveries paused for demo').waitFor({ timeout: 5_000 })
      expect(await page.getByText('Needs attention').count()).toBe(0)
      await page.locator('.news-bar').getByRole('link', { name: 'Show' }).click()
      await page.getByText('Needs attention').waitFor()
      await change('false')
      await page.locator('.attention .is-ended').waitFor({ timeout: 5_000 })
    }),
  stepMs,
)
