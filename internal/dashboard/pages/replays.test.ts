import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { eventReadSettings } from '#internal/events/index.ts'
import { countDueOutcomes } from '#internal/replays/outcome.ts'
import { stepReplay } from '#internal/replays/step.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { adminToken, someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent, seedTenant } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let pool: Pool
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    dashboardTenantYaml('acme') + dashboardTenantYaml('other', { namespace: 'other' }),
  )
  await seedTenant(backoffice, 'acme')
  await seedTenant(backoffice, 'other')
  pool = createPool({
    url: backoffice.databaseUrl,
    applicationName: 'latchkey test',
    sessionSettings: eventReadSettings,
    connectionsMax: 1,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
  })
  await pool.query("UPDATE replays SET state = 'cancelled', ended_at = now()")
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 30_000)
afterAll(async () => {
  await pool.end()
  await backoffice.close()
})

/** Stores failed events of one type, newest last. */
async function failed(count: number, type: string): Promise<EventId[]> {
  const tenantId = backoffice.tenantId('acme')
  const events = Array.from({ length: count }, () => receivedEvent({ tenantId, type }))
  const ids = await acceptEvents(backoffice.pool, events)
  for (const id of ids) await failEvent(backoffice, id)
  return ids.toSorted()
}

async function end(state: string, ids: readonly EventId[]): Promise<void> {
  await pool.query('DELETE FROM deliveries_due WHERE event_id = ANY($1)', [ids])
  await pool.query('UPDATE events SET state = $2, completed_at = now() WHERE id = ANY($1)', [ids, state])
  await listFailedEvents(pool)
}

/** Starts the replay of the form on a preview, and returns where it leads, with the cookie of the message. */
async function startWith(html: string): Promise<{ readonly path: string; readonly flash: string | null }> {
  const form = /<form method="post" action="\/replays".*?<\/form>/s.exec(html)?.[0] ?? ''
  const fields = [...form.matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name, value = '']) => [
    name,
    value.replaceAll('&amp;', '&'),
  ])
  const { status, location, flash } = await admin.post(
    '/replays',
    Object.fromEntries(fields) as Record<string, string>,
  )
  expect(status).toBe(303)
  for (let nth = 0; nth < 10 && (await stepReplay(pool, Date.now())).kind !== 'idle'; nth += 1);
  return { path: location ?? '', flash }
}

const startFrom = async (html: string) => (await startWith(html)).path

const latestReplay = async () =>
  (await pool.query<{ id: string }>('SELECT id FROM replays ORDER BY id DESC LIMIT 1')).rows[0]?.id ?? ''
const listed = (html: string) =>
  [...html.matchAll(/href="\/events\/(evt_[0-9a-z]{26})[^/"]*"/g)].map(([, id]) => id).toSorted()
const checked = (html: string) =>
  [...html.matchAll(/<input type="checkbox"[^>]*name="(evt_\w+)"[^>]* checked[^>]*>/g)]
    .map(([, id]) => id)
    .toSorted()
const linkTo = (html: string, label: string) =>
  new RegExp(`href="([^"]*)"[^>]*>${label}<`).exec(html)?.[1]?.replaceAll('&amp;', '&')

test('replay page: events that failed again are linked, listed by the API and can be replayed, and their pages link to the replay', async () => {
  const ids = await failed(4, 'order.again')
  const again = ids.slice(0, 2)
  const preview = await admin.get(
    `/replays/preview?tenant=acme&type=order.again&from=2026-01-01T00:00&state=delivery_failed`,
  )
  const path = (await startFrom(preview.html)).split('?')[0] ?? ''
  await end('processed', ids.slice(2))
  await end('delivery_failed', again)
  const page = await admin.get(path)
  expect(page.html).toContain('2 failed again')
  const failedPath = /<span class="is-bad"><a href="([^"]*)"/.exec(page.html)?.[1]?.replaceAll('&amp;', '&')
  expect(listed((await admin.get(failedPath ?? '')).html)).toEqual(again)
  expect(listed((await admin.get(linkTo(page.html, 'Its events') ?? '')).html)).toEqual(ids)
  const replayId = path.split('/').at(-1) ?? ''
  const list = (query: string) => backoffice.call('GET', `/internal/v1/events?${query}`)
  const ofTenant = `tenantId=${backoffice.tenantId('acme')}&replayId=${replayId}`
  const { items } = (await list(`${ofTenant}&outcome=failed`)).json as { items: { id: EventId }[] }
  expect(items.map(({ id }) => id).toSorted()).toEqual(again)
  expect((await list(`${ofTenant}&outcome=failed&state=processed`)).json['items']).toEqual([])
  expect((await list('outcome=failed')).status).toBe(400)
  expect((await list(`replayId=rpl_${'0'.repeat(26)}`)).status).toBe(400)

  const next = await admin.get(linkTo(page.html, 'Replay these 2 again…') ?? '')
  expect([next.html.includes('Replay 2 events'), listed(next.html)]).toEqual([true, again])
  const second = await startFrom(next.html)
  expect(second).toMatch(/^\/replays\/rpl_/)
  const event = await admin.get(`/events/${again[0]}`)
  const toSecond = `href="${second.split('?')[0]}"`
  expect(event.html).toContain(toSecond)
  const update = /hx-get="([^"]*part=progress[^"]*)"/.exec(event.html)?.[1]?.replaceAll('&amp;', '&') ?? ''
  // Makes the search for the event's replays fail.
  await pool.query('ALTER TABLE replays RENAME COLUMN queued TO elsewhere')
  const updates = [await admin.get(update), await admin.get(update.replace('origins=3', 'origins=2'))]
  await pool.query('ALTER TABLE replays RENAME COLUMN elsewhere TO queued')
  expect(updates.map(({ status, html }) => [status, html.includes(toSecond)])).toEqual([
    [200, true],
    [500, false],
  ])
  expect((await admin.get(path)).html).toContain('2 replayed since or deleted')
})

