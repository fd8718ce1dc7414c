import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { internalDocument } from '#internal/openapi/index.ts'
import {
  type AskedRight,
  type CallOptions,
  someUser,
  startTestBackoffice,
  type TestBackoffice,
} from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { openContract } from '#test/support/documents/contract.ts'

/** Rights checks sent to a fake API server and their effects. Real roles are tested in test/cluster. */
let backoffice: TestBackoffice
const notifications =
  'notifications: {url: "http://127.0.0.1:9998/", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: acme-signing}}'
let shop: SeededTenant
let depot: SeededTenant
beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme', { spec: [notifications] }),
      dashboardTenantYaml('bolt'),
      dashboardTenantYaml('crate', { namespace: 'depots' }),
    ].join(''),
  )
  shop = await seedTenant(backoffice, 'acme')
  await seedTenant(backoffice, 'bolt')
  depot = await seedTenant(backoffice, 'crate')
}, 30_000)
afterAll(() => backoffice.close())

let token: string
beforeEach(() => {
  token = someUser()
  backoffice.allow(() => false)
})

const sees = ({ verb, subresource }: AskedRight) => verb === 'get' && subresource === ''
const call = (method: string, path: string, options: CallOptions = {}) =>
  backoffice.call(method, `/internal/v1/${path}`, {
    token,
    headers: { 'Idempotency-Key': token },
    ...options,
  })
const later = () => new Date(Date.now() + 3_600_000).toISOString()

