import { afterEach, describe, expect, test } from 'bun:test'
import { Agent, get as httpGet } from 'node:http'
import { type ApiError, apiError } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { createLogger, createMetrics } from '#internal/telemetry/index.ts'
import { holding } from '#test/support/intake/body-holding.ts'
import { BodyBudget, type Pace } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import { createRequestObserver } from './observe.ts'
import type { AdmittingRoute, Answer, BodyBudgets, Call, PublicRoute, Route } from './route.ts'
import {
  allowedMethods,
  createRequestIds,
  createServer,
  type RequestEvent,
  type ServerOptions,
} from './server.ts'

type Options = ServerOptions<string, 'read'>

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

/** A text that must not reach a caller. */
const inside = 'select * from tenants'

const budgetsOf = (bytesMax: number, pace: Partial<Pace> = {}): BodyBudgets => ({
  keyed: new BodyBudget({ bytesMax, pace, gatheredBytesMax: 0 }),
  anonymous: new BodyBudget({ bytesMax: 0 }),
})
const answer = (body: string): Answer => ({ kind: 'answer', status: 200, body, outcome: 'done' })
const guarded = { access: { scope: 'read' }, bodyBytesMax: 0 } as const
const routes: readonly Route<string, 'read'>[] = [
  {
    method: 'GET',
    path: '/things/:id',
    ...guarded,
    handle: (_call: Call, who: string) => answer(JSON.stringify({ who })),
  },
  {
    method: 'POST',
    path: '/things',
    access: { scope: 'read' },
    bodyBytesMax: 100,
    handle: ({ body }: Call) => answer(String(body.length)),
  },
  {
    method: 'GET',
    path: '/open',
    access: 'public',
    bodyBytesMax: 0,
    handle: () => ({ ...answer('{}'), headers: { 'X-Own': '1' } }),
  },
  {
    method: 'GET',
    path: '/bug',
    ...guarded,
    handle: () => {
      throw new Error(inside)
    },
  },
  {
    method: 'GET',
    path: '/away',
    access: 'public',
    bodyBytesMax: 0,
    handle: () => Promise.reject(new RangeError(inside)),
  },
]

/** An event with its cause. */
type Observed = RequestEvent & { readonly cause?: unknown }

function start(changes: Partial<Options> = {}): { url: string; port: number; events: Observed[] } {
  const events: Observed[] = []
  const app = createServer<string, 'read'>({
    routes,
    authorize: (authorization): string | ApiError => authorization || apiError('api_key_invalid'),
    nameOf: (principal) => `name of ${principal}`,
    explain: (error) =>
      error instanceof RangeError
        ? apiError('store_unavailable', undefined, { 'Retry-After': '1' })
        : undefined,
    onAnswered: (event, cause) => events.push(cause === undefined ? event : { ...event, cause }),
    budgets: budgetsOf(1000),
    ...changes,
  })
  const server = listen(app, 0)
  open.push(server)
  return { url: `http://localhost:${server.port}`, port: server.port, events }
}

const asAnna = { headers: { Authorization: 'anna' } }

