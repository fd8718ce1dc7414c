import { afterEach, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { startTcpProxy } from '#test/faults/tcp-proxy.ts'
import {
  type FakeServerOptions,
  openFakeWatch,
  type SeenRequest,
  startFakeApiServer,
} from '#test/support/tenants/fake-api-server.ts'
import { until } from '#test/support/until.ts'
import type { Credentials } from './endpoint.ts'
import { expectOk } from './failure.ts'
import { WatchPool, watchBounds } from './watch-pool.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

interface Setting {
  readonly server?: FakeServerOptions
  readonly bounds?: Partial<typeof watchBounds>
  readonly answer?: (request: SeenRequest) => Response | Promise<Response>
}

/** A pool before a server whose watches stay open, unless it answers otherwise. */
function start({ server: options, bounds, answer }: Setting = {}) {
  const watches: ReturnType<typeof openFakeWatch>[] = []
  const server = startFakeApiServer((request) => {
    if (answer) return answer(request)
    const watch = openFakeWatch()
    watches.push(watch)
    return watch.response
  }, options)
  closing.push(server.stop)
  const poolFor = (change: Partial<Credentials> = {}, address = server.endpoint.server) =>
    new WatchPool({
      endpoint: {
        ...server.endpoint,
        server: address,
        credentials: async () => ({ ...(await server.endpoint.credentials()), ...change }),
      },
      userAgent: 'latchkey-test/1',
      bounds: { ...watchBounds, ...bounds },
    })
  return { server, watches, poolFor, pool: poolFor() }
}

const never = new AbortController().signal
const open = (pool: WatchPool, path = '/w') => pool.open({ path }, never)
const openOk = async (pool: WatchPool, path = '/w') => expectOk('opening', await open(pool, path))

test('watch pool: a connection that allows 10 streams carries 6 watches, and closes after its last watch', async () => {
  const { server, pool } = start({ server: { streamsMax: 10 } })
  const streams = await Promise.all(Array.from({ length: 60 }, (_none, nth) => openOk(pool, `/w/${nth}`)))
  expect(pool.stats()).toEqual({ watches: 60, connections: 10 })
  expect(server.connections()).toBe(10)
  expect(new Set(server.seen.map(({ path }) => path)).size).toBe(60)
  await Promise.all(streams.map((stream) => stream.close()))
  expect(pool.stats().watches).toBe(0)
  await until(() => server.connections() === 0)
})

test('watch pool: a watch beyond watchesMax fails as exhausted immediately, and opens after another watch is closed', async () => {
  const { server, pool } = start({ bounds: { watchesMax: 3 } })
  const streams = await Promise.all([1, 2, 3].map(() => openOk(pool)))
  expect(await open(pool)).toMatchObject({ kind: 'exhausted', status: 0 })
  expect(server.seen).toHaveLength(3)
  await streams[0]?.close()
  await openOk(pool)
  expect(pool.stats().watches).toBe(3)
})

test('watch pool: a watch fails as exhausted when all connections are full', async () => {
  const { pool } = start({ server: { streamsMax: 6 }, bounds: { connectionsMax: 2 } })
  await Promise.all([1, 2, 3, 4].map(() => openOk(pool)))
  expect(await open(pool)).toMatchObject({ kind: 'exhausted', message: expect.stringContaining('2 conn') })
  expect(pool.stats()).toEqual({ watches: 4, connections: 2 })
})

test('watch pool: opens at most `opensMax` watches concurrently', async () => {
  const gate = Promise.withResolvers<void>()
  let underWay = 0
  let underWayMost = 0
  const { pool } = start({
    bounds: { opensMax: 3 },
    answer: async () => {
      underWay += 1
      underWayMost = Math.max(underWayMost, underWay)
      if (underWay === 3) gate.resolve()
      await gate.promise
      underWay -= 1
      return openFakeWatch().response
    },
  })
  await Promise.all(Array.from({ length: 20 }, () => openOk(pool)))
  expect(underWayMost).toBe(3)
})

test('watch pool: after a GOAWAY, open streams continue, new streams use another connection, and the draining connection ends with its last stream', async () => {
  const { server, pool, watches } = start()
  const before = await openOk(pool)
  await before.read()
  server.goAway()
  // Repeats the call: until the frame has arrived, the pool still uses the old connection, which refuses.
  await until(async () => (await open(pool)).kind === 'ok' && pool.stats().connections === 2)
  watches[0]?.send('{"still":"there"}')
  expect(new TextDecoder().decode(await before.read())).toContain('still')
  await before.close()
  await until(() => server.connections() === 1 && pool.stats().connections === 1)
})

test('watch pool: at connectionsMax, a draining connection is closed to make room for a new one', async () => {
  const { server, pool } = start({ bounds: { connectionsMax: 1 } })
  const before = await openOk(pool)
  await before.read()
  server.goAway()
  await until(async () => (await open(pool)).kind === 'ok')
  await expect(before.read()).rejects.toThrow('broke')
  expect(pool.stats().connections).toBe(1)
})

test('watch pool: after a CA rotation, watches move to new connections without exceeding connectionsMax', async () => {
  const { server } = start({ server: { streamsMax: 10 } })
  let suffix = ''
  const pool = new WatchPool({
    endpoint: {
      ...server.endpoint,
      credentials: async () => {
        const credentials = await server.endpoint.credentials()
        return { ...credentials, ca: `${credentials.ca}${suffix}` }
      },
    },
    userAgent: 'latchkey-test/1',
    bounds: { ...watchBounds, connectionsMax: 5 },
  })
  const streams = await Promise.all(Array.from({ length: 24 }, () => openOk(pool)))
  expect(pool.stats()).toEqual({ watches: 24, connections: 4 })
  suffix = '\n'
  await Promise.all(streams.filter((_stream, nth) => nth % 2 === 0).map((stream) => stream.close()))
  const begun = await Promise.all(Array.from({ length: 12 }, () => open(pool)))
  expect(begun.map(({ kind }) => kind)).toEqual(Array.from({ length: 12 }, () => 'ok'))
  expect(pool.stats().connections).toBe(5)
})

test('watch pool: missing PING responses end the watches of a server that hangs', async () => {
  const { server, poolFor } = start({ bounds: { pingMs: 250 } })
  const network = await startTcpProxy(Number(new URL(server.endpoint.server).port))
  closing.push(network.close)
  const pool = poolFor({}, `https://127.0.0.1:${network.port}`)
  const stream = await openOk(pool)
  await stream.read()
  network.hang()
  await expect(stream.read()).rejects.toThrow('broke')
  expect(pool.stats()).toEqual({ watches: 0, connections: 0 })
})

test('watch pool: a stream that the server ends is complete, and a read from a killed server throws', async () => {
  const { server, pool, watches } = start()
  const ended = await openOk(pool)
  const broken = await openOk(pool)
  await Promise.all([ended.read(), broken.read()])
  watches[0]?.end()
  expect(await ended.read()).toBeUndefined()
  await server.stop()
  await expect(broken.read()).rejects.toThrow('broke')
  expect(await open(pool)).toMatchObject({ kind: 'unavailable', code: 'ECONNREFUSED' })
})

test('watch pool: reads credentials for each watch, and uses another connection for another client certificate', async () => {
  const { server } = start()
  let asked = 0
  const tls: { serverName: string | undefined } = { serverName: undefined }
  const pool = new WatchPool({
    endpoint: {
      ...server.endpoint,
      credentials: async () => {
        asked += 1
        const credentials = await server.endpoint.credentials()
        return { ...credentials, ...tls, headers: { authorization: `Bearer ${asked}` } }
      },
    },
    userAgent: 'latchkey-test/1',
    bounds: watchBounds,
  })
  await openOk(pool)
  await openOk(pool)
  expect(pool.stats().connections).toBe(1)
  tls.serverName = 'hooks.example'
  await openOk(pool)
  expect(pool.stats().connections).toBe(2)
  expect(server.seen.map(({ headers }) => headers.get('authorization'))).toEqual([
    'Bearer 1',
    'Bearer 2',
    'Bearer 3',
  ])
  expect(server.seen[0]?.headers.get('user-agent')).toBe('latchkey-test/1')
})

test.each<[string, () => Response, object]>([
  [
    'a 429 response',
    () => new Response('slow down', { status: 429, headers: { 'retry-after': '2' } }),
    { kind: 'tooManyRequests', retryAfterMs: 2000 },
  ],
  [
    'a 403 response',
    () => Response.json({ kind: 'Status', reason: 'Forbidden', message: 'no' }, { status: 403 }),
    { kind: 'forbidden', message: 'forbidden: no' },
  ],
  [
    'a redirect response',
    () => Response.redirect('https://127.0.0.1:1/', 302),
    { kind: 'unavailable', status: 302 },
  ],
  [
    'a long error response',
    () => new Response('x'.repeat(1_000_000), { status: 500 }),
    { kind: 'unavailable' },
  ],
])('watch pool: %s becomes a failure and occupies no stream', async (_case, answer, expected) => {
  const { server, pool } = start({ answer })
  expect(await open(pool)).toMatchObject(expected)
  expect(pool.stats().watches).toBe(0)
  expect(server.seen).toHaveLength(1)
  await until(() => server.connections() === 0)
})

test.each<[string, Partial<Credentials>, RegExp]>([
  ['an unknown CA', { ca: undefined }, /CERT|VERIFY|ISSUER/],
  ['another server name', { serverName: 'wrong.example' }, /ALTNAME/],
])('watch pool: a server with %s receives no request', async (_case, change, code) => {
  const { server, poolFor } = start()
  const pool = poolFor(change)
  expect(await open(pool)).toMatchObject({ kind: 'unavailable', code: expect.stringMatching(code) })
  expect(server.seen).toHaveLength(0)
  expect(pool.stats()).toEqual({ watches: 0, connections: 0 })
})

test('watch pool: the failure for a server without HTTP/2 contains the text HTTP/2', async () => {
  const { poolFor } = start()
  const pem = (name: string) => readFileSync(`${import.meta.dir}/../egress/fixtures/${name}.pem`, 'utf8')
  const old = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response('{}'),
    tls: { cert: pem('server'), key: pem('server-key') },
  })
  closing.push(() => old.stop(true))
  const pool = poolFor({}, `https://127.0.0.1:${old.port}`)
  expect(await open(pool)).toMatchObject({ kind: 'unavailable', message: expect.stringContaining('HTTP/2') })
})

