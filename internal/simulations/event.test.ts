import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Keying } from '#internal/intake/caller.ts'
import { findProvider } from '#internal/providers/built-in/registry.ts'
import { readCall } from '#internal/providers/declared/event.ts'
import { eventCatalogue, findDeclaration, simulateDeclared } from '#internal/providers/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { emptyDeclarations } from '#internal/tenants/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { expectDocumented } from '#test/support/documents/contract.ts'
import { simulationKeyOf, simulationTenantYaml } from '#test/support/intake/simulation-calls.ts'
import { until } from '#test/support/until.ts'
import { CallSigner } from './simulated-call.ts'

const path = '/v1/simulate/event'
const providers = ['card', 'wallet', 'storefront', 'codehost', 'generic'] as const

let api: TestApi
let pool: Pool
beforeAll(async () => {
  api = await startTestApi({
    manifests: [
      simulationTenantYaml('acme', testApiKey, { providers: [...providers, 'gitlab', 'telnyx', 'awssns'] }),
      simulationTenantYaml('plain', simulationKeyOf('plain'), { providers: ['generic'] }),
      simulationTenantYaml('asleep', simulationKeyOf('asleep'), { spec: ['suspended: true'] }),
      simulationTenantYaml('tight', simulationKeyOf('tight'), {
        providers: ['generic'],
        spec: ['limits: {eventsPerMinute: {hard: 1}}'],
      }),
    ].join(''),
  })
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

/** Returns the call that a simulation of the provider makes. */
async function unsignedCall(name: string) {
  const declaration = findDeclaration(name, emptyDeclarations)
  const sample = { rawType: 'message.received', payload: {} }
  const call =
    declaration &&
    simulateDeclared(declaration, { id: 'evt_1', sample, occurredAtMs: Date.now(), secret: 'hush' })
  if (!call) throw new Error(`${name} cannot be simulated`)
  return { body: Buffer.from(call.body), headers: call.headers }
}

const post = (body: object, apiKey = testApiKey) =>
  api.call('POST', path, body, { Authorization: `Bearer ${apiKey}` })

interface Sent {
  readonly simulationId: string
  readonly event: { readonly id: string; readonly type: string; readonly sourceEventId: string }
}

async function stored(id: string) {
  const { rows } = await pool.query(
    `SELECT e.type, e.source_event_id, e.origin, e.headers::json AS headers, p.payload::json AS payload
    FROM events e JOIN event_payloads p ON p.event_id = e.id WHERE e.id = $1`,
    [id],
  )
  return rows[0] as { type: string; headers: Record<string, string>; payload: never; origin: string }
}

test.each([
  ['card', 'chargeback.created'],
  ['wallet', 'payment.succeeded'],
  ['storefront', 'order.paid'],
  ['codehost', 'code.pushed'],
  ['generic', 'invoice.approved'],
])('POST simulate/event: an event of %s is stored as a simulation', async (provider, type) => {
  const answer = await post({ provider, type, overrides: { note: 'ü' } })
  expect(answer.status).toBe(202)
  expectDocumented('POST', path, answer)
  const { simulationId, event } = answer.json as unknown as Sent
  const found = await stored(event.id)
  expect(found).toMatchObject({ type, source_event_id: event.sourceEventId, origin: 'simulation' })
  expect(event.type).toBe(type)
  expect(found.headers).toMatchObject({
    'latchkey-origin': 'simulation',
    'latchkey-simulation': simulationId,
  })
  const payload = provider === 'generic' ? found.payload['data'] : found.payload
  expect(payload).toMatchObject({ note: 'ü' })
})

test('POST simulate/event: overrides are merged into nested objects, and each call creates another event', async () => {
  const body = {
    provider: 'stripe',
    type: 'chargeback.created',
    overrides: { id: 'evt_mine', data: { object: { amount: 77, evidence: null } } },
  }
  const ids = []
  for (let call = 0; call < 2; call += 1) {
    const { event } = (await post(body)).json as unknown as Sent
    ids.push(event.sourceEventId)
    const { payload } = await stored(event.id)
    expect(payload).toMatchObject({ id: event.sourceEventId })
    expect(payload['data']['object']).toMatchObject({ amount: 77, evidence: null, object: 'dispute' })
  }
  expect(new Set(ids).size).toBe(2)
})

const refusals: [what: string, body: object, apiKey: string, status: number, code: string][] = [
  [
    'a type of another provider',
    { provider: 'card', type: 'order.paid' },
    testApiKey,
    400,
    'invalid_request',
  ],
  ['an unknown type', { provider: 'card', type: 'constructor' }, testApiKey, 400, 'invalid_request'],
  ['an unknown provider', { provider: 'x', type: 'order.paid' }, testApiKey, 400, 'invalid_request'],
  ['another field', { provider: 'generic', type: 'a.b', x: 1 }, testApiKey, 400, 'invalid_request'],
  [
    'overrides that break the event',
    { provider: 'card', type: 'chargeback.created', overrides: { type: 7 } },
    testApiKey,
    400,
    'invalid_request',
  ],
  [
    'a provider of another tenant',
    { provider: 'card', type: 'chargeback.created' },
    simulationKeyOf('plain'),
    409,
    'provider_not_ready',
  ],
  [
    'a suspended tenant',
    { provider: 'card', type: 'chargeback.created' },
    simulationKeyOf('asleep'),
    403,
    'tenant_suspended',
  ],
]
test.each(refusals)('POST simulate/event: %s is refused', async (_what, body, apiKey, status, code) => {
  const answer = await post(body, apiKey)
  expect([answer.status, answer.json['code']]).toEqual([status, code])
  expectDocumented('POST', path, answer)
})

test('POST simulate/event: the usage limit of the tenant applies', async () => {
  // Repeats the call, because the usage count of the minute reaches the process with a delay.
  await until(async () => {
    const { status } = await post({ provider: 'generic', type: 'a.b' }, simulationKeyOf('tight'))
    return status === 429
  })
})

test.each([
  ['a type of its table', 'pull_request.opened', 'Merge Request Hook', 'pull_request.opened'],
  [
    'the type of a vector, with the vector’s payload',
    'pull_request.merged',
    'Merge Request Hook',
    'pull_request.merged',
  ],
  ['a raw type of its table', 'Push Hook', 'Push Hook', 'code.pushed'],
  ['a raw type that the provider does not list', 'Wiki Page Hook', 'Wiki Page Hook', 'gitlab.wiki.page.hook'],
])('POST simulate/event: a declared provider accepts %s', async (_what, type, rawType, normalized) => {
  const answer = await post({ provider: 'gitlab', type, overrides: { more: 1 } })
  expectDocumented('POST', path, answer)
  const { isSigned, event } = answer.json as unknown as Sent & { isSigned: boolean }
  expect([answer.status, isSigned, event]).toMatchObject([
    ...([202, true] as const),
    { type: normalized, providerRawType: rawType, sourceEventId: expect.stringContaining('evt_sim_') },
  ])
  const { payload, origin, headers } = await stored(event.id)
  expect([payload, origin]).toMatchObject([{ more: 1 }, 'simulation'])
  if (type === 'pull_request.merged') expect(payload).toMatchObject({ object_kind: 'merge_request' })
  expect(headers).not.toHaveProperty('x-gitlab-token')
})

test('POST simulate/event: an event of a provider with a private key is accepted without a signature, and the response states this', async () => {
  const answer = await post({ provider: 'telnyx', type: 'message.received' })
  expectDocumented('POST', path, answer)
  expect([answer.status, answer.json['isSigned']]).toEqual([202, false])
  const { body, headers } = await unsignedCall('telnyx')
  const real = await fetch(`${api.url}/v1/t/acme/webhooks/telnyx`, { method: 'POST', body, headers })
  expect(real.status).toBe(400)
})

test('POST simulate/event: an Amazon SNS message that confirms a subscription is refused, and other messages are accepted', async () => {
  const overrides = { TopicArn: 'arn:aws:sns:us-east-1:999999999999:Other', Token: 'abc' }
  const refused = await post({ provider: 'awssns', type: 'SubscriptionConfirmation', overrides })
  expectDocumented('POST', path, refused)
  expect([refused.status, refused.json['code']]).toEqual([409, 'provider_not_ready'])
  const accepted = await post({ provider: 'awssns', type: 'Notification', overrides })
  expect([accepted.status, accepted.json['isSigned']]).toEqual([202, false])
})

const samples = eventCatalogue.flatMap(({ type, providers: each }) =>
  each
    .filter(({ provider }) => provider !== 'gateway')
    .map(({ provider, providerRawType, example }) => ({ type, provider, providerRawType, example })),
)
test('simulated events: every type of the catalogue passes verification and is stored with the same type', async () => {
  const signer = new CallSigner()
  const nowMs = Date.now()
  const settings = {
    wallet: { webhookId: 'W1', environment: 'live' },
    storefront: { shopDomain: 'acme.myshopify.com' },
  } as const
  const wrong = []
  for (const { type, provider: name, providerRawType: rawType, example: payload } of samples) {
    const provider = findProvider(name)
    if (!provider) throw new Error(name)
    const keying: Keying =
      'prepare' in provider
        ? {
            kind: 'secrets',
            provider,
            keys: provider.prepare(['hush']),
            unreadableCount: 0,
            secrets: () => ['hush'],
          }
        : { kind: 'certificate', provider }
    const caller = {
      kind: 'caller',
      tenant: {} as never,
      provider,
      settings,
      keying,
      state: 'accepted',
      retention: { payloadDays: 30, eventDays: 90 },
    } as const
    const signed = await signer.write(caller, {
      id: 'evt_1',
      sample: { rawType, payload },
      overrides: {},
      occurredAtMs: nowMs,
      signedAtMs: nowMs,
    })
    const by = signed?.caller.keying
    if (!signed || !by || by.kind === 'certificate' || by.kind === 'unsigned') throw new Error(name)
    const { headers, body } = signed
    const call = { headers, body, settings, nowMs, signatureAgeMsMax: 300_000 }
    const read =
      by.kind === 'signer' ? readCall(by.provider, call, by.signer) : readCall(by.provider, call, by.keys)
    if (read.kind !== 'event' || read.type !== type || read.sourceEventId !== 'evt_1')
      wrong.push([name, type, read])
  }
  expect(samples.length).toBeGreaterThan(500)
  expect(wrong).toEqual([])
})
