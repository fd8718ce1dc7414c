// Installs the package for npm from the registry into an empty project, and uses it there.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildRelease } from '#cmd/dev/build.ts'
import { keyRingText, openTenants, testApiKey } from '#test/support/api.ts'
import { makeProject } from '#test/support/clients/packed-client.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { sendLargeWebhook, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { startCommand } from '#test/support/processes/api-process.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { childrenOf } from '#test/support/processes/process-children.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { packageManager, version } from '../../../package.json'

let lab: CommandLab
let folder: string
/** Project whose packages were installed without running scripts. */
let project: string
const started: { kill(signal: NodeJS.Signals): void }[] = []
beforeAll(async () => {
  lab = await startCommandLab()
  folder = mkdtempSync(join(tmpdir(), 'latchkey-npm-'))
  await buildRelease(join(folder, 'build'), ['npm'])
  const archive = join(folder, 'build', `latchkey-${version}.tgz`)
  project = join(folder, 'project')
  await makeProject(project, [archive], ['--ignore-scripts'])
  await makeProject(join(folder, 'with-scripts'), [archive])
}, 240_000)
afterAll(async () => {
  for (const each of started) each.kill('SIGTERM')
  rmSync(folder, { recursive: true, force: true })
  await lab.close()
})

const launcher = () => join(project, 'node_modules/.bin/latchkey')
const shellEnv = () => ({
  PATH: process.env['PATH'] ?? '',
  HOME: folder,
  // Prevents npm from printing that it has a newer version.
  npm_config_update_notifier: 'false',
})

async function run(command: readonly string[], env: Readonly<Record<string, string>> = {}, cwd = project) {
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...shellEnv(), ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 60_000,
  })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  await child.exited
  return { code: child.exitCode, signal: child.signalCode, out, err }
}

/** Starts a command of the package in a terminal. The caller ends it. */
function openTerminal(command: readonly string[], env: Readonly<Record<string, string>>) {
  const decoder = new TextDecoder()
  let shown = ''
  const child = Bun.spawn([...command], {
    cwd: project,
    env: { ...shellEnv(), ...env },
    terminal: { data: (_terminal, bytes) => void (shown += decoder.decode(bytes, { stream: true })) },
  })
  started.push(child)
  return {
    child,
    shown: () => shown,
    type: (text: string) => void child.terminal?.write(text),
    shows: (text: string) =>
      until(`the terminal to show "${text}"`, () => Bun.stripANSI(shown).includes(text) || undefined),
  }
}

