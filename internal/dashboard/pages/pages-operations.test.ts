import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { settingNames } from '#internal/settings/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

let backoffice: TestBackoffice
let session: DashboardSession
const user = someUser()
let acme: string

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('idle')}`)
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, user)
  acme = backoffice.tenantId('acme')
}, 30_000)
afterAll(() => backoffice.close())

/** Value of a form's field. */
function fieldIn(html: string, name: string): string | undefined {
  const input = new RegExp(`<input[^>]*name="${name}"[^>]*>`).exec(html)?.[0]
  return input && /value="([^"]*)"/.exec(input)?.[1]
}

describe('usage', () => {
  const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)
  const fields = (more: Readonly<Record<string, string>> = {}) => ({
    tenant: 'acme',
    limit: 'eventsPerMonth',
    kind: 'amount',
    hard: '12345',
    expiresAt: inAnHour(),
    reason: 'A sale',
    ...more,
  })

  test('usage page: offers a choice of tenants if no tenant is chosen', async () => {
    expect((await session.get('/usage')).html).toContain('Choose a tenant')
  })

  test('usage page: charts show hourly usage, including usage that other services report', async () => {
    const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
    await backoffice.pool.query(
      `INSERT INTO usage_hourly (tenant_id, meter, hour, amount)
       VALUES ($1, 'events', $2, 4711), ($1, 'locks', $2, 815), ($1, 'exports.rows', $2, 99)`,
      [acme, hour],
    )
    const { html } = await session.get('/usage?tenant=acme&values=shown')
    for (const text of ['4,711 in 24 hours', '815 in 24 hours', '99 in 24 hours', 'exports.rows'])
      expect(html).toContain(text)
    expect((await session.get('/usage?tenant=acme&range=30d')).html).toContain('4,711 in 30 days')
  })

  test('limit override: can be set after a confirmation, and is shown and recorded in the audit log', async () => {
    const asked = await session.post('/usage/override', fields())
    expect(asked.html).toContain('Override events per month of acme?')
    expect((await session.get('/usage?tenant=acme')).html).not.toContain('Overridden to')
    const done = await session.post('/usage/override', fields({ sure: 'yes' }))
    expect(done.location).toBe(`/usage?tenant=${acme}`)
    const { html } = await session.get('/usage?tenant=acme')
    expect(html).toContain('<strong>12,345</strong>')
    expect(html).toContain(`by user:${user}: “A sale”`)
    expect((await session.get('/audit?action=usage.override_set')).html).toContain('A sale')
  })

  test('limit override: an invalid form returns 422 with the error texts and the typed values', async () => {
    const { status, html } = await session.post(
      '/usage/override',
      fields({ hard: 'many', expiresAt: 'never' }),
    )
    expect(status).toBe(422)
    expect(html).toContain('Enter a whole number of at most 15 digits')
    expect(html).toContain('Enter a time such as')
    expect([fieldIn(html, 'hard'), fieldIn(html, 'reason')]).toEqual(['many', 'A sale'])
  })

  test('limit override: the form shows an error beside its field, without the name that the API has for the field', async () => {
    const until = new Date(Date.now() + 400 * 86_400_000).toISOString().slice(0, 19)
    const { status, html } = await session.post('/usage/override', fields({ expiresAt: until, sure: 'yes' }))
    expect(status).toBe(422)
    const [field] = /<div class="field[^]*?name="expiresAt"[^]*?<\/div>/.exec(html) ?? []
    expect(field).toContain('Must be in the future, at most 366 days ahead')
    expect(html).not.toContain('"expiresAt" must')
  })

  test('limit override: can remove the limit, and its form can end the override', async () => {
    await session.post('/usage/override', fields({ kind: 'none', hard: '', sure: 'yes' }))
    expect((await session.get('/usage?tenant=acme')).html).toContain('<strong>no limit</strong>')
    const of = { tenant: 'acme', limit: 'eventsPerMonth' }
    expect((await session.get('/usage/override/clear?tenant=acme&limit=eventsPerMonth')).status).toBe(200)
    expect((await session.post('/usage/override/clear', of)).location).toBe(`/usage?tenant=${acme}`)
    expect((await session.get('/usage?tenant=acme')).html).not.toContain('Overridden to')
  })

  test('usage page: shows limits on emitted kinds with their state, and their overrides can be changed', async () => {
    const limit = 'exports.rowsPerMonth'
    await session.post('/usage/override', fields({ limit, hard: '99', sure: 'yes' }))
    const { html } = await session.get('/usage?tenant=acme')
    expect(html).toContain('exports.rows per month')
    expect(html).toMatch(/<strong>99<\/strong> of 99 · 100 %/)
    expect(html).toContain('At the limit')
    const form = await session.get(`/usage/override?tenant=acme&limit=${limit}`)
    expect(form.html).toContain('Override exports.rows per month')
    expect(fieldIn(form.html, 'hard')).toBe('99')
    await session.post('/usage/override/clear', { tenant: 'acme', limit })
    expect((await session.get('/usage?tenant=acme')).html).not.toContain('exports.rows per month')
  })

  test('limit override: an unknown limit returns 400', async () => {
    expect((await session.get('/usage/override?tenant=acme&limit=mood')).status).toBe(400)
  })
})

describe('simulations', () => {
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
    const { status, html } = await session.post(
      '/simulations/new',
      fields({ amount: '0', reference: 'INV-7' }),
    )
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
})

describe('lock history', () => {
  const day = dayAfter(Date.now(), 30)
  const baseMs = Math.floor(Date.now() / 1_000) * 1_000 - 600_000

  beforeAll(async () => {
    await ensurePartitions(backoffice.pool, [{ table: 'executions', day }])
    await backoffice.pool.query(
      `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending, ended_at, status)
       SELECT $1, ($2::bigint + nth) * 1000, $3, CASE WHEN nth % 2 = 0 THEN 'even' ELSE 'odd' END, 'run-' || nth,
         CASE WHEN nth % 10 = 0 THEN 'taken_over' ELSE 'completed' END, now(), CASE WHEN nth % 10 = 0 THEN NULL ELSE 201 END
       FROM generate_series(1, 120) nth`,
      [acme, baseMs, day],
    )
  })

  const keysOn = (html: string) => [...html.matchAll(/<code>(run-\d+)<\/code>/g)].map(([, key]) => key)

  test('lock history: offers a choice of tenants if no tenant is chosen, and says when the list is empty', async () => {
    expect((await session.get('/executions')).html).toContain('Choose a tenant')
    expect((await session.get('/executions?tenant=idle')).html).toContain('No locks yet')
  })

  test('lock history: pages contain each lock once, newest first', async () => {
    const seen: (string | undefined)[] = []
    let path: string | undefined = '/executions?tenant=acme'
    for (let pages = 0; path !== undefined && pages < 10; pages += 1) {
      const { html } = await session.get(path)
      seen.push(...keysOn(html))
      path = /href="([^"]+)" rel="next"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
    }
    expect(seen).toEqual(Array.from({ length: 120 }, (_none, nth) => `run-${120 - nth}`))
  })

  test.each([
    ['scope and key', 'scope=even&key=run-12', ['run-12']],
    [
      'a state',
      'state=taken_over&scope=even',
      Array.from({ length: 12 }, (_none, nth) => `run-${120 - 10 * nth}`),
    ],
  ])('lock history: can be filtered by %s', async (_by, query, expected) => {
    const { html } = await session.get(`/executions?tenant=acme&${query}`)
    expect(keysOn(html)).toEqual(expected)
  })

  test('lock history: can be filtered by time', async () => {
    const from = new Date(baseMs).toISOString().slice(0, 19)
    expect(keysOn((await session.get(`/executions?tenant=acme&to=${from}`)).html)).toEqual([])
    expect(keysOn((await session.get(`/executions?tenant=acme&from=${from}`)).html)).toHaveLength(50)
  })

  test('lock history: a key without a scope returns 400 and runs no search', async () => {
    const { status, html } = await session.get('/executions?tenant=acme&key=run-1')
    expect(status).toBe(400)
    expect(html).toContain('A search by key requires the scope of the key')
    expect(keysOn(html)).toEqual([])
  })
})

describe('settings', () => {
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

  test('settings: changing an outdated version returns 409, and the form can be sent again', async () => {
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

  test('settings: a tenant has its own settings, and its page also shows a pause of the installation', async () => {
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
    expect([unknown.status, unknown.html.includes('did you mean providers.slack.paused?')]).toEqual([
      404,
      true,
    ])
  })

  test('settings: a link with the vendor’s name of a provider opens the setting of the neutral name', async () => {
    const { status, html } = await session.get('/settings/change?name=providers.stripe.paused')
    expect([status, html.includes('<code>providers.card.paused</code>')]).toEqual([200, true])
  })
})

describe('audit log', () => {
  test.each([
    ['actor', `actor=${user.toUpperCase()}`, 'sessions.started'],
    ['action', 'action=settings.', 'forwarding.paused'],
    ['tenant', 'tenant=acme', 'simulations.cancelled'],
    ['time', `from=${new Date(Date.now() - 3_600_000).toISOString().slice(0, 16)}`, 'sessions.started'],
  ])('audit log: can be searched by %s', async (_by, query, expected) => {
    const { status, html } = await session.get(`/audit?${query}`)
    expect(status).toBe(200)
    expect(html).toContain(expected)
  })

  test.each(['actor=nobody-at-all', 'to=2026-01-01', 'tenant=idle&action=settings.'])(
    'audit log: a search by %s finds no entries, and the page says so',
    async (query) => {
      expect((await session.get(`/audit?${query}`)).html).toContain('No entries match')
    },
  )

  test('audit log: an invalid time returns 400 with the error text', async () => {
    const { status, html } = await session.get('/audit?from=yesterday')
    expect(status).toBe(400)
    expect(html).toContain('Enter a time such as')
  })
})