describe('server', () => {
  test('server: passes the principal to the handler, and reports the path pattern', async () => {
    const { url, events } = start()
    const response = await fetch(`${url}/things/17`, asAnna)
    expect(await response.json()).toEqual({ who: 'anna' })
    expect(events).toEqual([
      {
        requestId: response.headers.get('x-request-id') ?? '',
        method: 'GET',
        route: '/things/:id',
        status: 200,
        outcome: 'done',
        durationMs: expect.any(Number),
        tenant: 'name of anna',
      },
    ])
  })

  const marked = { kind: 'answer', status: 400, body: '{}' } as const
  const choosing: AdmittingRoute<number> = {
    method: 'POST',
    path: '/t/:slug/in',
    access: {
      admit: ({ params }) =>
        (params['slug'] ?? '') === ''
          ? { ...marked, outcome: 'nobody' }
          : { kind: 'admitted', admitted: 1, bodyBytesMax: 9 },
    },
    handle: ({ body }) => ({ ...marked, outcome: new TextDecoder().decode(body) }),
    unverifiedOutcomes: new Set(['nobody', 'forged', 'invalid_request', 'body_too_large', 'internal']),
    admitsMalformedParams: true,
  }
  test.each([
    ['a public route', 'GET', '/open', undefined, 'done', true],
    ['an unknown path', 'GET', '/nothing', undefined, 'route_unknown', true],
    ['a keyed route without a key', 'GET', '/things/17', undefined, 'api_key_invalid', true],
    ['a keyed route with its key', 'GET', '/things/17', 'anna', 'done', undefined],
    ['an outcome that the route lists', 'POST', '/t/a/in', 'forged', 'forged', true],
    ['an outcome that the route does not list', 'POST', '/t/a/in', 'signed', 'signed', undefined],
    ['a body that is too long', 'POST', '/t/a/in', 'more than 9', 'body_too_large', true],
    ['a malformed parameter', 'POST', '/t/%00/in', 'signed', 'nobody', true],
    ['a parameter over 128 characters', 'POST', `/t/${'a'.repeat(129)}/in`, 'signed', 'nobody', true],
    ['an empty parameter', 'POST', '/t//in', 'signed', 'nobody', true],
    ['a handler that throws', 'GET', '/bug', 'anna', 'internal', undefined],
    ['a public handler that throws', 'GET', '/away', undefined, 'store_unavailable', undefined],
  ] as const)(
    'server: reports whether any caller can cause a response: %s',
    async (_what, method, path, sent, outcome, unverified) => {
      const { url, events } = start({
        routes: [...routes, choosing],
        budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anonymous: new BodyBudget({ bytesMax: 1000 }) },
      })
      const body = method === 'POST' ? { body: sent ?? '' } : {}
      await fetch(`${url}${path}`, {
        method,
        ...body,
        headers: method === 'GET' && sent ? { Authorization: sent } : {},
      })
      expect(events.map((event) => [event.outcome, event.unverified])).toEqual([[outcome, unverified]])
    },
  )

  test('server: adds the headers of the handler’s response to the common headers', async () => {
    const { headers } = await fetch(`${start().url}/open`)
    expect(headers.get('x-own')).toBe('1')
    expect(headers.get('content-type')).toBe('application/json')
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test('server: closes the connection after each response while the process drains', async () => {
    let isDraining = false
    const { port } = start({ isDraining: () => isDraining })
    const ask = () =>
      new Promise<{ closes: boolean; reusedSocket: boolean }>((done, fail) => {
        const request = httpGet({ port, path: '/open', agent }, (answer) => {
          const closes = answer.headers.connection === 'close'
          answer.resume().on('end', () => done({ closes, reusedSocket: request.reusedSocket }))
        }).on('error', fail)
      })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    try {
      expect(await ask()).toEqual({ closes: false, reusedSocket: false })
      isDraining = true
      expect(await ask()).toEqual({ closes: true, reusedSocket: true })
      expect(await ask()).toEqual({ closes: true, reusedSocket: false })
    } finally {
      agent.destroy()
    }
  })

  test('server: assigns a different id to each request', async () => {
    const { url, events } = start()
    for (let count = 0; count < 5; count += 1) await fetch(`${url}/open`)
    expect(new Set(events.map(({ requestId }) => requestId)).size).toBe(5)
  })

  test('server: responds to HEAD like to GET, but without a body', async () => {
    const { url, events } = start()
    const response = await fetch(`${url}/open`, { method: 'HEAD' })
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect([response.headers.get('x-own'), response.headers.get('content-length')]).toEqual(['1', '2'])
    expect(events).toEqual([expect.objectContaining({ method: 'HEAD', route: '/open', outcome: 'done' })])
    const refused = await fetch(`${url}/things/17`, { method: 'HEAD' })
    expect([refused.status, await refused.text()]).toEqual([403, ''])
    const unknown = await fetch(`${url}/things`, { method: 'HEAD' })
    expect([unknown.status, unknown.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test.each(['/open/', '/things/', '/things/17/', '/Open'])(
    'server: a path that differs in case or in a trailing slash causes 404: %s',
    async (path) => {
      const response = await fetch(`${start().url}${path}`, asAnna)
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ code: 'route_unknown' })
    },
  )

  test('server: a query on a route with a body causes 400, but only after authorization', async () => {
    const { url } = start()
    const send = (query: string, init = asAnna) =>
      fetch(`${url}/things${query}`, { method: 'POST', body: 'x', ...init })
    const refused = await send('?scope=a&ke%79=b')
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({
      code: 'invalid_request',
      message: 'This call takes no query parameters: send "scope", "key" in the body',
    })
    expect((await send('?scope=a', { headers: { Authorization: '' } })).status).toBe(403)
    expect((await send('?')).status).toBe(200)
    expect((await fetch(`${url}/things/17?more=1`, asAnna)).status).toBe(200)
  })

  test('server: an unsupported method of a path with a parameter causes 405 with Allow', async () => {
    const { url } = start()
    const response = await fetch(`${url}/things/17`, { method: 'PUT' })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect((await fetch(`${url}/things/17/more`)).status).toBe(404)
  })

  test('server: runs the handler inside a span when tracing is on', async () => {
    const spans: (string | null)[] = []
    const { url } = start({
      tracing: {
        enabled: true,
        span: (name, { traceparent = null }, work) => {
          spans.push(name, traceparent)
          return work({ set: () => undefined, fail: () => undefined })
        },
      },
    })
    await fetch(`${url}/things/17`, { headers: { ...asAnna.headers, traceparent: 'from the caller' } })
    expect(spans).toEqual(['GET /things/:id', 'from the caller'])
  })
})

test('server: returns 500 without the cause when a response cannot be built', async () => {
  const broken = { ...answer('{}'), headers: { [`X ${inside}`]: '1' } }
  const { url, events } = start({
    routes: [{ method: 'GET', path: '/broken', access: 'public', bodyBytesMax: 0, handle: () => broken }],
  })
  const response = await fetch(`${url}/broken`)
  expect(response.status).toBe(500)
  const text = await response.text()
  expect(text).not.toContain(inside)
  expect(JSON.parse(text)).toMatchObject({ code: 'internal', statusCode: 500 })
  expect(events.at(-1)).toMatchObject({ outcome: 'internal', cause: expect.any(Error) })
})

describe('exceptions of handlers', () => {
  test('server: an exception causes 500 without the cause, and the observer receives the cause', async () => {
    const { url, events } = start()
    const response = await fetch(`${url}/bug`, asAnna)
    expect(response.status).toBe(500)
    const text = await response.text()
    expect(text).not.toContain(inside)
    expect(JSON.parse(text)).toEqual({
      message: expect.stringContaining('requestId'),
      error: 'Internal Server Error',
      statusCode: 500,
      code: 'internal',
      requestId: response.headers.get('x-request-id'),
    })
    expect(events).toEqual([
      expect.objectContaining({ outcome: 'internal', tenant: 'name of anna', cause: new Error(inside) }),
    ])
  })

  test('server: an expected exception causes the error response that `explain` returns', async () => {
    const { url, events } = start()
    const response = await fetch(`${url}/away`)
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await response.text()).not.toContain(inside)
    expect(events).toEqual([
      expect.objectContaining({ outcome: 'store_unavailable', cause: new RangeError(inside) }),
    ])
  })
})

/** Sends the head of a POST and a part of its body. */
async function sendPart(port: number, authorization: string | undefined) {
  const { promise, resolve } = Promise.withResolvers<string>()
  let received = ''
  const socket = await Bun.connect({
    hostname: 'localhost',
    port,
    socket: {
      data: (_socket, chunk) => {
        received += chunk.toString()
      },
      close: () => resolve(received),
    },
  })
  const credentials = authorization === undefined ? '' : `Authorization: ${authorization}\r\n`
  socket.write(`POST /things HTTP/1.1\r\nHost: localhost\r\n${credentials}Content-Length: 60\r\n\r\nhalf`)
  return {
    closed: promise,
    received: () => received,
    end: () => socket.end(),
    finish: () => socket.write('x'.repeat(56)),
  }
}

function statusOf(received: string): number | undefined {
  const status = /^HTTP\/1\.1 (\d{3})/.exec(received)?.[1]
  return status === undefined ? undefined : Number(status)
}

const within = { deadlineMs: 5000 }

describe('bodies of requests', () => {
  const send = (url: string, body: string) => fetch(`${url}/things`, { method: 'POST', body, ...asAnna })

  test('server: reads a body up to the route’s limit', async () => {
    const { url } = start()
    expect(await (await send(url, 'x'.repeat(100))).text()).toBe('100')
    expect((await send(url, 'x'.repeat(101))).status).toBe(400)
  })

  test('server: responds to a refused caller without waiting for the body', async () => {
    const { port } = start()
    const part = await sendPart(port, undefined)
    expect(await poll(() => statusOf(part.received()), within)).toBe(403)
    part.end()
  })

  test('server: a full body budget causes 503, and the next body is read once memory is released', async () => {
    const budgets = budgetsOf(100)
    const { url } = start({ budgets })
    const held = holding('bert')
    budgets.keyed.grow(held, 60, 0)
    const refused = await send(url, 'x'.repeat(50))
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await refused.json()).toMatchObject({ code: 'overloaded' })
    budgets.keyed.free(held)
    expect(await (await send(url, 'x'.repeat(50))).text()).toBe('50')
  })

  test('server: an evicted body causes 503, and its connection is closed', async () => {
    const budgets = { ...budgetsOf(0), keyed: new BodyBudget({ bytesMax: 2000, bodiesMax: 1 }) }
    const { port } = start({ budgets })
    const first = await sendPart(port, 'anna')
    expect(await poll(() => budgets.keyed.arriving === 1 || undefined, within)).toBe(true)
    const second = await sendPart(port, 'anna')
    const received = await first.closed
    expect(received).toStartWith('HTTP/1.1 503')
    expect(received).toContain('body_dropped')
    expect(received.toLowerCase()).toContain('retry-after: 1')
    second.finish()
    expect(await poll(() => statusOf(second.received()), within)).toBe(200)
    second.end()
  })

  test('server: the budgets of callers with a key and of anonymous callers are separate', async () => {
    const budgets = { keyed: new BodyBudget({ bytesMax: 100 }), anonymous: new BodyBudget({ bytesMax: 100 }) }
    const both: Options['routes'] = [
      ...routes,
      {
        method: 'POST',
        path: '/open',
        access: 'public',
        bodyBytesMax: 100,
        handle: ({ body }: Call) => answer(String(body.length)),
      },
    ]
    const { url } = start({ budgets, routes: both })
    const statuses = async () => [
      (await send(url, 'x')).status,
      (await fetch(`${url}/open`, { method: 'POST', body: 'x' })).status,
    ]
    const held = holding('other')
    budgets.keyed.grow(held, 100, 0)
    expect(await statuses()).toEqual([503, 200])
    budgets.keyed.free(held)
    budgets.anonymous.grow(held, 100, 0)
    expect(await statuses()).toEqual([200, 503])
    budgets.anonymous.free(held)
    expect(await statuses()).toEqual([200, 200])
  })

  test('server: charges a body until the response is sent, for every outcome', async () => {
    const endings: ((end: 'answer' | 'fail' | 'throw') => void)[] = []
    const { url } = start({
      budgets: budgetsOf(100),
      routes: [
        {
          method: 'POST',
          path: '/things',
          access: { scope: 'read' },
          bodyBytesMax: 100,
          handle: async ({ body }: Call) => {
            if (body.length < 60) return answer('{}')
            const { promise, resolve } = Promise.withResolvers<'answer' | 'fail' | 'throw'>()
            endings.push(resolve)
            const end = await promise
            if (end === 'throw') throw new Error(inside)
            return end === 'fail' ? apiError('lock_lost') : answer('{}')
          },
        },
      ],
    })
    for (const [end, status] of [
      ['answer', 200],
      ['fail', 409],
      ['throw', 500],
    ] as const) {
      const first = send(url, 'x'.repeat(60))
      const ending = await poll(() => endings.pop(), within)
      expect((await send(url, 'x'.repeat(41))).status).toBe(503)
      ending?.(end)
      expect((await first).status).toBe(status)
      expect((await send(url, 'x'.repeat(41))).status).toBe(200)
    }
  })

  test('server: a body below the minimum speed causes 400, and its connection is closed', async () => {
    const { url, port } = start({ budgets: budgetsOf(100, { shortMsMax: 50 }) })
    const received = await (await sendPart(port, 'anna')).closed
    expect(statusOf(received)).toBe(400)
    expect(received).toContain('too slowly')
    expect(await (await send(url, 'x'.repeat(100))).text()).toBe('100')
  })

  test('server: releases the charge of a body that is cut off', async () => {
    const budgets = budgetsOf(2000)
    const { url, port, events } = start({ budgets })
    const part = await sendPart(port, 'anna')
    expect(await poll(() => budgets.keyed.taken > 0 || undefined, within)).toBe(true)
    part.end()
    await part.closed
    expect(await poll(() => budgets.keyed.taken === 0 || undefined, within)).toBe(true)
    expect((await send(url, 'x'.repeat(100))).status).toBe(200)
    expect(events.find(({ outcome }) => outcome === 'invalid_request')?.status).toBe(400)
  })
})

test('listen: throws for a port in use', () => {
  const { port } = start()
  expect(() => listen(createServer({ ...emptyServer, routes }), port)).toThrow('in use')
})

const emptyServer: Options = {
  routes: [],
  authorize: () => 'anna',
  nameOf: (principal) => principal,
  explain: () => undefined,
  onAnswered: () => undefined,
  budgets: budgetsOf(1),
}

describe('request observer', () => {
  function observer() {
    let text = ''
    const log = createLogger({
      level: 'debug',
      service: 'test',
      version: '0',
      destination: {
        write: (bytes) => {
          text += new TextDecoder().decode(bytes)
          return bytes.length
        },
      },
    })
    const metrics = createMetrics({ service: 'test', version: '0' })
    const observe = createRequestObserver({ log, metrics, clock: { now: () => 0 } })
    const finish = async () => {
      const rendered = await metrics.render()
      log.close()
      metrics.close()
      return {
        lines: text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as object),
        metrics: rendered.text,
      }
    }
    return { observe, finish }
  }
  const event: RequestEvent = {
    requestId: 'r-1',
    method: 'GET',
    route: '/things/:id',
    status: 200,
    outcome: 'done',
    durationMs: 12.5,
    tenant: 'ten_a',
  }

  test('request observer: writes one log line, and counts the request and its duration in seconds', async () => {
    const { observe, finish } = observer()
    observe(event, undefined)
    observe(event, undefined)
    const { lines, metrics } = await finish()
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatchObject({ ...event, level: 'info', msg: 'request' })
    expect(metrics).toContain(
      'latchkey_http_requests_total{method="GET",route="/things/:id",status="200",outcome="done"} 2\n',
    )
    expect(metrics).toContain(
      'latchkey_http_request_duration_seconds_sum{method="GET",route="/things/:id"} 0.025\n',
    )
  })

  test('request observer: logs the fields of the route, but its own fields take precedence', async () => {
    const { observe, finish } = observer()
    observe({ ...event, fields: { provider: 'card', replayed: true, status: 999 } }, undefined)
    observe({ ...event, status: 500, fields: { provider: 'card' } }, new Error('gone'))
    const { lines } = await finish()
    expect(lines[0]).toMatchObject({ ...event, provider: 'card', replayed: true })
    expect(lines[0]).not.toHaveProperty('fields')
    expect(lines[1]).toMatchObject({ level: 'error', provider: 'card', cause: 'Error: gone' })
  })

  test('request observer: limits unverified outcomes to 10 log lines per second and excludes them from the durations', async () => {
    const { observe, finish } = observer()
    const forged = { ...event, status: 400, outcome: 'forged', unverified: true } as const
    for (let call = 0; call < 25; call += 1) {
      observe(forged, undefined)
      observe({ ...forged, outcome: 'unknown' }, undefined)
      observe({ ...event, status: 409, outcome: 'conflict' }, undefined)
    }
    const { lines, metrics } = await finish()
    const written = (outcome: string) =>
      lines.filter((line) => 'outcome' in line && line.outcome === outcome).length
    expect([written('forged'), written('unknown'), written('conflict')]).toEqual([10, 10, 25])
    expect(metrics).toContain('latchkey_http_log_lines_suppressed_total{outcome="forged"} 15\n')
    expect(metrics).toContain(
      'latchkey_http_request_duration_seconds_count{method="GET",route="/things/:id"} 25\n',
    )
    expect(metrics).toContain('status="400",outcome="forged"} 25\n')
  })

  test('request observer: counts all methods of unknown routes under one label value', async () => {
    const { observe, finish } = observer()
    for (const method of ['PROPFIND', 'TRACE'])
      observe({ ...event, method, route: 'unknown', status: 404 }, undefined)
    const { metrics } = await finish()
    expect(metrics).toContain('{method="other",route="unknown",status="404",outcome="done"} 2\n')
    expect(metrics).not.toContain('PROPFIND')
  })

  test('request observer: logs the root cause as one line of limited length', async () => {
    const { observe, finish } = observer()
    const cause = new Error('outer', { cause: new TypeError(`${'long '.repeat(100)}\nsecond line`) })
    observe({ ...event, status: 503, outcome: 'store_unavailable' }, cause)
    const { lines } = await finish()
    expect(lines[0]).toMatchObject({ level: 'error', msg: 'request failed' })
    expect(lines[0]).toHaveProperty('cause', `TypeError: ${'long '.repeat(40)}`)
  })
})

