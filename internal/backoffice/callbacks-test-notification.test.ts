import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { adminToken, someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

const receiver =
  'notifications: {url: "http://127.0.0.1:9998/", allowedCIDRs: [127.0.0.0/8], events: [latchkey.limit.near], signingSecretRef: {name: acme-signing}}'
let backoffice: TestBackoffice

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme', { spec: [receiver] }),
      dashboardTenantYaml('blocked', {
        spec: ['suspended: true', receiver.replace('acme-signing', 'blocked-signing')],
      }),
      dashboardTenantYaml('plain'),
    ].join(''),
  )
}, 30_000)
afterAll(() => backoffice.close())

const pathOf = (slug: string) => `/internal/v1/tenants/${backoffice.tenantId(slug)}/notifications/test`
const send = (slug: string, token?: string) =>
  backoffice.call('POST', pathOf(slug), token === undefined ? {} : { token })

test('test notification: one notification per interval is stored in the queue of notifications and audited', async () => {
  const first = await send('acme')
  expect(first).toMatchObject({ status: 202, json: { isNew: true, id: expect.stringMatching(/^evt_/) } })
  // The calls can fall into two intervals, because the next interval can begin between two of them.
  const ids = [first, await send('acme'), await send('acme')].map(({ json }) => String(json['id']))
  expect(new Set(ids).size).toBeLessThan(3)
  const id = ids[0] as EventId
  const { json } = await backoffice.call('GET', `/internal/v1/events/${id}`)
  expect(json).toMatchObject({
    event: {
      provider: 'latchkey',
      type: 'latchkey.test',
      state: 'accepted',
      origin: { kind: 'notification' },
    },
  })
  const queues = await backoffice.pool.query('SELECT destination FROM deliveries_due WHERE event_id = $1', [
    id,
  ])
  expect(queues.rows).toEqual([{ destination: 'notifications' }])
  const audited = await backoffice.call('GET', '/internal/v1/audit-entries?action=notifications.tested')
  expect(audited.json['items']).toHaveLength(new Set(ids).size)
})

test.each([
  ['has no receiver', 'plain', 'set spec.notifications'],
  ['is suspended', 'blocked', 'This tenant is suspended'],
])('test notification: returns 409 for a tenant that %s', async (_what, slug, text) => {
  const { status, json } = await send(slug)
  expect(status).toBe(409)
  expect(JSON.stringify(json)).toContain(text)
})

test('test notification: requires the right to replay', async () => {
  backoffice.allow(({ verb, subresource }) => verb === 'get' && subresource === '')
  expect((await send('acme', someUser())).status).toBe(403)
  expect((await send('acme', dashboardKey('plain'))).status).toBe(404)
  backoffice.allow(({ verb, subresource }) => verb === 'create' && subresource === 'replays')
})

test('test notification: the page of the tenant offers to send one, and the form redirects to the event of the notification', async () => {
  const admin = await openDashboardSession(backoffice.url, adminToken)
  const path = `/tenants/${backoffice.tenantId('acme')}`
  expect((await admin.get(path)).html).toContain(`href="${path}/notifications/test"`)
  expect((await admin.get(`/tenants/${backoffice.tenantId('plain')}`)).html).not.toContain(
    'notifications/test',
  )
  expect((await admin.get(`${path}/notifications/test`)).html).toContain(
    'Send the test notification</button>',
  )
  const sent = await admin.post(`${path}/notifications/test`)
  expect(sent.status).toBe(303)
  expect(sent.location).toMatch(/^\/events\/evt_[0-9a-z]{26}\?tenant=/)
  expect((await admin.get(sent.location ?? '')).html).toContain('latchkey.test')
})

test('event type catalogue: contains the types of notifications with samples', async () => {
  const admin = await openDashboardSession(backoffice.url, adminToken)
  expect((await admin.get('/event-types?search=latchkey.limit')).html).toContain(
    '/event-types/latchkey.limit.near',
  )
  const { status, html } = await admin.get('/event-types/latchkey.limit.near')
  expect(status).toBe(200)
  expect(html).toContain('eventsPerMonth')
})
