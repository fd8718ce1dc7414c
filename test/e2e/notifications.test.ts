// Follows a notification in a running installation, from a callback that responds with 410 to the owner's receiver, the lists and the
// tenant's status.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { adminToken, openBackofficeOn } from '#test/support/backoffice.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

let api: TestApi
let pool: Pool
let callback: CallbackReceiver
let owner: CallbackReceiver
let slack: CallbackReceiver
let forwarder: TestProcess
let backoffice: Awaited<ReturnType<typeof openBackofficeOn>>

const secretOf = (name: string, values: Readonly<Record<string, string>>) => `apiVersion: v1
kind: Secret
metadata: {name: ${name}, namespace: shops}
stringData: ${JSON.stringify(values)}
---
`

/** Manifest of a tenant whose notifications this block of its spec configures. */
function manifestOf(slug: string, key: string, notifications: string): string {
  const url = `{url: "${callback.url}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: ${slug}-signing}}`
  const spec = `callback: ${url}\n  notifications: ${notifications}`
  return `${webhookTenantYaml(slug, key).replace(/callback: .*/, spec)}${secretOf(`${slug}-signing`, { signingSecret: callbackSecret })}`
}

/** The part of a Slack webhook's URL that is a secret. */
const slackToken = 'T0B0secretpath'
const otherKey = testApiKey.replace(/.{6}$/, 'aaaaaa')

beforeAll(async () => {
  callback = startReceiver()
  owner = startReceiver()
  slack = startReceiver({ accepts: 'anything' })
  callback.answer(() => new Response(null, { status: 410 }))
  const { redisUrl } = await testStores()
  const slackUrl = slack.url.replace(/hook$/, slackToken)
  const local = 'allowedCIDRs: [127.0.0.0/8]'
  api = await startTestApi({
    manifests:
      manifestOf(
        'acme',
        testApiKey,
        `{url: "${owner.url}", ${local}, signingSecretRef: {name: acme-signing}}`,
      ) +
      manifestOf('globex', otherKey, `{urlSecretRef: {name: globex-slack}, format: slack, ${local}}`) +
      secretOf('globex-slack', { url: slackUrl }),
  })
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  forwarder = startProcess('forwarder', {
    LATCHKEY_DATABASE_URL: api.databaseUrl,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
  })
  await forwarder.logged('listening')
  backoffice = await openBackofficeOn({ ...api, redisUrl })
}, 60_000)
afterAll(async () => {
  await backoffice.close()
  forwarder.signal('SIGTERM')
  await forwarder.exited
  await pool.end()
  await api.close()
  await Promise.all([callback, owner, slack].map((each) => each.stop()))
}, 30_000)

async function sendWebhook(key: string): Promise<void> {
  const { body, headers } = signGeneric(genericBody())
  const response = await fetch(`${api.url}/v1/webhooks/generic`, {
    method: 'POST',
    headers: { ...headers, Authorization: `Bearer ${key}` },
    body,
  })
  expect(response.status).toBe(200)
}

const read = async (path: string) => {
  const url = `${backoffice.url}/internal/v1${path}`
  return (await fetch(url, { headers: { Authorization: `Bearer ${adminToken}` } })).json() as Promise<{
    readonly items: readonly { readonly id: string; readonly type: string; readonly tenantId: string }[]
  }>
}

test('notifications: a callback that responds 410 causes one notification at the second receiver, which the lists and pages show', async () => {
  await sendWebhook(testApiKey)
  const [call] = await owner.received(1)
  expect(call?.verified).toBe(true)
  const event = JSON.parse(call?.body ?? '') as { id: string; tenantId: string }
  expect(event).toMatchObject({
    provider: 'latchkey',
    type: 'latchkey.callback.suspended',
    payload: { reason: 'gone', tenant: { namespace: 'shops', name: 'acme' } },
  })
  await until('the notification is delivered', async () => {
    const { items } = await read('/events?provider=latchkey&state=processed')
    return items.length === 1 && items[0]?.id === event.id
  })
  expect(callback.calls).toHaveLength(1)
  expect(await read(`/tenants/${event.tenantId}`)).toMatchObject({
    spec: { notifications: { url: `${new URL(owner.url).origin}/…` } },
    notifications: { state: 'active', last: { id: event.id, state: 'processed' } },
  })
  const session = await openDashboardSession(backoffice.url, adminToken)
  expect((await session.get(`/tenants/${event.tenantId}`)).html).toContain('latchkey.callback.suspended')
  expect((await session.get('/events?provider=latchkey')).html).toContain(event.id)
  expect((await session.get(`/events/${event.id}`)).html).toContain('Latchkey made this event')
  const { rows } = await pool.query<{ used: number }>(
    "SELECT count(*) AS used FROM events WHERE provider <> 'latchkey'",
  )
  expect(rows).toEqual([{ used: 1 }])
}, 60_000)

test('notifications: a Slack webhook from a Secret gets a message, and its URL is neither logged nor shown', async () => {
  await sendWebhook(otherKey)
  const [call] = await slack.received(1)
  expect(JSON.parse(call?.body ?? '')).toMatchObject({
    text: expect.stringContaining('Deliveries to the callback are suspended (shops/globex)'),
  })
  const { rows } = await pool.query<{ id: string; texts: string }>(
    `SELECT t.id, t.spec::text || t.conditions::text || coalesce((SELECT string_agg(a.answer, '') FROM attempts a), '') AS texts
     FROM tenants t WHERE name = 'globex'`,
  )
  const page = await (await openDashboardSession(backoffice.url, adminToken)).get(`/tenants/${rows[0]?.id}`)
  expect(page.html).toContain('a URL in Secret globex-slack')
  const shown = [
    rows[0]?.texts,
    page.html,
    JSON.stringify(await read(`/tenants/${rows[0]?.id}`)),
    forwarder.output(),
  ]
  for (const text of shown) expect(text).not.toContain(slackToken)
}, 60_000)
