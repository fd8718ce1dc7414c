import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { openTenants, type TestTenants, testApiKey } from '#test/support/api.ts'
import { adminToken, openBackofficeOn } from '#test/support/backoffice.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import {
  genericBody,
  providerSecret,
  signGeneric,
  webhookTenantYaml,
} from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import {
  type ApiProcess,
  startApiProcess,
  startProcess,
  type TestProcess,
} from '#test/support/processes/api-process.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { emptyTables } from '#test/support/stores/empty-tables.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

/** Maximum time from a write to its effect in every process. */
const inForceMsMax = 2_000
const otherKey = 'lk_other_0123456789abcdef0123456789abcdef'
let database: TestDatabase
let pool: Pool
let tenants: TestTenants
let receivers: Record<'acme' | 'other', CallbackReceiver>
let env: Record<string, string>
let api: ApiProcess
let forwarder: TestProcess
let forwarderOps: string
let backoffice: Awaited<ReturnType<typeof openBackofficeOn>>

beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  const { redisUrl } = await testStores()
  receivers = { acme: startReceiver(), other: startReceiver() }
  tenants = await openTenants(database.url, redisUrl)
  await tenants.apply(manifest('acme', testApiKey) + manifest('other', otherKey))
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
  }
  backoffice = await openBackofficeOn({ databaseUrl: database.url, redisUrl })
  forwarder = startProcess('forwarder', env)
  api = await startApiProcess(env)
  forwarderOps = `http://localhost:${String((await forwarder.logged('listening')).opsPort)}`
}, 60_000)
afterAll(async () => {
  for (const each of [api, forwarder]) each.signal('SIGTERM')
  expect(await Promise.all([api.exited, forwarder.exited])).toEqual([0, 0])
  await backoffice.close()
  await tenants.close()
  await Promise.all(Object.values(receivers).map((receiver) => receiver.stop()))
  await pool.end()
  await database.drop()
}, 60_000)
beforeEach(async () => {
  await emptyTables(
    pool,
    'dedupe_keys',
    'events',
    'event_payloads',
    'attempts',
    'deliveries_due',
    'tenant_queues',
    'refused_calls',
  )
})

