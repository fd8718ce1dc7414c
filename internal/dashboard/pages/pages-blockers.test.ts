import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { closeBreaker, openBreaker, suspendQueue } from '#internal/events/index.ts'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let operator: DashboardSession
let viewer: DashboardSession
let acmeKey: DashboardSession
let acmeEvent: EventId
const [user, viewerName] = [someUser(), someUser()]

beforeAll(async () => {
  backoffice = await startTestBackoffice(['acme', 'bolt'].map((name) => dashboardTenantYaml(name)).join(''))
  backoffice.allow((right) => right.user === user || right.verb === 'get' || right.verb === 'list')
  operator = await openDashboardSession(backoffice.url, user)
  viewer = await openDashboardSession(backoffice.url, viewerName)
  acmeKey = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  const events = ['acme', 'bolt'].map((name) => receivedEvent({ tenantId: backoffice.tenantId(name) }))
  const [id] = await acceptEvents(backoffice.pool, events)
  if (id === undefined) throw new Error('no event was stored')
  acmeEvent = id
}, 30_000)
afterAll(() => backoffice.close())
beforeEach(async () => {
  await backoffice.pool.query('DELETE FROM destination_alerts')
  await backoffice.pool.query(
    `INSERT INTO tenant_queues (tenant_id, destination, next_due_at) SELECT id, 'callback', now() FROM tenants ON CONFLICT (tenant_id, destination) DO UPDATE
     SET suspended_at = NULL, suspended_cause = NULL, breaker_until = '-infinity'`,
  )
  await backoffice.pool.query('DELETE FROM settings')
})

const queueOf = (name: string) => ({ tenantId: backoffice.tenantId(name), destination: 'callback' })
const pause = (fields: Record<string, string>) =>
  operator.post('/settings/change', { value: 'true', version: '0', ...fields })
const suspend = () =>
  suspendQueue(backoffice.pool, queueOf('acme'), { cause: 'gone', nowMs: Date.now() - 60_000 })
/** Returns the texts of the badges in the heading of a page. */
const headBadges = (html: string) => badgesIn(/<h1>.*?<\/h1>/s.exec(html)?.[0] ?? '')
const badgesIn = (html: string) =>
  [...html.matchAll(/<span class="dot" aria-hidden="true"><\/span>([^<]*)<\/span>/g)].map(([, text]) => text)
const rowOf = (html: string, id: string) =>
  new RegExp(`<tr id="rows-${id}">.*?</tr>`, 's').exec(html)?.[0] ?? ''
const noticesOf = (html: string) => /<div id="blockers".*?<div class="news-bar"/s.exec(html)?.[0] ?? ''
const plain = (html: string) => html.replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ')
/** Submits a form. Returns the tone and the text of the message about the action, which the redirect stores in a cookie. */
const textAfter = async (path: string, fields: Record<string, string>): Promise<unknown> => {
  const { flash } = await operator.post(path, fields)
  return flash === null ? null : JSON.parse(Buffer.from(flash, 'base64url').toString())
}

