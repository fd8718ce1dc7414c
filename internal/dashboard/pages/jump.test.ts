import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ProviderName } from '#internal/tenants/index.ts'
import {
  type AskedRight,
  adminToken,
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
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'

let backoffice: TestBackoffice
let admin: DashboardSession
let acme: SeededTenant

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      dashboardTenantYaml('acme', { spec: ['displayName: Acme Goods'] }),
      dashboardTenantYaml('bolt', { namespace: 'depots' }),
      withDeclared(dashboardTenantYaml('crate')),
    ].join(''),
  )
  acme = await seedTenant(backoffice, 'acme')
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 60_000)
afterAll(() => backoffice.close())

/** Adds a declared provider under an alias. */
const withDeclared = (yaml: string) =>
  yaml.replace(
    'providers: [',
    'providers: [{name: lemon-squeezy, acceptUnverified: true, secretRef: {name: crate-provider}}, ',
  )

/** Returns the addresses that a search finds, without its form. */
async function found(session: DashboardSession, find: string, tenant = ''): Promise<string[]> {
  const { status, html } = await session.get(`/jump?find=${encodeURIComponent(find)}${tenant}`)
  expect(status).toBe(200)
  const results = html.slice(html.indexOf('id="jump-results"'), html.indexOf('<dialog'))
  return [...results.matchAll(/href="([^"]+)"/g)].map(([, href = '']) => href.replaceAll('&amp;', '&'))
}

const tenantPath = (slug: string) => `/tenants/${backoffice.tenantId(slug)}`

