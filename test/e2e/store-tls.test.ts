// Runs the shipped processes with stores whose certificates are issued by a private CA.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { startApiProcess, startProcess } from '#test/support/processes/api-process.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import {
  createCa,
  createTlsPostgres,
  createTlsRedis,
  type TestCa,
  type TlsPostgres,
  type TlsRedis,
} from '#test/support/stores/pki.ts'
import { until } from '#test/support/until.ts'

const folder = scratchFolder()
let own: TestCa
let foreign: TestCa
let postgres: TlsPostgres
let redis: TlsRedis
let env: Record<string, string>

beforeAll(async () => {
  own = createCa(folder, 'own')
  foreign = createCa(folder, 'foreign')
  const server = own.issue('server')
  const client = own.issue('client', { names: 'DNS:client' })
  postgres = await createTlsPostgres(server)
  await postgres.askForClients(own.ca)
  redis = await createTlsRedis({ ca: own.ca, identity: server, clients: 'required' })
  env = {
    LATCHKEY_DATABASE_URL: postgres.url,
    LATCHKEY_REDIS_URL: redis.url,
    LATCHKEY_KEY_RING: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_OPS_PORT: '0',
    ...tlsEnv('DATABASE', own.ca, client),
    ...tlsEnv('REDIS', own.ca, client),
  }
}, 60_000)
afterAll(async () => {
  await Promise.all([postgres.postgres.stop(), redis.redis.stop()])
  rmSync(folder, { recursive: true })
})

function tlsEnv(store: string, ca: string, client: { cert: string; key: string }): Record<string, string> {
  return {
    [`LATCHKEY_${store}_TLS_CA_FILE`]: ca,
    [`LATCHKEY_${store}_TLS_CERT_FILE`]: client.cert,
    [`LATCHKEY_${store}_TLS_KEY_FILE`]: client.key,
  }
}

interface Ready {
  readonly ok: boolean
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly reason: string | null }[]
}

/** Waits for a text in `/readyz` and returns its checks by name. */
function readyWhen(
  opsUrl: string,
  wanted: (ready: Ready) => boolean,
): Promise<Record<string, string | null>> {
  return until('readiness', async () => {
    const ready = (await (await fetch(`${opsUrl}/readyz`)).json()) as Ready
    return wanted(ready) && Object.fromEntries(ready.checks.map(({ name, reason }) => [name, reason]))
  })
}

test('store TLS: migration and API work with stores that require certificates of a private CA', async () => {
  const migration = startProcess('migrate', env)
  expect(await migration.exited).toBe(0)
  const api = await startApiProcess(env)
  await readyWhen(api.opsUrl, ({ ok }) => ok)
  api.signal('SIGTERM')
  expect(await api.exited).toBe(0)
})

describe('store TLS failures', () => {
  test('store TLS: /readyz and the log report an untrusted CA for both stores, and contain no secrets', async () => {
    const api = await startApiProcess({
      ...env,
      LATCHKEY_DATABASE_TLS_CA_FILE: foreign.ca,
      LATCHKEY_REDIS_TLS_CA_FILE: foreign.ca,
    })
    const told = /^(postgres|redis): TLS: certificate not trusted \((unable to verify|self signed)/
    const reasons = await readyWhen(
      api.opsUrl,
      ({ checks }) => checks.filter(({ reason }) => told.test(reason ?? '')).length === 2,
    )
    expect(reasons['schema']).toMatch(/^postgres: /)
    expect(reasons['redis']).toMatch(/^redis: /)
    await until('a line of the log on each store', () => {
      const lines = api
        .output()
        .split('\n')
        .filter((line) => line.includes('TLS: certificate not trusted'))
      return lines.some((line) => line.includes('Redis connection failed')) && lines.length > 1
    })
    api.signal('SIGTERM')
    await api.exited
    const all = api.output() + api.errors() + JSON.stringify(reasons)
    expect(all).not.toContain(redis.redis.password)
    expect(all).not.toContain(new URL(postgres.url).password)
  })

  test('store TLS: /readyz and the log report a certificate for another host name, and contain no secrets', async () => {
    const api = await startApiProcess({ ...env, LATCHKEY_DATABASE_TLS_SERVER_NAME: 'db.example' })
    const { schema } = await readyWhen(api.opsUrl, ({ checks }) =>
      checks.some(({ reason }) => reason?.includes('TLS: certificate for another name')),
    )
    expect(schema).toMatch(/^postgres: /)
    api.signal('SIGTERM')
    await api.exited
  })
})

test.each<[name: string, change: () => Record<string, string>, problem: string]>([
  [
    'a missing file',
    () => ({ LATCHKEY_REDIS_TLS_CA_FILE: `${folder}/absent` }),
    'LATCHKEY_REDIS_TLS_CA_FILE: expected the path of a readable PEM file: it cannot be read (ENOENT)',
  ],
  [
    'an unencrypted Redis URL',
    () => ({ LATCHKEY_REDIS_URL: redis.redis.url }),
    'LATCHKEY_REDIS_TLS_CA_FILE contradicts LATCHKEY_REDIS_URL: its connection is not encrypted',
  ],
  [
    'sslmode=disable',
    () => ({ LATCHKEY_DATABASE_URL: `${postgres.url}?sslmode=disable` }),
    'LATCHKEY_DATABASE_TLS_CA_FILE contradicts LATCHKEY_DATABASE_URL: its sslmode does not verify',
  ],
])(
  'store TLS: the API refuses to start with %s, and its error names the setting',
  async (_name, change, problem) => {
    const api = startProcess('api', { ...env, ...change() })
    expect(await api.exited).toBe(2)
    expect(api.errors()).toContain(problem)
    expect(api.errors()).not.toContain(redis.redis.password)
  },
)
