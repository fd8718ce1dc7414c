import { expect, test } from 'bun:test'
import { hostname } from 'node:os'
import { whoRuns } from './stores.ts'

test.each([
  ['the environment variable USER', { USER: 'ada', LOGNAME: 'other' }, 'ada'],
  ['LOGNAME if USER is empty', { USER: '', LOGNAME: 'ada' }, 'ada'],
  [
    'the system’s name of the user if the environment names no user',
    {},
    Bun.spawnSync(['id', '-un']).stdout.toString().trim(),
  ],
])('audit actor of a command: contains %s', (_case, env, name) => {
  expect(whoRuns(env)).toBe(`${name}@${hostname()}`)
})

test('audit actor of a command: is truncated to 200 characters', () => {
  expect(whoRuns({ USER: 'a'.repeat(500) })).toHaveLength(200)
})
