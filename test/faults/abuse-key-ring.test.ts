// Runs API and forwarder processes with key rings that decrypt all, some or none of the stored secrets.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { keyRingOf, keyRingText, openTenants, type TestTenants } from '#test/support/api.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import {
  type ApiProcess,
  readiness,
  startApiProcess,
  startProcess,
  type TestProcess,
} from '#test/support/processes/api-process.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const right = keyRingText('k1', 1)
const wrong = keyRingText('k2', 2)
const sameIdOtherKey = keyRingText('k1', 3)
const suffix = crypto.randomUUID().slice(0, 8)
const slugs = [`one-${suffix}`, `two-${suffix}`] as const
const keyOf = (slug: string) => `lk_test_${slug}_0123456789abcdef0123456789abcdef`
/** Value in the providers' Secret below the minimum length. */
const shortSecret = 'hunter2'
const unreadableLine = 'key ring cannot decrypt tenant secret'
const unfitLine = 'key ring decrypts none of the stored secrets; process stays unready'

let database: TestDatabase
let redisUrl: string
let tenants: TestTenants
let pool: Pool
let receiver: CallbackReceiver
const running: TestProcess[] = []

beforeAll(async () => {
  receiver = startReceiver()
  database = await createMigratedDatabase()
  redisUrl = (await testStores()).redisUrl
  tenants = await openTenants(database.url, redisUrl, keyRingOf(right))
  await tenants.apply(manifests())
  pool = createPool({
    url: database.url,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 5_000,
  })
}, 60_000)
afterEach(async () => {
  for (const process of running) process.signal('SIGKILL')
  await Promise.all(running.splice(0).map(({ exited }) => exited))
})
afterAll(async () => {
  await pool.end()
  await tenants.close()
  await database.drop()
  await receiver.stop()
})

/** Returns manifests of two tenants with the same callback on 127.0.0.1. */
function manifests(): string {
  return slugs
    .map((slug) => {
      const callback = `callback: {url: "${receiver.url}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: ${slug}-signing}}`
      return `${webhookTenantYaml(slug, keyOf(slug))
        .replace(/callback: .*/, callback)
        .replace('{signingSecret:', `{short: ${shortSecret}, blank: "  ", signingSecret:`)}apiVersion: v1
kind: Secret
metadata: {name: ${slug}-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
    })
    .join('')
}

/** Returns the two log lines about unreadable secrets, or undefined before they are written. */
function linesOf(api: ApiProcess) {
  const lines = api.lines(unreadableLine)
  return lines.length < 2
    ? undefined
    : lines.map(({ resource, field, sealedWith }) => ({ resource, field, sealedWith }))
}

const env = (keyRing: string) => ({
  LATCHKEY_DATABASE_URL: database.url,
  LATCHKEY_REDIS_URL: redisUrl,
  LATCHKEY_KEY_RING: keyRing,
  LATCHKEY_OPS_PORT: '0',
  LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
  LATCHKEY_CALLBACK_PORTS: 'any',
})

async function startApi(keyRing: string): Promise<ApiProcess> {
  const api = await startApiProcess(env(keyRing))
  running.push(api)
  return api
}

async function startForwarder(keyRing: string): Promise<TestProcess & { readonly opsUrl: string }> {
  const forwarder = startProcess('forwarder', env(keyRing))
  running.push(forwarder)
  const { opsPort } = await forwarder.logged('listening')
  return { ...forwarder, opsUrl: `http://localhost:${String(opsPort)}` }
}

type Send = (url: string, slug: string) => Promise<Response>

function webhook({ byKey = false, secret }: { byKey?: boolean; secret?: string } = {}): Send {
  return (url, slug) => {
    const { body, headers } = signGeneric(genericBody(), secret === undefined ? {} : { secret })
    const path = byKey ? '/v1/webhooks/generic' : `/v1/t/${slug}/webhooks/generic`
    return fetch(`${url}${path}`, {
      method: 'POST',
      body,
      headers: { ...headers, ...(byKey && { Authorization: `Bearer ${keyOf(slug)}` }) },
    })
  }
}

function byKey(path: string, body: () => object): Send {
  return (url, slug) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${keyOf(slug)}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body()),
    })
}

const sends = {
  'signed webhooks by slug': webhook(),
  'signed webhooks by API key': webhook({ byKey: true }),
  'forged webhooks': webhook({ secret: 'nobody-knows-this-one' }),
  'webhooks signed with a short secret': webhook({ secret: shortSecret }),
  simulations: byKey('/v1/simulate/chargeback', () => ({
    amount: 1200,
    currency: 'EUR',
    stepSeconds: 86_400,
  })),
  records: byKey('/v1/record', () => ({ scope: 'abuse', key: crypto.randomUUID() })),
} as const

const callsEach = 20
/** Time limit of the calls before the flood, in s. */
const calledSecondsMax = 5

/** Sends 20 calls of each kind, prints and returns the answers by kind, such as `503 secrets_unreadable 30`. */
async function answersOf(title: string, url: string, slug: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const [name, send] of Object.entries(sends)) {
    const answers = new Map<string, number>()
    for (let each = 0; each < (name === 'simulations' ? 3 : callsEach); each += 1) {
      const response = await send(url, slug)
      const { code } = (await response.json()) as { code?: string }
      const text = [response.status, code, response.headers.get('retry-after')].filter(Boolean).join(' ')
      answers.set(text, (answers.get(text) ?? 0) + 1)
    }
    const shown = [...answers].map(([text, count]) => `${count} answered ${text}`).join(', ')
    console.log(`${title}: ${name}: ${shown}`)
    found[name] = [...answers.keys()].join(', ')
  }
  return found
}

