import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import {
  type AskedRight,
  adminToken,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  failEvent,
  refuseCall,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { addAttempt } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

const secret = 'sk_live_0123456789abcdefABCDEF'
let backoffice: TestBackoffice
let acme: SeededTenant
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  acme = await seedTenant(backoffice, 'acme')
  await addAttempt(backoffice.pool, acme.failedId)
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(() => backoffice.close())

async function accept(fields: Parameters<typeof receivedEvent>[0] = {}, atMs?: number): Promise<EventId> {
  const [id] = await acceptEvents(backoffice.pool, [
    receivedEvent({ tenantId: acme.tenantId, ...fields }, atMs),
  ])
  if (id === undefined) throw new Error('the event was stored without an id')
  return id
}

async function acceptFailed(): Promise<EventId> {
  const id = await accept()
  await failEvent(backoffice, id)
  return id
}

/** Signs in a user with rights on these subresources of every tenant. */
async function userWith(...subresources: readonly string[]): Promise<DashboardSession> {
  const name = someUser()
  backoffice.allow(({ user, subresource }: AskedRight) => user === name && subresources.includes(subresource))
  return await openDashboardSession(backoffice.url, name)
}

const listed = (html: string) =>
  [...html.matchAll(/href="\/events\/(evt_[0-9a-z]{26})[^/"]*"/g)].map(([, id]) => id)

test('event list: shows the newest event first, with link, state and tenant', async () => {
  const { status, html } = await admin.get('/events')
  expect(status).toBe(200)
  expect(listed(html)).toEqual([acme.failedId, acme.eventId].toSorted().toReversed())
  for (const text of ['Delivery failed', 'Accepted', 'order.created', 'acme', 'src-acme'])
    expect(html).toContain(text)
})

test('event list: filters by state, ids, type, provider and time, and shows the filters in the form', async () => {
  const idsOf = async (query: string) => listed((await admin.get(`/events?${query}`)).html)
  expect(await idsOf('state=delivery_failed')).toEqual([acme.failedId])
  expect(await idsOf(`find=${acme.failedId}`)).toEqual([acme.failedId])
  expect(await idsOf('type=order.created&provider=generic&within=1h')).toHaveLength(2)
  expect(await idsOf('type=order.*&tenant=acme')).toHaveLength(2)
  expect(await idsOf('find=src-acme')).toEqual([acme.eventId])
  const found = await admin.get('/events?tenant=acme&find=src-acme')
  expect(listed(found.html)).toEqual([acme.eventId])
  expect(found.html).toContain('value="src-acme"')
})

test.each(['slack', 'latchkey'])(
  'event list: filters by provider %s, which is not built in',
  async (name) => {
    const provider = parseProviderName(name)
    const id = await accept({ ...(provider && { provider }) })
    const { html } = await admin.get(`/events?provider=${name}`)
    expect(listed(html)).toEqual([id])
    expect(html).toMatch(new RegExp(`<input id="filter-provider"[^>]* value="${name}"`))
    expect(html).toContain(`<datalist id="filter-provider-suggestions"><option value="card">`)
    expect(html).toContain(`<option value="${name}">`)
  },
)

test('payload search: shows the matches, keeps the text out of addresses, and refuses a form without a term', async () => {
  const id = await accept({ payload: '{"order":{"id":"needle-42"}}', type: 'search.found' })
  const page = await admin.get('/events/search?tenant=acme')
  expect(page.html).toContain('<form method="post" action="/events/search"')
  const form = { tenant: acme.tenantId, from: '2020-01-01', text: 'needle-42' }
  const found = await admin.post('/events/search', form)
  expect([found.status, listed(found.html)]).toEqual([200, [id]])
  expect(found.html).toContain('Everything was searched')
  expect(found.html.match(/(href|action)="[^"]*needle-42/)).toBeNull()
  const byPath = await admin.post('/events/search', {
    ...form,
    text: '',
    path: 'order.id',
    equals: 'needle-42',
  })
  expect(listed(byPath.html)).toEqual([id])
  expect((await admin.post('/events/search', { ...form, text: '' })).status).toBe(422)
  expect((await admin.post('/events/search', { ...form, text: 'ab' })).html).toContain('3 to 200 characters')
  const key = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  expect(listed((await key.post('/events/search', { ...form, tenant: '' })).html)).toEqual([id])
})

test('payload search: an actor without the right to payloads gets 403', async () => {
  backoffice.allow(({ verb, subresource }) => verb === 'get' && subresource === '')
  const session = await openDashboardSession(backoffice.url, someUser())
  expect((await session.get('/events')).html).not.toContain('Search payloads')
  expect((await session.get('/events/search?tenant=acme')).status).toBe(403)
  const form = { tenant: acme.tenantId, from: '2020-01-01', text: 'needle-42' }
  expect((await session.post('/events/search', form)).status).toBe(403)
})

test('event list: filters by the last attempt, shows it in columns, and offers a replay with the same filter', async () => {
  const [id] = await acceptEvents(backoffice.pool, [
    receivedEvent({ tenantId: backoffice.tenantId('acme'), type: 'slow.answer' }),
  ])
  if (id === undefined) throw new Error('no event')
  await failEvent(backoffice, id)
  await addAttempt(backoffice.pool, id, { attempt: 4, status: 503, durationMs: 2_500 })
  const filter = 'type=slow.*&status=503&slowerThanMs=2000'
  const found = await admin.get(`/events?${filter}&tenant=acme`)
  expect(listed(found.html)).toEqual([id])
  for (const part of ['<td class="is-number is-extra" data-label="Attempts">4</td>', '>503</span>'])
    expect(found.html).toContain(part)
  expect(listed((await admin.get('/events?slowerThanMs=2500&type=slow.*')).html)).toEqual([])
  const start = /href="(\/replays\/new[^"]*)"/.exec(found.html)?.[1]?.replaceAll('&amp;', '&') ?? ''
  expect(Object.fromEntries(new URL(start, 'http://x').searchParams)).toMatchObject({
    type: 'slow.*',
    status: '503',
    slowerThanMs: '2000',
    tenant: 'acme',
  })
  const preview = await admin.get(`/replays/preview?${filter}&tenant=acme&from=2020-01-01`)
  for (const part of [id, 'last status 503', 'slower than 2']) expect(preview.html).toContain(part)
})

