// Calls the internal API as another service would, with the types that openapi-typescript generates from its document.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import createClient from 'openapi-fetch'
import type { components, paths } from './internal.generated.ts'
import { dataOf, environment, errorOf } from './results.ts'

const headers = { Authorization: `Bearer ${environment('BACKOFFICE_TOKEN')}` }
const client = createClient<paths>({ baseUrl: environment('BACKOFFICE_URL'), headers })
type Schemas = components['schemas']

/** Returns the tenant `acme` from the list, as every other call finds it. */
async function tenants(): Promise<string> {
  const { items } = dataOf(await client.GET('/internal/v1/tenants', { params: { query: { search: 'acm' } } }))
  const [tenant] = items
  assert(tenant?.slug === 'acme')
  const params = { path: { tenantId: tenant.id } }
  const detail: Schemas['TenantDetail'] = dataOf(
    await client.GET('/internal/v1/tenants/{tenantId}', { params }),
  )
  assert.deepEqual(
    detail.spec.providers.map(({ name }) => name),
    ['card', 'storefront', 'codehost', 'generic'],
  )
  const rights = dataOf(await client.GET('/internal/v1/tenants/{tenantId}/permissions', { params }))
  assert(rights.see && rights.ingestEvents)
  const nothing = { path: { tenantId: `ten_${'0'.repeat(26)}` } }
  const missing = await client.GET('/internal/v1/tenants/{tenantId}', { params: nothing })
  const code: Schemas['Error']['code'] = errorOf(missing).code
  assert.equal(code, 'not_found')
  return tenant.id
}

async function events(tenantId: string) {
  const payload = { order: 1042, lines: [{ sku: 'a', amount: 2 }] }
  const body = {
    tenantId,
    provider: 'generic',
    sourceEventId: randomUUID(),
    type: 'order.paid',
    payload,
  } as const
  const ingest = () => client.POST('/internal/v1/events', { body })
  const [first, repeated] = [dataOf(await ingest()), dataOf(await ingest())]
  assert.deepEqual([first.isNew, repeated.isNew, repeated.id], [true, false, first.id])

  const query = { tenantId, provider: 'generic', state: 'accepted' } as const
  const { items } = dataOf(await client.GET('/internal/v1/events', { params: { query } }))
  const state: Schemas['EventSummary']['state'] | undefined = items.find(({ id }) => id === first.id)?.state
  assert.equal(state, 'accepted')

  const params = { path: { eventId: first.id } }
  const detail = dataOf(await client.GET('/internal/v1/events/{eventId}', { params }))
  assert.deepEqual([detail.event.id, detail.attempts], [first.id, []])
  const { origin } = detail.event
  assert(origin.kind === 'service' && origin.actor !== '')
  const raw = dataOf(await client.GET('/internal/v1/events/{eventId}/payload', { params }))
  assert.deepEqual(raw.payload, payload)
  const replayed = dataOf(await client.POST('/internal/v1/events/{eventId}/replays', { params }))
  // Not new, because the first delivery cycle of the event is in progress.
  assert.deepEqual([replayed.tenantId, replayed.isNew], [tenantId, false])
}

async function replays(tenantId: string) {
  const body = {
    tenantId,
    from: new Date(Date.now() - 3_600_000).toISOString(),
    state: 'delivery_failed',
  } as const
  const preview = dataOf(await client.POST('/internal/v1/replay-previews', { body }))
  assert.deepEqual([preview.total, preview.newest], [{ count: 0, isExact: true }, undefined])
  const params = { header: { 'Idempotency-Key': randomUUID() } }
  const { replay } = dataOf(await client.POST('/internal/v1/replays', { params, body }))
  const read = dataOf(
    await client.GET('/internal/v1/replays/{replayId}', { params: { path: { replayId: replay.id } } }),
  )
  assert.equal(read.filter.tenantId, tenantId)
}

