import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tokenDigest } from '#internal/access/index.ts'
import { startProcess, type TestProcess } from '#test/support/api-process.ts'
import { startReceiver } from '#test/support/callback-receiver.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`
const apiKey = 'lk_run_test_key_of_acme_0123456789'
let database: TestDatabase
let dir: string
let env: Record<string, string>
const started: TestProcess[] = []
const receiver = startReceiver()

beforeAll(async () => {
  database = await createTestDatabase()
  dir = await mkdtemp(join(tmpdir(), 'latchkey-run-'))
  await mkdir(join(dir, 'tenants'))
  await writeFile(join(dir, 'key-ring'), `${keyRing}\n`, { mode: 0o600 })
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
    LATCHKEY_DATA_DIR: dir,
    LATCHKEY_OPERATORS_FILE: join(dir, 'operators.yaml'),
    ...{ LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' },
    ...{ LATCHKEY_API_PORT: '0', LATCHKEY_BACKOFFICE_PORT: '0', LATCHKEY_OPS_PORT: '0' },
  }
})
afterEach(async () => {
  const ended = started.splice(0)
  for (const each of ended) each.signal('SIGTERM')
  await Promise.all(ended.map(({ exited }) => exited))
})
afterAll(async () => {
  await receiver.stop()
  await database.drop()
  await rm(dir, { recursive: true })
})

const manifest = (annotations = '') => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: acme, namespace: shops${annotations}}
spec:
  slug: acme
  callback: {url: "${receiver.url}", allowedCIDRs: [127.0.0.0/8]}
  apiKeys: [{name: default, secretRef: {name: acme-key}, scopes: [records, events]}]
---
apiVersion: v1
kind: Secret
metadata: {name: acme-key, namespace: shops, labels: {latchkey.dev/tenant: acme}}
stringData: {apiKey: ${apiKey}}
`
const write = (text: string) => writeFile(join(dir, 'tenants', 'acme.yaml'), text)

async function run() {
  const process = startProcess('run', env)
  started.push(process)
  const { port, backofficePort } = await process.logged('listening')
  const url = `http://127.0.0.1:${String(port)}`
  const acquire = (key: string) =>
    fetch(`${url}/v1/record`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ scope: 'run', key }),
    })
  const tenants = async (token: string) => {
    const answer = await fetch(`http://127.0.0.1:${String(backofficePort)}/internal/v1/tenants`, {
      headers: { authorization: `Bearer ${token}` },
    })
    return { status: answer.status, text: await answer.text() }
  }
  return { process, acquire, tenants }
}

test('run: serves the tenants of a folder, an operator by the token, and a tenant without a manifest until its deletion is asked for', async () => {
  await write(manifest())
  const one = await run()
  await until(async () => (await one.acquire('a')).status === 200).catch(async (error) => {
    console.log(one.process.output(), await (await one.acquire('a')).text())
    throw error
  })
  expect((await one.tenants('operator-token')).text).toContain('acme')
  expect((await one.tenants('other-token')).status).toBe(401)
  // An empty folder deletes nothing, nor does a restart with it.
  await rm(join(dir, 'tenants', 'acme.yaml'))
  const two = await run()
  await Bun.sleep(3_000)
  for (const each of [one, two]) expect((await each.acquire('b')).status).not.toBe(403)
  await write(manifest(', annotations: {latchkey.dev/delete: "true"}'))
  await until(async () => (await two.acquire('c')).status === 403, 60_000)
})

test('run: a file with a secret that others can read ends the start with exit code 2', async () => {
  await chmod(join(dir, 'key-ring'), 0o644)
  const process = startProcess('run', env)
  expect(await process.exited).toBe(2)
  await chmod(join(dir, 'key-ring'), 0o600)
})