test.each([
  ['find=src-acme', 'has no filter by id: select events in the list'],
  ['find=evt_06gw979vs1d9q6mddfvvx375s4', 'has no filter by id: select events in the list'],
  ['state=accepted', 'Accepted events cannot be replayed'],
  ['origin=test', 'Test events cannot be replayed'],
])(
  'event list: with the filter %s, the page does not offer a replay of all matches, and says why',
  async (filter, text) => {
    const { html } = await admin.get(`/events?tenant=acme&${filter}`)
    expect(html).toContain(text)
    expect(html).not.toContain('/replays/new')
  },
)

test.each([
  ['/events?type=no.such', 200, 'No events match'],
  ['/events?to=2020-01-01', 200, 'No events match'],
  ['/events?from=yesterday', 400, 'Enter a time such as'],
  ['/events?state=lost', 400, 'Choose one of the options'],
  ['/events?provider=No%20body', 400, 'Enter the name of a provider'],
  ['/events?type=pay*', 400, 'a family of types such as payment.*'],
  ['/events?status=50x', 400, 'a class such as 5xx'],
  ['/events?find=src-acme', 200, 'evt_'],
  ['/events?after=nonsense', 400, 'begin with the first page'],
])('event list: %s returns %d with the text “%s” and the filter form', async (path, status, text) => {
  const answer = await admin.get(path)
  expect(answer.status).toBe(status)
  expect(answer.html).toContain(text)
  expect(answer.html).toContain('aria-label="Filters"')
})

