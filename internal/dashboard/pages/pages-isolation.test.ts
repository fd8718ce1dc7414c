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
} from '#test/support/dashboard/backoffice-tenants.ts'
import {
  type DashboardSession,
  openDashboardSession,
  withoutFormToken,
} from '#test/support/dashboard/dashboard-session.ts'
import { pages as rows } from './pages.ts'

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

type Named = Pick<SeededTenant, 'tenantId' | 'simulationId' | 'replayId'> & { readonly failedId: string }
const unknown: Named = {
  tenantId: `ten_${'1'.repeat(26)}` as SeededTenant['tenantId'],
  simulationId: 'sim_06gw979vs1d9q6mddfvvx375s4',
  failedId: 'evt_06gw979vs1d9q6mddfvvx375s4',
  replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
}
const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)
const soon = new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)

/** Pages that name a tenant or an object of one. */
const pages: readonly ((of: Named) => string)[] = [
  ({ tenantId }) => `/tenants/${tenantId}`,
  ({ tenantId }) => `/tenants/${tenantId}/test`,
  ({ tenantId }) => `/tenants/${tenantId}/resume`,
  ({ tenantId }) => `/tenants/${tenantId}/notifications/test`,
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
  ({ failedId }) => `/events/${failedId}`,
  ({ failedId }) => `/events/${failedId}?part=progress`,
  ({ failedId }) => `/events/${failedId}/attempts/1-1`,
  ({ failedId }) => `/events/${failedId}/replay`,
  ({ replayId }) => `/replays/${replayId}`,
  ({ replayId }) => `/replays/${replayId}/cancel`,
  ({ tenantId }) => `/events?tenant=${tenantId}`,
  ({ tenantId }) => `/events/search?tenant=${tenantId}`,
  ({ tenantId }) => `/refused?tenant=${tenantId}`,
  ({ tenantId }) => `/refused/verify?tenant=${tenantId}`,
  ({ tenantId }) => `/replays?tenant=${tenantId}`,
  ({ tenantId }) => `/replays/new?tenant=${tenantId}`,
  ({ tenantId }) => `/replays/preview?tenant=${tenantId}&from=${hourAgo}`,
]

/** Forms that name a tenant or an object of one. */
const forms: readonly ((of: Named) => readonly [path: string, fields?: Readonly<Record<string, string>>])[] =
  [
    ({ tenantId }) => [`/tenants/${tenantId}/test`],
    ({ tenantId }) => [`/tenants/${tenantId}/resume`],
    ({ tenantId }) => [`/tenants/${tenantId}/notifications/test`],
    ({ tenantId: tenant }) => [
      '/usage/override',
      { tenant, limit: 'eventsPerMonth', kind: 'none', expiresAt: soon, reason: 'r', sure: 'yes' },
    ],
    ({ tenantId: tenant }) => ['/usage/override/clear', { tenant, limit: 'eventsPerMonth' }],
    ({ tenantId: tenant }) => ['/simulations/new', { tenant, amount: '1', currency: 'EUR', key: 'planted' }],
    ({ simulationId }) => [`/simulations/${simulationId}/advance`, { event: `evt_${simulationId}_1` }],
    ({ simulationId }) => [`/simulations/${simulationId}/cancel`],
    ({ tenantId: tenant }) => [
      '/settings/change',
      { tenant, name: 'forwarding.paused', value: 'true', version: '0' },
    ],
    ({ tenantId: tenant }) => ['/settings/clear', { tenant, name: 'forwarding.paused', version: '0' }],
    ({ failedId }) => [`/events/${failedId}/payload`],
    ({ failedId }) => [`/events/${failedId}/replay`, { cycle: '1' }],
    ({ failedId }) => [`/events/${failedId}/retry`],
    ({ tenantId: tenant }) => ['/events/search', { tenant, find: 'a', from: hourAgo }],
    ({ replayId }) => [`/replays/${replayId}/cancel`],
    ({ tenantId: tenant }) => ['/replays', { tenant, from: hourAgo, to: soon, key: crypto.randomUUID() }],
  ]

/** Paths that name no tenant. A saved view belongs to its actor, and a call that is verified is sent along. */
const withoutTenant = [
  '/',
  '/go',
  '/jump',
  '/event-types',
  '/event-types/:type',
  '/events/views',
  '/events/views/delete',
]
const forCallOnly = '/refused/verify'

test('isolation: the lists in this test file contain every dashboard page and form whose path or fields name a tenant', () => {
  const paths = pages.map((page) => page(unknown).replace(/\?.*/, ''))
  const targets = forms.map((form) => form(unknown)[0])
  const missing = rows.filter((row) => {
    const listed = 'act' in row ? [...targets, forCallOnly] : paths
    const pattern = new RegExp(`^${row.path.replaceAll(/:\w+/g, '[^/]+')}$`)
    return !withoutTenant.includes(row.path) && !listed.some((path) => pattern.test(path))
  })
  expect(missing.map(({ method, path }) => `${method} ${path}`)).toEqual([])
})

/** Removes what differs between any two responses: the requested ids, the CSRF token and durations. */
function blurred(html: string, of: Named): string {
  let text = withoutFormToken(html).replaceAll(/in <!-- -->?\d+|\d+ (ms|s|min|h)\b/g, '')
  for (const id of [of.tenantId, of.simulationId, of.failedId, of.replayId]) text = text.replaceAll(id, 'ID')
  return text
}

