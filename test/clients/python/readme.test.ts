import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import pgDriver from 'pg'
import { signedEvent } from '#clients/typescript/src/testing/index.ts'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { runToEnd } from '#test/support/client-scene.ts'
import { runServed } from '#test/support/served-program.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'

// Runs the programs of the library's README as they stand, against the real API.
const root = resolve(import.meta.dir, '../../..')
const library = join(root, 'clients/python')
const readme = await Bun.file(join(library, 'README.md')).text()
mkdirSync(join(root, '.latchkey'), { recursive: true })
const folder = mkdtempSync(join(root, '.latchkey', 'readme-'))

let python: string
let api: TestApi
let database: TestDatabase
let env: Readonly<Record<string, string>>
beforeAll(async () => {
  python = join(await ensurePythonEnvironment(join(import.meta.dir, 'requirements.txt')), 'bin/python')
  api = await startTestApi({ manifests: await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text() })
  database = await createTestDatabase()
  env = {
    PYTHONPATH: join(library, 'src'),
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONWARNINGS: 'error',
    LATCHKEY_URL: api.url,
  }
  await createTable()
}, 60_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await database.drop()
  await api.close()
})

/** Creates the table of outcomes with the statements that the README's command prints. */
async function createTable(): Promise<void> {
  const script = /^python -c '(.*)' \| psql "\$DATABASE_URL"$/m.exec(readme)?.[1] ?? ''
  const { exitCode, output } = await runToEnd([python, '-c', script], env)
  expect(exitCode).toBe(0)
  const pool = new pgDriver.Pool({ connectionString: database.url, max: 1 })
  await pool.query(output)
  await pool.end()
}

interface Program {
  readonly name: string
  readonly path: string
  /** Output that the README shows below it. */
  readonly shown: string
}

/** Writes the programs with this marker into files. */
function programs(marker: string): Program[] {
  const pattern = `<!-- readme-test: ${marker} -->\\n\`\`\`python\\n(.*?)\`\`\`\\n(?:\`\`\`text\\n(.*?)\`\`\`)?`
  return [...readme.matchAll(new RegExp(pattern, 'gs'))].map(([, text = '', shown = ''], at) => {
    const name = `test_${marker}_${at}.py`
    writeFileSync(join(folder, name), text)
    return { name, path: join(folder, name), shown }
  })
}

const sessions = programs('transaction-sqlalchemy')
const finishing = [...programs('program'), ...programs('transaction'), ...sessions]
const apps = programs('app')
const receivers = programs('receiver')
const tests = programs('pytest')
const all = [...finishing, ...apps, ...receivers, ...tests]

describe('README of the client in Python', () => {
  test('README in Python: every block of Python has a marker, and there are programs of all kinds', () => {
    expect([finishing.length, apps.length, receivers.length, tests.length]).toEqual([4, 2, 1, 1])
    expect(readme.split('```python').length - 1).toBe(all.length)
  })

  test.each(finishing)('README in Python: $name prints the shown output', async (program) => {
    const scheme = sessions.includes(program) ? 'postgresql+psycopg' : 'postgresql'
    const DATABASE_URL = database.url.replace(/^[^:]+/, scheme)
    const found = await runToEnd([python, program.path], { ...env, DATABASE_URL })
    expect(found).toEqual({ exitCode: 0, output: program.shown })
  })

  test.each(apps)('README in Python: $name replays a repeated request', async ({ path }) => {
    await runServed({ command: [python, path], env }, async (url) => {
      const key = `"${crypto.randomUUID()}"`
      const ids = []
      for (const user of ['ada', 'ada', 'bob']) {
        const headers = { 'idempotency-key': key, 'x-user': user, 'content-type': 'application/json' }
        const init = { method: 'POST', headers, body: '{"amount":4200}' }
        const response = await fetch(`${url}/charges`, init)
        expect(response.status).toBe(201)
        ids.push(((await response.json()) as { id: string }).id)
      }
      expect(ids[1]).toBe(ids[0] ?? '')
      expect(ids[2]).not.toBe(ids[0])
    })
  })

  test.each(receivers)('README in Python: $name prints a delivered event once', async ({ path }) => {
    const secret = /"(whsec_[^"]+)"/.exec(await Bun.file(path).text())?.[1] ?? ''
    const id = `evt_${crypto.randomUUID()}`
    const printed = await runServed({ command: [python, path], env }, async (url) => {
      for (const [signedBy, status] of [
        [secret, 204],
        [secret, 204],
        [`whsec_${btoa('x'.repeat(24))}`, 400],
      ] as const) {
        const delivery = signedEvent('payment.succeeded', { secret: signedBy, id })
        expect((await fetch(`${url}/webhooks`, delivery)).status).toBe(status)
      }
    })
    expect(printed).toBe(`paid card ${id}\n`)
  })

  test.each(tests)('README in Python: the tests of $name pass', async ({ path }) => {
    const { exitCode, output } = await runToEnd(
      [python, '-m', 'pytest', '-q', '--rootdir', folder, path],
      env,
    )
    expect([exitCode, output]).toEqual([0, expect.stringContaining('2 passed')])
  })

  test('README in Python: the programs pass mypy --strict', async () => {
    const paths = all.map(({ path }) => path)
    const command = [python, '-m', 'mypy', '--strict', '--cache-dir', '/dev/null', ...paths]
    const { output } = await runToEnd(command, { MYPYPATH: join(library, 'src') })
    expect(output).toStartWith('Success: no issues found')
  }, 120_000)
})
