import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, refuseCall } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let receiver: CallbackReceiver
let eventId: EventId

/** Planted secrets. `gate` is redacted by its name, which the tenant's spec lists. */
const planted = {
  card: '4242 4242 4242 4242',
  mail: 'jane.roe@example.com',
  token: 'Bearer abcdefghijklmnopqrstuvwxyz012345',
  password: 'hunter2-hunter2',
  gate: 'gate-4711-of-jane',
}
const payload = JSON.stringify({
  id: 'evt_1',
  amount: 4200,
  order: 820982911946,
  pin_of_gate: planted.gate,
  password: planted.password,
  nested: [
    { note: `paid by ${planted.card}`, contact: planted.mail },
    { inner: JSON.stringify({ authorization: planted.token }) },
  ],
})
const headers = { 'content-type': 'application/json', 'x-pin-of-gate': planted.gate, 'x-note': planted.mail }
const answer = `no: ${planted.card}, ${planted.mail}, {"password":"${planted.password}"}`

beforeAll(async () => {
  receiver = startReceiver()
  receiver.answer(() => new Response(answer, { status: 500 }))
  backoffice = await startTestBackoffice(
    dashboardTenantYaml('acme', {
      callbackUrl: receiver.url,
      spec: ['redaction: {fields: [pinOfGate, xPinOfGate]}'],
    }),
  )
  const event = receivedEvent({
    tenantId: backoffice.tenantId('acme'),
    payload,
    headers: JSON.stringify(headers),
    payloadBytes: Buffer.byteLength(payload),
  })
  await acceptEvents(backoffice.pool, [event])
  eventId = event.id
  await ensurePartitions(backoffice.pool, [{ table: 'attempts', day: event.expiresOn }])
  await backoffice.pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer)
     VALUES ($1, 'callback', $2, 1, 1, now(), 12, 'failed', 500, NULL, $3)`,
    [event.id, event.expiresOn, answer],
  )
  await refuseCall(backoffice, 'acme', {
    headers,
    sample: `${payload}${'x'.repeat(40)} ${planted.card.slice(0, 12)}`,
  })
}, 30_000)
afterAll(async () => {
  await backoffice.close()
  await receiver.stop()
})

test.each([
  ['an event', 'GET', () => `/internal/v1/events/${eventId}`],
  ['refused calls', 'GET', () => `/internal/v1/tenants/${backoffice.tenantId('acme')}/refused-calls`],
  [
    'the callback response to a test event',
    'POST',
    () => `/internal/v1/tenants/${backoffice.tenantId('acme')}/callback/test`,
  ],
  ['a tenant', 'GET', () => `/internal/v1/tenants/${backoffice.tenantId('acme')}`],
  ['a list of events', 'GET', () => '/internal/v1/events'],
  ['the audit log', 'GET', () => '/internal/v1/audit-entries'],
])('redaction: the response for %s contains no secret', async (_what, method, path) => {
  const shown = await backoffice.call(method, path())
  expect(shown.status).toBe(200)
  for (const secret of Object.values(planted)) {
    expect(shown.text).not.toContain(secret)
    expect(shown.text).not.toContain(secret.replaceAll(' ', ''))
  }
})

test('redaction: text that is not secret stays visible in an event', async () => {
  const { text } = await backoffice.call('GET', `/internal/v1/events/${eventId}`)
  for (const kept of ['evt_1', '4200', '820982911946', 'paid by', 'application/json'])
    expect(text).toContain(kept)
})

test('redaction: a raw payload is complete in its response and does not appear in the log', async () => {
  const { text } = await backoffice.call('GET', `/internal/v1/events/${eventId}/payload`)
  expect(text).toContain(`"payload":${payload}`)
  const logs = backoffice.logs()
  expect(logs).toContain('/internal/v1/events/:eventId/payload')
  for (const secret of Object.values(planted)) expect(logs).not.toContain(secret)
})

test('redaction: only the first part of a payload over the size limit is read and shown', async () => {
  const long = JSON.stringify({ text: 'a'.repeat(100_000), card: planted.card })
  const [id] = await acceptEvents(backoffice.pool, [
    receivedEvent({
      tenantId: backoffice.tenantId('acme'),
      payload: long,
      payloadBytes: long.length,
    }),
  ])
  const { json } = await backoffice.call('GET', `/internal/v1/events/${id}`)
  const { text, isCut } = json['redactedPayload'] as { text: string; isCut: boolean }
  expect(isCut).toBe(true)
  expect(text.length).toBeLessThanOrEqual(65_536)
})