test('replays: the list, the page and the API show the same progress', async () => {
  const ids = await failed(3, 'order.words')
  const preview = await admin.get('/replays/preview?tenant=acme&type=order.words&from=2026-01-01T00:00')
  const path = (await startFrom(preview.html)).split('?')[0] ?? ''
  const progress = async () => {
    const { json } = await backoffice.call('GET', `/internal/v1${path}`)
    return String(json['progress'])
  }
  expect(await progress()).toBe('3 queued: 3 pending')
  for (const each of ['/replays?tenant=acme', path])
    expect((await admin.get(each)).html).toContain('Delivering')
  await end('processed', ids.slice(1))
  await end('delivery_failed', ids.slice(0, 1))
  await countDueOutcomes(pool, { nowMs: Date.now() + 60_000, onFailed: () => undefined })
  const words = '3 queued: 2 delivered, 1 failed again'
  for (const each of ['/replays?tenant=acme', path]) {
    const { html } = await admin.get(each)
    for (const part of ['>1 failed again<', words]) expect(html).toContain(part)
  }
  expect(await progress()).toBe(words)
})

test('selection of events: all events of a page can be selected without a script; “Back” keeps the selection, a replay clears it', async () => {
  const ids = await failed(3, 'order.select')
  const list = '/events?tenant=acme&type=order.select&within=24h'
  const page = await admin.get(list)
  expect(checked(page.html)).toEqual([])
  const all = await admin.get(linkTo(page.html, 'Select all 3 on this page') ?? '')
  expect(checked(all.html)).toEqual(ids)
  expect(all.html).toContain('Replay 3 events')
  expect(checked((await admin.get(linkTo(all.html, 'Select none') ?? '')).html)).toEqual([])
  const form = /<form id="selection".*?<\/form>/s.exec(all.html)?.[0] ?? ''
  const hidden = [...form.matchAll(/name="(\w+)" value="([^"]*)"/g)].map(([, name = '', value = '']) => [
    name,
    value.replaceAll('&amp;', '&'),
  ])
  const chosen = ids.slice(0, 2)
  const asked = new URLSearchParams([...hidden, ...chosen.map((id) => [id, 'on'])])
  const preview = await admin.get(`/replays/preview?${asked.toString()}`)
  for (const part of ['Replay 2 events', ...chosen]) expect(preview.html).toContain(part)
  const back = linkTo(preview.html, 'Back') ?? ''
  expect(back).toStartWith(`${list}&selected=`)
  expect(checked((await admin.get(back)).html)).toEqual(chosen)
  const { path, flash } = await startWith(preview.html)
  expect(path).toBe(list)
  const after = await admin.get(list, `latchkey-flash=${flash ?? ''}`)
  expect(after.html).toContain('The replay has begun.')
  expect(linkTo(after.html, 'See its progress and outcome')).toStartWith(`/replays/${await latestReplay()}`)
  expect(checked(after.html)).toEqual([])
})

test('selection of events: “Back” to a list without filters keeps the selection', async () => {
  const [id = ''] = await failed(1, 'order.unfiltered')
  const { html } = await admin.get('/events')
  const list = /name="list" value="([^"]*)"/.exec(html)?.[1] ?? ''
  const preview = await admin.get(`/replays/preview?selected=yes&list=${encodeURIComponent(list)}&${id}=on`)
  expect(linkTo(preview.html, 'Back')).toBe(`/events?selected=${id}`)
})

