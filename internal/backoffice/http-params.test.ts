import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { internalDocument } from '#internal/openapi/index.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { seedTenant } from '#test/support/dashboard/backoffice-tenants.ts'
import { fillPath, openContract } from '#test/support/documents/contract.ts'
import { simulationTenantYaml } from '#test/support/intake/simulation-calls.ts'

const { operations, expectDocumented } = openContract(internalDocument())
let backoffice: TestBackoffice
let tenantId = ''
let failedId = ''
beforeAll(async () => {
  backoffice = await startTestBackoffice(
    simulationTenantYaml('acme', 'lk_parameters_0123456789abcdef0123456789ab'),
  )
  tenantId = backoffice.tenantId('acme')
  failedId = (await seedTenant(backoffice, 'acme')).failedId
}, 30_000)
afterAll(() => backoffice.close())

const keyed = () => ({ headers: { 'Idempotency-Key': crypto.randomUUID() } })
const call = (method: string, path: string, body?: object) =>
  backoffice.call(method, `/internal/v1/${path}`, { ...keyed(), ...(body && { body }) })

describe('path parameters', () => {
  const inPath = operations.filter(({ path }) => path.includes('{'))
  const known = () => ({
    tenantId,
    emissionId: 'e-1',
    limit: 'eventsPerMonth',
    name: 'forwarding.paused',
    eventId: `evt_${'0'.repeat(26)}`,
    replayId: `rpl_${'0'.repeat(26)}`,
    simulationId: `sim_${'0'.repeat(26)}`,
    subscriptionName: 'shop',
  })
  const exampleOf = (operation: (typeof inPath)[number]['operation']) =>
    operation.requestBody?.content['application/json']?.examples['example']?.value as object | undefined

  test.each([
    ['too long', 'x'.repeat(129)],
    ['a control character', '%00'],
    ['bytes that are not UTF-8', '%ff'],
    ['of another form', 'a%20b%2Fc'],
  ])('path parameter: %s returns the documented 404 in every operation', async (what, value) => {
    for (const { method, path, operation } of inPath) {
      for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
        // Skips this case for emission ids, which can be any text without control characters.
        if (name === 'emissionId' && what === 'of another form') continue
        const url = fillPath(path, known()).replace(fillPath(`{${name}}`, known()), value)
        const answer = await backoffice.call(method, url, {
          ...keyed(),
          ...(operation.requestBody && { body: exampleOf(operation) ?? {} }),
        })
        expect([method, url, answer.status]).toEqual([method, url, 404])
        expectDocumented(method, path, answer)
      }
    }
  })

  test('path parameter: the longest id of an emission is accepted', async () => {
    const body = { kind: 'exports.rows', amount: 1, occurredAt: new Date().toISOString() }
    for (const id of ['x'.repeat(128), 'Größe\u200b', 'a%20b%2Fc'])
      expect((await call('PUT', `tenants/${tenantId}/usage/${id}`, body)).status).toBe(200)
  })
})

describe('query parameters', () => {
  test.each([
    ['events?limit=0', 400],
    ['events?limit=101', 400],
    ['events?limit=1.5', 400],
    ['events?limit=07', 400],
    ['events?limit=100', 200],
    ['events?provider=Nobody', 400],
    ['events?provider=toString', 400],
    ['audit-entries?action=payloads', 400],
    ['audit-entries?action=payloads.', 200],
    ['audit-entries?action=payloads.read', 200],
    ['events?tenant=ten_1', 400],
    ['events?type=payment.*', 200],
    ['events?type=Payment.*', 200],
    ['events?type=pay*', 400],
    ['events?type=*', 400],
    ['events?status=404', 200],
    ['events?status=5xx', 200],
    ['events?status=none', 200],
    ['events?status=600', 400],
    ['events?status=50x', 400],
    ['events?slowerThanMs=1000', 200],
    ['events?sourceEventId=none', 200],
    ['events?slowerThanMs=0', 400],
    ['refused-calls?provider=stripe', 200],
    ['refused-calls?namespaces=shops&cause=signature_mismatch', 200],
    ['refused-calls?cause=rain', 400],
    ['tenants?namespaces=shops,', 400],
    [`tenants?namespaces=${Array.from({ length: 51 }, () => 'a').join()}`, 400],
    [`tenants?namespaces=${Array.from({ length: 50 }, () => 'a').join()}`, 200],
  ])('query parameter: %s returns %d', async (path, status) => {
    expect((await call('GET', path)).status).toBe(status)
  })

  test('query parameter: an unknown cause of refused calls returns 400', async () => {
    expect((await call('GET', `tenants/${tenantId}/refused-calls?cause=rain`)).status).toBe(400)
  })
})

