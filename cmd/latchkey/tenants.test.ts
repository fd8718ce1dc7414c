import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { type ExplainedTenant, explainTenant } from './tenant-why.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())

const unknownId = 'ten_00000000000000000000000000'

describe('latchkey tenants', () => {
  test('latchkey tenants list: shows tenants as a table, and as one JSON array', async () => {
    const { code, out } = await lab.run('tenants', 'list')
    expect(code).toBe(0)
    expect(out).toMatch(/^TENANT +SLUG +STATE +CREATED AT +ID\n/)
    expect(out).toMatch(new RegExp(`^shops/acme +acme +ready +20\\S+Z +${lab.seeded.acme.tenantId}$`, 'm'))
    const found = await lab.json<{ slug: string }[]>(
      'tenants',
      'list',
      '--search',
      'riv',
      '--namespaces',
      'shops,other',
    )
    expect(found.map(({ slug }) => slug)).toEqual(['rival'])
  })

  test.each([
    ['its id', () => lab.seeded.acme.tenantId],
    ['its slug', () => 'acme'],
    ['namespace and name', () => 'shops/acme'],
  ])('latchkey tenants get: finds a tenant by %s', async (_case, named) => {
    const { code, out } = await lab.run('tenants', 'get', named())
    expect(code).toBe(0)
    expect(out).toMatch(/^callback +http:\/\/127\.0\.0\.1:9999\/$/m)
    expect(out).toMatch(/^SecretsSynced +True +Synced/m)
    expect(out).toMatch(/^default +events payloads:read records simulations +lk_acme_da/m)
    expect(out).not.toContain(dashboardKey('acme'))
    expect(await lab.json('tenants', 'get', named())).toMatchObject({ slug: 'acme', isReady: true })
  })

  test.each([['get'], ['why']])(
    'latchkey tenants %s: an unknown tenant ends with code 3',
    async (command) => {
      for (const named of [unknownId, 'nobody', 'shops/nobody'])
        expect(await lab.run('tenants', command, named)).toMatchObject({ code: 3, out: '' })
    },
  )

  test.each([
    [
      'an unknown API key',
      'lk_unknown_0123456789abcdef0123456789',
      'run latchkey login --internal, or correct LATCHKEY_TOKEN (unauthenticated, ',
    ],
    ['a user without rights', 'some-user', 'ask the platform team for a role (forbidden, '],
  ])('latchkey tenants: the token of %s ends with code 4', async (_case, token, text) => {
    const { code, out, err } = await latchkey(['tenants', 'list'], { ...lab.env(), LATCHKEY_TOKEN: token })
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(err).toContain(text)
    expect(err).not.toContain(token)
  })

  test('latchkey tenants: an address and a token are required, even if an API key is given', async () => {
    const { LATCHKEY_INTERNAL_URL: _url, ...env } = lab.env()
    const { code, err } = await latchkey(['tenants', 'list'], env)
    expect(code).toBe(4)
    expect(err).toContain(
      'run latchkey login --internal --url URL, or set LATCHKEY_INTERNAL_URL and LATCHKEY_TOKEN',
    )
  })
})