describe('user who may see a tenant', () => {
  const needs: readonly [
    right: string,
    method: string,
    path: (of: SeededTenant) => string,
    body?: (of: SeededTenant) => object,
  ][] = [
    ['get tenants/payloads', 'GET', ({ eventId }) => `events/${eventId}/payload`],
    [
      'get tenants/payloads',
      'POST',
      () => 'event-searches',
      ({ tenantId }) => ({ tenantId, from: '2026-01-01T00:00:00Z', text: 'abc' }),
    ],
    ['create tenants/replays', 'POST', ({ failedId }) => `events/${failedId}/replays`, () => ({})],
    ['create tenants/replays', 'POST', ({ failedId }) => `events/${failedId}/retry`],
    [
      'create tenants/replays',
      'POST',
      () => 'replays',
      ({ tenantId }) => ({ tenantId, from: '2026-11-01T00:00:00Z' }),
    ],
    ['create tenants/replays', 'POST', ({ replayId }) => `replays/${replayId}/cancel`],
    [
      'create tenants/replays',
      'PUT',
      ({ tenantId, subscription }) => `tenants/${tenantId}/subscriptions/${subscription}`,
    ],
    [
      'create tenants/replays',
      'POST',
      ({ tenantId, subscription }) => `tenants/${tenantId}/subscriptions/${subscription}/seek`,
    ],
    [
      'create tenants/replays',
      'DELETE',
      ({ tenantId, subscription }) => `tenants/${tenantId}/subscriptions/${subscription}`,
    ],
    ['create tenants/replays', 'POST', ({ tenantId }) => `tenants/${tenantId}/callback/test`],
    ['create tenants/replays', 'POST', ({ tenantId }) => `tenants/${tenantId}/callback/resume`],
    ['create tenants/replays', 'POST', ({ tenantId }) => `tenants/${tenantId}/notifications/test`],
    [
      'update tenants/settings',
      'PUT',
      ({ tenantId }) => `tenants/${tenantId}/settings/forwarding.paused`,
      () => ({ value: false }),
    ],
    ['update tenants/settings', 'DELETE', ({ tenantId }) => `tenants/${tenantId}/settings/forwarding.paused`],
    [
      'update tenants/settings',
      'PUT',
      ({ tenantId }) => `tenants/${tenantId}/limits/recordBytes/override`,
      () => ({ hard: 1, expiresAt: later(), reason: 'x' }),
    ],
    [
      'update tenants/settings',
      'DELETE',
      ({ tenantId }) => `tenants/${tenantId}/limits/recordBytes/override`,
    ],
    [
      'create tenants/simulations',
      'POST',
      ({ tenantId }) => `tenants/${tenantId}/simulations`,
      () => ({ amount: 1, currency: 'EUR' }),
    ],
    ['create tenants/simulations', 'POST', ({ simulationId }) => `simulations/${simulationId}/cancel`],
    [
      'create tenants/events',
      'POST',
      () => 'events',
      ({ tenantId }) => ({ tenantId, provider: 'card', sourceEventId: token, type: 'a.b', payload: {} }),
    ],
    [
      'create tenants/usage',
      'POST',
      () => 'guardrails/check',
      ({ tenantId }) => ({ tenantId, kind: 'a.b', commit: true, id: token }),
    ],
    [
      'create tenants/usage',
      'PUT',
      ({ tenantId }) => `tenants/${tenantId}/usage/${token}`,
      () => ({ kind: 'a.b', amount: 1, occurredAt: new Date().toISOString() }),
    ],
  ]

  const cases = needs.map(([right, method, path, body]) => ({ right, method, path, body }))

  test.each(cases)('rights: $method requires $right on the tenant', async ({ right, method, path, body }) => {
    const [verb, resource = ''] = right.split(' ')
    const isIt = (asked: AskedRight) =>
      asked.verb === verb &&
      `tenants/${asked.subresource}` === resource &&
      asked.name === 'acme' &&
      asked.namespace === 'shops'
    const options = { ...(body && { body: body(shop) }) }
    backoffice.allow(sees)
    expect((await call(method, path(shop), options)).status).toBe(403)
    token = someUser()
    backoffice.allow((asked) => sees(asked) || isIt(asked))
    const done = await call(method, path(shop), { ...(body && { body: body(shop) }) })
    expect([done.status, done.status < 300 ? '' : done.text]).toEqual([expect.any(Number), ''])
    const others = await call(method, path(depot), {
      ...(body && { body: body(depot) }),
      headers: { 'Idempotency-Key': `${token}-2` },
    })
    expect(others.status).toBe(403)
  })

  const others: readonly {
    readonly right: string
    readonly operation: string
    readonly isForAllTenants?: true
    readonly path: (of: SeededTenant) => string
    readonly body?: object
  }[] = [
    {
      right: 'create tenants/simulations',
      operation: 'POST simulations/{simulationId}/advance',
      path: ({ simulationId }: SeededTenant) => `simulations/${simulationId}/advance`,
      body: { sourceEventId: 'none' },
    },
    {
      right: 'update tenants/settings',
      operation: 'PUT settings/{name}',
      isForAllTenants: true,
      path: () => 'settings/forwarding.paused',
      body: { value: false },
    },
    {
      right: 'update tenants/settings',
      operation: 'DELETE settings/{name}',
      isForAllTenants: true,
      path: () => 'settings/forwarding.paused',
    },
    {
      right: 'get tenants',
      operation: 'POST replay-previews',
      isForAllTenants: true,
      path: () => 'replay-previews',
      body: { from: '2026-11-01T00:00:00Z' },
    },
  ]

  test.each(others)(
    'rights: $operation asks the API server whether the user has $right',
    async ({ right, operation, isForAllTenants = false, path, body }) => {
      const asked = new Set<string>()
      backoffice.allow(({ verb, subresource, name, namespace }) => {
        const place = namespace === '' && name === '' ? 'all' : `${namespace}/${name}`
        asked.add(`${verb} tenants${subresource === '' ? '' : `/${subresource}`} ${place}`)
        return true
      })
      await call(operation.split(' ')[0] ?? '', path(shop), { ...(body && { body }) })
      const place = isForAllTenants ? 'all' : 'shops/acme'
      expect([...asked].sort()).toEqual([...new Set(['get tenants all', `${right} ${place}`])].sort())
    },
  )

  test('rights: the description of every operation names the right that it requires', () => {
    for (const { method, path, operation } of openContract(internalDocument()).operations) {
      const short = path.replace('/internal/v1/', '')
      if (short === 'openapi.json') continue
      const form = new RegExp(`^${short.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
      const need = cases.find((each) => each.method === method && form.test(each.path(shop)))
      const other = others.find((each) => each.operation === `${method} ${short}`)
      const right = need?.right ?? other?.right ?? (method === 'GET' ? 'get tenants' : 'unknown')
      const { description = '' } = operation
      expect([method, short, description]).toEqual([method, short, expect.stringContaining(`\`${right}\``)])
      const isCommit = short === 'guardrails/check'
      const named = /Requires the right `([^`]+)`/.exec(description)?.[1]
      expect([short, named]).toEqual([short, isCommit ? 'get tenants' : right])
      if (short === 'settings/{name}') expect(description).toContain(`\`${right}\` in the whole cluster`)
    }
  })

  test('rights: the permissions of a user list the allowed actions', async () => {
    backoffice.allow((asked) => sees(asked) || asked.subresource === 'replays')
    const { json } = await call('GET', `tenants/${shop.tenantId}/permissions`)
    expect(json).toEqual({
      see: true,
      readPayloads: false,
      replay: true,
      pull: false,
      changeSettings: false,
      simulate: false,
      ingestEvents: false,
      emitUsage: false,
    })
  })

  test('rights: a user who sees one tenant cannot find other tenants', async () => {
    backoffice.allow((asked) => sees(asked) && asked.name === 'acme' && asked.namespace === 'shops')
    expect((await call('GET', `events/${shop.eventId}`)).status).toBe(200)
    expect((await call('GET', `events?tenantId=${shop.tenantId}`)).status).toBe(200)
    expect((await call('GET', `events/${depot.eventId}`)).status).toBe(404)
    expect((await call('GET', `events?tenantId=${depot.tenantId}`)).status).toBe(404)
    expect((await call('GET', 'events')).status).toBe(403)
  })
})

