import { expect, test } from 'bun:test'
import { hostname } from 'node:os'
import { whoRuns } from './command.ts'

test.each([
  ['USER of the environment', { USER: 'ada', LOGNAME: 'other' }, 'ada'],
  ['LOGNAME where USER is empty', { USER: '', LOGNAME: 'ada' }, 'ada'],
  [
    'the system’s name of the user where the environment has none',
    {},
    Bun.spawnSync(['id', '-un']).stdout.toString().trim(),
  ],
])('audit actor of a command: %s', (_case, env, name) => {
  expect(whoRuns(env)).toBe(`${name}@${hostname()}`)
})

test('audit actor of a command: cut to 200 characters', () => {
  expect(whoRuns({ USER: 'a'.repeat(500) })).toHaveLength(200)
})
