import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { chmod, cp, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tokenDigest } from '#internal/access/index.ts'
import { startReceiver } from '#test/support/events/callback-receiver.ts'
import { genericBody, providerSecret, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { startProcess, type TestProcess } from '#test/support/processes/api-process.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`
const apiKey = 'lk_run_test_key_of_acme_0123456789'
/** The deletion of a tenant waits for the sweep, which runs each 30 s. */
const sweptMsMax = 60_000
let database: TestDatabase
let dir: string
let env: Record<string, string>
const started: TestProcess[] = []
const receiver = startReceiver({ accepts: 'anything' })

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'latchkey-run-'))
})
beforeEach(async () => {
  database = await createTestDatabase()
  for (const name of ['tenants', 'data']) {
    await rm(join(dir, name), { recursive: true, force: true })
    await mkdir(join(dir, name))
  }
  await writeFile(join(dir, 'key-ring'), `${keyRing}\n`)
  await chmod(join(dir, 'key-ring'), 0o600)
  const hash = Buffer.from(tokenDigest('operator-token'), 'base64').toString('hex')
  await writeFile(
    join(dir, 'operators.yaml'),
    `operators: [{name: ada, roles: [admin], tokenSha256: ${hash}}]\n`,
    { mode: 0o644 },
  )
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING_FILE: join(dir, 'key-ring'),
    LATCHKEY_TENANTS_DIR: join(dir, 'tenants'),
    LATCHKEY_DATA_DIR: join(dir, 'data'),
    LATCHKEY_OPERATORS_FILE: join(dir, 'operators.yaml'),
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
    LATCHKEY_API_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
  }
})
afterEach(async () => {
  const ended = started.splice(0)
  for (const each of ended) each.signal('SIGTERM')
  await Promise.all(ended.map(({ exited }) => exited))
  await database.drop()
})
afterAll(async () => {
  await receiver.stop()
  await rm(dir, { recursive: true })
})

const manifest = (annotations = '') => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: acme, namespace: shops${annotations}}
spec:
  slug: acme
  callback: {url: "${receiver.url}", allowedCIDRs: [127.0.0.0/8]}
  providers: [{name: generic, secretRef: {name: acme-generic}}]
  apiKeys: [{name: default, secretRef: {name: acme-key}, scopes: [records, events]}]
---
apiVersion: v1
kind: Secret
metadata: {name: acme-key, namespace: shops, labels: {latchkey.dev/tenant: acme}}
stringData: {apiKey: ${apiKey}}
---
apiVersion: v1
kind: Secret
metadata: {name: acme-generic, namespace: shops, labels: {latchkey.dev/tenant: acme}}
stringData: {signingSecret: ${providerSecret}}
`
const path = () => join(dir, 'tenants', 'acme.yaml')
const write = (text: string) => writeFile(path(), text, { mode: 0o600 })

async function run(more: Readonly<Record<string, string>> = {}) {
  const process = startProcess('run', { ...env, ...more })
  started.push(process)
  const ports = await process.logged('listening')
  const { port, backofficePort } = ports
  const call = (where: string, init: RequestInit) => fetch(`http://127.0.0.1:${String(port)}${where}`, init)
  return {
    process,
    ports,
    /** Returns the status of an acquisition. */
    async acquire(key: string): Promise<number> {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const body = JSON.stringify({ scope: 'run', key })
      const response = await call('/v1/record', { method: 'POST', headers, body })
      await response.body?.cancel()
      return response.status
    },
    /** Returns the link of an error of the API to its page. */
    errorLink: async () => (await call('/v1/none', {})).headers.get('link'),
    webhook: () => call('/v1/t/acme/webhooks/generic', { method: 'POST', ...signGeneric(genericBody()) }),
    tenants: (token: string) =>
      fetch(`http://127.0.0.1:${String(backofficePort)}/internal/v1/tenants`, {
        headers: { authorization: `Bearer ${token}` },
      }),
  }
}

type Run = Awaited<ReturnType<typeof run>>
const serves = (one: Run) => until('the tenant is served', async () => (await one.acquire('a')) < 300)
const isDeleted = (one: Run) =>
  until('the tenant is deleted', async () => (await one.acquire('b')) === 403, sweptMsMax)

test('run: serves the tenants of a folder, delivers their events, and knows operators by their tokens', async () => {
  await write(manifest())
  const one = await run()
  await serves(one)
  expect((await one.webhook()).status).toBe(200)
  await receiver.received(1)
  expect(await (await one.tenants('operator-token')).text()).toContain('acme')
  const refused = await one.tenants('other-token')
  expect([refused.status, refused.headers.get('link')]).toEqual([
    401,
    '</docs/reference/errors/unauthenticated>; rel="help"',
  ])
  const docs = `http://127.0.0.1:${String(one.ports['backofficePort'])}/docs`
  expect(await one.errorLink()).toBe(`<${docs}/reference/errors/route-unknown>; rel="help"`)
})

