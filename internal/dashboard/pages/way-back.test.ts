import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, type SeededTenant, seedTenant } from '#test/support/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard-session.ts'
import type { ActionRow } from '../page.ts'
import { createWayBack } from '../way-back.ts'
import { pages } from './pages.ts'

let backoffice: TestBackoffice
let acme: SeededTenant
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  acme = await seedTenant(backoffice, 'acme')
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(() => backoffice.close())

const actions = pages.filter((row): row is ActionRow => row.method === 'POST')

test('every form leads back to a page that can be read', () => {
  const readable = pages.filter(({ method }) => method === 'GET').map(({ path }) => path)
  expect(actions.length).toBeGreaterThan(9)
  for (const { path, back } of actions) expect([path, readable.includes(back)]).toEqual([path, true])
})

test.each<[string, string, string, Record<string, string>, string]>([
  ['a page', 'GET', '/events?type=a%20b', {}, '/events?type=a%20b'],
  ['a form with its parameters', 'POST', '/events/evt_1/payload', {}, '/events/evt_1'],
  ['a form with its tenant', 'POST', '/events/e%2F1/replay?tenant=acme', {}, '/events/e%2F1?tenant=acme'],
  [
    'a form with what is needed to show it again, and no more',
    'POST',
    '/usage/override',
    { tenant: 'acme', limit: 'locks', reason: 'x', csrf: 'y' },
    '/usage/override?tenant=acme&limit=locks',
  ],
  ['a form of no row', 'POST', '/theme', {}, '/'],
])('%s leads back', (_what, method, path, form, here) => {
  const wayBack = createWayBack(pages)
  const request = new Request(`http://localhost${path}`, { method })
  expect(wayBack(request, form)).toEqual({ here, isForm: method === 'POST' })
})

/** Where the page leads by its own forms, and by what stands in its place. */
function waysIn(html: string): readonly string[] {
  const nexts = [...html.matchAll(/name="next" value="([^"]*)"/g)]
  const links = [...html.matchAll(/<a (?:class="(?:tenant-all|button[^"]*)" )?href="(\/[^"]*)"/g)]
  return [...new Set([...nexts, ...links].map(([, path]) => (path ?? '').replaceAll('&amp;', '&')))]
}

describe('whatever is answered to a form, each way on can be read', () => {
  const filled = (path: string) =>
    path
      .replace('/events/:id', `/events/${acme.failedId}`)
      .replace('/replays/:id', `/replays/${acme.replayId}`)
      .replace(':simulation', acme.simulationId)
      .replace(':tenant', 'acme')
  /** Fields by which each form is refused, or asks once more. */
  const fields = (path: string) => ({
    ...(path.includes(':') ? {} : { tenant: 'acme' }),
    ...{ limit: 'eventsPerMonth', name: 'forwarding.paused', version: '99' },
  })

  test.each(actions.map(({ path }) => path))('%s', async (path) => {
    const { status, html, location } = await admin.post(filled(path), fields(path))
    if (location !== null) {
      expect((await admin.get(location)).status).toBe(200)
      return
    }
    expect(html).toContain('name="next"')
    for (const way of waysIn(html)) {
      const { status } = await admin.get(way)
      expect([way, [200, 303].includes(status)]).toEqual([way, true])
    }
    expect(status).not.toBe(500)
  })

  test('when the form is not ours', async () => {
    const { status, html } = await admin.post(`/events/${acme.failedId}/payload`, { more: '\u{FFFD}' })
    expect(status).toBe(400)
    expect(html).toContain(`href="/events/${acme.failedId}"`)
  })

  test('when a store is away', async () => {
    await backoffice.pool.query('ALTER TABLE sessions RENAME TO sessions_away')
    try {
      const { status, html } = await admin.post(`/simulations/${acme.simulationId}/advance`)
      expect(status).toBe(500)
      expect(html).toContain(`href="/simulations/${acme.simulationId}"`)
    } finally {
      await backoffice.pool.query('ALTER TABLE sessions_away RENAME TO sessions')
    }
  })
})

test('another tenant is chosen without losing what else was', async () => {
  const { html } = await admin.get('/settings/change?name=forwarding.paused&tenant=acme')
  expect(html).toContain('href="/settings/change?name=forwarding.paused"')
  const to = encodeURIComponent('/settings/change?name=forwarding.paused')
  const { location } = await admin.get(`/go?find=acme&to=${to}`)
  expect(location).toBe(`/settings/change?name=forwarding.paused&tenant=${acme.tenantId}`)
})
