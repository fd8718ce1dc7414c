import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { type ApiError, apiError, errorCodes } from '#internal/base/index.ts'
import { BodyBudget } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import type { Answer, PublicRoute } from './route.ts'
import { createErrorLinks, createServer } from './server.ts'

const open: Listening[] = []
afterAll(async () => {
  for (const server of open) await server.stop(true)
})

const docsUrl = 'https://latchkey.example/docs'
const refusal: Answer = {
  kind: 'answer',
  status: 400,
  body: '{"error":"invalid signature"}',
  outcome: 'invalid_signature',
  explainedAs: 'invalid_request',
}
const route = (path: string, handle: () => Answer | ApiError): PublicRoute => ({
  method: 'GET',
  path,
  access: 'public',
  bodyBytesMax: 0,
  handle,
})
const routes = [
  route('/done', () => ({ kind: 'answer', status: 200, body: '{}', outcome: 'done' })),
  route('/refused', () => refusal),
  route('/limited', () => apiError('limit_exceeded', undefined, { 'Retry-After': '1' })),
  route('/bug', () => {
    throw new Error('bug')
  }),
]

/** Returns the status and the link of a path, on a server with or without the address of the documentation. */
async function linkAt(path: string, docs: string | undefined, method = 'GET') {
  const app = createServer<never, never>({
    routes,
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: () => undefined,
    onAnswered: () => undefined,
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anonymous: new BodyBudget({ bytesMax: 0 }) },
    errorLink: docs === undefined ? undefined : createErrorLinks(docs),
  })
  const server = listen(app, 0)
  open.push(server)
  const answer = await fetch(`http://localhost:${server.port}${path}`, { method })
  return [answer.status, answer.headers.get('link')]
}

describe('error link', () => {
  test.each([
    ['an unknown path', 'GET', '/unknown', 404, 'route-unknown'],
    ['another method', 'POST', '/done', 405, 'method-not-allowed'],
    ['an error with additional headers', 'GET', '/limited', 429, 'limit-exceeded'],
    ['a bug', 'GET', '/bug', 500, 'internal'],
    ['a refusal without the envelope', 'GET', '/refused', 400, 'invalid-request'],
  ])(
    'error link: %s contains the URL of its documentation page',
    async (_case, method, path, status, page) => {
      const link = `<${docsUrl}/reference/errors/${page}>; rel="help"`
      expect(await linkAt(path, docsUrl, method)).toEqual([status, link])
    },
  )

  test('error link: a successful response has no error link', async () => {
    expect(await linkAt('/done', docsUrl)).toEqual([200, null])
  })

  test.each(['/unknown', '/bug', '/refused'])(
    'error link: %s has no link if the URL of the documentation is not configured',
    async (path) => {
      expect((await linkAt(path, undefined))[1]).toBe(null)
    },
  )

  test('error link: each error code links to an existing page', () => {
    const root = `${import.meta.dir}/../..`
    const pages = errorCodes.map(
      (code) => /^<\/(.+)>; rel="help"$/.exec(createErrorLinks('/docs')(code))?.[1],
    )
    expect(pages.filter((page) => !existsSync(`${root}/${page}.md`))).toEqual([])
    expect(new Set(pages).size).toBe(errorCodes.length)
  })
})
