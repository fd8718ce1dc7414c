import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { publicEventRoutes } from '#internal/backoffice/index.ts'
import { webhookRoutes } from '#internal/intake/index.ts'
import { eventTypeRoutes } from '#internal/providers/index.ts'
import { recordRoutes } from '#internal/records/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import {
  startTestApi,
  type TestAnswer,
  type TestApi,
  tenantYaml,
  testApiKey,
  testLimits,
} from '#test/support/api.ts'
import {
  answerSchema,
  contract as document,
  type ExampleRequest,
  expectDocumented,
  expectFits,
  expectHeaders,
  expectRequestExamplesFit,
  fillPath,
  json,
  operations,
  requestExamples,
  schemaAt,
} from '#test/support/documents/contract.ts'
import { webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import type { ResponseObject } from './document.ts'
import { contractRoutes } from './public.ts'

const limitedKey = 'lk_limited_0123456789abcdef0123456789abcdef'
const suspendedKey = 'lk_suspended_0123456789abcdef0123456789'

let api: TestApi

beforeAll(async () => {
  const manifests = [
    webhookTenantYaml('acme', testApiKey).replace('scopes: [', 'scopes: [events, "payloads:read", '),
    tenantYaml('limited', limitedKey, ['limits: {locksPerMonth: {hard: 0}}']),
    tenantYaml('asleep', suspendedKey, ['suspended: true']),
  ]
  api = await startTestApi({ manifests: manifests.join('') })
}, 30_000)
afterAll(() => api.close())

/** Returns a path with its parameters filled in. */
const served = (path: string) =>
  fillPath(path, {
    tenantSlug: 'acme',
    provider: 'generic',
    eventId: 'evt_06gw979vs1d9q6mddfvvx375s4',
    replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
    subscriptionName: 'shop',
  })

test('contract test helper: rejects a response with an undocumented field', () => {
  const fits = answerSchema('GET', '/v1/record', 200)
  expect(fits({ cached: false })).toBe(true)
  expect(fits({ cached: false, more: 1 })).toBe(false)
  expect(fits({ cached: true, record: { status: 200, headers: {}, body: 1, more: 1 } })).toBe(false)
  const envelope = { message: 'm', error: 'e', statusCode: 400, code: 'invalid_request', requestId: 'r' }
  expect(answerSchema('GET', '/v1/record', 400)(envelope)).toBe(true)
  expect(answerSchema('GET', '/v1/record', 400)({ ...envelope, more: 1 })).toBe(false)
})

describe('public contract', () => {
  test('public contract: is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document))
    expect(errors ?? []).toEqual([])
    expect(valid).toBe(true)
  })

  test('public contract: is served at GET /v1/openapi.json without authentication', async () => {
    const response = await fetch(`${api.url}/v1/openapi.json`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
  })

  test('public contract: lists exactly the routes and methods of the server', async () => {
    const tables = [
      ...recordRoutes,
      ...webhookRoutes,
      ...eventTypeRoutes,
      ...publicEventRoutes,
      ...simulationRoutes,
      ...contractRoutes(testLimits),
    ]
    const routes = tables.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    const documented = operations.map(({ method, path }) => `${method} ${path}`)
    expect(documented.toSorted()).toEqual(routes.toSorted())
    expect(documented.every((route) => / \/v1\/[a-z]/.test(route))).toBe(true)
    for (const [path, methods] of Object.entries(document.paths)) {
      const answer = await api.call('PATCH', served(path))
      const allowed = answer.headers.get('allow')?.toLowerCase().split(', ') ?? []
      expect(allowed.toSorted()).toEqual(
        [...Object.keys(methods), ...('get' in methods ? ['head'] : [])].toSorted(),
      )
    }
  })

  test('public contract: requires an API key for exactly the routes that require one on the server', async () => {
    for (const { method, path, operation } of operations) {
      const response = await fetch(`${api.url}${served(path)}`, { method })
      expect(response.status === 403).toBe(operation.security?.length !== 0)
    }
  })

  test('public contract: patterns match the same texts in engines without Unicode property support', () => {
    const patterns = [...JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
      ([, text]) => String(JSON.parse(text ?? '')),
    )
    expect(patterns.length).toBeGreaterThan(10)
    const samples = ['plain', 'a b', 'ключ', '日本', '😀', 'a\0b', 'a\r\nb', 'a\u0085b', 'a\ufffdb', '', '=']
    for (const pattern of patterns) {
      expect(pattern).not.toContain('\\p{')
      for (const sample of samples)
        expect(new RegExp(pattern).test(sample)).toBe(new RegExp(pattern, 'u').test(sample))
    }
  })

  test('public contract: the schema of a record refuses the same headers as the server', () => {
    const fits = schemaAt('components', 'schemas', 'SaveRequest')
    const record = { scope: 's', key: 'k', status: 200, body: 1 }
    expect(
      fits({ ...record, headers: { 'Content-Type': 'a/b', Empty: '', Around: ' x\ty ', Utf8: '日本' } }),
    ).toBe(true)
    for (const headers of [
      { '': 'x' },
      { 'a\r\nSet-Cookie': 'x' },
      { 'a b': 'x' },
      { a: 'x\r\ny' },
      { a: '\0' },
      { a: 1 },
    ])
      expect(fits({ ...record, headers })).toBe(false)
  })

  test('public contract: operation ids are unique', () => {
    const names = operations.map(({ operation }) => operation.operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(operations)(
    'public contract: response examples of $method $path match their schemas',
    ({ method, path, operation }) => {
      for (const [status, response] of Object.entries(operation.responses)) {
        for (const { value } of Object.values(response.content['application/json']?.examples ?? {})) {
          expectFits(answerSchema(method, path, status), value)
        }
      }
    },
  )

  test.each(operations)(
    'public contract: request examples of $method $path match their schemas',
    expectRequestExamplesFit,
  )
})

/** Examples in an order in which each finds the record or lock that it needs. */
const walk = [
  ['POST', '/v1/record', 'lock'],
  ['POST', '/v1/record', 'busy'],
  ['PUT', '/v1/record', 'save'],
  ['POST', '/v1/record', 'hit'],
  ['GET', '/v1/record', 'found'],
  ['GET', '/v1/record', 'none'],
  ['DELETE', '/v1/record', 'removed'],
  ['POST', '/v1/record/batch', 'batch'],
  ['POST', '/v1/record/extend', 'extended'],
  ['DELETE', '/v1/record', 'released'],
] as const

/** Replaces values that differ from call to call by their types. */
function withoutChance(value: unknown): unknown {
  const chance = ['lockToken', 'fence', 'retryAfterMs']
  return JSON.parse(JSON.stringify(value), (name, inner: unknown) =>
    chance.includes(name) ? typeof inner : inner,
  )
}

function findToken(value: unknown): string | undefined {
  return /"lockToken":"([^"]+)"/.exec(JSON.stringify(value))?.[1]
}

function sendExample(
  method: string,
  path: string,
  { query, body }: ExampleRequest,
  lockToken: string | undefined,
): Promise<TestAnswer> {
  const fields = { ...query, ...body }
  const current = { ...fields, ...('lockToken' in fields && { lockToken }) }
  return method === 'POST' || method === 'PUT'
    ? api.call(method, path, current)
    : api.call(method, `${path}?${new URLSearchParams(current as Record<string, string>)}`)
}

test('public contract: the server responds to every example of a record call as documented', async () => {
  // Locks the second key of the batch, so that the example call finds it busy.
  await api.call('POST', '/v1/record', { scope: 'payments', key: 'order-1045' })
  let lockToken: string | undefined
  const left = new Set(
    operations
      .filter(({ operation }) => operation.tags.includes('records'))
      .flatMap((described) =>
        [...requestExamples(described).keys()].map((name) => `${described.method} ${described.path} ${name}`),
      ),
  )
  for (const [method, path, name] of walk) {
    const described = operations.find((each) => each.method === method && each.path === path)
    const example = described && requestExamples(described).get(name)
    if (!example) throw new Error(`${method} ${path} has no example ${name}`)
    const answer = await sendExample(method, path, example, lockToken)
    expect(answer.status).toBe(200)
    expectDocumented(method, path, answer)
    const promised = described.operation.responses['200']?.content['application/json']?.examples?.[name]
    expect(withoutChance(answer.json)).toEqual(withoutChance(promised?.value))
    lockToken = findToken(answer.json) ?? lockToken
    left.delete(`${method} ${path} ${name}`)
  }
  expect([...left]).toEqual([])
})

describe('answers without examples', () => {
  const address = { scope: 'contract', key: 'k' }
  const as = (apiKey: string) => ({ Authorization: `Bearer ${apiKey}` })

  test('public contract: every operation with an API key returns 400 and 403 as documented', async () => {
    for (const { method, path, operation } of operations) {
      if (operation.security?.length === 0) continue
      const bodyOrNone = method === 'GET' || method === 'DELETE' ? undefined : '{"'
      const refused = await api.call(method, `${served(path)}?unknown=1`, bodyOrNone)
      expect(refused.status).toBe(400)
      expectDocumented(method, path, refused)
      for (const apiKey of ['lk_nobody', suspendedKey]) {
        const forbidden = await api.call(method, served(path), bodyOrNone, as(apiKey))
        expect(forbidden.status).toBe(403)
        expectDocumented(method, path, forbidden)
      }
    }
  })

  test('public contract: record calls return 409, 422 and 429 as documented', async () => {
    await api.call('POST', '/v1/record', { ...address, fingerprint: 'one' })
    const saved = { ...address, status: 200, body: 1 }
    const calls: readonly [number, string, string, object, string?][] = [
      [422, 'POST', '/v1/record', { ...address, fingerprint: 'two' }],
      [409, 'POST', '/v1/record/extend', { ...address, lockToken: 'x' }],
      [409, 'PUT', '/v1/record', { ...saved, lockToken: 'x' }],
      [200, 'PUT', '/v1/record', saved],
      [409, 'PUT', '/v1/record', { ...saved, body: 2 }],
      [429, 'POST', '/v1/record', address, limitedKey],
      [200, 'POST', '/v1/record/batch', { checks: [address] }, limitedKey],
      [200, 'POST', '/v1/record/batch', { checks: [{}, { ...address, fingerprint: 'two' }, address] }],
    ]
    for (const [status, method, path, body, apiKey = testApiKey] of calls) {
      const answer = await api.call(method, path, body, as(apiKey))
      expect(answer.status).toBe(status)
      expectDocumented(method, path, answer)
    }
  })

  test.each([
    ['POST', '/v1/record/', 404, 'RouteUnknown'],
    ['GET', '/v1/openapi.json/', 404, 'RouteUnknown'],
    ['GET', '/v1/records', 404, 'RouteUnknown'],
    ['PATCH', '/v1/record', 405, 'MethodNotAllowed'],
  ] as const)(
    'public contract: %s %s without an operation returns the documented status %d',
    async (method, path, status, name) => {
      const answer = await api.call(method, path)
      expect(answer.status).toBe(status)
      const documented = document.components.responses[name]
      if (!documented) throw new Error(`the document has no response ${name}`)
      expectFits(schemaAt('components', 'responses', name, ...json), answer.json)
      for (const header of expectHeaders(documented, answer)) expect(answer.headers.has(header)).toBe(true)
      const [example] = Object.values(documented.content['application/json']?.examples ?? {})
      expect(example?.value).toEqual({ ...answer.json, requestId: expect.any(String) })
    },
  )

  test('public contract: a query string on a call with a body returns 400 as documented', async () => {
    for (const [method, path] of [
      ['POST', '/v1/record'],
      ['PUT', '/v1/record'],
      ['POST', '/v1/record/extend'],
      ['POST', '/v1/record/batch'],
      ['POST', '/v1/simulate/chargeback'],
    ] as const) {
      const answer = await api.call(method, `${path}?scope=contract`, address)
      expect([answer.status, answer.json.message]).toEqual([400, expect.stringContaining('"scope"')])
      expectDocumented(method, path, answer)
    }
  })

  test('public contract: a lock that was taken over is returned with the documented takenOver field', async () => {
    const held = { scope: 'contract', key: 'taken', lockSeconds: 1 }
    await api.call('POST', '/v1/record', held)
    const answer = await api.call('POST', '/v1/record', { ...held, waitMs: 10_000 })
    expect(answer.json.takenOver).toBe(true)
    expectDocumented('POST', '/v1/record', answer)
  })
})

test('public contract: every example error has the status code under which it is documented', () => {
  const envelopes = operations.flatMap(({ operation }) =>
    Object.entries(operation.responses).flatMap(([status, { content }]: [string, ResponseObject]) =>
      Object.entries(content['application/json']?.examples ?? {})
        .filter(([, { value }]) => typeof value === 'object' && value !== null && 'statusCode' in value)
        .map(([code, { value }]) => ({ status, code, value })),
    ),
  )
  expect(envelopes.length).toBeGreaterThan(0)
  for (const { status, code, value } of envelopes)
    expect(value).toMatchObject({ statusCode: Number(status), code })
})

describe('request schemas', () => {
  test.each<[string, object]>([
    ['a minimal check', {}],
    ['the longest scope, in code points', { scope: '😀'.repeat(128) }],
    ['a scope too long', { scope: '😀'.repeat(129) }],
    ['an empty key', { key: '' }],
    ['the longest key', { key: 'k'.repeat(255) }],
    ['a key too long', { key: 'k'.repeat(256) }],
    ['a control character', { key: 'a\u0085' }],
    ['a fraction', { lockSeconds: 1.5 }],
    ['the longest lock', { lockSeconds: 900 }],
    ['a longer lock', { lockSeconds: 901 }],
    ['no wait', { waitMs: 0 }],
    ['a negative wait', { waitMs: -1 }],
    ['a ttl of nothing', { ttlSeconds: 0 }],
    ['a number in a string', { ttlSeconds: '5' }],
    ['null', { fingerprint: null }],
    ['an unknown field', { lockTokn: 'x' }],
  ])('public contract: schema and server both accept or both refuse %s', async (name, fields) => {
    const body = { scope: 'schema', key: name, ...fields }
    const fits = schemaAt('components', 'schemas', 'CheckRequest')(body)
    expect((await api.call('POST', '/v1/record', body)).status).toBe(fits ? 200 : 400)
  })
})
