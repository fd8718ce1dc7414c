import { afterAll, beforeAll, expect, test } from 'bun:test'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'

let backoffice: TestBackoffice

beforeAll(async () => {
  backoffice = await startTestBackoffice('')
}, 30_000)
afterAll(() => backoffice.close())

const ownPage = { 'Sec-Fetch-Site': 'same-origin' }

/** Signs the local admin in and gives the cookie. */
async function signIn(): Promise<string> {
  const answer = await fetch(`${backoffice.url}/sign-in`, {
    ...{ method: 'POST', redirect: 'manual', headers: ownPage },
    body: new URLSearchParams({ token: adminToken }),
  })
  return answer.headers.get('set-cookie')?.split(';')[0] ?? ''
}

test('sessions of one person are updates live each by itself', async () => {
  const leaving = new AbortController()
  // An answer that nobody holds may be collected, which ends its stream.
  const followed: Response[] = []
  const follow = async (cookie: string) => {
    const answer = await fetch(`${backoffice.url}/live`, {
      ...{ headers: { Cookie: cookie }, signal: leaving.signal },
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

test('each answer has the session’s token under another mask, and each of them counts', async () => {
  const cookie = await signIn()
  const read = async () => {
    const answer = await fetch(`${backoffice.url}/usage`, { headers: { Cookie: cookie } })
    return [
      ...new Set(
        [...(await answer.text()).matchAll(/name="csrf" value="([^"]+)"/g)].map(([, token]) => token),
      ),
    ]
  }
  const tokens = [...(await read()), ...(await read())]
  expect(new Set(tokens).size).toBe(2)
  const send = async (path: string, csrf: string) => {
    const answer = await fetch(`${backoffice.url}${path}`, {
      ...{ method: 'POST', redirect: 'manual', headers: { ...ownPage, Cookie: cookie } },
      body: new URLSearchParams({ csrf, theme: 'dark', next: '/' }),
    })
    return answer.status
  }
  for (const token of tokens) expect(await send('/theme', token ?? '')).toBe(303)
  const [first = '', second = ''] = tokens
  // The pad of one answer under the other's: a form is read no further.
  const mixed = `${first.slice(0, 43)}${second.slice(43)}`
  expect([await send('/theme', mixed), await send('/usage/override', mixed)]).toEqual([400, 400])
})

test('an address that nobody has is told within the frame, by which whoever is signed in finds on', async () => {
  const read = async (path: string, cookie?: string) => {
    const answer = await fetch(
      `${backoffice.url}${path}`,
      cookie === undefined ? {} : { headers: { Cookie: cookie } },
    )
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() }
  }
  const cookie = await signIn()
  const framed = await read('/nothing/here?tenant=x', cookie)
  expect(framed.status).toBe(404)
  expect(framed.text).toContain('There is no such page')
  expect(framed.text).toContain('aria-label="Main"')
  expect(framed.text).not.toContain('aria-current')
  expect(framed.text).toContain('action="/sign-out"')
  for (const stranger of [undefined, `${cookie}x`]) {
    const bare = await read('/nothing/here', stranger)
    expect([bare.status, bare.text.includes('There is no such page')]).toEqual([404, true])
    expect(bare.text).not.toContain('aria-label="Main"')
  }
  expect(await read('/internal/v1/nothing', cookie)).toMatchObject({ status: 404, type: 'application/json' })
})
