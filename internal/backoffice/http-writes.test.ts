import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { withTx } from '#internal/storage/index.ts'
import { commitUsage } from '#internal/usage/emissions.ts'
import { type CallOptions, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml, failEvent } from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { until } from '#test/support/until.ts'

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
const now = () => new Date().toISOString()
const lately = () => new Date(Date.now() - hourMs).toISOString()
const mine = (path: string) => `/internal/v1/tenants/${backoffice.tenantId('acme')}/${path}`

async function done(method: string, path: string, options: CallOptions = {}) {
  const answer = await backoffice.call(method, path, options)
  expect([path, answer.status, answer.status < 300 ? '' : answer.text]).toEqual([
    path,
    expect.any(Number),
    '',
  ])
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

const commitOf = (usage: object) => ({ tenantId: backoffice.tenantId('acme'), commit: true, ...usage })

async function limitOf(name: string): Promise<Record<string, unknown> | undefined> {
  const { limits } = (await done('GET', mine('limits'))).json as { limits: Record<string, unknown>[] }
  return limits.find(({ limit }) => limit === name)
}

/** Locks of this month. Other tests on the same Redis use a tenant of the same id. */
const locksUsed = async () => Number((await limitOf('locksPerMonth'))?.['used'])
let locksBefore = 0
const waitsForMonth = `SELECT count(*) > 0 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
  WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`

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
let waitingId = ''
let simulation = { simulationId: '', events: [{ id: '' }, { id: '' }] }

const writes: Readonly<Record<string, Repeated>> = {
  'an ingested event': {
    method: 'POST',
    path: () => '/internal/v1/events',
    action: 'events.ingested',
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
        '{"x-kept":"1","latchkey-hops":"1","latchkey-origin":"service"}',
        'payment.succeeded',
      ],
    ],
  },
  'a replay of one event': {
    method: 'POST',
    action: 'events.replayed',
    options: () => ({ body: { cycle: 1 } }),
    path: () => `/internal/v1/events/${failedId}/replays`,
    async prepare() {
      const [id] = await acceptEvents(backoffice.pool, [
        receivedEvent({ tenantId: backoffice.tenantId('acme') }),
      ])
      if (id === undefined) throw new Error('an event was stored without a notification')
      failedId = id
      await failEvent(backoffice, id)
    },
    effect: () => value('SELECT cycle FROM events WHERE id = $1', [failedId]),
    expected: 2,
  },
  'a retry of one event': {
    method: 'POST',
    action: 'events.retried',
    options: () => ({}),
    path: () => `/internal/v1/events/${waitingId}/retry`,
    async prepare() {
      const [id] = await acceptEvents(backoffice.pool, [
        receivedEvent({ tenantId: backoffice.tenantId('acme') }),
      ])
      if (id === undefined) throw new Error('an event was stored without a notification')
      waitingId = id
      await backoffice.pool.query(
        `UPDATE deliveries_due SET due_at = now() + interval '1 hour' WHERE event_id = $1`,
        [id],
      )
    },
    effect: () => value('SELECT due_at <= now() FROM deliveries_due WHERE event_id = $1', [waitingId]),
    expected: true,
  },
  'a replay of many': {
    method: 'POST',
    path: () => '/internal/v1/replays',
    action: 'replays.started',
    options: () => ({
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-01T00:00:00Z' },
      headers: { 'Idempotency-Key': 'many' },
    }),
    effect: () => value(`SELECT count(*) FROM replays WHERE idempotency_key = 'many'`),
    expected: 1,
  },
  'usage of another service': {
    method: 'PUT',
    path: () => mine('usage/batch-7'),
    action: 'usage.emitted',
    options: () => ({
      body: { kind: 'exports.rows', amount: 12, occurredAt: lately().replace(/:\d\d\..*/, ':00Z') },
    }),
    effect: () => value(`SELECT sum(amount)::integer FROM usage_hourly WHERE meter = 'exports.rows'`),
    expected: 12,
  },
  'committed usage of an emitted kind': {
    method: 'POST',
    path: () => '/internal/v1/guardrails/check',
    action: 'usage.committed',
    options: () => ({ body: commitOf({ kind: 'exports.files', id: 'batch-8', amount: 12 }) }),
    effect: () => value(`SELECT sum(amount)::integer FROM usage_hourly WHERE meter = 'exports.files'`),
    expected: 12,
  },
  'committed usage of locks': {
    method: 'POST',
    path: () => '/internal/v1/guardrails/check',
    action: 'usage.committed',
    options: () => ({ body: commitOf({ kind: 'locks', id: 'batch-8', amount: 3 }) }),
    prepare: async () => void (locksBefore = await locksUsed()),
    effect: async () => (await locksUsed()) - locksBefore,
    expected: 3,
  },
  'an override of a limit': {
    method: 'PUT',
    path: () => mine('limits/eventsPerMonth/override'),
    action: 'usage.override_set',
    options: () => ({
      body: { hard: 9, expiresAt: '2026-12-31T00:00:00Z', reason: 'a sale \u{1F469}\u200D\u{1F4BB}' },
    }),
    effect: () => value(`SELECT json_agg(json_build_array(hard, reason, set_by)) FROM limit_overrides`),
    expected: [[9, 'a sale \u{1F469}\u200D\u{1F4BB}', 'operator:dev']],
  },
  'ending an override': {
    method: 'DELETE',
    path: () => mine('limits/eventsPerMonth/override'),
    options: () => ({}),
    action: 'usage.override_cleared',
    effect: () => value('SELECT count(*) FROM limit_overrides'),
    expected: 0,
  },
  'setting a value': {
    method: 'PUT',
    path: () => mine('settings/forwarding.paused'),
    action: 'settings.set',
    options: () => ({ body: { value: true, expectedVersion: 0 } }),
    effect: () => value(`SELECT json_agg(value) FROM settings WHERE name = 'forwarding.paused'`),
    expected: [true],
  },
  'clearing a setting': {
    method: 'DELETE',
    path: () => mine('settings/forwarding.paused'),
    options: () => ({}),
    action: 'settings.cleared',
    effect: () => value(`SELECT count(*) FROM settings WHERE name = 'forwarding.paused'`),
    expected: 0,
  },
  'a simulation': {
    method: 'POST',
    path: () => mine('simulations'),
    action: 'simulations.started',
    options: () => ({
      body: { amount: 4200, currency: 'EUR', stepSeconds: 600 },
      headers: { 'Idempotency-Key': 'drill' },
    }),
    effect: () => value('SELECT count(*) FROM simulations'),
    expected: 1,
  },
  'cancelling a simulation': {
    method: 'POST',
    options: () => ({}),
    action: 'simulations.cancelled',
    async prepare() {
      const { items } = (await done('GET', '/internal/v1/simulations')).json as {
        items: (typeof simulation)[]
      }
      simulation = items[0] ?? simulation
    },
    path: () => `/internal/v1/simulations/${simulation.simulationId}/cancel`,
    effect: () => value('SELECT json_agg(state) FROM simulations'),
    expected: ['cancelled'],
  },
  'resuming a callback': {
    method: 'POST',
    path: () => mine('callback/resume'),
    options: () => ({}),
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
        const { isNew, existed } = repeat.json
        expect(isNew ?? existed).toBe(false)
        expect(repeat.headers.get('idempotent-replayed')).toBe('true')
      }
      expect(await write.effect()).toEqual(write.expected)
      const lines = (await auditOf(action)).slice(before)
      expect(lines).toHaveLength(1)
      expect(lines[0]).toMatchObject({ actor: 'operator:dev', tenant_id: backoffice.tenantId('acme') })
    },
  )

  test('idempotency: cancelling a replay twice has the effect of one cancellation', async () => {
    const start = {
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-01T00:00:00Z' },
      headers: { 'Idempotency-Key': 'to-cancel' },
    }
    const { replay } = (await done('POST', '/internal/v1/replays', start)).json as {
      replay: { id: string }
    }
    const path = `/internal/v1/replays/${replay.id}/cancel`
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
    const { simulationId: id, events } = started.simulation
    const advance = (sourceEventId: string | undefined) =>
      backoffice.call('POST', `/internal/v1/simulations/${id}/advance`, { body: { sourceEventId } })
    expect((await advance(events[1]?.id)).status).toBe(409)
    expect((await advance(events[0]?.id)).json['isNew']).toBe(true)
    // Changes the row as the simulator does after it has sent an event.
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

  test('idempotency: reusing a key or an id for a different request returns 422 idempotency_key_reused and changes nothing', async () => {
    const at = lately()
    const reused = async (method: string, path: string, options: CallOptions) => {
      const { status, json } = await backoffice.call(method, path, options)
      expect([path, status, json['code']]).toEqual([path, 422, 'idempotency_key_reused'])
    }
    await done('PUT', mine('usage/e-9'), { body: { kind: 'a.b', amount: 1, occurredAt: at } })
    await reused('PUT', mine('usage/e-9'), { body: { kind: 'a.b', amount: 2, occurredAt: at } })
    const keyed = (fields: object) => ({
      body: { tenantId: backoffice.tenantId('acme'), from: '2026-11-02T00:00:00Z', ...fields },
      headers: { 'Idempotency-Key': 'to-cancel' },
    })
    await reused('POST', '/internal/v1/replays', keyed({ type: 'a.b' }))
    await reused('POST', mine('simulations'), {
      body: { amount: 2, currency: 'EUR', stepSeconds: 600 },
      headers: { 'Idempotency-Key': 'step' },
    })
  })

  test('idempotency: writing a setting with an expected version that is not the stored one returns 409 and changes nothing', async () => {
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
      // The response keeps all digits of the number, which a JSON parser would round.
      expect(answer.text).toContain('"amount":820982911946154508')
      expect(await auditOf('payloads.read')).toHaveLength(times)
    }
    expect((await auditOf('payloads.read'))[0]).toMatchObject({
      actor: 'operator:dev',
      detail: { eventId: id },
    })
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
    const id = calls[0]?.id ?? ''
    expect(calls[1]?.body).toBe(calls[0]?.body ?? '')
    expect(JSON.parse(calls[0]?.body ?? '')).toMatchObject({
      id,
      tenantId: backoffice.tenantId('acme'),
      provider: 'generic',
      type: 'latchkey.test',
      headers: { 'latchkey-hops': '1', 'latchkey-origin': 'test' },
    })
    expect(answers[0]?.json).toMatchObject({
      id: calls[0]?.id,
      result: { kind: 'answered', status: 202, answer: 'fine', isAnswerCut: false },
    })
    const stored = (await done('GET', `/internal/v1/events/${id}`)).json
    expect(stored).toMatchObject({
      event: { id, state: 'processed', origin: { kind: 'test', actor: 'operator:dev' } },
      attempts: [1, 2].map((attempt) => ({ attempt, outcome: 'delivered', status: 202, answer: 'fine' })),
    })
    expect(stored).not.toHaveProperty('delivery')
    const listed = (await done('GET', '/internal/v1/events?origin=test')).json as { items: unknown[] }
    expect(listed.items).toMatchObject([{ id }])
    expect(await value('SELECT count(*) FROM deliveries_due WHERE event_id = $1', [id])).toBe(0)
    expect(await auditOf('callbacks.tested')).toHaveLength(2)
  })

  test('test event: a 410 response does not suspend the callback', async () => {
    receiver.answer(() => new Response(null, { status: 410 }))
    const { id } = (await done('POST', mine('callback/test'))).json
    expect(await value('SELECT count(*) FROM tenant_queues WHERE suspended_at IS NOT NULL')).toBe(0)
    expect((await done('GET', `/internal/v1/events/${id}`)).json).toMatchObject({
      event: { state: 'delivery_failed' },
      attempts: [{ outcome: 'refused', status: 410 }],
    })
    expect(await value('SELECT origin FROM failed_deliveries WHERE id = $1', [id])).toBe('test')
  })

  test('test event: the state of the event is the result of the last attempt', async () => {
    const headers = { 'Idempotency-Key': 'twice' }
    const states: unknown[] = []
    for (const status of [500, 204, 503]) {
      receiver.answer(() => new Response(null, { status }))
      const { id } = (await done('POST', mine('callback/test'), { headers })).json
      const { event } = (await done('GET', `/internal/v1/events/${id}`)).json as { event: { state: unknown } }
      states.push([event.state, await value('SELECT count(*) FROM failed_deliveries WHERE id = $1', [id])])
    }
    expect(states).toEqual([
      ['delivery_failed', 1],
      ['processed', 0],
      ['delivery_failed', 1],
    ])
  })

  test('test event: concurrent requests with one key send one event, each as an attempt of its own', async () => {
    receiver.answer(() => new Response(null, { status: 204 }))
    const headers = { 'Idempotency-Key': 'at once' }
    const send = () => done('POST', mine('callback/test'), { headers })
    const ids = new Set((await Promise.all(Array.from({ length: 8 }, send))).map(({ json }) => json['id']))
    const [id] = ids
    expect(ids.size).toBe(1)
    expect(
      await value('SELECT array_agg(attempt::text ORDER BY attempt) FROM attempts WHERE event_id = $1', [id]),
    ).toEqual(['1', '2', '3', '4', '5', '6', '7', '8'])
  })

  test('test event: neither a replay of this event nor a replay by filter sends it', async () => {
    receiver.answer(() => new Response(null, { status: 500 }))
    const { id } = (await done('POST', mine('callback/test'))).json
    const alone = await backoffice.call('POST', `/internal/v1/events/${id}/replays`, { body: {} })
    expect([alone.status, alone.text]).toEqual([409, expect.stringContaining('send another test event')])
    const filter = { tenantId: backoffice.tenantId('acme'), from: '2020-01-01T00:00:00Z', ids: [id] }
    const preview = (await done('POST', '/internal/v1/replay-previews', { body: filter })).json
    expect(preview).toMatchObject({ total: { count: 0 }, examples: [] })
    const asked = { ...filter, origin: 'test' }
    expect((await backoffice.call('POST', '/internal/v1/replay-previews', { body: asked })).status).toBe(400)
  })

  test('test event: an unreachable callback is reported as a failure', async () => {
    const { url } = receiver
    await receiver.stop()
    const { result } = (await done('POST', mine('callback/test'))).json as { result: Record<string, unknown> }
    expect(result).toMatchObject({ kind: 'failed', cause: 'connect_failed', message: expect.any(String) })
    receiver = startReceiver({ port: Number(new URL(url).port) })
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

test('limit override: an end time that is malformed or in the past returns 400 and names the field', async () => {
  const path = mine('limits/locksPerMinute/override')
  for (const until of ['2020-01-01T00:00:00Z', '2026-02-31T00:00:00Z', 'tomorrow']) {
    const answer = await backoffice.call('PUT', path, { body: { hard: 1, expiresAt: until, reason: 'x' } })
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringContaining('"expiresAt" ')])
  }
  await done('PUT', path, { body: { hard: null, expiresAt: soon(), reason: 'x' } })
  expect(await limitOf('locksPerMinute')).toMatchObject({
    hard: null,
    state: 'overridden',
    override: { hard: null },
  })
})

test.each([
  ['eventPerMonth', 'which seems to misspell eventsPerMonth', 400],
  ['locketsPerMonth', 'which no own limit resembles', 200],
])('limit override: a request with %s (%s) returns %d', async (limit, _which, status) => {
  const body = { hard: 1, expiresAt: soon(), reason: 'x' }
  const answer = await backoffice.call('PUT', mine(`limits/${limit}/override`), { body })
  expect(answer.status).toBe(status)
  if (status === 400) expect(answer.json['message']).toContain('did you mean eventsPerMonth?')
})

describe('guardrails', () => {
  const path = '/internal/v1/guardrails/check'
  const ask = (body: object) =>
    backoffice.call('POST', path, { body: { tenantId: backoffice.tenantId('acme'), ...body } })

  test('guardrails: an override on an emitted kind denies usage and is listed with its state, and a denial responds 200', async () => {
    const name = 'exports.pagesPerMonth'
    const override = { hard: 3, expiresAt: soon(), reason: 'abuse' }
    await done('PUT', mine(`limits/${name}/override`), { body: override })
    const commit = { kind: 'exports.pages', amount: 2, commit: true }
    const first = await ask({ ...commit, id: 'a' })
    expect([first.status, first.json]).toMatchObject([
      200,
      {
        decision: 'allow',
        reason: 'within_limits',
        limit: null,
        kind: 'exports.pages',
        amount: 2,
        isCommitted: true,
        isNew: true,
        limits: [
          {
            limit: name,
            used: 2,
            soft: null,
            hard: 3,
            state: 'overridden',
            override: { updatedBy: 'operator:dev' },
          },
        ],
      },
    ])
    const second = await ask({ ...commit, id: 'b' })
    expect([second.status, second.json]).toMatchObject([
      200,
      { decision: 'deny', reason: 'hard_limit', limit: name, isCommitted: false },
    ])
    expect(second.json['isNew']).toBeUndefined()
    await done('PUT', mine('usage/c'), { body: { kind: 'exports.pages', amount: 9, occurredAt: now() } })
    expect(await limitOf(name)).toMatchObject({ used: 11, hard: 3, state: 'hard' })
    expect((await done('DELETE', mine(`limits/${name}/override`))).json).toEqual({ existed: true })
    expect(await limitOf(name)).toBeUndefined()
  })

  test.each(['sent.faxes', 'locks'])(
    'guardrails: 100 concurrent calls that commit %s with 50 left get 50 times `allow` and 50 times `deny`',
    async (kind) => {
      const name = `${kind}PerMonth`
      const used = Number((await limitOf(name))?.['used'] ?? 0)
      const override = { hard: used + 50, expiresAt: soon(), reason: 'a test' }
      await done('PUT', mine(`limits/${name}/override`), { body: override })
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_none, nth) => ask({ kind, commit: true, id: `fax-${nth}` })),
      )
      const decisions = answers.map(({ status, json }) => [status, json['decision']].join(' '))
      expect(decisions.toSorted()).toEqual([...Array(50).fill('200 allow'), ...Array(50).fill('200 deny')])
      expect(await limitOf(name)).toMatchObject({ used: used + 50, state: 'hard' })
      await done('DELETE', mine(`limits/${name}/override`))
    },
  )

  test('guardrails: when calls exceed a soft limit of an emitted kind, only the first one is logged and counted as a crossing', async () => {
    await done('PUT', '/internal/v1/settings/limits.sent.mailsPerMonth.soft', { body: { value: 3 } })
    await until('the setting to be in force', async () =>
      (await limitOf('sent.mailsPerMonth')) === undefined ? undefined : true,
    )
    await done('PUT', mine('usage/mail-1'), { body: { kind: 'sent.mails', amount: 2, occurredAt: now() } })
    for (const id of ['mail-2', 'mail-3']) {
      const { json } = await ask({ kind: 'sent.mails', commit: true, id })
      expect(json).toMatchObject({ decision: 'warn', reason: 'soft_limit', limits: [{ state: 'soft' }] })
    }
    const lines = backoffice.logs().split('\n')
    expect(lines.filter((line) => line.includes('crossed a soft limit'))).toHaveLength(1)
    const counted = 'latchkey_usage_soft_crossings_total{limit="emitted"} 1'
    expect(await backoffice.metrics()).toContain(counted)
  })

  test.each<[string, (nth: number) => Promise<{ readonly status: number }>]>([
    ['commits', (nth) => ask({ kind: 'held.rows', commit: true, id: `held-${nth}` })],
    [
      'emissions',
      (nth) =>
        backoffice.call('PUT', mine(`usage/held-too-${nth}`), {
          body: { kind: 'held.rows', amount: 1, occurredAt: now() },
        }),
    ],
  ])(
    'usage: while another process counts the same kind, waiting %s leave connections for other writes',
    async (calls, count) => {
      const settled: number[] = []
      let waiting: Promise<number>[] = []
      await withTx(backoffice.pool, async (client) => {
        const usage = { tenantId: backoffice.tenantId('acme'), kind: 'held.rows', id: calls, amount: 1 }
        await commitUsage(client, usage, {
          bounds: { soft: null, hard: null },
          nowMs: Date.now(),
          by: 'x',
          isSuspended: false,
        })
        waiting = Array.from({ length: 8 }, async (_none, nth) => {
          const { status } = await count(nth)
          return settled.push(status) && status
        })
        const override = { hard: 3, expiresAt: soon(), reason: 'a test' }
        await until('a call to wait for the other process', () =>
          value(waitsForMonth).then((waits) => waits || undefined),
        )
        await done('PUT', mine('limits/eventsPerMinute/override'), { body: override })
        await done('DELETE', mine('limits/eventsPerMinute/override'))
        expect(settled).toEqual([])
      })
      expect(await Promise.all(waiting)).toEqual(Array(8).fill(200))
    },
  )

  test('guardrails: some of 204 waiting commits of a tenant return 503 `overloaded` and count nothing', async () => {
    const override = { hard: 1_000, expiresAt: soon(), reason: 'a test' }
    await done('PUT', mine('limits/queued.rowsPerMonth/override'), { body: override })
    let waiting: ReturnType<typeof ask>[] = []
    await withTx(backoffice.pool, async (client) => {
      const usage = { tenantId: backoffice.tenantId('acme'), kind: 'queued.rows', id: 'queue', amount: 1 }
      await commitUsage(client, usage, {
        bounds: { soft: null, hard: null },
        nowMs: Date.now(),
        by: 'x',
        isSuspended: false,
      })
      waiting = Array.from({ length: 204 }, (_none, nth) =>
        ask({ kind: 'queued.rows', commit: true, id: `queued-${nth}` }),
      )
      const refused = await Promise.race(waiting)
      expect([refused.status, refused.json['code']]).toEqual([503, 'overloaded'])
      expect(refused.headers.get('retry-after')).toBe('1')
    })
    const statuses = (await Promise.all(waiting)).map(({ status }) => status)
    const counted = statuses.filter((status) => status === 200).length
    expect(counted).toBeWithin(1, 201)
    expect(statuses.filter((status) => status === 503)).toHaveLength(204 - counted)
    expect(await limitOf('queued.rowsPerMonth')).toMatchObject({ used: counted + 1 })
  }, 30_000)

  test('guardrails: a commit with the id of different usage returns 422', async () => {
    await done('PUT', mine('usage/taken'), { body: { kind: 'a.b', amount: 1, occurredAt: now() } })
    for (const kind of ['a.b', 'a.c'])
      expect((await ask({ kind, amount: 2, commit: true, id: 'taken' })).status).toBe(422)
    expect((await ask({ kind: 'a.b', commit: true, id: 'taken' })).json).toMatchObject({ isNew: false })
  })

  test.each<[string, object, string]>([
    ['a commit without an id', { kind: 'a.b', commit: true }, '"id" is required'],
    ['a commit of events', { kind: 'events', commit: true, id: 'x' }, 'check without commit'],
    ['an id with a line break', { kind: 'locks', commit: true, id: 'a\nb' }, 'control characters'],
    ['an id of 129 characters', { kind: 'locks', commit: true, id: 'a'.repeat(129) }, 'id'],
    ['a malformed kind', { kind: 'Rows' }, 'kind'],
    ['a kind of 65 characters', { kind: 'a'.repeat(65) }, 'kind'],
    ['an amount of 0', { kind: 'a.b', amount: 0 }, 'amount'],
    ['an amount that is not an integer', { kind: 'a.b', amount: 1.5 }, 'amount'],
    ['an amount over the maximum', { kind: 'a.b', amount: 1_000_000_000_001 }, 'amount'],
    ['an unknown field', { kind: 'a.b', at: '2026-11-01T00:00:00Z' }, 'at'],
  ])('guardrails: %s returns 400', async (_case, body, words) => {
    const answer = await ask(body)
    expect([answer.status, answer.json['message']]).toEqual([400, expect.stringContaining(words)])
  })
})
