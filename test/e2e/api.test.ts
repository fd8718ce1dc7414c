import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { startTestApi, testApiKey } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import {
  type ApiProcess,
  readiness,
  startApiProcess,
  startProcess,
  type TestProcess,
  waitersAre,
} from '#test/support/processes/api-process.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'

const startsMs = 60_000
const authorization = { Authorization: `Bearer ${testApiKey}` }

interface SentSpan {
  readonly traceId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
}

let database: TestDatabase
let env: Record<string, string>
let receiver: ReturnType<typeof startReceiver>
let api: ApiProcess
const own: TestProcess[] = []

beforeAll(async () => {
  database = await createMigratedDatabase()
  await seed(database.url)
  receiver = startReceiver()
  env = await environment(database.url)
  api = await startApiProcess({ ...env, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint })
}, startsMs)

afterEach(async () => {
  for (const each of own.splice(0)) {
    each.signal('SIGKILL')
    await each.exited
  }
})

afterAll(async () => {
  api.signal('SIGKILL')
  await api.exited
  await receiver.stop()
  await database.drop()
}, startsMs)

async function environment(databaseUrl: string): Promise<Record<string, string>> {
  return {
    LATCHKEY_DATABASE_URL: databaseUrl,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_LOG_LEVEL: 'debug',
  }
}

/** Applies the tests' tenant to a database, as the operator does. */
async function seed(databaseUrl: string): Promise<void> {
  const seeding = await startTestApi({ databaseUrl })
  await seeding.close()
}

/** Registers a process that ends with its test. */
function keep<T extends TestProcess>(started: T): T {
  own.push(started)
  return started
}

function startReceiver() {
  const spans: SentSpan[] = []
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      const { resourceSpans } = (await request.json()) as {
        resourceSpans: { scopeSpans: { spans: SentSpan[] }[] }[]
      }
      spans.push(...resourceSpans.flatMap((one) => one.scopeSpans.flatMap((two) => two.spans)))
      return Response.json({})
    },
  })
  return { endpoint: `http://127.0.0.1:${server.port}`, spans, stop: () => server.stop(true) }
}

function post(url: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${url}/v1/record`, {
    method: 'POST',
    headers: { ...authorization, ...headers },
    body: JSON.stringify(body),
  })
}

describe('api process', () => {
  test('api: becomes ready and responds to calls', async () => {
    expect(await readiness(api.opsUrl, 200)).toBe(200)
    const answer = await post(api.url, { scope: 'e2e', key: 'first' })
    expect(await answer.json()).toMatchObject({ cached: false, locked: true })
    expect(api.errors()).toBe('')
  })

  test.each(['/metrics', '/readyz', '/livez', '/', '/internal/v1/tenants', '/v1/record/../../metrics'])(
    'api: the public port serves only /v1, and not %s',
    async (path) => {
      const answer = await fetch(`${api.url}${path}`, { headers: authorization })
      expect(answer.status).toBe(404)
      expect(await answer.json()).toMatchObject({
        statusCode: 404,
        code: 'route_unknown',
        error: 'Not Found',
      })
    },
  )

  test.each(['/v1/record?scope=a&key=k', '/v1/openapi.json', '/'])(
    'api: the ops port does not serve the public path %s',
    async (path) => {
      expect((await fetch(`${api.opsUrl}${path}`, { headers: authorization })).status).toBe(404)
    },
  )

  test('api: the ops port serves /livez and /metrics', async () => {
    expect(await (await fetch(`${api.opsUrl}/livez`)).json()).toMatchObject({ ok: true })
    await post(api.url, {})
    const response = await fetch(`${api.opsUrl}/metrics`)
    expect(response.headers.get('content-type')).toStartWith('text/plain; version=0.0.4')
    const text = await response.text()
    const families = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`)
    for (const family of [
      'latchkey_build_info gauge',
      'latchkey_http_requests_total counter',
      'latchkey_http_request_duration_seconds histogram',
      'latchkey_records_epochs_lost_total counter',
      'latchkey_records_waiters_count gauge',
      'latchkey_storage_redis_connection_errors_total counter',
      'latchkey_tenants_directory_age_seconds gauge',
      'latchkey_tenants_directory_count gauge',
      'latchkey_tenants_directory_overfull_count gauge',
      'latchkey_usage_flush_failures_total counter',
      'process_resident_memory_bytes gauge',
    ]) {
      expect(families).toContain(family)
    }
    expect(text).toMatch(
      /^latchkey_http_requests_total\{method="POST",route="\/v1\/record",status="400",outcome="invalid_request"\} \d+$/m,
    )
    expect(text).toMatch(/^latchkey_tenants_directory_count 1$/m)
    expect(text).toMatch(/^latchkey_tenants_directory_overfull_count 0$/m)
  })

  test('api: exports spans that continue the caller’s trace', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const traceparent = `00-${traceId}-00f067aa0ba902b7-01`
    await post(api.url, { scope: 'e2e', key: 'traced' }, { traceparent })
    const span = await poll(() => receiver.spans.find((each) => each.traceId === traceId), {
      deadlineMs: 10_000,
    })
    expect(span).toMatchObject({ name: 'POST /v1/record', kind: 2, parentSpanId: '00f067aa0ba902b7' })
  })

  test(
    'api: exits if its port is in use',
    async () => {
      const taken = { public: new URL(api.url).port, ops: new URL(api.opsUrl).port }
      const second = keep(
        startProcess('api', { ...env, LATCHKEY_API_PORT: taken.public, LATCHKEY_OPS_PORT: '0' }),
      )
      const third = keep(
        startProcess('api', { ...env, LATCHKEY_API_PORT: '0', LATCHKEY_OPS_PORT: taken.ops }),
      )
      expect(await second.exited).toBe(1)
      expect((await second.logged('process could not start')).cause).toMatchObject({
        message: expect.stringContaining(`port ${taken.public}`),
        cause: { code: 'EADDRINUSE' },
      })
      expect(await third.exited).toBe(1)
      expect((await third.logged('process could not start')).cause).toMatchObject({
        message: expect.stringContaining(`port ${taken.ops}`),
        cause: { code: 'EADDRINUSE' },
      })
      expect((await post(api.url, { scope: 'e2e', key: 'still here' })).status).toBe(200)
    },
    startsMs,
  )
})

