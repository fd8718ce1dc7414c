import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml, refuseCall } from '#test/support/dashboard/backoffice-tenants.ts'

let backoffice: TestBackoffice
beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme', { spec: ['displayName: "Größe & Söhne"'] }),
      dashboardTenantYaml('acorn'),
      dashboardTenantYaml('bolt', { namespace: 'depots', spec: ['suspended: true'] }),
    ].join(''),
  )
}, 30_000)
afterAll(() => backoffice.close())

const get = async (path: string) => (await backoffice.call('GET', `/internal/v1/${path}`)).json
const slugsOf = (page: Record<string, unknown>) =>
  (page['items'] as { slug: string }[]).map(({ slug }) => slug)

describe('tenants', () => {
  test('tenant list: is sorted by namespace and name across pages', async () => {
    const first = await get('tenants?limit=2')
    expect(slugsOf(first)).toEqual(['bolt', 'acme'])
    expect(slugsOf(await get(`tenants?limit=2&after=${String(first['next'])}`))).toEqual(['acorn'])
  })

  test.each([
    ['ac', ['acme', 'acorn']],
    ['ACOR', ['acorn']],
    ['depots/', ['bolt']],
    ['söhne', ['acme']],
    ['nobody', []],
    ['%', []],
  ])('tenant list: a search for %p returns the matching tenants', async (search, slugs) => {
    const page = await get(`tenants?search=${encodeURIComponent(search)}`)
    expect([slugsOf(page), page['next']]).toEqual([slugs, undefined])
  })

  test.each([
    ['tenants', () => 'tenants'],
    ['events', () => 'events'],
    ['replays', () => 'replays'],
    ['simulations', () => 'simulations'],
    ['audit entries', () => 'audit-entries'],
    ['refused calls', () => `tenants/${backoffice.tenantId('acme')}/refused-calls`],
    ['lock history entries', () => `tenants/${backoffice.tenantId('acme')}/executions`],
  ])(
    'list of %s: a malformed cursor returns 400 with the error fields of the contract',
    async (_name, path) => {
      for (const after of ['', 'x', 'YQ', 'no slash', 'evt_1', '-1', 'a'.repeat(513)]) {
        const query = `after=${encodeURIComponent(after)}`
        const { status, json } = await backoffice.call('GET', `/internal/v1/${path()}?${query}`)
        expect([after, status, json]).toEqual([
          after,
          400,
          {
            statusCode: 400,
            error: 'Bad Request',
            code: 'invalid_request',
            message: expect.stringMatching(/./),
            requestId: expect.stringMatching(/./),
          },
        ])
      }
    },
  )

  test.each([
    ['id', () => backoffice.tenantId('acme')],
    ['slug', () => 'acme'],
    ['keyPrefix', () => dashboardKey('acme').slice(0, 11)],
  ])('tenant lookup: finds the tenant by %s', async (name, value) => {
    expect(await get(`tenants/lookup?${name}=${value()}`)).toMatchObject({
      slug: 'acme',
      namespace: 'shops',
      displayName: 'Größe & Söhne',
      isReady: true,
      reason: null,
    })
  })

  test.each([
    ['no parameter', ''],
    ['two references', 'slug=acme&id=x'],
    ['a namespace without a name', 'namespace=shops'],
    ['a whole API key', `keyPrefix=${dashboardKey('acme')}`],
    ['a prefix that no key has', 'keyPrefix=sk_12345678'],
  ])('tenant lookup: a query with %s returns 400', async (_what, query) => {
    const answer = await backoffice.call('GET', `/internal/v1/tenants/lookup?${query}`)
    expect(answer.status).toBe(400)
    expect(answer.text).not.toContain(dashboardKey('acme'))
  })

  test('tenant list: shows the reason why a tenant is not ready', async () => {
    expect(await get('tenants/lookup?slug=bolt')).toMatchObject({
      suspended: true,
      isReady: false,
      reason: 'Suspended',
    })
  })

  test('tenant: the response contains URLs, keys and secret names, but no secret values', async () => {
    const id = backoffice.tenantId('acme')
    const shown = await get(`tenants/${id}`)
    expect(shown).toMatchObject({
      urls: [
        { provider: 'card', url: 'https://hooks.example.test/v1/t/acme/webhooks/card' },
        { provider: 'wallet', url: 'https://hooks.example.test/v1/t/acme/webhooks/wallet' },
      ],
      keys: [
        {
          name: 'default',
          prefix: dashboardKey('acme').slice(0, 11),
          expiresAt: null,
          scopes: ['dashboard', 'simulations'],
        },
      ],
      secrets: [
        { field: 'callback', secretName: 'acme-signing' },
        { field: 'provider:card', secretName: 'acme-provider' },
      ],
    })
    const { text } = await backoffice.call('GET', `/internal/v1/tenants/${id}`)
    for (const secret of [dashboardKey('acme'), 'whsec_']) expect(text).not.toContain(secret)
  })

  test('tenant: the response contains the time at which an API key expires', async () => {
    const id = backoffice.tenantId('bolt')
    const expiresAt = '2031-02-03T04:05:06.000Z'
    await backoffice.pool.query('UPDATE api_keys SET expires_at = $2 WHERE tenant_id = $1', [id, expiresAt])
    expect(await get(`tenants/${id}`)).toMatchObject({ keys: [{ expiresAt }] })
  })

  test('tenant: the response contains the callback suspension and the open circuit breaker', async () => {
    const id = backoffice.tenantId('acorn')
    await backoffice.pool.query(
      `INSERT INTO tenant_queues (tenant_id, destination, next_due_at, suspended_at, suspended_cause, breaker_until)
       VALUES ($1, 'callback', now(), now(), 'gone', now() + interval '1 minute')`,
      [id],
    )
    expect(await get(`tenants/${id}`)).toMatchObject({
      suspendedCallback: { cause: 'gone', suspendedAt: expect.stringMatching(/Z$/) },
      breakerEndsAt: expect.stringMatching(/Z$/),
    })
  })
})