describe('names of providers', () => {
  const ingested = (provider: string, sourceEventId: string) =>
    call('POST', 'events', {
      tenantId,
      provider,
      sourceEventId,
      type: 'payment.succeeded',
      payload: {},
    })

  test('vendor’s name: an event is stored under the neutral name, and both names find it', async () => {
    const first = await ingested('stripe', 'vendor-1')
    expect(first.json).toMatchObject({ isNew: true })
    expect((await ingested('card', 'vendor-1')).json).toEqual({ id: first.json['id'], isNew: false })
    for (const provider of ['stripe', 'card']) {
      const found = await call('GET', `events?tenantId=${tenantId}&provider=${provider}&limit=1`)
      expect(found.json).toMatchObject({ items: [{ id: first.json['id'], provider: 'card' }] })
    }
  })

  test('provider: an event of a provider that the tenant has not set up returns 409 `provider_not_ready`', async () => {
    const event = await ingested('github', 'vendor-2')
    expect([event.status, event.json['code']]).toEqual([409, 'provider_not_ready'])
  })

  test('vendor’s name: a replay has the neutral name, and a repeated request with the neutral name returns the same replay', async () => {
    const headers = { 'Idempotency-Key': 'by-vendor' }
    const start = (provider: string) =>
      backoffice.call('POST', '/internal/v1/replays', {
        headers,
        body: { tenantId, provider, from: '2026-11-01T00:00:00Z' },
      })
    const first = await start('github')
    expect([first.status, first.json]).toMatchObject([
      202,
      { isNew: true, replay: { filter: { provider: 'codehost' } } },
    ])
    expect((await start('codehost')).json).toMatchObject({ isNew: false, replay: first.json['replay'] })
    const preview = { tenantId, provider: 'shopify', from: '2026-11-01T00:00:00Z' }
    expect((await call('POST', 'replay-previews', preview)).json).toMatchObject({ total: { count: 0 } })
  })

  test('vendor’s name: a setting is read, written and cleared under the neutral name', async () => {
    for (const path of ['settings', `tenants/${tenantId}/settings`]) {
      const named = `${path}/providers.paypal.paused`
      const neutral = `${path}/providers.wallet.paused`
      expect((await call('PUT', named, { value: true })).json).toMatchObject({
        name: 'providers.wallet.paused',
        isNew: true,
        previousValue: null,
      })
      expect((await call('PUT', neutral, { value: true })).json).toMatchObject({ isNew: false })
      const read = await call('GET', named)
      expect(read.json).toMatchObject({ name: 'providers.wallet.paused', value: true, default: false })
      const { items } = (await call('GET', path)).json as { items: { name: string }[] }
      expect(items.find(({ name }) => name === 'providers.wallet.paused')).toEqual(read.json as never)
      expect((await call('DELETE', named)).json).toEqual({
        name: 'providers.wallet.paused',
        existed: true,
        previousValue: true,
      })
      expect((await call('DELETE', neutral)).json).toMatchObject({ existed: false })
    }
  })
})

test.each([
  ['settings/providers.strip.paused', 'did you mean providers.card.paused'],
  ['settings/providers.slak.paused', 'did you mean providers.slack.paused?'],
  ['settings/mood', 'There is no setting of that name'],
])('setting %s: each method returns 404 and says %s', async (path, text) => {
  for (const [method, body] of [['GET'], ['PUT', { value: true }], ['DELETE']] as const) {
    const answer = await call(method, path, body)
    expect([method, answer.status]).toEqual([method, 404])
    expect(answer.json['message']).toContain(text)
  }
})

test('setting of the installation: under a tenant, each method returns 404 and says that the setting is for the whole installation', async () => {
  for (const [method, body] of [['GET'], ['PUT', { value: 1 }], ['DELETE']] as const) {
    const answer = await call(method, `tenants/${tenantId}/settings/log.sampling`, body)
    expect([answer.status, answer.json['message']]).toEqual([
      404,
      expect.stringContaining('whole installation'),
    ])
  }
})

test('event replay: a request without a body uses the defaults, and a request with an invalid body is refused', async () => {
  const path = '/internal/v1/events/{eventId}/replays'
  const replay = (body?: string) =>
    backoffice.call('POST', fillPath(path, { eventId: failedId }), body === undefined ? {} : { body })
  for (const body of [' ', '[]', '{"cycle":0}'])
    expect([body, (await replay(body)).status]).toEqual([body, 400])
  const [first, repeated] = [await replay(), await replay('{}')]
  expect([first.status, first.json]).toMatchObject([202, { cycle: 2, isNew: true }])
  expect([repeated.status, repeated.json]).toMatchObject([202, { cycle: 2, isNew: false }])
  expectDocumented('POST', path, first)
  const documented = operations.find((each) => each.path === path)?.operation.requestBody
  expect(documented?.required).toBe(false)
})

describe('dry run of a simulation', () => {
  test('dry run: returns the events of a simulation and stores nothing', async () => {
    const count = async () =>
      ((await call('GET', `simulations?tenantId=${tenantId}&limit=100`)).json['items'] as []).length
    const before = await count()
    const asked = { amount: 100, currency: 'eur', stepSeconds: 60, dryRun: true, provider: 'stripe' }
    const answer = await call('POST', `tenants/${tenantId}/simulations`, asked)
    expect([answer.status, answer.json]).toMatchObject([
      202,
      { dryRun: true, isNew: true, simulation: { state: 'scheduled', chargeback: { provider: 'card' } } },
    ])
    expectDocumented('POST', '/internal/v1/tenants/{tenantId}/simulations', answer)
    expect((answer.json['simulation'] as { events: [] }).events).toHaveLength(3)
    expect(await count()).toBe(before)
  })
})
