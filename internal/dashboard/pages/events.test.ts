import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { acceptEvents } from '#test/support/accepted-event.ts'
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
  type SeededTenant,
  seedTenant,
} from '#test/support/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard-session.ts'
import { addAttempt } from '#test/support/event-attempts.ts'
import { receivedEvent } from '#test/support/received-event.ts'

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
  if (id === undefined) throw new Error('an event was stored and not told')
  return id
}

/** Somebody whose rights on everything are these, by subresource. */
async function userWith(...subresources: readonly string[]): Promise<DashboardSession> {
  const name = someUser()
  backoffice.allow(({ user, subresource }: AskedRight) => user === name && subresources.includes(subresource))
  return await openDashboardSession(backoffice.url, name)
}

const listed = (html: string) =>
  [...html.matchAll(/href="\/events\/(evt_[0-9a-z]{26})[^/"]*"/g)].map(([, id]) => id)

describe('the list of events', () => {
  test('has the newest first, with a link to each, its state and its tenant', async () => {
    const { status, html } = await admin.get('/events')
    expect(status).toBe(200)
    expect(listed(html)).toEqual([acme.failedId, acme.eventId].toSorted().toReversed())
    for (const text of ['Delivery failed', 'Accepted', 'order.created', 'acme', 'src-acme'])
      expect(html).toContain(text)
  })

  test('keeps to its filters, which stand in the address and in the form', async () => {
    const failed = await admin.get('/events?state=delivery_failed')
    expect(listed(failed.html)).toEqual([acme.failedId])
    const found = await admin.get('/events?tenant=acme&find=src-acme')
    expect(listed(found.html)).toEqual([acme.eventId])
    expect(found.html).toContain('value="src-acme"')
    expect(listed((await admin.get(`/events?find=${acme.failedId}`)).html)).toEqual([acme.failedId])
    expect(
      listed((await admin.get('/events?type=order.created&provider=generic&within=1h')).html),
    ).toHaveLength(2)
  })

  test.each([
    ['/events?type=no.such', 'No events match'],
    ['/events?to=2020-01-01', 'No events match'],
  ])('says that nothing matches: %s', async (path, text) => {
    const { status, html } = await admin.get(path)
    expect(status).toBe(200)
    expect(html).toContain(text)
  })

  test.each([
    ['/events?from=yesterday', 'Give a time in UTC'],
    ['/events?state=lost', 'There is no such state'],
    ['/events?provider=nobody', 'There is no such provider'],
    ['/events?find=src-acme', 'name the tenant'],
    ['/events?after=nonsense', 'begin with the first page'],
  ])('says what cannot be searched for, with the form as it was: %s', async (path, text) => {
    const { status, html } = await admin.get(path)
    expect(status).toBe(400)
    expect(html).toContain(text)
    expect(html).toContain('aria-label="Filters"')
  })

  test('is walked page by page, each event once, and says so where a page was not finished', async () => {
    const beforeMs = Date.now() - 3_600_000
    // More than a page looks at, and behind them the only one that was processed, which no index tells.
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
    expect(second.html).toContain('Newest')
    const unfinished = await admin.get('/events?tenant=acme&type=common.one&state=processed')
    expect(listed(unfinished.html)).toEqual([])
    expect(unfinished.html).toContain('Nothing found yet')
    expect(listed((await admin.get(nextOf(unfinished.html))).html)).toEqual([oldest])
  })
})

function nextOf(html: string): string {
  const [, path] = /href="(\/events\?[^"]*after=[^"]*)"/.exec(html) ?? []
  if (path === undefined) throw new Error('the page leads to no other')
  return path.replaceAll('&amp;', '&')
}

describe('an event', () => {
  test('tells what happened: receipt, each attempt with its answer, what it means, and the end', async () => {
    const id = await accept()
    await addAttempt(backoffice.pool, id, { durationMs: 1_234, answer: '{"error":"out of stock"}' })
    await addAttempt(backoffice.pool, id, {
      attempt: 2,
      outcome: 'failed',
      status: null,
      cause: 'tls_failed',
    })
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
    ])
      expect(html).toContain(part)
    for (const part of [
      'serves nothing at this path',
      'after 3 attempts',
      'All attempts of the retry schedule were made',
    ])
      expect(html).toContain(part)
    expect(html).toContain(`href="/events/${id}/replay"`)
  })

  test('that is under way says what comes next, and is followed without its payload', async () => {
    const id = await accept({ payload: '{"note":"see me once"}' })
    const due = await admin.get(`/events/${id}`)
    expect(due.html).toContain('Due now')
    expect(due.html).toContain('see me once')
    expect(due.html).toContain('tick from:#live')
    expect(due.html).not.toContain('/replay"')
    const followed = await admin.get(`/events/${id}?part=progress`)
    expect(followed.html).toContain('id="progress"')
    expect(followed.html).not.toContain('see me once')
    await addAttempt(backoffice.pool, id)
    await backoffice.pool.query(
      `UPDATE deliveries_due SET due_at = now() + interval '90 s' WHERE event_id = $1`,
      [id],
    )
    expect((await admin.get(`/events/${id}`)).html).toMatch(/Next attempt .*in 1 min 2\d s/)
  })

  test.each([
    ['/events/evt_06gw979vs1d9q6mddfvvx375s4', 404],
    ['/events/not-an-id', 404],
    ['/events/evt_06gw979vs1d9q6mddfvvx375s4/replay', 404],
  ])('that is not there is not found: %s', async (path, status) => {
    expect((await admin.get(path)).status).toBe(status)
  })

  test('whose payload is gone says so, and offers nothing of it', async () => {
    const id = await accept({ payloadExpiresOn: '2026-01-01' })
    await failEvent(backoffice, id)
    const { html } = await admin.get(`/events/${id}`)
    expect(html).toContain('The payload has expired')
    expect(html).not.toContain('Reveal as received')
    expect((await admin.post(`/events/${id}/payload`)).status).toBe(409)
  })
})