test('event list: pages contain each event once, and if a search stops early, the page says so and offers to continue', async () => {
  const beforeMs = Date.now() - 3_600_000
  // The only processed event is older than all events that one search examines, and no index finds it.
  const oldest = await accept({ type: 'common.one' }, beforeMs)
  await backoffice.pool.query(`UPDATE events SET state = 'processed' WHERE id = $1`, [oldest])
  const others = Array.from({ length: 1_100 }, (_none, nth) =>
    receivedEvent({ tenantId: acme.tenantId, state: 'verified', type: 'common.one' }, beforeMs + 1 + nth),
  )
  await acceptEvents(backoffice.pool, others)
  const first = await admin.get('/events?tenant=acme&type=common.one')
  expect(listed(first.html)).toHaveLength(50)
  const second = await admin.get(nextOf(first.html))
  expect(listed(second.html)).toHaveLength(50)
  expect(new Set([...listed(first.html), ...listed(second.html)]).size).toBe(100)
  expect(second.html).toContain('First page')
  const unfinished = await admin.get('/events?tenant=acme&type=common.one&state=processed')
  expect(listed(unfinished.html)).toEqual([])
  expect(unfinished.html).toContain('Nothing found yet')
  expect(listed((await admin.get(nextOf(unfinished.html))).html)).toEqual([oldest])
})

function nextOf(html: string): string {
  const [, path] = /href="(\/events\?[^"]*after=[^"]*)"/.exec(html) ?? []
  if (path === undefined) throw new Error('the page has no next page')
  return path.replaceAll('&amp;', '&')
}

test('event page: the timeline shows when the event was received, each attempt with its response and advice, and the outcome', async () => {
  const id = await accept()
  await addAttempt(backoffice.pool, id, { durationMs: 1_234, answer: '{"error":"out of stock"}' })
  const second = { attempt: 2, outcome: 'failed', status: null, cause: 'tls_failed' } as const
  await addAttempt(backoffice.pool, id, second)
  await addAttempt(backoffice.pool, id, { attempt: 3, status: 404, cause: 'attempts_exhausted' })
  await failEvent(backoffice, id)
  const { status, html } = await admin.get(`/events/${id}`)
  expect(status).toBe(200)
  for (const part of [
    'Received',
    'Verified and stored',
    '1.2 s',
    'out of stock',
    'TLS failed',
    'Renew the certificate',
    'serves nothing at this path',
    'after 3 attempts',
    'all attempts of the retry schedule were made',
    `href="/events/${id}/replay"`,
  ])
    expect(html).toContain(part)
})

test('pending event: the page shows the next attempt and updates live, and updates omit the payload', async () => {
  const id = await accept({ payload: '{"note":"see me once"}' })
  const due = await admin.get(`/events/${id}`)
  for (const part of ['Due now', 'see me once', 'tick from:#live']) expect(due.html).toContain(part)
  expect(due.html).not.toContain('/replay"')
  const followed = await admin.get(`/events/${id}?part=progress`)
  expect(followed.html).toContain('id="progress"')
  expect(followed.html).not.toContain('see me once')
  await addAttempt(backoffice.pool, id)
  await backoffice.pool.query(
    `UPDATE deliveries_due SET due_at = now() + interval '90 s' WHERE event_id = $1`,
    [id],
  )
  const { html } = await admin.get(`/events/${id}`)
  expect(html).toMatch(/Next attempt .*in 1 min (2\d|30) s/)
  expect(html).toContain(`action="/events/${id}/retry"`)
  const viewer = await userWith('')
  expect((await viewer.get(`/events/${id}`)).html).not.toContain('/retry"')
  expect((await viewer.post(`/events/${id}/retry`)).status).toBe(403)
  expect((await admin.post(`/events/${id}/retry`)).status).toBe(303)
  expect((await admin.get(`/events/${id}`)).html).toContain('Due now')
})

