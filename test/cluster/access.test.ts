import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Access, type Actor, actions, createAccess, type TenantPlace } from '#internal/access/index.ts'
import { systemClock, tenantIdFromBytes } from '#internal/base/index.ts'
import { createTransport, type Endpoint, expectOk, type Transport } from '#internal/kube/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import {
  type ClusterAccess,
  createNamespace,
  createServiceAccount,
  openCluster,
  type TestNamespace,
} from './cluster.ts'
import { type ClusterUsers, openUsers } from './users.ts'

/** Directory without tenants; these tests are about users. */
const directory = { hasSnapshot: () => true, findKey: () => undefined } as unknown as Directory
const id = tenantIdFromBytes(new Uint8Array(16))
const userAgent = 'latchkey-test'

let admin: ClusterAccess
let shops: TestNamespace
let others: TestNamespace
let access: Access
let users: ClusterUsers
beforeAll(async () => {
  admin = await openCluster()
  shops = await createNamespace(admin)
  others = await createNamespace(admin)
  users = openUsers(admin, shops.name)
  access = await accessOf('backoffice', true)
})
afterAll(async () => {
  await users?.close()
  await shops?.remove()
  await others?.remove()
})

const account = (name: string) => users.account(name)
const tokenOf = (name: string, audiences: readonly string[]) => users.tokenOf(name, audiences)

/** Opens the back office under its own service account, with or without the right to create reviews. */
async function accessOf(name: string, mayReview: boolean): Promise<Access> {
  const ask = await createServiceAccount(admin, { namespace: shops.name, name })
  if (mayReview) await users.bind(name, ['--clusterrole=system:auth-delegator'])
  const token = await ask()
  const endpoint: Endpoint = {
    ...admin.endpoint,
    credentials: async () => ({
      ...(await admin.endpoint.credentials()),
      cert: undefined,
      key: undefined,
      headers: { authorization: `Bearer ${token}` },
    }),
  }
  return createAccess({ directory, clock: systemClock, transport: createTransport({ endpoint, userAgent }) })
}

async function user(name: string): Promise<Actor> {
  await createServiceAccount(admin, { namespace: shops.name, name })
  const found = await access.authenticate(await tokenOf(name, ['latchkey']))
  if (found.kind !== 'actor') throw new Error(found.kind)
  return found.actor
}

const tenant = (namespace: string, name: string): TenantPlace => ({ id, namespace, name })

async function allowed(actor: Actor, place: TenantPlace | 'all') {
  const asked = await Promise.all(actions.map((action) => access.may(actor, action, place)))
  expect(asked.map(({ kind }) => kind)).not.toContain('unavailable')
  return actions.filter((_action, nth) => asked[nth]?.kind === 'allowed')
}

describe('token', () => {
  test('authentication: for a token with Latchkey’s audience, returns the user, groups, extra fields and expiry', async () => {
    await createServiceAccount(admin, { namespace: shops.name, name: 'ada' })
    const askedAtMs = Date.now()
    const found = await access.authenticate(await tokenOf('ada', ['latchkey']))
    expect(found).toMatchObject({
      kind: 'actor',
      actor: {
        kind: 'user',
        username: account('ada'),
        uid: expect.stringMatching(/^[\da-f-]{36}$/),
        groups: expect.arrayContaining([`system:serviceaccounts:${shops.name}`, 'system:authenticated']),
      },
    })
    const endsInMs = found.kind === 'actor' ? (found.endsAtMs ?? 0) - askedAtMs : 0
    expect(endsInMs).toBeGreaterThan(590_000)
    expect(endsInMs).toBeLessThan(610_000)
  })

  test('authentication: a token for another audience is refused, even if it also names Latchkey’s audience', async () => {
    const ask = await createServiceAccount(admin, { namespace: shops.name, name: 'bob' })
    const own = await ask()
    const { aud } = JSON.parse(Buffer.from(own.split('.')[1] ?? '', 'base64url').toString()) as {
      aud: string[]
    }
    expect(aud.length).toBeGreaterThan(0)
    const tokens = [own, await tokenOf('bob', ['latchkey', ...aud]), await tokenOf('bob', ['vault'])]
    for (const token of tokens)
      expect(await access.authenticate(token)).toEqual({ kind: 'refused', cause: 'otherAudience' })
  })

  test('authentication: altered and missing tokens are refused', async () => {
    await createServiceAccount(admin, { namespace: shops.name, name: 'eve' })
    const token = await tokenOf('eve', ['latchkey'])
    const [head, payload, signature] = token.split('.')
    const claims = Buffer.from(payload ?? '', 'base64url')
      .toString()
      .replaceAll('eve', 'ada')
    const forged = `${head}.${Buffer.from(claims).toString('base64url')}.${signature}`
    for (const wrong of [forged, 'no-token', `${token}x`])
      expect(await access.authenticate(wrong)).toEqual({ kind: 'refused', cause: 'unknown' })
  })
})