const get = (path: string, handle: PublicRoute['handle']): PublicRoute => ({
  access: 'public',
  method: 'GET',
  path,
  bodyBytesMax: 0,
  handle,
})

/** A server that renders errors below `/pages` for browsers. */
function startPages(routes: readonly PublicRoute[], answerUnknown?: PublicRoute['handle']) {
  const events: RequestEvent[] = []
  const server = createServer<never, never>({
    routes,
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: () => undefined,
    onAnswered: (event) => events.push(event),
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anonymous: new BodyBudget({ bytesMax: 0 }) },
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

test('server: sends bytes of any content type', async () => {
  const body = new Uint8Array([0, 255, 10])
  const headers = { 'Content-Type': 'image/x-own' }
  const { url } = startPages([
    get('/bytes', () => ({ kind: 'answer', status: 200, outcome: 'done', body, headers })),
  ])
  const answer = await fetch(`${url}/bytes`)
  expect(answer.headers.get('content-type')).toBe('image/x-own')
  expect(new Uint8Array(await answer.arrayBuffer())).toEqual(body)
})

test('server: cancels a streamed response when its reader disconnects', async () => {
  const gone = Promise.withResolvers<void>()
  const { url } = startPages([
    get('/stream', () => ({
      kind: 'answer',
      status: 200,
      outcome: 'live',
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
  ['an unknown path', '/pages/none', 404, 'route_unknown'],
])(
  'server: renders an error for a browser with the headers of the error: %s',
  async (_case, path, status, code) => {
    const { url, events } = startPages([
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
  },
)

test('server: sends the JSON envelope if `present` does not render an error', async () => {
  const { url } = startPages([])
  const answer = await fetch(`${url}/elsewhere`)
  expect(answer.headers.get('content-type')).toBe('application/json')
  expect(await answer.json()).toMatchObject({ statusCode: 404, code: 'route_unknown' })
})

test('server: `answerUnknown` handles GET of an unknown path, and other methods cause 404', async () => {
  const { url, events } = startPages(
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

test('server: renders an error of `answerUnknown` like any other error', async () => {
  const { url } = startPages([], () => {
    throw new TypeError('inside')
  })
  const answer = await fetch(`${url}/unknown`)
  expect([answer.status, await answer.json()]).toMatchObject([500, { code: 'internal' }])
})

const served = [
  { method: 'POST', path: '/v1/record' },
  { method: 'GET', path: '/v1/record' },
  { method: 'POST', path: '/v1/record/extend' },
  { method: 'POST', path: '/v1/t/:tenantSlug/webhooks/:provider' },
]

test.each([
  ['all methods of a path', '/v1/record', ['POST', 'GET', 'HEAD']],
  ['a path below another', '/v1/record/extend', ['POST']],
  ['parameters', '/v1/t/shop/webhooks/card', ['POST']],
  ['a slash at the end', '/v1/record/', []],
  ['an empty parameter at the end', '/v1/t/shop/webhooks/', []],
  ['an empty parameter', '/v1/t//webhooks/card', []],
  ['a longer path', '/v1/record/extend/more', []],
  ['a shorter path', '/v1', []],
  ['another letter case', '/V1/record', []],
  ['a path that is literally the pattern', '/v1/t/:tenantSlug/webhooks', []],
  ['the root', '/', []],
])('allowedMethods: returns the methods for %s', (_case, pathname, methods) => {
  expect(allowedMethods(served, pathname)).toEqual(methods)
})

const requestIdOf = (given?: string) =>
  createRequestIds()(
    new Request('http://localhost/', given === undefined ? {} : { headers: { 'X-Request-Id': given } }),
  )

test.each([
  ['letters, digits and _ . : -', 'Abc_1.2:3-4'],
  ['one character', 'x'],
  ['128 characters', 'x'.repeat(128)],
])('request id: keeps an X-Request-Id of the caller with %s', (_case, given) => {
  expect(requestIdOf(given)).toBe(given)
})

test.each([
  ['no characters', ''],
  ['129 characters', 'x'.repeat(129)],
  ['a space', 'a b'],
  ['a quote', 'a"b'],
  ['a slash', 'a/b'],
  ['letters outside ASCII', 'ä'],
])('request id: replaces an X-Request-Id with %s', (_case, given) => {
  expect(requestIdOf(given)).toMatch(/^[\w-]{12}-1$/)
})

test('request id: is unique within a process and across processes', () => {
  const [one, other] = [createRequestIds(), createRequestIds()]
  const request = new Request('http://localhost/')
  const ids = Array.from({ length: 1000 }, () => [one(request), other(request)]).flat()
  expect(new Set(ids).size).toBe(2000)
  expect(new Set(ids.map((id) => id.slice(0, 12))).size).toBe(2)
})
