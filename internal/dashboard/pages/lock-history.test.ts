import { afterAll, beforeAll, expect, test } from 'bun:test'
import { dayAfter } from '#internal/base/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import { someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'

let backoffice: TestBackoffice
let session: DashboardSession
let acme: string

const day = dayAfter(Date.now(), 30)
const baseMs = Math.floor(Date.now() / 1_000) * 1_000 - 600_000

beforeAll(async () => {
  backoffice = await startTestBackoffice(`${dashboardTenantYaml('acme')}${dashboardTenantYaml('idle')}`)
  backoffice.allow(() => true)
  session = await openDashboardSession(backoffice.url, someUser())
  acme = backoffice.tenantId('acme')
  await ensurePartitions(backoffice.pool, [{ table: 'executions', day }])
  await backoffice.pool.query(
    `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending, ended_at, status)
     SELECT $1, ($2::bigint + nth) * 1000, $3, CASE WHEN nth % 2 = 0 THEN 'even' ELSE 'odd' END, 'run-' || nth,
       CASE WHEN nth % 10 = 0 THEN 'taken_over' ELSE 'completed' END, now(), CASE WHEN nth % 10 = 0 THEN NULL ELSE 201 END
     FROM generate_series(1, 120) nth`,
    [acme, baseMs, day],
  )
}, 30_000)
afterAll(() => backoffice.close())

const keysOn = (html: string) => [...html.matchAll(/<code>(run-\d+)<\/code>/g)].map(([, key]) => key)

test('lock history: offers a choice of tenants if no tenant is chosen, and says when the list is empty', async () => {
  expect((await session.get('/executions')).html).toContain('Choose a tenant')
  expect((await session.get('/executions?tenant=idle')).html).toContain('No locks yet')
})

test('lock history: pages contain each lock once, newest first', async () => {
  const seen: (string | undefined)[] = []
  let path: string | undefined = '/executions?tenant=acme'
  for (let pages = 0; path !== undefined && pages < 10; pages += 1) {
    const { html } = await session.get(path)
    seen.push(...keysOn(html))
    path = /href="([^"]+)" rel="next"/.exec(html)?.[1]?.replaceAll('&amp;', '&')
  }
  expect(seen).toEqual(Array.from({ length: 120 }, (_none, nth) => `run-${120 - nth}`))
})

test.each([
  ['scope and key', 'scope=even&key=run-12', ['run-12']],
  [
    'a state',
    'state=taken_over&scope=even',
    Array.from({ length: 12 }, (_none, nth) => `run-${120 - 10 * nth}`),
  ],
])('lock history: can be filtered by %s', async (_by, query, expected) => {
  const { html } = await session.get(`/executions?tenant=acme&${query}`)
  expect(keysOn(html)).toEqual(expected)
})

test('lock history: can be filtered by time', async () => {
  const from = new Date(baseMs).toISOString().slice(0, 19)
  expect(keysOn((await session.get(`/executions?tenant=acme&to=${from}`)).html)).toEqual([])
  expect(keysOn((await session.get(`/executions?tenant=acme&from=${from}`)).html)).toHaveLength(50)
})

test('lock history: a key without a scope returns 400 and runs no search', async () => {
  const { status, html } = await session.get('/executions?tenant=acme&key=run-1')
  expect(status).toBe(400)
  expect(html).toContain('A search by key requires the scope of the key')
  expect(keysOn(html)).toEqual([])
})
