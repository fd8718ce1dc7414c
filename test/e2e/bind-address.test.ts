import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { startDashboard } from '#test/support/dashboard/dashboard.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'

let database: TestDatabase
let env: Record<string, string>
const started: TestProcess[] = []

beforeAll(async () => {
  database = await createMigratedDatabase()
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_API_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
  }
})
afterEach(async () => {
  const ended = started.splice(0)
  for (const each of ended) each.signal('SIGKILL')
  await Promise.all(ended.map(({ exited }) => exited))
})
afterAll(() => database.drop())

const processes = ['api', 'backoffice', 'forwarder'] as const
const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '[::1]'] as const

/** Returns the addresses on which a port accepts connections. */
async function reachableOn(port: unknown): Promise<string[]> {
  const answers = await Promise.all(
    addresses.map((address) =>
      fetch(`http://${address}:${String(port)}/livez`).then(
        () => true,
        () => false,
      ),
    ),
  )
  return addresses.filter((_address, nth) => answers[nth])
}

async function portsOf(name: (typeof processes)[number], more: Record<string, string>) {
  const process = startProcess(name, { ...env, ...more })
  started.push(process)
  const { port, opsPort } = await process.logged('listening')
  return { port: port === undefined ? undefined : await reachableOn(port), ops: await reachableOn(opsPort) }
}

describe.each(processes)('%s', (name) => {
  const own = (address: string[]) => (name === 'forwarder' ? undefined : address)

  test(`bind address: ${name} listens on all IPv4 and IPv6 interfaces without LATCHKEY_BIND_ADDRESS`, async () => {
    const all = [...addresses]
    expect(await portsOf(name, {})).toEqual({ port: own(all), ops: all })
  })

  test(`bind address: ${name} with LATCHKEY_BIND_ADDRESS is not reachable on another loopback address`, async () => {
    expect(await portsOf(name, { LATCHKEY_BIND_ADDRESS: '127.0.0.1' })).toEqual({
      port: own(['127.0.0.1']),
      ops: ['127.0.0.1'],
    })
  })

  test(`bind address: ${name} with LATCHKEY_OPS_BIND_ADDRESS opens its ops port on that address only`, async () => {
    const both = { LATCHKEY_BIND_ADDRESS: '127.0.0.2', LATCHKEY_OPS_BIND_ADDRESS: '127.0.0.3' }
    expect(await portsOf(name, both)).toEqual({ port: own(['127.0.0.2']), ops: ['127.0.0.3'] })
  })
})

test('bind address: an API on an IPv6 address is not reachable by IPv4', async () => {
  const more = { LATCHKEY_BIND_ADDRESS: '::1' }
  expect(await portsOf('api', more)).toEqual({ port: ['[::1]'], ops: ['[::1]'] })
})

test('bind address: a host name is refused at startup with an error that names the host name', async () => {
  const process = startProcess('api', { ...env, LATCHKEY_BIND_ADDRESS: 'localhost' })
  started.push(process)
  expect(await process.exited).toBe(2)
  expect(process.output() + process.errors()).toContain(
    'LATCHKEY_BIND_ADDRESS: expected an IPv4 or IPv6 address',
  )
})

test('bind address: an address that belongs to no interface ends the process with an error that names the address', async () => {
  // TEST-NET-1 (RFC 5737): no interface has this address.
  const process = startProcess('api', { ...env, LATCHKEY_BIND_ADDRESS: '192.0.2.1' })
  started.push(process)
  expect(await process.exited).not.toBe(0)
  expect(process.output() + process.errors()).toContain('cannot listen on 192.0.2.1')
})

describe('npm run dev', () => {
  const portsIn = (output: string) =>
    ['sign-in#', 'v1/openapi.json', 'readyz', '   shows what'].map(
      (path) => new RegExp(`http://[^ ]+:(\\d+)/?${path.replaceAll('.', '\\.')}`).exec(output)?.[1],
    )

  test('npm run dev: listens on loopback, and is reachable as 127.0.0.1 and localhost', async () => {
    const dev = await startDashboard()
    try {
      const ports = portsIn(dev.output())
      expect(ports).not.toContain(undefined)
      for (const port of ports) expect([port, await reachableOn(port)]).toEqual([port, ['127.0.0.1']])
      const { port } = new URL(dev.api)
      expect((await fetch(`http://localhost:${port}/v1/openapi.json`)).status).toBe(200)
      expect(dev.output()).not.toContain('Other machines can reach')
    } finally {
      await dev.close()
    }
  }, 60_000)

  test('npm run dev: listens on LATCHKEY_BIND_ADDRESS for other machines, with a warning', async () => {
    const dev = await startDashboard({ LATCHKEY_BIND_ADDRESS: '0.0.0.0' })
    try {
      const all = addresses.filter((address) => address !== '[::1]')
      for (const port of portsIn(dev.output())) expect([port, await reachableOn(port)]).toEqual([port, all])
      expect(dev.output()).toContain('Other machines can reach this server')
    } finally {
      await dev.close()
    }
  }, 60_000)
})
