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

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, someUser())
}, 30_000)
afterAll(() => backoffice.close())

const fields = (more: Readonly<Record<string, string>> = {}) => ({
  tenant: 'acme',
  provider: 'card',
  amount: '4200',
  currency: 'EUR',
  outcome: 'won',
  reason: 'fraudulent',
  stepSeconds: '3600',
  reference: '',
  key: 'one-form',
  ...more,
})

test('simulations: the page says that the list is empty', async () => {
  expect((await session.get('/simulations')).html).toContain('No simulations yet')
})

test('simulations: sending the same form twice starts one simulation', async () => {
  const first = await session.post('/simulations/new', fields())
  const second = await session.post('/simulations/new', fields())
  expect(first.location).toMatch(/^\/simulations\/sim_/)
  expect(second.location).toBe(first.location)
  const { html } = await session.get('/simulations?tenant=acme&state=scheduled')
  expect(html.match(/href="\/simulations\/sim_/g)).toHaveLength(1)
  expect(html).toContain('EUR 42.00')
})

test('simulations: an invalid form returns 422 with the error text and the typed values', async () => {
  const { status, html } = await session.post('/simulations/new', fields({ amount: '0', reference: 'INV-7' }))
  expect(status).toBe(422)
  expect(html).toContain('Enter a whole number from 1')
  expect([fieldIn(html, 'amount'), fieldIn(html, 'reference'), fieldIn(html, 'key')]).toEqual([
    '0',
    'INV-7',
    'one-form',
  ])
})

test('simulations: a form whose key was already used for another simulation returns 422', async () => {
  const { status, html } = await session.post('/simulations/new', fields({ amount: '1' }))
  expect(status).toBe(422)
  expect(html).toContain('was used for another simulation')
})

test('simulations: the next event can be advanced, and the remaining events cancelled', async () => {
  const { location } = await session.post('/simulations/new', fields({ key: 'to-be-cancelled' }))
  const path = location ?? ''
  const page = await session.get(path)
  const next = fieldIn(page.html, 'sourceEventId') ?? ''
  expect(next).toMatch(/^evt_sim_.*_1$/)
  expect((await session.post(`${path}/advance`, { sourceEventId: next })).location).toBe(path)
  expect((await session.post(`${path}/advance`, { sourceEventId: 'evt_of_nobody' })).status).toBe(400)
  expect((await session.get(`${path}/cancel`)).html).toContain('3 events will not be')
  expect((await session.post(`${path}/cancel`)).location).toBe(path)
  const after = (await session.get(path)).html
  expect(after).toContain('Cancelled')
  expect(after).toContain('Not sent')
  expect(after).not.toContain('/advance')
  const { html } = await session.get('/simulations?state=cancelled')
  expect(html).toContain(path)
})

test('simulations: missing and malformed ids return 404', async () => {
  for (const id of ['sim_00000000000000000000000000', 'evt_1', 'sim_%3Cb%3E'])
    expect((await session.get(`/simulations/${id}`)).status).toBe(404)
})
