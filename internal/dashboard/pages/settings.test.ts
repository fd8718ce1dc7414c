import { afterAll, beforeAll, expect, test } from 'bun:test'
import { settingNames } from '#internal/settings/index.ts'
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

const name = 'limits.eventsPerMinute.soft'
const form = (more: Readonly<Record<string, string>>) => session.post('/settings/change', { name, ...more })

test('settings: a change is shown with the user who made it', async () => {
  expect((await session.get(`/settings/change?name=${name}`)).html).toContain(
    'Change for the whole installation',
  )
  expect((await form({ value: '9000', version: '0' })).location).toBe('/settings')
  const { html } = await session.get('/settings')
  expect(html).toContain('9,000')
  expect(html).toContain(`by user:${user}`)
})

test('settings: the page lists every setting of the installation', async () => {
  const { html } = await session.get('/settings')
  expect(settingNames.filter((each) => !html.includes(`>${each}<`))).toEqual([])
})

test('settings: an invalid value returns 422 with the error text and the typed value', async () => {
  const { status, html } = await form({ value: 'many', version: '1' })
  expect(status).toBe(422)
  expect(html).toContain('must be a whole number')
  expect(fieldIn(html, 'value')).toBe('many')
})

test('settings: a form that was shown before another change returns 409, and can be sent again', async () => {
  const late = await form({ value: '8000', version: '0' })
  expect(late.status).toBe(409)
  expect(late.html).toContain('This setting was changed in the meantime')
  expect(fieldIn(late.html, 'value')).toBe('8000')
  const again = await form({ value: '8000', version: fieldIn(late.html, 'version') ?? '' })
  expect(again.location).toBe('/settings')
})

test('settings: a limit on an emitted kind has a form before it is set, and is listed afterwards', async () => {
  const limit = 'limits.exports.rowsPerMonth.hard'
  const form = await session.get(`/settings/change?name=${limit}`)
  expect([form.status, form.html.includes('usage of exports.rows per UTC month')]).toEqual([200, true])
  expect((await session.get('/settings')).html).not.toContain(limit)
  const sent = { name: limit, value: '77', version: '0' }
  expect((await session.post('/settings/change', sent)).location).toBe('/settings')
  expect((await session.get('/settings')).html).toContain(limit)
})

test('settings: the default applies after a setting is cleared', async () => {
  const { html } = await session.get(`/settings/clear?name=${name}`)
  const version = fieldIn(html, 'version') ?? ''
  expect((await session.post('/settings/clear', { name, version })).location).toBe('/settings')
  expect((await session.get(`/settings/clear?name=${name}`)).html).toContain(
    'Its value is <strong>none</strong>',
  )
})

test('settings: the page of a tenant shows the tenant’s own settings and a pause of the installation', async () => {
  const tenant = 'acme'
  const isPaused = /<\/span>Paused<\/span>/
  const paused = { name: 'forwarding.paused', value: 'true', version: '0' }
  expect((await session.get('/settings?tenant=acme')).html).not.toMatch(isPaused)
  expect((await session.post('/settings/change', paused)).location).toBe('/settings')
  const { html } = await session.get('/settings?tenant=acme')
  expect(html).toMatch(isPaused)
  expect(html).toContain('for the whole installation')
  const own = await session.post('/settings/change', { ...paused, tenant })
  expect(own.location).toBe(`/settings?tenant=${acme}`)
  expect((await session.post('/settings/change', { ...paused, tenant, name: 'log.sampling' })).status).toBe(
    404,
  )
})

test('settings: an unknown setting returns 404', async () => {
  expect((await session.get('/settings/change?name=mood')).status).toBe(404)
})

test('settings: any declared provider can be paused by its name or alias, and an unknown name gets a suggestion', async () => {
  const pause = 'providers.slack.paused'
  expect((await session.get('/settings?tenant=acme')).html).toContain('<option value="slack">')
  const { status, html } = await session.get('/settings/change?provider=slack&tenant=acme')
  expect([status, html.includes(`<code>${pause}</code>`)]).toEqual([200, true])
  const sent = { name: pause, value: 'true', version: '0', tenant: 'acme' }
  expect((await session.post('/settings/change', sent)).location).toBe(`/settings?tenant=${acme}`)
  expect((await session.get('/settings?tenant=acme')).html).toContain(pause)
  expect((await session.get('/settings')).html).not.toContain(`<code>${pause}</code>`)
  const unknown = await session.get('/settings/change?provider=slak')
  expect([unknown.status, unknown.html.includes('did you mean providers.slack.paused?')]).toEqual([404, true])
})

test('settings: a link that contains a vendor’s name opens the setting with the provider’s neutral name', async () => {
  const { status, html } = await session.get('/settings/change?name=providers.stripe.paused')
  expect([status, html.includes('<code>providers.card.paused</code>')]).toEqual([200, true])
})
