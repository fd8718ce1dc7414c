import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { closeBreaker, suspendQueue } from '#internal/events/index.ts'
import {
  type AskedRight,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { providerSecret } from '#test/support/intake/webhook-calls.ts'

let backoffice: TestBackoffice
let receiver: CallbackReceiver
let session: DashboardSession
let acme: string

beforeAll(async () => {
  receiver = startReceiver()
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme', { callbackUrl: receiver.url, spec: ['displayName: Acme Goods'] }),
      dashboardTenantYaml('bolt', { namespace: 'depots' }),
      dashboardTenantYaml('crate', { walletStage: 'off' }),
      dashboardTenantYaml('dock', { walletStage: 'verify' }),
    ].join(''),
  )
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, someUser())
  acme = backoffice.tenantId('acme')
}, 30_000)
afterAll(async () => {
  await backoffice.close()
  await receiver.stop()
})

describe('tenant list', () => {
  test.each([
    ['its slug', () => 'acme'],
    ['part of its slug, in capitals', () => 'CM'],
    ['part of its display name', () => 'goods'],
    ['its namespace and name', () => 'shops/ac'],
    ['its id', () => acme],
    ['the prefix of its key', () => dashboardKey('acme').slice(0, 11)],
  ])('tenant list: finds a tenant by %s', async (_by, search) => {
    const { status, html } = await session.get(`/tenants?search=${encodeURIComponent(search())}`)
    expect(status).toBe(200)
    expect(html).toContain(`href="/tenants/${acme}"`)
    expect(html).not.toContain(`href="/tenants/${backoffice.tenantId('bolt')}"`)
  })

  test.each(['nobody', 'ten_00000000000000000000000000', 'lk_nobody00'])(
    'tenant list: says that no tenant matches %s',
    async (search) => {
      const { status, html } = await session.get(`/tenants?search=${search}`)
      expect(status).toBe(200)
      expect(html).toContain(`No tenants match`)
    },
  )

  test('tenant list: truncates a pasted API key to its prefix', async () => {
    const { location } = await session.get(`/tenants?search=${dashboardKey('acme')}`)
    expect(location).toBe(`/tenants?search=${dashboardKey('acme').slice(0, 11)}`)
  })

  test('tenant list: a user without rights on the whole cluster is asked to name namespaces', async () => {
    backoffice.allow(({ namespace, name }) => namespace === 'depots' && name === '')
    const clerk = await openDashboardSession(backoffice.url, someUser())
    const refused = await clerk.get('/tenants')
    expect(refused.status).toBe(403)
    expect(refused.html).toContain('Choose your namespaces')
    backoffice.allow(() => true)
  })
})

describe('tenant page', () => {
  test('tenant page: shows URLs, conditions and key prefixes, but no key or secret', async () => {
    const { html } = await session.get('/tenants/acme')
    expect(html).toContain('https://hooks.example.test/v1/t/acme/webhooks/card')
    for (const text of ['Acme Goods', acme, 'SecretsSynced', 'acme-provider', 'dashboard, simulations'])
      expect(html).toContain(text)
    expect(html).toContain(`${dashboardKey('acme').slice(0, 11)}…`)
    for (const secret of [dashboardKey('acme'), providerSecret, callbackSecret.slice(6)])
      expect(html).not.toContain(secret)
    expect(html).toContain('kubectl describe tenant acme -n shops')
  })

  test.each([
    ['Off', 'crate', 'Wallet calls are refused until'],
    ['Verify only', 'dock', 'Wallet events are verified and stored, but not delivered until'],
  ])('tenant page: the provider `wallet` in stage %s is marked as not in use', async (badge, slug, note) => {
    const { html } = await session.get(`/tenants/${slug}`)
    expect(html).toContain(`/v1/t/${slug}/webhooks/wallet`)
    expect(html).toContain(`${badge}</span>`)
    expect(html).toContain(note)
    const rolledOut = await session.get('/tenants/acme')
    expect(rolledOut.html).toContain('/v1/t/acme/webhooks/wallet')
    expect(rolledOut.html).not.toContain('the wallet are')
  })

  test('tenant page: can be opened by id, slug and namespace/name', async () => {
    for (const named of [acme, 'acme', 'shops%2Facme'])
      expect((await session.get(`/tenants/${named}`)).status).toBe(200)
    expect((await session.get('/tenants/nobody')).status).toBe(404)
  })

  test('tenant page: neither offers nor performs an action for which the user has no right', async () => {
    backoffice.allow(({ verb, subresource }: AskedRight) => verb === 'get' && subresource === '')
    const reader = await openDashboardSession(backoffice.url, someUser())
    const { html, status } = await reader.get('/tenants/acme')
    expect(status).toBe(200)
    expect(html).not.toContain('/test"')
    const before = receiver.calls.length
    for (const path of ['test', 'resume']) {
      expect((await reader.get(`/tenants/acme/${path}`)).status).toBe(403)
      expect((await reader.post(`/tenants/acme/${path}`)).status).toBe(403)
    }
    expect(receiver.calls).toHaveLength(before)
    backoffice.allow(() => true)
  })
})