describe('user who may see a namespace', () => {
  const seesShops = (asked: AskedRight) => sees(asked) && asked.namespace === 'shops'

  test.each(['tenants', 'events', 'replays', 'simulations', 'audit-entries'])(
    'namespaces filter: the list of %s returns only rows of the named namespace',
    async (path) => {
      backoffice.allow(seesShops)
      expect((await call('GET', path)).status).toBe(403)
      expect((await call('GET', `${path}?namespaces=depots`)).json).toEqual({ items: [] })
      const items: string[] = []
      let after = ''
      do {
        const answer = await call('GET', `${path}?namespaces=shops,depots&limit=2${after}`)
        expect(answer.status).toBe(200)
        const page = answer.json as { items: object[]; next?: string }
        items.push(...page.items.map((item) => JSON.stringify(item)))
        after = page.next === undefined ? '' : `&after=${page.next}`
      } while (after !== '')
      expect(new Set(items).size).toBe(items.length)
      for (const slug of ['acme', 'bolt']) expect(items.join()).toContain(backoffice.tenantId(slug))
      expect(items.join()).not.toContain(depot.tenantId)
      token = someUser()
      backoffice.allow(sees)
      const all = await call('GET', `${path}?namespaces=shops&limit=100`)
      const narrowed = (all.json as { items: object[] }).items.map((item) => JSON.stringify(item))
      expect(narrowed).toEqual(items)
    },
  )

  test('namespaces filter: more than 50 namespaces return 400', async () => {
    const named = Array.from({ length: 51 }, (_none, nth) => `n-${nth}`).join(',')
    expect((await call('GET', `events?namespaces=${named}`)).status).toBe(400)
  })

  test('namespaces filter: with it, a user still has no access to objects that belong to all tenants', async () => {
    backoffice.allow(seesShops)
    for (const [method, path, body] of [
      ['GET', 'settings', undefined],
      ['PUT', 'settings/forwarding.paused', { value: true }],
      ['POST', 'replays', { from: '2026-11-01T00:00:00Z' }],
      ['POST', 'replay-previews', { from: '2026-11-01T00:00:00Z' }],
    ] as const)
      expect([path, (await call(method, path, { body })).status]).toEqual([path, 403])
  })
})

test('rights: an action on all tenants requires the right to see all tenants', async () => {
  backoffice.allow((asked) => !sees(asked))
  expect((await call('POST', `events/${shop.failedId}/replays`, { body: {} })).status).toBe(404)
  const started = await call('POST', 'replays', {
    body: { from: '2026-11-01T00:00:00Z', tenantId: shop.tenantId },
  })
  expect(started.status).toBe(404)
  for (const [method, path, body] of [
    ['POST', 'replays', { from: '2026-11-01T00:00:00Z' }],
    ['PUT', 'settings/forwarding.paused', { value: true }],
    ['DELETE', 'settings/forwarding.paused', undefined],
  ] as const)
    expect([path, (await call(method, path, { body })).status]).toEqual([path, 403])
})

