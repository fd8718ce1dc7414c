import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'bun'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { runToEnd } from '../../../test/support/clients/client-scene.ts'
import { makeProject, packClient } from '../../../test/support/clients/packed-client.ts'

const root = resolve(import.meta.dir, '../../..')
/** Without the tsconfig.json of the repository. */
const tsc = [join(root, 'node_modules/.bin/tsc'), '--ignoreConfig']
/** Maximum bytes of the core, minified and compressed. */
const coreBytesMax = 15 * 1024

let api: TestApi
/** An application with the built package installed from its archive. */
let folder: string
beforeAll(async () => {
  api = await startTestApi()
  folder = mkdtempSync(join(tmpdir(), 'latchkey-package-'))
  await makeProject(folder, [await packClient(folder)])
  writeFileSync(join(folder, 'application.ts'), source)
}, 120_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await api.close()
})

const source = `import { Latchkey, nothingHappened, type Outcome, unwrap } from '@latchkey/client'

declare const process: { env: Record<string, string> }
const latchkey = new Latchkey({ url: process.env['API_URL'] ?? '', apiKey: process.env['API_KEY'] ?? '' })
const address = { scope: 'package', key: crypto.randomUUID() }
const charge = () => latchkey.once(address, async ({ signal, fence }) => ({ aborted: signal.aborted, fence }))
const first: Outcome<{ aborted: boolean; fence: number | undefined }> = await charge()
const second = await charge()
const declined = await latchkey.once({ ...address, key: address.key + '2' }, () => {
  throw nothingHappened(new Error('declined'))
}).catch((error: Error) => error.message)
console.log(first.kind, second.kind, unwrap(first).fence === unwrap(second).fence, declined)
`

test('package: the core has no dependencies, and is at most 15 KiB minified and compressed', async () => {
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, 'index.ts')],
    target: 'browser',
    minify: true,
    metafile: true,
  })
  const [core] = built.outputs
  const bytes = gzipSync(new Uint8Array((await core?.arrayBuffer()) ?? [])).byteLength
  console.log(`core: ${bytes} bytes minified and compressed`)
  expect(bytes).toBeGreaterThan(1000)
  expect(bytes).toBeLessThanOrEqual(coreBytesMax)
  expect(Object.keys(built.metafile?.inputs ?? {}).filter((path) => path.includes('node_modules'))).toEqual(
    [],
  )
})

test.each([
  ['resolution of Node, libraries of the web', ['--module', 'nodenext', '--lib', 'es2023,dom']],
  [
    'resolution of a bundler, libraries of a worker',
    ['--module', 'preserve', '--moduleResolution', 'bundler', '--lib', 'es2023,webworker'],
  ],
])('package: the types compile in an application: %s', async (_name, options) => {
  const flags = ['--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', ...options]
  const command = [...tsc, ...flags, '--noEmit', join(folder, 'application.ts')]
  expect(await runToEnd(command)).toEqual({ exitCode: 0, output: '' })
})

test.each([
  ['Node', 'node'],
  ['Bun', process.execPath],
])('package: an application that uses the package runs to its end in %s', async (_name, runtime) => {
  const flags = ['--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,dom']
  const compiled = await runToEnd([...tsc, ...flags, join(folder, 'application.ts')])
  expect(compiled).toEqual({ exitCode: 0, output: '' })
  const env = { API_URL: api.url, API_KEY: testApiKey }
  const startedAtMs = performance.now()
  const { exitCode, output } = await runToEnd([runtime, join(folder, 'application.js')], env)
  expect(output.trim()).toBe('ran replayed true declined')
  expect(exitCode).toBe(0)
  // The program exits at its end, because no timer or connection keeps the process alive.
  expect(performance.now() - startedAtMs).toBeLessThan(10_000)
})

test('package: contains only the compiled program, its types, the table, the licence and the README', () => {
  const files = readdirSync(join(folder, 'node_modules/@latchkey/client'), { recursive: true }).map(String)
  const others = files.filter((path) => !/^dist(\/[a-z-]+)*(\.generated)?(\.js|\.d\.ts)?$/.test(path))
  expect(others.toSorted()).toEqual(['LICENSE', 'README.md', 'latchkey-outcomes.sql', 'package.json'])
  expect(files.filter((path) => path.includes('.test.'))).toEqual([])
})

test('package: the table definition equals the definition in clients/README.md', () => {
  const behaviour = readFileSync(join(root, 'clients/README.md'), 'utf8')
  const shipped = readFileSync(join(folder, 'node_modules/@latchkey/client/latchkey-outcomes.sql'), 'utf8')
  expect(/```sql\n(.*?)```/s.exec(behaviour)?.[1]).toBe(shipped.replace(/^--.*\n/m, ''))
})

test('package: every entry point loads in Node without the frameworks and drivers that it supports', async () => {
  const manifest = JSON.parse(
    readFileSync(join(folder, 'node_modules/@latchkey/client/package.json'), 'utf8'),
  ) as { readonly exports: Readonly<Record<string, unknown>> }
  const entries = Object.entries(manifest.exports).flatMap(([path, to]) =>
    typeof to === 'object' ? [path] : [],
  )
  expect(entries).toContain('.')
  const lines = entries.map((path) => `await import('@latchkey/client${path.slice(1)}')\n`)
  writeFileSync(join(folder, 'entries.js'), lines.join(''))
  expect(await runToEnd(['node', join(folder, 'entries.js')])).toEqual({ exitCode: 0, output: '' })
})