async function usage(tenantId: string) {
  const params = { path: { tenantId, emissionId: randomUUID() } }
  const body = { kind: 'exports.rows', amount: 3, occurredAt: new Date().toISOString() }
  const emit = () => client.PUT('/internal/v1/tenants/{tenantId}/usage/{emissionId}', { params, body })
  assert.deepEqual([dataOf(await emit()).isNew, dataOf(await emit()).isNew], [true, false])
  const { hours, over } = dataOf(await client.GET('/internal/v1/tenants/{tenantId}/usage', { params }))
  assert.deepEqual([over, hours.find(({ kind }) => kind === body.kind)?.amount], ['accept', 3])

  const commit = { tenantId, kind: body.kind, amount: 2, commit: true, id: randomUUID() }
  const check = () => client.POST('/internal/v1/guardrails/check', { body: commit })
  const [first, second] = [dataOf(await check()), dataOf(await check())]
  assert.deepEqual([first.decision, first.isNew, second.isNew], ['allow', true, false])
  assert.deepEqual([second.limits[0]?.limit, second.limits[0]?.used], ['exports.rowsPerMonth', 5])

  const limit = { path: { tenantId, limit: 'eventsPerMonth' } }
  const override = { hard: 5, expiresAt: new Date(Date.now() + 3_600_000).toISOString(), reason: 'a client' }
  dataOf(
    await client.PUT('/internal/v1/tenants/{tenantId}/limits/{limit}/override', {
      params: limit,
      body: override,
    }),
  )
  const { limits } = dataOf(await client.GET('/internal/v1/tenants/{tenantId}/limits', { params }))
  const overridden = limits.find((each) => each.limit === 'eventsPerMonth')
  assert.deepEqual([overridden?.hard, overridden?.override?.reason], [5, 'a client'])
}

async function guardrails(tenantId: string) {
  const check = (body: { kind: string; amount: number; commit?: boolean; id?: string }) =>
    client.POST('/internal/v1/guardrails/check', { body: { tenantId, ...body } })
  const body = { kind: 'exports.rows', amount: 2, commit: true, id: randomUUID() }
  const [counted, repeated] = [dataOf(await check(body)), dataOf(await check(body))]
  assert.deepEqual([counted.decision, counted.isCommitted, counted.isNew], ['allow', true, true])
  assert.deepEqual([repeated.decision, repeated.isNew], ['allow', false])
  // The function `usage` has lowered the hard limit of events to 5. Events over this limit are accepted.
  const over = dataOf(await check({ kind: 'events', amount: 6 }))
  const decision: 'allow' | 'warn' | 'deny' = over.decision
  assert.deepEqual([decision, over.reason, over.limit], ['warn', 'hard_limit', 'eventsPerMonth'])
}

async function settings(tenantId: string) {
  const params = { path: { tenantId, name: 'forwarding.paused' } } as const
  const path = '/internal/v1/tenants/{tenantId}/settings/{name}' as const
  const { version } = dataOf(await client.PUT(path, { params, body: { value: true, expectedVersion: 0 } }))
  const { items } = dataOf(await client.GET('/internal/v1/tenants/{tenantId}/settings', { params }))
  const stored = items.find(({ name }) => name === params.path.name)
  assert.deepEqual([stored?.value, stored?.version], [true, version])
  const stale = await client.PUT(path, { params, body: { value: false, expectedVersion: 0 } })
  assert.equal(errorOf(stale).code, 'conflict')
  assert.equal(dataOf(await client.GET(path, { params })).version, version)
  assert.equal(dataOf(await client.DELETE(path, { params })).existed, true)
}

async function callbackAndSimulations(tenantId: string) {
  const path = { tenantId }
  const tested = dataOf(
    await client.POST('/internal/v1/tenants/{tenantId}/callback/test', { params: { path } }),
  )
  // Fails, because the host of the callback does not exist.
  assert(tested.result.kind === 'failed' && tested.result.cause !== '')
  const body = { amount: 100, currency: 'EUR', stepSeconds: 600 }
  const params = { path, header: { 'Idempotency-Key': randomUUID() } }
  const { simulation } = dataOf(
    await client.POST('/internal/v1/tenants/{tenantId}/simulations', { params, body }),
  )
  const one = { params: { path: { simulationId: simulation.simulationId } } }
  const { state } = dataOf(await client.GET('/internal/v1/simulations/{simulationId}', one))
  assert.notEqual(state, 'cancelled')
  const cancelled = dataOf(await client.POST('/internal/v1/simulations/{simulationId}/cancel', one))
  assert.equal(cancelled.simulation.state, 'cancelled')
}

async function history(tenantId: string) {
  const query = { tenantId, limit: 100 }
  const { items } = dataOf(await client.GET('/internal/v1/audit-entries', { params: { query } }))
  assert(items.some(({ action, detail }) => action === 'usage.emitted' && Object.keys(detail).length > 0))
  const { items: locks } = dataOf(
    await client.GET('/internal/v1/tenants/{tenantId}/executions', { params: { path: { tenantId } } }),
  )
  assert.deepEqual(locks, [])
}

const tenantId = await tenants()
await events(tenantId)
await replays(tenantId)
await usage(tenantId)
await guardrails(tenantId)
await settings(tenantId)
await callbackAndSimulations(tenantId)
await history(tenantId)
console.log('done')
