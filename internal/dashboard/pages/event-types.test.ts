import { afterAll, beforeAll, expect, test } from 'bun:test'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let acme: SeededTenant
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  acme = await seedTenant(backoffice, 'acme')
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(() => backoffice.close())

test.each([
  ['/event-types', '<option value="card" selected>'],
  ['/events', 'value="stripe"'],
])('filter by provider on %s: vendor’s and neutral name return the same list', async (path, shown) => {
  const [alias, neutral] = await Promise.all(
    ['stripe', 'card'].map((name) => admin.get(`${path}?provider=${name}`)),
  )
  expect(alias?.status).toBe(200)
  expect(alias?.html).toContain(shown)
  expect(listed(alias?.html)).toEqual(listed(neutral?.html))
})

const listed = (html = '') =>
  [...html.matchAll(/href="\/event(?:s|-types)\/([a-z0-9_.]+)/g)].map(([, id]) => id)

test('event types: the list is in alphabetical order over its pages, and the link to the next page is “Next page”, not “Older”', async () => {
  const { html } = await admin.get('/event-types')
  expect(html).toContain('Next page')
  expect(html).not.toContain('Older')
})

test('event types: for the provider generic, the list is empty and says that senders choose their types', async () => {
  const { status, html } = await admin.get('/event-types?provider=generic')
  expect(status).toBe(200)
  expect(html).toContain('generic has no list of its own')
})

test('event type page: a raw type that becomes this type only under conditions is shown with these and with links to the other types', async () => {
  const { html } = await admin.get('/event-types/invoice.paid?tenant=acme')
  expect(html).toContain('unless <a href="/event-types/subscription.payment_succeeded?tenant=acme">')
  expect(html).toContain('Example payload of <code>invoice.paid</code>')
})

test.each([
  ['payment_intent.succeeded', 'search=payment_intent.succeeded'],
  ['payment.succeded', 'search=payment."'],
  ['a&b', 'All event types'],
])('event type page: the unlisted type %s returns 404 with a next step', async (type, text) => {
  const { status, html } = await admin.get(`/event-types/${encodeURIComponent(type)}`)
  expect(status).toBe(404)
  expect(html).toContain(`${Bun.escapeHTML(type)} is not in the catalogue`)
  expect(html).toContain(text)
})

test.each([
  ['a listed type leads to its page', 'payment.succeeded', true],
  ['an unlisted type has no page', 'acme.something', false],
])('event page: %s of the catalogue', async (_what, type, isLinked) => {
  const [id] = await acceptEvents(backoffice.pool, [receivedEvent({ tenantId: acme.tenantId, type })])
  const { html } = await admin.get(`/events/${id}`)
  expect(html.includes(`<a href="/event-types/${type}">${type}</a>`)).toBe(isLinked)
})
