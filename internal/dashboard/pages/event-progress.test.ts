import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml, seedTenant } from '#test/support/backoffice-tenants.ts'
import { openDashboardSession } from '#test/support/dashboard-session.ts'

let backoffice: TestBackoffice
beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
}, 30_000)
afterAll(() => backoffice.close())

test('what is updates live of an event reads no payload', async () => {
  const { eventId } = await seedTenant(backoffice, 'acme')
  const session = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  expect((await session.get(`/events/${eventId}`)).html).toContain('payload, redacted')
  // Where there are none, who reads one fails.
  await backoffice.pool.query('ALTER TABLE event_payloads RENAME COLUMN payload TO elsewhere')
  const followed = await session.get(`/events/${eventId}?part=progress`)
  expect([followed.status, followed.html.includes('payload, redacted')]).toEqual([200, false])
  expect((await session.get(`/events/${eventId}`)).status).toBe(500)
})
