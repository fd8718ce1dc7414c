import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type CallOptions, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { until } from '#test/support/until.ts'
import { internalRoutes } from './http.ts'

let backoffice: TestBackoffice
let own: SeededTenant
let other: SeededTenant
let readOnly: SeededTenant

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme'),
      dashboardTenantYaml('rival'),
      dashboardTenantYaml('reader', { scopes: '["dashboard:read", simulations]' }),
    ].join(''),
  )
  own = await seedTenant(backoffice, 'acme')
  other = await seedTenant(backoffice, 'rival')
  readOnly = await seedTenant(backoffice, 'reader')
}, 30_000)
afterAll(() => backoffice.close())

const token = dashboardKey('acme')
const bodies: Readonly<Record<string, (owner: SeededTenant) => object>> = {
  'POST /internal/v1/event-searches': ({ tenantId }) => ({
    tenantId,
    from: '2026-01-01T00:00:00Z',
    text: 'payment',
  }),
  'PUT /internal/v1/tenants/:tenantId/usage/:emissionId': () => ({
    kind: 'exports.rows',
    amount: 1,
    occurredAt: new Date().toISOString(),
  }),
  'PUT /internal/v1/tenants/:tenantId/limits/:limit/override': () => ({
    hard: 1,
    expiresAt: new Date(Date.now() + 60_000).toISOString(),
    reason: 'a test',
  }),
  'PUT /internal/v1/tenants/:tenantId/settings/:name': () => ({ value: true }),
  'POST /internal/v1/guardrails/check': ({ tenantId }) => ({ tenantId, kind: 'exports.rows' }),
  'PUT /internal/v1/settings/:name': () => ({ value: true }),
  'POST /internal/v1/tenants/:tenantId/simulations': () => ({ amount: 1, currency: 'EUR' }),
  'POST /internal/v1/events': ({ tenantId }) => ({
    tenantId,
    provider: 'card',
    sourceEventId: 'planted',
    type: 'payment.succeeded',
    payload: {},
  }),
  'POST /internal/v1/events/:eventId/replays': () => ({ cycle: 1 }),
  'POST /internal/v1/replay-previews': ({ tenantId }) => ({ tenantId, from: '2026-01-01T00:00:00Z' }),
  'POST /internal/v1/replays': ({ tenantId }) => ({ tenantId, from: '2026-01-01T00:00:00Z' }),
  'POST /internal/v1/simulations/:simulationId/advance': ({ simulationId }) => ({
    sourceEventId: `evt_${simulationId}_1`,
  }),
}

/** Calls whose path or body names an object of a tenant. */
const naming = internalRoutes.filter(
  ({ method, path }) =>
    /:(tenantId|eventId|replayId|simulationId)/.test(path) ||
    (`${method} ${path}` in bodies && !path.startsWith('/internal/v1/settings')),
)

function pathOf(path: string, owner: SeededTenant): string {
  const { tenantId, failedId, replayId, simulationId, subscription } = owner
  const values: Record<string, string> = {
    tenantId,
    eventId: failedId,
    replayId,
    simulationId,
    subscriptionName: subscription,
  }
  const rest: Record<string, string> = {
    emissionId: 'e-1',
    limit: 'eventsPerMonth',
    name: 'forwarding.paused',
  }
  return path.replaceAll(/:(\w+)/g, (_whole, name: string) => values[name] ?? rest[name] ?? '')
}

function optionsOf(method: string, path: string, owner: SeededTenant): CallOptions {
  const body = bodies[`${method} ${path}`]?.(owner)
  return { token, headers: { 'Idempotency-Key': 'planted' }, ...(body && { body }) }
}

const unknown: SeededTenant = {
  tenantId: `ten_${'1'.repeat(26)}` as SeededTenant['tenantId'],
  eventId: 'evt_06gw979vs1d9q6mddfvvx375s4' as SeededTenant['eventId'],
  failedId: 'evt_06gw979vs1d9q6mddfvvx375s4' as SeededTenant['eventId'],
  sourceEventId: 'nobodys',
  replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
  simulationId: 'sim_06gw979vs1d9q6mddfvvx375s4',
  refusedId: 'ref_06gw979vs1d9q6mddfvvx375s4',
  subscription: 'unknown',
}

