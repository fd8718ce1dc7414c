// Tests form fields for the name of a provider, in an installation with the maximum number of Providers.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { providersMax, putProvider } from '#internal/tenants/providers/provider-store.ts'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

const pageBytesMax = 100_000
const suggestedMax = 100
/** Returns a name of the maximum length. */
const nameOf = (nth: number) => `vendor-${String(nth).padStart(3, '0')}`.padEnd(40, 'x')

let backoffice: TestBackoffice
let admin: DashboardSession

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  for (let nth = 0; nth < providersMax; nth += 1)
    await withTx(backoffice.pool, (client) =>
      putProvider(client, {
        name: nameOf(nth),
        aliases: [`alias-${nth}`],
        isUnverified: false,
        text: '{}',
        uid: crypto.randomUUID(),
        generation: 1,
      }),
    )
  backoffice.directory.notify()
  const isRead = () => backoffice.directory.declarations().has(nameOf(providersMax - 1)) || undefined
  if ((await poll(isRead, { deadlineMs: 5_000 })) === undefined) throw new Error('no Provider was read')
  admin = await openDashboardSession(backoffice.url, adminToken)
}, 60_000)
afterAll(() => backoffice.close())

test.each(['/events', '/refused', '/replays/new?tenant=acme', '/events/search?tenant=acme', '/settings'])(
  'provider field of %s: suggests the first Providers and the shipped declarations, and the page stays small',
  async (path) => {
    const { status, html } = await admin.get(path)
    expect(status).toBe(200)
    const [list = ''] = /<datalist id="\w+-provider-suggestions">.*?<\/datalist>/.exec(html) ?? []
    const names = [...list.matchAll(/value="([^"]+)"/g)].map(([, name]) => name ?? '')
    const own = names.filter((name) => name.startsWith('vendor-'))
    expect(own).toEqual(Array.from({ length: suggestedMax }, (_, nth) => nameOf(nth)))
    expect(names).toContain('slack')
    expect(names).toContain('card')
    expect(Buffer.byteLength(html)).toBeLessThan(pageBytesMax)
  },
)

test('provider field: accepts a Provider that it does not suggest', async () => {
  const name = nameOf(providersMax - 1)
  expect((await admin.get(`/events?provider=${name}`)).status).toBe(200)
  const { status, html } = await admin.get(`/settings/change?provider=${name}`)
  expect([status, html.includes(`providers.${name}.paused`)]).toEqual([200, true])
})

test('verification of a call: the page stays small with the maximum number of Providers', async () => {
  const { status, html } = await admin.get('/refused/verify')
  expect([status, html.includes(nameOf(providersMax - 1))]).toEqual([200, true])
  expect(Buffer.byteLength(html)).toBeLessThan(pageBytesMax)
})
