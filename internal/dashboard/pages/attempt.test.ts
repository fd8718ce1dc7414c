import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml, failEvent } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { addAttempt, someExchange } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let admin: DashboardSession
let tenant: DashboardSession
let eventId: EventId

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  admin = await openDashboardSession(backoffice.url, adminToken)
  tenant = await openDashboardSession(backoffice.url, dashboardKey('acme'))
  const payload = `{"note":"it's here","password":"planted-password"}`
  const [id] = await acceptEvents(backoffice.pool, [
    receivedEvent({ tenantId: backoffice.tenantId('acme'), payload, payloadBytes: payload.length }),
  ])
  if (id === undefined) throw new Error('no event')
  eventId = id
  const { pool } = backoffice
  const exchange = {
    ...someExchange,
    url: 'https://shop.example.com/hooks?token=planted-query',
    headers: [
      ['set-cookie', 'a=planted-cookie'],
      ['x-shard', '7'],
    ] as const,
  }
  await addAttempt(pool, id, { exchange, durationMs: 520, answer: '{"error":"out of stock","shard":7}' })
  const reused = { isReused: true, dnsMs: 0, connectMs: undefined, tlsMs: undefined, firstByteMs: 90 }
  await addAttempt(pool, id, {
    attempt: 2,
    status: 503,
    durationMs: 95,
    answer: '{"error":"out of stock","shard":8}',
    exchange: {
      ...exchange,
      ...reused,
      headers: [['retry-after', '5']],
      headersOmitted: 2,
      isAnswerCut: true,
    },
  })
  await addAttempt(pool, id, {
    attempt: 3,
    outcome: 'failed',
    status: null,
    cause: 'tls_failed',
    durationMs: 30,
    exchange: {
      ...exchange,
      tlsMs: undefined,
      firstByteMs: undefined,
      headers: [],
      problem: 'The callback’s certificate is invalid, or the TLS handshake failed. (CERT_HAS_EXPIRED)',
    },
  })
  await addAttempt(pool, id, { attempt: 4, status: null, cause: 'payload_expired' })
  await failEvent(backoffice, id)
}, 30_000)
afterAll(() => backoffice.close())

