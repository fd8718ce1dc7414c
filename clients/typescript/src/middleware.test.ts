// What holds with every framework, against the real API.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Hono } from 'hono'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { FaultyFetch } from '../../../test/support/faulty-fetch.ts'
import {
  type App,
  type AppOptions,
  frameworks,
  type Handle,
  type Reply,
} from '../../../test/support/guarded-apps.ts'
import { until } from '../../../test/support/until.ts'
import { idempotency, idempotent } from './fetch.ts'
import { Latchkey, nothingHappened } from './index.ts'

let api: TestApi
let latchkey: Latchkey
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterAll(() => api.close())

interface Call {
  readonly method?: string
  readonly path?: string
  readonly key?: string
  readonly user?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Calls an app and reads the response. */
async function call(
  app: App,
  { method = 'POST', path = '/charges', key, user = 'ada', body, headers }: Call,
) {
  const response = await fetch(app.url + path, {
    method,
    headers: {
      'content-type': 'application/json',
      'x-user': user,
      ...(key !== undefined && { 'idempotency-key': key }),
      ...headers,
    },
    ...(method !== 'GET' && method !== 'HEAD' && { body: body ?? '{"amount":4200}' }),
  })
  const bytes = new Uint8Array(await response.arrayBuffer())
  const text = new TextDecoder().decode(bytes)
  return { status: response.status, headers: response.headers, bytes, text }
}

const newKey = () => `"${crypto.randomUUID()}"`
const codeOf = ({ text }: { text: string }) => (JSON.parse(text) as { code: string }).code

describe.each(Object.entries(frameworks))('middleware, %s', (name, start) => {
  let handle: Handle
  const apps = new Map<string, Promise<App>>()
  /** Returns the app with these options. */
  const appWith = (options: AppOptions = {}) => {
    const id = JSON.stringify(options)
    const app = apps.get(id) ?? start(latchkey, options, (each) => handle(each))
    apps.set(id, app)
    return app
  }
  afterAll(async () => {
    for (const app of apps.values()) await (await app).close()
  })

  /** Sets the handler, and returns its calls. */
  function answer(by: Reply | Handle) {
    const calls: string[] = []
    handle = async (each) => {
      calls.push(each.body)
      return typeof by === 'function' ? by(each) : by
    }
    return calls
  }

  test(`${name}: a repeated request gets the first response, and the handler runs once`, async () => {
    const app = await appWith()
    let count = 0
    const calls = answer(async ({ body }) => ({
      status: 201,
      headers: { 'content-type': 'application/json', location: '/charges/1', 'x-other': 'x' },
      body: JSON.stringify({ count: ++count, received: body }),
    }))
    const key = newKey()
    const first = await call(app, { key })
    const again = await call(app, { key })
    expect(calls).toEqual(['{"amount":4200}'])
    expect(first.status).toBe(201)
    expect(first.headers.get('x-other')).toBe('x')
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again).toMatchObject({ status: 201, text: first.text })
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('location')).toBe('/charges/1')
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
    expect(again.headers.get('x-other')).toBeNull()
  })

  test(`${name}: two callers with one key never see each other's response`, async () => {
    const app = await appWith()
    let count = 0
    const calls = answer(async () => ({ status: 201, body: `response ${++count}` }))
    const key = newKey()
    const texts = []
    for (const user of ['ada', 'bob', 'ada', 'bob', 'none', '-'])
      texts.push((await call(app, { key, user })).text)
    expect(texts).toEqual([
      'response 1',
      'response 2',
      'response 1',
      'response 2',
      'response 3',
      'response 4',
    ])
    expect(calls.length).toBe(4)
  })

  test(`${name}: a caller that \`principal\` does not know is refused, and the handler does not run`, async () => {
    const app = await appWith()
    const calls = answer({ status: 201 })
    expect((await call(app, { key: newKey(), user: '' })).status).toBe(500)
    expect(calls).toEqual([])
  })

