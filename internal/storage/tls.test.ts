import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { copyFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import {
  createCa,
  createTlsPostgres,
  createTlsRedis,
  type TestCa,
  type TlsPostgres,
} from '#test/support/stores/pki.ts'
import { command } from '#test/support/stores/redis-topology.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { createPool } from './postgres/pool.ts'
import { redisCheck, schemaCheck } from './readiness.ts'
import { openRedis } from './redis/client.ts'
import type { StoreTls } from './tls.ts'

const folder = scratchFolder()
const signal = AbortSignal.timeout(300_000)
let own: TestCa
let foreign: TestCa
let postgres: TlsPostgres
const issued: Record<string, { cert: string; key: string }> = {}

beforeAll(async () => {
  own = createCa(folder, 'own')
  foreign = createCa(folder, 'foreign')
  issued['good'] = own.issue('good')
  issued['elsewhere'] = own.issue('elsewhere', { names: 'DNS:db.example' })
  issued['expired'] = own.issue('expired', { days: -1 })
  issued['client'] = own.issue('client', { names: 'DNS:client' })
  issued['stranger'] = foreign.issue('stranger', { names: 'DNS:client' })
  postgres = await createTlsPostgres(identity('good'))
}, 60_000)
afterAll(async () => {
  await postgres.postgres.stop()
  rmSync(folder, { recursive: true })
})

function identity(name: string): { cert: string; key: string } {
  const found = issued[name]
  if (found === undefined) throw new Error(`no certificate ${name}`)
  return found
}

const clientOf = (name: string) => ({ certFile: identity(name).cert, keyFile: identity(name).key })
const bounds = {
  applicationName: 'tls test',
  connectionsMax: 1,
  queryTimeoutMs: 5_000,
  connectTimeoutMs: 5_000,
}

/** Returns the readiness result: that the connection uses TLS, or the failure reason. */
async function askPostgres(url: string, tls: StoreTls): Promise<string> {
  const pool = createPool({ ...bounds, url, tls })
  try {
    const { rows } = await pool.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return rows[0]?.ssl === true ? 'TLS' : 'plain text'
  } catch (error) {
    const checked = await Promise.resolve(schemaCheck(pool)(signal)).catch(() => undefined)
    if (checked?.ok === false) return checked.reason
    return error instanceof Error ? error.message : 'failed'
  } finally {
    await pool.end()
  }
}

/** The same of Redis: an answer, or the reason of readiness once a connection has failed. */
async function askRedis(url: string, tls: StoreTls): Promise<string> {
  const errors: unknown[] = []
  const redis = openRedis({ url, tls, onError: (error) => errors.push(error) })
  const check = redisCheck(redis)
  try {
    return await until('an answer or a failure', async () => {
      const facts = await redis.serverFacts().catch(() => undefined)
      if (facts !== undefined) return 'TLS'
      const result = await check(signal)
      return errors.length > 0 && !result.ok && result.reason.includes('TLS') ? result.reason : undefined
    })
  } finally {
    await redis.close()
  }
}

const cases: [name: string, shown: string, tls: () => StoreTls, said: RegExp][] = [
  ['a server under the configured CA is accepted', 'good', () => ({ caFile: own.ca }), /^TLS$/],
  [
    'a server under another CA is refused',
    'good',
    () => ({ caFile: foreign.ca }),
    /TLS: certificate not trusted \((unable to verify|self signed)/,
  ],
  [
    'a private CA that is not configured is refused',
    'good',
    () => ({ serverName: 'localhost' }),
    /TLS: certificate not trusted/,
  ],
  [
    'a certificate for another name is refused',
    'elsewhere',
    () => ({ caFile: own.ca }),
    /TLS: certificate for another name/,
  ],
  [
    'a certificate of the configured server name is accepted',
    'elsewhere',
    () => ({ caFile: own.ca, serverName: 'db.example' }),
    /^TLS$/,
  ],
  [
    'a certificate without the configured server name is refused',
    'good',
    () => ({ caFile: own.ca, serverName: 'db.example' }),
    /another name/,
  ],
  [
    'an expired certificate is refused',
    'expired',
    () => ({ caFile: own.ca }),
    /TLS: certificate expired or not yet valid/,
  ],
]

describe('Postgres', () => {
  test.each(cases)('Postgres TLS: %s', async (_name, shown, tls, said) => {
    await postgres.serve(identity(shown))
    expect(await askPostgres(postgres.url, tls())).toMatch(said)
  })

  test('Postgres TLS: an IP address in the URL is verified against the addresses of the certificate', async () => {
    await postgres.serve(identity('good'))
    expect(await askPostgres(postgres.postgres.url, { caFile: own.ca })).toBe('TLS')
    await postgres.serve(identity('elsewhere'))
    expect(await askPostgres(postgres.postgres.url, { caFile: own.ca })).toMatch(/another name/)
  })

  test.each(['?sslmode=no-verify', '?ssl=false', '?sslmode=disable', '?ssl%6Dode=disable'])(
    'Postgres TLS: TLS options in the URL cannot disable the configured verification: %s',
    async (query) => {
      await postgres.serve(identity('good'))
      expect(await askPostgres(postgres.url + query, { caFile: own.ca })).toBe('TLS')
      expect(await askPostgres(postgres.url + query, { caFile: foreign.ca })).toMatch(/not trusted/)
    },
  )

  test('Postgres TLS: a connection to a server without TLS is refused', async () => {
    expect(await askPostgres((await testStores()).databaseUrl, { caFile: own.ca })).toBe(
      'postgres: TLS: the server does not offer it',
    )
  })

  test('Postgres TLS: a new connection reads a replaced file, and uses the last content of a removed file', async () => {
    await postgres.serve(identity('good'))
    const caFile = join(folder, 'rotated.crt')
    copyFileSync(foreign.ca, caFile)
    const pool = createPool({ ...bounds, url: postgres.url, tls: { caFile } })
    await expect(pool.query('SELECT 1')).rejects.toThrow('TLS: certificate not trusted')
    copyFileSync(own.ca, caFile)
    expect((await pool.query('SELECT 1')).rowCount).toBe(1)
    rmSync(caFile)
    const second = createPool({ ...bounds, url: postgres.url, tls: { caFile: own.ca } })
    await second.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'tls test'`,
    )
    await second.end()
    await until(
      'a connection of the last good file',
      async () => (await pool.query('SELECT 1').catch(() => undefined))?.rowCount ?? undefined,
    )
    await pool.end()
  })

  // This test runs last, since it disables unencrypted connections.
  test.each<[name: string, tls: () => StoreTls, said: RegExp]>([
    ['accepts a trusted client certificate', () => ({ caFile: own.ca, ...clientOf('client') }), /^TLS$/],
    [
      'refuses a client without certificate',
      () => ({ caFile: own.ca }),
      /connection requires a valid client certificate|TLS:/,
    ],
    [
      'refuses a client certificate of another CA',
      () => ({ caFile: own.ca, ...clientOf('stranger') }),
      /TLS: handshake failed|client certificate/,
    ],
  ])('Postgres TLS: a server that requires client certificates %s', async (name, tls, said) => {
    if (name.startsWith('accepts')) {
      await postgres.serve(identity('good'))
      await postgres.askForClients(own.ca)
    }
    expect(await askPostgres(postgres.url, tls())).toMatch(said)
  })
})

describe('Redis', () => {
  test.each(cases)('Redis TLS: %s', async (_name, shown, tls, said) => {
    const { redis, url } = await createTlsRedis({ ca: own.ca, identity: identity(shown) })
    expect(await askRedis(url, tls())).toMatch(said)
    await redis.stop()
  })

  test('Redis TLS: a server that requires client certificates accepts only a certificate that it trusts', async () => {
    const { redis, url } = await createTlsRedis({
      ca: own.ca,
      identity: identity('good'),
      clients: 'required',
    })
    expect(await askRedis(url, { caFile: own.ca, ...clientOf('client') })).toBe('TLS')
    expect(await askRedis(url, { caFile: own.ca })).toMatch(/^redis: TLS: /)
    expect(await askRedis(url, { caFile: own.ca, ...clientOf('stranger') })).toMatch(/^redis: TLS: /)
    await redis.stop()
  })

  test('Redis TLS: a server without TLS and a closed port are not reported as TLS failures', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port: closedPort } = closed.address() as AddressInfo
    closed.close()
    await once(closed, 'close')
    for (const host of [`127.0.0.1:${port}`, `127.0.0.1:${closedPort}`]) {
      const errors: unknown[] = []
      const redis = openRedis({
        url: `rediss://${host}`,
        tls: { caFile: own.ca },
        onError: (error) => errors.push(error),
      })
      await until('a failed connection', () => errors.length > 0)
      expect(errors[0]).not.toHaveProperty('name', 'TlsFailure')
      const result = await redisCheck(redis)(signal)
      expect(result).toMatchObject({ ok: false, reason: expect.not.stringContaining('TLS') })
      if (host.endsWith(`:${port}`))
        expect(errors[0]).toMatchObject({ cause: { message: expect.stringContaining('does not offer TLS') } })
      await redis.close()
    }
    silent.close()
  })

  test('Redis TLS: TLS settings are refused together with a plain-text URL', () => {
    const open = () =>
      openRedis({ url: 'redis://localhost', tls: { caFile: own.ca }, onError: () => undefined })
    expect(open).toThrow('TLS settings for Redis need a URL that starts with rediss')
  })

  test('Redis TLS: every node of a Cluster is verified, under one server name if the URL contains IP addresses', async () => {
    const byName = { ca: own.ca, identity: identity('elsewhere') }
    const { redis, port } = await createTlsRedis(byName, ['--tls-cluster', 'yes'], { cluster: true })
    await command(redis, ['CLUSTER', 'ADDSLOTSRANGE', '0', '16383'])
    const url = `rediss+cluster://:${redis.password}@127.0.0.1:${port}`
    expect(await askRedis(url, { caFile: own.ca })).toMatch(/^redis: TLS: certificate for another name/)
    expect(await askRedis(url, { caFile: own.ca, serverName: 'db.example' })).toBe('TLS')
    await redis.stop()
  })

  test.each([
    ['both show another name', 'elsewhere', 'elsewhere', 'another name'],
    ['the sentinel shows another name', 'elsewhere', 'good', 'another name'],
    ['the master shows another name', 'good', 'elsewhere', 'another name'],
    ['both show the expected name', 'good', 'good', 'TLS'],
  ])('Redis TLS: Sentinel and master are both verified if %s', async (_case, ofSentinel, ofMaster, said) => {
    const master = await createTlsRedis({ ca: own.ca, identity: identity(ofMaster) })
    const sentinel = await createTlsRedis({ ca: own.ca, identity: identity(ofSentinel) }, [
      '--sentinel',
      '--tls-replication',
      'yes',
    ])
    await command(
      sentinel.redis,
      ['SENTINEL', 'MONITOR', 'mymaster', '127.0.0.1', String(master.port), '1'],
      ['SENTINEL', 'SET', 'mymaster', 'auth-pass', master.redis.password],
    )
    const url = `rediss+sentinel://:${master.redis.password}@127.0.0.1:${sentinel.port}/mymaster?sentinelPassword=${sentinel.redis.password}`
    expect(await askRedis(url, { caFile: own.ca })).toContain(said)
    if (ofSentinel === ofMaster && ofMaster === 'elsewhere')
      expect(await askRedis(url, { caFile: own.ca, serverName: 'db.example' })).toBe('TLS')
    await sentinel.redis.stop()
    await master.redis.stop()
  })
})
