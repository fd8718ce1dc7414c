import { afterEach, expect, test } from 'bun:test'
import { type CallResult, createOutbound, type Outbound, type OutboundOptions } from './call.ts'
import { answering, eventually, listenRaw, testCa } from './fixtures/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const made: Outbound[] = []

afterEach(() => {
  for (const outbound of made.splice(0)) outbound.close()
})

/** Client that may call loopback; every name resolves to it after `dnsMs`. */
function caller({ dnsMs = 0, ...options }: Partial<OutboundOptions> & { dnsMs?: number } = {}) {
  const resolve = async () => {
    await Bun.sleep(dnsMs)
    return ['127.0.0.1']
  }
  const outbound = createOutbound({
    ports: 'any',
    cidrsMax: ['127.0.0.0/8'],
    ca: testCa,
    resolve,
    ...options,
  })
  made.push(outbound)
  return (url: string, timeoutMs = 5_000): Promise<CallResult> =>
    outbound.send({ url, allowedCIDRs: ['127.0.0.0/8'], headers: {}, body: '{}', timeoutMs })
}

/** Answers each request with these bytes. */
async function receivedHeaders(head: string | Buffer) {
  await using server = await listenRaw((socket) => socket.on('data', () => socket.write(head)))
  const result = await caller()(`http://hooks.example:${server.port}/`)
  if (result.kind !== 'answered') throw new Error(result.message)
  return result.receivedHeaders
}

test('trace: a call over TLS records the address and the duration of each step, and the steps do not exceed the total duration', async () => {
  const slowMs = 120
  await using server = await listenRaw((socket) => {
    socket.on('data', () => void setTimeout(() => socket.write(ok), slowMs))
  }, true)
  const { trace, durationMs } = await caller({ dnsMs: 40 })(`https://hooks.example:${server.port}/`)
  const { dnsMs = 0, connectMs = 0, tlsMs = 0, firstByteMs = 0, ...rest } = trace
  expect(rest).toEqual({ address: '127.0.0.1', isReused: false })
  // Timers of the runtime can fire up to 1 ms early.
  expect(dnsMs).toBeGreaterThanOrEqual(39)
  expect(connectMs).toBeGreaterThan(0)
  expect(tlsMs).toBeGreaterThan(0)
  expect(firstByteMs).toBeGreaterThanOrEqual(slowMs - 1)
  expect(dnsMs + connectMs + tlsMs + firstByteMs).toBeLessThanOrEqual(durationMs)
})

test('trace: a call on a reused connection has no durations for connecting and TLS', async () => {
  await using server = await listenRaw(answering(ok), true)
  const call = caller()
  const first = await call(`https://hooks.example:${server.port}/`)
  const second = await call(`https://hooks.example:${server.port}/`)
  expect(server.accepted()).toBe(1)
  expect([first.trace.isReused, second.trace.isReused]).toEqual([false, true])
  expect(second.trace).toMatchObject({ connectMs: undefined, tlsMs: undefined, address: '127.0.0.1' })
  expect(second.trace.dnsMs).toBeLessThan(5)
  expect(second.trace.firstByteMs).toBeGreaterThan(0)
})

test('trace: a request that is repeated on a new connection has only the connect duration of the new connection', async () => {
  const staleAfterMs = 200
  await using server = await listenRaw((socket) => {
    let requests = 0
    socket.on('data', () => {
      requests += 1
      if (requests === 1) socket.write(ok)
      else setTimeout(() => socket.destroy(), staleAfterMs)
    })
  })
  const call = caller()
  await call(`http://hooks.example:${server.port}/`)
  const { trace } = await call(`http://hooks.example:${server.port}/`)
  expect(trace.isReused).toBe(false)
  expect(trace.connectMs).toBeGreaterThan(0)
  // The connect duration excludes the time until the first connection turned out to be stale.
  expect(trace.connectMs).toBeLessThan(staleAfterMs)
  expect(server.accepted()).toBe(2)
})

