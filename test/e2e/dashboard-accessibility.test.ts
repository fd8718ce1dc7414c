import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { pages } from '#internal/dashboard/pages/pages.ts'
import { suspendQueue } from '#internal/events/index.ts'
import {
  type AskedRight,
  adminToken,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import {
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import {
  openBrowser,
  seriousFindings,
  sidewaysScrolling,
  signIn,
  type TestBrowser,
  type Visitor,
} from '#test/support/dashboard/browser.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { addAttempt, someExchange } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { isNightly, usualCases } from '#test/support/nightly.ts'

const startsMs = 90_000
const visitMs = 60_000
/** Bound of a first visit: the page and all of its files. */
const pageBytesMax = 100_000
let receiver: CallbackReceiver
let backoffice: TestBackoffice
let acme: SeededTenant
let browser: TestBrowser
let admin: Visitor

beforeAll(async () => {
  receiver = startReceiver()
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme', { callbackUrl: receiver.url }))
  acme = await seedTenant(backoffice, 'acme')
  await addAttempt(backoffice.pool, acme.failedId, {
    exchange: someExchange,
    answer: '{"error":"out of stock"}',
  })
  await addAttempt(backoffice.pool, acme.failedId, {
    attempt: 2,
    exchange: busyExchange,
    answer: '{"error":"sold"}',
  })
  const session = await openDashboardSession(backoffice.url, adminToken)
  for (const name of [
    'Failed today',
    'W'.repeat(60),
    ...Array.from({ length: 12 }, (_none, nth) => `View ${nth}`),
  ])
    await session.post('/events/views', { name, tenant: 'acme', state: 'delivery_failed' })
  browser = await openBrowser()
  admin = await open(adminToken)
}, startsMs)
afterAll(async () => {
  await browser.close()
  await backoffice.close()
  await receiver.stop()
}, startsMs)

/** Exchange with long texts. */
const busyExchange = {
  ...someExchange,
  isReused: true,
  connectMs: undefined,
  tlsMs: undefined,
  headersOmitted: 3,
  url: `https://shop.example.com/${'long-path/'.repeat(12)}`,
  headers: [
    ['content-security-policy', "default-src 'self'; ".repeat(12)],
    ['x-shard', '8'],
  ],
} as const

/** Opens a signed-in browser context with an empty cache. */
async function open(token: string): Promise<Visitor> {
  const visitor = await browser.visitor(backoffice.url)
  await signIn(visitor.page, token, '/tenants')
  const debug = await visitor.page.context().newCDPSession(visitor.page)
  await debug.send('Network.setCacheDisabled', { cacheDisabled: true })
  return visitor
}

/** Opens an address, and expects this status and a bounded transfer. */
async function visit(path: string, { page, transferredBytes }: Visitor = admin, status = 200): Promise<Page> {
  await transferredBytes()
  const answer = await page.goto(path)
  expect([path, answer?.status()]).toEqual([path, status])
  expect(await transferredBytes()).toBeLessThan(pageBytesMax)
  return page
}

/** Viewport widths in CSS pixels, also those of windows of 1024 and 1280 px at 200 % zoom (512 and 640). */
const widths = isNightly ? [320, 390, 512, 640, 720, 900, 1_024, 1_280, 1_440, 1_920] : [320, 640, 1_280]

/** Width in which `mm/dd/yyyy, --:--:-- --` is not cut off. */
const timeWidthMin = 230

type Look = readonly [colorScheme: 'light' | 'dark', width: number]
const usualLooks: readonly Look[] = [
  ['light', 1_280],
  ['dark', 390],
]
const edgeLooks: readonly Look[] = [
  ['light', 320],
  ['dark', 320],
  ['light', 1_440],
  ['dark', 1_440],
]

/** Number of checked pages: a change checks each page in one of the usual looks in turn. */
let pagesChecked = 0

function nextLooks(): readonly Look[] {
  pagesChecked += 1
  return isNightly ? usualLooks : usualLooks.filter((_look, nth) => nth === pagesChecked % usualLooks.length)
}

/** Expects no serious finding on the current page in these looks, no horizontal scrolling, and no browser errors. */
async function isFine(
  { page, troubles }: Visitor = admin,
  looks: readonly Look[] = nextLooks(),
): Promise<void> {
  for (const [colorScheme, width] of looks) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme })
    expect([page.url(), colorScheme, await seriousFindings(page)]).toEqual([page.url(), colorScheme, []])
  }
  const scrolling: string[] = []
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 })
    scrolling.push(...(await sidewaysScrolling(page)).map((where) => `${width} px: ${where}`))
    for (const time of await page.locator('input[type=datetime-local]:visible').all())
      expect((await time.boundingBox())?.width).toBeGreaterThanOrEqual(timeWidthMin)
  }
  expect([page.url(), scrolling]).toEqual([page.url(), []])
  await page.setViewportSize({ width: 1_280, height: 900 })
  expect(troubles).toEqual([])
}

/** Queries that show most of a page's content, by path. */
const queries: Readonly<Record<string, string>> = {
  '/go': '?find=acme',
  '/jump': '?find=acme',
  '/events': '?tenant=acme',
  '/events/search': '?tenant=acme',
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
    .replace(':attempt', '1-2')
    .replace('/replays/:id', `/replays/${acme.replayId}`)
    .replace(':simulation', acme.simulationId)
    .replace(':type', 'payment.succeeded')
    .replace(':tenant', 'acme')
  return `${filled}${queries[path] ?? ''}`
}

/** Addresses in addition to the route table. */
const variants = [
  '/events',
  '/refused',
  '/?values=shown',
  '/tenants?search=nobody',
  '/settings?tenant=acme',
  '/audit?actor=nobody',
  '/events?type=no.such',
]
const invalid = ['/events?from=yesterday', '/executions?tenant=acme&key=only&from=never']