describe('tenants with the same key prefix', () => {
  const prefix = 'lk_alike000'
  const others = Array.from({ length: 21 }, (_none, nth) => `ten_${String(nth).padStart(26, '0')}`)
  /** Keys of as many tenants of another namespace, whose ids come first, and one of acme's. */
  async function addKeys(count: number): Promise<void> {
    await backoffice.pool.query('DELETE FROM api_keys WHERE prefix = $1', [prefix])
    await backoffice.pool.query(
      `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
       SELECT other, other, 'elsewhere', other, false, spec, version, now(), now(), now()
       FROM tenants, unnest($1::text[]) other WHERE id = $2 ON CONFLICT DO NOTHING`,
      [others, backoffice.tenantId('acme')],
    )
    await backoffice.pool.query(
      `INSERT INTO api_keys (sha256, tenant_id, name, scopes, created_at, prefix)
       SELECT sha256(convert_to(owner, 'UTF8')), owner, 'alike', '{}', now(), $2 FROM unnest($1::text[]) owner`,
      [[...others.slice(0, count), backoffice.tenantId('acme')], prefix],
    )
  }
  const find = (token: string) =>
    backoffice.call('GET', `/internal/v1/tenants/lookup?keyPrefix=${prefix}`, { token })

  test('key prefix lookup: returns the one tenant that the actor may see among tenants with the same prefix', async () => {
    await addKeys(21)
    expect(await find(dashboardKey('acme'))).toMatchObject({ status: 200, json: { slug: 'acme' } })
    expect((await find(dashboardKey('acorn'))).status).toBe(404)
  })

  test('key prefix lookup: more than 20 tenants with the same prefix cause a conflict', async () => {
    const token = someUser()
    backoffice.allow(({ name, namespace }) => namespace === 'shops' && name === 'acme')
    await addKeys(19)
    expect(await find(token)).toMatchObject({ status: 200, json: { slug: 'acme' } })
    await addKeys(21)
    expect((await find(token)).status).toBe(409)
  })
})

test('refused calls: can be filtered by cause and by the neutral or vendor name of the provider', async () => {
  const { id } = await refuseCall(backoffice, 'acme')
  const list = `tenants/${backoffice.tenantId('acme')}/refused-calls`
  const idsOf = async (filter: string) =>
    ((await get(`${list}?${filter}`))['items'] as { id: string }[]).map((call) => call.id)
  for (const filter of [
    'provider=card',
    'provider=stripe',
    'cause=signature_mismatch',
    'provider=card&cause=signature_mismatch',
  ])
    expect([filter, await idsOf(filter)]).toEqual([filter, [id]])
  for (const filter of [
    'provider=generic',
    'cause=provider_not_enabled',
    'provider=generic&cause=signature_mismatch',
  ])
    expect([filter, await idsOf(filter)]).toEqual([filter, []])
  // Accepted although the name is unknown, because a Provider of this name may have been deleted.
  const unknown = await backoffice.call('GET', `/internal/v1/${list}?provider=nobody`)
  expect([unknown.status, unknown.json['items']]).toEqual([200, []])
  const malformed = await backoffice.call('GET', `/internal/v1/${list}?provider=No%20body`)
  expect(malformed.status).toBe(400)
})
