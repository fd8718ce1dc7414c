import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { callbackQueueOf, notifyForwarders } from '#internal/events/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { expectDocumented } from '#test/support/documents/contract.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

const scopesOf = { acme: '[events, "payloads:read"]', writer: '[events]' }
let backoffice: TestBackoffice
let api: TestApi
beforeAll(async () => {
  const manifests = Object.entries(scopesOf)
    .map(([name, scopes]) => dashboardTenantYaml(name, { scopes }))
    .join('')
  backoffice = await startTestBackoffice(manifests)
  api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
}, 30_000)
afterAll(async () => {
  await api.close()
  await backoffice.close()
})

const route = '/v1/subscriptions/{subscriptionName}'

/** Calls a route of the subscription `shop`, and compares the response with the contract. */
async function call(method: string, action = '', body?: object, as: keyof typeof scopesOf = 'acme') {
  const headers = { Authorization: `Bearer ${dashboardKey(as)}` }
  const answer = await api.call(method, `/v1/subscriptions/shop${action}`, body, headers)
  expectDocumented(method, `${route}${action}`, answer)
  return answer
}

const payload = '{"id":"p-1","amount":820982911946154508}'
async function store(count: number) {
  const tenantId = backoffice.tenantId('acme')
  const fields = { tenantId, payload, payloadBytes: payload.length }
  return acceptEvents(
    backoffice.pool,
    Array.from({ length: count }, () => receivedEvent(fields)),
  )
}

