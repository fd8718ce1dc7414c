import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { adminToken, someUser, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { type ActionRow, createWayBack } from './page.ts'
import { pages } from './pages/pages.ts'

/** With acme and the depot, two more than the choice of a tenant offers. */
const names = Array.from({ length: 20 }, (_, nth) => `shop-${String(nth).padStart(2, '0')}`)
let backoffice: TestBackoffice
let acme: SeededTenant
let admin: DashboardSession
/** A second session of the admin: an actor's sessions are bounded, so that tests share it. */
let cookie: string
/** CSRF token of the first session. */
let otherToken: string

beforeAll(async () => {
  backoffice = await startTestBackoffice(
    [
      ...['acme', ...names].map((name) => dashboardTenantYaml(name)),
      dashboardTenantYaml('depot', { namespace: 'depots' }),
    ].join(''),
  )
  acme = await seedTenant(backoffice, 'acme')
  admin = await openDashboardSession(backoffice.url, adminToken)
  cookie = await signIn()
  otherToken = /name="csrf" value="([^"]+)"/.exec((await admin.get('/nowhere')).html)?.[1] ?? ''
}, 60_000)
afterAll(() => backoffice.close())

const ownPage = { 'Sec-Fetch-Site': 'same-origin' }

/** Signs in and returns the cookie. */
async function signIn(token = adminToken): Promise<string> {
  const answer = await fetch(`${backoffice.url}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: ownPage,
    body: new URLSearchParams({ token }),
  })
  return answer.headers.get('set-cookie')?.split(';')[0] ?? ''
}

test('live streams: each session of an actor can open 12 streams', async () => {
  const leaving = new AbortController()
  // Keeps references to the responses: an unreferenced response may be garbage-collected, which ends its stream.
  const followed: Response[] = []
  const follow = async (cookie: string) => {
    const answer = await fetch(`${backoffice.url}/live`, {
      headers: { Cookie: cookie },
      signal: leaving.signal,
    })
    followed.push(answer)
    return answer.status
  }
  try {
    const [first, second] = [await signIn(), await signIn()]
    for (let nth = 0; nth < 12; nth++) expect(await follow(first)).toBe(200)
    expect(await follow(first)).toBe(503)
    expect(await follow(second)).toBe(200)
  } finally {
    leaving.abort()
  }
})

test('CSRF tokens: each response masks the token differently, all masked tokens are accepted, and a mix of two masked tokens is refused', async () => {
  const read = async () => {
    const answer = await fetch(`${backoffice.url}/usage`, { headers: { Cookie: cookie } })
    const found = (await answer.text()).matchAll(/name="csrf" value="([^"]+)"/g)
    return [...new Set([...found].map(([, token]) => token))]
  }
  const tokens = [...(await read()), ...(await read())]
  expect(new Set(tokens).size).toBe(2)
  const send = async (path: string, csrf: string) => {
    const answer = await fetch(`${backoffice.url}${path}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...ownPage, Cookie: cookie },
      body: new URLSearchParams({ csrf, theme: 'dark', next: '/' }),
    })
    return answer.status
  }
  for (const token of tokens) expect(await send('/theme', token ?? '')).toBe(303)
  const [first = '', second = ''] = tokens
  const mixed = `${first.slice(0, 43)}${second.slice(43)}`
  expect([await send('/theme', mixed), await send('/usage/override', mixed)]).toEqual([400, 400])
})

test('unknown paths: a signed-in user gets an error page with the navigation, and any other user gets a page without navigation', async () => {
  const read = async (path: string, cookie?: string) => {
    const headers = cookie === undefined ? {} : { headers: { Cookie: cookie } }
    const answer = await fetch(`${backoffice.url}${path}`, headers)
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() }
  }
  const framed = await read('/nothing/here?tenant=x', cookie)
  expect(framed.status).toBe(404)
  for (const part of ['Page not found', 'aria-label="Main"', 'action="/sign-out"'])
    expect(framed.text).toContain(part)
  expect(framed.text).not.toContain('aria-current')
  for (const stranger of [undefined, `${cookie}x`]) {
    const bare = await read('/nothing/here', stranger)
    expect([bare.status, bare.text.includes('Page not found')]).toEqual([404, true])
    expect(bare.text).not.toContain('aria-label="Main"')
  }
  expect(await read('/internal/v1/nothing', cookie)).toMatchObject({ status: 404, type: 'application/json' })
})

