// Type-checks programs of the documentation in an empty project with the packed client and the types of Express.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { runToEnd } from '#test/support/clients/client-scene.ts'
import { makeProject, packClient } from '#test/support/clients/packed-client.ts'
import { blockNamed } from '#test/support/documents/page.ts'

const root = resolve(import.meta.dir, '../../..')
const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly devDependencies: Readonly<Record<string, string>>
}
const packages = ['express', '@types/express', 'typescript']
const handler = '(request, response) => void response.json({ amount: request.body.amount })'
const program = (principal: string) => `import express, { type Request } from 'express'
import { Latchkey } from '@latchkey/client'
import { idempotency } from '@latchkey/client/express'
declare global {
  namespace Express {
    interface Request { user?: { id: string } }
  }
}
const latchkey = new Latchkey({ url: 'http://127.0.0.1:8080', apiKey: 'lk_demo' })
export const typed = (request: Request): string => request.body.user
express().post('/charges/:id', express.json(), idempotency(latchkey, { principal: ${principal} }), ${handler})
`
const programs: Readonly<Record<string, string>> = {
  'of README': blockNamed('README.md', 'readme-typescript').text,
  'of the tutorial of an own application': blockNamed('docs/tutorials/own-app.md', 'app-typescript').text,
  'whose callers share their keys': program("'none'"),
  'whose principal reads a header': program("(request) => request.get('x-user') ?? ''"),
  'whose principal reads a member that the application added to requests': program(
    "(request) => request.user?.id ?? ''",
  ),
  'whose principal takes a request of Express': program('typed'),
}

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'latchkey-types-'))
  const archive = await packClient(folder)
  const node = `@types/node@${/^\d+/.exec(process.versions.node)?.[0]}`
  await makeProject(folder, [archive, node, ...packages.map((name) => `${name}@${devDependencies[name]}`)])
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each(Object.entries(programs))(
  'types: a program %s compiles as strict TypeScript',
  async (_name, text) => {
    writeFileSync(join(folder, 'app.ts'), text)
    const options = ['--ignoreConfig', '--strict', '--noEmit', '--target', 'es2022', '--types', 'node']
    const compiler = join(folder, 'node_modules/typescript/bin/tsc')
    const { exitCode, output } = await runToEnd([
      'node',
      compiler,
      ...options,
      '--module',
      'nodenext',
      join(folder, 'app.ts'),
    ])
    expect([exitCode, output]).toEqual([0, ''])
  },
  60_000,
)
