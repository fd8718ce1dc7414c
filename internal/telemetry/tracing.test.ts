import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createTracing, formatTraceparent, parseTraceparent, type Tracing } from './tracing.ts'

interface SentSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: readonly { key: string; value: object }[]
  readonly status: { code: number; message?: string }
}

interface SentBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly { key: string; value: { stringValue: string } }[] }
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[]
  }[]
}

interface Received {
  readonly path: string
  readonly headers: Headers
  readonly body: SentBody
}

const servers: Bun.Server<undefined>[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(true)
})

/** A receiver of OTLP/HTTP on a free port; `answer` says with what it answers. */
function receiver(answer: () => Response | Promise<Response> = () => Response.json({})) {
  const received: Received[] = []
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      received.push({
        path: new URL(request.url).pathname,
        headers: request.headers,
        body: (await request.json()) as SentBody,
      })
      return answer()
    },
  })
  servers.push(server)
  return {
    endpoint: `http://127.0.0.1:${server.port}`,
    received,
    spans: () =>
      received.flatMap((each) =>
        each.body.resourceSpans.flatMap((one) => one.scopeSpans.flatMap((two) => two.spans)),
      ),
  }
}

function start(
  endpoint: string | undefined,
  more: { sampleRatio?: number; onLost?: (spans: number) => void } = {},
) {
  return createTracing({
    endpoint,
    headers: { authorization: 'Bearer otlp' },
    serviceName: 'latchkey-api',
    version: '1.2.3',
    ...more,
  })
}

const callerTrace = '0af7651916cd43dd8448eb211c80319c'
const callerSpan = 'b7ad6b7169203331'

test('tracing: exports parent, kind, attributes, status, service and headers of a span', async () => {
  const otlp = receiver()
  const tracing = await start(`${otlp.endpoint}/`)
  let outbound: string | undefined
  await tracing.span(
    'POST /v1/record',
    {
      kind: 'server',
      traceparent: `00-${callerTrace}-${callerSpan}-01`,
      attributes: { 'http.route': '/v1/record' },
    },
    async (span) => {
      span.set({ 'http.response.status_code': 503, replayed: false })
      await tracing.span('redis', { kind: 'client' }, async () => {
        outbound = tracing.traceparent()
      })
      span.fail('store_unavailable')
    },
  )
  await tracing.close(5000)
  const server = otlp.spans().find((span) => span.name === 'POST /v1/record')
  const client = otlp.spans().find((span) => span.name === 'redis')
  expect(otlp.spans()).toHaveLength(2)
  expect(server).toMatchObject({ traceId: callerTrace, parentSpanId: callerSpan, kind: 2 })
  expect(server?.status).toEqual({ code: 2, message: 'store_unavailable' })
  expect(server?.attributes).toEqual([
    { key: 'http.route', value: { stringValue: '/v1/record' } },
    { key: 'http.response.status_code', value: { intValue: 503 } },
    { key: 'replayed', value: { boolValue: false } },
  ])
  expect(client).toMatchObject({ traceId: callerTrace, parentSpanId: String(server?.spanId), kind: 3 })
  expect(outbound).toBe(`00-${callerTrace}-${client?.spanId}-01`)
  expect(otlp.received[0]?.path).toBe('/v1/traces')
  expect(otlp.received[0]?.headers.get('authorization')).toBe('Bearer otlp')
  expect(otlp.received[0]?.body.resourceSpans[0]?.resource.attributes).toContainEqual({
    key: 'service.name',
    value: { stringValue: 'latchkey-api' },
  })
})