test('replay of a filtered list: the form, the preview and the start of the replay return to the list', async () => {
  await failed(2, 'order.filtered')
  const list = '/events?tenant=acme&state=delivery_failed&type=order.filtered&within=24h'
  const form = await admin.get(linkTo((await admin.get(list)).html, 'Replay all that match…') ?? '')
  const isList = (path: string | undefined) => {
    const [own, wanted] = [path ?? '', list].map((each) =>
      [...new URLSearchParams(each.split('?')[1])].toSorted(),
    )
    expect(own).toEqual(wanted ?? [])
  }
  isList(linkTo(form.html, 'Back'))
  const fields = [...form.html.matchAll(/<input[^>]* name="(list|from)"[^>]* value="([^"]*)"/g)].map(
    ([, name = '', value = '']) => [name, value.replaceAll('&amp;', '&')],
  )
  const asked = new URLSearchParams([...fields, ['tenant', 'acme'], ['type', 'order.filtered']])
  const preview = await admin.get(`/replays/preview?${asked.toString()}`)
  expect(preview.html).toContain('Replay 2 events')
  isList(await startFrom(preview.html))
})

test.each(['https://evil.example/', 'tenant=acme&next=https://evil.example/', '//evil.example'])(
  'selection of events: with %s as the parameter `list`, the redirect still goes to the event list',
  async (list) => {
    const { location } = await admin.get(`/replays/preview?selected=yes&list=${encodeURIComponent(list)}`)
    expect(location).toMatch(/^\/events(\?tenant=acme)?$/)
  },
)

test('events of a replay: a user who may not see the replay’s tenant finds none of its events', async () => {
  const replayId = await latestReplay()
  const user = someUser()
  backoffice.allow(({ user: asking, namespace }) => asking === user && namespace === 'other')
  const session = await openDashboardSession(backoffice.url, user)
  const { status, html } = await session.get(`/events?tenant=other&replay=${replayId}`)
  expect([status, listed(html)]).toEqual([400, []])
})

test('replay of a filtered list: without a time filter the replay has no start time, and the payload search keeps the filter', async () => {
  const [id = ''] = await failed(1, 'order.anytime')
  const list = '/events?tenant=acme&state=delivery_failed&type=order.anytime'
  const { html } = await admin.get(list)
  const form = linkTo(html, 'Replay all that match…') ?? ''
  expect(new URLSearchParams(form.split('?')[1]).get('from')).toBe('2000-01-01T00:00:00Z')
  const preview = await admin.get(form.replace('/replays/new', '/replays/preview'))
  for (const part of ['failed · order.anytime', 'any time to', 'about a second', 'Replay 1 event'])
    expect(preview.html).toContain(part)
  const search = await admin.get(linkTo(html, 'Search payloads…') ?? '')
  expect(search.html).toContain('value="order.anytime"')
  expect(search.html).toMatch(/<option value="delivery_failed" selected/)
  // The page of an event links back to the filtered list.
  const event = new RegExp(`href="(/events/${id}[^"]*)"`).exec(html)?.[1]?.replaceAll('&amp;', '&') ?? ''
  expect((await admin.get(event)).html).toContain(`href="${list.replaceAll('&', '&amp;')}"`)
})

test('replay of a selection: selected events of a single tenant become a replay of this tenant', async () => {
  const [id = ''] = await failed(1, 'order.onetenant')
  const preview = await admin.get(`/replays/preview?selected=yes&list=%3F&${id}=on`)
  expect(preview.html).toMatch(/Tenant<.*?acme/s)
  expect(preview.html).toContain(`name="tenant" value="${backoffice.tenantId('acme')}"`)
})

test('replay of events that failed again: the preview names and links the earlier replay, and ⌘K shows the stage of that replay', async () => {
  const ids = await failed(1, 'order.backagain')
  const preview = await admin.get('/replays/preview?tenant=acme&type=order.backagain&from=2026-01-01T00:00')
  const path = (await startFrom(preview.html)).split('?')[0] ?? ''
  expect((await admin.get(`/jump?find=${path.split('/').at(-1)}`)).html).toContain('Delivering')
  await end('delivery_failed', ids)
  const page = await admin.get(path)
  for (const part of ['class="share-bad"', 'All queued', '100 % of 1 event queued'])
    expect(page.html).toContain(part)
  const next = await admin.get(linkTo(page.html, 'Replay this event again…') ?? '')
  expect(next.html).toMatch(new RegExp(`of <a href="${path}[^"]*">rpl_\\w+</a> that failed again</span>`))
  expect(linkTo(next.html, 'Back')).toStartWith(path)
})