describe('test event', () => {
  test('test event: the page asks first, sends one signed call and shows the response', async () => {
    receiver.answer(() => Response.json({ took: 'it' }))
    const asked = await session.get('/tenants/acme/test')
    const [, key = ''] = /name="key" value="([^"]+)"/.exec(asked.html) ?? []
    expect(key.length).toBeGreaterThan(10)
    const before = receiver.calls.length
    const { status, html } = await session.post('/tenants/acme/test', { key })
    expect(status).toBe(200)
    expect(html).toContain('The callback accepted the event')
    expect(html).toContain('{&quot;took&quot;:&quot;it&quot;}')
    const calls = receiver.calls.slice(before)
    expect(calls.map(({ verified }) => verified)).toEqual([true])
    expect(html).toContain(calls[0]?.id ?? 'no call')
    expect((await session.get('/audit?tenant=acme&action=callbacks.tested')).html).toContain(
      'callbacks.tested',
    )
  })

  test('test event: after a failure the page shows the response, redacted and escaped', async () => {
    receiver.answer(
      () => new Response('declined 4242 4242 4242 4242 <img src=x onerror=alert(1)>', { status: 500 }),
    )
    const { html } = await session.post('/tenants/acme/test')
    expect(html).toContain('Test delivery failed')
    expect(html).toContain('It answered 500')
    expect(html).not.toContain('4242 4242 4242 4242')
    expect(html).not.toContain('<img')
    expect(html).toContain('&lt;img src=x')
  })

  test('test event: the editor loads the sample of a type, and the callback receives the edited payload', async () => {
    const { html: form } = await session.get('/tenants/acme/test?provider=card&type=payment.succeeded')
    expect(form).toContain('payment_intent.succeeded')
    receiver.answer(() => new Response(null, { status: 204 }))
    const before = receiver.calls.length
    const fields = {
      provider: 'card',
      type: 'payment.succeeded',
      payload: '{"type":"edited",\r\n"amount":4200}',
    }
    const { status, html } = await session.post('/tenants/acme/test', { key: crypto.randomUUID(), ...fields })
    expect([status, html.includes('The callback accepted the event')]).toEqual([200, true])
    // The form “Send another” contains the type and payload that were sent.
    expect(html).toContain('name="type" value="payment.succeeded"')
    const [call] = receiver.calls.slice(before)
    expect(call?.verified).toBe(true)
    expect(call?.body).toContain('4200')
    expect(call?.body).toContain('"payment.succeeded"')
    expect(call?.body).toContain('"latchkey-origin":"test"')
  })

  test.each([
    ['a payload that is not JSON', { payload: '{"a":1,}' }, 'unexpected character at line 1, column 8'],
    ['a payload that is not an object', { payload: '[]' }, 'The body must be a JSON object'],
    [
      'a type that the provider lacks',
      { provider: 'card', type: 'no.such', payload: '{}' },
      'Must be an event type',
    ],
    ['a type of generic with spaces', { type: 'a b', payload: '{}' }, 'Must be an event type'],
  ])('test event: %s returns 422, keeps the text and sends nothing', async (_case, fields, text) => {
    const before = receiver.calls.length
    const { status, html } = await session.post('/tenants/acme/test', fields)
    expect([status, html.includes(text)]).toEqual([422, true])
    expect(html.replaceAll('&quot;', '"')).toContain(fields.payload)
    expect(receiver.calls.length).toBe(before)
  })

  test('test event: for an unreachable callback the page shows the cause', async () => {
    const { html } = await session.post('/tenants/bolt/test')
    expect(html).toContain('connect_failed')
  })
})

test('suspended callback: the tenant page shows the suspension, and its form resumes the callback', async () => {
  await backoffice.pool.query(
    `INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($1, 'callback', now()) ON CONFLICT DO NOTHING`,
    [acme],
  )
  const nowMs = Date.now()
  await suspendQueue(
    backoffice.pool,
    { tenantId: acme as TenantId, destination: 'callback' },
    { cause: 'gone', nowMs },
  )
  const { html } = await session.get('/tenants/acme')
  expect(html).toContain('<strong>Callback suspended</strong>')
  expect(html).toContain(
    'The callback answered 410 Gone, so it is suspended until it is resumed: events are accepted',
  )
  // The badges are the same before and after the operator has written its conditions.
  const badge = (page: string) =>
    /<h1>.*?<span class="dot" aria-hidden="true"><\/span>([^<]*)<\/span>/.exec(page)?.[1]
  expect(badge(html)).toBe('Callback suspended')
  expect((await session.get('/tenants')).html).toContain('Callback suspended</span>')
  expect((await session.get('/usage?tenant=acme')).html).toContain('<strong>Callback suspended</strong>')
  expect((await session.get('/')).html).toContain('Callback suspended')
  expect((await session.get('/tenants/acme/resume')).html).toContain('Resume deliveries to')
  expect((await session.post('/tenants/acme/resume')).location).toBe(`/tenants/${acme}`)
  for (const path of ['/', '/tenants', '/usage?tenant=acme'])
    expect((await session.get(path)).html).not.toContain('Callback suspended')
  // The callback is shown as resumed, not as active, until one event is delivered.
  expect(badge((await session.get('/tenants/acme')).html)).toBe('Callback resumed')
  await closeBreaker(backoffice.pool, { tenantId: acme as TenantId, destination: 'callback' })
  expect(badge((await session.get('/tenants/acme')).html)).toBe('Ready')
  expect((await session.post('/tenants/acme/resume')).location).toBe(`/tenants/${acme}`)
})