test('tracing: exports spans soon after they end', async () => {
  const otlp = receiver()
  const tracing = await start(otlp.endpoint)
  await tracing.span('one', {}, async () => undefined)
  const deadlineMs = performance.now() + 5000
  while (otlp.spans().length === 0 && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  expect(otlp.spans()).toHaveLength(1)
  await tracing.close(1000)
})

test('tracing: concurrent spans keep their own parents', async () => {
  const otlp = receiver()
  const tracing = await start(otlp.endpoint)
  await Promise.all(
    ['a', 'b', 'c'].map((name) =>
      tracing.span(name, {}, async () => {
        await new Promise((resolve) => setImmediate(resolve))
        await tracing.span(`${name}-child`, {}, async () => undefined)
      }),
    ),
  )
  await tracing.close(5000)
  const byName = new Map(otlp.spans().map((span) => [span.name, span]))
  for (const name of ['a', 'b', 'c']) {
    expect(byName.get(`${name}-child`)?.parentSpanId).toBe(String(byName.get(name)?.spanId))
    expect(byName.get(name)?.parentSpanId).toBeUndefined()
  }
  expect(new Set(otlp.spans().map((span) => span.traceId)).size).toBe(3)
})

test('tracing: an error is rethrown, and its message is not exported', async () => {
  const otlp = receiver()
  const tracing = await start(otlp.endpoint)
  const failing = tracing.span('broken', {}, () => Promise.reject(new TypeError('password hunter2')))
  await expect(failing).rejects.toThrow('hunter2')
  await tracing.close(5000)
  expect(otlp.spans()[0]?.status).toEqual({ code: 2, message: 'TypeError' })
  expect(JSON.stringify(otlp.received)).not.toContain('hunter2')
})

describe('sampling', () => {
  test.each([
    ['exports a trace that the caller samples, even at sample ratio 0', 0, '01', 1],
    ['does not export a trace that the caller does not sample, even at sample ratio 1', 1, '00', 0],
  ])('tracing: %s', async (_case, sampleRatio, flags, expected) => {
    const otlp = receiver()
    const tracing = await start(otlp.endpoint, { sampleRatio })
    let outbound: string | undefined
    await tracing.span('x', { traceparent: `00-${callerTrace}-${callerSpan}-${flags}` }, async () => {
      outbound = tracing.traceparent()
    })
    await tracing.close(5000)
    expect(otlp.spans()).toHaveLength(expected)
    expect(outbound).toEndWith(`-${flags}`)
  })

  test('tracing: with sample ratio 0, no trace that starts in this process is exported', async () => {
    const otlp = receiver()
    const tracing = await start(otlp.endpoint, { sampleRatio: 0 })
    await tracing.span('x', {}, async () => undefined)
    await tracing.close(5000)
    expect(otlp.spans()).toEqual([])
  })
})

describe('a receiver', () => {
  test('tracing: a hanging receiver does not delay shutdown', async () => {
    const otlp = receiver(() => new Promise<Response>(() => undefined))
    const tracing = await start(otlp.endpoint)
    await tracing.span('x', {}, async () => undefined)
    const startedMs = performance.now()
    await tracing.close(100)
    expect(performance.now() - startedMs).toBeLessThan(2000)
  })

  test('tracing: a rejected export is reported with the number of lost spans', async () => {
    const otlp = receiver(() => new Response('no', { status: 400 }))
    const lost: number[] = []
    const tracing = await start(otlp.endpoint, { onLost: (spans) => lost.push(spans) })
    await tracing.span('x', {}, async () => undefined)
    await tracing.close(5000)
    expect(lost).toEqual([1])
  })

  test('tracing: a hanging receiver causes only limited memory use, and excess spans are dropped', async () => {
    let release: (response: Response) => void = () => undefined
    const hung = new Promise<Response>((resolve) => {
      release = resolve
    })
    let first = true
    const otlp = receiver(() => {
      if (!first) return Response.json({})
      first = false
      return hung
    })
    const tracing = await start(otlp.endpoint)
    for (let i = 0; i < 6000; i += 1) await tracing.span('x', {}, async () => undefined)
    release(Response.json({}))
    await tracing.close(5000)
    expect(otlp.spans().length).toBeGreaterThan(512)
    expect(otlp.spans().length).toBeLessThanOrEqual(4096 + 512)
  })
})

describe('without an endpoint', () => {
  let tracing: Tracing
  test('tracing without an endpoint: runs the work and returns no traceparent', async () => {
    tracing = await start(undefined)
    expect(tracing.enabled).toBe(false)
    const result = await tracing.span(
      'x',
      { traceparent: `00-${callerTrace}-${callerSpan}-01` },
      async (span) => {
        span.set({ a: 1 })
        span.fail('x')
        return tracing.traceparent() ?? 'none'
      },
    )
    expect(result).toBe('none')
    await tracing.close(1)
  })

  test('tracing without an endpoint: does not load the SDK', async () => {
    const index = JSON.stringify(new URL('index.ts', import.meta.url).pathname)
    const loaded = async (endpoint: string) => {
      const program = `import { createTracing } from ${index}
        await createTracing({ endpoint: ${endpoint}, headers: {}, serviceName: 's', version: 'v' })
        console.log(Object.keys(require.cache).some((path) => path.includes('sdk-trace')))`
      const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
      return (await new Response(child.stdout).text()).trim()
    }
    expect(await loaded('undefined')).toBe('false')
    expect(await loaded('"http://127.0.0.1:1"')).toBe('true')
  })
})

const trace = '0af7651916cd43dd8448eb211c80319c'
const span = 'b7ad6b7169203331'

test.each([
  ['sampled', `00-${trace}-${span}-01`, true],
  ['not sampled', `00-${trace}-${span}-00`, false],
  ['sampled, with other flags', `00-${trace}-${span}-03`, true],
  ['of a later version with more parts', `cc-${trace}-${span}-01-what-comes`, true],
])('traceparent: parses a header that is %s', (_case, header, sampled) => {
  expect(parseTraceparent(header)).toEqual({ traceId: trace, spanId: span, sampled })
})

test.each([
  ['no characters', ''],
  ['capital letters', `00-${trace.toUpperCase()}-${span}-01`],
  ['version ff', `ff-${trace}-${span}-01`],
  ['the trace id 0', `00-${'0'.repeat(32)}-${span}-01`],
  ['the span id 0', `00-${trace}-${'0'.repeat(16)}-01`],
  ['a short trace id', `00-${trace.slice(1)}-${span}-01`],
  ['version 00 with more parts', `00-${trace}-${span}-01-x`],
  ['no flags', `00-${trace}-${span}`],
  ['spaces', ` 00-${trace}-${span}-01`],
  ['more than 300 characters', `cc-${trace}-${span}-01-${'x'.repeat(300)}`],
])('traceparent: a header with %s starts a new trace', (_case, header) => {
  expect(parseTraceparent(header)).toBeUndefined()
})

test('traceparent: parsing a formatted header returns the original parts', () => {
  const hex = (length: number) =>
    fc
      .array(fc.constantFrom(...'0123456789abcdef'.split('')), { minLength: length, maxLength: length })
      .map((digits) => digits.join(''))
      .filter((text) => !/^0+$/.test(text))
  fc.assert(
    fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, sampled) => {
      const place = { traceId, spanId, sampled }
      expect(parseTraceparent(formatTraceparent(place))).toEqual(place)
    }),
  )
})
