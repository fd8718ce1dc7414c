import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import {
  genericBody,
  providerSecret,
  type SignedCall,
  signGeneric,
  webhookTenantYaml,
} from '#test/support/intake/webhook-calls.ts'

let api: TestApi
let pool: Pool
const otherKey = 'lk_other_0123456789abcdef0123456789abcdef'
const recordsKey = 'lk_recor_0123456789abcdef0123456789abcdef'
const manifests = [
  webhookTenantYaml('acme', testApiKey),
  webhookTenantYaml('other', otherKey, ['retention: {payloadDays: 2, eventDays: 3}']),
  webhookTenantYaml('again', 'lk_again_0123456789abcdef0123456789abcdef').replace(
    'callback: {',
    'callback: {retryOnRedelivery: true, ',
  ),
  webhookTenantYaml('asleep', 'lk_sleep_0123456789abcdef0123456789abcdef', ['suspended: true']),
].join('')

beforeAll(async () => {
  api = await startTestApi({ manifests, trustedProxies: ['127.0.0.0/8', '::1/128'] })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
})
afterAll(async () => {
  await pool.end()
  await api.close()
})
beforeEach(async () => {
  await truncateEvents(pool, 'refused_calls')
})

interface Answered {
  readonly status: number
  readonly body: unknown
  readonly headers: Headers
}

async function post(
  path: string,
  { body, headers }: SignedCall,
  more: Record<string, string> = {},
): Promise<Answered> {
  const response = await fetch(`${api.url}${path}`, {
    method: 'POST',
    body,
    headers: { ...headers, ...more },
  })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

const bySlug = (call: SignedCall, slug = 'acme', more: Record<string, string> = {}) =>
  post(`/v1/t/${slug}/webhooks/generic`, call, more)
const byKey = (call: SignedCall, key = testApiKey) =>
  post('/v1/webhooks/generic', call, { Authorization: `Bearer ${key}` })

async function count(table: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)
  return rows[0]?.n ?? -1
}

describe('signed call', () => {
  test('webhook: a signed call is stored completely and acknowledged, with its first delivery due', async () => {
    const body = `{ "id":"evt_42", "type":"order.created","amount": 820982911946154508.10, "a":"\\u0000日本", "occurredAt":"2026-11-01T10:00:00.5Z"}`
    const answer = await bySlug(signGeneric(body), 'other', { 'X-Shop': 'a', Cookie: 'c=1' })
    expect(answer).toMatchObject({ status: 200, body: { ok: true } })
    const { rows } =
      await pool.query(`SELECT e.*, p.payload, e.expires_on::text AS on, p.expires_on::text AS payload_on,
        e.received_at::date::text AS day FROM events e JOIN event_payloads p ON p.event_id = e.id`)
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({
      provider: 'generic',
      source_event_id: 'evt_42',
      raw_type: 'order.created',
      type: 'order.created',
      payload: body,
      state: 'accepted',
      cycle: 1,
      payload_bytes: Buffer.byteLength(body),
      occurred_at: new Date('2026-11-01T10:00:00.500Z'),
    })
    const daysAfter = (days: number) =>
      new Date(Date.parse(rows[0].day) + (days + 1) * 86_400_000).toISOString().slice(0, 10)
    expect([rows[0].on, rows[0].payload_on]).toEqual([daysAfter(3), daysAfter(2)])
    const headers = JSON.parse(rows[0].headers)
    expect(headers).toMatchObject({ 'x-shop': 'a', 'latchkey-hops': '1' })
    expect(headers).not.toHaveProperty('cookie')
    expect(headers).not.toHaveProperty('x-service-signature')
    const due = await pool.query('SELECT event_id, cycle, attempts, lease FROM deliveries_due')
    expect(due.rows).toEqual([{ event_id: rows[0].id, cycle: 1, attempts: 0, lease: null }])
    expect(await count('tenant_queues')).toBe(1)
  })

  test('webhook: calls with the same id by API key and by slug are one event', async () => {
    const call = signGeneric(genericBody())
    expect(await byKey(call)).toMatchObject({ status: 200, body: { ok: true } })
    expect(await bySlug(call)).toMatchObject({ status: 200, body: { ok: true, cached: true } })
    expect(await count('events')).toBe(1)
  })

  test('webhook: calls with the same id to two tenants are different events', async () => {
    const call = signGeneric(genericBody('evt_1'))
    expect((await bySlug(call)).body).toEqual({ ok: true })
    expect((await bySlug(call, 'other')).body).toEqual({ ok: true })
    expect(await count('events')).toBe(2)
  })

  test('webhook: forty concurrent duplicates are one event, and every caller gets 200', async () => {
    const call = signGeneric(genericBody())
    const answers = await Promise.all(Array.from({ length: 40 }, () => bySlug(call)))
    const cached = answers.filter(({ body }) => (body as { cached?: boolean }).cached === true)
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(cached).toHaveLength(39)
    expect([await count('events'), await count('deliveries_due')]).toEqual([1, 1])
  })

  test('webhook: a body of 5 MiB is stored completely', async () => {
    const body = JSON.stringify({ ref: 'refs/heads/main', text: 'x'.repeat(5 * 1024 * 1024) })
    const hex = createHmac('sha256', providerSecret).update(body).digest('hex')
    const headers = {
      'X-Hub-Signature-256': `sha256=${hex}`,
      'X-GitHub-Event': 'push',
      'X-GitHub-Delivery': 'd-1',
    }
    expect(await post('/v1/t/acme/webhooks/github', { body, headers })).toMatchObject({
      status: 200,
      body: { ok: true },
    })
    const forged = {
      ...headers,
      'X-GitHub-Delivery': 'd-2',
      'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}`,
    }
    expect(await post('/v1/t/acme/webhooks/github', { body, headers: forged })).toMatchObject({ status: 400 })
    const { rows } = await pool.query('SELECT payload = $1 AS whole FROM event_payloads', [body])
    expect(rows).toEqual([{ whole: true }])
  })

  test('webhook: a query string is ignored', async () => {
    expect(await post('/v1/t/acme/webhooks/generic?hmac=1', signGeneric(genericBody()))).toMatchObject({
      status: 200,
    })
  })

  test('webhook: missing partitions are created', async () => {
    await api.applyManifests(
      manifests.replace(
        'retention: {payloadDays: 2, eventDays: 3}',
        'retention: {payloadDays: 41, eventDays: 43}',
      ),
    )
    await poll(async () => api.directory.findTenantBySlug('other')?.retention.eventDays === 43 || undefined, {
      deadlineMs: 5_000,
    })
    expect(await bySlug(signGeneric(genericBody()), 'other')).toMatchObject({ status: 200 })
  })
})