describe('pauses of one tenant', () => {
  test.each([
    ['forwarding.paused', 'Forwarding is paused for 1 tenant', 'Paused'],
    ['providers.card.paused', 'Provider card is paused for 1 tenant', 'Provider card paused'],
  ])(
    'blockers: %s of one tenant is shown on the pages of all tenants, with the user who set it and a link “Resume”',
    async (name, title, badge) => {
      await pause({ name, tenant: 'acme' })
      const resume = `/settings/clear?name=${name}&amp;tenant=${backoffice.tenantId('acme')}`
      for (const path of ['/events', '/tenants', '/settings', '/audit']) {
        const notices = noticesOf((await operator.get(path)).html)
        expect([path, notices.includes(`<strong>${title}</strong>`)]).toEqual([path, true])
        expect(plain(notices)).toMatch(new RegExp(`acme by user:${user}, (just now|[0-9. ]+s ago) Resume`))
        expect(notices).toContain(`href="${resume}&amp;next=${encodeURIComponent(path)}"`)
        expect(notices).toContain(`href="/tenants/${backoffice.tenantId('acme')}"`)
        // A user without the right sees who paused the deliveries and when, but no link to resume them.
        const seen = noticesOf((await viewer.get(path)).html)
        expect(plain(seen)).toContain(`acme by user:${user}, `)
        expect(seen).not.toContain('/settings/clear')
      }
      const { html: tenants } = await operator.get('/tenants')
      expect(badgesIn(rowOf(tenants, backoffice.tenantId('acme')))).toEqual([badge])
      expect(plain(rowOf(tenants, backoffice.tenantId('acme')))).toContain(`by user:${user}, `)
      expect(badgesIn(rowOf(tenants, backoffice.tenantId('bolt')))).toEqual(['Ready'])
      const { html: events } = await operator.get('/events')
      // A pause of a provider delays new calls, but not stored events.
      const state = name === 'forwarding.paused' ? 'Accepted, paused' : 'Accepted'
      expect(badgesIn(rowOf(events, acmeEvent))).toEqual([state])
      expect((await operator.get('/settings')).html).toMatch(/but paused for <a href="[^"]*">acme<\/a>/)
    },
  )

  test('blockers: the page of an event whose address has no tenant shows the notice, the badge and the link to resume', async () => {
    await pause({ name: 'forwarding.paused', tenant: 'acme' })
    const { html } = await operator.get(`/events/${acmeEvent}`)
    expect(noticesOf(html)).toContain('<strong>Deliveries paused for acme</strong>')
    expect(noticesOf(html)).toContain(`/settings/clear?name=forwarding.paused&amp;tenant=`)
    expect(headBadges(html)).toEqual(['Accepted', 'Paused'])
    const cause = `are paused by user:${user} (setting forwarding.paused): events are accepted and wait, and use no attempt.`
    // The notice and the explanation have the same text, except for the name of the tenant.
    expect(plain(html)).toContain(`Deliveries of acme ${cause}`)
    expect(plain(html)).toContain(`Deliveries of this tenant ${cause}`)
    expect(html).not.toContain('Deliveries are blocked')
    const explained = await backoffice.call('GET', `/internal/v1/events/${acmeEvent}/explain`)
    expect(explained.json['sentence']).toBe(`Deliveries of this tenant ${cause}`)
  })
})