test('trace: a call to a URL with an IP address has no DNS duration', async () => {
  await using server = await listenRaw(answering(ok))
  const { trace } = await caller()(`http://127.0.0.1:${server.port}/`)
  expect(trace.dnsMs).toBeUndefined()
  expect(trace.connectMs).toBeGreaterThan(0)
})

test('trace: a failed call contains the steps that ended before the failure', async () => {
  await using silent = await listenRaw(() => {})
  await using plain = await listenRaw(answering(ok))
  const late = await caller()(`http://hooks.example:${silent.port}/`, 150)
  expect(late).toMatchObject({ cause: 'timeout', trace: { firstByteMs: undefined, tlsMs: undefined } })
  expect(late.trace.connectMs).toBeGreaterThan(0)
  const untrusted = await caller()(`https://hooks.example:${plain.port}/`)
  expect(untrusted).toMatchObject({ cause: 'tls_failed', trace: { address: '127.0.0.1', tlsMs: undefined } })
  expect(untrusted.trace.connectMs).toBeGreaterThan(0)
  const closed = await listenRaw(() => {})
  await closed[Symbol.asyncDispose]()
  const refused = await caller()(`http://hooks.example:${closed.port}/`)
  expect(refused).toMatchObject({ cause: 'connect_failed', trace: { connectMs: undefined } })
  const unresolved = await caller({ resolve: async () => [] })('https://hooks.example/')
  expect(unresolved).toMatchObject({ cause: 'dns_failed', trace: { isReused: false } })
  expect(unresolved.trace.address).toBeUndefined()
  const refusedAddress = await caller({ resolve: async () => ['10.0.0.7'] })('https://hooks.example/')
  expect(refusedAddress.trace).toEqual({ isReused: false, dnsMs: expect.any(Number) as number })
  await eventually('no connection', () => silent.open() === 0)
})

test('received headers: order and repeated names are kept, and whitespace around values is removed', async () => {
  const head =
    'HTTP/1.1 200 OK\r\nX-B:  two \r\nSet-Cookie: a=1\r\nX-A: 1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n'
  expect(await receivedHeaders(head)).toEqual({
    lines: [
      ['x-b', 'two'],
      ['set-cookie', 'a=1'],
      ['x-a', '1'],
      ['set-cookie', 'b=2'],
      ['content-length', '0'],
    ],
    omitted: 0,
  })
})

test('received headers: at most 32 headers are kept, and the others are counted', async () => {
  const many = Array.from({ length: 50 }, (_none, n) => `x-${n}: v\r\n`).join('')
  const { lines, omitted } = await receivedHeaders(`HTTP/1.1 204 None\r\n${many}\r\n`)
  expect(lines).toHaveLength(32)
  expect(lines.at(-1)).toEqual(['x-31', 'v'])
  expect(omitted).toBe(18)
})

test('received headers: a header that would exceed 4096 characters in total is omitted completely', async () => {
  const head = `HTTP/1.1 204 None\r\nx-a: ${'a'.repeat(2_000)}\r\nx-b: ${'b'.repeat(3_000)}\r\nx-c: c\r\n\r\n`
  const { lines, omitted } = await receivedHeaders(head)
  expect(lines.map(([name]) => name)).toEqual(['x-a', 'x-c'])
  expect(omitted).toBe(1)
})

test('received headers: non-ASCII bytes are decoded as UTF-8 if they are valid UTF-8, and as Latin-1 otherwise', async () => {
  const head = Buffer.concat([
    Buffer.from('HTTP/1.1 204 None\r\nx-utf8: 5 €\r\nx-latin: caf', 'utf8'),
    Buffer.from([0xe9]),
    Buffer.from('\r\n\r\n'),
  ])
  expect(await receivedHeaders(head)).toMatchObject({
    lines: [
      ['x-utf8', '5 €'],
      ['x-latin', 'café'],
    ],
  })
})
