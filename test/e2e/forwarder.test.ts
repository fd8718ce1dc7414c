import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
// Tests may import any file of a module in `internal`, not only its `index.ts`.
import { handOffChannelOf } from '#internal/events/hand-off.ts'
import { offersChannelFrom } from '#internal/events/index.ts'
import { createPool, openRedis, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { readiness, startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { emptyTables } from '#test/support/stores/empty-tables.ts'
import { testStores } from '#test/support/stores.ts'

const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`
let api: TestApi
let pool: Pool
let receiver: CallbackReceiver
let env: Record<string, string>

beforeAll(async () => {
  receiver = startReceiver()
  api = await startTestApi({ manifests: manifests(receiver.url) })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  env = {
    LATCHKEY_DATABASE_URL: api.databaseUrl,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: keyRing,
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
  }
})
afterAll(async () => {
  await pool.end()
  await api.close()
  await receiver.stop()
})
beforeEach(async () => {
  await emptyTables(
    pool,
    'dedupe_keys',
    'events',
    'event_payloads',
    'attempts',
    'deliveries_due',
    'tenant_queues',
  )
})

/** Manifest of a tenant with all providers and a callback on 127.0.0.1. */
function manifests(url: string): string {
  const callback = `callback: {url: "${url}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: acme-signing}}`
  return `${webhookTenantYaml('acme', testApiKey).replace(/callback: .*/, callback)}apiVersion: v1
kind: Secret
metadata: {name: acme-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
}

async function sendWebhook(): Promise<Record<string, unknown>> {
  const { body, headers } = signGeneric(genericBody())
  const response = await fetch(`${api.url}/v1/webhooks/generic`, {
    method: 'POST',
    headers: { ...headers, Authorization: `Bearer ${testApiKey}` },
    body,
  })
  expect(response.status).toBe(200)
  return JSON.parse(body) as Record<string, unknown>
}

async function count(condition: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(`SELECT count(*) FROM ${condition}`)
  return rows[0]?.count ?? Number.NaN
}

const becomes = async (expected: number, condition: string) => {
  const seen = await poll(async () => ((await count(condition)) === expected ? true : undefined), {
    deadlineMs: 15_000,
  })
  expect({ condition, seen }).toEqual({ condition, seen: true })
}

async function started(forwarder: TestProcess): Promise<string> {
  const { opsPort } = await forwarder.logged('listening')
  return `http://localhost:${String(opsPort)}`
}

/** Answers that a test releases. */
function holdAnswers(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  const noContent = () => new Response(null, { status: 204 })
  receiver.answer(() => promise.then(noContent))
  return () => {
    resolve()
    receiver.answer(noContent)
  }
}

describe('forwarder process', () => {
  test('forwarder: delivers a provider’s call with a signature, logs the delivery, and exits on SIGTERM', async () => {
    const forwarder = startProcess('forwarder', env)
    const opsUrl = await started(forwarder)
    expect(await readiness(opsUrl, 200)).toBe(200)
    const before = receiver.calls.length
    const sent = await sendWebhook()
    const call = (await receiver.received(before + 1))[before]
    await becomes(1, "events WHERE state = 'processed'")
    expect(call?.verified).toBe(true)
    const event = JSON.parse(call?.body ?? '') as Record<string, unknown>
    expect(event['payload']).toEqual(sent)
    expect(event['provider']).toBe('generic')
    const metrics = await (await fetch(`${opsUrl}/metrics`)).text()
    expect(metrics).toContain(
      '\nlatchkey_delivery_attempts_total{outcome="delivered",destination_kind="webhook"} 1\n',
    )
    expect(metrics).toMatch(/\nlatchkey_events_due_count \d+\n/)
    expect(metrics).toMatch(/\nlatchkey_delivery_delay_seconds_count 1\n/)
    forwarder.signal('SIGTERM')
    expect(await forwarder.exited).toBe(0)
    const [line] = forwarder.lines('delivery attempt')
    expect(line).toMatchObject({
      event: call?.id,
      outcome: 'delivered',
      status: 204,
      attempt: 1,
      provider: 'generic',
    })
    expect(forwarder.output()).not.toContain(callbackSecret)
    expect(forwarder.errors()).toBe('')
  }, 60_000)

  test('forwarder: on SIGTERM, releases hanging deliveries, which another forwarder claims immediately', async () => {
    const answer = holdAnswers()
    const first = startProcess('forwarder', { ...env, LATCHKEY_SHUTDOWN_GRACE_SECONDS: '4' })
    await started(first)
    const before = receiver.calls.length
    await sendWebhook()
    await receiver.received(before + 1)
    first.signal('SIGTERM')
    expect(await first.exited).toBe(0)
    expect(await count('deliveries_due WHERE lease IS NULL AND claims = 0 AND attempts = 0')).toBe(1)
    answer()
    const second = startProcess('forwarder', env)
    await becomes(1, "events WHERE state = 'processed'")
    second.signal('SIGTERM')
    await second.exited
    expect(await count('attempts')).toBe(1)
  }, 60_000)

  test('forwarder: listens for messages before each offer that it sends to intake', async () => {
    const { redisUrl } = await testStores()
    const redis = openRedis({ url: redisUrl, onError: () => undefined })
    const listeners: Promise<number>[] = []
    const onOffer = (message: string) => {
      const [leaseToken] = JSON.parse(message) as [string]
      // Publishes a message that the forwarder ignores.
      listeners.push(redis.publish(handOffChannelOf(leaseToken), '[]'))
    }
    try {
      const channel = await offersChannelFrom(pool)()
      const subscribe = () =>
        redis.subscribe(channel, onOffer).then(
          () => true,
          () => undefined,
        )
      expect(await poll(subscribe, { deadlineMs: 20_000 })).toBe(true)
      const forwarder = startProcess('forwarder', env)
      await started(forwarder)
      expect(await poll(() => listeners.length >= 3 || undefined, { deadlineMs: 20_000 })).toBe(true)
      expect(new Set(await Promise.all(listeners))).toEqual(new Set([1]))
      forwarder.signal('SIGTERM')
      expect(await forwarder.exited).toBe(0)
    } finally {
      await redis.close()
    }
  }, 60_000)

  test('forwarder: receives events of a tenant without a backlog directly from intake, and delivers them without claims', async () => {
    const forwarder = startProcess('forwarder', env)
    const opsUrl = await started(forwarder)
    const handed = async () => {
      const metrics = await (await fetch(`${opsUrl}/metrics`)).text()
      return Number(/\nlatchkey_delivery_handed_total (\d+)\n/.exec(metrics)?.[1])
    }
    const before = receiver.calls.length
    let sent = 0
    const isHanded = await poll(
      async () => {
        await sendWebhook()
        sent += 1
        await receiver.received(before + sent)
        return (await handed()) >= 3 || undefined
      },
      { deadlineMs: 20_000, everyMs: 50 },
    )
    expect(isHanded).toBe(true)
    await becomes(sent, "events WHERE state = 'processed'")
    await becomes(0, 'deliveries_due')
    expect(await count('attempts')).toBe(sent)
    forwarder.signal('SIGTERM')
    expect(await forwarder.exited).toBe(0)
    expect(receiver.calls.length).toBe(before + sent)
    expect(forwarder.errors()).toBe('')
  }, 60_000)

  test('forwarder: after a forwarder is killed, another forwarder claims the deliveries when their leases expire', async () => {
    const answer = holdAnswers()
    const first = startProcess('forwarder', env)
    await started(first)
    const before = receiver.calls.length
    for (let each = 0; each < 5; each += 1) await sendWebhook()
    await receiver.received(before + 5)
    first.signal('SIGKILL')
    await first.exited
    answer()
    const second = startProcess('forwarder', env)
    await becomes(5, "events WHERE state = 'processed'")
    second.signal('SIGTERM')
    expect(await second.exited).toBe(0)
    const ids = receiver.calls.slice(before).map(({ id }) => id)
    expect(new Set(ids).size).toBe(5)
    expect(ids.length).toBe(10)
  }, 60_000)

  test('forwarder: exits if its environment contains an unknown setting', async () => {
    const forwarder = startProcess('forwarder', { ...env, LATCHKEY_LEASE: '5' })
    expect(await forwarder.exited).toBe(2)
    expect(forwarder.errors()).toContain('LATCHKEY_LEASE')
  })
})
