import { afterEach, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'

const root = resolve(import.meta.dir, '../..')
const isRoot = process.getuid?.() === 0
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** A folder that is the whole PATH, with small programs in it. */
function pathWith(programs: Readonly<Record<string, string>>): string {
  const path = scratchFolder()
  folders.push(path)
  for (const [name, script] of Object.entries(programs))
    writeFileSync(join(path, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return path
}

function ensure(path: string, env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawnSync([process.execPath, 'cmd/dev/ensure-chromium.ts'], {
    cwd: root,
    env: { PATH: path, ...env },
  })
  return { exitCode: child.exitCode, said: child.stderr.toString() }
}

test.each(['chromium', 'chromium-browser', 'google-chrome'])(
  '%s on the PATH will do, without a word',
  (name) => {
    expect(ensure(pathWith({ [name]: 'exit 0' }))).toEqual({ exitCode: 0, said: '' })
  },
)

test('the one that is named comes before the PATH, and has to be there', () => {
  const path = pathWith({ mine: 'exit 0' })
  expect(ensure(path, { CHROMIUM: join(path, 'mine') })).toEqual({ exitCode: 0, said: '' })
  const { exitCode, said } = ensure(path, { CHROMIUM: join(path, 'other') })
  expect(exitCode).toBe(1)
  expect(said).toContain('set CHROMIUM to the path')
})

if (isRoot)
  test('as root on Debian it is installed, and said so', () => {
    const path = pathWith({})
    const made = `printf '#!/bin/sh\\nexit 0\\n' > ${path}/chromium; /bin/chmod 755 ${path}/chromium`
    writeFileSync(join(path, 'apt-get'), `#!/bin/sh\n${made}\n`, { mode: 0o755 })
    const { exitCode, said } = ensure(path)
    expect(said.trim()).toBe(`> Chromium: not found, installing Debian's package chromium (apt-get)`)
    expect(exitCode).toBe(0)
  })
else if (process.platform === 'linux')
  test('without it the error names the command to type', () => {
    expect(ensure(pathWith({ 'apt-get': 'exit 1' })).said).toContain('sudo apt-get install chromium')
  })
