import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'
import { internalDocument, publicContract } from '#internal/openapi/index.ts'
import { testLimits } from '#test/support/api.ts'
import {
  type ClientScene,
  type Finished,
  runToEnd,
  startClientScene,
} from '#test/support/clients/client-scene.ts'
import { patternsOf, textsFor } from '#test/support/documents/document-patterns.ts'

const root = resolve(import.meta.dir, '../../..')
const documents = { public: publicContract(testLimits), internal: internalDocument() }
const names = ['public', 'internal'] as const

let folder: string
let bin: string
let scene: ClientScene
const generated: Partial<Record<(typeof names)[number], Finished>> = {}
beforeAll(async () => {
  mkdirSync(join(root, '.latchkey'), { recursive: true })
  folder = mkdtempSync(join(root, '.latchkey', 'clients-'))
  // Disables the formatting of the generated code, which takes longer than its generation.
  writeFileSync(join(folder, 'config.yaml'), 'post_hooks: []\n')
  bin = join(await ensurePythonEnvironment(join(import.meta.dir, 'requirements.txt')), 'bin')
  scene = await startClientScene()
  for (const name of names) generated[name] = await generate(name)
}, 60_000)
afterAll(async () => {
  await scene.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Generates the client of a document as the package `latchkey_<name>`. */
function generate(name: (typeof names)[number]): Promise<Finished> {
  const source = join(folder, `${name}.json`)
  writeFileSync(source, JSON.stringify(documents[name]))
  return runToEnd([
    join(bin, 'openapi-python-client'),
    'generate',
    '--fail-on-warning',
    '--meta',
    'none',
    '--config',
    join(folder, 'config.yaml'),
    '--path',
    source,
    '--output-path',
    join(folder, `latchkey_${name}`),
  ])
}

/** Runs Python with the generated packages and the client library on its path. */
function python(...args: readonly string[]) {
  const path = `${folder}:${join(root, 'clients/python/src')}`
  return runToEnd([join(bin, 'python'), ...args], {
    ...scene.env,
    PYTHONPATH: path,
    MYPYPATH: path,
    PYTHONUTF8: '1',
  })
}

const typeCheck = ['-m', 'mypy', '--cache-dir', '/dev/null']
const importAll = `
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'): importlib.import_module(module.name)
`

describe('client in Python', () => {
  test.each(names)(
    'openapi-python-client: generates a client of the %s document without a warning',
    (name) => {
      const output = `Generating ${join(folder, `latchkey_${name}`)}\n`
      expect(generated[name]).toEqual({ exitCode: 0, output })
    },
  )

  test.each(names)('openapi-python-client: every operation of the %s document is generated', (name) => {
    const modules = [...new Bun.Glob(`latchkey_${name}/api/*/*.py`).scanSync(folder)]
    const operations = Object.values(documents[name].paths).flatMap((methods) => Object.values(methods))
    expect(modules.filter((path) => !path.endsWith('__init__.py'))).toHaveLength(operations.length)
  })

  test.each(names)(
    'openapi-python-client: every module of the %s client compiles and can be imported',
    async (name) => {
      const compiled = await python('-W', 'error', '-m', 'compileall', '-q', join(folder, `latchkey_${name}`))
      expect(compiled).toEqual({ exitCode: 0, output: '' })
      expect(await python('-W', 'error', '-c', importAll, `latchkey_${name}`)).toEqual({
        exitCode: 0,
        output: '',
      })
    },
  )

  test.each(names)(
    'openapi-python-client: the %s program has the types of the generated client',
    async (name) => {
      const program = join(import.meta.dir, `${name}-calls.py`)
      const { exitCode, output } = await python(...typeCheck, '--check-untyped-defs', program)
      expect([exitCode, output.trim()]).toEqual([0, 'Success: no issues found in 1 source file'])
    },
  )

  test('openapi-python-client: a program that reads a field that belongs to another result has a type error', async () => {
    const path = join(folder, 'wrong.py')
    writeFileSync(
      path,
      'from latchkey_public.models import LockBusy\n\ndef token(busy: LockBusy) -> str:\n    return busy.lock_token\n',
    )
    const { exitCode, output } = await python(...typeCheck, path)
    expect([exitCode, output]).toEqual([
      1,
      expect.stringContaining('"LockBusy" has no attribute "lock_token"'),
    ])
  })

  test.each(names)(
    'openapi-python-client: the calls of the %s program have the documented results',
    async (name) => {
      const { exitCode, output } = await python(join(import.meta.dir, `${name}-calls.py`))
      expect([exitCode, output.trim()]).toEqual([0, 'done'])
    },
  )
})

describe('patterns in Python', () => {
  const program = join(import.meta.dir, 'check-patterns.py')
  const casesOf = (patterns: readonly string[]) =>
    patterns.map((pattern) => {
      const plain = new RegExp(pattern)
      return { pattern, texts: textsFor(pattern).map((text) => ({ text, matches: plain.test(text) })) }
    })

  test.each(names)(
    'patterns of the %s document: Python’s re matches the same texts as ECMA-262',
    async (name) => {
      const path = join(folder, `${name}-patterns.json`)
      writeFileSync(path, JSON.stringify(casesOf(patternsOf(documents[name]))))
      expect(await python('-W', 'error', program, path)).toEqual({ exitCode: 0, output: '' })
    },
  )

  test('pattern comparison: finds that \\d matches more digits in Python', async () => {
    const path = join(folder, 'digits.json')
    writeFileSync(path, JSON.stringify(casesOf(['^\\d+$'])))
    expect((await python(program, path)).output).toContain('differs on')
  })
})

test('requirements of the Python client: every package, including those in requirements.in, is pinned with its hashes', () => {
  const read = (name: string) => readFileSync(join(import.meta.dir, name), 'utf8')
  const packages = read('requirements.txt')
    .replaceAll('\\\n', '')
    .split('\n')
    .filter((line) => !/^ *(#|$)/.test(line))
  for (const each of packages) expect(each).toMatch(/^[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+$/)
  const pinned = packages.map((each) => each.replace(/ .*/, ''))
  for (const direct of read('requirements.in').trim().split('\n')) expect(pinned).toContain(direct)
})
