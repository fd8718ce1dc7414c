import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fencesOf } from '#test/support/documents/page.ts'
import { startCommand, type TestProcess } from '#test/support/processes/api-process.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { createTestDatabase, type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const root = resolve(import.meta.dir, '../..')
const blocks = new Map(
  fencesOf('docs/operate/without-kubernetes.md').map(({ marker, text }) => [marker?.name ?? '', text]),
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
    LATCHKEY_API_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
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
  // `exec` replaces the shell with the service, which then receives the signals of the test.
  const script = (blocks.get(name) ?? '').replace(/^latchkey run$/m, 'exec latchkey run')
  return startCommand(['bash', '-euc', `cd '${folder}'\n${script}`], { ...env, ...more }, name)
}

async function finish(started: TestProcess): Promise<string> {
  const code = await started.exited
  if (code !== 0) throw new Error(`exit code ${code}:\n${started.output()}${started.errors()}`)
  return started.output()
}

test('without Kubernetes: the commands of the page install the service and store the first event of a tenant', async () => {
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
  const back = `http://127.0.0.1:${String(backofficePort)}`
  blocks.set('look', (blocks.get('look') ?? '').replace('http://127.0.0.1:8081', back))
  expect(await finish(start('look', {}, join(dir, 'latchkey')))).toContain('acme')
})

test('without Kubernetes: the commands of the page add, list and remove an operator', async () => {
  const file = { LATCHKEY_OPERATORS_FILE: join(dir, 'operators.yaml') }
  const printed = await finish(start('operators', file))
  expect(printed).toMatch(/^lo_\S+\n/)
  expect(printed).toMatch(/^bob +support +shops +2099-01-31T00:00:00Z$/m)
  expect(printed).toContain('The operator bob is removed')
})

/** Makes programs that stand in for those of another machine. Returns the folder for PATH. */
function standIns(programs: Readonly<Record<string, string>>): string {
  const bin = join(dir, `bin-${Object.keys(programs).join('-')}`)
  mkdirSync(bin)
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/usr/bin/env bash\nset -euo pipefail\n${script}\n`)
    chmodSync(join(bin, name), 0o755)
  }
  return bin
}

test('without Kubernetes: the commands for systemd put the program, the unit and its files where the unit expects them', async () => {
  const machine = join(dir, 'machine')
  for (const path of ['usr/local/bin', 'etc/systemd/system'])
    mkdirSync(join(machine, path), { recursive: true })
  // Runs commands below a folder instead of the root directory, and without setting owners, which the tests may not do.
  const sudo = `args=()
while [ $# -gt 0 ]; do
  case "$1" in -g) shift ;; /*) args+=("$MACHINE$1") ;; *) args+=("$1") ;; esac
  shift
done
case "\${args[0]}" in useradd | systemctl) echo "\${args[*]}" >>"$MACHINE/asked" ;; *) "\${args[@]}" ;; esac`
  const bin = standIns({ sudo, curl: 'echo "$*" >>"$MACHINE/asked"' })
  const folder = join(dir, 'release')
  mkdirSync(folder)
  symlinkSync(compiledProgram(), join(folder, 'latchkey'))
  symlinkSync(join(root, 'config'), join(folder, 'config'))
  const more = { PATH: `${bin}:${env['PATH'] ?? ''}`, MACHINE: machine }
  expect(await finish(start('systemd', more, folder))).toMatch(/^lo_\S+$/m)
  const unit = readFileSync(join(machine, 'etc/systemd/system/latchkey.service'), 'utf8')
  for (const path of ['/usr/local/bin/latchkey', '/etc/latchkey/latchkey.env']) {
    expect(unit).toContain(path)
    expect(existsSync(join(machine, path))).toBe(true)
  }
  const modeOf = (path: string) => (statSync(join(machine, path)).mode & 0o777).toString(8)
  expect(
    ['key-ring', 'latchkey.env', 'operators.yaml'].map((name) => modeOf(`etc/latchkey/${name}`)),
  ).toEqual(['600', '600', '644'])
  expect(readFileSync(join(machine, 'etc/latchkey/key-ring'), 'utf8')).toMatch(/^k1:[\w+/]{43}=\n$/)
  expect(readFileSync(join(machine, 'asked'), 'utf8')).toContain('systemctl enable --now latchkey')
})

test('without Kubernetes: the commands for Docker Compose write the files that compose.yaml needs, and add an operator', async () => {
  const folder = join(dir, 'clone')
  mkdirSync(join(folder, 'config'), { recursive: true })
  const docker = `echo "$*" >>"$ASKED"; case "$*" in *' run '*) shift $(($# - 6)); "$@" --file "$PWD/operators.yaml" ;; esac`
  const asked = join(folder, 'asked')
  const more = { PATH: `${standIns({ docker })}:${env['PATH'] ?? ''}`, ASKED: asked }
  expect(await finish(start('compose', more, folder))).toMatch(/^lo_\S+$/m)
  const written = readFileSync(join(folder, 'config/.env'), 'utf8')
  const needed = readFileSync(join(root, 'config/compose.yaml'), 'utf8').matchAll(/\$\{(\w+):\?/g)
  for (const [, name = ''] of needed) expect(written).toMatch(new RegExp(`^${name}=\\S+$`, 'm'))
  expect(readFileSync(asked, 'utf8')).toContain('compose up --detach --wait')
})