describe('redelivery of a failed event', () => {
  const state = async () => {
    const { rows } = await pool.query(`SELECT e.*, d.cycle AS due, p.payload, l.next_due_at FROM events e
      LEFT JOIN deliveries_due d ON d.event_id = e.id LEFT JOIN event_payloads p ON p.event_id = e.id
      LEFT JOIN tenant_queues l ON l.tenant_id = e.tenant_id`)
    return rows
  }

  test('redelivery: without `retryOnRedelivery` a failed event stays unchanged', async () => {
    const body = genericBody()
    await bySlug(signGeneric(body))
    await pool.query(
      `UPDATE events SET state = 'delivery_failed', completed_at = now(); DELETE FROM deliveries_due; DELETE FROM event_payloads;
        UPDATE tenant_queues SET next_due_at = now() + interval '1 day'`,
    )
    const before = await state()
    expect(before).toHaveLength(1)
    const answers = await Promise.all(Array.from({ length: 40 }, () => bySlug(signGeneric(body))))
    for (const { status, body: answer } of answers)
      expect([status, answer]).toEqual([200, { ok: true, cached: true }])
    expect(await state()).toEqual(before)
  })

  test('redelivery: with `retryOnRedelivery` each redelivery after a failed delivery cycle starts one new cycle', async () => {
    const body = genericBody()
    await bySlug(signGeneric(body), 'again')
    await pool.query(`UPDATE events SET state = 'delivery_failed'; DELETE FROM deliveries_due`)
    const answers = await Promise.all(Array.from({ length: 40 }, () => bySlug(signGeneric(body), 'again')))
    expect(new Set(answers.map((answer) => JSON.stringify(answer.body)))).toEqual(
      new Set(['{"ok":true,"cached":true}']),
    )
    const { rows } = await pool.query(
      'SELECT state, e.cycle, d.cycle AS due FROM events e JOIN deliveries_due d ON event_id = id',
    )
    expect(rows).toEqual([{ state: 'accepted', cycle: 2, due: 2 }])
  })

  test('redelivery: with `retryOnRedelivery` a payload that retention deleted is stored again', async () => {
    const body = genericBody()
    await bySlug(signGeneric(body), 'again')
    await pool.query(
      `UPDATE events SET state = 'delivery_failed'; DELETE FROM deliveries_due; DELETE FROM event_payloads`,
    )
    await bySlug(signGeneric(body), 'again')
    const { rows } = await pool.query(
      'SELECT payload FROM events e JOIN event_payloads p ON p.event_id = e.id AND p.expires_on = e.payload_expires_on',
    )
    expect(rows).toEqual([{ payload: body }])
  })
})