test('package: has no scripts, and depends on the runtime version that the program is compiled with', () => {
  const path = join(project, 'node_modules/latchkey/package.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
  expect(manifest).toMatchObject({ name: 'latchkey', version, engines: { node: '>=20' } })
  expect(manifest['scripts']).toBeUndefined()
  expect(manifest['optionalDependencies']).toEqual({
    '@oven/bun-darwin-aarch64': packageManager.replace('bun@', ''),
    '@oven/bun-darwin-x64': packageManager.replace('bun@', ''),
    '@oven/bun-linux-aarch64': packageManager.replace('bun@', ''),
    '@oven/bun-linux-x64': packageManager.replace('bun@', ''),
  })
})

test.each(['project', 'with-scripts'])('package: npx prints the version in %s', async (name) => {
  const cwd = join(folder, name)
  expect(await run(['npx', 'latchkey', '--version'], {}, cwd)).toMatchObject({
    code: 0,
    out: `${version}\n`,
    err: '',
  })
})

test('package: npx passes help, arguments and exit codes', async () => {
  const help = await run(['npx', 'latchkey', '--help'])
  expect([help.code, help.out]).toEqual([0, expect.stringContaining('Usage: latchkey [options] [command]')])
  const misused = await run(['npx', 'latchkey', 'setings', 'list'])
  expect([misused.code, misused.err]).toEqual([2, expect.stringContaining('Did you mean settings?')])
})

test('package: commands can call a service, read input and return exit codes', async () => {
  const simulated = await run(
    [launcher(), 'trigger', 'generic', 'invoice.approved', '--set', 'amount=1', '--json'],
    lab.env(),
  )
  expect([simulated.code, simulated.err]).toEqual([0, ''])
  const listed = await run([launcher(), 'events', 'list', '--type', 'invoice.approved', '--json'], lab.env())
  expect(JSON.parse(listed.out)).toMatchObject([{ type: 'invoice.approved' }])
  const missing = await run([launcher(), 'records', 'get', 'orders', '1'], lab.env('plain'))
  expect(missing.code).toBe(3)
  const { LATCHKEY_URL: url = '', LATCHKEY_API_KEY: key = '' } = lab.env()
  const login = Bun.spawn([launcher(), 'login', '--url', url], {
    cwd: project,
    env: { ...shellEnv(), XDG_CONFIG_HOME: folder },
    stdin: new Blob([key]),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  expect(await login.exited).toBe(0)
  expect((await run([launcher(), 'events', 'list'], { XDG_CONFIG_HOME: folder })).code).toBe(0)
})

test('package: Bun configuration files in the current folder change nothing', async () => {
  const cwd = join(folder, 'hostile')
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'bunfig.toml'), 'preload = ["./preload.ts"]\n')
  writeFileSync(join(cwd, 'preload.ts'), "console.log('preloaded')\n")
  writeFileSync(join(cwd, '.env'), 'LATCHKEY_URL=http://127.0.0.1:1\n')
  const { code, out, err } = await run([launcher(), 'events', 'list'], {}, cwd)
  expect({ code, out }).toEqual({ code: 4, out: '' })
  expect(err).toContain('The address of the service is unknown')
})

test('package: the command can use the terminal, and Ctrl-C ends it when started with npx', async () => {
  let status = 500
  using receiver = Bun.serve({ port: 0, fetch: () => new Response(null, { status }) })
  const url = `127.0.0.1:${receiver.port}/webhooks`
  const args = ['listen', '--forward-to', url, '--name', 'terminal', '--events', 'from.terminal']
  const terminal = openTerminal(['npx', 'latchkey', ...args], lab.env())
  await terminal.shows('Ctrl-C ends it.')
  const payload = '{"id":"p-1"}'
  const event = receivedEvent({
    tenantId: lab.seeded.acme.tenantId,
    type: 'from.terminal',
    payload,
    payloadBytes: payload.length,
  })
  await acceptEvents(lab.backoffice.pool, [event])
  await terminal.shows('  500  ')
  status = 204
  terminal.type('r')
  await terminal.shows('  204  ')
  terminal.type('\x03')
  expect(await terminal.child.exited).toBe(130)
}, 60_000)

test('package: a user can answer the prompt of a command, and Ctrl-C ends the command', async () => {
  const { LATCHKEY_URL: url = '', LATCHKEY_API_KEY: key = '' } = lab.env()
  const config = { XDG_CONFIG_HOME: join(folder, 'asked') }
  const command = [launcher(), 'login', '--url', url]
  const ended = openTerminal(command, config)
  await ended.shows('API key')
  ended.type('\x03')
  expect(await ended.child.exited).toBe(2)
  const answered = openTerminal(command, config)
  await answered.shows('API key')
  answered.type(`${key}\r`)
  expect(await answered.child.exited).toBe(0)
  expect(answered.shown()).not.toContain(key)
}, 60_000)

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'package: %s to the launcher ends the command, and then the launcher, by the same signal',
  async (signal) => {
    const name = `ended-by-${signal.toLowerCase()}`
    const child = Bun.spawn([launcher(), 'events', 'tail', '--name', name, '--events', 'none.such'], {
      cwd: project,
      env: { ...shellEnv(), ...lab.env() },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await until('the subscription', async () => {
      const { rows } = await lab.backoffice.pool.query('SELECT 1 FROM subscriptions WHERE name = $1', [name])
      return rows.length > 0
    })
    const [runtime = 0] = await childrenOf(child.pid)
    expect(await isRunning(runtime)).toBe(true)
    child.kill(signal)
    await child.exited
    expect(child.signalCode).toBe(signal)
    await until('the end of the command', async () => !(await isRunning(runtime)))
  },
)

async function isRunning(pid: number): Promise<boolean> {
  const ps = Bun.spawn(['ps', '-o', 'stat=', '-p', String(pid)], { stdout: 'pipe' })
  return /^[^Z]/.test((await ps.stdout.text()).trim())
}

test('package: a service process starts its worker, and closes its components after SIGTERM and after Ctrl-C with npx', async () => {
  const database = await createMigratedDatabase()
  const { redisUrl } = await testStores()
  const tenants = await openTenants(database.url, redisUrl)
  await tenants.apply(webhookTenantYaml('acme', testApiKey))
  await tenants.close()
  const env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_KEY_RING: keyRingText('test', 7),
    LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
    LATCHKEY_API_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
  }
  const api = startCommand([launcher(), 'api'], env, 'latchkey api')
  const { port } = await api.logged('listening')
  expect(await sendLargeWebhook(`http://127.0.0.1:${port}`, 'acme')).toEqual([200, '{"ok":true}'])
  api.signal('SIGTERM')
  expect(await api.exited).toBe(0)
  expect(api.lines('process has ended')).toHaveLength(1)
  // The terminal sends the signal to npm, the launcher and the process, and npm and the launcher forward it.
  const terminal = openTerminal(['npx', 'latchkey', 'api'], env)
  await terminal.shows('process is up')
  terminal.type('\x03')
  await terminal.child.exited
  expect(terminal.shown()).toContain('process has ended')
  expect(terminal.shown()).not.toContain('second signal')
  await database.drop()
}, 60_000)

test('package: a stack trace names source files and lines', async () => {
  // TEST-NET-1 (RFC 5737): no interface has this address, so the start fails in our code.
  const env = {
    LATCHKEY_BIND_ADDRESS: '192.0.2.1',
    LATCHKEY_KEY_RING: keyRingText('test', 7),
    LATCHKEY_DATABASE_URL: 'postgres://127.0.0.1:1/none',
    LATCHKEY_REDIS_URL: 'redis://127.0.0.1:1',
  }
  const { code, out } = await run([launcher(), 'api'], env)
  expect(code).toBe(1)
  expect(out).toMatch(/internal\/http\/listen\.ts:[0-9]+:[0-9]+/)
})

test('package: without a runtime for this platform, the error says what to do', async () => {
  const copy = join(folder, 'without-runtime')
  cpSync(join(project, 'node_modules/latchkey'), copy, { recursive: true })
  const { code, out, err } = await run(['node', join(copy, 'launch.mjs'), '--version'])
  expect([code, out]).toEqual([1, ''])
  expect(err).toMatch(
    /^latchkey cannot start its runtime Bun on \w+ \w+: its package @oven\/bun-[a-z0-9-]+ is not installed: install latchkey again on this machine, without --omit=optional/,
  )
})
