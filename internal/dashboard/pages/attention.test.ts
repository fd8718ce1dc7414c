import { afterAll, beforeAll, expect, test } from 'bun:test'
import { spoolKeys } from '#internal/intake/spool.ts'
import {
  adminToken,
  openBackofficeOn,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { startSpoolLab } from '#test/support/intake/spool-lab.ts'
import { command } from '#test/support/stores/redis-topology.ts'

let backoffice: TestBackoffice
let operator: DashboardSession
let acmeKey: DashboardSession
const user = someUser()

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    ['acme', 'bolt'].map((name) => dashboardTenantYaml(name)).join('') +
      dashboardTenantYaml('crate', { namespace: 'depots' }),
  )
  backoffice.allow(() => true)
  operator = await openDashboardSession(backoffice.url, user)
  acmeKey = await openDashboardSession(backoffice.url, dashboardKey('acme'))
}, 30_000)
afterAll(() => backoffice.close())

const pause = (fields: Record<string, string>) =>
  operator.post('/settings/change', { value: 'true', version: '0', ...fields })
const resume = async (fields: Record<string, string>) => {
  const { html } = await operator.get(`/settings/clear?${new URLSearchParams(fields)}`)
  const version = /name="version" value="(\d+)"/.exec(html)?.[1] ?? ''
  return operator.post('/settings/clear', { ...fields, version })
}

test('attention: without problems, the overview has no list of problems and pages have no notice', async () => {
  for (const path of ['/', '/events', '/tenants/acme']) {
    const { html } = await operator.get(path)
    expect(html).not.toContain('Needs attention')
    expect(html).not.toContain('class="notice is-warn"')
  }
})

test('attention: a pause of all deliveries is shown on every page, with who paused them and a link to resume', async () => {
  expect((await pause({ name: 'forwarding.paused' })).status).toBe(303)
  for (const path of [
    '/',
    '/events',
    '/tenants',
    '/tenants/acme',
    '/usage?tenant=bolt',
    '/audit',
    '/settings',
  ]) {
    const { html } = await operator.get(path)
    expect([path, html.includes('Deliveries paused for all tenants')]).toEqual([path, true])
    expect(html).toContain(`Deliveries of all tenants are paused by user:${user} (setting forwarding.paused)`)
    expect(html).toContain('href="/settings/clear?name=forwarding.paused&amp;next=')
  }
  // A tenant sees the pause, but neither the user who set it nor a link to a page that the tenant may not open.
  const { html } = await acmeKey.get('/events')
  expect(html).toContain('are paused by the platform team (setting forwarding.paused)')
  expect(html).not.toContain(user)
  expect(html).not.toContain('/settings/clear')
  expect((await resume({ name: 'forwarding.paused' })).status).toBe(303)
  expect((await operator.get('/events')).html).not.toContain('Deliveries paused')
})

test('attention: a pause of one tenant is shown on pages of this tenant and on pages of all tenants, but not on pages of another tenant', async () => {
  expect((await pause({ name: 'providers.card.paused', tenant: 'acme' })).status).toBe(303)
  for (const path of ['/', '/events?tenant=acme', '/tenants/acme'])
    expect((await operator.get(path)).html).toContain('Provider card paused for acme')
  expect((await acmeKey.get('/refused')).html).toContain('Provider card paused for acme')
  for (const path of ['/events?tenant=bolt', '/?tenant=bolt', '/tenants/bolt'])
    expect((await operator.get(path)).html).not.toContain('paused for acme')
  expect((await resume({ name: 'providers.card.paused', tenant: 'acme' })).status).toBe(303)
  expect((await operator.get('/')).html).not.toContain('paused for acme')
})

