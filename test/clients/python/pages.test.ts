// Runs the Python programs of the library's README, of README.md and of the pages unchanged, against the real API.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import pgDriver from 'pg'
import { ensurePythonEnvironment, freePort } from '#internal/dev/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { runToEnd } from '#test/support/clients/client-scene.ts'
import { expectGuarded, expectReceived, expectShownRequest } from '#test/support/documents/guarded-app.ts'
import { blockNamed, blocksOf } from '#test/support/documents/page.ts'
import { root } from '#test/support/processes/dev-server.ts'
import { runServed } from '#test/support/processes/served-program.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'

const library = join(root, 'clients/python')
const tableSql = await Bun.file(join(library, 'src/latchkey/latchkey-outcomes.sql')).text()
const frameworks = 'docs/guides/frameworks'
const records = 'docs/guides/records.md'
const secret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='
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

interface Program {
  readonly page: string
  readonly name: string
  readonly text: string
  /** Output in the block after the program. */
  readonly shown: string
}

const pages = [
  'clients/python/README.md',
  'README.md',
  records,
  'docs/guides/testing.md',
  'docs/guides/webhooks.md',
  ...readdirSync(join(root, frameworks)).map((file) => `${frameworks}/${file}`),
]
const all: readonly Program[] = pages.flatMap((page) =>
  blocksOf(page)
    .filter(({ language }) => language === 'python')
    .map((block) => ({ page, ...block })),
)
const named = (...names: string[]) => all.filter(({ name }) => names.includes(name))

/** Writes a program with the API of this test, and returns its path. */
function write({ name, text }: Program): string {
  const path = join(folder, `test_${name.replaceAll('-', '_')}_${crypto.randomUUID().slice(0, 8)}.py`)
  writeFileSync(path, text.replaceAll('"http://127.0.0.1:8080"', JSON.stringify(api.url)))
  return path
}

const finishing = named('program', 'once-python', 'transaction-python')
const withSqlAlchemy = named('transaction-sqlalchemy')
const apps = named('framework')
const tests = named('kit-python')
const others = named('readme-python', 'receiver-python')

describe('pages with programs in Python', () => {
  test('pages with programs in Python: every program has a marker, and is run by a test', () => {
    const runs = [...finishing, ...withSqlAlchemy, ...apps, ...tests, ...others]
    const shown = pages.flatMap(
      (page) => readFileSync(join(root, page), 'utf8').match(/^ *```python/gm) ?? [],
    )
    expect(runs).toHaveLength(shown.length)
    expect([finishing, withSqlAlchemy, apps, tests, others].map((each) => each.length)).toEqual([
      4, 1, 4, 1, 2,
    ])
  })

  test('guide of records: the command that creates the table passes the package’s SQL to psql', async () => {
    const command = blockNamed(records, 'table-python').text
    const psqlStub = 'psql() { test "$*" = "$DATABASE_URL" && cat; }'
    const PATH = `${dirname(python)}:${process.env['PATH']}`
    const { exitCode, output } = await runToEnd(['sh', '-c', `${psqlStub}\n${command}`], { ...env, PATH })
    expect([exitCode, output.trim()]).toEqual([0, tableSql.trim()])
  })

  test.each([...finishing])('$page: the program $name prints the shown output', async (program) => {
    expect(await runToEnd([python, write(program)], env)).toEqual({ exitCode: 0, output: program.shown })
  })

  test.each([...withSqlAlchemy])('$page: the program $name prints the shown output', async (program) => {
    const url = database.url.replace(/^[^:]+/, 'postgresql+psycopg')
    const found = await runToEnd([python, write(program)], { ...env, DATABASE_URL: url })
    expect(found).toEqual({ exitCode: 0, output: program.shown })
  })

  test.each(apps.filter(({ text }) => text.includes('lifespan=lifespan')))(
    '$page: the app closes its client when it stops',
    async (program) => {
      const found = await runToEnd([python, '-c', stopApp, write(program)], env)
      expect(found).toEqual({ exitCode: 0, output: 'closed\n' })
    },
  )

  test.each([...apps])(
    '$page: the program replays a repeated request, and handles an event once',
    async (program) => {
      let id = ''
      const printed = await runServed({ command: [python, write(program)], env }, async (url) => {
        await expectGuarded(url)
        if (program.page !== `${frameworks}/wsgi.md`) await expectShownRequest(url)
        id = await expectReceived(`${url}/webhooks`, secret)
      })
      expect(printed).toBe(`paid card ${id}\n`)
    },
  )

  test('README: the program in Python charges once and receives an event', async () => {
    const [program = { page: '', name: '', text: '', shown: '' }] = named('readme-python')
    const port = await freePort()
    const path = write({ ...program, text: program.text.replace('9000', String(port)) })
    const served = { command: [python, path], env, port }
    const printed = await runServed(served, async (url) => void (await expectReceived(url, secret)))
    expect(printed).toBe('ch_2\npayment.succeeded card\n')
  })

  test('guide of webhooks: the receiver without a library prints a delivered event once', async () => {
    const [program = { page: '', name: '', text: '', shown: '' }] = named('receiver-python')
    const served = { command: [python, write(program)], env }
    const printed = await runServed(served, async (url) => void (await expectReceived(url, secret)))
    expect(printed).toBe('payment.succeeded\n')
  })

  test.each([...tests])('$page: the tests in Python pass', async (program) => {
    const path = write(program)
    const command = [python, '-m', 'pytest', '-q', '--rootdir', folder, path]
    const { exitCode, output } = await runToEnd(command, env)
    expect([exitCode, output]).toEqual([0, expect.stringContaining('2 passed')])
  })

  test('pages with programs in Python: the programs with the library pass mypy --strict', async () => {
    const paths = all.filter(({ name }) => name !== 'receiver-python').map(write)
    const command = [python, '-m', 'mypy', '--strict', '--cache-dir', '/dev/null', ...paths]
    const { output } = await runToEnd(command, { MYPYPATH: join(library, 'src') })
    expect(output).toStartWith('Success: no issues found')
  }, 120_000)
})
