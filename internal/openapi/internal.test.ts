import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { internalRoutes } from '#internal/backoffice/index.ts'
import { acceptEvents } from '#test/support/accepted-event.ts'
import {
  type CallOptions,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import { bodiesOf, expectFits, fillPath, openContract } from '#test/support/contract.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { simulationTenantYaml } from '#test/support/simulation-calls.ts'
import { internalDocument } from './internal.ts'

const document = internalDocument()
const { operations, answerSchema, expectDocumented, parametersOf, schemaAt } = openContract(document)
const documentPath = '/internal/v1/openapi.json'
let backoffice: TestBackoffice
beforeAll(async () => {
  const apiKey = 'lk_internal_0123456789abcdef0123456789ab'
  backoffice = await startTestBackoffice(simulationTenantYaml('acme', apiKey))
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

  test('internal API document: operation ids are unique', () => {
    const names = operations.map(({ operation }) => operation.operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(operations)(
    'internal API document: examples of $method $path match their schemas',
    (described) => {
      const { method, path, operation } = described
      for (const [status, response] of Object.entries(operation.responses))
        for (const { value } of Object.values(response.content['application/json'].examples ?? {}))
          expectFits(answerSchema(method, path, status), value)
      for (const [media, { examples }] of bodiesOf(operation)) {
        const schema = schemaAt(
          'paths',
          path,
          method.toLowerCase(),
          'requestBody',
          'content',
          media,
          'schema',
        )
        for (const { value } of Object.values(examples)) expectFits(schema, value)
      }
      for (const { parameter, schema } of parametersOf(described))
        for (const { value } of Object.values(parameter.examples ?? {})) expectFits(schema, value)
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
    expect([path, answer.status, answer.status === 200 ? '' : answer.text]).toEqual([path, 200, ''])
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
    await done('GET', '/internal/v1/tenant', {}, { query: '?slug=acme' })
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
    const at = new Date(Date.now() - hourMs).toISOString()
    const emission = { body: { kind: 'exports.rows', count: 3, at } }
    await done('PUT', `${tenant}/usage/{emissionId}`, { ...mine, emissionId: 'e-1' }, emission)
    const limit = { ...mine, limit: 'eventsPerMonth' }
    const until = new Date(Date.now() + hourMs).toISOString()
    await done('PUT', `${tenant}/limits/{limit}/override`, limit, {
      body: { hard: 5, until, reason: 'a test' },
    })
    await done('GET', `${tenant}/limits`, mine)
    await done('DELETE', `${tenant}/limits/{limit}/override`, limit)
    for (const [path, values] of [
      ['/internal/v1/settings', {}],
      [`${tenant}/settings`, mine],
    ] as const) {
      const setting = { ...values, name: 'forwarding.paused' }
      await done('GET', path, values)
      await done('PUT', `${path}/{name}`, setting, { body: { value: true, expectedVersion: 0 } })
      await done('DELETE', `${path}/{name}`, setting)
    }
    await walkEvents(tenantId)
    await walkSimulations(mine)
    await done('GET', '/internal/v1/audit', {}, { query: `?tenant=${tenantId}&limit=2` })
    expect([...left]).toEqual([])
  })

  async function walkEvents(tenantId: string) {
    const body = {
      tenantId,
      provider: 'card',
      sourceEventId: 'c-1',
      type: 'payment.succeeded',
      payload: { a: 1 },
    }
    const appended = await done('POST', '/internal/v1/events', {}, { body })
    const [failed] = await acceptEvents(backoffice.pool, [
      receivedEvent({ tenantId: backoffice.tenantId('acme') }),
    ])
    const eventId = String(appended.json['id'])
    await backoffice.pool.query(
      `UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE id = $1`,
      [failed],
    )
    await backoffice.pool.query('DELETE FROM deliveries_due WHERE event_id = $1', [failed])
    await done('GET', '/internal/v1/events', {}, { query: `?tenant=${tenantId}&limit=1` })
    await done('GET', '/internal/v1/events/{eventId}', { eventId })
    await done('GET', '/internal/v1/events/{eventId}/payload', { eventId })
    await done(
      'POST',
      '/internal/v1/events/{eventId}/replays',
      { eventId: String(failed) },
      { body: { round: 1 } },
    )
    const from = new Date(Date.now() - hourMs).toISOString()
    await done('POST', '/internal/v1/replay-preview', {}, { body: { tenantId, from } })
    const start = { body: { tenantId, from }, headers: { 'Idempotency-Key': 'one' } }
    const started = await done('POST', '/internal/v1/replays', {}, start)
    const replayId = (started.json['job'] as { id: string }).id
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
    const { id, events } = started.json['simulation'] as { id: string; events: { id: string }[] }
    const simulationId = { simulationId: id }
    await done('GET', '/internal/v1/simulations')
    await done('GET', '/internal/v1/simulations/{simulationId}', simulationId)
    const event = { body: { event: events[0]?.id } }
    await done('POST', '/internal/v1/simulations/{simulationId}/advance', simulationId, event)
    await done('POST', '/internal/v1/simulations/{simulationId}/cancel', simulationId)
  }
})