test.each([
  '/events/evt_06gw979vs1d9q6mddfvvx375s4',
  '/events/not-an-id',
  '/events/evt_06gw979vs1d9q6mddfvvx375s4/replay',
])('missing event: %s returns 404', async (path) => {
  expect((await admin.get(path)).status).toBe(404)
})

test('expired payload: the page states the expiry and offers no payload, and the form for the payload returns 409', async () => {
  const id = await accept({ payloadExpiresOn: '2026-01-01' })
  await failEvent(backoffice, id)
  const { html } = await admin.get(`/events/${id}`)
  expect(html).toContain('The payload has expired')
  expect(html).not.toContain('Reveal as received')
  expect((await admin.post(`/events/${id}/payload`)).status).toBe(409)
})

test('payload: is redacted on the page, and shown as received on request, with an audit entry', async () => {
  const payload = `{"apiKey":"${secret}","email":"ada@example.com","amount":820982911946154508}`
  const id = await accept({ payload, headers: `{"x-token":"${secret}","content-type":"application/json"}` })
  await addAttempt(backoffice.pool, id, { answer: `{"token":"${secret}"}` })
  const redacted = await admin.get(`/events/${id}`)
  expect(redacted.html).toContain('820982911946154508')
  for (const hidden of [secret, 'ada@example.com']) expect(redacted.html).not.toContain(hidden)
  const revealed = await admin.post(`/events/${id}/payload`)
  expect(revealed.status).toBe(200)
  for (const part of [secret, 'ada@example.com']) expect(revealed.html).toContain(part)
  const { rows } = await backoffice.pool.query(
    `SELECT actor FROM audit WHERE action = 'payloads.read' AND detail->>'eventId' = $1`,
    [id],
  )
  expect(rows).toEqual([{ actor: 'operator:dev' }])
})

test('payload: a read-only user is not offered the raw payload and cannot read it', async () => {
  const id = await accept({ payload: `{"apiKey":"${secret}"}` })
  const viewer = await userWith('')
  const page = await viewer.get(`/events/${id}`)
  expect(page.html).toContain('You may not read raw payloads')
  expect(page.html).not.toContain('Reveal as received')
  const asked = await viewer.post(`/events/${id}/payload`)
  expect(asked.status).toBe(403)
  expect(asked.html).not.toContain(secret)
})

const cycleOf = async (id: EventId) =>
  (await backoffice.pool.query('SELECT cycle, state FROM events WHERE id = $1', [id])).rows

test('event replay: the page asks first, and sending the form twice starts one delivery cycle', async () => {
  const id = await acceptFailed()
  const asked = await admin.get(`/events/${id}/replay`)
  for (const part of ['Deliver this event again?', 'name="cycle" value="1"'])
    expect(asked.html).toContain(part)
  for (const time of [1, 2]) {
    const { status, location } = await admin.post(`/events/${id}/replay`, { cycle: '1' })
    expect([time, status, location]).toEqual([time, 303, `/events/${id}`])
  }
  expect(await cycleOf(id)).toEqual([{ cycle: 2, state: 'accepted' }])
  expect((await admin.get(`/events/${id}`)).html).toContain('Delivery cycle 2')
})

test('event replay: a user without the right is not offered a replay and cannot start one', async () => {
  const id = await acceptFailed()
  const viewer = await userWith('', 'payloads')
  expect((await viewer.get(`/events/${id}`)).html).not.toContain(`/events/${id}/replay`)
  expect((await viewer.get(`/events/${id}/replay`)).status).toBe(403)
  expect((await viewer.post(`/events/${id}/replay`, { cycle: '1' })).status).toBe(403)
  expect(await cycleOf(id)).toEqual([{ cycle: 1, state: 'delivery_failed' }])
})

test.each(['', '0', 'x'])('event replay: a form with cycle %p returns 400', async (cycle) => {
  expect((await admin.post(`/events/${acme.failedId}/replay`, { cycle })).status).toBe(400)
})

