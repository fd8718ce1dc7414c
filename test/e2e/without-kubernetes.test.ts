import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { startCommand, type TestProcess } from '#test/support/api-process.ts'
import { compiledProgram } from '#test/support/compiled-program.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const page = readFileSync(resolve(import.meta.dir, '../../docs/operate/without-kubernetes.md'), 'utf8')
const blocks = new Map(
  [...page.matchAll(/<!-- run-test: (\w+) -->\n```sh\n([\s\S]*?)```/g)].map(([, name = '', text = '']) => [
    name,
    text,
  ]),
)
let database: TestDatabase
let dir: string
let env: Record<string, string>
let service: TestProcess | undefined

beforeAll(async () => {
  database = await createTestDatabase()
  dir = await mkdtemp(join(tmpdir(), 'latchkey-page-'))
  env = {
    PATH: `${dirname(compiledProgram())}:${process.env['PATH'] ?? ''}`,
    HOME: dir,
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    ...{ LATCHKEY_API_PORT: '0', LATCHKEY_BACKOFFICE_PORT: '0', LATCHKEY_OPS_PORT: '0' },
    LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
  }
})
afterAll(async () => {
  service?.signal('SIGTERM')
  await service?.exited
  await database.drop()
  await rm(dir, { recursive: true })
})

/** Starts a block of the page in a folder of the user. */
function start(name: string, more: Readonly<Record<string, string>> = {}, folder = dir): TestProcess {
  // `exec` gives the signals of the test to the service in place of the shell.
  const script = (blocks.get(name) ?? '').replace(/^latchkey run$/m, 'exec latchkey run')
  return startCommand(['bash', '-euc', `cd '${folder}'\n${script}`], { ...env, ...more }, name)
}

async function finish(started: TestProcess): Promise<string> {
  const code = await started.exited
  if (code !== 0) throw new Error(`exit code ${code}:\n${started.output()}${started.errors()}`)
  return started.output()
}

test('without Kubernetes: the commands of the page lead from nothing to an event of a tenant', async () => {
  service = start('start')
  const { port, backofficePort } = await service.logged('listening')
  const key = join(dir, 'latchkey/data/secrets/shops.acme-key-default.yaml')
  await until('the API key is generated', () => existsSync(key))
  const url = `http://127.0.0.1:${String(port)}`
  const call = () => fetch(`${url}/v1/t/acme/webhooks/generic`, { method: 'POST', body: '{}' })
  await until('the tenant is served', async () => (await call()).status === 400)
  const used = await finish(start('use', { LATCHKEY_URL: url }))
  expect(used).toMatch(/evt_\w+ .*order\.created/)
  const signIn = await fetch(`http://127.0.0.1:${String(backofficePort)}/internal/v1/tenants`, {
    headers: { authorization: `Bearer ${readFileSync(join(dir, 'latchkey/ada.token'), 'utf8').trim()}` },
  })
  expect(signIn.status).toBe(200)
})

test('without Kubernetes: the commands of the page add, list and remove an operator', async () => {
  const file = { LATCHKEY_OPERATORS_FILE: join(dir, 'operators.yaml') }
  const printed = await finish(start('operators', file))
  expect(printed).toMatch(/^lo_\S+\n/)
  expect(printed).toMatch(/^bob +support +shops +2099-01-31T00:00:00Z$/m)
  expect(printed).toContain('The operator bob is removed')
})