describe('badges', () => {
  test.each<[string, () => Promise<unknown>, string[], string]>([
    ['a pause of all tenants', () => pause({ name: 'forwarding.paused' }), ['Paused'], 'Paused'],
    ['its own pause', () => pause({ name: 'forwarding.paused', tenant: 'acme' }), ['Paused'], 'Paused'],
    ['a suspended callback', suspend, ['Callback suspended'], 'Suspended'],
    [
      'an open breaker',
      () => openBreaker(backoffice.pool, queueOf('acme'), 30_000),
      ['Callback failing'],
      'Circuit breaker open',
    ],
    [
      'a half-open breaker',
      () => openBreaker(backoffice.pool, queueOf('acme'), -1),
      ['Callback failing'],
      'Circuit breaker half-open',
    ],
  ])('blockers: no badge contradicts the notice of %s', async (_case, blocker, expected, callback) => {
    await blocker()
    for (const session of [operator, acmeKey]) {
      const { html } = await session.get(`/tenants/${backoffice.tenantId('acme')}`)
      expect(headBadges(html)).toEqual(expected)
      expect(noticesOf(html)).toContain('<strong>')
      const card = /aria-label="Callback".*?<\/section>/s.exec(html)?.[0] ?? ''
      expect(badgesIn(card)).toEqual([callback])
    }
  })

  test('blockers: a tenant sees a pause of all tenants on its settings page, but not who set the pause', async () => {
    await pause({ name: 'forwarding.paused' })
    const { html } = await acmeKey.get('/settings')
    const row = /<tr id="settings-forwarding-forwarding.paused">.*?<\/tr>/s.exec(html)?.[0] ?? ''
    expect(badgesIn(row)).toEqual(['Paused'])
    expect(plain(row)).toContain('for the whole installation, by the platform team')
    expect(html).not.toContain(user)
  })

  test.each<[string, () => Promise<unknown>, string]>([
    ['a suspended callback', suspend, 'Accepted, suspended'],
    [
      'an open breaker',
      () => openBreaker(backoffice.pool, queueOf('acme'), 30_000),
      'Accepted, waiting for a probe',
    ],
    [
      'a half-open breaker',
      () => openBreaker(backoffice.pool, queueOf('acme'), -1),
      'Accepted, waiting for a probe',
    ],
  ])(
    'blockers: %s holds back a queued event, and the list says “held back” instead of a time',
    async (_case, blocker, badge) => {
      await blocker()
      const row = rowOf((await operator.get('/events?tenant=acme')).html, acmeEvent)
      expect(badgesIn(row)).toEqual([badge])
      expect(plain(row)).toContain('next held back')
    },
  )

  test('blockers: a suspended callback has a notice on the pages of all tenants', async () => {
    await suspend()
    for (const path of ['/events', '/tenants', '/settings', '/replays']) {
      const notices = noticesOf((await operator.get(path)).html)
      expect([path, plain(notices)]).toEqual([
        path,
        expect.stringContaining('The callback is suspended for 1 tenant'),
      ])
      expect(notices).toContain(`href="/tenants/${backoffice.tenantId('acme')}"`)
    }
  })

  test('blockers: during a pause, the notice about a failing callback does not say that deliveries are attempted', async () => {
    await openBreaker(backoffice.pool, queueOf('acme'), 30_000)
    await pause({ name: 'forwarding.paused', tenant: 'acme' })
    const notices = plain(noticesOf((await operator.get('/events?tenant=acme')).html))
    expect(notices).toContain('Calls to the callback failed before deliveries were paused')
    expect(notices).not.toContain('uses an attempt')
  })
})

describe('trouble of a callback', () => {
  const listed = async () => /Needs attention.*?<\/section>/s.exec((await operator.get('/')).html)?.[0] ?? ''

  test('blockers: a failing callback stays listed while its breaker closes and opens, until it has recovered', async () => {
    const { pool, tenantId } = backoffice
    await openBreaker(pool, queueOf('acme'), 30_000)
    const alert = (column: string, ageSeconds: number) =>
      pool.query(
        `UPDATE destination_alerts SET ${column} = now() - $2::integer * interval '1 s' WHERE tenant_id = $1`,
        [tenantId('acme'), ageSeconds],
      )
    await pool.query(
      `INSERT INTO destination_alerts (tenant_id, destination, since, failures, cause, last_failure_at, check_at)
       VALUES ($1, 'callback', now() - interval '1 h', 12, 'http_500', now(), now())`,
      [tenantId('acme')],
    )
    expect(await listed()).toContain('circuit breaker is open: every 30 s one event is attempted as a probe')
    await closeBreaker(pool, queueOf('acme'))
    await alert('last_success_at', 0)
    expect(await listed()).toContain('Callback failing')
    expect(plain(await listed())).toContain('each failed call uses an attempt')
    await openBreaker(pool, queueOf('acme'), -1)
    expect(await listed()).toContain(
      'circuit breaker is half-open: one event at a time is attempted as a probe',
    )
    await closeBreaker(pool, queueOf('acme'))
    await alert('last_failure_at', 299)
    expect(await listed()).toContain('Callback failing')
    await alert('last_failure_at', 301)
    expect(await listed()).toBe('')
  })

  test('blockers: the overview counts the due events that a suspension holds back', async () => {
    const tile = async (session: DashboardSession) =>
      plain(/Held back<.*?tile-note/s.exec((await session.get('/')).html)?.[0] ?? '')
    expect(await tile(operator)).toStartWith('Held back0')
    await suspend()
    expect(await tile(operator)).toStartWith('Held back1')
    expect(await tile(acmeKey)).toStartWith('Held back1')
    await pause({ name: 'forwarding.paused' })
    expect(await tile(operator)).toStartWith('Held back2')
  })
})