test('tenant key: can open the event pages of its tenant, and these pages have no tenant filter', async () => {
  const owner = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  const { html } = await owner.get(`/events/${acme.failedId}`)
  for (const part of ['Reveal as received', `/events/${acme.failedId}/replay`]) expect(html).toContain(part)
  const list = await owner.get('/events?find=src-acme')
  expect(listed(list.html)).toEqual([acme.eventId])
  expect(list.html).not.toContain('for="filter-tenant"')
})

const hourAgo = () => new Date(Date.now() - 3_600_000).toISOString().slice(0, 19)

/** Hidden fields of the form that starts a replay. */
function startFields(html: string): Record<string, string> {
  const form = /<form method="post" action="\/replays".*?<\/form>/s.exec(html)?.[0] ?? ''
  const fields = [...form.matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [name, value])
  return Object.fromEntries(fields) as Record<string, string>
}

const previewPath = () =>
  `/replays/preview?tenant=acme&state=delivery_failed&type=order.created&from=${hourAgo()}&rate=100`

test('replay of many events: can be previewed, started once per form, shown and cancelled once', async () => {
  const preview = await admin.get(previewPath())
  expect(preview.status).toBe(200)
  for (const part of ['Start this replay?', `/events/${acme.failedId}`]) expect(preview.html).toContain(part)
  expect(preview.html).not.toContain(`/events/${acme.eventId}`)
  const fields = startFields(preview.html)
  const first = await admin.post('/replays', fields)
  expect(first.status).toBe(303)
  expect(first.location).toMatch(/^\/replays\/rpl_[0-9a-z]{26}\?tenant=ten_/)
  expect((await admin.post('/replays', fields)).location).toBe(first.location)
  const path = first.location?.split('?')[0] ?? ''
  const { html } = await admin.get(path)
  for (const part of [
    'Queued',
    'at most 100 events per second',
    'operator:dev',
    'updates live',
    `${path}/cancel`,
  ])
    expect(html).toContain(part)
  expect((await admin.get('/replays')).html).toContain(path)
  expect((await admin.get(`${path}/cancel`)).html).toContain('End this replay?')
  for (const _time of [1, 2]) expect((await admin.post(`${path}/cancel`)).status).toBe(303)
  const ended = await admin.get(path)
  expect(ended.html).toContain('Cancelled')
  expect(ended.html).not.toContain(`${path}/cancel`)
})

test('replay of selected events: the list offers ended events, and the form replays exactly the checked ones', async () => {
  const { html: list } = await admin.get('/events?tenant=acme')
  for (const part of ['form="selection"', `name="${acme.failedId}" value="on"`, 'Replay selected events'])
    expect(list).toContain(part)
  expect((await (await userWith('')).get('/events?tenant=acme')).html).not.toContain('form="selection"')
  const none = await admin.get('/replays/preview?tenant=acme&selected=yes')
  expect(none.location).toBe('/events?tenant=acme')
  const preview = await admin.get(`/replays/preview?tenant=acme&selected=yes&${acme.failedId}=on`)
  for (const part of ['1 selected event', 'Replay 1 event', `/events/${acme.failedId}`])
    expect(preview.html).toContain(part)
  expect(preview.html).not.toContain(`/events/${acme.eventId}`)
  const { location } = await admin.post('/replays', startFields(preview.html))
  expect(location).toMatch(/^\/replays\/rpl_/)
  const { html } = await admin.get(location ?? '')
  for (const part of ['1 selected event', 'No event is queued yet', 'Outcome']) expect(html).toContain(part)
  expect((await admin.post(`${location?.split('?')[0]}/cancel`)).status).toBe(303)
})