describe('invalid environment', () => {
  test.each<[string, 'api' | 'migrate', Record<string, string>, string]>([
    [
      'an unknown name',
      'api',
      { LATCHKEY_REDIS_URI: 'x' },
      'LATCHKEY_REDIS_URI is not a setting: did you mean LATCHKEY_REDIS_URL?',
    ],
    ['no database', 'api', { LATCHKEY_DATABASE_URL: '' }, 'LATCHKEY_DATABASE_URL is missing'],
    ['no database to migrate', 'migrate', { LATCHKEY_DATABASE_URL: '' }, 'LATCHKEY_DATABASE_URL is missing'],
    ['a malformed port', 'api', { LATCHKEY_API_PORT: 'tcp://10.0.0.1:80' }, 'LATCHKEY_API_PORT: expected'],
  ])(
    'invalid environment: %s ends the process with exit code 2 and the reason',
    async (_name, process, changes, reason) => {
      const started = keep(startProcess(process, { ...env, ...changes }))
      expect(await started.exited).toBe(2)
      expect(started.errors()).toContain(reason)
      expect(started.errors()).not.toMatch(/\n\s+at /)
      expect(started.output()).toBe('')
    },
    startsMs,
  )
})

describe('api process, migration', () => {
  test(
    'api: is not ready and returns 503 without a schema, and becomes ready after the migration without a restart',
    async () => {
      const empty = await createTestDatabase()
      const { opsUrl, url, ...started } = keep(await startApiProcess(await environment(empty.url)))
      expect(await readiness(opsUrl, 503)).toBe(503)
      const { checks } = (await (await fetch(`${opsUrl}/readyz`)).json()) as {
        checks: { name: string; ok: boolean }[]
      }
      expect(checks.find(({ name }) => name === 'schema')?.ok).toBe(false)
      expect((await fetch(`${opsUrl}/livez`)).status).toBe(200)
      const answer = await post(url, { scope: 'e2e', key: 'early' })
      expect(answer.status).toBe(503)
      expect(answer.headers.get('retry-after')).toBe('1')
      expect(await answer.json()).toMatchObject({ code: 'starting', statusCode: 503 })

      for (const times of ['first', 'again']) {
        const migrating = keep(startProcess('migrate', { LATCHKEY_DATABASE_URL: empty.url }))
        expect([times, await migrating.exited]).toEqual([times, 0])
        expect(migrating.output()).toContain('schema is up to date')
      }
      expect(await readiness(opsUrl, 200)).toBe(200)
      await seed(empty.url)
      const letIn = await poll(
        async () => ((await post(url, { scope: 'e2e', key: 'late' })).status === 200 ? true : undefined),
        { deadlineMs: 10_000 },
      )
      expect(letIn).toBe(true)
      started.signal('SIGTERM')
      expect(await started.exited).toBe(0)
      await empty.drop()
    },
    startsMs,
  )
})

