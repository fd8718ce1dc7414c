import { afterAll, beforeAll, expect, test } from 'bun:test'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/backoffice-tenants.ts'
import { pages } from './pages/pages.ts'

let backoffice: TestBackoffice
let cookie: string
let otherToken: string

const ownPage = { 'Sec-Fetch-Site': 'same-origin' }

beforeAll(async () => {
  backoffice = await startTestBackoffice(dashboardTenantYaml('acme'))
  backoffice.allow(() => true)
  cookie = await signIn()
  const page = await fetch(`${backoffice.url}/nowhere`, { headers: { Cookie: await signIn() } })
  otherToken = /name="csrf" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
}, 30_000)
afterAll(() => backoffice.close())

async function signIn(): Promise<string> {
  const answer = await fetch(`${backoffice.url}/sign-in`, {
    ...{ method: 'POST', redirect: 'manual', headers: ownPage },
    body: new URLSearchParams({ token: adminToken }),
  })
  return answer.headers.get('set-cookie')?.split(';')[0] ?? ''
}

const actions = pages.flatMap(({ method, path }) => (method === 'POST' ? [path] : []))

test.each(actions)('POST %s: refuses a missing, a made-up and another session’s CSRF token', async (path) => {
  expect(otherToken).not.toBe('')
  for (const csrf of ['', 'x', otherToken]) {
    const answer = await fetch(`${backoffice.url}${path.replaceAll(/:\w+/g, 'acme')}`, {
      ...{ method: 'POST', redirect: 'manual', headers: { ...ownPage, Cookie: cookie } },
      body: new URLSearchParams({ tenant: 'acme', csrf }),
    })
    expect(answer.status).toBe(400)
    expect(await answer.text()).toContain('The form is too old')
  }
})