describe('jump', () => {
  test.each([
    ['part of a tenant’s slug', () => 'acm', () => [tenantPath('acme')]],
    ['part of a tenant’s display name', () => 'goods', () => [tenantPath('acme')]],
    ['a tenant’s id', () => backoffice.tenantId('bolt'), () => [tenantPath('bolt')]],
    ['a tenant’s namespace and name', () => 'depots/bolt', () => [tenantPath('bolt')]],
    ['the prefix of a key', () => dashboardKey('acme').slice(0, 11), () => [tenantPath('acme')]],
    ['an event’s id', () => acme.eventId, () => [`/events/${acme.eventId}`]],
    ['the name of a page', () => 'audit', () => ['/audit']],
    [
      'the name of an event type',
      () => 'chargeback.under_review',
      () => ['/events?type=chargeback.under_review'],
    ],
    [
      'a family of types in another case',
      () => 'Chargeback.Under*',
      () => ['/events?type=chargeback.under_review'],
    ],
    ['a type that senders chose', () => 'Parcel.lost', () => ['/events?type=parcel.lost']],
    ['the name of a setting', () => 'log.sampling', () => ['/settings#log.sampling']],
    ['a part of the name of a setting', () => 'forwarding.p', () => ['/settings#forwarding.paused']],
    ['a text without a match', () => 'no such thing', () => []],
  ])('jump: finds the expected pages by %s', async (_by, find, expected) => {
    expect(await found(admin, find())).toEqual(expected())
  })

  test('jump: a word finds pages first, then the family of types that begins with the word, and types that contain the word', async () => {
    expect((await found(admin, 'failed'))[0]).toBe('/events?state=delivery_failed')
    const [family, ...types] = await found(admin, 'Refund', '&tenant=acme')
    expect(family).toBe('/events?type=refund.*&tenant=acme')
    expect(types.length).toBe(4)
    for (const type of types) expect(type).toContain('type=refund.')
  })

  test('jump: a setting that tenants can have links to the settings page of the chosen tenant, and any other setting to the installation’s page', async () => {
    expect(await found(admin, 'forwarding.paused', '&tenant=acme')).toEqual([
      '/settings?tenant=acme#forwarding.paused',
    ])
    expect(await found(admin, 'log.sampling', '&tenant=acme')).toEqual(['/settings#log.sampling'])
    const owner = await openDashboardSession(backoffice.url, dashboardKey('acme'))
    expect(await found(owner, 'log.sampling')).toEqual([])
    expect(await found(owner, 'forwarding.paused')).toEqual(['/settings#forwarding.paused'])
    expect((await admin.get('/settings')).html).toContain('id="log.sampling"')
  })

  test('jump: a replay is found by its id, but not by an actor without the right to see the replay', async () => {
    const { json } = await backoffice.call('POST', '/internal/v1/replays', {
      headers: { 'Idempotency-Key': 'jump' },
      body: { tenantId: acme.tenantId, from: '2026-01-01T00:00:00Z', state: 'processed' },
    })
    const { id } = json['replay'] as { readonly id: string }
    expect(id).toStartWith('rpl_')
    expect(await found(admin, id)).toEqual([`/replays/${id}`])
    const other = await openDashboardSession(backoffice.url, dashboardKey('bolt'))
    expect(await found(other, id)).toEqual([])
    expect(await found(admin, `rpl_${'0'.repeat(26)}`)).toEqual([])
  })

  test('jump: an event of the chosen tenant is found by the event id of its provider', async () => {
    const { html } = await admin.get(`/events/${acme.eventId}`)
    const [, sourceEventId = ''] = /Provider’s id<\/dt><dd><span class="copy"><code>([^<]+)/.exec(html) ?? []
    expect(sourceEventId).not.toBe('')
    expect(await found(admin, sourceEventId, '&tenant=acme')).toEqual([`/events/${acme.eventId}`])
    expect(await found(admin, sourceEventId, '&tenant=bolt')).toEqual([])
  })

  test('jump: an event of any tenant is found by the event id of its provider, but during typing only if the text looks like an id', async () => {
    expect(await found(admin, acme.sourceEventId)).toEqual([`/events/${acme.eventId}`])
    expect(await found(admin, acme.sourceEventId, '&typing=1')).toEqual([])
    expect(await found(admin, 'order-2026-0001')).toEqual([])
    expect(await found(admin, acme.sourceEventId, '&typing=1&tenant=acme')).toEqual([
      `/events/${acme.eventId}`,
    ])
  })

  test('jump: an event of a declared provider is found by the provider’s event id, also if the tenant uses an alias of the provider', async () => {
    const tenantId = backoffice.tenantId('crate')
    const sourceEventId = 'squeezed-1001'
    const text = `${tenantId}\nlemonsqueezy\n${sourceEventId}`
    const dedupeKey = Bun.SHA256.hash(text, 'hex').slice(0, 32)
    const provider = 'lemonsqueezy' as ProviderName
    const event = receivedEvent({ tenantId, provider, sourceEventId, dedupeKey })
    const [id] = await acceptEvents(backoffice.pool, [event])
    expect(await found(admin, sourceEventId, '&typing=1')).toEqual([`/events/${id}`])
    expect(await found(admin, sourceEventId, '&tenant=crate')).toEqual([`/events/${id}`])
  })

  test('jump: an actor with rights in one namespace finds no event of other namespaces by the event id of its provider', async () => {
    const user = someUser()
    backoffice.allow(({ user: asking, namespace }: AskedRight) => asking === user && namespace === 'depots')
    const session = await openDashboardSession(backoffice.url, user)
    expect(await found(session, acme.sourceEventId)).toEqual([])
    expect(await found(session, acme.sourceEventId, '&tenant=acme').catch(() => [])).toEqual([])
    backoffice.allow(({ user: asking, namespace }: AskedRight) => asking === user && namespace === 'shops')
    const owner = await openDashboardSession(backoffice.url, dashboardKey('acme'))
    expect(await found(owner, acme.sourceEventId)).toEqual([`/events/${acme.eventId}`])
    const other = await openDashboardSession(backoffice.url, dashboardKey('bolt'))
    expect(await found(other, acme.sourceEventId)).toEqual([])
  })

  test('jump: an actor finds only tenants and events that the actor may see', async () => {
    const user = someUser()
    backoffice.allow(({ user: asking, namespace }: AskedRight) => asking === user && namespace === 'depots')
    const session = await openDashboardSession(backoffice.url, user)
    expect(await found(session, 'acme')).toEqual([])
    expect(await found(session, backoffice.tenantId('acme'))).toEqual([])
    expect(await found(session, acme.eventId)).toEqual([])
    expect(await found(session, 'bolt')).toEqual([tenantPath('bolt')])
    const owner = await openDashboardSession(backoffice.url, dashboardKey('acme'))
    expect(await found(owner, 'o')).not.toContain(tenantPath('bolt'))
    expect(await found(owner, 'acme')).toEqual([tenantPath('acme')])
  })

  test('jump: a complete API key is shortened to its prefix, so that no address contains the key', async () => {
    const key = dashboardKey('acme')
    const { status, location } = await admin.get(`/jump?find=${key}`)
    expect([status, location]).toEqual([303, `/jump?find=${key.slice(0, 11)}`])
  })
})