test.each<[string, string, Readonly<Record<string, string>>, boolean]>([
  ['a page', '/events', {}, true],
  ['a live update of a page', '/events', { 'HX-Request': 'true' }, false],
  ['the live stream', '/live', {}, false],
])(
  'session: a request for %s extends the session only if it loads a page',
  async (_what, path, headers, isUse) => {
    const cookie = await signIn(dashboardKey('acme'))
    const latest = 'created_at = (SELECT max(created_at) FROM sessions)'
    await backoffice.pool.query(`UPDATE sessions SET seen_at = now() - interval '30 minutes' WHERE ${latest}`)
    const answer = await fetch(`${backoffice.url}${path}`, { headers: { Cookie: cookie, ...headers } })
    expect([path, answer.status]).toEqual([path, 200])
    await answer.body?.cancel()
    const { rows } = await backoffice.pool.query<{ isUsed: boolean }>(
      `SELECT seen_at > now() - interval '1 minute' AS "isUsed" FROM sessions WHERE ${latest}`,
    )
    expect(rows).toEqual([{ isUsed: isUse }])
  },
)

/** Addresses of the offered tenants. */
function choicesIn(html: string): readonly string[] {
  return [...html.matchAll(/<th scope="row"[^>]*><a href="([^"]+)"/g)].map(([, href = '']) =>
    href.replaceAll('&amp;', '&'),
  )
}

test.each([
  ['/usage', '?range=7d&values=shown'],
  ['/usage/override', '?limit=eventsPerMonth'],
  ['/executions', '?state=completed&after=x'],
  ['/simulations/new', ''],
])(
  'choice of a tenant: the page %s without a tenant offers 20 tenants and keeps the other query parameters',
  async (path, query) => {
    backoffice.allow(() => true)
    const session = await openDashboardSession(backoffice.url, someUser())
    const { status, html } = await session.get(`${path}${query}`)
    expect(status).toBe(200)
    for (const text of ['Tenants to choose from', 'These are the first 20']) expect(html).toContain(text)
    const choices = choicesIn(html)
    expect(choices).toHaveLength(20)
    const [first = ''] = choices
    const { pathname, searchParams } = new URL(first, backoffice.url)
    const { after: _after, ...kept } = Object.fromEntries(new URLSearchParams(query))
    const expected = { ...kept, tenant: backoffice.tenantId('depot') }
    expect([pathname, Object.fromEntries(searchParams)]).toEqual([path, expected])
    const led = await session.get(first)
    expect([led.status, led.html.includes('Tenants to choose from')]).toEqual([200, false])
  },
)

test('choice of a tenant: offers only tenants in namespaces that the user has named and may see', async () => {
  backoffice.allow(({ namespace }) => namespace === 'depots')
  const clerk = await openDashboardSession(backoffice.url, someUser())
  const unnamed = await clerk.get('/usage')
  expect([unnamed.status, choicesIn(unnamed.html)]).toEqual([200, []])
  expect(unnamed.html).toContain('Tenants are listed by namespace')
  const named = await clerk.get('/usage', 'latchkey-namespaces=depots')
  expect(choicesIn(named.html)).toEqual([`/usage?tenant=${backoffice.tenantId('depot')}`])
  expect(named.html).not.toContain('These are the first')
})

const actions = pages.filter((row): row is ActionRow => row.method === 'POST')

test.each(actions.map(({ path }) => path))(
  'CSRF: POST %s refuses a missing token, an invalid token and the token of another session',
  async (path) => {
    expect(otherToken).toMatch(/^[\w-]{80,}$/)
    for (const token of ['', '&csrf=', '&csrf=x', `&csrf=${otherToken}`]) {
      const answer = await fetch(`${backoffice.url}${path.replaceAll(/:\w+/g, 'acme')}`, {
        method: 'POST',
        redirect: 'manual',
        headers: { ...ownPage, Cookie: cookie },
        body: new URLSearchParams(`tenant=acme${token}`),
      })
      expect(answer.status).toBe(400)
      expect(await answer.text()).toContain('The form is outdated or was not sent by this dashboard')
    }
  },
)

