import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { expectDocumented } from '#test/support/documents/contract.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { until } from '#test/support/until.ts'

const apiKey = 'lk_pulls_0123456789abcdef0123456789abcdef'
const scopes = 'scopes: [webhooks, simulations, events, "payloads:read"]'
const called = webhookTenantYaml('pulls', apiKey).replace(/scopes: \[.*?\]/, scopes)
const pullOnly = called.replace(/ {2}callback: .*\n/, '')

let backoffice: TestBackoffice
let api: TestApi
beforeAll(async () => {
  backoffice = await startTestBackoffice(pullOnly)
  api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests: pullOnly })
}, 30_000)
afterAll(async () => {
  await api.close()
  await backoffice.close()
})

const headers = { Authorization: `Bearer ${apiKey}` }
const call = (method: string, path: string, body?: object) =>
  api.call(method, `/v1/${path}`, method === 'GET' ? undefined : (body ?? {}), headers)

interface Received {
  readonly id: string
  readonly state: string
}

/** Sends an event like a provider, and returns its id. */
async function receive(sourceEventId: string = crypto.randomUUID()): Promise<string> {
  const { body, headers: signed } = signGeneric(genericBody(sourceEventId))
  const answer = await api.call('POST', '/v1/t/pulls/webhooks/generic', body, signed)
  expect(answer.status).toBe(200)
  const { json } = await call('GET', `events?sourceEventId=${sourceEventId}`)
  return (json['items'] as Received[])[0]?.id ?? ''
}

const stateOf = async (id: string) => ((await call('GET', `events/${id}`)).json['event'] as Received).state
const explanationOf = async (id: string) => (await call('GET', `events/${id}/explain`)).json

/** Waits for events, since transactions of other databases in the same cluster delay the feed. */
async function pull(name: string, limit = 100, waitSeconds = 15) {
  const { json } = await call('POST', `subscriptions/${name}/pull`, { limit, waitSeconds })
  return json as unknown as { events: Received[]; ackToken: string }
}

const queued = async () => (await backoffice.pool.query('SELECT FROM deliveries_due')).rowCount

