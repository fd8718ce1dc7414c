import { afterEach, describe, expect, test } from 'bun:test'
import { createOutbound, type Outbound } from './call.ts'
import { Connections } from './connections.ts'
import { answering, eventually, listenRaw, testCa } from './fixtures/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const made: Outbound[] = []

afterEach(() => {
  for (const outbound of made.splice(0)) outbound.close()
})

/** Calls loopback by any name. */
function caller(ca?: string) {
  const outbound = createOutbound({
    cidrsMax: ['127.0.0.0/8'],
    ports: 'any',
    ca,
    resolve: async () => ['127.0.0.1'],
  })
  made.push(outbound)
  return (url: string) =>
    outbound.send({ url, allowedCIDRs: ['127.0.0.0/8'], headers: {}, body: '{}', timeoutMs: 5000 })
}

describe('TLS', () => {
  test('TLS: a call to the validated address accepts the certificate of the host name', async () => {
    await using server = await listenRaw(answering(ok), true)
    const call = caller(testCa)
    expect(await call(`https://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    expect(await call(`https://hooks.example.:${server.port}/`)).toMatchObject({ status: 200 })
    expect(await call(`https://127.0.0.1:${server.port}/`)).toMatchObject({ status: 200 })
  })

  test('TLS: a connection is reused only for the same host name', async () => {
    await using server = await listenRaw(answering(ok), true)
    const call = caller(testCa)
    await call(`https://hooks.example:${server.port}/`)
    await call(`https://hooks.example:${server.port}/`)
    expect(server.accepted()).toBe(1)
    expect(await call(`https://other.example:${server.port}/`)).toMatchObject({ status: 200 })
    expect(server.accepted()).toBe(2)
  })

  test.each([
    ['plain HTTP', undefined],
    ['TLS', 'hooks.example'],
  ])('idle connection: a connection over %s is not reused for another address', async (_case, tlsName) => {
    await using server = await listenRaw(() => {}, tlsName !== undefined)
    const connections = new Connections({ egressProxy: undefined, ca: testCa })
    const endpoint = { address: '127.0.0.1', port: server.port, tlsName }
    const connection = await connections.open(endpoint, 5000)
    try {
      connections.keep(endpoint, connection)
      expect(connections.takeIdle({ ...endpoint, address: '127.0.0.2' })).toBeUndefined()
      expect(connections.takeIdle(endpoint)).toBe(connection)
    } finally {
      connection.close()
      connections.close()
    }
  })

  test('TLS: another host name at the same address is refused, even immediately after a successful call', async () => {
    let requests = 0
    await using server = await listenRaw((socket) => {
      socket.on('data', () => {
        requests += 1
        socket.write(ok)
      })
    }, true)
    const call = caller(testCa)
    expect(await call(`https://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    const result = await call(`https://bank.example:${server.port}/`)
    expect(result).toMatchObject({ kind: 'failed', cause: 'tls_failed' })
    expect(result.kind === 'failed' && result.message).toContain('ERR_TLS_CERT_ALTNAME_INVALID')
    expect(requests).toBe(1)
  })

  test('TLS: a certificate of an untrusted CA is refused', async () => {
    await using server = await listenRaw(answering(ok), true)
    expect(await caller()(`https://hooks.example:${server.port}/`)).toMatchObject({ cause: 'tls_failed' })
    await eventually('no connection', () => server.open() === 0)
  })

  test('TLS: a server without TLS is refused', async () => {
    await using server = await listenRaw(answering(ok))
    expect(await caller(testCa)(`https://hooks.example:${server.port}/`)).toMatchObject({
      cause: 'tls_failed',
    })
  })

  test('TLS: a connection closed during the handshake causes `tls_failed`', async () => {
    await using server = await listenRaw((socket) => socket.once('data', () => socket.end()))
    expect(await caller(testCa)(`https://hooks.example:${server.port}/`)).toMatchObject({
      cause: 'tls_failed',
    })
  })
})

describe('environment', () => {
  /** Makes one call in a process with this environment and returns its result. */
  async function callFromChild(
    env: Record<string, string>,
    url: string,
    trust?: 'trusting',
  ): Promise<unknown> {
    const options = {
      ports: 'any',
      cidrsMax: ['127.0.0.0/8'],
      ...(trust && { ca: testCa }),
    }
    const call = { url, allowedCIDRs: ['127.0.0.0/8'], headers: {}, body: '{}', timeoutMs: 5000 }
    const script = `
      import { createOutbound } from ${JSON.stringify(new URL('call.ts', import.meta.url).pathname)}
      const resolve = async () => ['127.0.0.1']
      const outbound = createOutbound({ ...${JSON.stringify(options)}, resolve })
      const result = await outbound.send(${JSON.stringify(call)})
      outbound.close()
      process.stdout.write(JSON.stringify(result))`
    const child = Bun.spawn([process.execPath, '-e', script], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
    expect(await child.exited, err).toBe(0)
    return JSON.parse(out)
  }

  test('environment: a call ignores the proxy variables of the environment', async () => {
    await using proxy = await listenRaw((socket) =>
      socket.on('data', () => socket.end('HTTP/1.1 502 Proxied\r\nContent-Length: 0\r\n\r\n')),
    )
    await using plain = await listenRaw(answering(ok))
    await using secure = await listenRaw(answering(ok), true)
    const at = `http://127.0.0.1:${proxy.port}`
    const env = {
      HTTP_PROXY: at,
      http_proxy: at,
      HTTPS_PROXY: at,
      https_proxy: at,
      ALL_PROXY: at,
      all_proxy: at,
      NODE_USE_ENV_PROXY: '1',
    }
    expect(await callFromChild(env, `http://hooks.example:${plain.port}/`)).toMatchObject({ status: 200 })
    expect(await callFromChild(env, `https://hooks.example:${secure.port}/`, 'trusting')).toMatchObject({
      status: 200,
    })
    expect(proxy.accepted()).toBe(0)
  })

  test('environment: NODE_TLS_REJECT_UNAUTHORIZED does not disable certificate verification', async () => {
    await using secure = await listenRaw(answering(ok), true)
    const url = `https://hooks.example:${secure.port}/`
    const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' }
    expect(await callFromChild(env, url)).toMatchObject({ cause: 'tls_failed' })
    expect(await callFromChild(env, url.replace('hooks', 'bank'), 'trusting')).toMatchObject({
      cause: 'tls_failed',
    })
  })
})