/** Returns the text of a page without its elements. */
const textOf = (html: string) =>
  html
    .replaceAll(/<(script|style)[\s\S]*?<\/\1>/g, '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/&quot;/g, '"')
    .replaceAll(/\s+/g, ' ')
const open = async (attempt: string, session = admin) => {
  const { status, html } = await session.get(`/events/${eventId}/attempts/${attempt}`)
  return { status, html, text: textOf(html) }
}

test('attempt page: shows request, response and the duration of each step', async () => {
  const { status, text } = await open('1-1')
  expect(status).toBe(200)
  for (const shown of [
    'Answered 500',
    'DNS 4 ms',
    'Connect 12 ms',
    'TLS 22 ms',
    'Wait for the first byte 480 ms',
    'Rest of the response 2 ms',
    '10.0.3.7',
    'x-shard 7',
    'out of stock',
    'webhook-signature v1,[redacted]',
    `webhook-id ${eventId}`,
    'POST https://shop.example.com/hooks?token=[redacted]',
  ])
    expect(text).toContain(shown)
  expect(text).not.toContain('Compared with')
})

test('attempt page: says that the connection was reused, and compares with the previous attempt', async () => {
  const { text } = await open('1-2')
  expect(text).toContain('no connecting and no TLS handshake')
  expect(text).not.toContain('Connect 12 ms TLS')
  expect(text).toContain('2 more headers exceed the limits')
  expect(text).toContain('The body is longer than what is shown')
  expect(text).toContain('Compared with attempt 1')
  for (const difference of [
    'Result answered 500 answered 503',
    'First byte 480 ms 90 ms',
    'Connection new reused',
    'retry-after absent 5',
    'x-shard 7 absent',
    '- "shard": 7',
    '+ "shard": 8',
  ])
    expect(text).toContain(difference)
})

test('attempt page: compares with another attempt that the address names', async () => {
  const { html } = await admin.get(`/events/${eventId}/attempts/1-4?with=1-2`)
  expect(textOf(html)).toContain('Compared with attempt 2')
  expect(textOf(html)).toContain('The headers of one of the attempts were not recorded')
  expect(html).toMatch(/<option[^>]*selected[^>]*>Attempt 2</)
})

test('attempt page: for a failed call, shows the failure and no response', async () => {
  const { text } = await open('1-3')
  for (const shown of [
    'CERT_HAS_EXPIRED',
    'Until the failure',
    'There is no response',
    'No byte of it was sent',
  ])
    expect(text).toContain(shown)
})

test('attempt page: for an attempt without a call, says that no call was made', async () => {
  const { text } = await open('1-4')
  expect(text).toContain('No call was made.')
  expect(text).not.toContain('Copy as cURL')
})

test.each(['1-5', '2-1', 'x', '1-1-1'])(
  'attempt page: the unknown or malformed attempt %s returns 404',
  async (name) => {
    expect((await open(name)).status).toBe(404)
  },
)

test('attempt page: shows no secret to operators and tenants, and no IP address of the callback to tenants', async () => {
  for (const session of [admin, tenant])
    for (const attempt of ['1-1', '1-2', '1-3'])
      expect((await open(attempt, session)).html).not.toContain('planted')
  const { status, html } = await open('1-1', tenant)
  expect(status).toBe(200)
  expect(html).not.toContain('10.0.3.7')
})

test('attempt page: the curl command has the redacted body, and after the payload is revealed, with an audit entry, the full body', async () => {
  const quoted = (text: string) => text.replaceAll("'", "'\\''")
  const { html } = await open('1-1')
  const commands = (page: string) => textOf(page.replaceAll('&amp;', '&').replaceAll('&#39;', "'"))
  expect(commands(html)).toContain(`printf %s '{"id":"${eventId}"`)
  expect(commands(html)).toContain(quoted(`"payload":{"note":"it's here","password":"[redacted]"}`))
  const revealed = await admin.post(`/events/${eventId}/payload`, { attempt: '1-1' })
  expect(revealed.status).toBe(200)
  expect(commands(revealed.html)).toContain(
    quoted(`"payload":{"note":"it's here","password":"planted-password"}`),
  )
  expect(commands(revealed.html)).toContain("-H 'webhook-signature: v1,[redacted]'")
  const { rows } = await backoffice.pool.query("SELECT detail FROM audit WHERE action = 'payloads.read'")
  expect(rows).toEqual([{ detail: { eventId } }])
})

test('event page: links to the page of each attempt', async () => {
  const { html } = await admin.get(`/events/${eventId}?tenant=acme`)
  for (const attempt of ['1-1', '1-2', '1-3', '1-4'])
    expect(html).toContain(`href="/events/${eventId}/attempts/${attempt}?tenant=acme"`)
})

test('event page: offers “Attempt now” while the event waits, and during an attempt says that this is possible after a failure', async () => {
  const { pool } = backoffice
  const [id] = await acceptEvents(pool, [receivedEvent({ tenantId: backoffice.tenantId('acme') })])
  if (id === undefined) throw new Error('no event')
  await addAttempt(pool, id)
  const change = (columns: string) =>
    pool.query(`UPDATE deliveries_due SET ${columns} WHERE event_id = $1`, [id])
  const forms = async (path: string) =>
    (await admin.get(path)).html.split(`action="/events/${id}/retry"`).length - 1
  await change(`due_at = now() + interval '1 hour', is_retry = true, attempts = 1`)
  expect(await forms(`/events/${id}`)).toBe(2)
  const advice = 'Look for an error in its log'
  const shown = textOf((await admin.get(`/events/${id}`)).html).split(advice)
  expect(shown).toHaveLength(2)
  expect(shown[1]).toContain('A retry attempts it at once.')
  expect(await forms(`/events/${id}/attempts/1-1`)).toBe(1)
  await change(`due_at = now(), lease = 'l', claims = 1, leased_until = now() + interval '1 minute'`)
  expect(await forms(`/events/${id}`)).toBe(0)
  expect(textOf((await admin.get(`/events/${id}`)).html)).toContain(
    'If it fails, “Attempt now” makes the next one at once.',
  )
})

test('attempt page: the `latchkey` command on the page is in the CLI reference, and the page says which address the command calls', async () => {
  const { html } = await admin.get(`/events/${eventId}/attempts/1-1`)
  const commands = [...html.matchAll(/<code>(latchkey [^<]*)<\/code>/g)].map(([, command = '']) => command)
  expect(commands).toEqual([`latchkey events get ${eventId} --curl`])
  const reference = await Bun.file(new URL('../../../docs/reference/cli.md', import.meta.url)).text()
  const [, help = ''] = reference.split('### latchkey events get\n')
  const [own = ''] = help.split('\n### ')
  for (const part of ['--curl ', '--to <url>', 'default: http://127.0.0.1:3000/']) expect(own).toContain(part)
  for (const part of [
    'Calls the address of this attempt',
    '<code>http://127.0.0.1:3000/</code>',
    '<code>--to</code>',
  ])
    expect(html).toContain(part)
})
