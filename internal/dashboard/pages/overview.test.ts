import { afterAll, beforeAll, expect, test } from 'bun:test'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

const minuteMs = 60_000
let backoffice: TestBackoffice
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  admin = await openDashboardSession(backoffice.url, adminToken)
  const tenantId = backoffice.tenantId('acme')
  const nowMs = Date.now()
  const at = [nowMs - minuteMs, nowMs - 5 * minuteMs, nowMs - 30 * minuteMs, nowMs - 90 * minuteMs]
  const ids = await acceptEvents(
    backoffice.pool,
    at.map((atMs) => receivedEvent({ tenantId }, atMs)),
  )
  for (const id of ids.slice(2)) await failEvent(backoffice, id)
  for (const counted of ['', tenantId])
    await backoffice.pool.query(
      `INSERT INTO stats_minutely
       SELECT $1, date_trunc('minute', $2::timestamptz) - n * interval '1 minute',
         1, 0, 0, 0, 0, CASE WHEN n = 30 THEN 2 ELSE 0 END, 0, ${'0, '.repeat(14)} NULL FROM unnest(ARRAY[1, 5, 30, 90]) n`,
      [counted, new Date(nowMs)],
    )
}, 30_000)
afterAll(() => backoffice.close())

interface ShownTile {
  readonly href: string
  readonly value: string
}

function tileOf(html: string, label: string): ShownTile {
  const pattern = new RegExp(
    `tile-label"><a href="([^"]+)">${label}</a></div><div class="tile-value">([^<]+)<`,
  )
  const [, href = '', value = ''] = pattern.exec(html) ?? []
  return { href: href.replaceAll('&amp;', '&'), value }
}

const countOf = (html: string) => [...html.matchAll(/href="\/events\/evt_[0-9a-z]{26}/g)].length

test.each(['', '&tenant=acme'])(
  'overview%s: the tile of accepted events links to a list that contains as many events as the tile counts',
  async (tenant) => {
    const { href, value } = tileOf((await admin.get(`/?range=1h${tenant}`)).html, 'Accepted')
    expect(value).toBe('3')
    expect(href).toMatch(/[?&]from=20.*&to=20/)
    expect(countOf((await admin.get(href)).html)).toBe(3)
  },
)

test('overview: the other tiles link to lists of the same time span, and a text says what each tile counts', async () => {
  const { html } = await admin.get('/?range=1h')
  const failed = tileOf(html, 'Failed')
  expect(failed.value).toBe('2')
  // The link has no start time, because one of the two events was received before the range; its delivery failed within the range.
  expect(failed.href).toMatch(/state=delivery_failed&to=20/)
  expect(countOf((await admin.get(failed.href)).html)).toBe(2)
  expect(tileOf(html, 'Refused').href).toMatch(/^\/refused\?from=20.*&to=20/)
  expect(html).toContain('counted when they were received, deliveries when they ended')
  expect(html).toMatch(
    /<a class="is-bad" href="\/events\?tenant=ten_[^"]+&amp;state=delivery_failed&amp;to=20/,
  )
})