describe('pull over the API', () => {
  test('subscription pull: events have the same form as for callbacks; their lease can be acknowledged, released and extended', async () => {
    expect((await call('PUT', '', { types: ['order.*'], providers: ['generic'] })).json).toMatchObject({
      isNew: true,
      subscription: { name: 'shop', types: ['order.*'], providers: ['generic'], acknowledgedAt: null },
    })
    expect((await call('PUT', '', { types: ['order.*'], providers: ['generic'] })).json).toMatchObject({
      isNew: false,
    })
    expect((await call('POST', '/pull')).json).toEqual({ events: [], hasMore: false })
    const ids = await store(3)
    const first = await call('POST', '/pull', { limit: 2, leaseSeconds: 30 })
    const { events, ackToken, hasMore } = first.json as {
      events: { id: string; payload: object }[]
      ackToken: string
      hasMore: boolean
    }
    expect([events.map(({ id }) => id), hasMore]).toEqual([ids.toSorted().slice(0, 2), true])
    expect<object | undefined>(events[0]).toEqual({
      id: ids.toSorted()[0] ?? '',
      provider: 'generic',
      type: 'order.created',
      providerRawType: 'order.created',
      tenantId: backoffice.tenantId('acme'),
      occurredAt: expect.any(String),
      receivedAt: expect.any(String),
      headers: expect.any(Object),
      payload: expect.any(Object),
    })
    expect(first.text).toContain(payload)

    const held = await call('POST', '/pull')
    expect(held.json).toMatchObject({ events: [], hasMore: false, availableAt: expect.any(String) })
    expect((await call('POST', '/extend', { ackToken, leaseSeconds: 60 })).json).toEqual({ isNew: true })
    expect((await call('POST', '/ack', { ackToken })).json).toEqual({ isNew: true })
    const repeated = await call('POST', '/ack', { ackToken })
    expect([repeated.status, repeated.headers.get('idempotent-replayed')]).toEqual([200, 'true'])

    const last = (await call('POST', '/pull')).json as { events: { id: string }[]; ackToken: string }
    expect(last.events.map(({ id }) => id)).toEqual(ids.toSorted().slice(2))
    expect((await call('POST', '/nack', { ackToken: last.ackToken })).json).toEqual({ isNew: true })
    expect((await call('POST', '/ack', { ackToken: last.ackToken })).status).toBe(409)
    const again = (await call('POST', '/pull')).json as { events: { id: string }[]; ackToken: string }
    expect(again.events).toEqual(last.events)
    expect((await call('POST', '/ack', { ackToken: again.ackToken })).status).toBe(200)

    const { rows } = await backoffice.pool.query(
      `SELECT actor, detail->>'count' AS count FROM audit WHERE action = 'payloads.pulled' ORDER BY id`,
    )
    const actor = `key:${backoffice.tenantId('acme')}/default`
    expect(rows).toEqual(['2', '1', '1'].map((count) => ({ actor, count })))
  })

  test('subscription: can be moved, listed and deleted', async () => {
    const moved = await call('POST', '/seek', { from: '2026-01-01T00:00:00Z' })
    expect(moved.json).toMatchObject({ isLeased: false, availableAt: null })
    expect(((await call('POST', '/pull')).json['events'] as unknown[]).length).toBe(3)
    const headers = { Authorization: `Bearer ${dashboardKey('acme')}` }
    const list = await api.call('GET', '/v1/subscriptions', undefined, headers)
    expect(list.json).toMatchObject({ items: [{ name: 'shop', isLeased: true }] })
    expect((await call('DELETE')).json).toEqual({ existed: true })
    expect((await call('DELETE')).json).toEqual({ existed: false })
    expect((await call('POST', '/pull')).status).toBe(404)
  })

  test('subscription: a key without `payloads:read` can write a subscription, but cannot pull its events', async () => {
    expect((await call('PUT', '', {}, 'writer')).status).toBe(200)
    const pull = await call('POST', '/pull', {}, 'writer')
    expect([pull.status, pull.json['message']]).toEqual([
      403,
      'This call needs an API key with the scopes events and payloads:read: add them to spec.apiKeys[].scopes of the Tenant, or use a key that has them',
    ])
  })

  test.each([
    ['PUT', '', { types: ['Payment'] }, 'types'],
    ['PUT', '', { types: ['*'] }, 'types'],
    ['PUT', '', { providers: ['no body'] }, 'providers'],
    ['PUT', '', { from: '2026-02-30T00:00:00Z' }, 'from'],
    ['POST', '/pull', { limit: 101 }, 'limit'],
    ['POST', '/pull', { leaseSeconds: 0 }, 'leaseSeconds'],
    ['POST', '/pull', { waitSeconds: 21 }, 'waitSeconds'],
    ['POST', '/nack', { ackToken: 'x', delaySeconds: 3_601 }, 'delaySeconds'],
    ['POST', '/ack', {}, 'ackToken'],
  ])('subscription: %s%s with %j returns 400 and names the field', async (method, action, body, field) => {
    const answer = await call(method, action, body)
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringContaining(field)])
  })

  test('subscription: creating the 21st subscription of a tenant returns 409', async () => {
    const headers = { Authorization: `Bearer ${dashboardKey('writer')}` }
    const put = (name: string) => api.call('PUT', `/v1/subscriptions/${name}`, {}, headers)
    for (let at = 1; at < 20; at += 1) expect((await put(`s-${at}`)).status).toBe(200)
    const refused = await put('s-20')
    expect([refused.status, refused.json['message']]).toEqual([
      409,
      'A tenant can have 20 subscriptions: delete one first',
    ])
  })

  test('subscription pull: waiting pulls leave room for other calls of their tenant, and end when an event arrives', async () => {
    const names = Array.from({ length: 12 }, (_none, at) => `wait-${at}`)
    const headers = { Authorization: `Bearer ${dashboardKey('acme')}` }
    const callOf = (method: string, path: string, body?: object) =>
      api.call(method, `/v1/subscriptions${path}`, body, headers)
    for (const name of names) expect((await callOf('PUT', `/${name}`, {})).status).toBe(200)
    let ended = 0
    const pulls = []
    // Sends twelve calls, which is more than one tenant may have in flight.
    for (const name of names) {
      pulls.push(callOf('POST', `/${name}/pull`, { waitSeconds: 20 }).finally(() => (ended += 1)))
      expect((await callOf('GET', '')).status).toBe(200)
    }
    expect(ended).toBe(0)
    const ids = await store(1)
    await notifyForwarders(backoffice.redis, [callbackQueueOf(backoffice.tenantId('acme'))])
    const answers = await Promise.all(pulls)
    const given = answers.map(({ status, json }) => [status, (json['events'] as { id: string }[])[0]?.id])
    expect(given).toEqual(names.map(() => [200, ids[0]]))
    for (const name of names) await callOf('DELETE', `/${name}`)
  }, 40_000)
})
