import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OperatorsInFile, parseOperators, tokenDigest } from './operators.ts'

const hash = (token: string) => Buffer.from(tokenDigest(token), 'base64').toString('hex')
const entry = (name: string, more = '') =>
  `- {name: ${name}, roles: [viewer], tokenSha256: ${hash(name)}${more}}`
const listed = (...entries: string[]) => `operators:\n${entries.join('\n')}\n`

test('parseOperators: reads roles, namespaces and the expiry of the token', () => {
  const read = parseOperators(listed(entry('ada', ', namespaces: [shops], expiresAt: 2027-01-31T00:00:00Z')))
  expect(read).toMatchObject({
    kind: 'ok',
    operators: [
      {
        name: 'ada',
        roles: ['viewer'],
        namespaces: ['shops'],
        tokenSha256: tokenDigest('ada'),
        endsAtMs: Date.parse('2027-01-31T00:00:00Z'),
      },
    ],
  })
})

test.each([
  ['text that is not YAML', 'operators: [', 'is not YAML'],
  ['an unknown member', listed(entry('ada', ', password: hunter2')), '/operators/0/password'],
  [
    'an unknown role',
    listed(`- {name: ada, roles: [root], tokenSha256: ${hash('a')}}`),
    '/operators/0/roles/0',
  ],
  ['no role', listed(`- {name: ada, roles: [], tokenSha256: ${hash('a')}}`), '/operators/0/roles'],
  [
    'a token instead of its hash',
    listed('- {name: ada, roles: [viewer], tokenSha256: hunter2}'),
    'tokenSha256',
  ],
  [
    'a name twice',
    listed(entry('ada'), `- {name: ada, roles: [admin], tokenSha256: ${hash('b')}}`),
    'same name',
  ],
  [
    'a token twice',
    listed(entry('ada'), `- {name: bob, roles: [admin], tokenSha256: ${hash('ada')}}`),
    'same tokenSha256',
  ],
  ['an expiry that is not a time', listed(entry('ada', ', expiresAt: tomorrow')), '/operators/0/expiresAt'],
])('parseOperators: %s is reported as a problem whose text quotes no value', (_what, text, expected) => {
  const read = parseOperators(text)
  expect(read).toMatchObject({ kind: 'invalid' })
  const { problem } = read as { problem: string }
  expect(problem).toContain(expected)
  expect(problem).not.toContain('hunter2')
})

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'latchkey-operators-'))
})
afterEach(() => rm(dir, { recursive: true }))

test('operators of a file: a changed file takes effect, and while the file is invalid or missing, its last valid content stays in force', async () => {
  const path = join(dir, 'operators.yaml')
  const results: object[] = []
  const operators = new OperatorsInFile({ path, onRead: (result) => results.push(result) })
  const names = () => ['ada', 'bob'].filter((name) => operators.find(tokenDigest(name))?.name === name)
  await operators.refresh()
  expect(names()).toEqual([])
  await writeFile(path, listed(entry('ada'), entry('bob')))
  await operators.refresh()
  expect(names()).toEqual(['ada', 'bob'])
  await writeFile(path, 'operators: [{}]')
  await operators.refresh()
  await operators.refresh()
  expect(names()).toEqual(['ada', 'bob'])
  await rm(path)
  await operators.refresh()
  expect(names()).toEqual(['ada', 'bob'])
  await writeFile(path, listed(entry('bob')))
  await operators.refresh()
  expect(names()).toEqual(['bob'])
  await chmod(path, 0o666)
  await operators.refresh()
  const problem = (text: string) => ({ problem: expect.stringContaining(text) })
  expect(results).toEqual([
    problem('ENOENT'),
    { count: 2 },
    problem('/operators/0'),
    problem('ENOENT'),
    { count: 1 },
    problem('is writable by other users'),
  ])
})
