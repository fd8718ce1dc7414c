import { afterEach, describe, expect, test } from 'bun:test'
import { createOutbound, type Outbound, type OutboundCall, type OutboundOptions } from './call.ts'
import { answering, eventually, listenRaw } from './fixtures/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const made: Outbound[] = []

afterEach(() => {
  for (const outbound of made.splice(0)) outbound.close()
})

/** Client that may call loopback; every name resolves to it. */
function caller(options: Partial<OutboundOptions> = {}) {
  const outbound = createOutbound({
    ports: 'any',
    cidrsMax: ['127.0.0.0/8'],
    resolve: async () => ['127.0.0.1'],
    ...options,
  })
  made.push(outbound)
  return (port: number, call: Partial<OutboundCall> = {}) =>
    outbound.send({
      url: `http://hooks.example:${port}/in`,
      allowedCIDRs: ['127.0.0.0/8'],
      headers: { 'content-type': 'application/json' },
      body: '{"id":"evt_1"}',
      timeoutMs: 5000,
      ...call,
    })
}

describe('request', () => {
  test('request: is a POST to the URL’s path and query, with the URL’s host name as Host and the given headers and body', async () => {
    let received = ''
    await using server = await listenRaw((socket) => {
      socket.on('data', (data) => {
        received += data.toString()
        if (received.includes('€')) socket.write(ok)
      })
    })
    const result = await caller()(server.port, {
      url: `http://hooks.example:${server.port}/in/box?a=b`,
      headers: { 'content-type': 'application/json', 'webhook-id': 'evt_1' },
      body: '{"sum":"1 €"}',
    })
    expect(result).toMatchObject({ kind: 'answered', status: 200, answer: 'ok', isAnswerCut: false })
    const [head = '', body] = received.split('\r\n\r\n')
    expect(head.split('\r\n')[0]).toBe('POST /in/box?a=b HTTP/1.1')
    expect(body).toBe('{"sum":"1 €"}')
    const headers = head.toLowerCase().split('\r\n').slice(1).sort()
    expect(headers).toEqual([
      'accept-encoding: identity',
      'connection: keep-alive',
      'content-length: 15',
      'content-type: application/json',
      `host: hooks.example:${server.port}`,
      'webhook-id: evt_1',
    ])
  })

  test('request: reuses an idle connection', async () => {
    await using server = await listenRaw(answering(ok))
    const call = caller()
    for (let count = 0; count < 5; count++) expect(await call(server.port)).toMatchObject({ status: 200 })
    expect(server.accepted()).toBe(1)
  })

  test('request: is repeated on a new connection if the server has closed the reused connection', async () => {
    await using server = await listenRaw((socket) => {
      let requests = 0
      socket.on('data', () => {
        requests += 1
        if (requests === 1) socket.write(ok)
        else socket.destroy()
      })
    })
    const call = caller()
    expect(await call(server.port)).toMatchObject({ status: 200 })
    expect(await call(server.port)).toMatchObject({ status: 200 })
    expect(server.accepted()).toBe(2)
    await eventually('no connection', () => server.open() === 0)
  })

  test('request: is not repeated if a new connection breaks', async () => {
    await using server = await listenRaw((socket) => socket.on('data', () => socket.destroy()))
    expect(await caller()(server.port)).toMatchObject({ kind: 'failed', cause: 'reset' })
    expect(server.accepted()).toBe(1)
  })

  test('request: is sent to the validated address even if the name later resolves to another one', async () => {
    await using server = await listenRaw(answering(ok))
    const answers = [['127.0.0.1'], ['169.254.169.254'], ['127.0.0.2']]
    let asked = 0
    const call = caller({ resolve: async () => answers[asked++] ?? [] })
    expect(await call(server.port)).toMatchObject({ status: 200 })
    expect(asked).toBe(1)
    const other = caller({ resolve: async () => answers[asked++] ?? [] })
    expect(await other(server.port)).toMatchObject({ cause: 'address_refused' })
    expect(server.accepted()).toBe(1)
  })

  test('request: is sent to the next address if the first address refuses the connection', async () => {
    await using server = await listenRaw(answering(ok))
    const call = caller({ resolve: async () => ['127.0.0.2', '127.0.0.3', '127.0.0.1'] })
    expect(await call(server.port)).toMatchObject({ status: 200 })
  })

  test('request: is not delayed by 400 other requests that hang', async () => {
    await using silent = await listenRaw(() => {})
    await using server = await listenRaw(answering(ok))
    const call = caller()
    const stop = new AbortController()
    const held = Array.from({ length: 400 }, () => call(silent.port, { signal: stop.signal }))
    await eventually('400 connections', () => silent.open() === 400)
    const result = await call(server.port)
    expect(result).toMatchObject({ status: 200 })
    expect(result.durationMs).toBeLessThan(2000)
    stop.abort()
    const causes = await Promise.all(held)
    expect(causes.every((each) => each.kind === 'failed' && each.cause === 'aborted')).toBe(true)
    await eventually('no connection', () => silent.open() === 0)
  })
})

