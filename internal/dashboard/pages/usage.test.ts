import { afterAll, beforeAll, expect, test } from 'bun:test'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import {
  type DashboardSession,
  fieldIn,
  openDashboardSession,
} from '#test/support/dashboard/dashboard-session.ts'

let backoffice: TestBackoffice
let session: DashboardSession
const user = someUser()
let acme: string

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, user)
  acme = backoffice.tenantId('acme')
}, 30_000)
afterAll(() => backoffice.close())

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)
const fields = (more: Readonly<Record<string, string>> = {}) => ({
  tenant: 'acme',
  limit: 'eventsPerMonth',
  kind: 'amount',
  hard: '12345',
  expiresAt: inAnHour(),
  reason: 'A sale',
  ...more,
})

test('usage page: offers a choice of tenants if no tenant is chosen', async () => {
  expect((await session.get('/usage')).html).toContain('Choose a tenant')
})

test('usage page: charts show hourly usage, including usage that other services report', async () => {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
  await backoffice.pool.query(
    `INSERT INTO usage_hourly (tenant_id, meter, hour, amount)
     VALUES ($1, 'events', $2, 4711), ($1, 'locks', $2, 815), ($1, 'exports.rows', $2, 99)`,
    [acme, hour],
  )
  const { html } = await session.get('/usage?tenant=acme&values=shown')
  for (const text of ['4,711 in 24 hours', '815 in 24 hours', '99 in 24 hours', 'exports.rows'])
    expect(html).toContain(text)
  expect((await session.get('/usage?tenant=acme&range=30d')).html).toContain('4,711 in 30 days')
})

test('limit override: can be set after a confirmation, and is shown and recorded in the audit log', async () => {
  const asked = await session.post('/usage/override', fields())
  expect(asked.html).toContain('Override events per month of acme?')
  expect((await session.get('/usage?tenant=acme')).html).not.toContain('Overridden to')
  const done = await session.post('/usage/override', fields({ sure: 'yes' }))
  expect(done.location).toBe(`/usage?tenant=${acme}`)
  const { html } = await session.get('/usage?tenant=acme')
  expect(html).toContain('<strong>12,345</strong>')
  expect(html).toContain(`by user:${user}: “A sale”`)
  expect((await session.get('/audit?action=usage.override_set')).html).toContain('A sale')
})

test('limit override: an invalid form returns 422 with the error texts and the typed values', async () => {
  const { status, html } = await session.post('/usage/override', fields({ hard: 'many', expiresAt: 'never' }))
  expect(status).toBe(422)
  expect(html).toContain('Enter a whole number of at most 15 digits')
  expect(html).toContain('Enter a time such as')
  expect([fieldIn(html, 'hard'), fieldIn(html, 'reason')]).toEqual(['many', 'A sale'])
})

test('limit override: the form shows an error beside its field, and the text does not contain the API’s name of the field', async () => {
  const until = new Date(Date.now() + 400 * 86_400_000).toISOString().slice(0, 19)
  const { status, html } = await session.post('/usage/override', fields({ expiresAt: until, sure: 'yes' }))
  expect(status).toBe(422)
  const [field] = /<div class="field[^]*?name="expiresAt"[^]*?<\/div>/.exec(html) ?? []
  expect(field).toContain('Must be in the future, at most 366 days ahead')
  expect(html).not.toContain('"expiresAt" must')
})

test('limit override: can remove the limit, and its form can end the override', async () => {
  await session.post('/usage/override', fields({ kind: 'none', hard: '', sure: 'yes' }))
  expect((await session.get('/usage?tenant=acme')).html).toContain('<strong>no limit</strong>')
  const of = { tenant: 'acme', limit: 'eventsPerMonth' }
  expect((await session.get('/usage/override/clear?tenant=acme&limit=eventsPerMonth')).status).toBe(200)
  expect((await session.post('/usage/override/clear', of)).location).toBe(`/usage?tenant=${acme}`)
  expect((await session.get('/usage?tenant=acme')).html).not.toContain('Overridden to')
})

test('usage page: shows limits on emitted kinds with their state, and their overrides can be changed', async () => {
  const limit = 'exports.rowsPerMonth'
  await session.post('/usage/override', fields({ limit, hard: '99', sure: 'yes' }))
  const { html } = await session.get('/usage?tenant=acme')
  expect(html).toContain('exports.rows per month')
  expect(html).toMatch(/<strong>99<\/strong> of 99 · 100 %/)
  expect(html).toContain('At the limit')
  const form = await session.get(`/usage/override?tenant=acme&limit=${limit}`)
  expect(form.html).toContain('Override exports.rows per month')
  expect(fieldIn(form.html, 'hard')).toBe('99')
  await session.post('/usage/override/clear', { tenant: 'acme', limit })
  expect((await session.get('/usage?tenant=acme')).html).not.toContain('exports.rows per month')
})

test('limit override: an unknown limit returns 400', async () => {
  expect((await session.get('/usage/override?tenant=acme&limit=mood')).status).toBe(400)
})
