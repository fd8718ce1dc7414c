import { afterAll, beforeAll, expect, test } from 'bun:test'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

let backoffice: TestBackoffice
let session: DashboardSession
const user = someUser()

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('idle')}`)
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, user)
  const paused = { value: 'true', version: '0' }
  await session.post('/settings/change', { ...paused, name: 'forwarding.paused' })
  await session.post('/settings/change', { ...paused, name: 'providers.slack.paused', tenant: 'acme' })
}, 30_000)
afterAll(() => backoffice.close())

test.each([
  ['actor', `actor=${user.toUpperCase()}`, 'sessions.started'],
  ['action', 'action=settings.', 'forwarding.paused'],
  ['tenant', 'tenant=acme', 'providers.slack.paused'],
  ['time', `from=${new Date(Date.now() - 3_600_000).toISOString().slice(0, 16)}`, 'sessions.started'],
])('audit log: can be searched by %s', async (_by, query, expected) => {
  const { status, html } = await session.get(`/audit?${query}`)
  expect(status).toBe(200)
  expect(html).toContain(expected)
})

test.each(['actor=nobody-at-all', 'to=2026-01-01', 'tenant=idle&action=settings.'])(
  'audit log: a search by %s finds no entries, and the page says so',
  async (query) => {
    expect((await session.get(`/audit?${query}`)).html).toContain('No entries match')
  },
)

test('audit log: an invalid time returns 400 with the error text', async () => {
  const { status, html } = await session.get('/audit?from=yesterday')
  expect(status).toBe(400)
  expect(html).toContain('Enter a time such as')
})
