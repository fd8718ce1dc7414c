import { expect, test } from 'bun:test'
import { checkDelivery, problemsOf } from './delivery-check.ts'
import { failOnDeliveryProblems } from './delivery-problems.ts'

const id = 'evt_06gw979vs1d9q6mddfvvx375s4'
const event = {
  id,
  provider: 'card',
  providerRawType: 'charge.refunded',
  type: 'refund.updated',
  tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs',
  payload: {},
  headers: { 'latchkey-hops': '1' },
  occurredAt: '2026-11-10T08:40:00.000Z',
  receivedAt: '2026-11-10T08:40:01.224Z',
}
const headers = {
  'content-type': 'application/json',
  'webhook-id': id,
  'webhook-timestamp': '1794300001',
  'webhook-signature': `v1,${'A'.repeat(43)}=`,
}
const delivered = (body: object, more: object = {}) => ({
  headers: new Headers({ ...headers, ...more }),
  body: JSON.stringify(body),
})

test('delivery check: a delivery that conforms to the contract causes no problem', () => {
  expect(problemsOf(delivered(event))).toEqual([])
})

test.each([
  ['an id of another form', delivered({ ...event, id: 'test_1' }), 'body/id'],
  ['an id other than webhook-id', delivered({ ...event, id: `${id.slice(0, -1)}5` }), 'webhook-id is'],
  ['an undocumented field', delivered({ ...event, round: 1 }), '"round"'],
  ['a missing field', delivered({ ...event, receivedAt: undefined }), '"receivedAt"'],
  ['a payload that is not an object', delivered({ ...event, payload: [] }), 'body/payload'],
  ['a header that is not a string', delivered({ ...event, headers: { a: 1 } }), 'body/headers/a'],
  ['a text that is not a provider name', delivered({ ...event, provider: 'Letters!' }), 'body/provider'],
  [
    'a time that is not UTC',
    delivered({ ...event, occurredAt: '2026-11-10T08:40:00+01:00' }),
    'body/occurredAt',
  ],
  ['another media type', delivered(event, { 'content-type': 'text/plain' }), 'content-type is'],
  ['a signature of another form', delivered(event, { 'webhook-signature': 'v1a,x' }), 'webhook-signature is'],
  ['a timestamp that is text', delivered(event, { 'webhook-timestamp': 'now' }), 'webhook-timestamp is'],
  ['a body that is not JSON', { headers: new Headers(headers), body: '{' }, 'not JSON'],
])('delivery check: %s is reported as a problem', (_what, one, problem) => {
  expect(problemsOf(one).join('\n')).toContain(problem)
})

test('delivery check: a missing header is reported as a problem', () => {
  expect(problemsOf({ headers: new Headers(), body: JSON.stringify(event) })).toEqual([
    'content-type is null',
    'header webhook-id is missing',
    'header webhook-timestamp is missing',
    'header webhook-signature is missing',
  ])
})

test('delivery check: a problem fails the test once, with its text', () => {
  checkDelivery(delivered({ ...event, id: 'test_1' }))
  expect(failOnDeliveryProblems).toThrow(/do not fit the published contract[\s\S]*body\/id/)
  expect(failOnDeliveryProblems).not.toThrow()
})
