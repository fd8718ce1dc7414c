import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { acceptEvents } from '#test/support/accepted-event.ts'
import { type CallOptions, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent } from '#test/support/backoffice-tenants.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/callback-receiver.ts'
import { receivedEvent } from '#test/support/received-event.ts'

let backoffice: TestBackoffice
let receiver: CallbackReceiver
beforeAll(async () => {
  receiver = startReceiver()
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme', { callbackUrl: receiver.url }))
}, 30_000)
afterAll(async () => {
  await backoffice.close()
  await receiver.stop()
})

const hourMs = 3_600_000
const soon = () => new Date(Date.now() + hourMs).toISOString()
const lately = () => new Date(Date.now() - hourMs).toISOString()
const mine = (path: string) => `/internal/v1/tenants/${backoffice.tenantId('acme')}/${path}`

async function done(method: string, path: string, options: CallOptions = {}) {
  const answer = await backoffice.call(method, path, options)
  expect([answer.status, answer.status === 200 ? '' : answer.text]).toEqual([200, ''])
  return answer
}

async function auditOf(action: string): Promise<readonly Record<string, unknown>[]> {
  const { rows } = await backoffice.pool.query<Record<string, unknown>>(
    'SELECT actor, tenant_id, detail FROM audit WHERE action = $1 ORDER BY id',
    [action],
  )
  return rows
}

async function value(text: string, values: unknown[] = []): Promise<unknown> {
  const { rows } = await backoffice.pool.query<[unknown]>({ text, values, rowMode: 'array' })
  return rows[0]?.[0]
}

interface Repeated {
  readonly method: string
  readonly path: () => string
  readonly options: () => CallOptions
  /** State after the write. */
  readonly effect: () => Promise<unknown>
  readonly expected: unknown
  readonly action: string
  readonly prepare?: () => Promise<void>
}

let failedId = ''
let simulation = { id: '', events: [{ id: '' }, { id: '' }] }

const writes: Readonly<Record<string, Repeated>> = {
  'an ingested event': {
    ...{ method: 'POST', path: () => '/internal/v1/events', action: 'events.appended' },
    options: () => ({
      body: `{"tenantId":"${backoffice.tenantId('acme')}","provider":"card","sourceEventId":"one","type":"payment.succeeded",
        "headers":{"Authorization":"Bearer x","X-Kept":"1"},"payload":{"amount": 820982911946154508, "__proto__": 1}}`,
    }),
    effect: () =>
      value(`SELECT json_agg(json_build_array(p.payload, e.headers, e.raw_type)) FROM events e
        JOIN event_payloads p ON p.event_id = e.id WHERE source_event_id = 'one'`),
    expected: [
      [
        '{"amount": 820982911946154508, "__proto__": 1}',
        '{"x-kept":"1","latchkey-hops":"1"}',
        'payment.succeeded',
      ],
    ],
  },
  'a replay of one event': {
    ...{ method: 'POST', action: 'events.replayed', options: () => ({ body: { round: 1 } }) },
    path: () => `/internal/v1/events/${failedId}/replays`,
    async prepare() {
      const [id] = await acceptEvents(backoffice.pool, [
        receivedEvent({ tenantId: backoffice.tenantId('acme') }),
      ])
      if (id === undefined) throw new Error('an event was stored without a notification')
      failedId = id
      await failEvent(backoffice, id)
    },
    effect: () => value('SELECT cycle AS round FROM events WHERE id = $1', [failedId]),
    expected: 2,
  },
  'a replay of many': {
    ...{ method: 'POST', path: () => '/internal/v1/replays', action: 'replays.started' },
    options: () => ({
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-01T00:00:00Z' },
      headers: { 'Idempotency-Key': 'many' },
    }),
    effect: () => value(`SELECT count(*) FROM replays WHERE idempotency_key = 'many'`),
    expected: 1,
  },
  'usage of another service': {
    ...{ method: 'PUT', path: () => mine('usage/batch-7'), action: 'usage.emitted' },
    options: () => ({ body: { kind: 'exports.rows', count: 12, at: lately().replace(/:\d\d\..*/, ':00Z') } }),
    effect: () => value(`SELECT sum(amount)::integer FROM usage_hourly WHERE meter = 'exports.rows'`),
    expected: 12,
  },
  'an override of a limit': {
    ...{ method: 'PUT', path: () => mine('limits/eventsPerMonth/override'), action: 'usage.override_set' },
    options: () => ({ body: { hard: 9, until: '2026-12-31T00:00:00Z', reason: 'a sale' } }),
    effect: () => value(`SELECT json_agg(json_build_array(hard, reason, set_by)) FROM limit_overrides`),
    expected: [[9, 'a sale', 'dev:admin']],
  },
  'ending an override': {
    ...{ method: 'DELETE', path: () => mine('limits/eventsPerMonth/override'), options: () => ({}) },
    action: 'usage.override_cleared',
    effect: () => value('SELECT count(*) FROM limit_overrides'),
    expected: 0,
  },
  'setting a value': {
    ...{ method: 'PUT', path: () => mine('settings/forwarding.paused') },
    action: 'settings.set',
    options: () => ({ body: { value: true, expectedVersion: 0 } }),
    effect: () => value(`SELECT json_agg(value) FROM settings WHERE name = 'forwarding.paused'`),
    expected: [true],
  },
  'clearing a setting': {
    ...{ method: 'DELETE', path: () => mine('settings/forwarding.paused'), options: () => ({}) },
    action: 'settings.cleared',
    effect: () => value(`SELECT count(*) FROM settings WHERE name = 'forwarding.paused'`),
    expected: 0,
  },
  'a simulation': {
    ...{ method: 'POST', path: () => mine('simulations'), action: 'simulations.started' },
    options: () => ({
      body: { amount: 4200, currency: 'EUR', stepSeconds: 600 },
      headers: { 'Idempotency-Key': 'drill' },
    }),
    effect: () => value('SELECT count(*) FROM simulations'),
    expected: 1,
  },
  'cancelling a simulation': {
    ...{ method: 'POST', options: () => ({}), action: 'simulations.cancelled' },
    async prepare() {
      const { items } = (await done('GET', '/internal/v1/simulations')).json as {
        items: (typeof simulation)[]
      }
      simulation = items[0] ?? simulation
    },
    path: () => `/internal/v1/simulations/${simulation.id}/cancel`,
    effect: () => value('SELECT json_agg(state) FROM simulations'),
    expected: ['cancelled'],
  },
  'resuming a callback': {
    ...{ method: 'POST', path: () => mine('callback/resume'), options: () => ({}) },
    action: 'callbacks.resumed',
    async prepare() {
      await backoffice.pool.query(`UPDATE tenant_queues SET suspended_at = now(), suspended_cause = 'gone'`)
    },
    effect: () => value('SELECT count(*) FROM tenant_queues WHERE suspended_at IS NOT NULL'),
    expected: 0,
  },
}