test.each([
  ['from=&rate=5000', 422, ['Enter a time such as', '1 to 1000 events per second']],
  [`type=no.such&from=${hourAgo()}`, 200, ['Nothing to replay']],
])('replay preview: the query %s returns %d without a start button', async (query, status, texts) => {
  const answer = await admin.get(`/replays/preview?tenant=acme&${query}`)
  expect(answer.status).toBe(status)
  for (const text of texts) expect(answer.html).toContain(text)
  expect(answer.html).not.toContain('action="/replays"')
})

test('replay of many events: a form without the end time of the preview returns 400', async () => {
  const { status, html } = await admin.post('/replays', { tenant: 'acme', from: hourAgo() })
  expect(status).toBe(400)
  expect(html).toContain('preview the replay once more')
})

test('replay of many events: a read-only user can open a replay, but cannot start or cancel a replay', async () => {
  const viewer = await userWith('')
  const { html } = await viewer.get('/replays?tenant=acme')
  expect(html).toContain(acme.replayId)
  expect(html).not.toContain('/replays/new')
  expect((await viewer.get(`/replays/${acme.replayId}`)).html).not.toContain('/cancel')
  expect((await viewer.get('/replays/new?tenant=acme')).status).toBe(403)
  expect((await viewer.post(`/replays/${acme.replayId}/cancel`)).status).toBe(403)
  const { csrf: _own, ...fields } = startFields((await admin.get(previewPath())).html)
  expect((await viewer.post('/replays', fields)).status).toBe(403)
  expect((await admin.get(`/replays/${acme.replayId}`)).html).not.toContain('Cancelled')
})

describe('refused calls', () => {
  test('refused calls: the page requires a tenant and shows cause and advice', async () => {
    expect((await admin.get('/refused')).html).toContain('Choose a tenant')
    const { status, html } = await admin.get('/refused?tenant=acme')
    expect(status).toBe(200)
    const advice = ['Invalid signature', 'Copy the signing secret', 'signature_mismatch']
    for (const part of [acme.refusedId, '203.0.113.7', ...advice]) expect(html).toContain(part)
  })

  test.each([
    ['provider=card&cause=signature_mismatch', 200, () => acme.refusedId],
    ['provider=wallet', 200, () => 'No calls match'],
    ['cause=loop_detected', 200, () => 'No calls match'],
    ['cause=no_such', 400, () => 'Choose one of the options'],
    ['provider=No%20body', 400, () => 'Enter the name of a provider'],
    ['provider=slack', 200, () => 'No calls match'],
  ])('refused calls: the filter %s returns %d', async (filter, status, text) => {
    const answer = await admin.get(`/refused?tenant=acme&${filter}`)
    expect(answer.status).toBe(status)
    expect(answer.html).toContain(text())
  })

  test('refused calls: secrets are redacted in headers and bodies, also at the end of a truncated body', async () => {
    const { id } = await refuseCall(backoffice, 'acme', {
      headers: { 'x-api-key': secret, 'user-agent': 'curl/8' },
      sample: `{"password":"${secret}","note":"kept"}`,
    })
    // The body is cut at the maximum length of a stored sample, in the middle of the secret.
    await refuseCall(backoffice, 'acme', {
      sample: `{"text":"${'x'.repeat(980)}","password":"${secret}`.slice(0, 1_024),
    })
    const { html } = await admin.get('/refused?tenant=acme')
    for (const part of [id, 'curl/8', 'kept', 'xxxx']) expect(html).toContain(part)
    for (const part of [secret, secret.slice(0, 12)]) expect(html).not.toContain(part)
  })
})

test('event page: live updates do not read the payload from the database', async () => {
  const path = `/events/${acme.eventId}`
  expect((await admin.get(path)).html).toContain('payload, redacted')
  // Makes reading a payload fail.
  await backoffice.pool.query('ALTER TABLE event_payloads RENAME COLUMN payload TO elsewhere')
  const followed = await admin.get(`${path}?part=progress`)
  expect([followed.status, followed.html.includes('payload, redacted')]).toEqual([200, false])
  expect((await admin.get(path)).status).toBe(500)
})
