import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import {
  genericBody,
  type SignedCall,
  signGeneric,
  webhookTenantYaml,
} from '#test/support/intake/webhook-calls.ts'

let api: TestApi
let pool: Pool
const tenants: Record<string, string> = {
  minute: 'limits: {eventsPerMinute: {soft: 1, hard: 3}}',
  month: 'limits: {eventsPerMonth: {hard: 2, over: refuse}}',
  accept: 'limits: {eventsPerMonth: {hard: 2}}',
  none: 'limits: {eventsPerMinute: {hard: 0}}',
}
const keyOf = (tenant: string) => `lk_${tenant}_0123456789abcdef0123456789abcdef`

beforeAll(async () => {
  const manifests = Object.entries(tenants).map(([name, spec]) =>
    webhookTenantYaml(name, keyOf(name), [spec]),
  )
  api = await startTestApi({ manifests: manifests.join('') })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
}, 30_000)
afterAll(async () => {
  await pool.end()
  await api.close()
})

async function send(tenant: string, { body, headers }: SignedCall) {
  const response = await fetch(`${api.url}/v1/t/${tenant}/webhooks/generic`, {
    method: 'POST',
    body,
    headers,
  })
  return { status: response.status, body: (await response.json()) as object, headers: response.headers }
}

const fresh = () => signGeneric(genericBody())

/** Until the process knows that Redis is there: before, it refuses nothing. */
async function untilLimited(tenant: string) {
  const refused = await poll(
    async () => {
      const answer = await send(tenant, fresh())
      return answer.status === 429 ? answer : undefined
    },
    { deadlineMs: 5_000, everyMs: 50 },
  )
  if (!refused) throw new Error('nothing was refused within 5 s')
  return refused
}

async function rowsOf<T extends object>(text: string, slug: string): Promise<T[]> {
  const { rows } = await pool.query<T>(`WITH tenant AS (SELECT id FROM tenants WHERE slug = $1) ${text}`, [
    slug,
  ])
  return rows
}

/** Until a query gives as many rows. */
async function untilRows(count: number, text: string, slug: string): Promise<object[]> {
  const rows = await poll(
    async () => {
      const found = await rowsOf(text, slug)
      return found.length === count ? found : undefined
    },
    { deadlineMs: 8_000, everyMs: 50 },
  )
  if (!rows) throw new Error(`not ${count} rows within 8 s`)
  return rows
}

const eventCount = async (slug: string) =>
  (await rowsOf('SELECT FROM events JOIN tenant ON tenant.id = tenant_id', slug)).length

describe('event limits', () => {
  test('event limits: with a limit of 0 events per minute a call is refused, and body and headers contain the limit', async () => {
    const { body, headers } = await untilLimited('none')
    expect(body).toMatchObject({ statusCode: 429, code: 'limit_exceeded', error: 'Too Many Requests' })
    const retryAfter = Number(headers.get('retry-after'))
    expect(retryAfter).toBeWithin(1, 61)
    expect(headers.get('ratelimit')).toBe(`"events-per-minute";r=0;t=${retryAfter}`)
    expect(headers.get('ratelimit-policy')).toBe('"events-per-minute";q=0;w=60')
  })

  test('event limits: limits are checked after the signature, so that the sender of a forged call does not learn them', async () => {
    await untilLimited('none')
    const { body, headers } = fresh()
    const forged = await send('none', { body: `${body} `, headers })
    expect(forged).toMatchObject({ status: 400, body: { error: 'invalid signature' } })
  })

  test('event limits: a call that a limit refuses is recorded with its cause and without its body', async () => {
    await untilLimited('none')
    const rows = await poll(
      async () => {
        const found = await rowsOf<{ cause: string; sample: string | null }>(
          `SELECT DISTINCT cause, sample FROM refused_calls JOIN tenant ON tenant.id = tenant_id WHERE cause LIKE 'events%'`,
          'none',
        )
        return found.length > 0 ? found : undefined
      },
      { deadlineMs: 5_000 },
    )
    expect(rows).toEqual([{ cause: 'events_per_minute', sample: null }])
  })

  test('event limits: a hard monthly limit refuses events and does not count duplicates', async () => {
    const first = fresh()
    expect(await send('month', first)).toMatchObject({ status: 200, body: { ok: true } })
    for (let times = 0; times < 5; times += 1) {
      expect(await send('month', first)).toMatchObject({ status: 200, body: { cached: true } })
    }
    expect((await send('month', fresh())).status).toBe(200)
    const { headers } = await untilLimited('month')
    expect(headers.get('ratelimit')).toStartWith('"events-per-month";r=0;t=')
    expect(headers.get('ratelimit-policy')).toBe('"events-per-month";q=2')
    // A process reads the count from Redis once a second, so it can accept one event above the limit.
    expect(await eventCount('month')).toBeWithin(2, 4)
  })

  test('event limits: a soft monthly limit accepts all events and marks events over the limit', async () => {
    for (let times = 0; times < 4; times += 1) expect((await send('accept', fresh())).status).toBe(200)
    const marks = await rowsOf(
      'SELECT over_limit FROM events JOIN tenant ON tenant.id = tenant_id ORDER BY events.id',
      'accept',
    )
    expect(marks).toEqual([false, false, true, true].map((marked) => ({ over_limit: marked })))
    expect(api.logs()).toContain('"overLimit":true')
  })

  test('event limits: crossing a soft limit writes one audit row and one log line, and increments the metric once', async () => {
    expect((await send('minute', fresh())).status).toBe(200)
    const text = `SELECT detail->>'limit' AS "limit" FROM audit JOIN tenant ON tenant.id = tenant_id
      WHERE action = 'usage.soft_limit_crossed'`
    expect(await untilRows(1, text, 'minute')).toEqual([{ limit: 'eventsPerMinute' }])
    const lines = api
      .logs()
      .split('\n')
      .filter((line) => line.includes('crossed a soft limit'))
    expect(lines).toHaveLength(1)
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    expect(metrics).toContain('latchkey_usage_soft_crossings_total{limit="eventsPerMinute"} 1')
  })

  test('event limits: accepted events are counted by hour', async () => {
    const sums = await untilRows(
      1,
      `SELECT sum(amount)::integer AS sum FROM usage_hourly JOIN tenant ON tenant.id = tenant_id WHERE meter = 'events'
       HAVING sum(amount) = (SELECT count(*) FROM events WHERE tenant_id = (SELECT id FROM tenant))`,
      'accept',
    )
    expect(sums).toEqual([{ sum: 4 }])
  })
})
