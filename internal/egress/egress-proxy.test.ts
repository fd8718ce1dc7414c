import { afterEach, describe, expect, test } from 'bun:test'
import net from 'node:net'
import { createOutbound, type Outbound } from './call.ts'
import { answering, eventually, listenRaw, type RawServer, testCa } from './fixtures/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const made: Outbound[] = []

afterEach(() => {
  for (const outbound of made.splice(0)) outbound.close()
})

/** Calls by any name, which leads to 127.0.0.1, through a proxy. */
function caller(egressProxy: string) {
  const outbound = createOutbound({
    ports: 'any',
    cidrsMax: ['127.0.0.0/8'],
    ca: testCa,
    egressProxy,
    resolve: async () => ['127.0.0.1'],
  })
  made.push(outbound)
  return (url: string) =>
    outbound.send({ url, allowedCIDRs: ['127.0.0.0/8'], headers: {}, body: '{}', timeoutMs: 2000 })
}

/** A proxy that connects wherever it is asked to, and notes what it was asked. */
async function listenProxy(asked: string[], overTls = false): Promise<RawServer> {
  return listenRaw((client) => {
    client.once('data', (data) => {
      asked.push(data.toString())
      const [, host = '', port = ''] = /^CONNECT ([\d.]+):(\d+) HTTP/.exec(data.toString()) ?? []
      const upstream = net.connect(Number(port), host, () => {
        client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
        upstream.pipe(client)
        client.pipe(upstream)
      })
      upstream.on('error', () => client.destroy())
      client.on('close', () => upstream.destroy())
    })
  }, overTls)
}

describe('egress proxy', () => {
  test('egress proxy: an https call is tunnelled to the validated address, and the certificate is verified for the host name', async () => {
    const asked: string[] = []
    await using proxy = await listenProxy(asked)
    await using server = await listenRaw(answering(ok), true)
    const call = caller(`http://127.0.0.1:${proxy.port}`)
    expect(await call(`https://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    expect(await call(`https://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    expect(asked.length).toBe(1)
    expect(asked[0]).toStartWith(`CONNECT 127.0.0.1:${server.port} HTTP/1.1\r\n`)
    expect(asked[0]).not.toContain('hooks.example')
    expect(await call(`https://bank.example:${server.port}/`)).toMatchObject({ cause: 'tls_failed' })
  })

  test('egress proxy: a plain http call is also tunnelled, with the host name as Host', async () => {
    const asked: string[] = []
    let received = ''
    await using proxy = await listenProxy(asked)
    await using server = await listenRaw((socket) => {
      socket.on('data', (data) => {
        received += data.toString()
        socket.write(ok)
      })
    })
    const call = caller(`http://127.0.0.1:${proxy.port}`)
    expect(await call(`http://hooks.example:${server.port}/in`)).toMatchObject({ status: 200 })
    expect(asked[0]).toStartWith(`CONNECT 127.0.0.1:${server.port} HTTP/1.1\r\n`)
    expect(received).toContain('POST /in HTTP/1.1\r\n')
    expect(received.toLowerCase()).toContain(`host: hooks.example:${server.port}\r\n`)
  })

  test('egress proxy: a proxy that requires TLS is supported', async () => {
    const asked: string[] = []
    await using proxy = await listenProxy(asked, true)
    await using server = await listenRaw(answering(ok), true)
    const call = caller(`https://127.0.0.1:${proxy.port}`)
    expect(await call(`https://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    expect(asked.length).toBe(1)
  })

  test('egress proxy: credentials are sent only to the proxy', async () => {
    const asked: string[] = []
    let received = ''
    await using proxy = await listenProxy(asked)
    await using server = await listenRaw((socket) => {
      socket.on('data', (data) => {
        received += data.toString()
        socket.write(ok)
      })
    })
    const call = caller(`http://lk:p%40ss@127.0.0.1:${proxy.port}`)
    expect(await call(`http://hooks.example:${server.port}/`)).toMatchObject({ status: 200 })
    const credentials = Buffer.from('lk:p@ss').toString('base64')
    expect(asked[0]?.toLowerCase()).toContain(`proxy-authorization: basic ${credentials.toLowerCase()}\r\n`)
    expect(received.toLowerCase()).not.toContain('proxy-authorization')
  })

  test('egress proxy: a call to a refused address does not reach the proxy', async () => {
    const asked: string[] = []
    await using proxy = await listenProxy(asked)
    const call = caller(`http://127.0.0.1:${proxy.port}`)
    expect(await call('https://10.0.0.1/')).toMatchObject({ cause: 'address_refused' })
    expect(proxy.accepted()).toBe(0)
  })

  test.each([
    ['refuses', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n'],
    ['demands authentication', 'HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n'],
    ['sends bytes before the tunnel is used', `HTTP/1.1 200 Fine\r\n\r\n${ok}`],
    ['speaks another protocol', 'SSH-2.0-OpenSSH\r\n'],
    ['closes the connection', ''],
  ])('egress proxy: a proxy that %s causes `proxy_failed`', async (_case, answer) => {
    await using proxy = await listenRaw((socket) => socket.once('data', () => socket.end(answer)))
    const result = await caller(`http://lk:secret@127.0.0.1:${proxy.port}`)('https://hooks.example/')
    expect(result).toMatchObject({ kind: 'failed', cause: 'proxy_failed' })
    expect(JSON.stringify(result)).not.toContain('secret')
    await eventually('no connection', () => proxy.open() === 0)
  })

  test('egress proxy: a closed port of the proxy causes `proxy_failed`', async () => {
    const proxy = await listenRaw(() => {})
    await proxy[Symbol.asyncDispose]()
    const call = caller(`http://127.0.0.1:${proxy.port}`)
    expect(await call('https://hooks.example/')).toMatchObject({ cause: 'proxy_failed' })
  })
})