  test(`${name}: set-cookie reaches the first caller and is never kept`, async () => {
    const app = await appWith({ headersKept: ['X-Other'] })
    answer({ status: 200, headers: { 'set-cookie': ['a=1', 'b=2'], 'x-other': 'kept' }, body: 'done' })
    const key = newKey()
    const first = await call(app, { key })
    const again = await call(app, { key })
    expect(first.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(again.headers.getSetCookie()).toEqual([])
    expect(again.headers.get('x-other')).toBe('kept')
  })

  const bytes = Uint8Array.from({ length: 1000 }, (_, at) => at % 256)
  const bodies: [
    what: string,
    body: NonNullable<Reply['body']> | undefined,
    status: number,
    expected: Uint8Array,
  ][] = [
    [
      'text with a byte order mark, NUL and emoji',
      '\ufeff\u0000 ü 😀',
      200,
      new TextEncoder().encode('\ufeff\u0000 ü 😀'),
    ],
    ['bytes that are not UTF-8', bytes, 200, bytes],
    ['an empty body', undefined, 201, new Uint8Array()],
    ['no body', undefined, 204, new Uint8Array()],
    ['several writes', ['one ', 'two ', 'three'], 200, new TextEncoder().encode('one two three')],
    ['an error of the caller', 'no', 422, new TextEncoder().encode('no')],
    ['text of 180 KiB', 'x'.repeat(184_320), 200, new TextEncoder().encode('x'.repeat(184_320))],
    ['180 KiB of quotation marks', '"'.repeat(184_320), 200, new TextEncoder().encode('"'.repeat(184_320))],
  ]
  test.each(bodies)(`${name}: %s is replayed byte for byte`, async (_what, body, status, expected) => {
    const app = await appWith()
    const calls = answer({ status, ...(body !== undefined && { body }) })
    const key = newKey()
    const first = await call(app, { key })
    const again = await call(app, { key })
    expect([first.status, again.status, calls.length]).toEqual([status, status, 1])
    expect(Buffer.compare(first.bytes, expected)).toBe(0)
    expect(Buffer.compare(again.bytes, expected)).toBe(0)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
  })

  const large: [what: string, body: NonNullable<Reply['body']>][] = [
    ['of one write', 'x'.repeat(184_321)],
    ['of many writes', Array.from({ length: 300 }, () => 'x'.repeat(4096))],
  ]
  test.each(large)(
    `${name}: a response over 180 KiB, %s, is sent whole and not repeated`,
    async (_what, body) => {
      const app = await appWith()
      const calls = answer({ status: 200, body })
      const key = newKey()
      const first = await call(app, { key })
      const again = await call(app, { key })
      expect([first.status, first.bytes.length]).toEqual([200, [body].flat().join('').length])
      expect([again.status, codeOf(again)]).toEqual([409, 'idempotency_response_not_kept'])
      expect(calls.length).toBe(1)
    },
  )

  test(`${name}: an event stream is refused with an error that names the route`, async () => {
    const app = await appWith()
    answer({
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      body: ['data: 1\n\n', 'data: 2\n\n'],
    })
    expect((await call(app, { key: newKey(), path: '/events' })).status).toBe(500)
  })

  const untouched: [what: string, options: Call][] = [
    ['GET', { method: 'GET' }],
    ['HEAD', { method: 'HEAD' }],
    ['PUT', { method: 'PUT' }],
  ]
  test.each(untouched)(`${name}: %s is not guarded, with or without a key`, async (_what, options) => {
    const app = await appWith()
    const calls = answer({ status: 200, body: 'x' })
    const key = newKey()
    for (const each of [options, { ...options, key }, { ...options, key }, { ...options, key: 'malformed' }])
      expect((await call(app, each)).status).toBe(200)
    expect(calls.length).toBe(4)
  })

  const refused: [what: string, options: Call, status: number, code: string, use: AppOptions][] = [
    ['no key', {}, 400, 'idempotency_key_missing', {}],
    ['a malformed key', { key: 'abc' }, 400, 'idempotency_key_malformed', {}],
    [
      'a large body',
      { key: '"l"', body: 'x'.repeat(101) },
      413,
      'idempotency_request_too_large',
      { requestBytesMax: 100 },
    ],
  ]
  test.each(refused)(`${name}: %s is refused`, async (_what, options, status, code, use) => {
    const app = await appWith(use)
    const calls = answer({ status: 200 })
    const response = await call(app, options)
    expect([response.status, codeOf(response)]).toEqual([status, code])
    expect(response.headers.get('content-type')).toStartWith('application/problem+json')
    if (status === 400) expect(response.text).toContain('86400 seconds')
    expect(calls).toEqual([])
  })

  test(`${name}: without a key, the handler runs each time if no key is required`, async () => {
    const app = await appWith({ required: false })
    const calls = answer({ status: 200, body: 'x' })
    for (const status of [200, 200]) expect((await call(app, {})).status).toBe(status)
    expect(calls.length).toBe(2)
  })

  test(`${name}: another body, path or query under the key is refused`, async () => {
    const app = await appWith({ scope: `reused ${name}` })
    const calls = answer({ status: 200, body: 'x' })
    const key = newKey()
    await call(app, { key, path: '/orders/1' })
    for (const other of [
      { path: '/orders/2' },
      { path: '/orders/1?a=1' },
      { path: '/orders/1', body: '{}' },
    ]) {
      const response = await call(app, { key, ...other })
      expect([response.status, codeOf(response)]).toEqual([422, 'idempotency_key_reused'])
    }
    expect(calls.length).toBe(1)
  })

  test(`${name}: while the first request runs, a second one is refused, or waits for its response`, async () => {
    const app = await appWith({ waitMs: 0 })
    const waiting = await appWith({ waitMs: 5000 })
    const { promise: answered, resolve: finish } = Promise.withResolvers<void>()
    const { promise: started, resolve: begin } = Promise.withResolvers<void>()
    const calls = answer(async () => {
      begin()
      await answered
      return { status: 200, body: 'x' }
    })
    const key = newKey()
    const first = call(app, { key })
    await started
    const second = await call(app, { key })
    expect([second.status, codeOf(second)]).toEqual([409, 'idempotency_key_in_use'])
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    const third = call(waiting, { key })
    finish()
    expect([(await first).text, (await third).text, calls.length]).toEqual(['x', 'x', 1])
  })

  const failures: [what: string, by: Handle][] = [
    ['a response of status 503', async () => ({ status: 503, body: 'no' })],
    [
      'an exception',
      async () => {
        throw new Error('no')
      },
    ],
  ]
  test.each(failures)(
    `${name}: after %s, a repetition is refused, or runs with onTakenOver 'run'`,
    async (_what, by) => {
      const app = await appWith()
      const running = await appWith({ onTakenOver: 'run' })
      const calls = answer(by)
      const key = newKey()
      expect((await call(app, { key })).status).toBeGreaterThanOrEqual(500)
      const again = await call(app, { key })
      expect([again.status, codeOf(again), calls.length]).toEqual([409, 'idempotency_outcome_unknown', 1])
      const later = answer(async ({ operation }) => ({
        status: 200,
        body: `taken over: ${operation?.takenOver}`,
      }))
      expect((await call(running, { key })).text).toBe('taken over: true')
      expect((await call(app, { key })).text).toBe('taken over: true')
      expect(later.length).toBe(1)
    },
  )

  test(`${name}: after a failure without an effect, a repetition runs anew`, async () => {
    const app = await appWith()
    answer(async ({ operation }) => {
      operation?.nothingHappened()
      return { status: 503, body: 'no' }
    })
    const key = newKey()
    expect((await call(app, { key })).status).toBe(503)
    answer(async ({ operation }) => ({ status: 200, body: `taken over: ${operation?.takenOver}` }))
    expect((await call(app, { key })).text).toBe('taken over: false')
  })

  test(`${name}: after an exception without an effect, a repetition runs anew, but Express cannot see it`, async () => {
    const app = await appWith({ onTakenOver: 'run' })
    answer(async () => {
      throw nothingHappened(new Error('no'))
    })
    const key = newKey()
    expect((await call(app, { key })).status).toBe(500)
    answer(async ({ operation }) => ({ status: 200, body: `taken over: ${operation?.takenOver}` }))
    expect((await call(app, { key })).text).toBe(`taken over: ${name.startsWith('Express')}`)
  })

  test(`${name}: without Latchkey, the request is refused with Retry-After`, async () => {
    const unreachable = new Latchkey({ url: 'http://127.0.0.1:9', apiKey: 'x' })
    const app = await start(unreachable, { acquireMs: 0 }, (each) => handle(each))
    const calls = answer({ status: 200 })
    const response = await call(app, { key: newKey() })
    expect([response.status, codeOf(response), calls.length]).toEqual([503, 'idempotency_unavailable', 0])
    expect(response.headers.get('retry-after')).toBe('1')
    await app.close()
  })

  test(`${name}: if the save gets no answer, the response is sent within seconds, and is saved later`, async () => {
    const faults = new FaultyFetch()
    const faulty = new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch })
    const app = await start(faulty, {}, (each) => handle(each))
    answer({ status: 201, body: 'done' })
    faults.fail('PUT /v1/record', 'call lost', 1000)
    const key = newKey()
    const startedAtMs = performance.now()
    expect((await call(app, { key })).text).toBe('done')
    expect(performance.now() - startedAtMs).toBeLessThan(4000)
    faults.recover()
    const again = async () => (await call(app, { key })).headers.get('idempotent-replayed')
    await until(async () => (await again()) === 'true')
    await app.close()
  })
})

test('Hono: a body that an earlier middleware has read is part of the fingerprint', async () => {
  const app = new Hono()
  const guard = idempotency(latchkey, { principal: 'none' })
  app.post(
    '/charges',
    async (context, next) => {
      await context.req.json()
      await next()
    },
    guard,
    (context) => context.text('done'),
  )
  const key = newKey()
  const post = (body: string) =>
    app.request('/charges', { method: 'POST', body, headers: { 'idempotency-key': key } })
  expect((await post('{"amount":1}')).status).toBe(200)
  expect((await post('{"amount":1}')).headers.get('idempotent-replayed')).toBe('true')
  expect((await post('{"amount":2}')).status).toBe(422)
})

test('Fetch API: a body that was read before is an error that says what to do', async () => {
  const guarded = idempotent(latchkey, { principal: 'none' }, () => new Response('done'))
  const request = new Request('http://localhost/charges', {
    method: 'POST',
    body: '{}',
    headers: { 'idempotency-key': newKey() },
  })
  await request.text()
  expect(guarded(request)).rejects.toThrow('put the idempotency middleware first')
})