describe('SIGTERM', () => {
  test(
    'api: on SIGTERM, a call that waits for a locked key gets a response immediately, and the exit code is 0',
    async () => {
      const { url, opsUrl, ...started } = keep(await startApiProcess(env))
      const address = { scope: 'e2e', key: 'held over the end' }
      await retried(() => post(url, address))
      const waiting = post(url, { ...address, waitMs: 25_000 })
      expect(await waitersAre(opsUrl, 1)).toBe(true)
      const startedMs = performance.now()
      started.signal('SIGTERM')
      const answer = await waiting
      expect(answer.status).toBe(200)
      expect(await answer.json()).toMatchObject({ cached: false, locked: false })
      expect(await started.exited).toBe(0)
      expect(performance.now() - startedMs).toBeLessThan(10_000)
      expect(started.lines('step was not closed in time')).toEqual([])
    },
    startsMs,
  )

  test(
    'api: on SIGTERM, finishes calls in progress, is not ready and accepts no new calls',
    async () => {
      const { url, opsUrl, ...started } = keep(await startApiProcess(env))
      await retried(() => post(url, { scope: 'e2e', key: 'before the end' }))
      const body = JSON.stringify({ scope: 'e2e', key: 'under way' })
      const slow = await sendHalf(url, body)
      started.signal('SIGTERM')
      await started.logged('process is ending')
      const health = await fetch(`${opsUrl}/readyz`)
      expect(health.status).toBe(503)
      expect(await health.text()).toContain('the process is shutting down')
      await expect(post(url, { scope: 'e2e', key: 'too late' })).rejects.toThrow()
      slow.finish()
      const answer = await slow.answer
      expect(answer).toStartWith('HTTP/1.1 200 OK\r\n')
      expect(answer).toContain('"locked":true')
      expect(await started.exited).toBe(0)
      expect(started.lines('step was not closed in time')).toEqual([])
    },
    startsMs,
  )

  test(
    'api: during the shutdown delay, is not ready but accepts calls, and then exits',
    async () => {
      const delayed = { ...env, LATCHKEY_SHUTDOWN_DELAY_SECONDS: '2' }
      const { url, opsUrl, ...started } = keep(await startApiProcess(delayed))
      await retried(() => post(url, { scope: 'e2e', key: 'before the delay' }))
      started.signal('SIGTERM')
      await started.logged('process is ending')
      expect((await fetch(`${opsUrl}/readyz`)).status).toBe(503)
      expect((await post(url, { scope: 'e2e', key: 'within the delay' })).status).toBe(200)
      expect(await started.exited).toBe(0)
      await expect(post(url, { scope: 'e2e', key: 'too late' })).rejects.toThrow()
      expect(started.lines('step was not closed in time')).toEqual([])
      const closed = started.lines('closed').find(({ step }) => step === 'api port')
      expect(closed?.['durationMs']).toBeGreaterThan(1990)
    },
    startsMs,
  )
})

/** Retries the first calls of a new process, which may precede its connection to Redis. */
async function retried(call: () => Promise<Response>): Promise<void> {
  const done = await poll(async () => ((await call()).status === 200 ? true : undefined), {
    deadlineMs: 10_000,
  })
  expect(done).toBe(true)
}

/** Sends a POST whose body stays half sent until `finish`; `answer` resolves when the connection closes. */
async function sendHalf(url: string, body: string) {
  const ended = Promise.withResolvers<string>()
  const begun = Promise.withResolvers<void>()
  let answer = ''
  const socket = await Bun.connect({
    hostname: 'localhost',
    port: Number(new URL(url).port),
    socket: {
      data: (_socket, chunk) => {
        answer += chunk.toString()
        if (answer.startsWith(goOn)) begun.resolve()
      },
      close: () => ended.resolve(answer.slice(goOn.length)),
    },
  })
  const head = [
    'POST /v1/record HTTP/1.1',
    'Host: localhost',
    `Authorization: ${authorization.Authorization}`,
    `Content-Length: ${body.length}`,
    // Makes the server send its first bytes when it starts to process the call.
    'Expect: 100-continue',
  ]
  const half = Math.floor(body.length / 2)
  socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, half)}`)
  await begun.promise
  return { answer: ended.promise, finish: () => void socket.write(body.slice(half)) }
}

const goOn = 'HTTP/1.1 100 Continue\r\n\r\n'

test('api process: the document shows configured limits and the public URL, and a ttl above the maximum of 3600 s is refused', async () => {
  const started = keep(
    await startApiProcess({
      ...env,
      IDEMPOTENCY_MAX_RECORD_TTL_SECONDS: '3600',
      IDEMPOTENCY_MAX_RECORD_BODY_BYTES: '1000',
      LATCHKEY_SIGNATURE_MAX_AGE_SECONDS: '60',
      LATCHKEY_PUBLIC_URL: 'https://hooks.example.com/',
    }),
  )
  const document = await (await fetch(`${started.url}/v1/openapi.json`)).text()
  expect(JSON.parse(document)).toMatchObject({
    servers: [{ url: 'https://hooks.example.com' }, { url: '/' }],
    components: { schemas: { CheckRequest: { properties: { ttlSeconds: { maximum: 3600 } } } } },
  })
  expect(document).toContain('At most 1000 bytes of JSON')
  expect(document).toContain('by up to 60 s')
  const statusOf = async (ttlSeconds: number) => {
    const body = JSON.stringify({ scope: 'limits', key: String(ttlSeconds), ttlSeconds })
    const headers = { ...authorization, 'Content-Type': 'application/json' }
    return (await fetch(`${started.url}/v1/record`, { method: 'POST', headers, body })).status
  }
  expect([await statusOf(3600), await statusOf(3601)]).toEqual([200, 400])
})
