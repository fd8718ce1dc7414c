import { expect, test } from 'bun:test'
import { resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')

/** Runs the program in its own process, since the library of completions prints to standard output itself. */
function complete(...args: readonly string[]) {
  const child = Bun.spawnSync([process.execPath, 'cmd/latchkey/main.ts', ...args], { cwd: root })
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