/** Returns the recorded row of a refused call. Rows of earlier tests may be written in between. */
function refusedCall(cause: string, source = '%') {
  const text = 'SELECT * FROM refused_calls WHERE cause = $1 AND source_address LIKE $2'
  return poll(async () => (await pool.query(text, [cause, source])).rows[0], { deadlineMs: 5_000 })
}

describe('refused call', () => {
  const cases: [string, () => Promise<Answered>, number, unknown, string | null][] = [
    [
      'a wrong signature',
      () => bySlug(signGeneric(genericBody(), { secret: 'x' })),
      400,
      { error: 'invalid signature' },
      'signature_mismatch',
    ],
    [
      'a header that names another event than the signed body',
      () => bySlug(signGeneric(genericBody('evt_1')), 'acme', { 'X-Service-Event-Id': 'evt_2' }),
      400,
      { error: 'conflicting headers' },
      'headers_conflict',
    ],
    [
      'no signature',
      () => bySlug({ body: '{}', headers: {} }),
      400,
      { error: 'invalid signature' },
      'signature_missing',
    ],
    [
      'an old signature',
      () => bySlug(signGeneric(genericBody(), { atMs: Date.now() - 301_000 })),
      400,
      { error: 'invalid signature' },
      'timestamp_outside_window',
    ],
    [
      'a signature of the future',
      () => bySlug(signGeneric(genericBody(), { atMs: Date.now() + 302_000 })),
      400,
      { error: 'invalid signature' },
      'timestamp_outside_window',
    ],
    [
      'no event id',
      () => bySlug(signGeneric('{"type":"a.b"}')),
      400,
      { error: 'missing event id' },
      'event_id_missing',
    ],
    [
      'an event id with control characters',
      () => bySlug(signGeneric('{"id":"a\\nb","type":"a.b"}')),
      400,
      { error: 'invalid event id' },
      'event_id_malformed',
    ],
    [
      'a body that is not JSON',
      () => bySlug(signGeneric('id=1')),
      400,
      { error: 'invalid payload' },
      'body_not_json',
    ],
    [
      'JSON of 257 levels',
      () => bySlug(signGeneric(`{"id":"a","type":"a.b","deep":${'['.repeat(256)}${']'.repeat(256)}}`)),
      400,
      { error: 'payload nested too deeply' },
      'body_too_deep',
    ],
    [
      'a suspended tenant',
      () => bySlug(signGeneric(genericBody()), 'asleep'),
      403,
      { message: 'tenant not allowed' },
      'tenant_suspended',
    ],
    [
      'a provider in stage off',
      () => post('/v1/t/acme/webhooks/wallet', signGeneric(genericBody())),
      403,
      { message: 'tenant not allowed' },
      'provider_not_configured',
    ],
    [
      'the reserved provider',
      () => post('/v1/t/acme/webhooks/braintree', signGeneric(genericBody())),
      403,
      { message: 'tenant not allowed' },
      'provider_not_configured',
    ],
    [
      'an unknown slug',
      () => bySlug(signGeneric(genericBody()), 'nobody'),
      403,
      { message: 'tenant not allowed' },
      null,
    ],
  ]

  test.each(cases)(
    'refused call: a call with %s gets the response of the contract and stores nothing',
    async (_name, call, status, body) => {
      expect(await call()).toMatchObject({ status, body })
      expect([await count('events'), await count('dedupe_keys')]).toEqual([0, 0])
    },
  )

  test('refused call: the cause of each call is recorded for its tenant, without the signature', async () => {
    await Promise.all(cases.map(([_name, call]) => call()))
    const causes = cases.flatMap(([, , , , cause]) => cause ?? [])
    // Calls are flushed once a second, so one wait covers all of them.
    const rows = await poll(
      async () => {
        const read = await pool.query('SELECT cause, headers FROM refused_calls')
        return causes.every((cause) => read.rows.some((row) => row.cause === cause)) ? read.rows : undefined
      },
      { deadlineMs: 5_000 },
    )
    expect(rows).toBeDefined()
    for (const { headers } of rows ?? []) expect(headers).not.toContain('v1=')
  })

  test('refused call: a call is recorded with its source behind trusted proxies and the start of its body', async () => {
    const call = signGeneric(genericBody('evt_1', { text: 'x'.repeat(5_000) }), { secret: 'wrong' })
    await bySlug(call, 'acme', { 'X-Forwarded-For': '203.0.113.9' })
    const row = await refusedCall('signature_mismatch', '203.0.113.9')
    expect(row).toMatchObject({ source_address: '203.0.113.9', provider: 'generic' })
    expect(row.sample).toBe(call.body.slice(0, 1_024))
  })

  test('refused call: of a hundred calls with one cause in a second, ten are recorded and all are counted', async () => {
    const call = signGeneric(genericBody(), { secret: 'wrong' })
    const begun = Math.floor(Date.now() / 1000)
    await Promise.all(Array.from({ length: 100 }, () => bySlug(call)))
    const seconds = Math.floor(Date.now() / 1000) - begun + 1
    await poll(async () => (await count('refused_calls')) > 0 || undefined, { deadlineMs: 5_000 })
    expect(await count('refused_calls')).toBeLessThanOrEqual(seconds * 10)
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    const counted =
      /latchkey_intake_calls_total\{provider="generic",outcome="signature_mismatch"\} (\d+)/.exec(metrics)
    expect(Number(counted?.[1])).toBeGreaterThanOrEqual(100)
  })

  test.each(['5', '6', '999', 'many', ''])(
    'refused call: a forged call with `Latchkey-Hops` %p is refused as an invalid signature, not as a loop',
    async (hops) => {
      const forged = signGeneric(genericBody(), { secret: 'wrong-secret' })
      const answer = await bySlug(forged, 'acme', { 'Latchkey-Hops': hops })
      expect(answer).toMatchObject({ status: 400, body: { error: 'invalid signature' } })
    },
  )

  test.each([
    ['a control character', '%00'],
    ['a line break', 'acme%0d%0a'],
    ['bad percent encoding', '%zz'],
    ['half a percent encoding', '%e2%28'],
    ['64 characters', 'a'.repeat(64)],
    ['129 characters', 'a'.repeat(129)],
    ['2 000 characters', 'a'.repeat(2_000)],
    ['nothing', ''],
    ['a slash', 'acme%2f'],
    ['capitals', 'ACME'],
  ])('refused call: a slug of %s gets the response of an unknown slug', async (_what, slug) => {
    const path = `/v1/t/${slug}/webhooks`
    const unknown = await post(`/v1/t/nobody/webhooks/generic`, signGeneric(genericBody()))
    const { status, body } = await post(`${path}/generic`, signGeneric(genericBody()))
    expect({ status, body }).toEqual({ status: unknown.status, body: unknown.body })
    expect(body).toEqual({ message: 'tenant not allowed' })
    const noProvider = await post(`${path}/nobody`, signGeneric(genericBody()))
    expect(noProvider).toMatchObject({ status: 404, body: { code: 'provider_unknown' } })
  })

  test.each([
    ['no API key', () => post('/v1/webhooks/generic', signGeneric(genericBody())), 403, 'api_key_invalid'],
    ['an unknown API key', () => byKey(signGeneric(genericBody()), recordsKey), 403, 'api_key_invalid'],
    [
      'an unknown provider',
      () => post('/v1/t/acme/webhooks/nobody', signGeneric(genericBody())),
      404,
      'provider_unknown',
    ],
    [
      'an unknown provider, by key',
      () => post('/v1/webhooks/nobody', signGeneric(genericBody())),
      404,
      'provider_unknown',
    ],
    [
      'a body over 1 MiB',
      () => bySlug(signGeneric(genericBody('a', { text: 'x'.repeat(1024 * 1024) }))),
      413,
      'body_too_large',
    ],
    [
      'an event forwarded five times',
      () => bySlug(signGeneric(genericBody()), 'acme', { 'Latchkey-Hops': '5' }),
      508,
      'loop_detected',
    ],
  ] as const)('refused call: %s gets the standard error envelope', async (_name, call, status, code) => {
    const answer = await call()
    expect(answer).toMatchObject({ status, body: { statusCode: status, code } })
    expect(await count('events')).toBe(0)
  })
})

test('webhook: neither secrets nor bodies appear in the log', async () => {
  const call = signGeneric(genericBody('evt_secret_1', { text: 'planted-body-text' }))
  await bySlug(call)
  await bySlug({ ...call, headers: { 'X-Service-Signature': 't=1,v1=planted-signature' } })
  const logs = api.logs()
  expect(logs).toContain('/v1/t/:tenantSlug/webhooks/:provider')
  expect(logs).not.toContain('planted')
  expect(logs).not.toContain('whsec_')
})