describe('idempotency', () => {
  test.each(Object.entries(writes))(
    'idempotency: %s takes effect once, with one audit entry, when the request is repeated',
    async (_name, write) => {
      await write.prepare?.()
      const { method, action } = write
      const [path, options] = [write.path(), write.options()]
      const before = (await auditOf(action)).length
      const first = await done(method, path, options)
      expect(first.headers.get('idempotent-replayed')).toBeNull()
      const repeats = await Promise.all([1, 2, 3].map(() => done(method, path, options)))
      for (const repeat of repeats) {
        const { isNew, isQueued } = repeat.json
        expect(isNew ?? isQueued).toBe(false)
      }
      expect(await write.effect()).toEqual(write.expected)
      const lines = (await auditOf(action)).slice(before)
      expect(lines).toHaveLength(1)
      expect(lines[0]).toMatchObject({ actor: 'dev:admin', tenant_id: backoffice.tenantId('acme') })
    },
  )

  test('idempotency: cancelling a replay twice has the effect of one cancellation', async () => {
    const start = {
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-01T00:00:00Z' },
      headers: { 'Idempotency-Key': 'to-cancel' },
    }
    const { job } = (await done('POST', '/internal/v1/replays', start)).json as { job: { id: string } }
    const path = `/internal/v1/replays/${job.id}/cancel`
    expect((await done('POST', path)).json['isNew']).toBe(true)
    const again = await done('POST', path)
    expect([again.json['isNew'], again.headers.get('idempotent-replayed')]).toEqual([false, 'true'])
    expect(await auditOf('replays.cancelled')).toHaveLength(1)
  })

  test('idempotency: advancing a simulation affects only the event that the request names', async () => {
    const options = {
      body: { amount: 1, currency: 'EUR', stepSeconds: 600 },
      headers: { 'Idempotency-Key': 'step' },
    }
    const started = (await done('POST', mine('simulations'), options)).json as {
      simulation: typeof simulation
    }
    const { id, events } = started.simulation
    const advance = (event: string | undefined) =>
      backoffice.call('POST', `/internal/v1/simulations/${id}/advance`, { body: { event } })
    expect((await advance(events[1]?.id)).status).toBe(409)
    expect((await advance(events[0]?.id)).json['isNew']).toBe(true)
    // As the simulator notes an event that it has sent.
    await backoffice.pool.query(
      'UPDATE simulations SET sent_at = ARRAY[now()], state = $2, started_at = now() WHERE id = $1',
      [id, 'running'],
    )
    const due = () => value('SELECT due_at FROM simulations WHERE id = $1', [id])
    const before = await due()
    expect((await advance(events[0]?.id)).json['isNew']).toBe(false)
    expect(await due()).toEqual(before)
    expect((await advance('nobodys')).status).toBe(400)
  })

  test('idempotency: reusing a key for a different request returns 409 and changes nothing', async () => {
    const at = lately()
    await done('PUT', mine('usage/e-9'), { body: { kind: 'a.b', count: 1, at } })
    expect(
      (await backoffice.call('PUT', mine('usage/e-9'), { body: { kind: 'a.b', count: 2, at } })).status,
    ).toBe(409)
    const keyed = (fields: object) => ({
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-02T00:00:00Z', ...fields },
      headers: { 'Idempotency-Key': 'to-cancel' },
    })
    expect((await backoffice.call('POST', '/internal/v1/replays', keyed({ type: 'a.b' }))).status).toBe(409)
    const setting = mine('settings/providers.card.paused')
    await done('PUT', setting, { body: { value: true, expectedVersion: 0 } })
    expect(
      (await backoffice.call('PUT', setting, { body: { value: false, expectedVersion: 0 } })).status,
    ).toBe(409)
    expect(await value(`SELECT value FROM settings WHERE name = 'providers.card.paused'`)).toBe(true)
  })

  test.each([
    ['POST', () => '/internal/v1/replays', { from: '2026-11-01T00:00:00Z' }],
    ['POST', () => mine('simulations'), { amount: 1, currency: 'EUR' }],
  ])('idempotency: %s %p without Idempotency-Key returns 400', async (method, path, body) => {
    const answer = await backoffice.call(method, path(), { body })
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringContaining('Idempotency-Key')])
  })
})

