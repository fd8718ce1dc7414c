import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { dayStartMs } from '../components/clock.ts'

const hourMs = 3_600_000
const payload = '{"order":{"id":"needle-77"}}'
/** A zone that is far from UTC on both sides of its midnight, without clock changes. */
const zone = 'Pacific/Auckland'
const inZone = `latchkey-zone=${zone}`
let backoffice: TestBackoffice
let admin: DashboardSession
let nowMs: number
/** Events by when they were received, in the zone. */
let today: EventId
let yesterday: EventId
let daysAgo: EventId

async function accept(atMs: number, type = 'payment.succeeded'): Promise<EventId> {
  const event = receivedEvent({ tenantId: backoffice.tenantId('acme'), type, payload }, atMs)
  const [id] = await acceptEvents(backoffice.pool, [event])
  if (id === undefined) throw new Error('the event was stored without an id')
  return id
}

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  admin = await openDashboardSession(backoffice.url, adminToken)
  nowMs = Date.now()
  const clock = { nowMs, zone }
  const midnightMs = dayStartMs(clock)
  today = await accept((midnightMs + nowMs) / 2)
  // 30 minutes after midnight in the zone of the page. In UTC, this is still the day before.
  yesterday = await accept(dayStartMs(clock, 1) + hourMs / 2)
  daysAgo = await accept(dayStartMs(clock, 3))
  await failEvent(backoffice, yesterday)
}, 30_000)
afterAll(() => backoffice.close())

const listed = (html: string) =>
  [...html.matchAll(/href="\/events\/(evt_[0-9a-z]{26})[^/"]*"/g)].map(([, id]) => id)
const chosen = (html: string) => /name="within"[\s\S]*?<option value="([^"]*)" selected/.exec(html)?.[1] ?? ''
const valueOf = (html: string, name: string) =>
  new RegExp(`name="${name}"[^>]* value="([^"]*)"`).exec(html)?.[1]

test('payload search: is prefilled with the last seven days, so that the failure of yesterday is found', async () => {
  const { html } = await admin.get('/events/search?tenant=acme', inZone)
  expect(chosen(html)).toBe('7d')
  expect(valueOf(html, 'from') ?? '').toBe('')
  for (const label of ['Today', 'Yesterday', 'Last 24 hours', 'Last 7 days', 'At the exact times'])
    expect(html).toContain(`${label}</option>`)
})

test.each([
  ['the last seven days', { within: '7d' }, () => [today, yesterday, daysAgo]],
  ['yesterday in the zone of the reader', { within: 'yesterday' }, () => [yesterday]],
  ['today in the zone of the reader', { within: 'today' }, () => [today]],
  ['failed events', { within: '7d', state: 'delivery_failed' }, () => [yesterday]],
  ['pending events', { within: '7d', state: 'accepted' }, () => [today, daysAgo]],
  ['a family in another case', { within: '7d', type: 'Payment.*' }, () => [today, yesterday, daysAgo]],
  [
    'an exact start instead of the chosen span',
    { within: 'today', from: '2020-01-01' },
    () => [today, yesterday, daysAgo],
  ],
])('payload search: finds %s', async (_name, fields, expected) => {
  const session = await openDashboardSession(backoffice.url, adminToken)
  const form = { tenant: backoffice.tenantId('acme'), text: 'needle-77', ...fields }
  const found = await session.post('/events/search', form, inZone)
  expect(found.status).toBe(200)
  expect(listed(found.html)).toEqual(expected())
})

test('payload search: a form without a time span or a start is refused with an error beside the field, and keeps its entries', async () => {
  const form = { tenant: backoffice.tenantId('acme'), text: 'needle-77', within: '', from: '' }
  const { status, html } = await admin.post('/events/search', form)
  expect(status).toBe(422)
  expect(html).toContain('Enter a time, or choose one under “Received”')
  expect(valueOf(html, 'text')).toBe('needle-77')
  expect(chosen(html)).toBe('')
})

test('payload search: for an unknown type, the page suggests the family of types that was probably meant', async () => {
  const form = { tenant: backoffice.tenantId('acme'), text: 'needle-77', within: '7d', type: 'Payment' }
  const { html } = await admin.post('/events/search', form)
  expect(html).toContain('No event type of the catalogue is named “payment”.')
  expect(html).toContain('<code>payment.*</code>')
})

test('event list: finds a family of types in upper or lower case, and for a single word suggests the matching family', async () => {
  expect(listed((await admin.get('/events?type=PAYMENT.*')).html)).toHaveLength(3)
  const { html } = await admin.get('/events?type=Payment&state=accepted')
  expect(listed(html)).toEqual([])
  expect(html).toContain('No event type of the catalogue is named “payment”.')
  expect(html).toContain('href="/events?type=payment.*&amp;state=accepted">payment.*</a>')
})

test('event list: exact times override “Yesterday”, the page says so, and a link switches to “Yesterday”', async () => {
  const from = new Date(dayStartMs({ nowMs, zone })).toISOString().slice(0, 19)
  const query = `within=yesterday&from=${from}Z`
  const { html } = await admin.get(`/events?${query}`, inZone)
  expect(listed(html)).toEqual([today])
  expect(chosen(html)).toBe('')
  expect(html).toContain('The exact times apply, and not “Yesterday”.')
  expect(html).toContain('href="/events?within=yesterday">Use “Yesterday” instead</a>')
  const other = await admin.get('/events?within=yesterday', inZone)
  expect(listed(other.html)).toEqual([yesterday])
  expect(chosen(other.html)).toBe('yesterday')
  expect(other.html).not.toContain('The exact times apply')
})
