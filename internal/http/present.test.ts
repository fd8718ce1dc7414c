import { afterEach, expect, test } from 'bun:test'
import { apiError } from '#internal/base/index.ts'
import { BodyBudget } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import type { PublicRoute } from './route.ts'
import { createServer, type RequestEvent } from './server.ts'

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

const get = (path: string, handle: PublicRoute['handle']): PublicRoute => ({
  ...{ access: 'public', method: 'GET', path, bodyBytesMax: 0 },
  handle,
})

/** A server whose pages below `/pages` show errors to people. */
function start(routes: readonly PublicRoute[], answerUnknown?: PublicRoute['handle']) {
  const events: RequestEvent[] = []
  const server = createServer<never, never>({
    routes,
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: () => undefined,
    onAnswered: (event) => events.push(event),
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anybody: new BodyBudget({ bytesMax: 0 }) },
    present: (error, request, requestId) =>
      new URL(request.url).pathname.startsWith('/pages')
        ? { body: `${error.code} ${requestId}`, headers: { 'Content-Type': 'text/html', 'Retry-After': '7' } }
        : undefined,
    ...(answerUnknown && { answerUnknown: async (call) => answerUnknown(call) }),
  })
  const listening = listen(server, 0, '127.0.0.1')
  open.push(listening)
  return { events, url: `http://127.0.0.1:${listening.port}` }
}

test('an answer may be bytes of any type', async () => {
  const body = new Uint8Array([0, 255, 10])
  const headers = { 'Content-Type': 'image/x-own' }
  const { url } = start([
    get('/bytes', () => ({ kind: 'answer', status: 200, outcome: 'done', body, headers })),
  ])
  const answer = await fetch(`${url}/bytes`)
  expect(answer.headers.get('content-type')).toBe('image/x-own')
  expect(new Uint8Array(await answer.arrayBuffer())).toEqual(body)
})

test('an answer may be a stream, which is cancelled when its reader goes', async () => {
  const gone = Promise.withResolvers<void>()
  const { url } = start([
    get('/stream', () => ({
      ...{ kind: 'answer', status: 200, outcome: 'live' },
      body: new ReadableStream({
        start: (controller) => controller.enqueue(Uint8Array.from(Buffer.from('first'))),
        cancel: () => gone.resolve(),
      }),
    })),
  ])
  const reader = (await fetch(`${url}/stream`)).body?.getReader()
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('first')
  await reader?.cancel()
  await gone.promise
})

test.each([
  ['an expected error', '/pages/late', 503, 'overloaded'],
  ['a bug', '/pages/bug', 500, 'internal'],
  ['a path that nobody has', '/pages/none', 404, 'route_unknown'],
])('%s is shown as it is presented, beside its own headers', async (_case, path, status, code) => {
  const { url, events } = start([
    get('/pages/late', () => apiError('overloaded', undefined, { 'Retry-After': '1', 'X-Own': '1' })),
    get('/pages/bug', () => {
      throw new TypeError('inside')
    }),
  ])
  const answer = await fetch(`${url}${path}`, { headers: { 'X-Request-Id': 'r-1' } })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([status, 'text/html'])
  expect(answer.headers.get('retry-after')).toBe('7')
  if (code === 'overloaded') expect(answer.headers.get('x-own')).toBe('1')
  expect(await answer.text()).toBe(`${code} r-1`)
  expect(events).toMatchObject([{ status, outcome: code }])
})

test('what is not presented is the envelope', async () => {
  const { url } = start([])
  const answer = await fetch(`${url}/elsewhere`)
  expect(answer.headers.get('content-type')).toBe('application/json')
  expect(await answer.json()).toMatchObject({ statusCode: 404, code: 'route_unknown' })
})

test('a path that no route has may be answered by itself, for who reads it and by GET alone', async () => {
  const { url, events } = start(
    [get('/known', () => ({ kind: 'answer', status: 200, outcome: 'done', body: '' }))],
    ({ requestId }) => ({ kind: 'answer', status: 404, outcome: 'nowhere', body: `nothing at ${requestId}` }),
  )
  const answer = await fetch(`${url}/unknown`, { headers: { 'X-Request-Id': 'r-2' } })
  expect([answer.status, await answer.text()]).toEqual([404, 'nothing at r-2'])
  expect((await fetch(`${url}/known`)).status).toBe(200)
  expect((await fetch(`${url}/unknown`, { method: 'POST' })).status).toBe(404)
  expect((await fetch(`${url}/known`, { method: 'POST' })).status).toBe(405)
  expect(events.map(({ route, outcome }) => [route, outcome])).toEqual([
    ['unknown', 'nowhere'],
    ['/known', 'done'],
    ['unknown', 'route_unknown'],
    ['unknown', 'method_not_allowed'],
  ])
})

test('an error while an unknown path is answered is shown as any other', async () => {
  const { url } = start([], () => {
    throw new TypeError('inside')
  })
  const answer = await fetch(`${url}/unknown`)
  expect([answer.status, await answer.json()]).toMatchObject([500, { code: 'internal' }])
})
