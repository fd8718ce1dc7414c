import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { EventId } from '#internal/base/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { addAttempt, someExchange } from '#test/support/events/event-attempts.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let api: TestApi
let eventId: EventId
const startedAtMs = Date.UTC(2026, 10, 21, 8, 40, 1, 987)
const secrets = ['planted-cookie', 'planted-key', 'planted-query', '4242424242424242', 'jane.roe@example.com']

beforeAll(async () => {
  const manifests = dashboardTenantYaml('acme', { scopes: '[dashboard, events]' })
  backoffice = await startTestBackoffice(manifests)
  api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
  const payload = '{"id":"evt_1"}'
  const event = receivedEvent({
    tenantId: backoffice.tenantId('acme'),
    payload,
    payloadBytes: payload.length,
    headers: '{"latchkey-hops":"3"}',
  })
  await acceptEvents(backoffice.pool, [event])
  eventId = event.id
  // Secrets as an earlier version could store them, which did not recognize these names as sensitive.
  const exchange = {
    ...someExchange,
    url: `${someExchange.url}?token=planted-query`,
    signatures: 2,
    headers: [
      ['set-cookie', 'session=planted-cookie'],
      ['x-internal-api-key', 'planted-key'],
      ['x-note', 'paid with 4242424242424242 by jane.roe@example.com'],
      ['x-shard', '7'],
    ] as const,
    headersOmitted: 5,
  }
  await addAttempt(backoffice.pool, eventId, { startedAtMs, answer: 'a'.repeat(5_000), exchange })
  await addAttempt(backoffice.pool, eventId, { attempt: 2 })
}, 30_000)
afterAll(async () => {
  await api.close()
  await backoffice.close()
})

type Shown = Readonly<Record<string, unknown>> & {
  readonly attempts: readonly { exchange?: Record<string, unknown> }[]
}
const asOperator = async () =>
  (await backoffice.call('GET', `/internal/v1/events/${eventId}`)).json as unknown as Shown
const asKey = async () =>
  (await backoffice.call('GET', `/internal/v1/events/${eventId}`, { token: dashboardKey('acme') }))
    .json as unknown as Shown
const asTenant = async () =>
  (
    await api.call('GET', `/v1/events/${eventId}`, undefined, {
      Authorization: `Bearer ${dashboardKey('acme')}`,
    })
  ).json as unknown as Shown

test('attempts: the exchange contains request, response and timing, and is absent if it was not recorded', async () => {
  const { attempts } = await asOperator()
  expect(attempts).toHaveLength(2)
  expect(attempts[1]).not.toHaveProperty('exchange')
  expect(attempts[0]?.exchange).toMatchObject({
    request: { method: 'POST', url: 'https://shop.example.com/hooks?token=[redacted]' },
    response: { headersOmitted: 5, isBodyCut: true },
    isReused: false,
    dnsMs: 4,
    connectMs: 12,
    tlsMs: 22,
    firstByteMs: 480,
  })
  const request = attempts[0]?.exchange?.['request'] as
    | { headerLines?: { name: string; value: string }[] }
    | undefined
  const headerLines = request?.headerLines ?? []
  expect(Object.fromEntries(headerLines.map(({ name, value }) => [name, value]))).toMatchObject({
    host: 'shop.example.com',
    'webhook-id': eventId,
    'latchkey-hops': '3',
    'webhook-timestamp': String(Math.floor(startedAtMs / 1_000)),
    'webhook-signature': 'v1,[redacted] v1,[redacted]',
  })
})

test.each([
  ['an operator', asOperator],
  ['an API key in the internal API', asKey],
  ['an API key in the public API', asTenant],
])('attempts: %s receives no secret from headers or URLs of an attempt', async (_who, read) => {
  const text = JSON.stringify(await read())
  for (const secret of secrets) expect(text).not.toContain(secret)
  expect(text).toContain('"x-shard","value":"7"')
})

test('attempts: the IP address of the callback is shown to operators, and not to API keys', async () => {
  const addresses = async (read: () => Promise<Shown>) => (await read()).attempts[0]?.exchange?.['address']
  expect(await addresses(asOperator)).toBe('10.0.3.7')
  expect(await addresses(asKey)).toBeUndefined()
  expect(await addresses(asTenant)).toBeUndefined()
})
