import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createTransport, type Endpoint } from '#internal/kube/index.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import {
  type ClusterAccess,
  createNamespace,
  createServiceAccount,
  openCluster,
  type TestNamespace,
} from './cluster.ts'
import { type ClusterUsers, openUsers } from './users.ts'

/** Checks the internal API against a real API server and real roles. */
let admin: ClusterAccess
let shops: TestNamespace
let depots: TestNamespace
let users: ClusterUsers
let backoffice: TestBackoffice
let acme: SeededTenant
let crate: SeededTenant

beforeAll(async () => {
  admin = await openCluster()
  shops = await createNamespace(admin)
  depots = await createNamespace(admin)
  users = openUsers(admin, shops.name)
  const tenants = [
    dashboardTenantYaml('acme', { namespace: shops.name }),
    dashboardTenantYaml('bolt', { namespace: shops.name }),
    dashboardTenantYaml('crate', { namespace: depots.name }),
  ]
  const transport = createTransport({ endpoint: await reviewer(), userAgent: 'latchkey-test' })
  backoffice = await startTestBackoffice(tenants.join(''), { transport })
  acme = await seedTenant(backoffice, 'acme')
  await seedTenant(backoffice, 'bolt')
  crate = await seedTenant(backoffice, 'crate')
}, 60_000)
afterAll(async () => {
  await backoffice?.close()
  await users?.close()
  await shops?.remove()
  await depots?.remove()
})

/** Opens the back office under a service account that may create reviews only. */
async function reviewer(): Promise<Endpoint> {
  const ask = await createServiceAccount(admin, { namespace: shops.name, name: 'backoffice' })
  await users.bind('backoffice', ['--clusterrole=system:auth-delegator'])
  const token = await ask()
  return {
    ...admin.endpoint,
    credentials: async () => ({
      ...(await admin.endpoint.credentials()),
      cert: undefined,
      key: undefined,
      headers: { authorization: `Bearer ${token}` },
    }),
  }
}

/** Creates a user with these rights in the shops’ namespace; returns its token. */
async function userWith(name: string, rights: readonly string[], tenant?: string): Promise<string> {
  await createServiceAccount(admin, { namespace: shops.name, name })
  for (const right of rights) {
    const [verb = '', resource = ''] = right.split(' ')
    await users.grant(name, shops.name, { verb, resource, ...(tenant !== undefined && { tenant }) })
  }
  return await users.tokenOf(name, ['latchkey'])
}

const call = (token: string, method: string, path: string, body?: object) =>
  backoffice.call(method, `/internal/v1/${path}`, {
    token,
    headers: { 'Idempotency-Key': crypto.randomUUID() },
    ...(body && { body }),
  })
const statusOf = async (...args: Parameters<typeof call>) => (await call(...args)).status

test('internal API: refuses a token for the API server’s audience, and a missing token', async () => {
  await createServiceAccount(admin, { namespace: shops.name, name: 'stray' })
  expect(await statusOf(await users.tokenOf('stray', []), 'GET', 'events')).toBe(401)
  expect(await statusOf('', 'GET', 'events')).toBe(401)
})

test('internal API: a user without rights gets 404 for every object and an empty list of tenants', async () => {
  const token = await userWith('nobody', [])
  for (const path of [`events/${acme.eventId}`, `tenants/${acme.tenantId}`, `replays/${acme.replayId}`])
    expect([path, await statusOf(token, 'GET', path)]).toEqual([path, 404])
  expect(await statusOf(token, 'GET', 'tenants')).toBe(403)
  expect((await call(token, 'GET', `tenants?namespaces=${shops.name}`)).json).toEqual({ items: [] })
})

test('internal API: a user with read rights sees its namespace, but cannot change data or reveal payloads', async () => {
  const token = await userWith('viewer', ['get tenants'])
  const page = await call(token, 'GET', `tenants?namespaces=${shops.name},${depots.name}`)
  expect((page.json['items'] as { slug: string }[]).map(({ slug }) => slug)).toEqual(['acme', 'bolt'])
  expect(await statusOf(token, 'GET', `events/${acme.eventId}`)).toBe(200)
  expect(await statusOf(token, 'GET', `events/${crate.eventId}`)).toBe(404)
  expect(await statusOf(token, 'GET', `events/${acme.eventId}/payload`)).toBe(403)
  expect(await statusOf(token, 'POST', `events/${acme.failedId}/replays`, { cycle: 1 })).toBe(403)
  expect(
    await statusOf(token, 'PUT', `tenants/${acme.tenantId}/settings/forwarding.paused`, { value: true }),
  ).toBe(403)
  expect(await statusOf(token, 'PUT', 'settings/forwarding.paused', { value: true })).toBe(403)
})

describe('internal API', () => {
  test('internal API: the support role can replay events and start simulations only in its namespace', async () => {
    const rights = ['get tenants', 'create tenants/replays', 'create tenants/simulations']
    const token = await userWith('support', rights)
    expect(await statusOf(token, 'POST', `events/${acme.failedId}/replays`, { cycle: 1 })).toBe(202)
    expect(await statusOf(token, 'POST', `events/${crate.failedId}/replays`, { cycle: 1 })).toBe(404)
    const simulation = { amount: 100, currency: 'EUR' }
    expect(await statusOf(token, 'POST', `tenants/${acme.tenantId}/simulations`, simulation)).toBe(202)
    const audit = await call(token, 'GET', `audit-entries?tenantId=${acme.tenantId}&limit=5`)
    const actors = (audit.json['items'] as { actor: string }[]).map(({ actor }) => actor)
    expect(actors).toContain(`user:${users.account('support')}`)
  })

  test('internal API: a user with permissions on one tenant can reveal payloads of this tenant only', async () => {
    const token = await userWith('one-tenant', ['get tenants', 'get tenants/payloads'], 'acme')
    expect(await statusOf(token, 'GET', `events/${acme.eventId}/payload`)).toBe(200)
    expect(await statusOf(token, 'GET', 'tenants/lookup?slug=bolt')).toBe(404)
    expect(await statusOf(token, 'GET', `tenants?namespaces=${shops.name}`)).toBe(200)
  })

  test('internal API: the service role can submit events and usage, and has no other right', async () => {
    const token = await userWith('biller', ['get tenants', 'create tenants/events', 'create tenants/usage'])
    const event = { tenantId: acme.tenantId, provider: 'card', sourceEventId: 'x', type: 'a.b', payload: {} }
    expect(await statusOf(token, 'POST', 'events', event)).toBe(200)
    const usage = { kind: 'exports.rows', amount: 1, occurredAt: new Date().toISOString() }
    expect(await statusOf(token, 'PUT', `tenants/${acme.tenantId}/usage/e-1`, usage)).toBe(200)
    expect(await statusOf(token, 'DELETE', `tenants/${acme.tenantId}/limits/recordBytes/override`)).toBe(403)
  })

  test('internal API: the platform role has every right in every namespace', async () => {
    await createServiceAccount(admin, { namespace: shops.name, name: 'platform' })
    await users.bind('platform', ['--clusterrole=cluster-admin'])
    const token = await users.tokenOf('platform', ['latchkey'])
    expect((await call(token, 'GET', 'tenants')).json['items']).toHaveLength(3)
    expect(await statusOf(token, 'PUT', 'settings/log.sampling', { value: 0.5 })).toBe(200)
    expect(await statusOf(token, 'DELETE', 'settings/log.sampling')).toBe(200)
    expect(await statusOf(token, 'GET', `events/${crate.eventId}/payload`)).toBe(200)
  })
})
