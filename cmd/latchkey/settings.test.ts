import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { settingNames } from '#internal/settings/index.ts'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())
beforeEach(async () => {
  await lab.backoffice.pool.query('TRUNCATE settings, audit')
})

const run = (...args: string[]) => lab.run('settings', ...args)
const json = (...args: string[]) => lab.json('settings', ...args)

test('latchkey settings list: prints every setting with its value, and then the settings of individual tenants', async () => {
  await run('set', 'log.sampling', '0.5')
  await run('set', 'forwarding.paused', 'true', '--tenant', 'shops/acme')
  const { tenantId } = lab.seeded.acme
  const { code, out } = await run('list')
  expect(code).toBe(0)
  for (const name of settingNames) expect(out).toContain(name)
  expect(out).toMatch(/^log\.sampling +0\.5 +\d+ +20\S+Z +operator:dev$/m)
  expect(out).toMatch(/^limits\.locksPerMonth\.hard +none +default$/m)
  expect(out).toMatch(new RegExp(`^${tenantId} +forwarding\\.paused +true +\\d+ +20`, 'm'))
  const all = await lab.json<Record<string, unknown>[]>('settings', 'list')
  expect(all.at(-1)).toMatchObject({
    tenantId,
    name: 'forwarding.paused',
    value: true,
    updatedBy: 'operator:dev',
  })
  expect(all.filter((each) => 'tenantId' in each)).toHaveLength(1)
})

test('latchkey settings list --tenant: prints the settings that can be set for a tenant', async () => {
  await run('set', 'forwarding.paused', 'true', '--tenant', 'acme')
  const listed = await lab.json<{ name: string }[]>('settings', 'list', '--tenant', 'acme')
  expect(listed.map(({ name }) => name)).not.toContain('log.sampling')
  expect(listed[0]).toMatchObject({
    name: 'forwarding.paused',
    tenantId: lab.seeded.acme.tenantId,
    value: true,
  })
  expect((await run('get', 'forwarding.paused', '--tenant', 'rival')).out).toContain(
    'forwarding.paused = false   (the default)\n',
  )
})

test('latchkey settings get: prints the value and its meaning', async () => {
  const { out } = await run('get', 'log.sampling')
  expect(out).toMatch(
    /^log\.sampling = 1 {3}\(the default\)\nShare of log lines .*\nIt must be a number from 0 to 1\.\n$/,
  )
  expect(await json('get', 'log.sampling')).toMatchObject({
    name: 'log.sampling',
    value: 1,
    default: 1,
    version: 0,
  })
})

test('latchkey settings set and clear: change a setting, and the audit log names the caller', async () => {
  const first = await run('set', 'log.sampling', '0.5')
  expect(first).toMatchObject({ code: 0, err: '' })
  expect(first.out).toMatch(/^log\.sampling = 0\.5 \(was not set\), version \d+: effective within 2 s\n$/)
  expect((await run('set', 'log.sampling', '0.5')).out).toContain('nothing was written')
  const { version, updatedBy } = await json('get', 'log.sampling')
  expect(updatedBy).toBe('operator:dev')
  expect(await json('set', 'log.sampling', '0.25', '--expect-version', String(version))).toMatchObject({
    name: 'log.sampling',
    previousValue: 0.5,
    isNew: true,
  })
  expect((await run('clear', 'log.sampling')).out).toBe('log.sampling is cleared (was 0.25)\n')
  expect((await run('clear', 'log.sampling')).out).toBe('log.sampling was not set\n')
  expect((await run('set', 'forwarding.paused', 'true', '--tenant', 'acme')).code).toBe(0)
  expect((await run('clear', 'forwarding.paused', '--tenant', 'acme')).out).toContain('(was true)')
  const { rows } = await lab.backoffice.pool.query(
    "SELECT actor, action, tenant_id FROM audit WHERE action LIKE 'settings.%' ORDER BY id",
  )
  const { tenantId } = lab.seeded.acme
  expect(rows).toEqual([
    ...['set', 'set', 'cleared'].map((did) => ({
      actor: 'operator:dev',
      action: `settings.${did}`,
      tenant_id: null,
    })),
    ...['set', 'cleared'].map((did) => ({
      actor: 'operator:dev',
      action: `settings.${did}`,
      tenant_id: tenantId,
    })),
  ])
})

test.each([
  [['set', 'log.sample', '1'], 3, 'There is no setting of that name: did you mean log.sampling?'],
  [['get', 'log.sample'], 3, 'There is no setting of that name: did you mean log.sampling?'],
  [['set', 'log.sampling', 'half'], 1, '"log.sampling" must be a number from 0 to 1'],
  [
    ['set', 'log.sampling', '1', '--tenant', 'acme'],
    3,
    'log.sampling applies to the whole installation only',
  ],
  [['set', 'forwarding.paused', 'true', '--tenant', 'nobody'], 3, '(not_found, request '],
  [['set', 'log.sampling', '0.5', '--expect-version', '7'], 1, 'it is not set. Nothing was written'],
  [['clear', 'log.sampling', '--by', 'ada'], 2, "unknown option '--by'"],
])('latchkey settings %j: ends with exit code %d and prints %j', async (args, exitCode, text) => {
  const { code, out, err } = await run(...args)
  expect({ code, out }).toEqual({ code: exitCode, out: '' })
  expect(err).toContain(text)
})

test('latchkey settings: without a token, prints how to log in, and a caller without the permission is refused', async () => {
  const { LATCHKEY_TOKEN: _token, LATCHKEY_INTERNAL_URL: _url, ...env } = lab.env()
  const stranger = await latchkey(['settings', 'list'], env)
  expect([stranger.code, stranger.err]).toEqual([4, expect.stringContaining('latchkey login --internal')])
  const byKey = { ...lab.env(), LATCHKEY_TOKEN: dashboardKey('acme') }
  expect((await latchkey(['settings', 'set', 'log.sampling', '1'], byKey)).code).toBe(4)
})
