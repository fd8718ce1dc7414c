import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createScriptLab, writeProgram } from '#test/support/script-path.ts'

const isRoot = process.getuid?.() === 0
const { pathWith, run: ensure, clear } = createScriptLab('cmd/dev/ensure-chromium.ts')
afterEach(clear)

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
    writeProgram(path, 'apt-get', made)
    const { exitCode, said } = ensure(path)
    expect(said.trim()).toBe(`> Chromium: not found, installing Debian's package chromium (apt-get)`)
    expect(exitCode).toBe(0)
  })
else if (process.platform === 'linux')
  test('without it the error names the command to type', () => {
    expect(ensure(pathWith({ 'apt-get': 'exit 1' })).said).toContain('sudo apt-get install chromium')
  })
