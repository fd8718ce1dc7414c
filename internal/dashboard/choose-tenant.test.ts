import { afterAll, beforeAll, expect, test } from 'bun:test'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/backoffice-tenants.ts'
import { openDashboardSession } from '#test/support/dashboard-session.ts'

/** One more than are offered, and one elsewhere. */
const names = Array.from({ length: 21 }, (_, nth) => `shop-${String(nth).padStart(2, '0')}`)
let backoffice: TestBackoffice

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      ...names.map((name) => dashboardTenantYaml(name)),
      dashboardTenantYaml('depot', { namespace: 'depots' }),
    ].join(''),
  )
}, 60_000)
afterAll(() => backoffice.close())

/** Where the page leads by its links to tenants. */
function choicesIn(html: string): readonly string[] {
  return [...html.matchAll(/<th scope="row"[^>]*><a href="([^"]+)"/g)].map(([, href = '']) =>
    href.replaceAll('&amp;', '&'),
  )
}

test.each([
  ['/usage', '?range=7d&values=shown'],
  ['/usage/override', '?limit=eventsPerMonth'],
  ['/executions', '?state=completed&after=x'],
  ['/refused', '?cause=signature_mismatch'],
  ['/simulations/new', ''],
])('the page %s offers the first tenants, and leads to itself with each', async (path, query) => {
  backoffice.allow(() => true)
  const session = await openDashboardSession(backoffice.url, someUser())
  const { status, html } = await session.get(`${path}${query}`)
  expect(status).toBe(200)
  expect(html).toContain('Tenants to choose from')
  const choices = choicesIn(html)
  expect(choices).toHaveLength(20)
  expect(html).toContain('These are the first 20')
  const [first = ''] = choices
  const { pathname, searchParams } = new URL(first, backoffice.url)
  const { after: _after, ...kept } = Object.fromEntries(new URLSearchParams(query))
  expect([pathname, Object.fromEntries(searchParams)]).toEqual([
    path,
    { ...kept, tenant: backoffice.tenantId('depot') },
  ])
  const led = await session.get(first)
  expect([led.status, led.html.includes('Tenants to choose from')]).toEqual([200, false])
})

test('nobody is offered a tenant that they may not see', async () => {
  backoffice.allow(({ namespace }) => namespace === 'depots')
  const clerk = await openDashboardSession(backoffice.url, someUser())
  const unnamed = await clerk.get('/usage')
  expect([unnamed.status, choicesIn(unnamed.html)]).toEqual([200, []])
  expect(unnamed.html).toContain('Tenants are listed by namespace')
  const named = await clerk.get('/usage', 'latchkey-namespaces=depots')
  expect(choicesIn(named.html)).toEqual([`/usage?tenant=${backoffice.tenantId('depot')}`])
  expect(named.html).not.toContain('These are the first')
})