describe('user', () => {
  test('access: a user without roles may do nothing and sees no tenant', async () => {
    const actor = await user('nobody')
    expect(await allowed(actor, tenant(shops.name, 'acme'))).toEqual([])
    expect(await allowed(actor, 'all')).toEqual([])
    expect(await access.visibleTenants(actor, [shops.name])).toEqual({ kind: 'namespaces', namespaces: [] })
  })

  test('access: a user with a role in one namespace has its rights in that namespace only', async () => {
    await createServiceAccount(admin, { namespace: shops.name, name: 'support' })
    await users.grant('support', shops.name, { verb: 'get', resource: 'tenants' })
    await users.grant('support', shops.name, { verb: 'create', resource: 'tenants/replays' })
    const found = await access.authenticate(await tokenOf('support', ['latchkey']))
    if (found.kind !== 'actor') throw new Error(found.kind)
    expect(await allowed(found.actor, tenant(shops.name, 'acme'))).toEqual(['see', 'replay'])
    expect(await allowed(found.actor, tenant(others.name, 'acme'))).toEqual([])
    expect(await allowed(found.actor, 'all')).toEqual([])
    const named = [others.name, shops.name, 'no-such-namespace']
    expect(await access.visibleTenants(found.actor, named)).toEqual({
      kind: 'namespaces',
      namespaces: [shops.name],
    })
  })

  test('access: a user with a role limited to one tenant has access to that tenant only', async () => {
    const actor = await user('one-tenant')
    await users.grant('one-tenant', shops.name, { verb: 'get', resource: 'tenants', tenant: 'acme' })
    await users.grant('one-tenant', shops.name, { verb: 'get', resource: 'tenants/payloads', tenant: 'acme' })
    expect(await allowed(actor, tenant(shops.name, 'acme'))).toEqual(['see', 'readPayloads'])
    expect(await allowed(actor, tenant(shops.name, 'other'))).toEqual([])
    expect(await access.visibleTenants(actor, [shops.name])).toEqual({ kind: 'namespaces', namespaces: [] })
  })

  test('access: a user with a cluster-wide role sees all tenants and changes global settings', async () => {
    const actor = await user('platform')
    await users.bind('platform', ['--clusterrole=cluster-admin'])
    expect(await allowed(actor, 'all')).toEqual([...actions])
    expect(await access.visibleTenants(actor)).toEqual({ kind: 'all' })
  })
})

describe('back office', () => {
  test('access: without the right to create reviews, every caller is refused and the missing right is reported', async () => {
    const blind = await accessOf('blind', false)
    const actor = await user('carol')
    expect(await blind.authenticate(await tokenOf('carol', ['latchkey']))).toMatchObject({
      kind: 'unavailable',
    })
    expect(await blind.may(actor, 'see', tenant(shops.name, 'acme'))).toMatchObject({ kind: 'unavailable' })
  })

  test('access: an API server that does not respond is reported', async () => {
    const transport: Transport = createTransport({
      endpoint: { ...admin.endpoint, server: 'https://127.0.0.1:1' },
      userAgent,
    })
    const away = createAccess({ directory, clock: systemClock, transport })
    expectOk('reading', await admin.transport.request({ method: 'GET', path: '/version' }))
    expect(await away.authenticate('any')).toMatchObject({ kind: 'unavailable' })
  })
})
