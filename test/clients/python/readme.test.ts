import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import pgDriver from 'pg'
import { signedEvent } from '#clients/typescript/src/testing/index.ts'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { runToEnd } from '#test/support/client-scene.ts'
import { runServed } from '#test/support/served-program.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'

// Runs the programs of the library's README unchanged, against the real API.
const root = resolve(import.meta.dir, '../../..')
const library = join(root, 'clients/python')
const readme = await Bun.file(join(library, 'README.md')).text()
const tableSql = await Bun.file(join(library, 'src/latchkey/latchkey-outcomes.sql')).text()
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
  const pool = new pgDriver.Pool({ connectionString: database.url, max: 1 })
  await pool.query(tableSql)
  await pool.end()
  env = {
    PYTHONPATH: join(library, 'src'),
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONWARNINGS: 'error',
    LATCHKEY_URL: api.url,
    DATABASE_URL: database.url,
  }
}, 60_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await database.drop()
  await api.close()
})

interface Program {
  readonly name: string
  readonly path: string
  /** Output in the block after the program. */
  readonly shown: string
}

/** Starts and stops an app without a server, and prints `closed` if it closed its client then, and only then. */
const stopApp = `
import asyncio, runpy, sys
from latchkey import AsyncLatchkey

closed = []
async def aclose(self): closed.append(self)
AsyncLatchkey.aclose = aclose
program = runpy.run_path(sys.argv[1])

async def main():
    async with program["app"].router.lifespan_context(program["app"]):
        assert closed == []
    assert closed == [program["latchkey"]]
    print("closed")

asyncio.run(main())
`

/** Writes the programs with this marker into files. */
function programs(marker: string): Program[] {
  const pattern = `<!-- readme-test: ${marker} -->\\n\`\`\`python\\n(.*?)\`\`\`\\n(?:\`\`\`text\\n(.*?)\`\`\`)?`
  return [...readme.matchAll(new RegExp(pattern, 'gs'))].map(([, text = '', shown = ''], at) => {
    const name = `test_${marker.replaceAll('-', '_')}_${at}.py`
    writeFileSync(join(folder, name), text)
    return { name, path: join(folder, name), shown }
  })
}

const finishing = [...programs('program'), ...programs('transaction')]
const withSqlAlchemy = programs('transaction-sqlalchemy')
const apps = programs('app')
const receivers = programs('receiver')
const tests = programs('pytest')
const all = [...finishing, ...withSqlAlchemy, ...apps, ...receivers, ...tests]

describe('README of the client in Python', () => {
  test('README in Python: every program has a marker, and is run by a test', () => {
    expect(all).toHaveLength(readme.match(/^ *```python/gm)?.length ?? 0)
    expect([finishing, withSqlAlchemy, apps, receivers, tests].every((each) => each.length > 0)).toBe(true)
  })

  test('README in Python: the command that creates the table passes the package’s SQL to psql', async () => {
    const [, command = ''] = /<!-- readme-test: table -->\n```sh\n(.*?)```/s.exec(readme) ?? []
    const psqlStub = 'psql() { test "$*" = "$DATABASE_URL" && cat; }'
    const PATH = `${dirname(python)}:${process.env['PATH']}`
    const { exitCode, output } = await runToEnd(['sh', '-c', `${psqlStub}\n${command}`], { ...env, PATH })
    expect([exitCode, output.trim()]).toEqual([0, tableSql.trim()])
  })

  test.each(finishing)('README in Python: $name prints the shown output', async ({ path, shown }) => {
    expect(await runToEnd([python, path], env)).toEqual({ exitCode: 0, output: shown })
  })

  test.each(withSqlAlchemy)('README in Python: $name prints the shown output', async ({ path, shown }) => {
    const url = database.url.replace(/^[^:]+/, 'postgresql+psycopg')
    const found = await runToEnd([python, path], { ...env, DATABASE_URL: url })
    expect(found).toEqual({ exitCode: 0, output: shown })
  })

  test.each([...apps, ...receivers])(
    'README in Python: $name closes its client when it stops',
    async ({ path }) => {
      expect(await runToEnd([python, '-c', stopApp, path], env)).toEqual({ exitCode: 0, output: 'closed\n' })
    },
  )

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
