import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayAfter, type EventId } from '#internal/base/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { adminToken, someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent, refuseCall } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { addAttempt, someExchange } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

/** Each breaks out of another place: text, an attribute, a script, a link. */
const evil = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  `' onmouseover='alert(1)`,
  `</code></pre><svg/onload=alert(1)>`,
  `javascript:alert(1)`,
].join(' ')
const isActive =
  /<script>alert|<img|<svg\/onload|<[^>]*\son\w+=|(href|src|action|hx-[a-z-]+)="\s*javascript:/i

/** Ends an attribute, an element and a script, and names the place where it was planted. */
const planted = (where: string) => `${where}"'></a></script><img/src=x/onerror=alert(1)>`
/** Preact escapes neither `>` nor `'`, which are harmless where `<` and `"` are escaped. */
const plain = (html: string) => html.replaceAll('&gt;', '>').replaceAll(/&#(39|x27);/g, "'")
const isShown = (html: string, where: string) =>
  plain(html).includes(planted(where).replaceAll('"', '&quot;').replaceAll('<', '&lt;'))

let backoffice: TestBackoffice
let admin: DashboardSession
/** A user whose name is planted, too, and stands on every page. */
let user: DashboardSession
let event: EventId
let simulation: string

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('bolt')}`)
  backoffice.allow(() => true)
  admin = await openDashboardSession(backoffice.url, adminToken)
  user = await openDashboardSession(backoffice.url, planted(someUser()))
  event = await plantEvents(backoffice)
  await plantRows(backoffice)
  const until = new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)
  await user.post('/usage/override', {
    tenant: 'bolt',
    limit: 'locksPerMonth',
    kind: 'none',
    expiresAt: until,
    reason: planted('why'),
    sure: 'yes',
  })
  await user.post('/settings/change', { name: 'log.sampling', value: '0.5', version: '0' })
  const started = await user.post('/simulations/new', {
    tenant: 'bolt',
    amount: '1',
    currency: 'EUR',
    key: 'k',
    reference: planted('reference'),
  })
  simulation = started.location ?? ''
}, 30_000)
afterAll(() => backoffice.close())

/** Plants text that providers and callbacks send: an event with attempts, a refused call and a replay of acme. */
async function plantEvents({ pool, tenantId: idOf, call }: TestBackoffice): Promise<EventId> {
  const tenantId = idOf('acme')
  const [id] = await acceptEvents(pool, [
    receivedEvent({
      tenantId,
      type: evil,
      rawType: evil,
      sourceEventId: evil,
      headers: JSON.stringify({ [evil]: evil, 'latchkey-simulation': evil }),
      payload: JSON.stringify({ [evil]: evil, list: [evil] }),
    }),
  ])
  if (id === undefined) throw new Error('the event was stored without an id')
  const exchange = {
    ...someExchange,
    url: evil,
    problem: evil,
    address: evil,
    headers: [[evil, evil]],
  } as const
  await addAttempt(pool, id, { answer: evil, exchange })
  const failed = { attempt: 2, outcome: 'failed', status: null, cause: evil } as const
  await addAttempt(pool, id, {
    ...failed,
    answer: JSON.stringify([evil]),
    exchange: { ...exchange, headers: [] },
  })
  await failEvent(backoffice, id)
  await refuseCall(backoffice, 'acme', { headers: { [evil]: evil }, sample: evil })
  await pool.query(
    'UPDATE refused_calls SET cause = $1, provider = $1, source_address = $1 WHERE tenant_id = $2',
    [evil, tenantId],
  )
  const from = new Date(Date.now() - 3_600_000).toISOString()
  const started = await call('POST', '/internal/v1/replays', {
    body: { tenantId, from, type: evil },
    headers: { 'Idempotency-Key': 'evil' },
  })
  expect(started.status).toBe(202)
  await pool.query(
    'UPDATE replays SET requested_by = $1, failed_cause = $1, state = $2 WHERE tenant_id = $3',
    [evil, 'failed', tenantId],
  )
  return id
}

/** Plants text that callers, operators and other services write, for bolt. */
async function plantRows({ pool, tenantId }: TestBackoffice): Promise<void> {
  const bolt = tenantId('bolt')
  const day = dayAfter(Date.now(), 30)
  await ensurePartitions(pool, [{ table: 'executions', day }])
  await pool.query(
    `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending, ended_at, status)
     VALUES ($1, $2, $3, $4, $5, 'completed', now(), 200)`,
    [bolt, Date.now() * 1000, day, planted('scope'), planted('key')],
  )
  const condition = {
    type: 'Ready',
    status: 'False',
    reason: planted('reason'),
    message: planted('message'),
    lastTransitionTime: planted('time'),
  }
  const callback = JSON.stringify(`javascript:${planted('callback')}`)
  await pool.query(
    `UPDATE tenants SET conditions = $2,
       spec = jsonb_set(jsonb_set(spec, '{displayName}', $3), '{callback,url}', $4) WHERE id = $1`,
    [bolt, JSON.stringify([condition]), JSON.stringify(planted('display')), callback],
  )
  await pool.query(
    'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (now(), $1, $2, $3, $4)',
    [planted('actor'), planted('action'), bolt, JSON.stringify({ [planted('name')]: [planted('value')] })],
  )
}

const asked = encodeURIComponent(evil)
const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)
const replayPath = async () =>
  /href="(\/replays\/rpl_[^"?]*)/.exec((await admin.get('/replays?tenant=acme')).html)?.[1] ?? ''

test.each<[string, () => Promise<string> | string]>([
  ['the event list', () => '/events'],
  ['an event', () => `/events/${event}`],
  ['the live update of an event', () => `/events/${event}?part=progress`],
  ['an attempt with a response', () => `/events/${event}/attempts/1-1`],
  ['an attempt without a response', () => `/events/${event}/attempts/1-2`],
  ['the confirmation of a replay', () => `/events/${event}/replay`],
  ['refused calls', () => '/refused?tenant=acme'],
  ['the list of replays', () => '/replays'],
  ['the preview of a replay', () => `/replays/preview?tenant=acme&from=${hourAgo}&state=delivery_failed`],
  ['a replay', replayPath],
])('escaping: text of providers and callbacks is escaped in %s', async (_page, path) => {
  const { status, html } = await admin.get(await path())
  expect(status).toBe(200)
  expect(html).toContain('&lt;script>')
  expect(isActive.exec(html)?.[0]).toBeUndefined()
})

test('escaping: text of providers is escaped in a raw payload', async () => {
  const { status, html } = await admin.post(`/events/${event}/payload`)
  expect(status).toBe(200)
  expect(html).toContain('&lt;script>')
  expect(isActive.exec(html)?.[0]).toBeUndefined()
})

const parameters = 'type find provider state cause from to within rate after tenant'.split(' ')

test.each(['/events', '/refused', '/replays', '/replays/new', '/replays/preview'])(
  'escaping: query parameters are escaped on the page %s',
  async (path) => {
    for (const name of parameters) {
      const { html } = await admin.get(`${path}?${name === 'tenant' ? '' : 'tenant=acme&'}${name}=${asked}`)
      expect([name, isActive.exec(html)?.[0]]).toEqual([name, undefined])
    }
  },
)

test.each<[string, string[]]>([
  ['/tenants', ['display', 'reason']],
  ['/tenants/bolt', ['display', 'reason', 'message', 'callback', 'why']],
  ['/tenants/bolt/test', ['display']],
  ['/usage?tenant=bolt', ['display', 'why']],
  ['/executions?tenant=bolt', ['display', 'scope', 'key']],
  ['/settings', []],
  ['/audit', ['actor', 'action', 'name', 'value']],
])('escaping: text of users, operators and callers is escaped on the page %s', async (path, places) => {
  const { status, html } = await user.get(path)
  expect(status).toBe(200)
  expect(html).toContain('&lt;img/src=x')
  expect(html).not.toContain('<img')
  expect(html).not.toMatch(/href="javascript:/i)
  expect(places.filter((where) => !isShown(html, where))).toEqual([])
})

test('escaping: the reference of a simulation is escaped', async () => {
  const { html } = await user.get(simulation)
  expect(html).not.toContain('<img')
  expect(isShown(html, 'reference')).toBe(true)
})

const searched = encodeURIComponent(planted('typed'))
test.each([
  `/tenants?search=${searched}`,
  `/executions?tenant=bolt&scope=${searched}&key=${searched}&state=${searched}&from=${searched}`,
  `/audit?actor=${searched}&action=${searched}&to=${searched}`,
  `/usage?tenant=bolt&range=${searched}`,
  `/simulations?state=${searched}&after=${searched}`,
  `/simulations/new?tenant=bolt&amount=${searched}&currency=${searched}&reference=${searched}`,
  `/usage/override?tenant=bolt&limit=${searched}`,
  `/settings/change?name=${searched}`,
  `/tenants/${searched}`,
])('escaping: parameters are escaped on the page at %s', async (path) => {
  const { html } = await user.get(path)
  expect(html).toContain('</html>')
  expect(html).not.toContain('<img')
})

const typed = planted('typed')
test.each<[string, Record<string, string>]>([
  [
    '/usage/override',
    { tenant: 'bolt', limit: 'locksPerMonth', hard: typed, expiresAt: typed, reason: typed },
  ],
  ['/simulations/new', { tenant: 'bolt', amount: typed, currency: typed, reference: typed, key: typed }],
  ['/settings/change', { name: 'log.sampling', value: typed, version: typed }],
])('escaping: invalid values are escaped in the form %s', async (path, fields) => {
  const { status, html } = await user.post(path, fields)
  expect(status).toBe(422)
  expect(html).not.toContain('<img')
  expect(isShown(html, 'typed')).toBe(true)
})
