// Takes screenshots of every page of the dashboard in `npm run dev` with its demo: light and dark, from a narrow phone to a desktop, and at
// 200 % zoom.
//   bun test/e2e/screenshots.main.ts FOLDER [PART OF A SCREENSHOT'S NAME, OR =NAME …]
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { poll } from '#internal/dev/index.ts'
import { openBrowser, sidewaysScrolling, signIn, type Visitor } from '#test/support/dashboard/browser.ts'
import { startDashboard } from '#test/support/dashboard/dashboard.ts'

/** Page by its address, or by a list that links to it. */
interface Shot {
  readonly name: string
  open(page: Page): Promise<unknown>
}

const at = (name: string, path: string): Shot => ({ name, open: (page) => page.goto(path) })
/** Returns the first linked page of a list whose address has this prefix. */
const behind = (name: string, list: string, begins: string): Shot => ({
  name,
  async open(page) {
    await page.goto(list)
    const [first] = await page.locator(`main a[href^="${begins}"]`).all()
    const href = await first?.getAttribute('href')
    if (href) await page.goto(href)
  },
})
/** Returns a page below the first linked page of a list. */
const follow = (name: string, list: string, begins: string, path: string): Shot => ({
  name,
  async open(page) {
    await behind(name, list, begins).open(page)
    await page.goto(new URL(page.url()).pathname + path)
  },
})

const failedEvents = '/events?state=delivery_failed&tenant=demo'
/** Returns the links to failed events with more than one attempt, on the page that lists failed events. */
const retriedEvents = (page: Page) =>
  page
    .locator('main tr', { has: page.locator('td[data-label="Attempts"]', { hasText: /^[2-9]/ }) })
    .locator('a[href^="/events/evt_"]')

async function openFailedEvent(page: Page): Promise<void> {
  await page.goto(failedEvents)
  const [first] = await retriedEvents(page).all()
  const href = await first?.getAttribute('href')
  if (href) await page.goto(href)
}

const shots: readonly Shot[] = [
  {
    name: 'overview',
    async open(page) {
      await page.goto('/?range=1h')
      // Removes the notice that the history is generated, which the documentation says beside the picture.
      await page.locator('.notice', { hasText: 'are made up' }).evaluateAll((notices) => {
        for (const notice of notices) notice.remove()
      })
    },
  },
  at('overview-values', '/?range=24h&values=shown'),
  at('events', '/events'),
  at('events-filtered', '/events?state=delivery_failed'),
  at('events-times', '/events?within=yesterday&from=2026-01-01T00:00:00Z'),
  at('events-type-hint', '/events?type=payments.*&state=verified'),
  at('payload-search', '/events/search?tenant=demo'),
  behind('event', '/events', '/events/evt_'),
  { name: 'event-failed', open: openFailedEvent },
  follow('event-replay', '/events?state=processed', '/events/evt_', '/replay'),
  {
    name: 'attempt',
    async open(page) {
      await openFailedEvent(page)
      const [attempt] = await page.locator('main a[href*="/attempts/"]').all()
      const href = await attempt?.getAttribute('href')
      if (href) await page.goto(href)
    },
  },
  {
    name: 'refused',
    async open(page) {
      await page.goto('/refused?tenant=demo')
      await page.locator('main li summary').first().click()
    },
  },
  at('refused-verify', '/refused/verify?tenant=demo'),
  at('replays', '/replays'),
  at('replay-new', '/replays/new?tenant=demo&state=delivery_failed'),
  at('replay-preview', '/replays/preview?tenant=demo&from=2026-01-01T00:00'),
  at('simulations', '/simulations'),
  at('simulation-new', '/simulations/new?tenant=demo'),
  behind('simulation', '/simulations', '/simulations/sim_'),
  at('event-types', '/event-types'),
  at('event-type', '/event-types/refund.succeeded'),
  at('event-type-unlisted', '/event-types/no.such'),
  at('event-type-notification', '/event-types/latchkey.replay.finished'),
  at('lock-history', '/executions?tenant=demo'),
  at('tenants', '/tenants'),
  at('tenant', '/tenants/demo'),
  at('tenant-test', '/tenants/demo/test'),
  at('tenant-resume', '/tenants/demo/resume'),
  at('usage', '/usage?tenant=demo'),
  at('usage-values', '/usage?tenant=demo&values=shown'),
  at('override', '/usage/override?tenant=demo&limit=recordBytes'),
  at('choose-tenant', '/usage'),
  at('settings', '/settings'),
  at('setting-change', '/settings/change?name=forwarding.paused'),
  at('setting-clear', '/settings/clear?name=log.sampling'),
  at('audit', '/audit'),
  at('jump', '/jump?find=demo'),
  at('jump-types', '/jump?find=refund'),
  at('documentation', '/docs/'),
  {
    name: 'jump-dialog',
    async open(page) {
      await page.goto('/events')
      await page.keyboard.press('Control+K')
      await page.keyboard.type('demo')
      await page.locator('dialog [role=option]').first().waitFor()
    },
  },
  at('not-found', '/nothing-here'),
]
const looks = [
  { name: 'desk-light', width: 1_440, height: 860, colorScheme: 'light' },
  { name: 'desk-dark', width: 1_440, height: 860, colorScheme: 'dark' },
  { name: 'zoom-light', width: 640, height: 430, scale: 2, colorScheme: 'light' },
  { name: 'phone-light', width: 320, height: 700, colorScheme: 'light' },
  { name: 'phone-dark', width: 320, height: 700, colorScheme: 'dark' },
] as const

