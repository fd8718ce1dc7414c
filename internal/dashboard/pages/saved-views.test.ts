import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { adminToken, someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

let backoffice: TestBackoffice
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('rival')}`)
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(() => backoffice.close())
beforeEach(() => backoffice.pool.query('TRUNCATE saved_views'))

/** Links of the saved views on the event list, as text and query. */
async function viewsOf(session: DashboardSession, path = '/events') {
  const { html } = await session.get(path)
  const [, nav = ''] = /<nav class="saved-view-links"[^>]*>(.*?)<\/nav>/s.exec(html) ?? []
  return [...nav.matchAll(/<a href="\/events\?([^"]*)"[^>]*>([^<]*)<\/a>/g)].map(
    ([link, query = '', name = '']) => ({
      name,
      query: Object.fromEntries(new URLSearchParams(query.replaceAll('&amp;', '&'))),
      isCurrent: link.includes('aria-current="true"'),
    }),
  )
}

const save = (name: string, fields: Readonly<Record<string, string>> = {}, session = admin) =>
  session.post('/events/views', { state: 'delivery_failed', ...fields, name })

test('saved view: saving, opening, replacing and deleting a view', async () => {
  const filter = { tenant: 'acme', type: 'payment.*', status: '5xx', within: '24h' }
  const saved = await save('Failed payments', filter)
  const query = {
    ...filter,
    state: 'delivery_failed',
    tenant: backoffice.tenantId('acme'),
  }
  expect(saved.status).toBe(303)
  expect(Object.fromEntries(new URL(saved.location ?? '', backoffice.url).searchParams)).toEqual(query)
  const opened = await admin.get(saved.location ?? '')
  expect(opened.status).toBe(200)
  expect(opened.html).toContain('value="Failed payments"')
  expect(await viewsOf(admin, saved.location ?? '')).toEqual([
    { name: 'Failed payments', query, isCurrent: true },
  ])
  expect(await viewsOf(admin)).toEqual([{ name: 'Failed payments', query, isCurrent: false }])

  expect((await save('Failed payments', { state: 'processed' })).location).toBe('/events?state=processed')
  expect(await viewsOf(admin)).toEqual([
    { name: 'Failed payments', query: { state: 'processed' }, isCurrent: false },
  ])

  const deleted = await admin.post('/events/views/delete', { name: 'Failed payments', state: 'processed' })
  expect([deleted.status, deleted.location]).toEqual([303, '/events?state=processed'])
  expect(await viewsOf(admin)).toEqual([])
  expect((await admin.post('/events/views/delete', { name: 'Failed payments' })).status).toBe(303)
})

test('saved view: stores only the filters of the list, without the cursor, and with times in UTC', async () => {
  await save('Afternoon', {
    from: '2026-11-21T19:50',
    zone: 'Europe/Berlin',
    slowerThanMs: '500',
    after: 'evt_06gw979vs1d9q6mddfvvx375s4',
    secret: 'x',
    csrf2: 'y',
  })
  expect((await viewsOf(admin)).map(({ query }) => query)).toEqual([
    { state: 'delivery_failed', from: '2026-11-21T18:50:00Z', slowerThanMs: '500' },
  ])
})

test('saved view: the event list offers saving only with a filter, and deletion only if a view exists', async () => {
  expect((await admin.get('/events')).html).not.toContain('saved-views')
  const { html } = await admin.get('/events?state=processed')
  expect(html).toContain('<form method="post" action="/events/views"')
  expect(html).not.toContain('action="/events/views/delete"')
})

test.each([
  ['no name', { name: '' }, 400, 'A view needs a name of 1 to 60 printable characters'],
  ['a name of 61 characters', { name: 'x'.repeat(61) }, 400, 'A view needs a name'],
  ['a name with a control character', { name: 'a\u0007b' }, 400, 'A view needs a name'],
  ['an invalid filter', { name: 'a', state: 'lost' }, 400, 'Choose one of the options'],
  ['a tenant that does not exist', { name: 'a', tenant: 'nobody' }, 404, 'Not found'],
])('saved view: %s is refused and saves nothing', async (_what, fields, status, text) => {
  const answer = await admin.post('/events/views', fields)
  expect(answer.status).toBe(status)
  expect(answer.html).toContain(text)
  expect(await viewsOf(admin)).toEqual([])
})

test('saved view: an actor’s 51st view is refused with a text that says what to do, and an existing view can still be replaced', async () => {
  for (let nth = 1; nth <= 50; nth += 1) expect((await save(`View ${nth}`)).status).toBe(303)
  const full = await save('One more')
  expect(full.status).toBe(409)
  expect(full.html).toContain('You have 50 saved views, the maximum: delete one')
  expect((await save('View 7', { state: 'processed' })).status).toBe(303)
  expect(await viewsOf(admin)).toHaveLength(50)
})

test('saved view: another actor can neither see nor delete the view', async () => {
  backoffice.allow(() => true)
  const others = [
    await openDashboardSession(backoffice.url, someUser()),
    await openDashboardSession(backoffice.url, dashboardKey('acme')),
    await openDashboardSession(backoffice.url, dashboardKey('rival')),
  ]
  await save('Mine')
  for (const other of others) {
    expect(await viewsOf(other)).toEqual([])
    await other.post('/events/views/delete', { name: 'Mine' })
    expect((await save('Mine', { state: 'verified' }, other)).status).toBe(303)
  }
  expect((await viewsOf(admin)).map(({ query }) => query)).toEqual([{ state: 'delivery_failed' }])
  for (const other of others)
    expect((await viewsOf(other)).map(({ query }) => query)).toEqual([{ state: 'verified' }])
})

test('saved view: a name is escaped wherever the page shows it', async () => {
  const evil = `"><img src=x onerror=alert(1)>'&`
  const saved = await save(evil)
  const pages = [await admin.get(saved.location ?? ''), await admin.get('/events')]
  for (const { html } of pages) {
    expect(html).toContain('&lt;img src=x')
    expect(html).not.toContain('<img')
  }
  expect((await admin.post('/events/views/delete', { name: evil })).status).toBe(303)
  expect(await viewsOf(admin)).toEqual([])
})
