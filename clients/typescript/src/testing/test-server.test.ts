import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createPool, type Pool } from '../../../../internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '../../../../test/support/api.ts'
import { testSeed } from '../../../../test/support/seed.ts'
import { TestServer } from './test-server.ts'

let api: TestApi
let pool: Pool
beforeAll(async () => {
  api = await startTestApi({ recordDurability: 'postgres' })
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5000, connectTimeoutMs: 5000 }
  pool = createPool({ url: api.databaseUrl, applicationName: 'test clock', ...bounds })
  await pool.query(`CREATE TABLE moved_clock AS SELECT 0::bigint AS us`)
  await pool.query(
    `CREATE OR REPLACE FUNCTION record_clock() RETURNS bigint LANGUAGE sql VOLATILE AS
     'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + us FROM moved_clock'`,
  )
}, 30_000)
afterAll(async () => {
  await pool.end()
  await api.close()
})

type Fields = Readonly<Record<string, unknown>>
type Step =
  | {
      readonly do: 'call'
      readonly method: 'POST' | 'PUT' | 'GET' | 'DELETE'
      readonly fields: Fields
      readonly token: number
    }
  | { readonly do: 'extend'; readonly fields: Fields; readonly token: number }
  | { readonly do: 'advance'; readonly ms: number }

interface Service {
  readonly url: string
  readonly apiKey: string
  fetch(url: string, init: RequestInit): Promise<Response>
  advance(ms: number): Promise<void>
}

/** Runs the steps and returns the answers, with tokens by the order of their appearance. */
async function answersOf(service: Service, steps: readonly Step[]): Promise<unknown[]> {
  const tokens: string[] = []
  const answers: unknown[] = []
  let fence = 0
  for (const step of steps) {
    if (step.do === 'advance') {
      await service.advance(step.ms)
      continue
    }
    const lockToken =
      step.token < 0 ? undefined : (tokens.at(step.token % Math.max(tokens.length, 1)) ?? 'unknown')
    const fields = { ...step.fields, ...(lockToken !== undefined && { lockToken }) }
    const method = step.do === 'extend' ? 'POST' : step.method
    const inQuery = method === 'GET' || method === 'DELETE'
    const path = step.do === 'extend' ? '/v1/record/extend' : '/v1/record'
    const query = inQuery ? `?${new URLSearchParams(fields)}` : ''
    const response = await service.fetch(`${service.url}${path}${query}`, {
      method,
      headers: { Authorization: `Bearer ${service.apiKey}`, 'Content-Type': 'application/json' },
      ...(!inQuery && { body: JSON.stringify(fields) }),
    })
    const body = (await response.json()) as Record<string, unknown>
    const replayed = response.headers.get('idempotent-replayed')
    if (typeof body['lockToken'] === 'string' && !tokens.includes(body['lockToken'])) {
      tokens.push(body['lockToken'])
      expect(Number(body['fence'])).toBeGreaterThan(fence)
      fence = Number(body['fence'])
    }
    answers.push({ status: response.status, replayed, body: comparable(body, tokens) })
  }
  return answers
}

function comparable(body: Record<string, unknown>, tokens: readonly string[]): unknown {
  const { lockToken, fence, retryAfterMs, message, requestId, ...rest } = body
  return {
    ...rest,
    ...(lockToken !== undefined && { lock: tokens.indexOf(String(lockToken)) }),
    ...(fence !== undefined && { fence: typeof fence }),
    ...(retryAfterMs !== undefined && { retryAfterMs: typeof retryAfterMs }),
    ...(message !== undefined && { message: typeof message, requestId: typeof requestId }),
  }
}

const real = (): Service => ({
  url: api.url,
  apiKey: testApiKey,
  fetch: (url, init) => fetch(url, init),
  advance: async (ms) => {
    await pool.query('UPDATE moved_clock SET us = us + $1', [ms * 1000])
  },
})

function inMemory(): Service {
  const server = new TestServer()
  return {
    url: server.url,
    apiKey: server.apiKey,
    fetch: server.fetch,
    advance: async (ms) => server.advance(ms),
  }
}

let runs = 0
/** Makes keys unused at the real service, unless they are empty. */
function ownKeys(steps: readonly Step[]): Step[] {
  runs += 1
  return steps.map((step) => {
    if (step.do === 'advance') return step
    const { key } = step.fields
    return { ...step, fields: { ...step.fields, key: key === '' ? '' : `${runs}-${String(key)}` } }
  })
}