/** Maximum wait for the first event of the demo whose delivery fails after all attempts, which take about three minutes. */
const failedMsMax = 300_000
const failedPollMs = 5_000
const firstHeight = 844
const heightMax = 2_400

const [folder, ...parts] = process.argv.slice(2)
if (folder === undefined) {
  process.stderr.write(
    'usage: bun test/e2e/screenshots.main.ts FOLDER [part of a picture’s name, or =name …]\n',
  )
  process.exit(2)
}
mkdirSync(folder, { recursive: true })
const isWanted = (name: string) =>
  parts.length === 0 ||
  parts.some((part) => (part.startsWith('=') ? name === part.slice(1) : name.includes(part)))
const given = process.env['DASHBOARD_URL']?.split('#token=')
const dashboard = given === undefined ? await startDashboard({ LATCHKEY_DEV_DEMO: 'true' }) : undefined
const origin = dashboard?.origin ?? given?.[0] ?? ''
const token = dashboard?.token ?? given?.[1] ?? ''
const browser = await openBrowser()
try {
  await awaitFailedEvent()
  for (const { name, ...look } of looks) {
    const visitor = await browser.visitor(origin, look)
    await take(visitor, folder, name)
    await visitor.close()
  }
} finally {
  await browser.close()
  await dashboard?.close()
}

/** Waits until an event has failed after all of its attempts, without which the pictures of such an event would be empty. */
async function awaitFailedEvent(): Promise<void> {
  const { page, close } = await browser.visitor(origin)
  await signIn(page, token, failedEvents)
  const found = await poll(
    async () => {
      await page.reload()
      return (await retriedEvents(page).count()) > 0 || undefined
    },
    { deadlineMs: failedMsMax, everyMs: failedPollMs },
  )
  if (found === undefined) process.stderr.write('no delivery has failed: some pictures show less\n')
  await close()
}

async function take({ page, troubles }: Visitor, to: string, look: string): Promise<void> {
  await page.goto('/sign-in')
  if (isWanted(`sign-in-${look}`)) await page.screenshot({ path: join(to, `sign-in-${look}.png`) })
  await signIn(page, token)
  for (const { name, open } of shots.filter((shot) => isWanted(`${shot.name}-${look}`))) {
    await page.setViewportSize({ width: page.viewportSize()?.width ?? 0, height: firstHeight })
    await open(page)
    await showWhole(page)
    await page.screenshot({ path: join(to, `${name}-${look}.png`) })
    for (const trouble of [...troubles, ...(await sidewaysScrolling(page))])
      process.stderr.write(`${name} ${look}: ${trouble}\n`)
  }
}

/** Sets the viewport to the height of the page, so that sticky elements are at their places. */
async function showWhole(page: Page): Promise<void> {
  const size = page.viewportSize() ?? { width: 0, height: 0 }
  const height = await page.evaluate<number>('document.documentElement.scrollHeight')
  await page.setViewportSize({ ...size, height: Math.max(firstHeight, Math.min(height, heightMax)) })
}
