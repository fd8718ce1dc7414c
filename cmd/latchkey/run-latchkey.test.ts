import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'

/** Runs the program in its own process, since the library of completions prints to standard output itself. */
function complete(...args: readonly string[]) {
  const child = Bun.spawnSync([compiledProgram(), ...args])
  return { code: child.exitCode, out: child.stdout.toString(), err: child.stderr.toString() }
}

test.each([
  ['commands', ['setti'], 'settings\treads and changes runtime settings'],
  ['subcommands', ['replay', 'ca'], 'cancel\tends a replay'],
  ['options', ['replay', 'start', '--all'], '--all-tenants\tevents of all tenants'],
  ['values of an option', ['replay', 'start', '--state', 'p'], 'processed\t'],
])('latchkey complete: lists %s', (_case, words, line) => {
  const { code, out } = complete('complete', '--', ...words)
  expect(code).toBe(0)
  expect(out).toStartWith(line)
})

test.each(['bash', 'zsh', 'fish'])(
  'latchkey completion: prints a script for %s that calls the program',
  (shell) => {
    const { code, out, err } = complete('completion', shell)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('latchkey complete -- ')
    const checker = Bun.which(shell)
    if (checker === null) return
    const check = Bun.spawnSync([checker, '-n'], { stdin: new TextEncoder().encode(out) })
    expect([check.exitCode, check.stderr.toString()]).toEqual([0, ''])
  },
)

test('latchkey completion: rejects an unknown shell', () => {
  const { code, out, err } = complete('completion', 'tcsh')
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain('Allowed choices are zsh, bash, fish')
})

test('latchkey: the start of a command over HTTP loads no library of stores or Kubernetes', async () => {
  const { metafile } = await Bun.build({
    entrypoints: [resolve(import.meta.dir, 'main.ts')],
    target: 'bun',
    format: 'esm',
    splitting: true,
    metafile: true,
    external: ['supports-color'],
  })
  const outputs = metafile?.outputs ?? {}
  const [entry] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint !== undefined) ?? []
  const loaded = new Set<string>()
  const load = (path: string) => {
    if (loaded.has(path)) return
    loaded.add(path)
    for (const { path: next, kind } of outputs[path]?.imports ?? [])
      if (kind === 'import-statement' && next in outputs) load(next)
  }
  load(entry ?? '')
  const modules = [...loaded].flatMap((path) => Object.keys(outputs[path]?.inputs ?? {}))
  const libraries = modules.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [])
  expect([...new Set(libraries)].toSorted()).toEqual([
    '@bomb.sh/tab',
    '@commander-js/extra-typings',
    '@sinclair/typebox',
    'ajv',
    'commander',
    'fast-deep-equal',
    'fast-uri',
    'json-schema-traverse',
  ])
})
