import { afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createScriptLab, writeProgram } from '#test/support/script-path.ts'
import { readVersion } from './redis-program.ts'

const isRoot = process.getuid?.() === 0
const { pathWith, run, clear } = createScriptLab('cmd/dev/ensure-redis.ts')
const ensure = (path: string) => run(path, { HOME: process.env['HOME'] })
afterEach(clear)

const server = (version: string) => `echo "Redis server v=${version} sha=00000000:0 malloc=libc bits=64"`

test.each([
  ['Redis 7', 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1', '7.0.15'],
  ['Redis 6', 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=2', '6.0.16'],
  ['Valkey', 'Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=3', '8.1.1'],
  ['something else', 'usage: redis-server', undefined],
])('the version is read: %s', (_case, text, expected) => {
  expect(readVersion(text)).toBe(expected)
})

describe('on the PATH', () => {
  test.each([
    ['redis-server 7', { 'redis-server': server('7.0.0') }],
    ['valkey-server', { 'valkey-server': server('8.0.0') }],
    [
      'an old redis-server beside valkey-server',
      { 'redis-server': server('6.2.0'), 'valkey-server': server('8.0.0') },
    ],
  ])('%s will do, without a word', (_case, programs) => {
    expect(ensure(pathWith(programs))).toEqual({ exitCode: 0, said: '' })
  })

  test('a version that is too old is refused by its path and version', () => {
    const path = pathWith({ 'redis-server': server('6.2.14') })
    const { exitCode, said } = ensure(path)
    expect(exitCode).toBe(1)
    expect(said).toStartWith(`${path}/redis-server is version 6.2.14, and 7.0 or newer is needed.`)
    expect(said).toContain('LATCHKEY_REDIS_URL')
  })

  test('nothing, on a system that we do not know, is an error that names both ways out', () => {
    const { exitCode, said } = ensure(pathWith({}))
    expect(exitCode).toBe(1)
    expect(said).toContain('neither redis-server nor valkey-server is on the PATH. Install it:')
    expect(said).toContain('LATCHKEY_REDIS_URL')
  })
})

if (isRoot)
  test('as root on Debian it is installed, after the package lists if they are stale, and said so', () => {
    const path = pathWith({})
    const log = join(path, 'apt.log')
    const made = `printf '#!/bin/sh\\n%s\\n' '${server('7.0.15')}' > ${path}/redis-server`
    // Stands for apt-get: knows the package once the lists were fetched.
    const apt = `echo "$*" >> ${log}
case "$*" in
  *update*) echo fetched > ${path}/lists ;;
  *install*) [ -e ${path}/lists ] || exit 100; ${made}; /bin/chmod 755 ${path}/redis-server ;;
esac`
    writeProgram(path, 'apt-get', apt)
    const { exitCode, said } = ensure(path)
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
  test('on Debian, the error names the command to type', () => {
    expect(ensure(pathWith({ 'apt-get': 'exit 1' })).said).toContain('sudo apt-get install redis-server')
  })