describe('a tenant without a callback', () => {
  test('pull-only tenant: a received event waits, is pulled, and is processed when it is acknowledged', async () => {
    const early = await receive()
    expect(await explanationOf(early)).toMatchObject({
      position: 'awaiting_acknowledgement',
      sentence: expect.stringContaining('and the tenant has none'),
      todo: expect.stringContaining('PUT /v1/subscriptions/{name}'),
    })
    await call('PUT', 'subscriptions/shop', { from: '2026-01-01T00:00:00Z' })
    const ids = [early, await receive(), await receive()]
    expect(await explanationOf(early)).toMatchObject({
      sentence: expect.stringContaining('by a subscription: shop.'),
      todo: expect.stringContaining('POST /v1/subscriptions/shop/pull'),
    })
    const { events, ackToken } = await pull('shop', 2)
    expect(events.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    expect(await Promise.all(ids.map(stateOf))).toEqual(['accepted', 'accepted', 'accepted'])
    expect((await call('POST', 'subscriptions/shop/ack', { ackToken })).json).toEqual({ isNew: true })
    expect(await Promise.all(ids.map(stateOf))).toEqual(['processed', 'processed', 'accepted'])
    expect(await explanationOf(early)).toMatchObject({
      position: 'acknowledged',
      sentence: 'A subscription acknowledged the event.',
    })
    const listed = (await call('GET', 'events?state=accepted')).json['items'] as Received[]
    expect(listed.map(({ id }) => id)).toEqual(ids.slice(2))
    expect(await queued()).toBe(0)
  })

  test('pull-only tenant: acknowledging an event in a subscription that is deleted when idle does not mark the event as processed', async () => {
    const id = await receive()
    await call('PUT', 'subscriptions/observer', { from: '2026-01-01T00:00:00Z', deleteAfterIdleDays: 1 })
    const { events, ackToken } = await pull('observer')
    expect(events.map((event) => event.id)).toContain(id)
    expect((await call('POST', 'subscriptions/observer/ack', { ackToken })).json).toEqual({ isNew: true })
    expect(await stateOf(id)).toBe('accepted')
    expect((await explanationOf(id))['sentence']).not.toContain('observer')
    await call('DELETE', 'subscriptions/observer')
  })

  test('pull-only tenant: if all subscriptions have moved past an event, the explanation of the event suggests a seek', async () => {
    const id = await receive()
    await call('POST', 'subscriptions/shop/seek', { from: new Date(Date.now() + 60_000).toISOString() })
    expect(await explanationOf(id)).toMatchObject({
      sentence: expect.stringContaining('the 1 subscription of the tenant'),
      todo: expect.stringContaining('POST /v1/subscriptions/{name}/seek'),
    })
  })

  test('pull-only tenant: a repeated event is reported as a duplicate, whether the original was acknowledged or not', async () => {
    const source = crypto.randomUUID()
    const id = await receive(source)
    expect(await receive(source)).toBe(id)
    await call('POST', 'subscriptions/shop/seek', { from: '2026-01-01T00:00:00Z' })
    const { ackToken } = await pull('shop')
    await call('POST', 'subscriptions/shop/ack', { ackToken })
    expect(await receive(source)).toBe(id)
    expect(await stateOf(id)).toBe('processed')
    expect((await pull('shop', 1, 0)).events).toEqual([])
  })

  test('pull-only tenant: acknowledging an event of a stream marks this event and all earlier events as processed', async () => {
    await call('PUT', 'subscriptions/streamed')
    const ids = [await receive(), await receive(), await receive()]
    const controller = new AbortController()
    const response = await fetch(`${api.url}/v1/subscriptions/streamed/stream`, {
      headers,
      signal: controller.signal,
    })
    const streamIds: string[] = []
    const decoder = new TextDecoder()
    let text = ''
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true })
      streamIds.splice(0, streamIds.length, ...[...text.matchAll(/^id: (.*)$/gm)].map(([, id = '']) => id))
      if (ids.every((id) => streamIds.some((each) => each.endsWith(id)))) break
    }
    const tokenOf = (id: string | undefined) => streamIds.find((each) => each.endsWith(`.${id}`)) ?? ''
    await call('POST', 'subscriptions/streamed/ack', { ackToken: tokenOf(ids[1]) })
    expect(await Promise.all(ids.map(stateOf))).toEqual(['processed', 'processed', 'accepted'])
    controller.abort()
    const again = await fetch(`${api.url}/v1/subscriptions/streamed/stream`, {
      headers: { ...headers, 'Last-Event-ID': tokenOf(ids[2]) },
    })
    expect(again.status).toBe(200)
    expect(await stateOf(ids[2] ?? '')).toBe('processed')
    await again.body?.cancel()
  })

  test.each([
    ['POST', 'events/{id}/replay', {}],
    ['POST', 'events/{id}/retry', {}],
    ['POST', 'replays', { from: '2026-01-01T00:00:00Z', ratePerSecond: 10 }],
  ])('pull-only tenant: %s %s returns 409 and queues nothing', async (method, path, body) => {
    const id = await receive()
    const answer = await api.call(method, `/v1/${path.replace('{id}', id)}`, body, {
      ...headers,
      'Idempotency-Key': path,
    })
    expectDocumented(method, `/v1/${path.replace('{id}', '{eventId}')}`, answer)
    expect([answer.status, answer.json['message']]).toEqual([
      409,
      'The tenant has no callback, so nothing can be delivered: pull its events with a subscription, or set spec.callback',
    ])
    expect([await stateOf(id), await queued()]).toEqual(['accepted', 0])
  })

  test('pull-only tenant: sending a test event returns 409', async () => {
    const path = `/internal/v1/tenants/${backoffice.tenantId('pulls')}/callback/test`
    const answer = await backoffice.call('POST', path, { body: {} })
    expect([answer.status, answer.json['message']]).toEqual([409, expect.stringContaining('has no callback')])
  })

  test('pull-only tenant: a simulated event is pulled like an event of a provider', async () => {
    await call('PUT', 'subscriptions/simulated')
    const simulated = await call('POST', 'simulate/event', { provider: 'card', type: 'payment.succeeded' })
    const { id } = simulated.json['event'] as Received
    const { events, ackToken } = await pull('simulated')
    expect(events.map((each) => each.id)).toContain(id)
    await call('POST', 'subscriptions/simulated/ack', { ackToken })
    expect(await stateOf(id)).toBe('processed')
  })

  test('pull-only tenant: the tenant is ready, and its detail has no callback', async () => {
    const { json } = await backoffice.call('GET', `/internal/v1/tenants/${backoffice.tenantId('pulls')}`)
    expect(json['isReady']).toBe(true)
    expect(json['spec']).not.toHaveProperty('callback')
    expect(json).not.toHaveProperty('suspendedCallback')
  })
})

test('pull-only tenant that gets a callback: earlier events still wait for a pull, a replay delivers them, and new events are queued', async () => {
  await call('PUT', 'subscriptions/before')
  const before = await receive()
  await api.applyManifests(called)
  await until('the callback', () => api.directory.findTenantBySlug('pulls')?.callback)
  const after = await receive()
  const due = async () => {
    const { rows } = await backoffice.pool.query<{ id: string }>('SELECT event_id AS id FROM deliveries_due')
    return rows.map(({ id }) => id)
  }
  expect(await due()).toEqual([after])
  expect(await explanationOf(before)).toMatchObject({
    position: 'awaiting_acknowledgement',
    todo: expect.stringContaining('POST …/replay'),
  })
  const { events, ackToken } = await pull('before')
  expect(events.map(({ id }) => id)).toEqual([before, after])
  await call('POST', 'subscriptions/before/ack', { ackToken })
  expect(await Promise.all([before, after].map(stateOf))).toEqual(['processed', 'accepted'])
  expect((await call('POST', `events/${before}/replay`)).status).toBe(202)
  expect((await due()).toSorted()).toEqual([before, after].toSorted())
})
