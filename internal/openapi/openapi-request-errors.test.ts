import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { internalRoutes } from '#internal/backoffice/index.ts'
import { expectation, type JsonSchema } from '#internal/http/index.ts'
import { eventTypeRoutes } from '#internal/providers/index.ts'
import { recordRoutes } from '#internal/records/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'

/** Part of every invalid value, to detect errors that repeat the value. */
const mark = 'Zq9'
let api: TestApi
let backoffice: TestBackoffice
let tenantId = ''
beforeAll(async () => {
  api = await startTestApi()
  backoffice = await startTestBackoffice(tenantYaml('acme', testApiKey))
  tenantId = backoffice.tenantId('acme')
}, 30_000)
afterAll(async () => {
  await backoffice.close()
  await api.close()
})

const time = 'an RFC 3339 time such as 2026-11-01T08:30:00Z'
const kind = 'at most 64 characters of dotted lowercase, such as exports.rows'
const text = (charsMax: number) =>
  `a string of 1 to ${charsMax} characters without control characters or U+FFFD`
const page = 'a whole number from 1 to 100'

describe('validation errors of the public API', () => {
  test.each([
    ['limit=0', `"limit" must be ${page}`],
    [`limit=${mark}`, `"limit" must be ${page}`],
    [`provider=${mark}`, '"provider" must be one of card, storefront, '],
    ['after=', `"after" must be ${text(255)}`],
    ['limit=1&limit=2', '"limit" is repeated in the query: send it once'],
    [
      'types=a',
      '"types" is not a parameter of this call, which takes the query parameters provider, type, after, limit',
    ],
  ])(
    'GET /v1/event-types?%s: the error names the parameter and its allowed values',
    async (query, message) => {
      const answer = await api.call('GET', `/v1/event-types?${query}`)
      expect([answer.status, answer.json['message']]).toEqual([400, expect.stringMatching(start(message))])
      expect(answer.text).not.toContain(mark)
    },
  )
})

