import { beforeAll, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { readConfig } from '#internal/config/index.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { buildMsMax, tool } from './chart.ts'
import { run, runProgram } from './program.ts'

const config = resolve(import.meta.dir, '../../config')
const compose = readFileSync(join(config, 'compose.yaml'), 'utf8')
const unit = readFileSync(join(config, 'systemd/latchkey.service'), 'utf8')
const keyRing = `test:${Buffer.alloc(32, 7).toString('base64')}`
/** What the user writes into `.env`. */
const given = { POSTGRES_PASSWORD: 'test', LATCHKEY_KEY_RING: keyRing }

beforeAll(async () => {
  await run([`${import.meta.dir}/build`, 'compose'])
}, buildMsMax)

/** Runs a check on a file of this name and text. */
async function check(name: string, text: string, command: (path: string) => readonly string[]) {
  const folder = scratchFolder()
  const path = join(folder, name)
  writeFileSync(path, text)
  const { exitCode, out, err } = await runProgram(command(path))
  rmSync(folder, { recursive: true })
  return { exitCode, text: out + err }
}

const loadCompose = (text: string, env: Readonly<Record<string, string>> = given) =>
  check('compose.yaml', text, (path) => [
    'env',
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    tool('compose'),
    path,
  ])
const verifyUnit = (text: string) =>
  check('latchkey.service', text, (path) => [join(import.meta.dir, 'check-unit'), path])

test('compose.yaml: conforms to the Compose Specification', async () => {
  expect(await loadCompose(compose)).toEqual({ exitCode: 0, text: 'latchkey\npostgres\nredis\n' })
})

test('compose.yaml: the error names the variables that are not set', async () => {
  const { exitCode, text } = await loadCompose(compose, {})
  expect(exitCode).toBe(1)
  for (const name of Object.keys(given)) expect(text).toContain(`required variable ${name}`)
})

test('compose.yaml: a misspelled field is found', async () => {
  const { exitCode, text } = await loadCompose(compose.replace('restart:', 'restarts:'))
  expect(exitCode).toBe(1)
  expect(text).toContain('services.latchkey.restarts')
})

test('compose.yaml: the environment of latchkey is a valid configuration of latchkey run', () => {
  const { services } = parse(compose) as { services: { latchkey: { environment: Record<string, string> } } }
  const env = Object.fromEntries(
    Object.entries(services.latchkey.environment).map(([name, text]) => [
      name,
      text.replace(/\$\{(\w+):[-?][^}]*\}/g, (_all, variable: keyof typeof given) => given[variable] ?? ''),
    ]),
  )
  expect(readConfig(env, { process: 'run' })).toMatchObject({ kind: 'ok' })
})

test('latchkey.service: is accepted as valid by systemd', async () => {
  expect(await verifyUnit(unit)).toEqual({ exitCode: 0, text: '' })
})

test.each([
  ['an unknown directive', unit.replace('RestartSec=', 'RestartSecs=')],
  ['a value of the wrong form', unit.replace('TimeoutStopSec=30', 'TimeoutStopSec=soon')],
])('latchkey.service: %s is found', async (_case, text) => {
  const { exitCode, text: findings } = await verifyUnit(text)
  expect(exitCode).toBe(1)
  expect(findings).toContain('latchkey.service')
})

test('latchkey.service: its environment is a valid configuration of latchkey run', () => {
  const folder = scratchFolder()
  const ring = join(folder, 'key-ring')
  writeFileSync(ring, `${keyRing}\n`, { mode: 0o600 })
  const lines = readFileSync(join(config, 'systemd/latchkey.env'), 'utf8').split('\n')
  const env = Object.fromEntries(
    lines.flatMap((line) => (/^\w+=/.test(line) ? [line.split(/=(.*)/).slice(0, 2)] : [])),
  ) as Record<string, string>
  const read = readConfig({ ...env, LATCHKEY_KEY_RING_FILE: ring }, { process: 'run' })
  expect(read).toMatchObject({ kind: 'ok', config: { keyRing } })
  rmSync(folder, { recursive: true })
})
