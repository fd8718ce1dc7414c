import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { internalDocument, publicContract } from '#internal/openapi/index.ts'
import { testLimits } from '#test/support/api.ts'
import {
  type ClientScene,
  type Finished,
  runToEnd,
  startClientScene,
} from '#test/support/clients/client-scene.ts'

const root = resolve(import.meta.dir, '../..')
const programs = join(import.meta.dir, 'typescript')
const documents = { public: publicContract(testLimits), internal: internalDocument() }
const names = ['public', 'internal'] as const

let folder: string
const generated: Partial<Record<(typeof names)[number], Finished>> = {}
beforeAll(async () => {
  mkdirSync(join(root, '.latchkey'), { recursive: true })
  // Below the repository, so that the generated files find its packages.
  folder = mkdtempSync(join(root, '.latchkey', 'clients-'))
  for (const name of names) generated[name] = await generate(name, documents[name])
}, 60_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Generates the types of a document as the programs import them. */
async function generate(name: (typeof names)[number], document: object) {
  const source = join(folder, `${name}.json`)
  writeFileSync(source, JSON.stringify(document))
  return runToEnd([
    process.execPath,
    `--preload=${join(root, 'cmd/dev/typescript-6.preload.ts')}`,
    join(root, 'node_modules/openapi-typescript/bin/cli.js'),
    source,
    '--output',
    join(folder, `${name}.generated.ts`),
  ])
}

/** Checks the programs, and more files, against the generated types with the compiler options of this repository. */
function compile(...more: readonly string[]) {
  const config = join(folder, 'tsconfig.json')
  const settings = {
    extends: join(root, 'tsconfig.json'),
    // Resolves `./public.generated.ts` of a program to the generated file.
    compilerOptions: { rootDirs: [programs, folder] },
    include: [join(programs, '*.ts')],
    files: more,
    exclude: [],
  }
  writeFileSync(config, JSON.stringify(settings))
  return runToEnd([join(root, 'node_modules/.bin/tsc'), '--project', config])
}

describe('client in TypeScript', () => {
  test.each(names)('openapi-typescript: generates types of the %s document without a warning', (name) => {
    const { exitCode, output } = generated[name] ?? {}
    // The output has one line with the version and one with the file.
    expect(output?.trim().split('\n')).toEqual([
      expect.stringContaining('openapi-typescript'),
      expect.stringContaining(`${name}.generated.ts`),
    ])
    expect(exitCode).toBe(0)
  })

  test('openapi-fetch: programs that use every kind of call compile with the generated types', async () => {
    expect(await compile()).toEqual({ exitCode: 0, output: '' })
  })

  test('openapi-fetch: a program that reads a field that belongs to another result does not compile', async () => {
    const path = join(folder, 'wrong.ts')
    writeFileSync(
      path,
      `import type { components } from './public.generated.ts'
export function tokenOf(answer: components['schemas']['CheckAnswer']): string {
  return answer.cached ? '' : answer.lockToken
}
`,
    )
    const { exitCode, output } = await compile(path)
    rmSync(path)
    expect(exitCode).not.toBe(0)
    expect(output).toContain("Property 'lockToken' does not exist on type")
  })
})

describe('calls of a client in TypeScript', () => {
  let scene: ClientScene
  beforeAll(async () => {
    scene = await startClientScene()
  }, 30_000)
  afterAll(() => scene.close())

  test.each(names)('openapi-fetch: the calls of the %s program have the documented results', async (name) => {
    const program = join(programs, `${name}.main.ts`)
    const { exitCode, output } = await runToEnd([process.execPath, program], scene.env)
    expect([exitCode, output.trim().split('\n').at(-1)]).toEqual([0, 'done'])
  })
})
