import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardKey, dashboardTenantYaml } from '#test/support/backoffice-tenants.ts'

let backoffice: TestBackoffice
let cookie: string
beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  const signedIn = await fetch(`${backoffice.url}/sign-in`, {
    ...{ method: 'POST', redirect: 'manual', headers: { 'Sec-Fetch-Site': 'same-origin' } },
    body: new URLSearchParams({ token: dashboardKey('acme'), next: '/' }),
  })
  cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
}, 30_000)
afterAll(() => backoffice.close())

/** Half an hour after the last use. */
async function isUsedBy(path: string, headers: Readonly<Record<string, string>>): Promise<boolean> {
  await backoffice.pool.query("UPDATE sessions SET seen_at = now() - interval '30 minutes'")
  const answer = await fetch(`${backoffice.url}${path}`, { headers: { Cookie: cookie, ...headers } })
  expect([path, answer.status]).toEqual([path, 200])
  await answer.body?.cancel()
  const { rows } = await backoffice.pool.query<{ isUsed: boolean }>(
    `SELECT seen_at > now() - interval '1 minute' AS "isUsed" FROM sessions`,
  )
  return rows[0]?.isUsed === true
}

test.each<[what: string, path: string, headers: Readonly<Record<string, string>>, isUse: boolean]>([
  ['a page that somebody opens', '/events', {}, true],
  ['a part of it that is looked at again', '/events', { 'HX-Request': 'true' }, false],
  ['the stream that says when', '/live', {}, false],
])('%s: whether the session is used', async (_what, path, headers, isUse) => {
  expect(await isUsedBy(path, headers)).toBe(isUse)
})