const key = fc.constantFrom('a', 'b')
const scope = fc.constant('s')
const attemptId = fc.constantFrom('one', 'two')
const fingerprint = fc.constantFrom('f', 'g')
const ttlSeconds = fc.constantFrom(1, 120, 200_000)
const lockSeconds = fc.constantFrom(1, 60, 900)
const token = fc.integer({ min: -1, max: 3 })
const acquire = fc.record(
  { scope, key, attemptId, fingerprint, ttlSeconds, lockSeconds },
  { requiredKeys: ['scope', 'key'] },
)
const record = { status: fc.constantFrom(200, 404), body: fc.constantFrom(null, { id: 1 }) }
const save = fc.record(
  { scope, key, ...record, headers: fc.constant({ Location: '/1' }), ttlSeconds },
  { requiredKeys: ['scope', 'key', 'status', 'body'] },
)
const address = fc.record({ scope, key })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: acquire.map((fields) => ({ do: 'call', method: 'POST', fields, token: -1 }) as const),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(save, token)
      .map(([fields, one]) => ({ do: 'call', method: 'PUT', fields, token: one }) as const),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.record({ scope, key, lockSeconds }, { requiredKeys: ['scope', 'key'] }), token)
      .map(([fields, one]) => ({ do: 'extend', fields, token: Math.max(one, 0) }) as const),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(address, token)
      .map(([fields, one]) => ({ do: 'call', method: 'DELETE', fields, token: one }) as const),
  },
  {
    weight: 1,
    arbitrary: address.map((fields) => ({ do: 'call', method: 'GET', fields, token: -1 }) as const),
  },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom(2_000, 61_000, 901_000, 90_000_000)
      .map((ms) => ({ do: 'advance', ms }) as const),
  },
)

test('test server: random sequences of calls get the same responses as from the real service', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20 }), async (steps) => {
      const own = ownKeys(steps)
      expect(await answersOf(inMemory(), own)).toEqual(await answersOf(real(), own))
    }),
    { numRuns: 150, seed: testSeed() },
  )
}, 60_000)

const valid = { scope: 's', key: 'k' }
const acquireAs = (fields: Fields = {}): Step => ({
  do: 'call',
  method: 'POST',
  fields: { ...valid, ...fields },
  token: -1,
})
const releaseBy = (token: number): Step => ({ do: 'call', method: 'DELETE', fields: valid, token })
const saveBy = (token: number): Step => ({
  do: 'call',
  method: 'PUT',
  fields: { ...valid, status: 200, body: 1 },
  token,
})
const advance = (ms: number): Step => ({ do: 'advance', ms })

test.each<[string, Step[]]>([
  [
    'a fingerprint that is kept by a takeover without a fingerprint',
    [acquireAs({ fingerprint: 'f' }), advance(61_000), acquireAs(), acquireAs({ fingerprint: 'g' })],
  ],
  [
    'a lock that is taken over and released',
    [acquireAs(), advance(61_000), acquireAs(), releaseBy(1), releaseBy(1), acquireAs()],
  ],
  [
    'an attempt that asks again after its release',
    [
      acquireAs(),
      advance(61_000),
      acquireAs({ attemptId: 'one' }),
      releaseBy(1),
      acquireAs({ attemptId: 'one' }),
      saveBy(1),
    ],
  ],
  [
    'a late save before and after a takeover',
    [acquireAs(), advance(61_000), saveBy(0), saveBy(0), releaseBy(0), acquireAs()],
  ],
  [
    'a lock whose mark is a day old, and a lock whose mark is older',
    [acquireAs(), advance(86_459_000), acquireAs(), advance(86_461_000), acquireAs()],
  ],
])('test server: %s gets the same response as from the real service', async (_case, steps) => {
  const own = ownKeys(steps)
  expect(await answersOf(inMemory(), own)).toEqual(await answersOf(real(), own))
})

