import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OperatorsInFile, tokenDigest } from '#internal/access/index.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'

let folder: string
let path: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'latchkey-operators-'))
  path = join(folder, 'operators.yaml')
})
afterAll(() => rmSync(folder, { recursive: true }))
beforeEach(() => rmSync(path, { force: true }))

const run = (...args: readonly string[]) =>
  latchkey(['operators', ...args], { LATCHKEY_OPERATORS_FILE: path })

/** Returns the operator of a token as the service reads the file. */
async function operatorOf(token: string) {
  const problems: string[] = []
  const operators = new OperatorsInFile({
    path,
    onRead: (result) => void ('problem' in result && problems.push(result.problem)),
  })
  await operators.refresh()
  expect(problems).toEqual([])
  return operators.find(tokenDigest(token))
}

test('latchkey operators: the service accepts the printed token until the token is replaced or the operator removed', async () => {
  const added = await run('add', 'ada', '--role', 'viewer', 'support', '--namespace', 'shops')
  expect(added).toMatchObject({ code: 0, err: expect.stringContaining('shown only once') })
  const token = added.out.trim()
  expect(await operatorOf(token)).toMatchObject({ name: 'ada' })
  expect(readFileSync(path, 'utf8')).not.toContain(token)
  const { token: next } = JSON.parse((await run('add', 'ada', '--role', 'admin', '--json')).out)
  expect([await operatorOf(token), await operatorOf(next)]).toMatchObject([undefined, { name: 'ada' }])
  await run('add', 'ben', '--role', 'viewer', '--expires', '2099-01-31T00:00:00Z')
  const { out } = await run('list')
  expect(out).toMatch(/^ada +admin +all *$/m)
  expect(out).toMatch(/^ben +viewer +all +2099-01-31T00:00:00Z$/m)
  const listed = JSON.parse((await run('list', '--json')).out)
  expect(listed).toEqual([
    { name: 'ada', roles: ['admin'] },
    { name: 'ben', roles: ['viewer'], expiresAt: '2099-01-31T00:00:00Z' },
  ])
  expect((await run('remove', 'ada')).out).toBe('The operator ada is removed\n')
  expect(await operatorOf(next)).toBeUndefined()
  expect(await run('remove', 'ada')).toMatchObject({ code: 3, out: '' })
})

test('latchkey operators: keeps the permissions and the group of the file, and leaves no other file', async () => {
  await run('add', 'ada', '--role', 'viewer')
  chmodSync(path, 0o600)
  // Uses another group only as root, since no other user can give a file to a group that it is not in.
  const group = process.getuid?.() === 0 ? 65_534 : statSync(path).gid
  chownSync(path, statSync(path).uid, group)
  await run('add', 'ben', '--role', 'viewer')
  expect([statSync(path).mode & 0o777, statSync(path).gid]).toEqual([0o600, group])
  expect(existsSync(`${path}.${process.pid}`)).toBe(false)
})

test.each([
  [['add', 'a b', '--role', 'viewer'], 2, 'A name has at most 100 letters'],
  [['add', 'ada', '--role', 'king'], 2, 'Allowed choices are viewer'],
  [['add', 'ada', '--role', 'viewer', '--expires', 'soon'], 2, 'It must be a time such as'],
  [['add', 'ada'], 2, "required option '--role <role...>' not specified"],
])('latchkey operators %j: ends with exit code %d and writes nothing', async (args, exitCode, text) => {
  const { code, out, err } = await run(...args)
  expect({ code, out }).toEqual({ code: exitCode, out: '' })
  expect(err).toContain(text)
  expect(existsSync(path)).toBe(false)
})

test('latchkey operators: does not change a file that cannot be parsed, and the error names the file', async () => {
  writeFileSync(path, 'operators: [{name: ada}]\n')
  const { code, err } = await run('add', 'ben', '--role', 'viewer')
  expect([code, err]).toEqual([1, expect.stringContaining(path)])
  expect(readFileSync(path, 'utf8')).toBe('operators: [{name: ada}]\n')
})