test.each([
  ['all tenants', undefined, ['acme', 'crate']],
  ['the namespace depots', 'depots', ['crate']],
  ['the namespace shops', 'shops', ['acme']],
])(
  'attention: the overview of %s lists failing callbacks and tenants that are not ready',
  async (_case, namespace, expected) => {
    const { pool, tenantId } = backoffice
    for (const name of ['acme', 'crate'])
      await pool.query(
        `INSERT INTO tenant_queues (tenant_id, destination, next_due_at, breaker_until) VALUES ($1, 'callback', now(), now() + interval '1 min')
       ON CONFLICT (tenant_id, destination) DO UPDATE SET breaker_until = now() + interval '1 min'`,
        [tenantId(name)],
      )
    await pool.query(
      `UPDATE tenants SET conditions = '[{"type": "Ready", "status": "False", "reason": "SecretMissing", "message": "m"}]' WHERE id = $1`,
      [tenantId('crate')],
    )
    const { html } = await operator.get('/', namespace && `latchkey-namespaces=${namespace}`)
    const listed = /Needs attention.*?<\/section>/.exec(html)?.[0] ?? ''
    const named = ['acme', 'bolt', 'crate'].filter((name) => listed.includes(`/tenants/${tenantId(name)}"`))
    expect(named).toEqual(expected)
    expect(listed).toContain('Callback failing')
    expect(listed.includes('Secret missing.')).toBe(expected.includes('crate'))
  },
)

test('attention: a limit is reported as near when the usage reaches 80 % of the hard limit', async () => {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
  await backoffice.pool.query(
    `INSERT INTO usage_hourly (tenant_id, meter, hour, amount) VALUES ($1, 'events', $2, 800)`,
    [backoffice.tenantId('bolt'), hour],
  )
  const override = (hard: string) =>
    operator.post('/usage/override', {
      tenant: 'bolt',
      limit: 'eventsPerMonth',
      kind: 'amount',
      hard,
      reason: 'r',
      sure: 'yes',
      expiresAt: new Date(Date.now() + 3_600_000).toISOString().slice(0, 19),
    })
  expect((await override('1001')).status).toBe(303)
  expect((await operator.get('/?tenant=bolt')).html).not.toContain('Limit near')
  expect((await override('1000')).status).toBe(303)
  expect((await operator.get('/?tenant=bolt')).html).toContain('Events per month: 800 of 1,000 this month.')
})

test('attention: the overview of an operator lists a spool in use and dead letters, and the overview of a tenant does not', async () => {
  const lab = await startSpoolLab()
  const { databaseUrl } = backoffice
  const opened = await openBackofficeOn({ databaseUrl, redisUrl: lab.server.url })
  try {
    const admin = await openDashboardSession(opened.url, adminToken)
    const listed = async () => /Needs attention.*?<\/section>/.exec((await admin.get('/')).html)?.[0] ?? ''
    expect(await listed()).not.toContain('pool')
    await lab.spool().append(receivedEvent())
    expect(await listed()).toContain('1 accepted event is in Redis until Postgres stores it, for ')
    expect(await listed()).not.toContain('Dead letters')
    for (const id of ['evt_1', 'evt_2']) await command(lab.server, ['XADD', spoolKeys.dead, '*', 'id', id])
    expect(await listed()).toContain('2 accepted events could not be stored')
    const owner = await openDashboardSession(opened.url, dashboardKey('acme'))
    expect((await owner.get('/')).html).not.toContain('pool')
  } finally {
    await opened.close()
    await lab.stop()
  }
}, 30_000)

test('attention: a page has at most ten notices, and a link to all pauses', async () => {
  const providers = ['card', 'storefront', 'codehost', 'wallet', 'generic', 'slack', 'gitlab', 'zoom', 'box']
  const settings = [...providers, 'linear', 'mux', 'okta'].map((each) => `providers.${each}.paused`)
  for (const name of settings) expect((await pause({ name, tenant: 'acme' })).status).toBe(303)
  const { html } = await operator.get('/events')
  expect(html.match(/ is paused for 1 tenant/g)).toHaveLength(10)
  expect(html).toContain('2 more pauses')
  expect(html).toContain('All are listed in <a href="/settings">settings</a>')
  for (const name of settings) expect((await resume({ name, tenant: 'acme' })).status).toBe(303)
})
