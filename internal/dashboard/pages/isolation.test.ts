import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  type AskedRight,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/backoffice-tenants.ts'
import {
  type DashboardSession,
  openDashboardSession,
  withoutFormToken,
} from '#test/support/dashboard-session.ts'

let backoffice: TestBackoffice
let rival: SeededTenant
let session: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    `${dashboardTenantYaml('acme')}${dashboardTenantYaml('rival', { namespace: 'depots' })}`,
  )
  await seedTenant(backoffice, 'acme')
  rival = await seedTenant(backoffice, 'rival')
}, 30_000)
afterAll(() => backoffice.close())
beforeEach(() => backoffice.allow(() => false))

type Named = Pick<SeededTenant, 'tenantId' | 'simulationId'>
const unknown: Named = {
  tenantId: `ten_${'1'.repeat(26)}` as SeededTenant['tenantId'],
  simulationId: 'sim_06gw979vs1d9q6mddfvvx375s4',
}

/** Pages that name a tenant, or something of one. */
const pages: readonly ((of: Named) => string)[] = [
  ({ tenantId }) => `/tenants/${tenantId}`,
  ({ tenantId }) => `/tenants/${tenantId}/test`,
  ({ tenantId }) => `/tenants/${tenantId}/resume`,
  ({ tenantId }) => `/tenants?tenant=${tenantId}`,
  ({ tenantId }) => `/usage?tenant=${tenantId}`,
  ({ tenantId }) => `/usage/override?tenant=${tenantId}&limit=eventsPerMonth`,
  ({ tenantId }) => `/usage/override/clear?tenant=${tenantId}&limit=eventsPerMonth`,
  ({ tenantId }) => `/simulations?tenant=${tenantId}`,
  ({ tenantId }) => `/simulations/new?tenant=${tenantId}`,
  ({ simulationId }) => `/simulations/${simulationId}`,
  ({ simulationId }) => `/simulations/${simulationId}/cancel`,
  ({ tenantId }) => `/executions?tenant=${tenantId}`,
  ({ tenantId }) => `/settings?tenant=${tenantId}`,
  ({ tenantId }) => `/settings/change?tenant=${tenantId}&name=forwarding.paused`,
  ({ tenantId }) => `/settings/clear?tenant=${tenantId}&name=forwarding.paused`,
  ({ tenantId }) => `/audit?tenant=${tenantId}`,
]

const soon = new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)
/** Forms that name a tenant, or something of one. */
const forms: readonly ((of: Named) => readonly [path: string, fields?: Readonly<Record<string, string>>])[] =
  [
    ({ tenantId }) => [`/tenants/${tenantId}/test`],
    ({ tenantId }) => [`/tenants/${tenantId}/resume`],
    ({ tenantId: tenant }) => [
      '/usage/override',
      { tenant, limit: 'eventsPerMonth', kind: 'none', until: soon, reason: 'r', sure: 'yes' },
    ],
    ({ tenantId: tenant }) => ['/usage/override/clear', { tenant, limit: 'eventsPerMonth' }],
    ({ tenantId: tenant }) => ['/simulations/new', { tenant, amount: '1', currency: 'EUR', key: 'planted' }],
    ({ simulationId }) => [`/simulations/${simulationId}/advance`, { event: 'evt_sim_x_1' }],
    ({ simulationId }) => [`/simulations/${simulationId}/cancel`],
    ({ tenantId: tenant }) => [
      '/settings/change',
      { tenant, name: 'forwarding.paused', value: 'true', version: '0' },
    ],
    ({ tenantId: tenant }) => ['/settings/clear', { tenant, name: 'forwarding.paused', version: '0' }],
  ]

/** What differs in any two answers: what was asked for, and the session's token. */
function blurred(html: string, { tenantId, simulationId }: Named): string {
  return withoutFormToken(html)
    .replaceAll(tenantId, 'ID')
    .replaceAll(simulationId, 'ID')
    .replaceAll(/in <!-- -->?\d+|\d+ (ms|s|min|h)\b/g, '')
}