describe('latchkey tenants why', () => {
  const settings = (method: string, path: string, body?: object) =>
    lab.backoffice.call(method, `/internal/v1/${path}/settings/forwarding.paused`, { body })

  test('latchkey tenants why: reports no problem for a ready tenant', async () => {
    expect(await lab.run('tenants', 'why', 'rival')).toEqual({
      code: 0,
      err: '',
      out: 'shops/rival is served, and nothing blocks its deliveries.\n',
    })
  })

  test('latchkey tenants why: names a pause of the tenant, with the command that ends the pause', async () => {
    const path = `tenants/${lab.seeded.plain.tenantId}`
    await settings('PUT', path, { value: true })
    expect((await lab.run('tenants', 'why', 'plain')).out).toMatch(
      /^Deliveries of shops\/plain are paused by operator:dev since [^ ]+Z \(setting forwarding.paused\): events are accepted and wait, and use no attempt\.\n\n {2}latchkey settings clear forwarding\.paused --tenant plain\n$/,
    )
    await settings('DELETE', path)
    expect(await lab.json('tenants', 'why', 'plain')).toMatchObject({ reason: 'InForce' })
  })

  test('latchkey tenants why: names a suspended callback, with the command that resumes it', async () => {
    const { tenantId } = lab.seeded.reader
    await lab.backoffice.pool.query(
      `INSERT INTO tenant_queues (tenant_id, destination, next_due_at, suspended_at, suspended_cause) VALUES ($1, 'callback', now(), now(), 'gone')
       ON CONFLICT (tenant_id, destination) DO UPDATE SET suspended_at = now(), suspended_cause = 'gone'`,
      [tenantId],
    )
    const { out } = await lab.run('tenants', 'why', 'reader')
    expect(out).toContain('The callback of shops/reader has been suspended since 20')
    expect(out).toEndWith('\n\n  latchkey tenants resume shops/reader\n')
    expect((await lab.run('tenants', 'resume', 'shops/reader')).out).toContain('one event is delivered first')
    expect((await lab.run('tenants', 'resume', 'reader')).out).toContain('nothing was changed')
    expect(await lab.json('tenants', 'why', 'reader')).toMatchObject({ reason: 'InForce' })
    expect((await lab.run('tenants', 'resume', 'nobody')).code).toBe(3)
    const path = `tenants/${tenantId}`
    await settings('PUT', path, { value: true })
    await lab.backoffice.pool.query(
      `UPDATE tenant_queues SET suspended_at = now(), suspended_cause = 'gone' WHERE tenant_id = $1`,
      [tenantId],
    )
    expect((await lab.run('tenants', 'resume', 'reader')).out).toContain(
      'deliveries still wait: they are paused for this tenant by operator:dev (setting forwarding.paused)',
    )
    await settings('DELETE', path)
  })
})

const condition = (reason: string, type = 'SecretsSynced') => ({
  type,
  status: 'False' as const,
  reason,
  message: 'the Secret acme-card is missing',
  lastTransitionTime: '2026-11-21T08:00:00Z',
})
const acme: ExplainedTenant = {
  tenant: {
    namespace: 'shops',
    name: 'acme',
    slug: 'acme',
    suspended: false,
    isReady: true,
    conditions: [],
  },
  pause: undefined,
  nowMs: Date.UTC(2026, 10, 21),
}
const facts = (
  tenant: Partial<ExplainedTenant['tenant']>,
  more: Partial<ExplainedTenant> = {},
): ExplainedTenant => ({
  ...acme,
  ...more,
  tenant: { ...acme.tenant, ...tenant },
})
const suspendedCallback = { cause: 'gone', suspendedAt: '2026-11-20T08:00:00.000Z' }

