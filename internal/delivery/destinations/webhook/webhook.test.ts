import { expect, test } from 'bun:test'
import { createEventId } from '#internal/base/index.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { carriedHeaders, forwardedEvent } from './webhook.ts'

const event = {
  id: createEventId(1_700_000_000_123, 90),
  tenantId: someTenantId(),
  provider: 'card' as const,
  rawType: 'charge "odd"\\',
  type: 'chargeback.won',
  occurredAtMs: 1_700_000_000_000,
  receivedAtMs: 1_700_000_000_123,
  headers: '{"user-agent":"a","latchkey-hops":"3"}',
  payload: '{"id":820982911946154508, "__proto__": {"a":1}}',
}

test('forwarded event: contains the fields of the contract, with payload and headers as received', () => {
  const text = forwardedEvent(event)
  expect(text).toContain(`"payload":${event.payload},"headers":${event.headers}}`)
  const parsed = JSON.parse(text) as Record<string, unknown>
  expect(Object.keys(parsed)).toEqual([
    'id',
    'provider',
    'providerRawType',
    'type',
    'tenantId',
    'occurredAt',
    'receivedAt',
    'payload',
    'headers',
  ])
  expect(parsed).toMatchObject({
    id: event.id,
    provider: 'card',
    providerRawType: 'charge "odd"\\',
    type: 'chargeback.won',
    tenantId: event.tenantId,
    occurredAt: '2023-11-14T22:13:20.000Z',
    receivedAt: '2023-11-14T22:13:20.123Z',
  })
})

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

test.each([
  ['hops', { 'latchkey-hops': '4' }, { hops: '4', traceparent: undefined }],
  ['a trace', { traceparent, 'latchkey-hops': '1' }, { hops: '1', traceparent }],
  [
    'an invalid trace',
    { traceparent: 'nonsense', 'latchkey-hops': '1' },
    { hops: '1', traceparent: undefined },
  ],
  ['no hops', {}, { hops: '1', traceparent: undefined }],
  [
    'a value that looks like both',
    { 'x-a': `"latchkey-hops":"9","traceparent":"${traceparent}"`, 'latchkey-hops': '2' },
    { hops: '2', traceparent: undefined },
  ],
])('carried headers: reads hops and trace from stored headers (%s)', (_what, headers, carried) => {
  expect(carriedHeaders(JSON.stringify(headers))).toEqual(carried)
})