describe('raw payload', () => {
  test('raw payload: every read writes an audit entry', async () => {
    const [id] = await acceptEvents(backoffice.pool, [
      receivedEvent({ tenantId: backoffice.tenantId('acme') }),
    ])
    for (let times = 1; times <= 2; times += 1) {
      const answer = await done('GET', `/internal/v1/events/${id}/payload`)
      // To the last digit, which no parser keeps.
      expect(answer.text).toContain('"amount":820982911946154508')
      expect(await auditOf('payloads.read')).toHaveLength(times)
    }
    expect((await auditOf('payloads.read'))[0]).toMatchObject({ actor: 'dev:admin', detail: { event: id } })
  })
})

describe('test event', () => {
  test('test event: the callback receives a signed event, and its response is returned', async () => {
    receiver.answer(() => new Response('fine', { status: 202 }))
    const headers = { 'Idempotency-Key': 'try' }
    const answers = [
      await done('POST', mine('callback/test'), { headers }),
      await done('POST', mine('callback/test'), { headers }),
    ]
    const calls = receiver.calls.slice(-2)
    expect(calls.map(({ verified }) => verified)).toEqual([true, true])
    expect(calls[0]?.id).toBe(calls[1]?.id)
    expect(JSON.parse(calls[0]?.body ?? '')).toMatchObject({ type: 'latchkey.test', headers: {} })
    expect(answers[0]?.json).toMatchObject({
      id: calls[0]?.id,
      result: { kind: 'answered', status: 202, answer: 'fine', answerCut: false },
    })
    expect(await value(`SELECT count(*) FROM events WHERE type = 'latchkey.test'`)).toBe(0)
    expect(await auditOf('callbacks.tested')).toHaveLength(2)
  })

  test('test event: a 410 response does not suspend the callback', async () => {
    receiver.answer(() => new Response(null, { status: 410 }))
    await done('POST', mine('callback/test'))
    expect(await value('SELECT count(*) FROM tenant_queues WHERE suspended_at IS NOT NULL')).toBe(0)
  })

  test('test event: an unreachable callback is reported as a failure', async () => {
    const { url } = receiver
    await receiver.stop()
    const { result } = (await done('POST', mine('callback/test'))).json as { result: Record<string, unknown> }
    expect(result).toMatchObject({ kind: 'failed', cause: 'connect_failed', detail: expect.any(String) })
    receiver = startReceiver(undefined, Number(new URL(url).port))
  })
})

test.each([
  [256, 200],
  [257, 400],
])('event ingestion: a JSON payload with %d nested levels returns status %d', async (levels, status) => {
  const deep = `${'['.repeat(levels - 2)}${']'.repeat(levels - 2)}`
  const body = `{"tenantId":"${backoffice.tenantId('acme')}","provider":"card","sourceEventId":"deep-${levels}","type":"payment.succeeded","payload":{"deep":${deep}}}`
  const answer = await backoffice.call('POST', '/internal/v1/events', { body })
  expect(answer.status).toBe(status)
  if (status === 400) expect(answer.json['message']).toContain('must not be nested deeper than 256 levels')
})

test('limit override: an end time that is malformed or in the past returns 400', async () => {
  const path = mine('limits/locksPerMinute/override')
  for (const until of ['2020-01-01T00:00:00Z', '2026-02-31T00:00:00Z', 'tomorrow'])
    expect((await backoffice.call('PUT', path, { body: { hard: 1, until, reason: 'x' } })).status).toBe(400)
  await done('PUT', path, { body: { hard: null, until: soon(), reason: 'x' } })
  const { limits } = (await done('GET', mine('limits'))).json as { limits: Record<string, unknown>[] }
  expect(limits.find(({ limit }) => limit === 'locksPerMinute')).toMatchObject({
    hard: null,
    override: { hard: null },
  })
})
