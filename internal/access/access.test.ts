import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createTransport } from '#internal/kube/index.ts'
import type { ApiKeyScope, Directory, FoundKey } from '#internal/tenants/index.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import {
  type FakeApiServer,
  type SeenRequest,
  startFakeApiServer,
} from '#test/support/tenants/fake-api-server.ts'
import { type Access, createAccess, namespacesMax, type TenantPlace } from './access.ts'
import { type Action, type Actor, actions, actorName, type KubeUser } from './actor.ts'
import { fixedOperators, type Operator, type Operators, tokenDigest } from './operators.ts'

/** Stands in for an API server that is slow, unavailable or counts requests; test/cluster uses a real one. */
let server: FakeApiServer
let answer: (request: SeenRequest) => Response | Promise<Response>
let nowMs: number
let keys: Map<string, FoundKey>
let hasSnapshot: boolean
let access: Access
let observed: string[]

const ada: KubeUser = {
  kind: 'user',
  username: 'ada',
  uid: 'u-1',
  groups: ['support', 'system:authenticated'],
  extra: { 'example.org/from': ['vpn'] },
}
const acme: TenantPlace = { id: someTenantId(), namespace: 'shops', name: 'acme' }
const isTokenReview = (request: SeenRequest) => request.path.endsWith('/tokenreviews')
const good = {
  authenticated: true,
  audiences: ['latchkey'],
  user: { username: 'ada', uid: 'u-1', groups: ['support'] },
}
const tokenAnswer = (status: object) => Response.json({ status }, { status: 201 })
const jwt = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.sig`

beforeEach(() => {
  nowMs = Date.parse('2026-11-01T12:00:00Z')
  keys = new Map()
  hasSnapshot = true
  observed = []
  answer = (request) => (isTokenReview(request) ? tokenAnswer(good) : tokenAnswer({ allowed: true }))
  server = startFakeApiServer((request) => answer(request))
  access = make({ transport: createTransport({ endpoint: server.endpoint, userAgent: 'test' }) })
})
afterEach(() => server.stop())

function make(more: { transport?: ReturnType<typeof createTransport>; operators?: Operators }): Access {
  const directory: Pick<Directory, 'hasSnapshot' | 'findKey'> = {
    hasSnapshot: () => hasSnapshot,
    findKey: (sha256) => keys.get(sha256),
  }
  return createAccess({
    directory: directory as Directory,
    clock: { now: () => nowMs },
    observer: {
      reviewed: (review, outcome, failure) =>
        void observed.push(`${review} ${outcome} ${failure?.kind ?? ''}`.trim()),
    },
    ...more,
  })
}

function addKey(apiKey: string, scopes: readonly ApiKeyScope[], more: { suspended?: boolean } = {}) {
  const tenant = directoryTenant(more)
  const key = { name: 'default', scopes: new Set(scopes), expiresAtMs: null }
  keys.set(Bun.SHA256.hash(apiKey, 'base64'), { tenant, key })
  return tenant
}

describe('authenticate with a token', () => {
  test('token: a TokenReview for Latchkey’s audience returns all attributes of the user', async () => {
    const user = { username: 'ada', uid: 'u-1', groups: ada.groups, extra: ada.extra }
    answer = () => tokenAnswer({ ...good, user })
    const endsAtMs = nowMs + 600_000
    const token = jwt({ aud: ['latchkey'], exp: endsAtMs / 1000 })
    expect(await access.authenticate(token)).toEqual({ kind: 'actor', actor: ada, endsAtMs })
    expect(server.seen).toHaveLength(1)
    expect(server.seen[0]?.body).toMatchObject({
      kind: 'TokenReview',
      spec: { token, audiences: ['latchkey'] },
    })
  })

  test.each([
    ['a token unknown to the server', 'opaque', { authenticated: false }, 'unknown'],
    [
      'a token for another audience by the server’s answer',
      'opaque',
      { ...good, audiences: ['other'] },
      'otherAudience',
    ],
    ['a token reviewed without audiences', 'opaque', { ...good, audiences: undefined }, 'otherAudience'],
    ['a token without a user', 'opaque', { ...good, user: {} }, 'unknown'],
    ['a token for the API server', jwt({ aud: 'https://kubernetes.default.svc' }), good, 'otherAudience'],
    [
      'a token for Latchkey and the API server',
      jwt({ aud: ['latchkey', 'https://kubernetes.default.svc'] }),
      good,
      'otherAudience',
    ],
  ])('token: %s is refused', async (_what, token, status, cause) => {
    answer = () => tokenAnswer(status)
    expect(await access.authenticate(token)).toEqual({ kind: 'refused', cause } as never)
  })

  test('token: a token that is also valid for another audience is refused without a TokenReview', async () => {
    await access.authenticate(jwt({ aud: ['latchkey', 'other'] }))
    expect(server.seen).toHaveLength(0)
  })

  test.each([
    ['an empty token', ''],
    ['a token with a space', 'a b'],
    ['a token over 16 KiB', 'x'.repeat(20_000)],
  ])('token: %s is refused without a TokenReview', async (_what, token) => {
    expect(await access.authenticate(token)).toMatchObject({ kind: 'refused' })
    expect(server.seen).toHaveLength(0)
  })

  test('token: concurrent and repeated calls send one review in 10 s, whether the token is accepted or refused', async () => {
    const ask = (token: string) => access.authenticate(token)
    const all = await Promise.all(Array.from({ length: 20 }, () => ask('good')))
    expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(['actor']))
    answer = () => tokenAnswer({ authenticated: false })
    await ask('bad')
    await ask('bad')
    nowMs += 9_999
    await ask('good')
    expect(server.seen).toHaveLength(2)
    nowMs += 1
    expect(await ask('good')).toMatchObject({ kind: 'refused' })
    expect(server.seen).toHaveLength(3)
  })

  test('token: is refused after it expires, even if its review is still cached', async () => {
    const token = jwt({ aud: ['latchkey'], exp: nowMs / 1000 + 3 })
    expect(await access.authenticate(token)).toMatchObject({ kind: 'actor' })
    nowMs += 3_000
    expect(await access.authenticate(token)).toMatchObject({ kind: 'refused' })
  })
})

describe('unavailable API server', () => {
  test.each([
    ['a server that fails', () => new Response('no', { status: 500 })],
    [
      'a server that forbids reviews',
      () => new Response('{"kind":"Status","reason":"Forbidden"}', { status: 403 }),
    ],
    ['a server that answers HTML', () => new Response('<html>', { status: 200 })],
  ])(
    'reviews: %s causes authentication, permissions and visible tenants to be reported as unavailable',
    async (_what, away) => {
      answer = away
      expect(await access.authenticate('a')).toMatchObject({ kind: 'unavailable' })
      expect(await access.may(ada, 'see', acme)).toMatchObject({ kind: 'unavailable' })
      expect(await access.visibleTenants(ada, ['shops'])).toMatchObject({ kind: 'unavailable' })
      expect(observed.every((each) => each.includes('unavailable'))).toBe(true)
      answer = (request) => tokenAnswer(isTokenReview(request) ? good : { allowed: true })
      // Succeeds now, since failures are not cached.
      expect(await access.authenticate('a')).toMatchObject({ kind: 'actor' })
      expect(await access.may(ada, 'see', acme)).toEqual({ kind: 'allowed' })
    },
  )

  test('reviews: the retry delay of an unavailable result is the server’s Retry-After', async () => {
    answer = () => new Response('', { status: 429, headers: { 'retry-after': '7' } })
    expect(await access.may(ada, 'see', acme)).toEqual({ kind: 'unavailable', retryAfterMs: 7_000 })
  })

  describe('bounds of pending reviews', () => {
    /** Reviews that wait at the server, which answers none until `gate` opens. */
    let waiting: number
    let waitingMost: number
    let gate: PromiseWithResolvers<void>
    const isGone = { kind: 'unavailable', retryAfterMs: 1_000 } as const
    beforeEach(() => {
      waiting = 0
      waitingMost = 0
      gate = Promise.withResolvers()
      answer = async (request) => {
        waitingMost = Math.max(waitingMost, (waiting += 1))
        await gate.promise
        waiting -= 1
        return isTokenReview(request) ? tokenAnswer(good) : tokenAnswer({ allowed: true })
      }
    })
    const see = (user: KubeUser, nth: number) => access.may(user, 'see', { ...acme, name: `t-${nth}` })

    test('reviews: further reviews are unavailable while 200 are pending', async () => {
      const all = Array.from({ length: 250 }, (_none, nth) => see({ ...ada, username: `u-${nth}` }, nth))
      expect(await Promise.all(all.slice(200))).toEqual(Array.from({ length: 50 }, () => isGone))
      gate.resolve()
      const others = await Promise.all(all.slice(0, 200))
      expect(others.every(({ kind }) => kind === 'allowed')).toBe(true)
    })

    test('reviews: a user with 20 pending reviews gets no further review, but other users do', async () => {
      const all = Array.from({ length: 30 }, (_none, nth) => see(ada, nth))
      expect(await Promise.all(all.slice(20))).toEqual(Array.from({ length: 10 }, () => isGone))
      const bobs = see({ ...ada, username: 'bob' }, 0)
      gate.resolve()
      expect(await bobs).toEqual({ kind: 'allowed' })
      expect((await Promise.all(all.slice(0, 20))).every(({ kind }) => kind === 'allowed')).toBe(true)
      // Succeeds now, since answered reviews free their places.
      expect(await see(ada, 99)).toEqual({ kind: 'allowed' })
    })

    test('visibleTenants: sends at most 6 access reviews concurrently', async () => {
      const { ca = '' } = await server.endpoint.credentials()
      const askedCount = () => server.seen.filter(({ path }) => path !== '/ping').length
      answer = async ({ path, body }) => {
        if (path === '/ping') return new Response()
        const { resourceAttributes } = (body as { spec: { resourceAttributes: object } }).spec
        if (!('namespace' in resourceAttributes)) return tokenAnswer({ allowed: false })
        waitingMost = Math.max(waitingMost, (waiting += 1))
        // Six waiting reviews get their answers only after a ping, before which a seventh concurrent review would arrive. The last two
        // reviews, which no others join, get theirs once both have arrived.
        if (waiting === 6 || askedCount() === 1 + namespacesMax)
          void fetch(`${server.endpoint.server}/ping`, { tls: { ca } }).then(() => gate.resolve())
        await gate.promise
        if ((waiting -= 1) === 0) gate = Promise.withResolvers()
        return tokenAnswer({ allowed: true })
      }
      const names = Array.from({ length: namespacesMax }, (_none, nth) => `n-${nth}`)
      expect(await access.visibleTenants(ada, names)).toEqual({ kind: 'namespaces', namespaces: names })
      expect(askedCount()).toBe(1 + namespacesMax)
      expect(waitingMost).toBeLessThanOrEqual(6)
    })

    test('token: known tokens still get a TokenReview while a caller floods the server with unknown tokens', async () => {
      gate.resolve()
      expect(await access.authenticate('good')).toMatchObject({ kind: 'actor' })
      gate = Promise.withResolvers()
      nowMs += 10_000
      const madeUp = Array.from({ length: 200 }, (_none, nth) => access.authenticate(`made-up-${nth}`))
      expect(await Promise.all(madeUp.slice(50))).toEqual(Array.from({ length: 150 }, () => isGone))
      const known = access.authenticate('good')
      gate.resolve()
      expect(await known).toMatchObject({ kind: 'actor' })
      await Promise.all(madeUp)
      expect(server.seen).toHaveLength(1 + 50 + 1)
    })
  })
})

describe('may', () => {
  const attributes = () =>
    server.seen.map(({ body }) => (body as { spec: { resourceAttributes: object } }).spec.resourceAttributes)

  test('may: reviews the verb, subresource, namespace and name of each action', async () => {
    for (const action of actions) await access.may(ada, action, acme)
    await access.may(ada, 'changeSettings', 'all')
    const of = { group: 'latchkey.dev', version: 'v1alpha1', resource: 'tenants' }
    const on = { ...of, namespace: 'shops', name: 'acme' }
    expect(attributes()).toEqual([
      { ...on, verb: 'get' },
      { ...on, verb: 'get', subresource: 'payloads' },
      { ...on, verb: 'create', subresource: 'replays' },
      { ...on, verb: 'create', subresource: 'subscriptions' },
      { ...on, verb: 'update', subresource: 'settings' },
      { ...on, verb: 'create', subresource: 'simulations' },
      { ...on, verb: 'create', subresource: 'events' },
      { ...on, verb: 'create', subresource: 'usage' },
      { ...of, verb: 'update', subresource: 'settings' },
    ])
    const { kind: _kind, username, ...rest } = ada
    expect(server.seen[0]?.body).toMatchObject({ spec: { user: username, ...rest } })
  })

  test.each([
    ['allowed: false', { allowed: false }],
    ['allowed and denied', { allowed: true, denied: true }],
    ['an empty status', {}],
    ['allowed as text', { allowed: 'true' }],
  ])('may: refuses when the server responds with %s', async (_what, status) => {
    answer = () => tokenAnswer(status)
    expect(await access.may(ada, 'see', acme)).toEqual({ kind: 'refused' })
  })

  test('may: caches results by user, action and tenant', async () => {
    answer = ({ body }) => tokenAnswer({ allowed: JSON.stringify(body).includes('"ada"') })
    const bob = { ...ada, username: 'bob' }
    const other = { ...acme, name: 'other' }
    for (let times = 0; times < 2; times += 1) {
      expect(await access.may(ada, 'see', acme)).toEqual({ kind: 'allowed' })
      expect(await access.may(bob, 'see', acme)).toEqual({ kind: 'refused' })
      expect(await access.may({ ...ada, groups: [] }, 'see', acme)).toEqual({ kind: 'allowed' })
      expect(await access.may(ada, 'replay', acme)).toEqual({ kind: 'allowed' })
      expect(await access.may(ada, 'see', other)).toEqual({ kind: 'allowed' })
      expect(await access.may(ada, 'see', 'all')).toEqual({ kind: 'allowed' })
    }
    expect(server.seen).toHaveLength(6)
    nowMs += 10_000
    await access.may(ada, 'see', acme)
    expect(server.seen).toHaveLength(7)
  })
})

describe('visibleTenants', () => {
  const byNamespace = (allowed: readonly (string | undefined)[]) => {
    answer = ({ body }) => {
      const { namespace } = (body as { spec: { resourceAttributes: { namespace?: string } } }).spec
        .resourceAttributes
      return tokenAnswer({ allowed: allowed.includes(namespace) })
    }
  }

  test('visibleTenants: sends one access review for an actor that sees all tenants', async () => {
    byNamespace([undefined])
    expect(await access.visibleTenants(ada, ['a', 'b'])).toEqual({ kind: 'all' })
    expect(server.seen).toHaveLength(1)
  })

  test('visibleTenants: returns the requested namespaces that the actor may see', async () => {
    byNamespace(['a', 'c', 'd'])
    expect(await access.visibleTenants(ada, ['a', 'b', 'c', 'a'])).toEqual({
      kind: 'namespaces',
      namespaces: ['a', 'c'],
    })
    expect(await access.visibleTenants(ada)).toEqual({ kind: 'namespaces', namespaces: [] })
    expect(server.seen).toHaveLength(4)
  })

  test('visibleTenants: refuses a list of more than 50 namespaces without an access review', async () => {
    const names = Array.from({ length: namespacesMax + 1 }, (_none, nth) => `n-${nth}`)
    expect(await access.visibleTenants(ada, names)).toEqual({ kind: 'tooMany', namespacesMax })
    expect(server.seen).toHaveLength(0)
  })
})

describe('API keys of tenants', () => {
  const apiKey = 'lk_dashboard_0123456789abcdef0123456789'
  const actorOf = async (): Promise<Actor> => {
    const found = await access.authenticate(apiKey)
    if (found.kind !== 'actor') throw new Error(found.kind)
    return found.actor
  }

  test('API key: has rights on its own tenant, but not on other tenants or on settings', async () => {
    const own = addKey(apiKey, ['dashboard'])
    const actor = await actorOf()
    const may = async (tenant: TenantPlace | 'all') => {
      const asked = await Promise.all(actions.map((action) => access.may(actor, action, tenant)))
      return actions.filter((_action, nth) => asked[nth]?.kind === 'allowed')
    }
    expect(await may(own)).toEqual(['see', 'readPayloads', 'replay'])
    expect(await may(directoryTenant({ namespace: own.namespace, name: own.name }))).toEqual([])
    expect(await may('all')).toEqual([])
    expect(await access.visibleTenants(actor, ['a'])).toEqual({ kind: 'tenant', tenantId: own.id })
    expect(JSON.stringify(actor)).not.toContain(apiKey)
    expect(server.seen).toHaveLength(0)
  })

  test.each<[scopes: readonly ApiKeyScope[], allowed: readonly Action[]]>([
    [['dashboard:read'], ['see']],
    [['dashboard:read', 'simulations', 'records', 'webhooks'], ['see']],
    [['dashboard'], ['see', 'readPayloads', 'replay']],
    [
      ['dashboard', 'dashboard:read'],
      ['see', 'readPayloads', 'replay'],
    ],
    [
      ['dashboard', 'simulations'],
      ['see', 'readPayloads', 'replay', 'simulate'],
    ],
    [
      ['dashboard:read', 'dashboard', 'simulations'],
      ['see', 'readPayloads', 'replay', 'simulate'],
    ],
  ])('API key: a key with the scopes %j is allowed %j on its own tenant', async (scopes, allowed) => {
    const own = addKey(apiKey, scopes)
    const actor = await actorOf()
    const asked = await Promise.all(actions.map((action) => access.may(actor, action, own)))
    expect(actions.filter((_action, nth) => asked[nth]?.kind === 'allowed')).toEqual([...allowed])
  })

  test('API key: a key narrowed to dashboard:read keeps its session and loses its other rights', async () => {
    const own = addKey(apiKey, ['dashboard'])
    const actor = await actorOf()
    expect(await access.may(actor, 'replay', own)).toEqual({ kind: 'allowed' })
    keys.clear()
    keys.set(Bun.SHA256.hash(apiKey, 'base64'), {
      tenant: own,
      key: { name: 'default', scopes: new Set<ApiKeyScope>(['dashboard:read']), expiresAtMs: null },
    })
    expect(access.stillCounts(actor)).toBe('yes')
    expect(await access.may(actor, 'replay', own)).toEqual({ kind: 'refused' })
    expect(await access.may(actor, 'see', own)).toEqual({ kind: 'allowed' })
  })

  test.each([
    ['an unknown key', () => {}, 'unknown'],
    [
      'a key without the scope',
      () => void addKey(apiKey, ['records', 'webhooks', 'simulations']),
      'keyScope',
    ],
    [
      'a key of a suspended tenant',
      () => void addKey(apiKey, ['dashboard'], { suspended: true }),
      'tenantSuspended',
    ],
  ])('API key: %s is refused', async (_what, prepare, cause) => {
    prepare()
    expect(await access.authenticate(apiKey)).toEqual({ kind: 'refused', cause } as never)
  })

  test('API key: removing a key ends its sessions immediately', async () => {
    const own = addKey(apiKey, ['dashboard'])
    const actor = await actorOf()
    expect(access.stillCounts(actor)).toBe('yes')
    for (const scopes of [['records'], undefined] as const) {
      keys.clear()
      if (scopes) addKey(apiKey, scopes)
      expect(access.stillCounts(actor)).toBe('no')
      expect(await access.may(actor, 'see', own)).toEqual({ kind: 'refused' })
      expect(await access.visibleTenants(actor)).toEqual({ kind: 'namespaces', namespaces: [] })
    }
  })

  test('API key: authentication is unavailable, not refused, before the directory is read', async () => {
    hasSnapshot = false
    expect(await access.authenticate(apiKey)).toMatchObject({ kind: 'unavailable' })
    const actor: Actor = { kind: 'tenantKey', tenantId: acme.id, keyName: 'a', keySha256: 'x' }
    expect(await access.may(actor, 'see', acme)).toMatchObject({ kind: 'unavailable' })
    expect(await access.visibleTenants(actor)).toMatchObject({ kind: 'unavailable' })
    expect(access.stillCounts(actor)).toBe('unknown')
  })
})

describe('without an API server', () => {
  const operator: Operator = {
    name: 'ada',
    roles: ['admin'],
    tokenSha256: tokenDigest('secret'),
    namespaces: undefined,
    endsAtMs: null,
  }
  const madeWith = (more: Partial<Operator>) =>
    make({ operators: fixedOperators([{ ...operator, ...more }]) })
  const actor = { kind: 'operator', name: 'ada', tokenSha256: tokenDigest('secret') } as const

  test('operator: the token authenticates, and other tokens are refused', async () => {
    const local = madeWith({})
    expect(await local.authenticate('secret')).toEqual({ kind: 'actor', actor, endsAtMs: null })
    expect(await local.authenticate('secret2')).toMatchObject({ kind: 'refused' })
    expect(await local.authenticate(tokenDigest('secret'))).toMatchObject({ kind: 'refused' })
    expect(await local.may(ada, 'see', acme)).toEqual({ kind: 'refused' })
    expect(local.stillCounts(actor)).toBe('yes')
  })

  test('operator: each role permits its actions', async () => {
    const permitted = async (role: Operator['roles'][number]) => {
      const local = madeWith({ roles: [role] })
      const each = await Promise.all(
        actions.map(async (action) =>
          (await local.may(actor, action, acme)).kind === 'allowed' ? action : '',
        ),
      )
      return each.filter((action) => action !== '')
    }
    expect(await permitted('viewer')).toEqual(['see'])
    expect(await permitted('support')).toEqual(['see', 'replay', 'simulate'])
    expect(await permitted('admin')).toEqual(['see', 'readPayloads', 'replay', 'changeSettings', 'simulate'])
    expect(await permitted('service')).toEqual(['see', 'ingestEvents', 'emitUsage'])
  })

  test('operator: an operator limited to namespaces sees only the tenants of these namespaces, and no data without a tenant', async () => {
    const local = madeWith({ namespaces: ['shops', 'bank'] })
    expect(await local.may(actor, 'see', acme)).toEqual({ kind: 'allowed' })
    expect(await local.may(actor, 'see', { ...acme, namespace: 'other' })).toEqual({ kind: 'refused' })
    expect(await local.may(actor, 'changeSettings', 'all')).toEqual({ kind: 'refused' })
    expect(await local.visibleTenants(actor)).toEqual({ kind: 'namespaces', namespaces: ['shops', 'bank'] })
    expect(await local.visibleTenants(actor, ['bank', 'other'])).toEqual({
      kind: 'namespaces',
      namespaces: ['bank'],
    })
    expect(await madeWith({}).visibleTenants(actor)).toEqual({ kind: 'all' })
  })

  test('operator: a removed or expired operator has no rights, and another operator with the same token is a different actor', async () => {
    for (const local of [make({}), madeWith({ endsAtMs: nowMs }), madeWith({ name: 'bob' })]) {
      expect(local.stillCounts(actor)).toBe('no')
      expect(await local.may(actor, 'see', acme)).toEqual({ kind: 'refused' })
      expect(await local.visibleTenants(actor)).toEqual({ kind: 'namespaces', namespaces: [] })
    }
    expect(await madeWith({ endsAtMs: nowMs }).authenticate('secret')).toMatchObject({ kind: 'refused' })
    expect(await make({}).authenticate('undefined')).toMatchObject({ kind: 'refused' })
  })
})

describe('actorName', () => {
  const named = (username: string) => actorName({ ...ada, username })

  test('actorName: starts with a prefix for the kind of actor, even if a user’s name imitates another kind', () => {
    expect(named('ada@example.com')).toBe('user:ada@example.com')
    expect(named('operator:ada')).not.toBe(actorName({ kind: 'operator', name: 'ada', tokenSha256: '' }))
  })

  test.each([
    ['a long name', 'x'.repeat(400)],
    ['control and format characters', 'a\u0000b\u202ec'],
    ['lone surrogates', `${'x'.repeat(160)}\ud83d${'y'.repeat(90)}`],
  ])('actorName: the name of %s is printable, unique and at most 200 characters long', (_what, username) => {
    expect(named(username)).toMatch(/^[^\p{Cc}\p{Cf}]{1,200}$/u)
    expect(named(username)).not.toBe(named(`${username}z`))
    expect(named(username).isWellFormed()).toBe(true)
  })
})