test('watch pool: a watch with invalid credentials fails and leaves no connection open', async () => {
  const { server, poolFor } = start({ bounds: { pingMs: 20 } })
  const pool = poolFor({ headers: { authorization: 'Bearer a\nb' } })
  expect(await open(pool)).toMatchObject({ kind: 'unavailable' })
  expect(server.seen).toHaveLength(0)
  await until(() => pool.stats().connections === 0 && server.connections() === 0)
})

test('watch pool: a wait for a response ends when the signal fires', async () => {
  const { pool } = start({ answer: () => new Promise(() => undefined) })
  const given = AbortSignal.timeout(30)
  expect(await pool.open({ path: '/w' }, given)).toMatchObject({ kind: 'unavailable', status: 0 })
  expect(pool.stats()).toEqual({ watches: 0, connections: 0 })
})

test('watch pool: a reader that starts late receives every byte', async () => {
  const bytes = 8 * 1024 * 1024
  const { pool } = start({ answer: () => new Response('x'.repeat(bytes)) })
  const stream = await openOk(pool)
  const other = await openOk(pool)
  let got = 0
  for (let chunk = await other.read(); chunk !== undefined; chunk = await other.read()) got += chunk.length
  expect(got).toBe(bytes)
  got = 0
  for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read()) got += chunk.length
  expect(got).toBe(bytes)
})
