import { afterEach, describe, expect, test } from 'bun:test'
import { Agent, get as httpGet } from 'node:http'
import { type ApiError, apiError } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { createLogger, createMetrics } from '#internal/telemetry/index.ts'
import { holding } from '#test/support/body-holding.ts'
import { BodyBudget, type Pace } from './body-budget.ts'
import type { BodyBudgets } from './entry.ts'
import { type Listening, listen } from './listen.ts'
import { createRequestObserver } from './observe.ts'
import type { AdmittingRoute, Answer, Call, Route } from './route.ts'
import { createServer, type RequestEvent, type ServerOptions } from './server.ts'

type Options = ServerOptions<string, 'read'>

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

/** Stands in what must not reach a caller. */
const inside = 'select * from tenants'

const budgetsOf = (bytesMax: number, pace: Partial<Pace> = {}): BodyBudgets => ({
  keyed: new BodyBudget({ bytesMax, pace }),
  anybody: new BodyBudget({ bytesMax: 0 }),
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

/** An event with what broke, where something did. */
type Told = RequestEvent & { readonly cause?: unknown }

function start(changes: Partial<Options> = {}): { url: string; port: number; events: Told[] } {
  const events: Told[] = []
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

describe('a route', () => {
  test('gets who calls, and is told of by its path with the parameters unfilled', async () => {
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
    ['a path that no route has', 'GET', '/nothing', undefined, 'route_unknown', true],
    ['a route without its key', 'GET', '/things/17', undefined, 'api_key_invalid', true],
    ['a route with its key', 'GET', '/things/17', 'anna', 'done', undefined],
    ['an outcome that the route lists', 'POST', '/t/a/in', 'forged', 'forged', true],
    ['an outcome that the route does not list', 'POST', '/t/a/in', 'signed', 'signed', undefined],
    ['a body that is too long', 'POST', '/t/a/in', 'more than 9', 'body_too_large', true],
    ['a malformed parameter', 'POST', '/t/%00/in', 'signed', 'nobody', true],
    ['a parameter over 128 characters', 'POST', `/t/${'a'.repeat(129)}/in`, 'signed', 'nobody', true],
    ['an empty parameter', 'POST', '/t//in', 'signed', 'nobody', true],
    ['a handler that throws', 'GET', '/bug', 'anna', 'internal', undefined],
    ['a public handler that throws', 'GET', '/away', undefined, 'store_unavailable', undefined],
  ] as const)(
    'reports whether any caller can cause an answer: %s',
    async (_what, method, path, sent, outcome, unverified) => {
      const { url, events } = start({
        routes: [...routes, choosing],
        budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anybody: new BodyBudget({ bytesMax: 1000 }) },
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

  test('adds its headers to those of every answer', async () => {
    const { headers } = await fetch(`${start().url}/open`)
    expect(headers.get('x-own')).toBe('1')
    expect(headers.get('content-type')).toBe('application/json')
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test('ends the connection with each answer once the process is ending', async () => {
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

  test('names its requests apart', async () => {
    const { url, events } = start()
    for (let count = 0; count < 5; count += 1) await fetch(`${url}/open`)
    expect(new Set(events.map(({ requestId }) => requestId)).size).toBe(5)
  })

  test('answers HEAD as GET without a body', async () => {
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
    'is not met by another path: %s',
    async (path) => {
      const response = await fetch(`${start().url}${path}`, asAnna)
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ code: 'route_unknown' })
    },
  )

  test('that reads a body refuses a query string, which it would not read, once it knows the caller', async () => {
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

  test('with a parameter tells its methods to whoever comes with another', async () => {
    const { url } = start()
    const response = await fetch(`${url}/things/17`, { method: 'PUT' })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect((await fetch(`${url}/things/17/more`)).status).toBe(404)
  })

  test('runs within a span where traces are on', async () => {
    const spans: (string | null)[] = []
    const { url } = start({
      traced: (name, traceparent, work) => {
        spans.push(name, traceparent)
        return work()
      },
    })
    await fetch(`${url}/things/17`, { headers: { ...asAnna.headers, traceparent: 'from the caller' } })
    expect(spans).toEqual(['GET /things/:id', 'from the caller'])
  })
})

test('an answer that cannot be sent is 500 without a word of why', async () => {
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

describe('what a handler throws', () => {
  test('is 500 without a word of it, and known to the log', async () => {
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

  test('is explained where it is no bug', async () => {
    const { url, events } = start()
    const response = await fetch(`${url}/away`)
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await response.text()).not.toContain(inside)
    expect(events).toEqual([
      expect.objectContaining({ outcome: 'store_unavailable', cause: new RangeError(inside) }),
    ])
  })
})

/** Sends the head of a POST with a body of which only a part comes. */
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

describe('a body', () => {
  const send = (url: string, body: string) => fetch(`${url}/things`, { method: 'POST', body, ...asAnna })

  test('is read to its bound', async () => {
    const { url } = start()
    expect(await (await send(url, 'x'.repeat(100))).text()).toBe('100')
    expect((await send(url, 'x'.repeat(101))).status).toBe(400)
  })

  test('is not waited for where the caller is refused', async () => {
    const { port } = start()
    const part = await sendPart(port, undefined)
    expect(await poll(() => statusOf(part.received()), within)).toBe(403)
    part.end()
  })

  test('without room is 503, and is read when there is room again', async () => {
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

  test('makes room for a faster one: it is 503 and its connection ends', async () => {
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

  test('of a caller with a key, and one of anybody, do not take each other’s room', async () => {
    const budgets = { keyed: new BodyBudget({ bytesMax: 100 }), anybody: new BodyBudget({ bytesMax: 100 }) }
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
    budgets.anybody.grow(held, 100, 0)
    expect(await statuses()).toEqual([200, 503])
    budgets.anybody.free(held)
    expect(await statuses()).toEqual([200, 200])
  })

  test('holds its room until it is answered, whatever the answer is', async () => {
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

  test('that comes too slowly is given up, and its connection with it', async () => {
    const { url, port } = start({ budgets: budgetsOf(100, { shortMsMax: 50 }) })
    const received = await (await sendPart(port, 'anna')).closed
    expect(statusOf(received)).toBe(400)
    expect(received).toContain('too slowly')
    expect(await (await send(url, 'x'.repeat(100))).text()).toBe('100')
  })

  test('that breaks off gives its room back', async () => {
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

test('a port that is taken is not shared', () => {
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

describe('what is told of a request', () => {
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

  test('is one wide line, a count and a duration in seconds', async () => {
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

  test('has the fields of the route beside its own, which keep their names', async () => {
    const { observe, finish } = observer()
    observe({ ...event, fields: { provider: 'card', replayed: true, status: 999 } }, undefined)
    observe({ ...event, status: 500, fields: { provider: 'card' } }, new Error('gone'))
    const { lines } = await finish()
    expect(lines[0]).toMatchObject({ ...event, provider: 'card', replayed: true })
    expect(lines[0]).not.toHaveProperty('fields')
    expect(lines[1]).toMatchObject({ level: 'error', provider: 'card', cause: 'Error: gone' })
  })

  test('has at most 10 lines per outcome and second where any caller can cause it, and no part in the durations', async () => {
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

  test('counts the methods of routes that nobody serves as one', async () => {
    const { observe, finish } = observer()
    for (const method of ['PROPFIND', 'TRACE'])
      observe({ ...event, method, route: 'unknown', status: 404 }, undefined)
    const { metrics } = await finish()
    expect(metrics).toContain('{method="other",route="unknown",status="404",outcome="done"} 2\n')
    expect(metrics).not.toContain('PROPFIND')
  })

  test('names what broke in one bounded line', async () => {
    const { observe, finish } = observer()
    const cause = new Error('outer', { cause: new TypeError(`${'long '.repeat(100)}\nsecond line`) })
    observe({ ...event, status: 503, outcome: 'store_unavailable' }, cause)
    const { lines } = await finish()
    expect(lines[0]).toMatchObject({ level: 'error', msg: 'request failed' })
    expect(lines[0]).toHaveProperty('cause', `TypeError: ${'long '.repeat(40)}`)
  })
})