describe('invisible and missing objects', () => {
  const none = '06gw979vs1d9q6mddfvvx375s4'
  const keyPrefix = dashboardKey('crate').slice(0, 11)
  const pairs: readonly [what: string, path: (of: SeededTenant) => string, nobodys: string][] = [
    ['an event', ({ eventId }) => `events/${eventId}`, `events/evt_${none}`],
    ['another event of a tenant', ({ failedId }) => `events/${failedId}`, `events/evt_${none}`],
    ['a replay', ({ replayId }) => `replays/${replayId}`, `replays/rpl_${none}`],
    ['a simulation', ({ simulationId }) => `simulations/${simulationId}`, `simulations/sim_${none}`],
    ['a tenant', ({ tenantId }) => `tenants/${tenantId}`, `tenants/ten_${none}`],
    ['a list', ({ tenantId }) => `events?tenantId=${tenantId}`, `events?tenantId=ten_${none}`],
    ['a slug', () => 'tenants/lookup?slug=crate', 'tenants/lookup?slug=nobody'],
    [
      'a name',
      () => 'tenants/lookup?namespace=depots&name=crate',
      'tenants/lookup?namespace=depots&name=nobody',
    ],
    ['a key', () => `tenants/lookup?keyPrefix=${keyPrefix}`, 'tenants/lookup?keyPrefix=lk_nobodysx'],
  ]
  /** A user for whom the denials of the cluster and of one event's tenant are cached. */
  const isRefused = async () => {
    token = someUser()
    expect((await call('GET', `events/${depot.eventId}`)).status).toBe(404)
  }
  let asked: number
  const countOf = async (path: string) => {
    asked = 0
    expect([path, (await call('GET', path)).status]).toEqual([path, 404])
    return asked
  }
  beforeEach(() => backoffice.allow(() => (asked += 1) < 0))

  test.each(pairs.slice(1))(
    'rights: a request for %s takes the same number of rights checks for a missing and for an invisible object',
    async (_what, path, nobodys) => {
      await isRefused()
      expect([await countOf(path(depot)), await countOf(nobodys)]).toEqual([1, 1])
      expect([await countOf(path(depot)), await countOf(nobodys)]).toEqual([0, 0])
    },
  )

  test.each(pairs)(
    'rights: a request for %s returns 503 while the API server is unavailable, for a missing and for an invisible object',
    async (_what, path, nobodys) => {
      token = someUser()
      expect((await call('GET', 'events')).status).toBe(403)
      backoffice.breakApiServer(true)
      try {
        for (const each of [path(depot), nobodys])
          expect([each, (await call('GET', each)).status]).toEqual([each, 503])
      } finally {
        backoffice.breakApiServer(false)
      }
    },
  )

  test('rights: a replay of all tenants is invisible to a user who does not see all tenants', async () => {
    const started = await backoffice.call('POST', '/internal/v1/replays', {
      headers: { 'Idempotency-Key': someUser() },
      body: { from: '2026-11-01T00:00:00Z' },
    })
    const [id] = /rpl_\w{26}/.exec(started.text) ?? []
    expect([started.status, id]).toEqual([202, expect.any(String)])
    await isRefused()
    expect([await countOf(`replays/${id}`), await countOf(`replays/rpl_${none}`)]).toEqual([1, 1])
  })
})

test('rights: every call of a user returns 503 while the API server is unavailable', async () => {
  backoffice.breakApiServer(true)
  try {
    for (const path of [
      `events/${shop.eventId}`,
      'events/evt_06gw979vs1d9q6mddfvvx375s4',
      'events',
      'tenants',
    ]) {
      const answer = await call('GET', path)
      expect([path, answer.status, answer.headers.get('retry-after')]).toEqual([path, 503, '1'])
    }
  } finally {
    backoffice.breakApiServer(false)
  }
})

test('log: request lines name the caller and contain no token', async () => {
  backoffice.allow(sees)
  await call('GET', `tenants/${shop.tenantId}`)
  const logs = backoffice.logs()
  expect(logs).toContain(`user:${token}`)
  expect(logs).not.toContain(`Bearer ${token}`)
})
