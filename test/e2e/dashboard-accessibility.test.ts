import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { pages } from '#internal/dashboard/pages/pages.ts'
import {
  type AskedRight,
  adminToken,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import { dashboardTenantYaml, type SeededTenant, seedTenant } from '#test/support/backoffice-tenants.ts'
import { openBrowser, seriousFindings, signIn, type TestBrowser } from '#test/support/browser.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/callback-receiver.ts'
import { openDashboardSession } from '#test/support/dashboard-session.ts'

const startsMs = 90_000
const visitMs = 60_000
let receiver: CallbackReceiver
let backoffice: TestBackoffice
let acme: SeededTenant
let browser: TestBrowser

beforeAll(async () => {
  receiver = startReceiver()
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme', { callbackUrl: receiver.url }))
  acme = await seedTenant(backoffice, 'acme')
  browser = await openBrowser()
}, startsMs)
afterAll(async () => {
  await browser.close()
  await backoffice.close()
  await receiver.stop()
}, startsMs)

/** Signs in, runs the steps, and expects no trouble in the browser. */
async function visit(work: (page: Page) => Promise<void>, token = adminToken): Promise<void> {
  const visitor = await browser.visitor(backoffice.url)
  try {
    await signIn(visitor.page, token, '/tenants')
    await work(visitor.page)
    expect(visitor.troubles).toEqual([])
  } finally {
    await visitor.close()
  }
}

/** Expects no serious finding on the current page in either theme and on a phone, and no horizontal scrolling. */
async function isFine(page: Page): Promise<void> {
  for (const [colorScheme, width] of [
    ['light', 1_280],
    ['dark', 390],
  ] as const) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme })
    expect([page.url(), colorScheme, await seriousFindings(page)]).toEqual([page.url(), colorScheme, []])
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect([page.url(), width, overflow <= 0]).toEqual([page.url(), width, true])
  }
  await page.setViewportSize({ width: 1_280, height: 900 })
}

/** Query with which a page shows the most; path parameters are filled in. */
const queries: Readonly<Record<string, string>> = {
  '/go': '?find=acme',
  '/events': '?tenant=acme',
  '/refused': '?tenant=acme',
  '/usage': '?tenant=acme&values=shown',
  '/usage/override': '?tenant=acme&limit=recordBytes',
  '/usage/override/clear': '?tenant=acme&limit=recordBytes',
  '/simulations/new': '?tenant=acme',
  '/executions': '?tenant=acme',
  '/settings/change': '?name=forwarding.paused',
  '/settings/clear': '?name=log.sampling',
  '/replays/new': '?tenant=acme',
  '/replays/preview': '?tenant=acme&from=2026-01-01T00:00&state=delivery_failed',
}

function addressOf(path: string): string {
  const filled = path
    .replace('/events/:id', `/events/${acme.failedId}`)
    .replace('/replays/:id', `/replays/${acme.replayId}`)
    .replace(':simulation', acme.simulationId)
    .replace(':tenant', 'acme')
  return `${filled}${queries[path] ?? ''}`
}

test.each(pages.filter(({ method }) => method === 'GET').map(({ path }) => path))(
  'accessibility: the page %s has no serious finding',
  (path) =>
    visit(async (page) => {
      const answer = await page.goto(addressOf(path))
      // Covers every page of the route table; a page that needs a query gets it in addressOf.
      expect([addressOf(path), answer?.status()]).toEqual([addressOf(path), 200])
      expect(await page.getByText(/Choose a tenant$/).count()).toBe(0)
      await isFine(page)
    }),
  visitMs,
)

describe('accessibility of form responses', () => {
  const button = (page: Page, name: string) => page.getByRole('button', { name })

  test(
    'accessibility: the errors (422) and the confirmation of an override have no serious finding',
    () =>
      visit(async (page) => {
        await page.goto(addressOf('/usage/override'))
        const until = page.getByLabel('Until (UTC)')
        const tomorrow = await until.inputValue()
        await page.getByLabel('Amount').fill('250000')
        await page.getByLabel('Reason').fill('A sale on Friday')
        await until.fill('2026-01-01T00:00:00')
        await button(page, 'Continue').click()
        await page.getByText('This time has passed').waitFor()
        await isFine(page)
        await until.fill(tomorrow)
        await button(page, 'Continue').click()
        await button(page, 'Override the limit').waitFor()
        await isFine(page)
      }),
    visitMs,
  )

  test(
    'accessibility: a setting changed by another user (409) has no serious finding',
    () =>
      visit(async (page) => {
        const other = await openDashboardSession(backoffice.url, adminToken)
        await page.goto(addressOf('/settings/change'))
        const fields = { name: 'forwarding.paused', value: 'true', version: '0' }
        expect((await other.post('/settings/change', fields)).status).toBe(303)
        await page.getByLabel('Value').selectOption('false')
        await button(page, 'Change the setting').click()
        await page.getByText('This setting was changed meanwhile').waitFor()
        await isFine(page)
      }),
    visitMs,
  )

  test.each([
    [200, 'The callback accepted the event'],
    [500, 'A delivery like this one would have failed'],
  ])(
    'accessibility: a test event answered with %d has no serious finding',
    (status, text) =>
      visit(async (page) => {
        receiver.answer(() => Response.json({ stock: 0 }, { status }))
        await page.goto(addressOf('/tenants/:tenant/test'))
        await button(page, 'Send the test event').click()
        await page.getByText(text).waitFor()
        await isFine(page)
      }),
    visitMs,
  )

  test(
    'accessibility: an unredacted payload has no serious finding',
    () =>
      visit(async (page) => {
        await page.goto(addressOf('/events/:id'))
        await button(page, 'Reveal as received').click()
        await page.getByText('was recorded in the audit log').waitFor()
        await isFine(page)
      }),
    visitMs,
  )
})

describe('accessibility of replacement pages', () => {
  const seer = someUser()
  const mayOnlySee = ({ user, verb, subresource }: AskedRight) =>
    user === seer && verb === 'get' && subresource === ''

  test.each([
    [
      'the page for a forbidden action (403)',
      () => seer,
      '/simulations/new?tenant=acme',
      403,
      'You may not do this',
    ],
    [
      'the page for a user without known namespaces (403)',
      someUser,
      '/tenants',
      403,
      'Which namespaces are yours?',
    ],
    ['the page for a missing object (404)', () => adminToken, '/events/evt_0', 404, 'There is nothing here'],
    ['the page for an unknown URL (404)', () => adminToken, '/nowhere', 404, 'There is no such page'],
    ['a page without a selected tenant', () => adminToken, '/usage', 200, 'Choose a tenant'],
    [
      'a page with an invalid query (422)',
      () => adminToken,
      '/replays/preview?from=&rate=0',
      422,
      'Give a time in UTC',
    ],
  ])(
    'accessibility: %s has no serious finding',
    (_what, token, path, status, text) =>
      visit(async (page) => {
        backoffice.allow(mayOnlySee)
        const answer = await page.goto(path)
        expect(answer?.status()).toBe(status)
        await page.getByText(text).first().waitFor()
        await isFine(page)
      }, token()),
    visitMs,
  )
})