describe('answer', () => {
  test.each([301, 302, 303, 307, 308])(
    'response: a redirect with status %d is not followed',
    async (status) => {
      await using elsewhere = await listenRaw(answering(ok))
      await using server = await listenRaw(
        answering(
          `HTTP/1.1 ${status} Go\r\nLocation: http://127.0.0.1:${elsewhere.port}/\r\nContent-Length: 0\r\n\r\n`,
        ),
      )
      expect(await caller()(server.port)).toMatchObject({ kind: 'answered', status })
      expect(elsewhere.accepted()).toBe(0)
    },
  )

  test('response: of the response headers, only Retry-After, Webhook-Delivery and Content-Type are kept', async () => {
    await using server = await listenRaw(
      answering(
        'HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nWebhook-Delivery: disable\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n',
      ),
    )
    const result = await caller()(server.port)
    expect(result.kind === 'answered' && result.headers).toEqual({
      retryAfter: '120',
      webhookDelivery: 'disable',
      contentType: 'text/plain',
    })
  })

  test('response: a body of exactly 16 KiB is returned whole, and the connection is reused', async () => {
    await using server = await listenRaw(
      answering(`HTTP/1.1 200 OK\r\nContent-Length: 16384\r\n\r\n${'é'.repeat(8192)}`),
    )
    const call = caller()
    for (let count = 0; count < 2; count++) {
      expect(await call(server.port)).toMatchObject({ answer: 'é'.repeat(8192), isAnswerCut: false })
    }
    expect(server.accepted()).toBe(1)
  })

  test('response: an endless body is cut after 16 KiB, and the connection is closed', async () => {
    await using server = await listenRaw((socket) => {
      const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
      const pour = () => {
        while (!socket.destroyed && socket.write(chunk));
      }
      socket.on('drain', pour)
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        pour()
      })
    })
    const call = caller()
    for (let count = 0; count < 10; count++) {
      expect(await call(server.port)).toMatchObject({
        kind: 'answered',
        answer: 'x'.repeat(16_384),
        isAnswerCut: true,
      })
    }
    await eventually('no connection', () => server.open() === 0)
  })

  test('response: invalid UTF-8 and NUL become U+FFFD', async () => {
    await using server = await listenRaw((socket) =>
      socket.on('data', () =>
        socket.write(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na\xff\0b\xe2', 'latin1')),
      ),
    )
    expect(await caller()(server.port)).toMatchObject({ answer: 'a\uFFFD\uFFFDb\uFFFD' })
  })

  test('response: a body without a declared length ends when the connection ends', async () => {
    await using server = await listenRaw((socket) =>
      socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\n\r\nuntil the end')),
    )
    expect(await caller()(server.port)).toMatchObject({ kind: 'answered', answer: 'until the end' })
  })

  test('response: interim responses (1xx) are skipped', async () => {
    await using server = await listenRaw(answering(`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${ok}`))
    expect(await caller()(server.port)).toMatchObject({ status: 200, answer: 'ok' })
  })
})

