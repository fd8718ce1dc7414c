import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { callbackQueueOf, notifyForwarders } from '#internal/events/index.ts'
import { openRedis, type RedisConnection } from '#internal/storage/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

let backoffice: TestBackoffice
let api: TestApi
let redis: RedisConnection
let name: string
const opened: AbortController[] = []

beforeAll(async () => {
  const manifests = dashboardTenantYaml('acme', { scopes: '[events, "payloads:read"]' })
  backoffice = await startTestBackoffice(manifests)
  api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
  redis = openRedis({ url: (await testStores()).redisUrl, onError: () => undefined })
}, 30_000)
afterAll(async () => {
  await redis.close()
  await api.close()
  await backoffice.close()
})
beforeEach(async () => {
  name = `s-${crypto.randomUUID().slice(0, 8)}`
  expect((await call('PUT')).status).toBe(200)
})
afterEach(() => {
  for (const each of opened.splice(0)) each.abort()
})

const headers = { Authorization: `Bearer ${dashboardKey('acme')}` }
const call = (method: string, action = '', body?: object) =>
  api.call(method, `/v1/subscriptions/${name}${action}`, method === 'GET' ? undefined : (body ?? {}), headers)

interface Received {
  readonly id: string
  readonly data: { readonly id: string; readonly payload: object }
}

interface Stream {
  readonly status: number
  readonly events: Received[]
  /** Whole text so far. */
  text(): string
  close(): void
  readonly ended: Promise<void>
}

/** Opens a stream and reads it in the background. */
async function open(lastEventId?: string): Promise<Stream> {
  const controller = new AbortController()
  opened.push(controller)
  const response = await fetch(`${api.url}/v1/subscriptions/${name}/stream`, {
    headers: { ...headers, ...(lastEventId !== undefined && { 'Last-Event-ID': lastEventId }) },
    signal: controller.signal,
  })
  const events: Received[] = []
  let all = ''
  let rest = ''
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const bytes of response.body ?? []) {
      const text = decoder.decode(bytes, { stream: true })
      all += text
      const parts = (rest + text).split('\n\n')
      rest = parts.pop() ?? ''
      for (const part of parts) {
        const id = /^id: (.*)$/m.exec(part)?.[1]
        const data = [...part.matchAll(/^data: (.*)$/gm)].map(([, line]) => line).join('\n')
        if (id !== undefined) events.push({ id, data: JSON.parse(data) as Received['data'] })
      }
    }
  }
  const ended = read().catch(() => undefined)
  return { status: response.status, events, text: () => all, close: () => controller.abort(), ended }
}

async function store(count: number, fields = {}) {
  const tenantId = backoffice.tenantId('acme')
  const ids = await acceptEvents(
    backoffice.pool,
    Array.from({ length: count }, () => receivedEvent({ tenantId, ...fields })),
  )
  return ids.toSorted()
}

const idsOf = ({ events }: Stream) => events.map(({ data }) => data.id)

describe('stream of events', () => {
  test('event stream: events are sent when they are stored, with the payload as received', async () => {
    const stream = await open()
    expect(stream.status).toBe(200)
    const payload = '{"id":"p-1",\n  "amount":820982911946154508}'
    const ids = await store(3, { payload, payloadBytes: payload.length })
    await notifyForwarders(redis, [callbackQueueOf(backoffice.tenantId('acme'))])
    await until('the events', () => stream.events.length === 3)
    expect(idsOf(stream)).toEqual(ids)
    expect(stream.text()).toContain('"amount":820982911946154508')
    const { rows } = await backoffice.pool.query(
      `SELECT sum((detail->>'count')::int)::int AS count FROM audit WHERE action = 'payloads.pulled' AND detail->>'subscription' = $1`,
      [name],
    )
    expect(rows).toEqual([{ count: 3 }])
  })

  test('event stream: an event whose notification was lost is still sent', async () => {
    const stream = await open()
    await Bun.sleep(1_200)
    const ids = await store(1)
    await until('the event', () => stream.events.length === 1)
    expect(idsOf(stream)).toEqual(ids)
  }, 20_000)

  test('event stream: with `Last-Event-ID` a new stream acknowledges events and continues after them; without it they are sent again', async () => {
    const ids = await store(5)
    const first = await open()
    await until('the events', () => first.events.length === 5)
    first.close()
    await until('the end of the lease', async () => {
      const { json } = await call('GET')
      return json['availableAt'] === null
    })
    const again = await open()
    await until('the events again', () => again.events.length === 5)
    // Reconnects before the server notices that the previous connection has ended.
    const third = await open(again.events[2]?.id)
    await until('the rest', () => third.events.length === 2)
    expect(idsOf(third)).toEqual(ids.slice(3))
    expect((await call('GET')).json['acknowledgedAt']).not.toBeNull()
  }, 30_000)

  test('event stream: an event id acknowledges this event and all earlier events, and an older id does not move the position back', async () => {
    const ids = await store(4)
    const stream = await open()
    await until('the events', () => stream.events.length === 4)
    const ack = async (at: number) => (await call('POST', '/ack', { ackToken: stream.events[at]?.id })).json
    expect(await ack(2)).toEqual({ isNew: true })
    expect(await ack(1)).toEqual({ isNew: false })
    stream.close()
    await until('the end of the lease', async () => (await call('GET')).json['availableAt'] === null)
    const next = await open()
    await until('the last event', () => next.events.length === 1)
    expect(idsOf(next)).toEqual(ids.slice(3))
    expect((await call('POST', '/ack', { ackToken: stream.events[3]?.id })).status).toBe(409)
  }, 30_000)

  test('event stream: while a stream is open, a second stream gets 409 and a pull gets no events', async () => {
    await store(1)
    const stream = await open()
    await until('the event', () => stream.events.length === 1)
    expect((await open()).status).toBe(409)
    expect((await call('POST', '/pull')).json).toMatchObject({ events: [], availableAt: expect.any(String) })
  })

  test('event stream: opening the stream of an unknown subscription returns 404', async () => {
    await call('DELETE')
    expect((await open()).status).toBe(404)
  })

  test('event stream: a stream ends soon after its subscription was moved', async () => {
    const stream = await open()
    expect((await call('POST', '/seek')).status).toBe(200)
    await stream.ended
    expect(stream.text()).toStartWith('retry: 2000\n\n')
  }, 60_000)
})
