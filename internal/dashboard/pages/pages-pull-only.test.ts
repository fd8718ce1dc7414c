import { afterAll, beforeAll, expect, test } from 'bun:test'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let session: DashboardSession

beforeAll(async () => {
  const pullOnly = dashboardTenantYaml('reel').replace(/ {2}callback: .*\n/, '')
  backoffice = await startTestBackoffice(pullOnly + dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, someUser())
}, 30_000)
afterAll(() => backoffice.close())

async function store(slug: string, fields: Parameters<typeof receivedEvent>[0] = {}): Promise<string> {
  const event = receivedEvent({ tenantId: backoffice.tenantId(slug), ...fields })
  const [id] = await acceptEvents(backoffice.pool, [event])
  if (id === undefined) throw new Error('no event')
  return id
}

test('tenant page: a tenant without a callback says that its events are pulled, and offers no test event', async () => {
  const { html } = await session.get('/tenants/reel')
  expect(html).toContain('Events are pulled')
  expect(html).not.toContain('Send a test event')
  expect((await session.get('/tenants/acme')).html).toContain('Send a test event')
})

test('event page: an event of a tenant without a callback waits for a pull, and offers no delivery', async () => {
  const id = await store('reel', { isPullOnly: true })
  const { html } = await session.get(`/events/${id}`)
  expect(html).toContain('Waiting for a pull')
  expect(html).toContain('PUT /v1/subscriptions/{name}')
  expect(html).not.toContain('Attempt now')
  await backoffice.pool.query(`UPDATE events SET state = 'processed', completed_at = now() WHERE id = $1`, [
    id,
  ])
  const after = await session.get(`/events/${id}`)
  expect(after.html).toContain('A subscription acknowledged the event.')
  expect(after.html).not.toContain(`/events/${id}/replay`)
})

test('event page: a simulated event links to its simulation only if one is stored', async () => {
  const started = await session.post('/simulations/new', {
    tenant: 'acme',
    amount: '1',
    currency: 'EUR',
    key: 'k',
    reference: 'r-1',
  })
  const stored = /\/simulations\/(sim_[0-9a-z]+)/.exec(started.location ?? '')?.[1] ?? ''
  expect(stored).not.toBe('')
  const of = (simulationId: string) => store('acme', { origin: { kind: 'simulation', simulationId } })
  expect((await session.get(`/events/${await of(stored)}`)).html).toContain(`href="/simulations/${stored}"`)
  const single = await session.get(`/events/${await of('sim_06gzx3byyxdccqxb8v47jbp37g')}`)
  expect(single.status).toBe(200)
  expect(single.html).toContain('a simulation')
  expect(single.html).not.toContain('href="/simulations/sim_')
})
