import { afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { usualCases } from '#test/support/nightly.ts'
import { createScriptLab, writeProgram } from '#test/support/processes/script-path.ts'
import { readVersion } from './programs.ts'

const isRoot = process.getuid?.() === 0
const { pathWith, run, clear } = createScriptLab('cmd/dev/ensure.ts')
const ensureRedis = (path: string) => run(path, ['redis'], { HOME: process.env['HOME'] })
const ensureChromium = (path: string, env = {}) => run(path, ['chromium'], env)
const ensurePython = (path: string) => run(path, ['python-client'])
afterEach(clear)

const server = (version: string) => `echo "Redis server v=${version} sha=00000000:0 malloc=libc bits=64"`

test.each([
  ['Redis 7', 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1', '7.0.15'],
  ['Redis 6', 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=2', '6.0.16'],
  ['Valkey', 'Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=3', '8.1.1'],
  ['something else', 'usage: redis-server', undefined],
])('redis version: is parsed from the output of %s', (_case, text, expected) => {
  expect(readVersion(text)).toBe(expected)
})

describe('redis on the PATH', () => {
  test.each([
    ['redis-server 7', { 'redis-server': server('7.0.0') }],
    ['valkey-server', { 'valkey-server': server('8.0.0') }],
    [
      'an old redis-server together with a valkey-server',
      { 'redis-server': server('6.2.0'), 'valkey-server': server('8.0.0') },
    ],
  ])('redis program: %s is accepted without output', (_case, programs) => {
    expect(ensureRedis(pathWith(programs))).toEqual({ exitCode: 0, said: '' })
  })

  test('redis program: a version that is too old is refused with its path and version', () => {
    const path = pathWith({ 'redis-server': server('6.2.14') })
    const { exitCode, said } = ensureRedis(path)
    expect(exitCode).toBe(1)
    expect(said).toStartWith(`${path}/redis-server is version 6.2.14, but 7.0 or newer is needed.`)
    expect(said).toContain('LATCHKEY_REDIS_URL')
  })

  test('redis program: without Redis on an unknown system, the error names both remedies', () => {
    const { exitCode, said } = ensureRedis(pathWith({}))
    expect(exitCode).toBe(1)
    expect(said).toContain('neither redis-server nor valkey-server is on the PATH. Install it:')
    expect(said).toContain('LATCHKEY_REDIS_URL')
  })
})

if (isRoot)
  test('redis program: root on Debian installs Redis after updating stale package lists, with progress lines', () => {
    const path = pathWith({})
    const log = join(path, 'apt.log')
    const made = `printf '#!/bin/sh\\n%s\\n' '${server('7.0.15')}' > ${path}/redis-server`
    // Replaces apt-get: finds the package only after the package lists were updated.
    const apt = `echo "$*" >> ${log}
case "$*" in
  *update*) echo fetched > ${path}/lists ;;
  *install*) [ -e ${path}/lists ] || exit 100; ${made}; /bin/chmod 755 ${path}/redis-server ;;
esac`
    writeProgram(path, 'apt-get', apt)
    const { exitCode, said } = ensureRedis(path)
    expect(said.trim().split('\n')).toEqual([
      `> Redis: not found, installing Debian's package redis-server (apt-get)`,
      '> Redis: refreshing the package lists (apt-get update)',
    ])
    expect(exitCode).toBe(0)
    const calls = readFileSync(log, 'utf8').trim().split('\n')
    expect(calls.map((call) => call.split(' ').find((word) => /^[a-z]/.test(word)))).toEqual([
      'install',
      'update',
      'install',
    ])
  })
else if (process.platform === 'linux')
  test('redis program: on Debian without root, the error names the command to run', () => {
    expect(ensureRedis(pathWith({ 'apt-get': 'exit 1' })).said).toContain('sudo apt-get install redis-server')
  })

test.each(usualCases(['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'], 1))(
  'chromium program: %s on the PATH is accepted without output',
  (name) => {
    expect(ensureChromium(pathWith({ [name]: 'exit 0' }))).toEqual({ exitCode: 0, said: '' })
  },
)

test('chromium program: the program in CHROMIUM takes precedence over the PATH, and must exist', () => {
  const path = pathWith({ mine: 'exit 0' })
  expect(ensureChromium(path, { CHROMIUM: join(path, 'mine') })).toEqual({ exitCode: 0, said: '' })
  const { exitCode, said } = ensureChromium(path, { CHROMIUM: join(path, 'other') })
  expect(exitCode).toBe(1)
  expect(said).toContain('set CHROMIUM to the path')
})

if (isRoot)
  test('chromium program: root on Debian installs Chromium, with a progress line', () => {
    const path = pathWith({})
    const made = `printf '#!/bin/sh\\nexit 0\\n' > ${path}/chromium; /bin/chmod 755 ${path}/chromium`
    writeProgram(path, 'apt-get', made)
    const { exitCode, said } = ensureChromium(path)
    expect(said.trim()).toBe(
      `> Chromium: not found, installing Debian's package chromium-headless-shell (apt-get)`,
    )
    expect(exitCode).toBe(0)
  })
else if (process.platform === 'linux')
  test('chromium program: without root, the error names the command to run', () => {
    expect(ensureChromium(pathWith({ 'apt-get': 'exit 1' })).said).toContain('sudo apt-get install chromium')
  })

if (isRoot)
  test('python program: root on Debian installs python3-venv if python3 lacks venv, and the error of a failed installation names the command', () => {
    const path = pathWith({ python3: 'exit 1', 'apt-get': 'exit 1' })
    const { exitCode, said } = ensurePython(path)
    expect(said.trim().split('\n')).toEqual([
      `> Python: not found, installing Debian's package python3-venv (apt-get)`,
      '> Python: refreshing the package lists (apt-get update)',
      'apt-get could not install python3-venv; run apt-get install python3-venv to see why',
    ])
    expect(exitCode).toBe(1)
  })
else if (process.platform === 'linux')
  test('python program: without root, the error names the command to run', () => {
    expect(ensurePython(pathWith({ 'apt-get': 'exit 1' })).said).toContain(
      'sudo apt-get install python3-venv',
    )
  })