test('run: errors link to the documentation at LATCHKEY_DOCS_URL, even without a backoffice', async () => {
  const more = { LATCHKEY_RUN_PROCESSES: 'api', LATCHKEY_DOCS_URL: 'https://latchkey.example/docs/' }
  const named = await run(more)
  expect(await named.errorLink()).toBe(
    '<https://latchkey.example/docs/reference/errors/route-unknown>; rel="help"',
  )
  const unnamed = await run({ LATCHKEY_RUN_PROCESSES: 'api' })
  expect(await unnamed.errorLink()).toBeNull()
})

test('run: `latchkey tenants why` names the manifest of a suspended tenant, and edits of this manifest take effect', async () => {
  await write(manifest())
  const one = await run()
  await serves(one)
  await write(manifest().replace('  slug: acme', '  suspended: true\n  slug: acme'))
  const operator = {
    LATCHKEY_INTERNAL_URL: `http://127.0.0.1:${String(one.ports['backofficePort'])}`,
    LATCHKEY_TOKEN: 'operator-token',
  }
  const why = () => latchkey(['tenants', 'why', 'shops/acme'], operator)
  const { out } = await until('the suspension', async () => {
    const found = await why()
    return found.out.includes('is suspended') && found
  })
  expect(out).toEndWith(`\n  \${EDITOR:-vi} ${path()}   # Tenant: spec.suspended: false\n`)
  expect((await latchkey(['tenants', 'get', 'shops/acme'], operator)).out).toContain(path())
  await write(manifest())
  await until('the end of the suspension', async () => (await why()).out.includes('nothing blocks'))
})

test('run: an empty folder deletes no tenant, even after a restart, until a manifest requests the deletion', async () => {
  await write(manifest())
  const one = await run()
  await serves(one)
  await rm(path())
  await one.process.logged(
    'tenant has no manifest in the folder and is kept; to delete it, restore the manifest with the annotation latchkey.dev/delete: "true"',
  )
  one.process.signal('SIGTERM')
  await one.process.exited
  const two = await run()
  await serves(two)
  await write(manifest(', annotations: {latchkey.dev/delete: "true"}'))
  await isDeleted(two)
}, 120_000)

test('run: when the reconciling machine is killed, another machine takes over and generates no Secret again', async () => {
  await write(manifest())
  const one = await run()
  await serves(one)
  const generated = join('secrets', 'shops.acme-callback.yaml')
  const { mode } = await stat(join(dir, 'data', generated))
  expect(mode & 0o777).toBe(0o600)
  const otherData = join(dir, 'data', 'other')
  const two = await run({ LATCHKEY_DATA_DIR: otherData })
  expect(two.process.lines('reconciling the tenants of the folder')).toEqual([])
  one.process.signal('SIGKILL')
  await two.process.logged('reconciling the tenants of the folder')
  const why = async () => (await two.tenants('operator-token')).text()
  await until('the condition names the missing file', async () => (await why()).includes('SecretElsewhere'))
  await cp(join(dir, 'data', generated), join(otherData, generated), { recursive: true })
  await until('the restored file is found', async () => !(await why()).includes('SecretElsewhere'))
})

test('run: two machines that run different processes form one service', async () => {
  await write(manifest())
  const front = await run({ LATCHKEY_RUN_PROCESSES: 'api' })
  expect(front.ports).not.toHaveProperty('backofficePort')
  const before = receiver.calls.length
  const back = await run({ LATCHKEY_RUN_PROCESSES: 'operator,forwarder' })
  expect(back.ports).not.toHaveProperty('port')
  await serves(front)
  expect((await front.webhook()).status).toBe(200)
  await receiver.received(before + 1)
})

test.each([
  [
    'a key ring that other users can read',
    async () => chmod(join(dir, 'key-ring'), 0o644),
    'LATCHKEY_KEY_RING_FILE: other users',
  ],
  [
    'an unknown process',
    async () => void (env['LATCHKEY_RUN_PROCESSES'] = 'api,worker'),
    'LATCHKEY_RUN_PROCESSES: expected some of',
  ],
])(
  'run: %s ends the start with exit code 2 and an error that names the setting',
  async (_case, spoil, problem) => {
    await spoil()
    const process = startProcess('run', env)
    expect(await process.exited).toBe(2)
    expect(process.errors()).toContain(problem)
  },
)

test('run: a missing tenants folder ends the start with an error that says what to do', async () => {
  const process = startProcess('run', { ...env, LATCHKEY_TENANTS_DIR: join(dir, 'none') })
  expect(await process.exited).not.toBe(0)
  expect(process.output() + process.errors()).toContain('create it, or set LATCHKEY_TENANTS_DIR')
})
