import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import pg from 'pg'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'
import { runToEnd, startClientScene } from '#test/support/clients/client-scene.ts'
import { createTestDatabase } from '#test/support/stores.ts'

// Runs the library's own tests with pytest. Each case of pytest is a test here.
const root = resolve(import.meta.dir, '../../..')
const library = join(root, 'clients/python')
const requirements = join(import.meta.dir, 'requirements.txt')
mkdirSync(join(root, '.latchkey'), { recursive: true })
const folder = mkdtempSync(join(root, '.latchkey', 'library-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const bin = join(await ensurePythonEnvironment(requirements), 'bin')

interface Case {
  readonly name: string
  readonly outcome: 'passed' | 'not passed'
  readonly text: string
}

/** Runs a file of tests with pytest. */
async function runPytest(file: string, sceneEnv: Readonly<Record<string, string>>) {
  const report = join(folder, `${file}.xml`)
  const env = {
    ...sceneEnv,
    PYTHONPATH: join(library, 'src'),
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONUTF8: '1',
  }
  const command = [join(bin, 'python'), '-m', 'pytest', '-q', '--rootdir', library, `--junitxml=${report}`]
  const settings = ['-c', join(library, 'pyproject.toml')]
  const finished = await runToEnd([...command, ...settings, join(library, 'tests', file)], env)
  return { ...finished, file, cases: existsSync(report) ? casesOf(readFileSync(report, 'utf8')) : [] }
}

function casesOf(xml: string): Case[] {
  return [...xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)].map(
    ([, attributes = '', body = '']) => {
      const read = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? ''
      const outcome = /<(failure|error|skipped)\b/.test(body) ? 'not passed' : 'passed'
      const name = `${read('classname').split('.').at(-1)}: ${read('name').replaceAll('_', ' ')}`
      return { name, outcome, text: body }
    },
  )
}

const files = readdirSync(join(library, 'tests')).filter((name) => name.startsWith('test_'))
const tested = await startClientScene()
const database = await createTestDatabase()
const pool = new pg.Pool({ connectionString: database.url, max: 1 })
await pool.query(readFileSync(join(library, 'src/latchkey/latchkey-outcomes.sql'), 'utf8'))
await pool.query('CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY, key text)')
await pool.end()
const env = { ...tested.env, POSTGRES_URL: database.url }
// Runs the files concurrently, since they wait more than they compute.
const runs = await Promise.all(files.map((file) => runPytest(file, env)))
await tested.close()
await database.drop()
const cases = runs.flatMap((run) => run.cases)

describe('library in Python', () => {
  test.each(cases.map((each) => [each.name, each] as const))('%s', (_name, { outcome, text }) => {
    expect([outcome, text]).toEqual(['passed', expect.any(String)])
  })

  test.each(runs)('library in Python: pytest runs $file to its end', ({ exitCode, output, cases: own }) => {
    expect([exitCode, output]).toEqual([0, expect.stringContaining(' passed')])
    expect(own.length).toBeGreaterThan(0)
  })

  test('library in Python: sources and tests pass mypy --strict', async () => {
    const command = ['-m', 'mypy', '--strict', '--cache-dir', '/dev/null']
    const programs = [
      ...['apps', 'driver', 'kit'].map((name) => `clients/conformance/python.${name}.py`),
      'test/faults/client.worker.py',
    ]
    const paths = [join(library, 'src'), join(library, 'tests'), ...programs.map((path) => join(root, path))]
    const env = { MYPYPATH: `${join(library, 'src')}:${join(library, 'tests')}` }
    const { exitCode: code, output: text } = await runToEnd([join(bin, 'python'), ...command, ...paths], env)
    expect([code, text]).toEqual([0, expect.stringContaining('Success: no issues found')])
  }, 120_000)

  test('library in Python: wheel and sdist have the same modules, and the wheel works after installation in an empty environment', async () => {
    const python = join(bin, 'python')
    const built = await runToEnd(['sh', '-c', `cd "${library}" && "${bin}/hatchling" build -d "${folder}"`])
    expect([built.exitCode, built.output]).toEqual([0, expect.any(String)])
    const [wheel = '', sdist = ''] = ['.whl', '.tar.gz'].map((end) =>
      join(folder, readdirSync(folder).find((name) => name.endsWith(end)) ?? ''),
    )
    const list = `import sys, tarfile, zipfile
print(*sorted(each for each in zipfile.ZipFile(sys.argv[1]).namelist() if each.startswith("latchkey/")))
print(*sorted(each.split("/src/")[1] for each in tarfile.open(sys.argv[2]).getnames() if "/src/latchkey/" in each))`
    const [inWheel, inSdist] = (await runToEnd([python, '-c', list, wheel, sdist])).output.trim().split('\n')
    expect(inWheel).toContain('latchkey/py.typed')
    expect(inWheel).toContain('latchkey/latchkey-outcomes.sql')
    expect(inWheel).toContain('latchkey/testing/event-samples.txt')
    expect(inSdist).toBe(inWheel ?? '')

    const empty = join(folder, 'empty')
    const emptyPython = join(empty, 'bin', 'python')
    expect(await runToEnd([python, '-m', 'venv', empty])).toEqual({ exitCode: 0, output: '' })
    const install = ['-m', 'pip', '--disable-pip-version-check', 'install', '--quiet', '--no-input']
    const needed = join(folder, 'needed.txt')
    await Bun.write(needed, pinnedOf(installed))
    const commands = [
      [emptyPython, ...install, '--require-hashes', '--no-deps', '--requirement', needed],
      [emptyPython, ...install, '--no-deps', '--no-index', wheel],
      [emptyPython, '-m', 'pip', '--disable-pip-version-check', 'check'],
    ]
    for (const command of commands) {
      const { exitCode, output } = await runToEnd(command)
      expect([exitCode, exitCode === 0 ? '' : output]).toEqual([0, ''])
    }
    const scene = await startClientScene()
    const program = `import os, latchkey
with latchkey.Latchkey(os.environ["API_URL"], os.environ["API_KEY"]) as client:
    print([client.once("wheel", "k", lambda lock: 1).kind for _ in range(2)])`
    const { output: printed } = await runToEnd([emptyPython, '-W', 'error', '-c', program], scene.env)
    expect(printed.trim()).toBe("['ran', 'replayed']")

    const folderOfExample = join(root, 'examples/fastapi-events')
    const ran = await runToEnd([emptyPython, '-W', 'error', '-c', exampleProgram, folderOfExample], {
      LATCHKEY_URL: scene.env['API_URL'] ?? '',
      LATCHKEY_API_KEY: scene.env['API_KEY'] ?? '',
    })
    await scene.close()
    const [printedByExample, refusal, ...more] = ran.output.trim().split('\n')
    expect([ran.exitCode, printedByExample, more]).toEqual([0, '[201, 201] [204, 204, 400] 1 1', []])
    expect(refusal).toStartWith('Latchkey: a delivery was refused (signature)')
  }, 120_000)
})

/** Packages of an application on FastAPI, with those that they need. */
const installed = [
  'httpx',
  'httpcore',
  'h11',
  'anyio',
  'idna',
  'certifi',
  'typing-extensions',
  'standardwebhooks',
  'fastapi',
  'starlette',
  'pydantic',
  'pydantic-core',
  'annotated-types',
  'annotated-doc',
  'opentelemetry-api',
  'typing-inspection',
]

/** Calls the example of FastAPI in its own process: a refund twice, and an event twice and forged. */
const exampleProgram = `import sys
sys.path.insert(0, sys.argv[1])
import asyncio, httpx, service
from latchkey.testing import signed_event

async def main():
    service.print = lambda *args, **kwargs: None
    transport = httpx.ASGITransport(app=service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        headers = {"idempotency-key": '"packed"', "x-user": "ada"}
        refunds = [await client.post("/refunds", json={"order": "1", "amount": 1}, headers=headers) for _ in range(2)]
        signed = signed_event("payment.succeeded", secret=service.SECRET)
        forged = signed_event("payment.succeeded", secret="whsec_" + "c2VjcmV0" * 4)
        events = [await client.post("/webhooks", content=each.body, headers=each.headers) for each in (signed, signed, forged)]
        state = (await client.get("/")).json()
        print([each.status_code for each in refunds], [each.status_code for each in events], state["refunds"], state["events"])
    await service.latchkey.aclose()

asyncio.run(main())`

/** Returns the requirements of these packages, with their hashes. */
function pinnedOf(names: readonly string[]): string {
  const entries = readFileSync(requirements, 'utf8').split(/\n(?=[a-z0-9-]+==)/)
  return entries.filter((entry) => names.includes(entry.replace(/==[\s\S]*/, ''))).join('\n')
}