const later = '503 secrets_unreadable 30'
const unreadable = {
  'signed webhooks by slug': later,
  'signed webhooks by API key': later,
  'forged webhooks': later,
  'webhooks signed with a short secret': later,
  simulations: later,
  records: '200',
}
const served = {
  'signed webhooks by slug': '200',
  'signed webhooks by API key': '200',
  'forged webhooks': '400',
  'webhooks signed with a short secret': '400',
  simulations: '202',
  records: '200',
}

test.each([
  ['a ring with another key', wrong],
  ['a ring whose key has the right id', sameIdOtherKey],
])(
  'API with %s: is never ready, answers webhooks with 503, serves records, and logs each tenant once',
  async (title, keyRing) => {
    const api = await startApi(keyRing)
    await api.logged(unfitLine)
    expect(await answersOf(title, api.url, slugs[0])).toEqual(unreadable)
    const ready = await fetch(`${api.opsUrl}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.text()).toContain('key ring decrypts none of')
    const logged = await until('two lines', () => linesOf(api))
    expect(logged.toSorted((a, b) => String(a.field).localeCompare(String(b.field)))).toEqual([
      { resource: `shops/${slugs[0]}`, field: 'provider:card', sealedWith: ['k1'] },
      { resource: `shops/${slugs[0]}`, field: 'provider:generic', sealedWith: ['k1'] },
    ])
    expect(api.lines(unfitLine).length).toBe(1)
    const flood = 300
    const startedMs = performance.now()
    await Promise.all(
      Array.from({ length: flood }, async () =>
        (await sends['forged webhooks'](api.url, slugs[0])).arrayBuffer(),
      ),
    )
    const seconds = Math.ceil((performance.now() - startedMs) / 1000) + 1
    const lines = api
      .output()
      .split('\n')
      .filter((line) => line.includes('"outcome":"secrets_unreadable"'))
    console.log(`${title}: ${flood} concurrent forged calls: ${lines.length} log lines in total`)
    expect(lines.length).toBeLessThanOrEqual(10 * (seconds + calledSecondsMax) + 3)
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    expect(metrics).toContain('latchkey_tenants_key_ring_unfit_count 1')
    expect(metrics).toContain('latchkey_tenants_unreadable_count 1')
  },
  30_000,
)

test('API with the correct key ring: is ready and serves all calls', async () => {
  const api = await startApi(right)
  expect(await readiness(api.opsUrl, 200)).toBe(200)
  expect(await answersOf('the right ring', api.url, slugs[0])).toEqual(served)
  expect(api.lines(unreadableLine)).toEqual([])
}, 30_000)

test('API with a key ring for some tenants: is ready, serves those tenants, and returns 503 to the other tenants', async () => {
  await pool.query(
    `UPDATE tenant_secrets SET key_id = 'gone' WHERE tenant_id = (SELECT id FROM tenants WHERE slug = $1)`,
    [slugs[1]],
  )
  try {
    const api = await startApi(right)
    expect(await readiness(api.opsUrl, 200)).toBe(200)
    expect(await answersOf('a ring that opens some: a tenant it opens', api.url, slugs[0])).toEqual(served)
    const others = await answersOf('a ring that opens some: another tenant', api.url, slugs[1])
    expect(others).toEqual(unreadable)
    // The controller encrypts again the secrets that it cannot decrypt; the running API loads the change.
    await tenants.apply(manifests())
    const again = await until('the tenant is served', async () => {
      const response = await sends['signed webhooks by slug'](api.url, slugs[1])
      return response.status === 200
    })
    expect(again).toBe(true)
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    expect(metrics).toContain('latchkey_tenants_unreadable_count 0')
  } finally {
    await pool.query(`UPDATE tenant_secrets SET key_id = 'k1' WHERE key_id = 'gone'`)
  }
}, 30_000)

test('forwarder with a wrong key ring: claims no event, so another forwarder delivers each event in one attempt', async () => {
  await pool.query('DELETE FROM deliveries_due')
  await pool.query('DELETE FROM attempts')
  const api = await startApi(right)
  const misfit = await startForwarder(wrong)
  await misfit.logged(unfitLine)
  const from = receiver.calls.length
  for (let each = 0; each < callsEach; each += 1)
    expect((await sends['signed webhooks by slug'](api.url, slugs[0])).status).toBe(200)
  await until('all have been due for three of its polls', async () => {
    const text = `SELECT max(due_at) < now() - interval '3 s' AS is_late FROM deliveries_due`
    return (await pool.query<{ is_late: boolean }>(text)).rows[0]?.is_late
  })
  const { rows } = await pool.query<{ due: number; claims: number; attempts: number }>(
    'SELECT count(*)::int AS due, sum(claims)::int AS claims, sum(attempts)::int AS attempts FROM deliveries_due',
  )
  expect(rows).toEqual([{ due: callsEach, claims: 0, attempts: 0 }])
  expect((await fetch(`${misfit.opsUrl}/readyz`)).status).toBe(503)
  const fit = await startForwarder(right)
  expect(await readiness(fit.opsUrl, 200)).toBe(200)
  const calls = (await receiver.received(from + callsEach)).slice(from)
  expect(calls.every(({ verified }) => verified)).toBe(true)
  await until('all deliveries are completed', async () => {
    const { rows: left } = await pool.query<{ due: number }>(
      'SELECT count(*)::int AS due FROM deliveries_due',
    )
    return left[0]?.due === 0
  })
  const { rows: tried } = await pool.query<{ outcome: string; count: number }>(
    'SELECT outcome, count(*)::int AS count FROM attempts GROUP BY outcome',
  )
  expect(tried).toEqual([{ outcome: 'delivered', count: callsEach }])
  console.log(
    `forwarder with a wrong key ring and forwarder with the correct one: ${callsEach} events, ${calls.length} calls, 0 failed attempts`,
  )
}, 60_000)