/** Rows of a tenant, to detect changes. */
async function traceOf({ tenantId }: SeededTenant): Promise<unknown> {
  const { rows } = await backoffice.pool.query(
    `SELECT (SELECT count(*) FROM events WHERE tenant_id = $1) AS events,
       (SELECT json_agg(e.cycle ORDER BY e.id) FROM events e WHERE tenant_id = $1) AS cycles,
       (SELECT json_agg(r.state) FROM replays r WHERE tenant_id = $1) AS replays,
       (SELECT json_agg(s.* ORDER BY s.id) FROM simulations s WHERE tenant_id = $1) AS simulations,
       (SELECT json_agg(s.* ORDER BY s.name) FROM subscriptions s WHERE tenant_id = $1) AS subscriptions,
       (SELECT count(*) FROM usage_emissions WHERE tenant_id = $1) AS emissions,
       (SELECT count(*) FROM limit_overrides WHERE tenant_id = $1) AS overrides,
       (SELECT count(*) FROM settings WHERE tenant_id = $1) AS settings,
       (SELECT count(*) FROM audit WHERE tenant_id = $1) AS audit`,
    [tenantId],
  )
  return rows[0]
}

describe('tenant key', () => {
  test.each(naming.map(({ method, path }) => [method, path] as const))(
    'tenant key: %s %s with another tenant’s id returns 404, the same as for a missing object',
    async (method, path) => {
      const before = await traceOf(other)
      const refused = await backoffice.call(method, pathOf(path, other), optionsOf(method, path, other))
      const nobodys = await backoffice.call(method, pathOf(path, unknown), optionsOf(method, path, unknown))
      expect([refused.status, nobodys.status]).toEqual([404, 404])
      const { requestId: _one, ...said } = refused.json
      const { requestId: _other, ...saidOfNobody } = nobodys.json
      expect(said).toEqual(saidOfNobody)
      expect(refused.text).not.toContain(other.tenantId)
      expect(await traceOf(other)).toEqual(before)
    },
  )

  test.each([
    ['/internal/v1/tenants', 'id'],
    ['/internal/v1/events', 'id'],
    ['/internal/v1/replays', 'id'],
    ['/internal/v1/simulations', 'simulationId'],
    ['/internal/v1/audit-entries', 'id'],
  ])('tenant key: %s lists only the rows of the key’s own tenant on all pages', async (path) => {
    let after = ''
    const seen: string[] = []
    do {
      const answer = await backoffice.call('GET', `${path}?limit=1${after}`, { token })
      expect(answer.status).toBe(200)
      const page = answer.json as { items: Record<string, unknown>[]; next?: string }
      seen.push(JSON.stringify(page.items))
      after = page.next === undefined ? '' : `&after=${page.next}`
    } while (after !== '')
    expect(seen.join()).toContain(own.tenantId)
    expect(seen.join()).not.toContain(other.tenantId)
    expect(seen.join()).not.toContain('rival')
  })

  test('tenant key: a cursor that points to another tenant’s row returns none of that tenant’s rows', async () => {
    for (const [path, cursor] of [
      ['/internal/v1/events', other.eventId],
      ['/internal/v1/replays', other.replayId],
      ['/internal/v1/simulations', other.simulationId],
      ['/internal/v1/audit-entries', '9007199254740991'],
      ['/internal/v1/tenants', 'shops/aaaa'],
      [`/internal/v1/tenants/${own.tenantId}/refused-calls`, other.refusedId],
      ['/internal/v1/refused-calls', other.refusedId],
    ]) {
      const answer = await backoffice.call('GET', `${path}?after=${cursor}`, { token })
      expect([path, answer.status]).toEqual([path, 200])
      expect(answer.text).not.toContain(other.tenantId)
    }
  })

  test.each([
    ['events', () => `tenantId=${other.tenantId}`, 404],
    ['replays', () => `tenantId=${other.tenantId}`, 404],
    ['simulations', () => `tenantId=${other.tenantId}`, 404],
    ['audit-entries', () => `tenantId=${other.tenantId}`, 404],
    ['tenants/lookup', () => `id=${other.tenantId}`, 404],
    ['tenants/lookup', () => 'slug=rival', 404],
    ['tenants/lookup', () => 'namespace=shops&name=rival', 404],
    ['tenants/lookup', () => `keyPrefix=${dashboardKey('rival').slice(0, 11)}`, 404],
    ['refused-calls', () => `tenantId=${other.tenantId}`, 404],
    ['refused-calls', () => 'namespaces=shops', 400],
    ['events', () => 'namespaces=shops', 400],
    ['tenants', () => 'namespaces=shops', 400],
  ])(
    'tenant key: /internal/v1/%s with a filter for another tenant returns none of that tenant’s data',
    async (path, query, status) => {
      const answer = await backoffice.call('GET', `/internal/v1/${path}?${query()}`, { token })
      expect(answer.status).toBe(status)
      expect(answer.text).not.toContain(other.tenantId)
    },
  )

  test.each([
    ['another tenant’s event id', () => `id=${other.eventId}`],
    ['another tenant’s provider id', () => `sourceEventId=${other.sourceEventId}`],
  ])('tenant key: searching events by %s returns an empty list', async (_what, query) => {
    const answer = await backoffice.call('GET', `/internal/v1/events?${query()}`, { token })
    expect([answer.status, answer.json]).toEqual([200, { items: [] }])
  })

  test('tenant key: can read every object of its own tenant', async () => {
    for (const [path, holds] of [
      [`tenants/${own.tenantId}`, '"slug":"acme"'],
      [`tenants/lookup?keyPrefix=${token.slice(0, 11)}`, own.tenantId],
      [`events/${own.eventId}`, own.eventId],
      [`events/${own.eventId}/payload`, '820982911946154508'],
      [`events?sourceEventId=${own.sourceEventId}`, own.eventId],
      [`replays/${own.replayId}`, own.replayId],
      [`simulations/${own.simulationId}`, own.simulationId],
      [`tenants/${own.tenantId}/executions?scope=payments&key=key-of-acme`, 'key-of-acme'],
      [`tenants/${own.tenantId}/refused-calls`, own.refusedId],
      ['refused-calls', own.refusedId],
      [`tenants/${own.tenantId}/usage`, 'eventsPerMonth'],
    ] as const) {
      const answer = await backoffice.call('GET', `/internal/v1/${path}`, { token })
      expect([path, answer.status, answer.text.includes(holds)]).toEqual([path, 200, true])
    }
  })

  test.each([
    ['dashboard', () => own, token],
    ['dashboard:read', () => readOnly, dashboardKey('reader')],
  ])(
    '%s key: can check its own tenant’s guardrails, and committing usage returns 403',
    async (_scope, tenant, key) => {
      const { tenantId } = tenant()
      const before = await traceOf(tenant())
      const check = (more: object) =>
        backoffice.call('POST', '/internal/v1/guardrails/check', {
          token: key,
          body: { tenantId, kind: 'locks', ...more },
        })
      const checked = await check({})
      expect([checked.status, checked.json['decision']]).toEqual([200, 'allow'])
      const committed = await check({ commit: true, id: 'planted' })
      expect([committed.status, committed.json['code']]).toEqual([403, 'forbidden'])
      expect(committed.json['message']).toContain('use a token of kubectl create token')
      expect(await traceOf(tenant())).toEqual(before)
    },
  )

  test.each([
    ['PUT', '/internal/v1/tenants/:tenantId/usage/:emissionId'],
    ['PUT', '/internal/v1/tenants/:tenantId/limits/:limit/override'],
    ['DELETE', '/internal/v1/tenants/:tenantId/limits/:limit/override'],
    ['PUT', '/internal/v1/tenants/:tenantId/settings/:name'],
    ['DELETE', '/internal/v1/tenants/:tenantId/settings/:name'],
    ['POST', '/internal/v1/events'],
    ['GET', '/internal/v1/settings'],
    ['GET', '/internal/v1/settings/:name'],
    ['DELETE', '/internal/v1/settings/:name'],
  ])(
    'tenant key: %s %s for its own tenant returns 403, because only platform users may call it',
    async (method, path) => {
      const before = await traceOf(own)
      const answer = await backoffice.call(method, pathOf(path, own), optionsOf(method, path, own))
      expect(answer.status).toBe(403)
      expect(await traceOf(own)).toEqual(before)
    },
  )
})

