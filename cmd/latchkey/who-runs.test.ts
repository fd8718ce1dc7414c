import { expect, test } from 'bun:test'
import { hostname } from 'node:os'
import { whoRuns } from './who-runs.ts'

test.each([
  ['the user that is logged in', { USER: 'ada', LOGNAME: 'other' }, 'ada'],
  ['who logged in, where that is all there is', { USER: '', LOGNAME: 'ada' }, 'ada'],
  [
    'whom the system names, where the environment names nobody',
    {},
    Bun.spawnSync(['id', '-un']).stdout.toString().trim(),
  ],
])('a command is noted as done by %s', (_case, env, name) => {
  expect(whoRuns(env)).toBe(`${name}@${hostname()}`)
})

test('a name is cut to what the audit log takes', () => {
  expect(whoRuns({ USER: 'a'.repeat(500) })).toHaveLength(200)
})