describe('validation errors of the internal API', () => {
  const usage = { kind: 'exports.rows', amount: 1, occurredAt: '2026-11-01T08:30:00Z' }
  const override = { hard: 1, expiresAt: '2027-11-01T08:30:00Z', reason: 'a test' }
  const event = { provider: 'card', sourceEventId: 'e', type: 'order.paid', payload: {} }
  const tenantIdText = 'the id of a tenant: ten_ and 26 characters'

  test.each<[method: string, path: string, body: object | undefined, message: string]>([
    ['GET', `events?limit=${mark}`, undefined, `"limit" must be ${page}`],
    ['GET', `events?from=${mark}`, undefined, `"from" must be ${time}`],
    ['GET', 'events?from=2026-02-30T00:00:00Z', undefined, '"from" names a day that does not exist'],
    [
      'GET',
      'events?from=2026-02-20T00:00:00+01:00',
      undefined,
      `"from" must be ${time}: send the + of an offset as %2B`,
    ],
    ['GET', `events?tenantId=${mark}`, undefined, `"tenantId" must be ${tenantIdText}`],
    ['GET', `events?id=${mark}`, undefined, '"id" must be the id of an event: evt_ and 26 characters'],
    ['GET', `events?state=${mark}`, undefined, '"state" must be one of accepted, processed, '],
    ['GET', `tenants?namespaces=${mark}`, undefined, '"namespaces" must be names of at most 50 namespaces'],
    ['GET', `tenants/lookup?keyPrefix=${mark}`, undefined, '"keyPrefix" must be the first 11 characters of'],
    [
      'GET',
      'events?page=1',
      undefined,
      '"page" is not a parameter of this call, which takes the query parameters after, ',
    ],
    [
      'PUT',
      'T/limits/eventsPerMonth/override',
      { ...override, hard: -1 },
      `"hard" must be a whole number from 0 to 1000000000000000, or null`,
    ],
    [
      'PUT',
      'T/limits/eventsPerMonth/override',
      { ...override, expiresAt: mark },
      `"expiresAt" must be ${time}`,
    ],
    [
      'PUT',
      'T/limits/eventsPerMonth/override',
      { ...override, expiresAt: '2027-02-30T00:00:00Z' },
      '"expiresAt" names a day that does not exist',
    ],
    ['PUT', 'T/limits/eventsPerMonth/override', { ...override, reason: '' }, `"reason" must be ${text(500)}`],
    ['PUT', 'T/usage/e-1', { ...usage, kind: mark }, `"kind" must be ${kind}`],
    [
      'PUT',
      'T/usage/e-1',
      { ...usage, amount: 0.5 },
      '"amount" must be a whole number from 0 to 1000000000000',
    ],
    [
      'PUT',
      'T/usage/e-1',
      { ...usage, occurredAt: '2026-02-30T00:00:00Z' },
      '"occurredAt" names a day that does not exist',
    ],
    ['GET', `events?after=${mark}`, undefined, '"after" is not a cursor of this list'],
    [
      'GET',
      'events?type=pay*',
      undefined,
      '"type" must be a complete type such as payment.failed, or a family',
    ],
    ['GET', 'events?status=50x', undefined, '"status" must be a status such as 404'],
    ['GET', 'T/executions?key=k', undefined, 'A search by key requires the scope of the key'],
    [
      'POST',
      'replay-previews',
      { from: usage.occurredAt, to: usage.occurredAt },
      '"from" must be before the end',
    ],
    ['PUT', 'T/usage/e-1', { ...usage, kind: 'locks' }, '"kind" must be one that another service counts'],
    [
      'PUT',
      'T/usage/e-1',
      { ...usage, occurredAt: '2020-01-01T00:00:00Z' },
      '"occurredAt" must be within the last 35 days',
    ],
    [
      'PUT',
      'settings/log.sampling',
      { value: [mark] },
      '"value" must be true or false, or a number, or a string of',
    ],
    [
      'PUT',
      'settings/log.sampling',
      { value: 1, expectedVersion: -1 },
      '"expectedVersion" must be a whole number from 0 to ',
    ],
    ['POST', 'events', { ...event, tenantId: mark }, `"tenantId" must be ${tenantIdText}`],
    ['POST', 'events', { ...event, provider: mark }, '"provider" must be the name of a provider'],
    ['POST', 'events', { ...event, type: mark }, '"type" must be at most 255 characters of dotted lowercase'],
    ['POST', 'events', { ...event, occurredAt: mark }, `"occurredAt" must be ${time}`],
    [
      'POST',
      'events',
      { ...event, headers: { 'a b': mark } },
      '"headers.a b" has no valid name: "headers" must be a JSON object of',
    ],
    [
      'POST',
      'events',
      { ...event, headers: { a: `${mark}\n` } },
      '"headers.a" must be a string of at most 8192 printable',
    ],
    ['POST', 'replay-previews', { from: mark }, `"from" must be ${time}`],
    [
      'POST',
      'replay-previews',
      { from: usage.occurredAt, to: '2026-02-30T00:00:00Z' },
      '"to" names a day that does not exist',
    ],
    [
      'POST',
      'replay-previews',
      { from: usage.occurredAt, ids: [mark] },
      '"ids.0" must be the id of an event',
    ],
    [
      'POST',
      'replay-previews',
      { from: usage.occurredAt, state: mark },
      '"state" must be one of processed, ',
    ],
    ['POST', 'guardrails/check', { kind: mark }, `"kind" must be ${kind}`],
    [
      'POST',
      'T/simulations',
      { amount: 1, currency: mark },
      '"currency" must be an ISO 4217 code of 3 letters',
    ],
  ])('%s %s %j: the error names the field and its allowed values', async (method, path, given, message) => {
    const body = given && { ...(path === 'events' || path.startsWith('guard') ? { tenantId } : {}), ...given }
    const answer = await send(method, path, body)
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringMatching(start(message))])
    expect(answer.text).not.toContain(mark)
  })

  test.each([
    ['GET', `tenants/${mark}`, `"tenantId" must be ${tenantIdText}`],
    ['GET', `events/${mark}`, '"eventId" must be the id of an event: evt_ and 26 characters'],
    ['GET', `replays/${mark}`, '"replayId" must be the id of a replay: rpl_ and 26 characters'],
    ['GET', `simulations/${mark}`, '"simulationId" must be the id of a simulation: sim_ and 26 characters'],
    ['DELETE', `T/limits/${mark}/override`, '"limit" must be the name of a limit: locksPerMinute, '],
    ['GET', 'settings/%00', '"name" must be the name of a setting'],
  ])(
    '%s %s: the 404 error for a malformed path parameter names the parameter and its allowed values',
    async (method, path, message) => {
      const answer = await send(method, path)
      expect([answer.status, answer.json['message']]).toEqual([404, expect.stringMatching(start(message))])
      expect(answer.text).not.toContain(mark)
    },
  )

  const send = (method: string, path: string, body?: object) =>
    backoffice.call(method, `/internal/v1/${path.replace(/^T\//, `tenants/${tenantId}/`)}`, {
      headers: { 'Idempotency-Key': 'errors' },
      ...(body && { body }),
    })

  test.each([
    ['', 'The header Idempotency-Key must be 1 to 255 printable ASCII characters'],
    [undefined, 'The header Idempotency-Key is required'],
  ])(
    'POST replays: the error for the Idempotency-Key %p describes the allowed values',
    async (key, message) => {
      const headers = key === undefined ? {} : { 'Idempotency-Key': key }
      const answer = await backoffice.call('POST', '/internal/v1/replays', { headers, body: {} })
      expect([answer.status, answer.json['message']]).toEqual([400, expect.stringMatching(start(message))])
    },
  )
})

const start = (message: string) => new RegExp(`^${message.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}`)

const routes = [...recordRoutes, ...simulationRoutes, ...eventTypeRoutes, ...internalRoutes]
const operations = routes.map(({ method, path, operation }) => ({ method, path, operation }))

test.each(operations)('$method $path: every pattern in its request has an error text', ({ operation }) => {
  const bodies = Object.values(operation.requestBody?.content ?? {}).map(({ schema }) => schema)
  const parameters = (operation.parameters ?? []).map(({ schema }) => schema)
  for (const schema of [...bodies, ...parameters].flatMap(patternedIn)) {
    const expected = expectation(schema)
    expect(expected).toMatch(/ .* /)
    for (const regex of [schema['pattern'], schema['source']])
      if (typeof regex === 'string') expect(expected).not.toContain(regex)
    if (schema['type'] !== 'RegExp' && schema['enum'] === undefined)
      expect(schema['expected']).toEqual(expect.any(String))
  }
})

/** Returns the schemas with a regular expression that a value must match. */
function patternedIn(value: unknown): readonly JsonSchema[] {
  if (Array.isArray(value)) return value.flatMap(patternedIn)
  if (typeof value !== 'object' || value === null) return []
  const schema = value as JsonSchema
  const isPatterned = typeof schema['pattern'] === 'string' || schema['type'] === 'RegExp'
  return [...(isPatterned ? [schema] : []), ...Object.values(schema).flatMap(patternedIn)]
}