describe('dashboard:read key', () => {
  const readOnlyToken = dashboardKey('reader')
  const call = (method: string, path: string) =>
    backoffice.call(method, pathOf(path, readOnly), {
      ...optionsOf(method, path, readOnly),
      token: readOnlyToken,
    })
  /** POSTs without side effects. */
  const reads = ['POST /internal/v1/replay-previews', 'POST /internal/v1/guardrails/check']
  const isWrite = ({ method, path }: (typeof internalRoutes)[number]) =>
    method !== 'GET' && !reads.includes(`${method} ${path}`)

  test.each(internalRoutes.filter(isWrite).map((route) => [route.method, route.path, route] as const))(
    'dashboard:read key: %s %s returns 403, names the documented scopes and changes nothing',
    async (method, path, { operation }) => {
      const before = await traceOf(readOnly)
      const answer = await call(method, path)
      expect([answer.status, answer.json['code']]).toEqual([403, 'forbidden'])
      const documented = /an API key of (.*)\.$/.exec(String(operation.description))?.[1]
      const needed = documented && `needs the ${documented.replaceAll('`', '')}, and`
      expect(answer.json['message']).toContain(needed ?? 'No API key may do this')
      expect(await traceOf(readOnly)).toEqual(before)
    },
  )

  test('dashboard:read key: reading a raw payload returns 403 and writes no audit entry', async () => {
    const before = await traceOf(readOnly)
    const path = `/internal/v1/events/${readOnly.eventId}/payload`
    const answer = await backoffice.call('GET', path, { token: readOnlyToken })
    expect([answer.status, answer.json['code']]).toEqual([403, 'forbidden'])
    expect(await traceOf(readOnly)).toEqual(before)
  })

  test.each(
    naming
      .filter((row) => !isWrite(row) && !row.path.endsWith('/payload'))
      .map(({ method, path }) => [method, path] as const),
  )('dashboard:read key: %s %s returns 200', async (method, path) => {
    expect((await call(method, path)).status).toBe(200)
  })

  test('dashboard:read key: a guardrail check that counts usage returns 403, and the message says what the key may do', async () => {
    const body = { tenantId: readOnly.tenantId, kind: 'exports.rows', commit: true, id: 'a' }
    const answer = await backoffice.call('POST', '/internal/v1/guardrails/check', {
      body,
      token: readOnlyToken,
    })
    expect([answer.status, answer.json['message']]).toEqual([
      403,
      expect.stringContaining('only reads, and only the tenant of the key'),
    ])
  })

  test('tenant key: a replay preview without a tenant covers only the tenant of the key', async () => {
    const body = { from: '2026-01-01T00:00:00Z' }
    const answer = await backoffice.call('POST', '/internal/v1/replay-previews', {
      body,
      token: readOnlyToken,
    })
    expect(answer.status).toBe(200)
    expect(answer.text).toContain(readOnly.failedId)
    expect(answer.text).not.toContain(other.tenantId)
  })

  test('dashboard:read key: the permissions list contains only the `see` right', async () => {
    const { json } = await call('GET', '/internal/v1/tenants/:tenantId/permissions')
    expect(Object.entries(json).filter(([, isAllowed]) => isAllowed)).toEqual([['see', true]])
  })
})

test('tenant key: a key without the dashboard scope or of a suspended tenant gets 403 with the error code', async () => {
  const { call } = backoffice
  const noScope = dashboardTenantYaml('acme').replace('[dashboard, simulations]', '[records]')
  const asleep = dashboardTenantYaml('rival', { spec: ['suspended: true'] })
  await backoffice.applyManifests(`${noScope}${asleep}`)
  for (const [name, code] of [
    ['acme', 'api_key_scope'],
    ['rival', 'tenant_suspended'],
  ] as const) {
    const said = async () => {
      const answer = await call('GET', '/internal/v1/events', { token: dashboardKey(name) })
      return answer.status === 403 && answer.json['code']
    }
    expect(await until(`${name} to be refused`, async () => (await said()) || undefined)).toBe(code)
  }
})