describe('test server: calls that are not valid', () => {
  test.each<[string, Step]>([
    ['no key', { do: 'call', method: 'POST', fields: { scope: 's', key: '' }, token: -1 }],
    [
      'a control character',
      { do: 'call', method: 'POST', fields: { ...valid, fingerprint: 'a\nb' }, token: -1 },
    ],
    ['an unknown field', { do: 'call', method: 'POST', fields: { ...valid, wait: 1 }, token: -1 }],
    [
      'a ttl beyond the maximum',
      { do: 'call', method: 'POST', fields: { ...valid, ttlSeconds: 2_592_001 }, token: -1 },
    ],
    ['a fraction', { do: 'call', method: 'POST', fields: { ...valid, waitMs: 0.5 }, token: -1 }],
    [
      'a status that is none',
      { do: 'call', method: 'PUT', fields: { ...valid, status: 600, body: 1 }, token: -1 },
    ],
    ['no body', { do: 'call', method: 'PUT', fields: { ...valid, status: 200 }, token: -1 }],
    [
      'a header with a line break',
      {
        do: 'call',
        method: 'PUT',
        fields: { ...valid, status: 200, body: 1, headers: { a: 'b\r\n' } },
        token: -1,
      },
    ],
    [
      'a body beyond the maximum',
      { do: 'call', method: 'PUT', fields: { ...valid, status: 200, body: 'x'.repeat(262_143) }, token: -1 },
    ],
    [
      'a body at the maximum',
      { do: 'call', method: 'PUT', fields: { ...valid, status: 200, body: 'x'.repeat(262_142) }, token: -1 },
    ],
    [
      'a body of 256 levels',
      { do: 'call', method: 'PUT', fields: { ...valid, status: 200, body: nested(256) }, token: -1 },
    ],
    [
      'a body of 255 levels',
      { do: 'call', method: 'PUT', fields: { ...valid, status: 200, body: nested(255) }, token: -1 },
    ],
    ['no token of an extension', { do: 'extend', fields: valid, token: -1 }],
  ])('test server: %s gets the same response as from the real service', async (_case, one) => {
    const steps = ownKeys([one])
    expect(await answersOf(inMemory(), steps)).toEqual(await answersOf(real(), steps))
  })

  test('test server: another API key gets the same response as from the real service', async () => {
    const steps: Step[] = [{ do: 'call', method: 'POST', fields: valid, token: -1 }]
    const wrong = (service: Service) => answersOf({ ...service, apiKey: 'lk_wrong' }, steps)
    expect(await wrong(inMemory())).toEqual(await wrong(real()))
  })
})

function nested(levels: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < levels; level += 1) value = [value]
  return value
}

const acquireCall = (server: TestServer, fields: Fields = {}, init: RequestInit = {}) =>
  server.fetch(`${server.url}/v1/record`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.apiKey}` },
    ...init,
    body: JSON.stringify({ ...valid, ...fields }),
  })

describe('test server: faults and clock', () => {
  test('test server: a lost call has no effect, and a call whose response is lost takes effect', async () => {
    const server = new TestServer()
    server.failNext('call_lost')
    expect(acquireCall(server)).rejects.toThrow('the call was lost')
    expect(server.stateOf(valid)).toEqual({ kind: 'none' })
    server.failNext('answer_lost', { operation: 'acquire' })
    expect(acquireCall(server)).rejects.toThrow('the answer was lost')
    expect(server.stateOf(valid)).toEqual({ kind: 'held' })
  })

  test('test server: a failure with a status is returned the requested number of times, and only for its operation', async () => {
    const server = new TestServer()
    const failure = { status: 503, code: 'store_unavailable', retryAfterSeconds: 1 }
    server.failNext(failure, { operation: 'acquire', times: 2 })
    server.failNext(failure, { operation: 'save' })
    const statuses: number[] = []
    for (let call = 0; call < 3; call += 1) statuses.push((await acquireCall(server)).status)
    expect(statuses).toEqual([503, 503, 200])
  })

  test('test server: advancing the clock ends a lock, and a waiting caller gets this lock', async () => {
    const server = new TestServer()
    await acquireCall(server)
    const waiting = acquireCall(server, { waitMs: 20_000 })
    server.advance(60_000)
    expect(await (await waiting).json()).toMatchObject({ locked: true, takenOver: true })
  })

  test('test server: a waiting caller can abort, and gets no lock afterwards', async () => {
    const server = new TestServer()
    await acquireCall(server)
    const controller = new AbortController()
    const waiting = acquireCall(server, { waitMs: 20_000 }, { signal: controller.signal })
    await Promise.resolve()
    controller.abort(new Error('given up'))
    expect(waiting).rejects.toThrow('given up')
    server.advance(60_000)
    expect(server.stateOf(valid)).toEqual({ kind: 'over' })
  })

  test.each<[string, object]>([
    [
      'an object of a class',
      new (class Context {
        method = 'GET'
      })(),
    ],
    ['a plain object', { remoteAddr: { hostname: '127.0.0.1' } }],
  ])(
    'test server: %s as a second argument after the request, as some servers pass, changes nothing',
    async (_what, context) => {
      const server = new TestServer()
      const headers = { Authorization: `Bearer ${server.apiKey}` }
      const init = { method: 'POST', headers, body: JSON.stringify(valid) }
      const response = await server.fetch(new Request(`${server.url}/v1/record`, init), context)
      expect(await response.json()).toMatchObject({ locked: true })
    },
  )

  test('test server: can be used as the handler of an HTTP server', async () => {
    const kit = new TestServer()
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: kit.fetch })
    const headers = { Authorization: `Bearer ${kit.apiKey}` }
    const url = new URL('/v1/record', server.url)
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(valid) })
    expect(await response.json()).toMatchObject({ locked: true })
    await server.stop(true)
  })
})
