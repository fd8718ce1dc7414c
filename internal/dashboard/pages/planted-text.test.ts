import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard-session.ts'

let backoffice: TestBackoffice
let session: DashboardSession
let simulation: string

/** Ends an attribute, an element and a script, and begins what would run. */
const planted = (where: string) => `${where}"'></a></script><img/src=x/onerror=alert(1)>`
/** Preact leaves `>` and `'` as they are, which end nothing where `<` and `"` cannot stand. */
const plain = (html: string) => html.replaceAll('&gt;', '>').replaceAll(/&#(39|x27);/g, "'")
const isShown = (html: string, where: string) =>
  plain(html).includes(planted(where).replaceAll('"', '&quot;').replaceAll('<', '&lt;'))

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, planted(someUser()))
  await plantInTables(backoffice)
  const until = new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)
  await session.post('/usage/override', {
    ...{ tenant: 'acme', limit: 'locksPerMonth', kind: 'none', until, reason: planted('why'), sure: 'yes' },
  })
  await session.post('/settings/change', { name: 'log.sampling', value: '0.5', version: '0' })
  const started = await session.post('/simulations/new', {
    ...{ tenant: 'acme', amount: '1', currency: 'EUR', key: 'k', reference: planted('reference') },
  })
  simulation = started.location ?? ''
}, 30_000)
afterAll(() => backoffice.close())

/** What callers, operators and other services have written. */
async function plantInTables({ pool, tenantId }: TestBackoffice): Promise<void> {
  const acme = tenantId('acme')
  const day = dayAfter(Date.now(), 30)
  await ensurePartitions(pool, [{ table: 'executions', day }])
  await pool.query(
    `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending, ended_at, status)
     VALUES ($1, $2, $3, $4, $5, 'completed', now(), 200)`,
    [acme, Date.now() * 1000, day, planted('scope'), planted('key')],
  )
  const condition = {
    ...{ type: 'Ready', status: 'False', reason: planted('reason'), message: planted('message') },
    lastTransitionTime: planted('time'),
  }
  await pool.query(
    `UPDATE tenants SET conditions = $2,
       spec = jsonb_set(jsonb_set(spec, '{displayName}', $3), '{callback,url}', $4) WHERE id = $1`,
    [
      acme,
      JSON.stringify([condition]),
      JSON.stringify(planted('display')),
      JSON.stringify(`javascript:${planted('callback')}`),
    ],
  )
  await pool.query(
    'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (now(), $1, $2, $3, $4)',
    [planted('actor'), planted('action'), acme, JSON.stringify({ [planted('name')]: [planted('value')] })],
  )
}

test.each([
  ['/tenants', ['display', 'reason']],
  ['/tenants/acme', ['display', 'reason', 'message', 'callback', 'why']],
  ['/tenants/acme/test', ['display']],
  ['/usage?tenant=acme', ['display', 'why']],
  ['/executions?tenant=acme', ['display', 'scope', 'key']],
  ['/settings', []],
  ['/audit', ['actor', 'action', 'name', 'value']],
])('%s shows what came from outside as text', async (path, places) => {
  const { status, html } = await session.get(path)
  expect(status).toBe(200)
  // The name of whoever is signed in stands on every page.
  expect(html).toContain('&lt;img/src=x')
  expect(html).not.toContain('<img')
  expect(html).not.toMatch(/href="javascript:/i)
  expect(places.filter((where) => !isShown(html, where))).toEqual([])
})

test('a simulation shows its reference as text', async () => {
  const { html } = await session.get(simulation)
  expect(html).not.toContain('<img')
  expect(isShown(html, 'reference')).toBe(true)
})

const searched = encodeURIComponent(planted('typed'))
test.each([
  `/tenants?search=${searched}`,
  `/executions?tenant=acme&scope=${searched}&key=${searched}&state=${searched}&from=${searched}`,
  `/audit?actor=${searched}&action=${searched}&to=${searched}`,
  `/usage?tenant=acme&range=${searched}`,
  `/simulations?state=${searched}&after=${searched}`,
  `/simulations/new?tenant=acme&amount=${searched}&currency=${searched}&reference=${searched}`,
  `/usage/override?tenant=acme&limit=${searched}`,
  `/settings/change?name=${searched}`,
  `/tenants/${searched}`,
])('an address is text too: %s', async (path) => {
  const { html } = await session.get(path)
  expect(html).toContain('</html>')
  expect(html).not.toContain('<img')
})

test('a form that was wrong shows what was typed as text', async () => {
  const wrong = planted('typed')
  const forms = [
    ['/usage/override', { tenant: 'acme', limit: 'locksPerMonth', hard: wrong, until: wrong, reason: wrong }],
    ['/simulations/new', { tenant: 'acme', amount: wrong, currency: wrong, reference: wrong, key: wrong }],
    ['/settings/change', { name: 'log.sampling', value: wrong, version: wrong }],
  ] as const
  for (const [path, fields] of forms) {
    const { status, html } = await session.post(path, fields)
    expect([path, status]).toEqual([path, 422])
    expect(html).not.toContain('<img')
    expect(isShown(html, 'typed')).toBe(true)
  }
})
