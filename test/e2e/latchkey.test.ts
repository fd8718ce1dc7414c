import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { startLatchkey } from '#test/support/processes/api-process.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import type { TestDatabase } from '#test/support/stores.ts'

let database: TestDatabase
let home: string
beforeAll(async () => {
  database = await createMigratedDatabase()
  home = mkdtempSync(join(tmpdir(), 'latchkey-home-'))
})
afterAll(async () => {
  await database.drop()
  rmSync(home, { recursive: true })
})

const run = (args: readonly string[]) => latchkey(args, {})

/** Runs the program as from a shell. */
async function spawn(args: readonly string[]) {
  const env = { LATCHKEY_DATABASE_URL: database.url, XDG_CONFIG_HOME: home }
  const program = startLatchkey(args, env)
  const code = await program.exited
  return { code, out: program.output(), err: program.errors() }
}

describe('latchkey', () => {
  test.each([
    [['--help'], 'Usage: latchkey [options] [command]'],
    [['help'], 'Usage: latchkey [options] [command]'],
    [['api', '--help'], 'Usage: latchkey api [options]'],
    [['migrate', '-h'], 'migrates the database schema, then ends'],
    [['settings', '--help'], 'list [options] '],
    [['settings', 'set', '--help'], '--expect-version <n>'],
    [['help', 'settings'], 'list [options] '],
    [['--version'], '.'],
  ])('latchkey %j: prints %j', async (args, text) => {
    const { code, out, err } = await run(args)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(text)
  })

  test.each([
    [[], 'Usage: latchkey'],
    [['serve'], "unknown command 'serve'"],
    [['setings', 'list'], 'Did you mean settings?'],
    [['constructor'], "unknown command 'constructor'"],
    [['api', 'now'], 'too many arguments'],
    [['settings'], 'Usage: latchkey settings'],
    [['settings', 'put', 'a', 'b'], "unknown command 'put'"],
    [['settings', 'set', 'log.sampling'], "missing required argument 'value'"],
    [['settings', 'list', 'log.sampling'], 'too many arguments'],
    [['settings', 'get', 'log.sampling', '--by', 'ada'], "unknown option '--by'"],
    [['settings', 'set', 'log.sampling', '1', '--expect-version', 'x'], 'It must be a whole number'],
    [['settings', 'list', '--colour'], '--colour'],
  ])('latchkey %j: is refused with the message %j', async (args, text) => {
    const { code, out, err } = await run(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(text)
    expect(err).toContain('--help')
  })

  test('latchkey: runs a process and returns the exit code of that process', async () => {
    expect(await spawn(['migrate'])).toMatchObject({ code: 0, err: '' })
    const { code, err } = await spawn(['forwarder'])
    expect(code).toBe(2)
    expect(err).toContain('LATCHKEY_KEY_RING is missing')
  })
})

test('latchkey: prints results to standard output and errors to standard error, with matching exit codes', async () => {
  const completed = await spawn(['completion', 'bash'])
  expect(completed).toMatchObject({ code: 0, err: '' })
  expect(completed.out).toContain('complete')
  const refused = await spawn(['settings', 'list'])
  expect(refused).toMatchObject({ code: 4, out: '' })
  expect(refused.err).toContain('latchkey login --internal')
  expect(await spawn(['settings'])).toMatchObject({ code: 2, out: '' })
})