test.each([
  ...pages.filter(({ method }) => method === 'GET').map(({ path }) => path),
  ...variants,
  ...invalid,
])(
  'accessibility: the page %s has no serious finding and transfers few bytes',
  async (path) => {
    // Covers every page of the route table; a page that needs a query gets it in addressOf.
    const page = await visit(addressOf(path), admin, invalid.includes(path) ? 400 : 200)
    expect(await page.getByText(/Choose a tenant$/).count()).toBe(0)
    for (const details of await page.locator('main details > summary').all()) await details.click()
    await isFine()
  },
  visitMs,
)

const edgePages = [
  '/events',
  '/events?tenant=acme&state=delivery_failed',
  '/events?find=no-such&status=5xx',
  '/events/search?tenant=acme',
  '/refused',
  '/jump?find=acme',
  '/events/:id/attempts/:attempt',
]

test.each(usualCases(edgePages, 1))(
  'accessibility: the page %s has no serious finding at 320 and at 1440 px in both themes',
  async (path) => {
    const page = await visit(addressOf(path))
    for (const details of await page.locator('main details > summary').all()) await details.click()
    await isFine(admin, edgeLooks)
  },
  visitMs,
)

describe('accessibility of form responses', () => {
  const button = (page: Page, name: string) => page.getByRole('button', { name })

  test(
    'accessibility: the validation errors (422) and the confirmation of an override have no serious finding',
    async () => {
      const page = await visit(addressOf('/usage/override'))
      const until = page.getByLabel('Until (Europe/Berlin)')
      const tomorrow = await until.inputValue()
      await page.getByLabel('Amount').fill('250000')
      await page.getByLabel('Reason').fill('A sale on Friday')
      await until.fill('2026-01-01T00:00:00')
      await button(page, 'Continue').click()
      await page.getByText('This time has passed').waitFor()
      await isFine()
      await until.fill(tomorrow)
      await button(page, 'Continue').click()
      await button(page, 'Override the limit').waitFor()
      await isFine()
    },
    visitMs,
  )

  test(
    'accessibility: the page about a setting changed by another user (409) has no serious finding',
    async () => {
      const other = await openDashboardSession(backoffice.url, adminToken)
      const page = await visit(addressOf('/settings/change'))
      const fields = { name: 'forwarding.paused', value: 'true', version: '0' }
      expect((await other.post('/settings/change', fields)).status).toBe(303)
      await page.getByLabel('Value').selectOption('false')
      await button(page, 'Change the setting').click()
      await page.getByText('This setting was changed in the meantime').waitFor()
      await isFine()
    },
    visitMs,
  )

  test.each([
    [200, 'The callback accepted the event'],
    [500, 'Test delivery failed'],
  ])(
    'accessibility: the page of a test event answered with %d has no serious finding',
    async (status, text) => {
      receiver.answer(() => Response.json({ stock: 0 }, { status }))
      const page = await visit(addressOf('/tenants/:tenant/test'))
      await button(page, 'Send the test event').click()
      await page.getByText(text).waitFor()
      await isFine()
    },
    visitMs,
  )

  test(
    'accessibility: the matches of a search in payloads have no serious finding',
    async () => {
      const page = await visit(addressOf('/events/search'))
      await page.getByLabel('Text').fill('amount')
      await button(page, 'Search').click()
      await page.getByText('Everything was searched').waitFor()
      await isFine(admin, edgeLooks)
    },
    visitMs,
  )

  test(
    'accessibility: an unredacted payload has no serious finding',
    async () => {
      const page = await visit(addressOf('/events/:id'))
      await button(page, 'Reveal as received').click()
      await page.getByText('was recorded in the audit log').waitFor()
      await isFine()
    },
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
      'Permission denied',
    ],
    [
      'the page for a user without known namespaces (403)',
      someUser,
      '/tenants',
      403,
      'Choose your namespaces',
    ],
    ['the page for a missing object (404)', () => adminToken, '/events/evt_0', 404, 'Not found'],
    ['the page for an unknown URL (404)', () => adminToken, '/nowhere', 404, 'Page not found'],
    ['a page without a selected tenant', () => adminToken, '/usage', 200, 'Choose a tenant'],
    [
      'a page with an invalid query (422)',
      () => adminToken,
      '/replays/preview?from=&rate=0',
      422,
      'Enter a time such as',
    ],
  ])(
    'accessibility: %s has no serious finding',
    async (_what, token, path, status, text) => {
      backoffice.allow(mayOnlySee)
      const visitor = await open(token())
      const page = await visit(path, visitor, status)
      await page.getByText(text).first().waitFor()
      await isFine(visitor)
      await visitor.close()
    },
    visitMs,
  )
})

test(
  'event list: at 1440 px no column is cut off, even with a long type, a replayed event and a suspended tenant',
  async () => {
    const event = receivedEvent({ tenantId: acme.tenantId, type: 'customer.subscription.updated' })
    await acceptEvents(backoffice.pool, [event])
    await backoffice.pool.query('UPDATE events SET cycle = 2')
    const suspension = { cause: 'gone', nowMs: Date.now() } as const
    await suspendQueue(backoffice.pool, { tenantId: acme.tenantId, destination: 'callback' }, suspension)
    const page = await visit('/events')
    await page
      .getByText(/^Accepted, (paused|suspended)$/)
      .first()
      .waitFor()
    await page.setViewportSize({ width: 1_440, height: 900 })
    const table = page.getByRole('region', { name: 'Events' })
    const [needed, given] = await table.evaluate((region) => [region.scrollWidth, region.clientWidth])
    expect(needed).toBeLessThanOrEqual(given ?? 0)
  },
  visitMs,
)