describe('a payload', () => {
  test('is hidden where it is secret, and as received for whoever may and asks, which is written down', async () => {
    const payload = `{"apiKey":"${secret}","email":"ada@example.com","amount":820982911946154508}`
    const id = await accept({ payload, headers: `{"x-token":"${secret}","content-type":"application/json"}` })
    await addAttempt(backoffice.pool, id, { answer: `{"token":"${secret}"}` })
    const shown = await admin.get(`/events/${id}`)
    expect(shown.html).toContain('820982911946154508')
    for (const hidden of [secret, 'ada@example.com']) expect(shown.html).not.toContain(hidden)
    const revealed = await admin.post(`/events/${id}/payload`)
    expect(revealed.status).toBe(200)
    for (const part of [secret, 'ada@example.com']) expect(revealed.html).toContain(part)
    const { rows } = await backoffice.pool.query(
      `SELECT actor FROM audit WHERE action = 'payloads.read' AND detail->>'event' = $1`,
      [id],
    )
    expect(rows).toEqual([{ actor: 'dev:admin' }])
  })

  test('is not given to whoever may only see, nor offered', async () => {
    const id = await accept({ payload: `{"apiKey":"${secret}"}` })
    const viewer = await userWith('')
    const shown = await viewer.get(`/events/${id}`)
    expect(shown.html).toContain('You may not read raw payloads')
    expect(shown.html).not.toContain('Reveal as received')
    const asked = await viewer.post(`/events/${id}/payload`)
    expect(asked.status).toBe(403)
    expect(asked.html).not.toContain(secret)
  })
})

describe('a replay of an event', () => {
  test('is asked about, begins one round, and sent twice still one', async () => {
    const id = await accept()
    await failEvent(backoffice, id)
    const asked = await admin.get(`/events/${id}/replay`)
    expect(asked.html).toContain('Deliver this event again?')
    expect(asked.html).toContain('name="round" value="1"')
    for (const time of [1, 2]) {
      const { status, location } = await admin.post(`/events/${id}/replay`, { round: '1' })
      expect([time, status, location]).toEqual([time, 303, `/events/${id}`])
    }
    const { rows } = await backoffice.pool.query('SELECT cycle AS round, state FROM events WHERE id = $1', [
      id,
    ])
    expect(rows).toEqual([{ round: 2, state: 'accepted' }])
    expect((await admin.get(`/events/${id}`)).html).toContain('Delivery cycle 2')
  })

  test('is refused to whoever may not, who is not asked either', async () => {
    const id = await accept()
    await failEvent(backoffice, id)
    const viewer = await userWith('', 'payloads')
    expect((await viewer.get(`/events/${id}`)).html).not.toContain(`/events/${id}/replay`)
    expect((await viewer.get(`/events/${id}/replay`)).status).toBe(403)
    expect((await viewer.post(`/events/${id}/replay`, { round: '1' })).status).toBe(403)
    const { rows } = await backoffice.pool.query('SELECT cycle AS round FROM events WHERE id = $1', [id])
    expect(rows).toEqual([{ round: 1 }])
  })

  test('of a form without its round is none', async () => {
    for (const round of ['', '0', 'x'])
      expect((await admin.post(`/events/${acme.failedId}/replay`, { round })).status).toBe(400)
  })
})

test('a tenant’s key has the same pages, of its tenant', async () => {
  const owner = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  const { html } = await owner.get(`/events/${acme.failedId}`)
  for (const part of ['Reveal as received', `/events/${acme.failedId}/replay`]) expect(html).toContain(part)
  const list = await owner.get('/events?find=src-acme')
  expect(listed(list.html)).toEqual([acme.eventId])
  expect(list.html).not.toContain('for="filter-tenant"')
})