/** Rows of a tenant that forms could change, and its audit entries. */
async function stateOf({ tenantId }: SeededTenant): Promise<unknown> {
  const { rows } = await backoffice.pool.query(
    `SELECT (SELECT count(*) FROM audit WHERE tenant_id = $1) AS audits, (SELECT count(*) FROM limit_overrides WHERE tenant_id = $1) AS overrides,
       (SELECT json_agg(row_to_json(s)) FROM simulations s WHERE tenant_id = $1) AS simulations,
       (SELECT count(*) FROM settings WHERE tenant_id = $1) AS settings,
       (SELECT json_agg(e.cycle ORDER BY e.id) FROM events e WHERE tenant_id = $1) AS cycles,
       (SELECT json_agg(r.state ORDER BY r.id) FROM replays r WHERE tenant_id = $1) AS replays`,
    [tenantId],
  )
  return rows
}

/** Sends each form about the rival, and checks that none is accepted or changes anything. */
async function expectRefused(status: number, text: string): Promise<void> {
  const before = await stateOf(rival)
  for (const form of forms) {
    const [path, fields] = form(rival)
    const answer = await session.post(path, fields)
    expect([path, answer.status]).toEqual([path, status])
    expect(answer.html).toContain(text)
    expect(answer.html).not.toContain('820982911946154508')
  }
  expect(await stateOf(rival)).toEqual(before)
}

describe('tenant key', () => {
  beforeAll(async () => {
    session = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  })

  test.each(pages.map((page) => [page(unknown).replaceAll('1'.repeat(26), '…'), page] as const))(
    'tenant key: %s of another tenant returns 404, the same as for a missing object',
    async (_path, page) => {
      const [others, missing] = [await session.get(page(rival)), await session.get(page(unknown))]
      expect([others.status, missing.status]).toEqual([404, 404])
      expect(blurred(others.html, rival)).toBe(blurred(missing.html, unknown))
      expect(others.html).not.toContain('rival')
    },
  )

  test.each(['rival', 'depots%2Frival'])(
    'tenant key: pages of another tenant return 404 when the address contains the name %s',
    async (name) => {
      for (const path of [`/tenants/${name}`, `/usage?tenant=${name}`, `/executions?tenant=${name}`])
        expect((await session.get(path)).status).toBe(404)
    },
  )

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
    '/events',
    '/events?find=src-rival',
    () => `/events?find=${rival.failedId}`,
    () => `/events?after=${rival.failedId}`,
    '/refused',
    () => `/refused?after=${rival.refusedId}`,
    '/replays',
    () => `/replays?after=${rival.replayId}`,
    `/replays/preview?from=${hourAgo}`,
  ])('tenant key: %p shows no data of another tenant', async (path) => {
    const { status, html } = await session.get(typeof path === 'string' ? path : path())
    expect(status).toBe(200)
    expect(html).toContain('acme')
    // Ignores the page's own address and the text in the search field, which repeat the request.
    const shown = html.replaceAll(
      /value="[^"]*"|“[^”]*”|(href|hx-get)="[^"]*[?&;](after|find|search|key)=[^"]*"/g,
      '',
    )
    const { tenantId, eventId, failedId, replayId, refusedId, simulationId } = rival
    for (const theirs of ['rival', tenantId, eventId, failedId, replayId, refusedId, simulationId])
      expect(shown).not.toContain(theirs)
  })

  test('tenant key: every form about another tenant returns 404 and changes nothing', () =>
    expectRefused(404, 'Not found'))

  test('tenant key: can open the page of its own tenant, but cannot change its settings', async () => {
    const { html } = await session.get('/tenants/acme')
    expect(html).toContain('acme-provider')
    const fields = { name: 'forwarding.paused', value: 'true', version: '0' }
    expect((await session.post('/settings/change', fields)).status).toBe(403)
  })
})

describe('read-only user', () => {
  beforeAll(async () => {
    backoffice.allow(() => true)
    session = await openDashboardSession(backoffice.url, someUser())
  })
  beforeEach(() =>
    backoffice.allow(({ verb, subresource }: AskedRight) => verb === 'get' && subresource === ''),
  )

  test.each([
    '/tenants',
    '/tenants/rival',
    '/usage?tenant=rival',
    '/simulations?tenant=rival',
    '/settings',
    '/audit',
    () => `/simulations/${rival.simulationId}`,
  ])('read-only user: the page %p offers no action', async (path) => {
    const { status, html } = await session.get(typeof path === 'string' ? path : path())
    expect(status).toBe(200)
    expect(html).not.toMatch(/href="[^"]*(\/override|\/settings\/change|\/test"|\/cancel|\/new)/)
    expect(html).not.toMatch(/\/advance|Start a similar one/)
  })

  test('read-only user: every form returns 403 and changes nothing', () =>
    expectRefused(403, 'Permission denied'))

  const isAction = (path: string) => /test$|resume$|override|new|cancel|change|clear|\/replay$/.test(path)
  test.each(pages.filter((page) => isAction(page(unknown))).map((page) => [page(unknown), page] as const))(
    'read-only user: the page of the action %s returns 403',
    async (_path, page) => {
      expect((await session.get(page(rival))).status).toBe(403)
    },
  )
})

describe('user of one namespace', () => {
  beforeAll(async () => {
    backoffice.allow(() => true)
    session = await openDashboardSession(backoffice.url, someUser())
  })
  beforeEach(() => backoffice.allow(({ namespace }) => namespace === 'shops'))

  test('user of one namespace: can open the pages of its tenant, and every page of another namespace’s tenant returns 404', async () => {
    expect((await session.get('/tenants/acme')).status).toBe(200)
    for (const page of pages)
      expect([page(rival), (await session.get(page(rival))).status]).toEqual([page(rival), 404])
  })
})