test('link back: the page to which each action links back exists', () => {
  const readable = pages.filter(({ method }) => method === 'GET').map(({ path }) => path)
  expect(actions.length).toBeGreaterThan(9)
  for (const { path, back } of actions) expect([path, readable.includes(back)]).toEqual([path, true])
})

test.each<[string, string, string, Record<string, string>, string]>([
  ['the link of a page keeps the page’s address', 'GET', '/events?type=a%20b', {}, '/events?type=a%20b'],
  ['the link after a form keeps the path parameters', 'POST', '/events/evt_1/payload', {}, '/events/evt_1'],
  [
    'the link after a form keeps the tenant',
    'POST',
    '/events/e%2F1/replay?tenant=acme',
    {},
    '/events/e%2F1?tenant=acme',
  ],
  [
    'the link after a form keeps only the fields that the page needs',
    'POST',
    '/usage/override',
    { tenant: 'acme', limit: 'locks', reason: 'x', csrf: 'y' },
    '/usage/override?tenant=acme&limit=locks',
  ],
  ['the link after an unknown form leads to the overview', 'POST', '/theme', {}, '/'],
])('link back: %s', (_what, method, path, form, here) => {
  const wayBack = createWayBack(pages)
  const request = new Request(`http://localhost${path}`, { method })
  expect(wayBack(request, form)).toEqual({ here, isForm: method === 'POST' })
})

/** Addresses that the page's forms and buttons lead to, without the documentation, which a clone has to build first. */
function waysIn(html: string): readonly string[] {
  const nexts = [...html.matchAll(/name="next" value="([^"]*)"/g)]
  const links = [...html.matchAll(/<a (?:class="(?:tenant-all|button[^"]*)" )?href="(\/[^"]*)"/g)]
  const paths = [...nexts, ...links].map(([, path]) => (path ?? '').replaceAll('&amp;', '&'))
  return [...new Set(paths)].filter((path) => !path.startsWith('/docs/'))
}

describe('way back', () => {
  const filled = (path: string) =>
    path
      .replace('/events/:id', `/events/${acme.failedId}`)
      .replace('/replays/:id', `/replays/${acme.replayId}`)
      .replace(':simulation', acme.simulationId)
      .replace(':tenant', 'acme')
  /** Fields with which each form is refused, or asks for confirmation. */
  const fields = (path: string) => ({
    ...(path.includes(':') ? {} : { tenant: 'acme' }),
    limit: 'eventsPerMonth',
    name: 'forwarding.paused',
    version: '99',
  })

  test.each(actions.map(({ path }) => path))(
    'link back: every link in the response to %s opens a page',
    async (path) => {
      const { status, html, location } = await admin.post(filled(path), fields(path))
      if (location !== null) {
        expect((await admin.get(location)).status).toBe(200)
        return
      }
      expect(status).not.toBe(500)
      expect(html).toContain('name="next"')
      for (const way of waysIn(html)) {
        const led = await admin.get(way)
        expect([way, [200, 303].includes(led.status)]).toEqual([way, true])
      }
    },
  )

  test('link back: the response to a malformed form links to the form’s page', async () => {
    const { status, html } = await admin.post(`/events/${acme.failedId}/payload`, { more: '\u{FFFD}' })
    expect(status).toBe(400)
    expect(html).toContain(`href="/events/${acme.failedId}"`)
  })

  test('link back: the response to a form that fails with 500 links to the form’s page', async () => {
    await backoffice.pool.query('ALTER TABLE sessions RENAME TO sessions_away')
    try {
      const { status, html } = await admin.post(`/simulations/${acme.simulationId}/advance`)
      expect(status).toBe(500)
      expect(html).toContain(`href="/simulations/${acme.simulationId}"`)
    } finally {
      await backoffice.pool.query('ALTER TABLE sessions_away RENAME TO sessions')
    }
  })

  test('choice of a tenant: switching to another tenant keeps the other query parameters', async () => {
    const { html } = await admin.get('/settings/change?name=forwarding.paused&tenant=acme')
    expect(html).toContain('href="/settings/change?name=forwarding.paused"')
    const to = encodeURIComponent('/settings/change?name=forwarding.paused')
    const { location } = await admin.get(`/go?find=acme&to=${to}`)
    expect(location).toBe(`/settings/change?name=forwarding.paused&tenant=${acme.tenantId}`)
  })
})