function manifest(name: 'acme' | 'other', key: string): string {
  const callback = `callback: {url: "${receivers[name].url}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: ${name}-signing}}`
  const gitlab = `{name: gitlab, acceptUnverified: true, secretRef: {name: ${name}-provider}}`
  const tenant = webhookTenantYaml(name, key).replace('providers: [', `providers: [${gitlab}, `)
  return `${tenant.replace(/callback: .*/, callback)}apiVersion: v1
kind: Secret
metadata: {name: ${name}-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
}

/** Runs `latchkey settings` and returns its output. */
async function settings(...args: string[]): Promise<string> {
  const caller = { LATCHKEY_INTERNAL_URL: backoffice.url, LATCHKEY_TOKEN: adminToken }
  const { code, out, err } = await latchkey(['settings', ...args], caller)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

async function send(key = testApiKey): Promise<Response> {
  const { body, headers } = signGeneric(genericBody())
  return fetch(`${api.url}/v1/webhooks/generic`, {
    method: 'POST',
    headers: { ...headers, Authorization: `Bearer ${key}` },
    body,
  })
}

const rows = async (text: string): Promise<Record<string, unknown>[]> => (await pool.query(text)).rows
const pausesOf = async (opsUrl: string) =>
  /\nlatchkey_settings_pauses_count (\d+)\n/.exec(await (await fetch(`${opsUrl}/metrics`)).text())?.[1]

describe('settings, effective within 2 s', () => {
  test('settings: pausing forwarding for a tenant uses no attempts, and forwarding resumes immediately', async () => {
    const [acme, other] = [receivers.acme.calls.length, receivers.other.calls.length]
    await settings('set', 'forwarding.paused', 'true', '--tenant', 'acme')
    await until(async () => (await pausesOf(forwarderOps)) === '1', inForceMsMax)
    expect((await send()).status).toBe(200)
    expect((await send(otherKey)).status).toBe(200)
    // Waits for the delivery of the other tenant's later event, which shows that claims have skipped the first tenant.
    await receivers.other.received(other + 1)
    await until(async () => (await rows('SELECT FROM deliveries_due')).length === 1)
    expect(await rows('SELECT attempts, claims, lease, is_retry FROM deliveries_due')).toEqual([
      { attempts: 0, claims: 0, lease: null, is_retry: false },
    ])
    expect(receivers.acme.calls.length).toBe(acme)
    await settings('clear', 'forwarding.paused', '--tenant', 'acme')
    await until(() => receivers.acme.calls.length === acme + 1, inForceMsMax)
    await until(async () => (await rows('SELECT FROM deliveries_due')).length === 0)
    expect(await rows('SELECT outcome, attempt FROM attempts')).toEqual([
      { outcome: 'delivered', attempt: 1 },
      { outcome: 'delivered', attempt: 1 },
    ])
    expect(
      await rows(`SELECT actor, action, detail->'old' AS old, detail->'new' AS new FROM audit
      WHERE action LIKE 'settings.%' ORDER BY id`),
    ).toMatchObject([
      { actor: 'operator:dev', action: 'settings.set', old: null, new: true },
      { action: 'settings.cleared', old: true, new: null },
    ])
  }, 60_000)

  test('settings: forwarding paused for all tenants stays paused after a restart of the forwarder', async () => {
    const acme = receivers.acme.calls.length
    await settings('set', 'forwarding.paused', 'true')
    await until(async () => (await pausesOf(forwarderOps)) === '1', inForceMsMax)
    expect((await send()).status).toBe(200)
    const second = startProcess('forwarder', env)
    const opsUrl = `http://localhost:${String((await second.logged('listening')).opsPort)}`
    expect(await pausesOf(opsUrl)).toBe('1')
    expect(await rows('SELECT claims FROM deliveries_due')).toEqual([{ claims: 0 }])
    const claims = /\nlatchkey_delivery_claims_total (\d+)\n/
    expect(claims.exec(await (await fetch(`${opsUrl}/metrics`)).text())?.[1]).toBe('0')
    second.signal('SIGTERM')
    expect(await second.exited).toBe(0)
    expect(receivers.acme.calls.length).toBe(acme)
    await settings('clear', 'forwarding.paused')
    await until(() => receivers.acme.calls.length === acme + 1, inForceMsMax)
  }, 60_000)

  test('settings: calls of a paused provider get 503 with Retry-After, and are listed as refused', async () => {
    await settings('set', 'providers.generic.paused', 'true', '--tenant', 'acme')
    let refused = await send()
    await until(async () => (refused = await send()).status === 503, inForceMsMax)
    expect(refused.headers.get('retry-after')).toBe('30')
    expect(await refused.json()).toMatchObject({
      statusCode: 503,
      error: 'Service Unavailable',
      code: 'provider_paused',
      requestId: expect.any(String),
    })
    expect((await send(otherKey)).status).toBe(200)
    await until(
      async () => (await rows('SELECT cause FROM refused_calls'))[0]?.['cause'] === 'provider_paused',
    )
    await settings('clear', 'providers.generic.paused', '--tenant', 'acme')
    await until(async () => (await send()).status === 200, inForceMsMax)
  }, 60_000)

  test('settings: a declared provider is paused under its name and its aliases, and for its tenant only', async () => {
    let calls = 0
    const push = async (tenant: string, provider = 'gitlab') => {
      const headers = { 'X-Gitlab-Token': providerSecret, 'X-Gitlab-Event': 'Push Hook' }
      const sent = { ...headers, 'Idempotency-Key': `push-${(calls += 1)}` }
      const url = `${api.url}/v1/t/${tenant}/webhooks/${provider}`
      return (await fetch(url, { method: 'POST', headers: sent, body: '{}' })).status
    }
    expect([await push('acme'), await push('other')]).toEqual([200, 200])
    await settings('set', 'providers.gitlab.paused', 'true', '--tenant', 'acme')
    await until(async () => (await push('acme')) === 503, inForceMsMax)
    expect(await push('other')).toBe(200)
    expect(await settings('list', '--tenant', 'acme')).toMatch(/^providers\.gitlab\.paused +true/m)
    await settings('clear', 'providers.gitlab.paused', '--tenant', 'acme')
    await until(async () => (await push('acme')) === 200, inForceMsMax)
  }, 60_000)

  test('settings: with log sampling 0, no success and every failure is logged', async () => {
    const unknown = () => fetch(`${api.url}/v1/nowhere`).then(({ status }) => status)
    const lines = () => api.lines('request').filter(({ status }) => status === 200).length
    const { version } = JSON.parse(await settings('set', 'log.sampling', '0', '--json')) as {
      version: number
    }
    const inForce = () => api.lines('runtime settings loaded')
    await until(() => inForce().some((line) => line['settingsVersion'] === version), inForceMsMax)
    const before = lines()
    for (let calls = 0; calls < 20; calls += 1) expect((await send()).status).toBe(200)
    expect(await unknown()).toBe(404)
    await until(() => api.lines('request').some(({ status }) => status === 404))
    expect(lines()).toBe(before)
    await settings('clear', 'log.sampling')
    await until(async () => (await send()).status === 200 && lines() > before, inForceMsMax)
  }, 60_000)

  test('settings: default retention applies to tenants without their own retention', async () => {
    await settings('set', 'retention.payloadDays', '3')
    await settings('set', 'retention.eventDays', '5')
    const kept = `SELECT expires_on - received_at::date AS days, payload_expires_on - received_at::date AS payload_days
      FROM events ORDER BY id DESC LIMIT 1`
    await until(async () => {
      expect((await send()).status).toBe(200)
      const [event] = await rows(kept)
      // Expects one day more, since a row is removed on the day after its last day.
      return Number(event?.['days']) === 6 && Number(event?.['payload_days']) === 4
    }, inForceMsMax)
    await settings('clear', 'retention.eventDays')
    await settings('clear', 'retention.payloadDays')
  }, 60_000)

  test('settings: default limits apply to tenants without their own limits', async () => {
    const lock = () =>
      fetch(`${api.url}/v1/record`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${testApiKey}` },
        body: JSON.stringify({ scope: 'limits', key: crypto.randomUUID() }),
      }).then(({ status }) => status)
    await settings('set', 'limits.locksPerMinute.hard', '0')
    await until(async () => (await lock()) === 429, inForceMsMax)
    await settings('clear', 'limits.locksPerMinute.hard')
    await until(async () => (await lock()) === 200, inForceMsMax)
  }, 60_000)
})