describe('a tenant’s key', () => {
  beforeAll(async () => {
    session = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  })

  test.each(pages.map((page) => [page(unknown).replaceAll('1'.repeat(26), '…'), page] as const))(
    'does not see another’s page: %s is as for one that does not exist',
    async (_path, page) => {
      const [others, nobodys] = [await session.get(page(rival)), await session.get(page(unknown))]
      expect(others.status).toBe(404)
      expect(nobodys.status).toBe(404)
      expect(blurred(others.html, rival)).toBe(blurred(nobodys.html, unknown))
      expect(others.html).not.toContain('rival')
    },
  )

  test.each(['rival', 'depots%2Frival'])('does not see another by its name: %s', async (name) => {
    for (const path of [`/tenants/${name}`, `/usage?tenant=${name}`, `/executions?tenant=${name}`])
      expect((await session.get(path)).status).toBe(404)
  })

  test.each([
    '/tenants',
    '/tenants?search=rival',
    `/tenants?search=${dashboardKey('rival').slice(0, 11)}`,
    '/usage',
    '/simulations',
    '/executions',
    '/executions?scope=payments&key=key-of-rival',
    '/settings',
    '/audit',
    '/audit?action=simulations.',
  ])('finds nothing of another in %s', async (path) => {
    const { status, html } = await session.get(path)
    expect(status).toBe(200)
    expect(html).toContain('acme')
    expect(html).not.toContain(rival.tenantId)
    expect(html).not.toContain(rival.simulationId)
    // The search itself is shown in its field.
    expect(html.replaceAll(/value="[^"]*"|“[^”]*”/g, '')).not.toContain('rival')
  })

  test('changes nothing of another', async () => {
    const before = await stateOf(rival)
    for (const form of forms) {
      const [path, fields] = form(rival)
      expect([path, (await session.post(path, fields)).status]).toEqual([path, 404])
    }
    expect(await stateOf(rival)).toEqual(before)
  })

  test('may simulate for its own tenant, and change no setting or limit of it', async () => {
    const { html } = await session.get('/tenants/acme')
    expect(html).toContain('acme-provider')
    const changed = await session.post('/settings/change', {
      name: 'forwarding.paused',
      value: 'true',
      version: '0',
    })
    expect(changed.status).toBe(403)
  })
})

async function stateOf({ tenantId }: SeededTenant): Promise<unknown> {
  const { rows } = await backoffice.pool.query(
    `SELECT (SELECT count(*) FROM audit WHERE tenant_id = $1) AS audits, (SELECT count(*) FROM limit_overrides WHERE tenant_id = $1) AS overrides,
       (SELECT json_agg(row_to_json(s)) FROM simulations s WHERE tenant_id = $1) AS simulations,
       (SELECT count(*) FROM settings WHERE tenant_id = $1) AS settings`,
    [tenantId],
  )
  return rows
}

describe('somebody who may see and do no more', () => {
  beforeAll(async () => {
    backoffice.allow(() => true)
    session = await openDashboardSession(backoffice.url, someUser())
  })
  beforeEach(() =>
    backoffice.allow(({ verb, subresource }: AskedRight) => verb === 'get' && subresource === ''),
  )

  test('reads every page, and is offered no deed', async () => {
    for (const path of [
      '/tenants',
      '/tenants/rival',
      '/usage?tenant=rival',
      '/simulations?tenant=rival',
      '/settings',
      '/audit',
    ]) {
      const { status, html } = await session.get(path)
      expect([path, status]).toEqual([path, 200])
      expect(html).not.toMatch(/href="[^"]*(\/override|\/settings\/change|\/test"|\/cancel|\/new)/)
    }
    const { html } = await session.get(`/simulations/${rival.simulationId}`)
    expect(html).not.toMatch(/\/advance|\/cancel|Start a similar one/)
  })

  test('is refused every deed, and nothing changes', async () => {
    const before = await stateOf(rival)
    for (const form of forms) {
      const [path, fields] = form(rival)
      const { status, html } = await session.post(path, fields)
      expect([path, status]).toEqual([path, 403])
      expect(html).toContain('You may not do this')
    }
    expect(await stateOf(rival)).toEqual(before)
  })

  test('is not asked about what would be refused', async () => {
    const asking = pages.filter((page) =>
      /test$|resume$|override|new|cancel|change|clear/.test(page(unknown)),
    )
    for (const page of asking)
      expect([page(rival), (await session.get(page(rival))).status]).toEqual([page(rival), 403])
  })
})

describe('somebody of one namespace', () => {
  beforeAll(async () => {
    backoffice.allow(() => true)
    session = await openDashboardSession(backoffice.url, someUser())
  })
  beforeEach(() => backoffice.allow(({ namespace }) => namespace === 'shops'))

  test('sees a tenant of it and none of another, by whatever name', async () => {
    expect((await session.get('/tenants/acme')).status).toBe(200)
    for (const page of pages)
      expect([page(rival), (await session.get(page(rival))).status]).toEqual([page(rival), 404])
  })
})