test.each<[string, ExplainedTenant, string, string | undefined]>([
  [
    'a suspension before anything else',
    facts({ suspended: true, conditions: [condition('SecretMissing')] }),
    'Suspended',
    'kubectl patch tenant acme -n shops --type merge -p \'{"spec":{"suspended":false}}\'',
  ],
  [
    'a condition before a suspended callback',
    facts({ conditions: [condition('SecretMissing')], suspendedCallback }),
    'SecretMissing',
    'kubectl edit secret SECRET -n shops',
  ],
  [
    'a suspended callback by its condition',
    facts({ conditions: [condition('CallbackSuspended')], suspendedCallback }),
    'CallbackSuspended',
    'latchkey tenants resume shops/acme',
  ],
  [
    'a missing callback',
    facts(
      { conditions: [{ ...condition('NoCallback', 'CallbackAllowed'), status: 'True' }] },
      { pause: { owner: 'tenant', by: 'user:ada', since: null } },
    ),
    'NoCallback',
    undefined,
  ],
  [
    'a slug that cannot change',
    facts({ conditions: [condition('SlugImmutable')] }),
    'SlugImmutable',
    'kubectl patch tenant acme -n shops --type merge -p \'{"spec":{"slug":"acme"}}\'',
  ],
  [
    'a refused spec, which only Ready names',
    facts({ conditions: [condition('SpecInvalid', 'Ready')] }),
    'SpecInvalid',
    'kubectl edit tenant acme -n shops',
  ],
  [
    'a missing right, whose message has the command',
    facts({ conditions: [condition('Forbidden')] }),
    'Forbidden',
    undefined,
  ],
  [
    'a reason of a later version',
    facts({ conditions: [condition('Haunted')] }),
    'Haunted',
    'kubectl describe tenant acme -n shops',
  ],
  [
    'no stage of the wallet rollout, because this is not a fault',
    facts({ conditions: [condition('StageOff', 'WalletEnabled')] }),
    'InForce',
    undefined,
  ],
  [
    'the manifest of a tenant of a folder',
    facts({ suspended: true, manifestFile: '/etc/latchkey/tenants/acme.yaml' }),
    'Suspended',
    '${EDITOR:-vi} /etc/latchkey/tenants/acme.yaml   # Tenant: spec.suspended: false',
  ],
  [
    'a manifest whose path needs quotes',
    facts({ conditions: [condition('SlugImmutable')], manifestFile: "/srv/it's mine/a.yaml" }),
    'SlugImmutable',
    "${EDITOR:-vi} '/srv/it'\\''s mine/a.yaml'   # Tenant: spec.slug: acme",
  ],
  [
    'a Secret without its label, and an unknown manifest',
    facts({ conditions: [condition('SecretNotLabelled')], manifestFile: null }),
    'SecretNotLabelled',
    '${EDITOR:-vi} FILE-OF-THE-TENANT   # Secret: metadata.labels: {latchkey.dev/tenant: acme}',
  ],
  [
    'the log of a service without Kubernetes',
    facts({ conditions: [condition('Retrying')], manifestFile: '/etc/latchkey/tenants/acme.yaml' }),
    'Retrying',
    'journalctl -u latchkey --lines 50',
  ],
  [
    'a pause of the installation',
    facts({}, { pause: { owner: 'installation', by: null, since: '2026-11-21T00:00:00.000Z' } }),
    'ForwardingPaused',
    'latchkey settings clear forwarding.paused',
  ],
  ['an open circuit breaker', facts({ breakerEndsAt: '2026-11-21T00:01:00.000Z' }), 'BreakerOpen', undefined],
  [
    'no circuit breaker that has closed',
    facts({ breakerEndsAt: '2026-11-20T00:01:00.000Z' }),
    'InForce',
    undefined,
  ],
  [
    'a tenant without conditions',
    facts({ isReady: false }),
    'Unknown',
    'kubectl describe tenant acme -n shops',
  ],
])('explanation of a tenant: names %s', (_case, given, reason, command) => {
  const explained = explainTenant(given)
  expect([explained.reason, explained.command]).toEqual([reason, command])
  expect(explained.sentence).toMatch(/^[^\n]+\.$/)
})

describe('latchkey audit', () => {
  test('latchkey audit: lists the entries of the filter', async () => {
    const { code, out } = await lab.run('audit', '--tenant', 'acme', '--action', 'replays.started')
    expect(code).toBe(0)
    expect(out).toMatch(
      /^DONE AT +ACTOR +ACTION +TENANT +DETAIL\n20\S+Z +operator:dev +replays\.started +ten_\w+ +\{/,
    )
    const listed = await lab.json<{ tenantId: string; action: string }[]>(
      'audit',
      '--tenant',
      'shops/acme',
      '--action',
      'replays.',
      '--from',
      '1h',
    )
    expect(listed.map(({ tenantId, action }) => [tenantId, action])).toEqual([
      [lab.seeded.acme.tenantId, 'replays.started'],
    ])
    expect(await lab.json<unknown[]>('audit', '--actor', 'nobody at all')).toEqual([])
  })

  test.each([
    [['audit', '--tenant', 'nobody'], 3, '(not_found, request '],
    [['audit', '--action', 'replay'], 2, 'Allowed choices are callbacks.'],
  ] as const)('latchkey %j: ends with code %d', async (args, exitCode, text) => {
    const { code, out, err } = await lab.run(...args)
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(text)
  })
})
