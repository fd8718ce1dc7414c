import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { settingNames } from '#internal/settings/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startProgram } from '#test/support/api-process.ts'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { latchkey } from '#test/support/latchkey.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'

const tenantId = someTenantId()
let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', 'acme', 'acme', false, '{"callback":{}}', 1, now(), now(), now())`,
    [tenantId],
  )
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE settings')
})

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  latchkey(args, { LATCHKEY_DATABASE_URL: database.url, ...env })

/** Runs the program as from a shell. */
async function spawn(args: readonly string[], env: Record<string, string> = {}) {
  const program = startProgram(['cmd/latchkey/main.ts', ...args], {
    LATCHKEY_DATABASE_URL: database.url,
    ...env,
  })
  const code = await program.exited
  return { code, out: program.output(), err: program.errors() }
}

const json = async (...args: string[]) => JSON.parse((await run(['settings', ...args, '--json'])).out)

describe('latchkey', () => {
  test.each([
    [['--help'], 'Usage: latchkey [options] [command]'],
    [['help'], 'Usage: latchkey [options] [command]'],
    [['api', '--help'], 'Usage: latchkey api [options]'],
    [['migrate', '-h'], 'brings the database’s schema up to date'],
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
    [['settings', 'set', 'log.sampling', '1', '--expect-version', 'x'], 'It has to be a whole number'],
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
  const found = await spawn(['settings', 'get', 'log.sampling'])
  expect(found).toMatchObject({ code: 0, err: '' })
  expect(found.out).toContain('log.sampling = 1')
  const refused = await spawn(['settings', 'set', 'log.sampling', '2'])
  expect(refused).toEqual({ code: 1, out: '', err: '"log.sampling" must be a number from 0 to 1\n' })
  expect(await spawn(['settings'])).toMatchObject({ code: 2, out: '' })
})

describe('latchkey settings', () => {
  test('latchkey settings list: prints every setting with its value, and then the settings of tenants', async () => {
    await run(['settings', 'set', 'log.sampling', '0.5', '--by', 'ada'])
    await run(['settings', 'set', 'forwarding.paused', 'true', '--tenant', tenantId, '--by', 'ada'])
    const { code, out } = await run(['settings', 'list'])
    expect(code).toBe(0)
    for (const name of settingNames) expect(out).toContain(name)
    expect(out).toMatch(/^log\.sampling +0\.5 +version \d+, 20\S+ by ada$/m)
    expect(out).toMatch(/^limits\.locksPerMonth\.hard +none +default$/m)
    expect(out).toMatch(new RegExp(`^${tenantId} +forwarding\\.paused +true +version`, 'm'))
    const ofTenant = await json('list', '--tenant', 'acme')
    expect(ofTenant.map(({ name }: { name: string }) => name)).not.toContain('log.sampling')
    expect(ofTenant[0]).toMatchObject({ name: 'forwarding.paused', tenantId, value: true, updatedBy: 'ada' })
  })

  test('latchkey settings get: prints the value and its meaning', async () => {
    const { out } = await run(['settings', 'get', 'log.sampling'])
    expect(out).toMatch(
      /^log\.sampling = 1 {3}\(the default\)\nShare of log lines .*\nIt has to be a number from 0 to 1\.\n$/,
    )
    expect(await json('get', 'log.sampling')).toMatchObject({
      name: 'log.sampling',
      value: 1,
      default: 1,
      version: 0,
    })
  })

  test('latchkey settings set and clear: change a setting and record the author', async () => {
    const first = await run(['settings', 'set', 'log.sampling', '0.5'])
    expect(first).toMatchObject({ code: 0, err: '' })
    expect(first.out).toMatch(/^log\.sampling = 0\.5 \(was not set\), version \d+: in force within 2 s\n$/)
    const { version, updatedBy } = await json('get', 'log.sampling')
    expect(updatedBy).toMatch(/.@./)
    expect(await json('set', 'log.sampling', '0.25', '--expect-version', String(version))).toMatchObject({
      name: 'log.sampling',
      old: 0.5,
      new: 0.25,
    })
    expect((await run(['settings', 'clear', 'log.sampling'])).out).toBe(
      'log.sampling is cleared (was 0.25)\n',
    )
    expect((await run(['settings', 'clear', 'log.sampling'])).out).toBe('log.sampling was not set\n')
  })

  test.each([
    [['set', 'log.sample', '1'], 'There is no setting of that name: did you mean log.sampling?'],
    [['get', 'log.sample'], 'There is no setting of that name: did you mean log.sampling?'],
    [['set', 'log.sampling', 'half'], '"log.sampling" must be a number from 0 to 1'],
    [
      ['set', 'log.sampling', '1', '--tenant', 'acme'],
      'log.sampling holds for the whole installation: leave the tenant out',
    ],
    [['set', 'forwarding.paused', 'true', '--tenant', 'nobody'], 'No tenant has that id or slug'],
    [['set', 'log.sampling', '1', '--by', ''], 'The actor must be named, in 1 to 200 printable characters'],
    [
      ['set', 'log.sampling', '1', '--expect-version', '7'],
      'log.sampling is not at that version: now it is not set. Nothing was written',
    ],
  ])('latchkey settings %j: fails with the message %j', async (args, text) => {
    expect(await run(['settings', ...args])).toEqual({ code: 1, out: '', err: `${text}\n` })
    expect(await json(...args)).toEqual({ problem: text })
  })

  test('latchkey settings: its errors name a missing variable, an unavailable Postgres and a missing schema', async () => {
    const missing = await run(['settings', 'list'], { LATCHKEY_DATABASE_URL: '' })
    expect(missing.code).toBe(2)
    expect(missing.err).toContain('LATCHKEY_DATABASE_URL is missing')
    const away = await run(['settings', 'list'], {
      LATCHKEY_DATABASE_URL: 'postgres://u:hidden@127.0.0.1:9/x',
    })
    expect(away.code).toBe(1)
    expect(away.err).toMatch(/^The command failed: .*ECONNREFUSED/)
    expect(away.err).not.toContain('hidden')
    const empty = await createTestDatabase()
    const { code, err } = await run(['settings', 'list'], { LATCHKEY_DATABASE_URL: empty.url })
    await empty.drop()
    expect(code).toBe(1)
    expect(err).toContain('run latchkey migrate first')
  })

  test('latchkey settings: works while Redis is unavailable', async () => {
    const env = { LATCHKEY_REDIS_URL: 'redis://127.0.0.1:9' }
    expect(await run(['settings', 'set', 'log.sampling', '0.5'], env)).toMatchObject({ code: 0, err: '' })
  })
})