describe('failed call', () => {
  test('failed call: a callback that never responds causes `timeout`', async () => {
    await using server = await listenRaw(() => {})
    const result = await caller()(server.port, { timeoutMs: 50 })
    expect(result).toMatchObject({ kind: 'failed', cause: 'timeout' })
    expect(result.durationMs).toBeGreaterThanOrEqual(45)
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: a body that arrives too slowly for the time limit causes `timeout`', async () => {
    await using server = await listenRaw((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
        const drip = setInterval(() => socket.write('x'), 5)
        socket.on('close', () => clearInterval(drip))
      })
    })
    const result = await caller()(server.port, { timeoutMs: 100 })
    expect(result).toMatchObject({ kind: 'failed', cause: 'timeout' })
    expect(result.kind === 'failed' && result.message).toContain('status 200')
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: a closed port causes `connect_failed`', async () => {
    const server = await listenRaw(() => {})
    await server[Symbol.asyncDispose]()
    expect(await caller()(server.port)).toMatchObject({ cause: 'connect_failed' })
  })

  test('failed call: an unfinished TLS handshake causes `connect_timeout`', async () => {
    await using server = await listenRaw(() => {})
    const result = await caller({ connectMs: 50 })(server.port, {
      url: `https://hooks.example:${server.port}/`,
    })
    expect(result).toMatchObject({ cause: 'connect_timeout' })
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: a name without an address causes `dns_failed`', async () => {
    const call = caller({ resolve: () => Promise.reject(new Error('ENOTFOUND')) })
    expect(await call(8080)).toMatchObject({ cause: 'dns_failed' })
  })

  test('failed call: a name server that never replies causes `dns_failed`', async () => {
    const call = caller({ resolve: () => new Promise(() => {}), connectMs: 20 })
    expect(await call(8080)).toMatchObject({ cause: 'dns_failed' })
  })

  test.each([
    ['a connection closed before the answer', '', 'reset'],
    ['a connection closed within the head', 'HTTP/1.1 200 OK\r\nContent-', 'reset'],
    ['a connection closed within the body', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc', 'reset'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n', 'protocol_error'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', 'protocol_error'],
    ['a malformed chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 'protocol_error'],
    ['a protocol switch', 'HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n', 'protocol_error'],
    [
      'a head over 16 KiB',
      `HTTP/1.1 200 OK\r\n${`X: ${'y'.repeat(1000)}\r\n`.repeat(20)}\r\n`,
      'protocol_error',
    ],
  ])('failed call: %s fails the call, and the connection is closed', async (_case, bytes, cause) => {
    await using server = await listenRaw((socket) => socket.on('data', () => socket.end(bytes)))
    expect(await caller()(server.port)).toMatchObject({ kind: 'failed', cause })
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: endless headers cause `protocol_error`', async () => {
    await using server = await listenRaw((socket) => {
      const pour = () => {
        while (!socket.destroyed && socket.write(`X: ${'y'.repeat(1000)}\r\n`));
      }
      socket.on('drain', pour)
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n')
        pour()
      })
    })
    expect(await caller()(server.port)).toMatchObject({ cause: 'protocol_error' })
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: an abort by the caller causes `aborted`', async () => {
    await using server = await listenRaw(() => {})
    const stop = new AbortController()
    const pending = caller()(server.port, { signal: stop.signal })
    await eventually('a connection', () => server.open() === 1)
    stop.abort()
    expect(await pending).toMatchObject({ cause: 'aborted' })
    expect(await caller()(server.port, { signal: stop.signal })).toMatchObject({ cause: 'aborted' })
    expect(server.accepted()).toBe(1)
  })

  test('failed call: an abort during name resolution or TLS handshake causes `aborted`', async () => {
    await using server = await listenRaw(() => {})
    const stop = new AbortController()
    const resolving = Promise.withResolvers<readonly string[]>()
    const call = caller({ resolve: () => resolving.promise })(server.port, { signal: stop.signal })
    stop.abort()
    resolving.resolve(['127.0.0.1'])
    expect(await call).toMatchObject({ cause: 'aborted' })
    expect(server.accepted()).toBe(0)

    const later = new AbortController()
    const url = `https://hooks.example:${server.port}/`
    const pending = caller({ connectMs: 300 })(server.port, { url, signal: later.signal })
    await eventually('a connection', () => server.open() === 1)
    later.abort()
    expect(await pending).toMatchObject({ cause: 'aborted' })
    await eventually('no connection', () => server.open() === 0)
  })

  test('failed call: an invalid header causes `protocol_error`, and the request is not sent', async () => {
    await using server = await listenRaw(answering(ok))
    const result = await caller()(server.port, { headers: { 'x-a': 'b\r\nhost: internal' } })
    expect(result).toMatchObject({ kind: 'failed', cause: 'protocol_error' })
    expect(server.accepted()).toBe(0)
  })

  test('failed call: the message contains no part of the body or the headers', async () => {
    await using server = await listenRaw((socket) =>
      socket.on('data', () => socket.end('secret-of-theirs\r\n')),
    )
    const result = await caller()(server.port, {
      headers: { 'x-a': 'secret-of-ours' },
      body: 'secret-of-ours',
    })
    expect(JSON.stringify(result)).not.toContain('secret')
  })
})

test('client: close() closes idle connections', async () => {
  await using server = await listenRaw(answering(ok))
  const call = caller()
  await Promise.all(Array.from({ length: 8 }, () => call(server.port)))
  expect(server.open()).toBeGreaterThan(0)
  for (const outbound of made.splice(0)) outbound.close()
  await eventually('no connection', () => server.open() === 0)
})
