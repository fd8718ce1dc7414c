import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { adminToken, startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import { fencesOf } from '#test/support/documents/page.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { until } from '#test/support/until.ts'

const root = resolve(import.meta.dir, '../..')
let backoffice: TestBackoffice
let folder: string
let env: Readonly<Record<string, string>>

beforeAll(async () => {
  backoffice = await startTestBackoffice(readFileSync(join(root, 'config/samples/dev/demo.yaml'), 'utf8'))
  folder = scratchFolder()
  env = {
    PATH: `${folder}:${dirname(compiledProgram())}:${process.env['PATH'] ?? ''}`,
    HOME: folder,
    XDG_CONFIG_HOME: folder,
    LATCHKEY_INTERNAL_URL: backoffice.url,
    LATCHKEY_TOKEN: adminToken,
    LATCHKEY_DATABASE_URL: backoffice.databaseUrl,
  }
})
afterAll(async () => {
  await backoffice.close()
  rmSync(folder, { recursive: true })
})

/** Returns the text of a block by its marker. */
function blockOf(page: string, name: string): string {
  const found = fencesOf(`docs/operate/${page}`).find(({ marker }) => marker?.name === name)
  if (found === undefined) throw new Error(`${page} has no block ${name}`)
  return found.text
}

/** Runs a script in the repository root; returns its output. @throws if a command fails */
async function shell(script: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  return await Bun.$`bash -euc ${script}`
    .cwd(root)
    .env({ ...env, ...more })
    .text()
}

test('install.md: the command that builds the image names the Dockerfile of the repository and both platforms', async () => {
  const standIn = '#!/bin/sh\ntest -f Dockerfile && printf "%s\\n" "$@"\n'
  writeFileSync(join(folder, 'docker'), standIn, { mode: 0o755 })
  const printed = await shell(blockOf('install.md', 'image'), { REGISTRY: 'registry.example' })
  const args = [
    'buildx',
    'build',
    '--platform',
    'linux/amd64,linux/arm64',
    '--tag',
    'registry.example/latchkey:0.1.0',
  ]
  expect(printed.trim().split('\n')).toEqual([...args, '--push', '.'])
})

test('operating.md: the commands list, set and clear settings', async () => {
  const printed = await shell(blockOf('operating.md', 'settings'))
  expect(printed).toContain('forwarding.paused')
  expect(await shell('latchkey settings get log.sampling')).toContain('0.1')
})

test('operating.md: the command counts the events that a replay would send', async () => {
  expect(await shell(blockOf('operating.md', 'replays'))).toMatch(/0|no event/i)
})

test('failures.md: the commands suspend a process with its children, and resume them', async () => {
  const [stop = '', resume = ''] = blockOf('failures.md', 'suspend').trim().split('\n')
  const parent = Bun.spawn(['bash', '-c', 'sleep 60 & echo $!; wait'], { stdout: 'pipe' })
  const reader = parent.stdout.getReader()
  const child = Number(new TextDecoder().decode((await reader.read()).value))
  const stateOf = (pid: number) => /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]
  const both = () => [stateOf(parent.pid), stateOf(child)].join('')
  try {
    await shell(stop, { PID: String(parent.pid) })
    await until('both are suspended', () => both() === 'TT')
    await shell(resume, { PID: String(parent.pid) })
    await until('both run', () => both() === 'SS')
  } finally {
    process.kill(child)
    await parent.exited
  }
})
