import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { internalRoutes } from '#internal/backoffice/index.ts'
import {
  type CallOptions,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import {
  bodiesOf,
  expectFits,
  expectHeaders,
  fillPath,
  json,
  openContract,
} from '#test/support/documents/contract.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { simulationTenantYaml } from '#test/support/intake/simulation-calls.ts'
import { internalDocumentPath as documentPath, internalDocument } from './internal.ts'

const document = internalDocument()
const { operations, answerSchema, schemaAt, expectDocumented, expectRequestExamplesFit } =
  openContract(document)
let backoffice: TestBackoffice
beforeAll(async () => {
  const apiKey = 'lk_internal_0123456789abcdef0123456789ab'
  const receiver =
    'notifications: {url: "http://127.0.0.1:9998/", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: notified-signing}}'
  backoffice = await startTestBackoffice(
    simulationTenantYaml('acme', apiKey) + dashboardTenantYaml('notified', { spec: [receiver] }),
  )
}, 30_000)
afterAll(() => backoffice.close())

/** Path parameters of objects that do not exist. */
const nothing: Readonly<Record<string, string>> = {
  tenantId: `ten_${'0'.repeat(26)}`,
  eventId: 'evt_06gw979vs1d9q6mddfvvx375s4',
  replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
  simulationId: 'sim_06gw979vs1d9q6mddfvvx375s4',
  emissionId: 'e-1',
  limit: 'eventsPerMonth',
  name: 'forwarding.paused',
  subscriptionName: 'shop',
}
const exampleOf = (method: string, path: string): unknown => {
  const described = operations.find((each) => each.method === method && each.path === path)
  const [body] = described ? bodiesOf(described.operation) : []
  return body?.[1].examples['example']?.value
}

describe('internal API', () => {
  test('internal API document: is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document))
    expect(errors ?? []).toEqual([])
    expect(valid).toBe(true)
  })

  test('internal API document: is served without authentication', async () => {
    const answer = await backoffice.call('GET', documentPath, { token: '' })
    expect(answer.status).toBe(200)
    expect(answer.json).toEqual(JSON.parse(JSON.stringify(document)))
  })

  test.each(['GET', 'POST'])(
    'internal API: %s of an unknown path responds 404, and the error names the document',
    async (method) => {
      const answer = await backoffice.call(method, '/internal/v1/nothing', { token: '' })
      expect([answer.status, answer.json]).toMatchObject([404, { code: 'route_unknown' }])
      const { message } = answer.json as { message: string }
      expect([...message.matchAll(/GET (\S+)/g)].map(([, path]) => path)).toEqual([documentPath])
    },
  )

  test('internal API document: lists exactly the routes and methods of the server', async () => {
    const routes = internalRoutes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    const documented = operations.map(({ method, path }) => `${method} ${path}`)
    expect(documented.toSorted()).toEqual([...routes, `GET ${documentPath}`].toSorted())
    for (const [path, methods] of Object.entries(document.paths)) {
      const answer = await backoffice.call('PATCH', fillPath(path, nothing))
      const allowed = answer.headers.get('allow')?.toLowerCase().split(', ') ?? []
      expect([path, allowed.toSorted()]).toEqual([
        path,
        [...Object.keys(methods), ...('get' in methods ? ['head'] : [])].toSorted(),
      ])
    }
  })

  test.each([
    ['GET', '/internal/v1/nothing', 404, 'RouteUnknown'],
    ['PATCH', '/internal/v1/tenants', 405, 'MethodNotAllowed'],
  ] as const)(
    'internal API: %s %s without an operation returns the documented status %d',
    async (method, path, status, name) => {
      const answer = await backoffice.call(method, path)
      expect(answer.status).toBe(status)
      const documented = document.components.responses[name]
      if (!documented) throw new Error(`the document has no response ${name}`)
      expectFits(schemaAt('components', 'responses', name, ...json), answer.json)
      for (const header of expectHeaders(documented, answer)) expect(answer.headers.has(header)).toBe(true)
    },
  )

  test('internal API document: operation ids are unique', () => {
    const names = operations.map(({ operation }) => operation.operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(operations)(
    'internal API document: examples of $method $path match their schemas',
    (described) => {
      const { method, path, operation } = described
      for (const [status, response] of Object.entries(operation.responses))
        for (const { value } of Object.values(response.content['application/json']?.examples ?? {}))
          expectFits(answerSchema(method, path, status), value)
      expectRequestExamplesFit(described)
    },
  )
})

describe('errors of the internal API', () => {
  const guarded = operations.filter(({ path }) => path !== documentPath)
  const sent = (method: string, path: string): CallOptions => ({
    body: exampleOf(method, path),
    headers: { 'Idempotency-Key': crypto.randomUUID() },
  })

  test('internal API: a missing token and an invalid token return 401 as documented', async () => {
    for (const { method, path } of guarded)
      for (const token of ['', 'lk_nobody_0123456789abcdef0123456789abcd']) {
        const answer = await backoffice.call(method, fillPath(path, nothing), {
          ...sent(method, path),
          token,
        })
        expect([path, answer.status]).toEqual([path, 401])
        expectDocumented(method, path, answer)
      }
  })

  test.each([
    ['30 February', 'to=2026-02-30T00:00:00Z'],
    ['a time before 1970', 'to=1970-01-01T00:00:00%2B01:00'],
    ['a time after 9999 in UTC', 'to=9999-12-31T23:59:59-23:59'],
  ])('internal API: %s in a query returns 400 as documented', async (_case, query) => {
    const path = '/internal/v1/tenants/{tenantId}/usage'
    const tenantId = backoffice.tenantId('acme')
    const answer = await backoffice.call('GET', `${fillPath(path, { tenantId })}?${query}`)
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringContaining('"to"')])
    expectDocumented('GET', path, answer)
  })

  test('internal API: an empty Idempotency-Key returns 400, also where the key is optional', async () => {
    const path = '/internal/v1/tenants/{tenantId}/callback/test'
    const headers = { 'Idempotency-Key': '' }
    const values = { tenantId: backoffice.tenantId('acme') }
    const answer = await backoffice.call('POST', fillPath(path, values), { headers })
    expect(answer.status).toBe(400)
    expectDocumented('POST', path, answer)
  })

  test('internal API: an unknown query parameter returns 400 as documented', async () => {
    for (const { method, path } of guarded) {
      const answer = await backoffice.call(method, `${fillPath(path, nothing)}?colour=1`, sent(method, path))
      expect([path, answer.status]).toEqual([path, 400])
      expectDocumented(method, path, answer)
    }
  })

  test('internal API: a body over the size limit returns 413 as documented, and 401 is returned before the body is read', async () => {
    for (const { method, path, operation } of guarded) {
      if (operation.requestBody === undefined) continue
      const body = `{"a":"${'x'.repeat(path === '/internal/v1/events' ? 27_300_000 : 70_000)}"}`
      const headers = { 'Idempotency-Key': 'long' }
      const tooLong = await backoffice.call(method, fillPath(path, nothing), { body, headers })
      expect([path, tooLong.status]).toEqual([path, 413])
      expectDocumented(method, path, tooLong)
      const stranger = await backoffice.call(method, fillPath(path, nothing), { body, headers, token: '' })
      expect([path, stranger.status]).toEqual([path, 401])
    }
  })

  test('internal API: returns the documented 404 for missing objects, and 404 or 403 for a user without rights', async () => {
    for (const { method, path } of guarded) {
      const options = sent(method, path)
      if (path.includes('{') && !path.startsWith('/internal/v1/settings')) {
        const answer = await backoffice.call(method, fillPath(path, nothing), options)
        expect([path, answer.status]).toEqual([path, 404])
        expectDocumented(method, path, answer)
      }
      const refused = await backoffice.call(method, fillPath(path, nothing), {
        ...options,
        token: someUser(),
      })
      expect([path, [400, 403, 404].includes(refused.status)]).toEqual([path, true])
      expectDocumented(method, path, refused)
    }
  })

  test('internal API: returns the documented 503 while the API server is unavailable', async () => {
    backoffice.breakApiServer(true)
    for (const { method, path } of guarded) {
      const options = { ...sent(method, path), token: someUser() }
      const answer = await backoffice.call(method, fillPath(path, nothing), options)
      expect([path, answer.status]).toEqual([path, 503])
      expectDocumented(method, path, answer)
    }
    backoffice.breakApiServer(false)
  })
})

describe('answers of the internal API', () => {
  /** Calls an operation and checks its answer against the document. */
  async function done(
    method: string,
    path: string,
    values: Record<string, string> = {},
    more: CallOptions & { query?: string } = {},
  ) {
    const { query = '', ...options } = more
    const answer = await backoffice.call(method, fillPath(path, values) + query, options)
    expect([path, answer.status, answer.status < 300 ? '' : answer.text]).toEqual([
      path,
      expect.any(Number),
      '',
    ])
    expectDocumented(method, path, answer)
    left.delete(`${method} ${path}`)
    return answer
  }
  const left = new Set(operations.map(({ method, path }) => `${method} ${path}`))
  const tenant = '/internal/v1/tenants/{tenantId}'
  const hourMs = 3_600_000

  test('internal API: the response of every operation matches its documentation', async () => {
    const tenantId = backoffice.tenantId('acme')
    const mine = { tenantId }
    const keyed = () => ({ headers: { 'Idempotency-Key': crypto.randomUUID() } })
    await done('GET', documentPath)
    await done('GET', '/internal/v1/tenants', {}, { query: '?search=acm&limit=1' })
    await done('GET', '/internal/v1/tenants/lookup', {}, { query: '?slug=acme' })
    for (const part of [
      '',
      '/permissions',
      '/refused-calls',
      '/usage',
      '/limits',
      '/executions',
      '/settings',
    ])
      await done('GET', `${tenant}${part}`, mine)
    await done('POST', `${tenant}/callback/test`, mine, keyed())
    await done('POST', `${tenant}/callback/resume`, mine)
    await done('POST', `${tenant}/notifications/test`, { tenantId: backoffice.tenantId('notified') })
    const at = new Date(Date.now() - hourMs).toISOString()
    const emission = { body: { kind: 'exports.rows', amount: 3, occurredAt: at } }
    await done('PUT', `${tenant}/usage/{emissionId}`, { ...mine, emissionId: 'e-1' }, emission)
    for (const usage of [
      { kind: 'events' },
      { kind: 'exports.rows', amount: 2, commit: true, id: 'c-1' },
      { kind: 'exports.rows', amount: 2, commit: true, id: 'c-1' },
      { kind: 'locks', commit: true, id: 'c-1' },
    ])
      await done('POST', '/internal/v1/guardrails/check', {}, { body: { tenantId, ...usage } })
    const limit = { ...mine, limit: 'eventsPerMonth' }
    const until = new Date(Date.now() + hourMs).toISOString()
    await done('PUT', `${tenant}/limits/{limit}/override`, limit, {
      body: { hard: 5, expiresAt: until, reason: 'a test' },
    })
    await done('GET', `${tenant}/limits`, mine)
    await done('DELETE', `${tenant}/limits/{limit}/override`, limit)
    for (const [path, values] of [
      ['/internal/v1/settings', {}],
      [`${tenant}/settings`, mine],
    ] as const) {
      const setting = { ...values, name: 'forwarding.paused' }
      await done('GET', path, values)
      await done('GET', `${path}/{name}`, setting)
      await done('PUT', `${path}/{name}`, setting, { body: { value: true, expectedVersion: 0 } })
      await done('GET', '/internal/v1/tenant-settings', {})
      await done('DELETE', `${path}/{name}`, setting)
    }
    await walkSubscriptions(mine)
    await walkEvents(tenantId)
    await walkSimulations(mine)
    await done('GET', '/internal/v1/refused-calls', {}, { query: '?limit=2' })
    await done('GET', '/internal/v1/audit-entries', {}, { query: `?tenantId=${tenantId}&limit=2` })
    expect([...left]).toEqual([])
  })

  async function walkSubscriptions(mine: { tenantId: string }) {
    const path = `${tenant}/subscriptions/{subscriptionName}`
    const one = { ...mine, subscriptionName: 'shop' }
    await done('PUT', path, one, { body: { types: ['payment.*'], providers: ['stripe'] } })
    await done('GET', `${tenant}/subscriptions`, mine)
    await done('GET', path, one)
    await done('POST', `${path}/seek`, one, { body: { from: '2026-11-20T00:00:00Z' } })
    await done('DELETE', path, one)
  }

  async function walkEvents(tenantId: string) {
    const body = {
      tenantId,
      provider: 'card',
      sourceEventId: 'c-1',
      type: 'payment.succeeded',
      payload: { a: 1 },
    }
    const ingested = await done('POST', '/internal/v1/events', {}, { body })
    const [failed] = await acceptEvents(backoffice.pool, [
      receivedEvent({ tenantId: backoffice.tenantId('acme') }),
    ])
    const eventId = String(ingested.json['id'])
    await backoffice.pool.query(
      `UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE id = $1`,
      [failed],
    )
    await backoffice.pool.query('DELETE FROM deliveries_due WHERE event_id = $1', [failed])
    await done('GET', '/internal/v1/events', {}, { query: `?tenantId=${tenantId}&limit=1` })
    const term = { body: { tenantId, from: new Date(0).toISOString(), text: 'payment' } }
    await done('POST', '/internal/v1/event-searches', {}, term)
    await done('GET', '/internal/v1/events/{eventId}', { eventId })
    await done('GET', '/internal/v1/events/{eventId}/payload', { eventId })
    await done('GET', '/internal/v1/events/{eventId}/explain', { eventId })
    await done(
      'POST',
      '/internal/v1/events/{eventId}/replays',
      { eventId: String(failed) },
      { body: { cycle: 1 } },
    )
    await done('POST', '/internal/v1/events/{eventId}/retry', { eventId: String(failed) })
    const from = new Date(Date.now() - hourMs).toISOString()
    await done('POST', '/internal/v1/replay-previews', {}, { body: { tenantId, from } })
    const start = { body: { tenantId, from }, headers: { 'Idempotency-Key': 'one' } }
    const started = await done('POST', '/internal/v1/replays', {}, start)
    const replayId = (started.json['replay'] as { id: string }).id
    expect((await done('POST', '/internal/v1/replays', {}, start)).headers.get('idempotent-replayed')).toBe(
      'true',
    )
    await done('GET', '/internal/v1/replays')
    await done('GET', '/internal/v1/replays/{replayId}', { replayId })
    await done('POST', '/internal/v1/replays/{replayId}/cancel', { replayId })
  }

  async function walkSimulations(mine: { tenantId: string }) {
    const options = {
      body: { amount: 100, currency: 'EUR', stepSeconds: 600 },
      headers: { 'Idempotency-Key': 's' },
    }
    const started = await done('POST', `${tenant}/simulations`, mine, options)
    const { simulationId: id, events } = started.json['simulation'] as {
      simulationId: string
      events: { id: string }[]
    }
    const simulationId = { simulationId: id }
    await done('GET', '/internal/v1/simulations')
    await done('GET', '/internal/v1/simulations/{simulationId}', simulationId)
    const event = { body: { sourceEventId: events[0]?.id } }
    await done('POST', '/internal/v1/simulations/{simulationId}/advance', simulationId, event)
    await done('POST', '/internal/v1/simulations/{simulationId}/cancel', simulationId)
  }
})
