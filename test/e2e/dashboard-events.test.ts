import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { openBrowser, signIn, type TestBrowser } from '#test/support/dashboard/browser.ts'
import { type RunningDashboard, startDashboard } from '#test/support/dashboard/dashboard.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { genericBody, providerSecret, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { until } from '#test/support/until.ts'

const startsMs = 90_000
const flowMs = 60_000
const apiKey = (name: string) => `lk_${name}_hook_0123456789abcdef0123456789`

/** Returns the manifest of a tenant with an immediate second attempt and a dashboard key. */
const tenantYaml = (name: string, callbackUrl: string) => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${name}, namespace: shops}
spec:
  slug: ${name}
  callback:
    url: ${callbackUrl}
    allowedCIDRs: ["127.0.0.0/8"]
    signingSecretRef: {name: ${name}-callback}
    retry: {schedule: ["0s", "0s"], jitterPercent: 0}
  providers: [{name: generic, secretRef: {name: ${name}-provider}}]
  apiKeys:
    - {name: hooks, scopes: [webhooks], secretRef: {name: ${name}-hooks}}
    - {name: dashboard, scopes: [dashboard], secretRef: {name: ${name}-dashboard}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-callback, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-provider, namespace: shops}
stringData: {signingSecret: ${providerSecret}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-hooks, namespace: shops}
stringData: {apiKey: ${apiKey(name)}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-dashboard, namespace: shops}
stringData: {apiKey: ${dashboardKey(name)}}
---
`

/** One tenant per test with a failing callback, since frequent failures open the circuit breaker. */
const tenants = ['acme', 'plain', 'several', 'rival', 'evil'] as const

let folder: string
let receiver: CallbackReceiver
let dashboard: RunningDashboard
let browser: TestBrowser

beforeAll(async () => {
  receiver = startReceiver()
  folder = mkdtempSync(join(tmpdir(), 'latchkey-tenants-'))
  writeFileSync(join(folder, 'tenants.yaml'), tenants.map((name) => tenantYaml(name, receiver.url)).join(''))
  dashboard = await startDashboard({ LATCHKEY_TENANTS_DIR: folder })
  browser = await openBrowser()
}, startsMs)
afterAll(async () => {
  await browser.close()
  await dashboard.close()
  await receiver.stop()
  rmSync(folder, { recursive: true, force: true })
}, startsMs)

/** Sends a provider's call, signed by default; returns the event's id at the provider. */
async function provide(
  name: string,
  fields: object = {},
  { id = crypto.randomUUID(), secret = providerSecret }: { id?: string; secret?: string } = {},
): Promise<string> {
  const { body, headers } = signGeneric(genericBody(id, fields), { secret })
  const answer = await fetch(`${dashboard.api}/v1/webhooks/generic`, {
    method: 'POST',
    body,
    headers: { ...headers, Authorization: `Bearer ${apiKey(name)}` },
  })
  expect(answer.status).toBe(secret === providerSecret ? 200 : 400)
  return id
}

/** Runs the steps in a new browser context, and expects no browser errors. */
async function visit(
  work: (page: Page) => Promise<void>,
  options?: Parameters<TestBrowser['visitor']>[1],
): Promise<void> {
  const visitor = await browser.visitor(dashboard.origin, options)
  try {
    await work(visitor.page)
    expect(visitor.troubles).toEqual([])
  } finally {
    await visitor.close()
  }
}

/** Lets an event of a tenant fail at the callback; returns the path of its page. */
async function failed(page: Page, name: string, type: string): Promise<string> {
  receiver.answer(() => Response.json({ error: 'out of stock' }, { status: 500 }))
  await provide(name, { type })
  const path = await until('the failed event in the list', async () => {
    await page.goto(`/events?state=delivery_failed&type=${type}`)
    const [link] = await page.getByRole('link', { name: type }).all()
    return (await link?.getAttribute('href'))?.split('?')[0]
  })
  return path
}

/** Sends the events of the stream that refresh a list, without the wait for them. */
const refreshNow = (page: Page) =>
  page.evaluate(
    "for (const name of ['tick', 'slow']) document.querySelector('#live').dispatchEvent(new Event(name))",
  )

test(
  'events: the page of a failed event shows its cause, and shows its success after a replay without reloading',
  () =>
    visit(async (page) => {
      await signIn(page, dashboard.token, '/events')
      await failed(page, 'acme', 'order.mended')
      await page.getByRole('link', { name: 'order.mended' }).click()
      await page.getByText('Attempt 2: answered 500').waitFor()
      await page.getByText('Response', { exact: true }).last().click()
      expect(await page.getByRole('region', { name: 'response to attempt 2' }).textContent()).toContain(
        'out of stock',
      )
      expect(await page.locator('h1').textContent()).toContain('Delivery failed')

      const { promise: held, resolve: release } = Promise.withResolvers<Response>()
      receiver.answer(() => held)
      await page.getByRole('link', { name: 'Replay', exact: true }).click()
      await page.getByRole('heading', { name: 'Deliver this event again?' }).waitFor()
      await page.getByRole('button', { name: 'Replay the event' }).click()
      await page.getByText('Delivery cycle 2 has begun').waitFor()
      await page.evaluate('document.body.dataset.seen = "before"')
      await page.getByText('Being delivered now').waitFor()
      release(new Response(null, { status: 204 }))
      await page.locator('h1').getByText('Processed').waitFor()
      await page.getByText('Attempt 1: answered 204').waitFor()
      expect(await page.evaluate('document.body.dataset.seen')).toBe('before')
      expect(receiver.calls.at(-1)).toMatchObject({
        verified: true,
        id: page.url().match(/evt_[0-9a-z]{26}/)?.[0] ?? '',
      })
    }),
  flowMs,
)

test(
  'events: new events appear only after a click on a link, rows do not move under pointer and focus, and updates can be paused',
  () =>
    visit(async (page) => {
      receiver.answer(() => new Response(null, { status: 204 }))
      await provide('plain', { type: 'order.first' })
      await signIn(page, dashboard.token, '/events?tenant=plain')
      const first = page.locator('tbody tr').first().getByRole('link').first()
      const hrefs = () => page.locator('tbody th a').evaluateAll((links) => links.map(String))
      const before = await hrefs()
      await first.focus()
      await first.hover()
      const news = page.locator('[data-news]')
      const refresh = () => refreshNow(page)
      for (const type of ['order.second', 'order.third']) await provide('plain', { type })
      await until('the new events', async () => {
        await refresh()
        return (await news.textContent()) === '2 new events' || undefined
      })
      expect(await hrefs()).toEqual(before)
      expect(await page.evaluate('document.activeElement.href')).toBe(before[0])
      expect(await page.evaluate("document.querySelector('tbody a:hover').href")).toBe(before[0])
      await news.click()
      await page.getByRole('link', { name: 'order.third' }).waitFor()
      expect((await hrefs()).slice(2)).toEqual(before)
      expect(await news.isVisible()).toBe(false)

      const requests: string[] = []
      page.on('request', (request) => {
        if (request.headers()['hx-request'] !== undefined) requests.push(request.url())
      })
      await page.getByRole('button', { name: 'Pause updates' }).click()
      await refresh()
      await page.getByRole('button', { name: 'Resume updates' }).click()
      expect(requests).toEqual([])
      const answered = page.waitForResponse((answer) => answer.url() === page.url())
      await refresh()
      await answered
    }),
  flowMs,
)

test.each(['pointer', 'focus'] as const)(
  'events: what is under the %s keeps its place while a refresh adds a line above it',
  (way) =>
    visit(async (page) => {
      for (const type of ['order.upper', 'order.middle', 'order.lower']) await provide('plain', { type })
      await page.setViewportSize({ width: 1_000, height: 700 })
      await signIn(page, dashboard.token, '/events?tenant=plain&type=order.*')
      const link = page.locator('tbody tr').nth(2).getByRole('link').first()
      // Removes the head of the table, which is above the rows; the refresh restores it.
      await page.evaluate("document.querySelector('#list thead').remove()")
      await (way === 'pointer' ? link.hover() : link.focus())
      const before = (await link.boundingBox())?.y
      await refreshNow(page)
      const head = page.locator('#list thead')
      await head.waitFor()
      expect((await head.boundingBox())?.height).toBeGreaterThan(16)
      // Allows 2 pixels, since positions are rounded.
      expect(Math.abs(((await link.boundingBox())?.y ?? 0) - (before ?? 0))).toBeLessThan(2)
    }),
  flowMs,
)

test(
  'events: choosing a day clears the exact times, and an exact time clears the day',
  () =>
    visit(
      async (page) => {
        await signIn(page, dashboard.token, '/events?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z')
        const [within, from, to] = [
          'Received',
          'Received from (Asia/Tokyo)',
          'Received before (Asia/Tokyo)',
        ].map((label) => page.getByLabel(label, { exact: true }))
        if (!within || !from || !to) throw new Error('fields are missing')
        expect(await from.inputValue()).toBe('2026-01-01T09:00')
        await within.selectOption('yesterday')
        expect([await from.inputValue(), await to.inputValue()]).toEqual(['', ''])
        await from.fill('2026-11-21T19:50:07')
        await from.blur()
        expect(await within.inputValue()).toBe('')
        await within.selectOption('yesterday')
        await page.getByRole('button', { name: 'Filter' }).click()
        await page.waitForURL(/within=yesterday/)
        expect(await within.inputValue()).toBe('yesterday')
        expect(await page.getByText('The exact times apply').count()).toBe(0)
      },
      { timezone: 'Asia/Tokyo' },
    ),
  flowMs,
)

test(
  'events: filters and replay work without scripts, and filters are part of the URL',
  () =>
    visit(
      async (page) => {
        await signIn(page, dashboard.token, '/events')
        await failed(page, 'plain', 'order.scriptless')
        receiver.answer(() => new Response(null, { status: 204 }))
        await page.goto('/events')
        await page.getByRole('search', { name: 'Filters' }).getByLabel('Tenant').fill('plain')
        await page.getByLabel('Type', { exact: true }).fill('order.scriptless')
        await page.getByRole('button', { name: 'Filter' }).click()
        await page.waitForURL(/[?&]tenant=plain&.*type=order\.scriptless/)
        await page.getByRole('link', { name: 'order.scriptless' }).click()
        expect(await page.locator('.timeline time').first().textContent()).toEndWith('UTC')
        await page.getByRole('button', { name: 'Reveal as received' }).click()
        await page.getByText('was recorded in the audit log').waitFor()
        // The URL of an unredacted payload cannot be reloaded: the theme switch leads back to the event.
        const event = new URL(page.url()).pathname.replace('/payload', '')
        await page.getByRole('button', { name: 'Dark' }).click()
        await page.getByRole('button', { name: 'Dark', pressed: true }).waitFor()
        expect(new URL(page.url()).pathname).toBe(event)
        await page.getByRole('button', { name: 'Reveal as received' }).click()
        await page.getByRole('link', { name: 'Hide it again' }).click()
        await page.getByRole('link', { name: 'Replay', exact: true }).click()
        await page.getByRole('button', { name: 'Replay the event' }).click()
        await page.getByText('Delivery cycle 2 has begun').waitFor()
        await until('the end of the delivery cycle', async () => {
          await page.reload()
          return (await page.locator('h1').textContent())?.includes('Processed')
        })
      },
      { runsScripts: false },
    ),
  flowMs,
)

test(
  'events: a replay of many events is previewed and shows its progress until it ends',
  () =>
    visit(async (page) => {
      await signIn(page, dashboard.token, '/events')
      await failed(page, 'several', 'order.several')
      receiver.answer(() => new Response(null, { status: 204 }))
      await page.getByRole('link', { name: 'Replay all that match…' }).click()
      await page.getByRole('main').getByLabel('Tenant').fill('several')
      await page.getByRole('button', { name: 'Preview' }).click()
      await page.getByRole('heading', { name: 'Start this replay?' }).waitFor()
      expect(
        await page.locator('.tile').filter({ hasText: 'Events' }).locator('.tile-value').textContent(),
      ).toBe('1')
      await page.getByRole('button', { name: 'Replay 1 event' }).click()
      await page.getByText('The replay has begun.').waitFor()
      await page.getByRole('link', { name: 'See its progress and outcome' }).click()
      await page.locator('h1').getByText('Completed').waitFor({ timeout: 30_000 })
      expect(await page.getByRole('region', { name: 'Outcome' }).textContent()).toContain('Delivered1')
      await page.getByRole('link', { name: 'Its events' }).click()
      await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
      await page.goto('/events?type=order.several&state=processed')
      await page.getByRole('link', { name: 'order.several' }).waitFor()

      // Replays the same event again by its checkbox, which stays checked after an update.
      receiver.answer(() => new Response(null, { status: 500 }))
      await page.getByRole('checkbox', { name: /^Select order\.several/ }).check()
      const updated = page.waitForResponse((answer) => answer.url() === page.url())
      await refreshNow(page)
      await updated
      await page.getByRole('button', { name: 'Replay 1 event' }).click()
      await page.getByRole('button', { name: 'Replay 1 event' }).click()
      await page.getByText('The replay has begun.').waitFor()
      await page.getByRole('link', { name: 'See its progress and outcome' }).click()
      await page.locator('h1').getByText('1 failed again').waitFor({ timeout: 30_000 })
    }),
  flowMs,
)

test(
  'events: a tenant’s user sees its own events and cannot detect events of other tenants',
  () =>
    visit(async (page) => {
      await signIn(page, dashboard.token, '/events')
      const theirs = await failed(page, 'rival', 'order.theirs')
      await page.getByRole('button', { name: 'Sign out' }).click()
      await signIn(page, dashboardKey('acme'), '/events')
      expect(await page.getByText('order.theirs').count()).toBe(0)
      for (const path of [
        theirs,
        `${theirs}/replay`,
        '/events?tenant=rival',
        '/refused?tenant=rival',
        '/replays?tenant=rival',
      ]) {
        const answer = await page.goto(path)
        expect([path, answer?.status()]).toEqual([path, 404])
        expect(await page.getByText('Not found').count()).toBeGreaterThan(0)
      }
    }),
  flowMs,
)

test(
  'events: markup from providers and callbacks is never executed in the browser',
  () =>
    visit(async (page) => {
      const evil = `"><img src=x onerror="document.body.dataset.pwned=1"><script>document.body.dataset.pwned=1</script>`
      const isPwned = () => page.evaluate('document.body.dataset.pwned')
      await signIn(page, dashboard.token, '/events')
      receiver.answer(() => new Response(evil, { status: 500 }))
      const id = await provide('evil', { type: 'order.evil', [evil]: evil }, { id: `evil ${evil}` })
      await provide('evil', { [evil]: evil }, { secret: 'whsec_another-secret-that-is-not-in-force' })
      await until('the failed event', async () => {
        await page.goto('/events?state=delivery_failed&type=order.evil')
        return (await page.getByRole('link', { name: 'order.evil' }).count()) > 0
      })
      expect(await page.getByText(id).count()).toBe(1)
      expect(await isPwned()).toBeUndefined()
      await page.getByRole('link', { name: 'order.evil' }).click()
      await page.getByText('Response', { exact: true }).last().click()
      expect(await page.getByRole('region', { name: 'response to attempt 2' }).textContent()).toBe(evil)
      expect(await isPwned()).toBeUndefined()
      await page.getByRole('button', { name: 'Reveal as received' }).click()
      await page.getByText('was recorded in the audit log').waitFor()
      expect(await isPwned()).toBeUndefined()
      await until('the refused call', async () => {
        await page.goto('/refused?tenant=evil')
        return (await page.locator('details.refused-call').count()) > 0
      })
      await page.locator('details.refused-call summary').first().click()
      expect(await page.locator('.refused-body').first().textContent()).toContain('onerror')
      expect(await isPwned()).toBeUndefined()
    }),
  flowMs,
)