describe('resumptions', () => {
  const clear = async (fields: Record<string, string>) => {
    const { html } = await operator.get(`/settings/clear?${new URLSearchParams(fields)}`)
    const version = /name="version" value="(\d+)"/.exec(html)?.[1] ?? ''
    return { asked: plain(html), told: await textAfter('/settings/clear', { ...fields, version }) }
  }

  test('blockers: the page that ends a pause says what resumes and how many events wait', async () => {
    const fields = { name: 'forwarding.paused', tenant: 'acme' }
    await pause(fields)
    const { asked, told } = await clear(fields)
    expect(asked).toContain('Resume deliveries to acme?')
    expect(asked).toContain('Deliveries to acme resume. 1 event waits.')
    expect(told).toEqual(['info', 'Deliveries to acme were resumed; 1 event is being sent.'])
  })

  test('blockers: the page of an event links to the form that ends its pause, and the form redirects back to the event', async () => {
    const fields = { name: 'forwarding.paused', tenant: 'acme' }
    await pause(fields)
    const path = `/events/${acmeEvent}`
    const { html } = await operator.get(path)
    const next = encodeURIComponent(path)
    const href = new RegExp(`href="([^"]*next=${next})">Resume deliveries of this tenant[.]<`).exec(html)?.[1]
    const asked = await operator.get(href?.replaceAll('&amp;', '&') ?? '')
    // The notice on the confirmation page does not link to the page itself, which has the button.
    expect(noticesOf(asked.html)).not.toContain('href="/settings/clear')
    const version = /name="version" value="(\d+)"/.exec(asked.html)?.[1] ?? ''
    expect((await operator.post('/settings/clear', { ...fields, version, next: path })).location).toBe(path)
    await pause(fields)
    const away = { ...fields, version: String(Number(version) + 2), next: '//evil.example/' }
    expect((await operator.post('/settings/clear', away)).location ?? '/').toBe('/')
  })

  test('blockers: after a pause ends, the message names the suspension that still holds deliveries back', async () => {
    const fields = { name: 'forwarding.paused', tenant: 'acme' }
    await pause(fields)
    await suspend()
    const { told } = await clear(fields)
    const cause = 'The callback answered 410 Gone, so it is suspended until it is resumed.'
    expect(told).toEqual(['info', `Deliveries to acme still wait. ${cause} 1 event waits.`])
  })

  test('blockers: after a callback is resumed, the message names the pause that still holds deliveries back', async () => {
    await suspend()
    await pause({ name: 'forwarding.paused' })
    const path = `/tenants/${backoffice.tenantId('acme')}/resume`
    const cause = `Deliveries of all tenants are paused by user:${user} (setting forwarding.paused).`
    expect(await textAfter(path, {})).toEqual([
      'info',
      `Deliveries to acme still wait. ${cause} 1 event waits.`,
    ])
  })

  test('blockers: after a callback is resumed, the message says that one event is delivered first', async () => {
    await suspend()
    const told = await textAfter(`/tenants/${backoffice.tenantId('acme')}/resume`, {})
    const rest = 'One event is delivered first, and the others once it has succeeded.'
    expect(told).toEqual(['info', `Deliveries to acme were resumed; 1 event waits. ${rest}`])
    const { html } = await operator.get(`/tenants/${backoffice.tenantId('acme')}`)
    expect(headBadges(html)).toEqual(['Callback resumed'])
  })

  test('blockers: after a provider’s pause for one tenant ends, the message names the remaining pause for all tenants', async () => {
    const name = 'providers.card.paused'
    await pause({ name })
    await pause({ name, tenant: 'acme' })
    const cause = `Calls of card for all tenants are paused by user:${user} (setting ${name})`
    const { asked, told } = await clear({ name, tenant: 'acme' })
    expect(asked).toContain('Resume calls of card for acme?')
    expect(told).toEqual(['info', `Calls of card for acme are still refused: ${cause}.`])
    expect((await clear({ name })).told).toEqual([
      'good',
      'Calls of card for all tenants are accepted again within two seconds.',
    ])
  })
})
