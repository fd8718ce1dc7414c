import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { openTenants, testApiKey } from '#test/support/api.ts'
import { sendLargeWebhook, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { readiness, startCommand, type TestProcess } from '#test/support/processes/api-process.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'

/** Program of the image, compiled for this machine. The image itself is tested in test/cluster. */
const root = resolve(import.meta.dir, '../..')
const compileMsMax = 120_000
const folder = scratchFolder()
const started: TestProcess[] = []
let program: string
let database: TestDatabase
let env: Record<string, string>

beforeAll(async () => {
  program = compiledProgram()
  database = await createMigratedDatabase()
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_API_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
  }
}, compileMsMax)
afterAll(async () => {
  for (const each of started) each.signal('SIGKILL')
  await Promise.all(started.map(({ exited }) => exited))
  await database?.drop()
  rmSync(folder, { recursive: true, force: true })
})

async function startReady(name: string) {
  const process = startCommand([program, name], env, `latchkey ${name}`)
  started.push(process)
  const { port, opsPort } = await process.logged('listening')
  expect(await readiness(`http://127.0.0.1:${opsPort}`, 200)).toBe(200)
  return { ...process, url: `http://127.0.0.1:${port}` }
}

test('compiled program: a stack trace contains source files and line numbers, and no secret', async () => {
  const secrets = ['hunter2-of-the-test', Buffer.alloc(32, 7).toString('base64')]
  // TEST-NET-1 (RFC 5737): no interface has this address, so the start fails in our code.
  const child = Bun.spawn([program, 'api'], {
    cwd: folder,
    env: {
      ...env,
      LATCHKEY_BIND_ADDRESS: '192.0.2.1',
      LATCHKEY_DATABASE_URL: `postgres://latchkey:${secrets[0]}@127.0.0.1:1/latchkey`,
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  expect(await child.exited).not.toBe(0)
  const line = output.split('\n').find((each) => each.includes('"process could not start"')) ?? ''
  const { cause } = JSON.parse(line) as { cause: { stack: string } }
  const frames = [...cause.stack.matchAll(/^ +at .*?\(?([^\s()]+):(\d+):\d+\)?$/gm)]
  const [top] = frames
  expect(top?.[1]).toBe('internal/http/listen.ts')
  const source = readFileSync(join(root, 'internal/http/listen.ts'), 'utf8').split('\n')
  expect(source[Number(top?.[2]) - 1]).toContain('throw new Error(`cannot listen on')
  const files = frames.map(([, path]) => path)
  expect(files).toContain('cmd/api/app.ts')
  expect(output + errors).not.toContain('$bunfs')
  for (const secret of secrets) expect(output + errors).not.toContain(secret)
})

test('compiled program: the API parses a large body in its worker, and commands call the API', async () => {
  const tenants = await openTenants(database.url, env['LATCHKEY_REDIS_URL'] ?? '')
  await tenants.apply(webhookTenantYaml('acme', testApiKey))
  await tenants.close()
  const api = await startReady('api')
  expect(await sendLargeWebhook(api.url, 'acme')).toEqual([200, '{"ok":true}'])

  const run = (...args: readonly string[]) => {
    const own = { LATCHKEY_URL: api.url, LATCHKEY_API_KEY: testApiKey }
    const { exitCode, stdout } = Bun.spawnSync([program, ...args], { cwd: folder, env: own })
    return [exitCode, stdout.toString()]
  }
  const simulated = ['trigger', 'generic', 'invoice.approved', '--set', 'amount=1']
  expect(run(...simulated)).toEqual([0, expect.stringMatching(/^event +evt_\w+\ntype +invoice\.approved/)])
  expect(run('records', 'get', 'orders', '1')).toEqual([3, ''])
  expect(run('complete', '--', 'eve')).toEqual([0, 'events\tlists, explains and replays events\n:4\n'])
  api.signal('SIGTERM')
  expect(await api.exited).toBe(0)
})

test('compiled program: forwarder and backoffice become ready, and pages load their style sheet', async () => {
  const [forwarder, backoffice] = await Promise.all([startReady('forwarder'), startReady('backoffice')])
  const page = await (await fetch(`${backoffice.url}/sign-in`)).text()
  const [, style = '/none'] = /href="(\/assets\/[^"]+\.css)"/.exec(page) ?? []
  expect((await fetch(`${backoffice.url}${style}`)).status).toBe(200)
  for (const each of [forwarder, backoffice]) each.signal('SIGTERM')
  expect(await Promise.all([forwarder.exited, backoffice.exited])).toEqual([0, 0])
})
