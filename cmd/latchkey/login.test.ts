import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { adminToken } from '#test/support/backoffice.ts'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'

let lab: CommandLab
let path: string
let env: Record<string, string>
beforeAll(async () => {
  lab = await startCommandLab()
  env = { XDG_CONFIG_HOME: lab.configFolder }
  path = join(lab.configFolder, 'latchkey', 'profiles.json')
}, 30_000)
afterAll(() => lab.close())
beforeEach(() => rmSync(dirname(path), { recursive: true, force: true }))

const acmeKey = dashboardKey('acme')
const stored = () => JSON.parse(readFileSync(path, 'utf8')).profiles

/** Logs in with a key on standard input. */
const logIn = (key: string, ...args: readonly string[]) =>
  latchkey(['login', '--url', lab.api.url, ...args], env, { text: `${key}\n` })

function writeFile(text: string, mode = 0o600) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text, { mode })
}

describe('latchkey login', () => {
  test('latchkey login: stores a key from standard input in a file that only its owner can read, and later commands use this key', async () => {
    const { code, out, err } = await logIn(acmeKey)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toBe(`Logged in to ${lab.api.url} as the profile default\n`)
    expect(stored()).toEqual({ default: { public: { url: lab.api.url, credential: acmeKey } } })
    expect([statSync(path).mode & 0o777, statSync(dirname(path)).mode & 0o777]).toEqual([0o600, 0o700])
    expect(await latchkey(['usage'], env)).toMatchObject({ code: 0, err: '' })
  })

  test('latchkey login: asks for the key at a terminal without showing it', async () => {
    const questions: unknown[] = []
    const ask = (question: unknown) => {
      questions.push(question)
      return Promise.resolve(acmeKey)
    }
    const { code, out } = await latchkey(['login', '--url', lab.api.url, '--json'], env, { ask })
    expect([code, JSON.parse(out)]).toEqual([0, { profile: 'default', api: 'public', url: lab.api.url }])
    expect(questions).toEqual([{ text: 'API key: ', isSecret: true }])
  })

  test('latchkey login: reads the key from the environment, and the URL from the environment or the profile', async () => {
    const given = { ...env, LATCHKEY_API_KEY: acmeKey }
    const ask = () => Promise.reject(new Error('asked'))
    expect((await latchkey(['login'], { ...given, LATCHKEY_URL: lab.api.url }, { ask })).code).toBe(0)
    expect((await latchkey(['login'], given, { ask })).code).toBe(0)
    expect((await latchkey(['login', '--profile', 'other'], given, { ask })).code).toBe(2)
  })

  test('latchkey login --internal: stores a token in the same profile as the key', async () => {
    await logIn(acmeKey, '--profile', 'test')
    const args = ['login', '--internal', '--url', lab.backoffice.url, '--profile', 'test']
    expect((await latchkey(args, env, { text: adminToken })).code).toBe(0)
    expect(stored()['test']).toEqual({
      public: { url: lab.api.url, credential: acmeKey },
      internal: { url: lab.backoffice.url, credential: adminToken },
    })
    expect((await latchkey(['tenants', 'list', '--profile', 'test'], env)).out).toContain('shops/acme')
  })

  test('latchkey login: refuses a key that the service does not know, and stores nothing', async () => {
    const { code, out, err } = await logIn('lk_unknown_0123456789abcdef0123456789')
    expect({ code, out }).toEqual({ code: 4, out: '' })
    expect(err).not.toContain('lk_unknown')
    expect(() => stored()).toThrow()
  })

  test('latchkey login: stores a key without the scope for events, and prints a warning', async () => {
    const { code, out } = await logIn(dashboardKey('plain'))
    expect(code).toBe(0)
    expect(out).toContain(
      'Not every command can use it: This call needs an API key with the scope events or events:read: add it to',
    )
    expect(stored()['default'].public.credential).toBe(dashboardKey('plain'))
  })

  test.each([
    [
      'an unreachable service',
      ['--url', 'http://127.0.0.1:9'],
      acmeKey,
      5,
      'cannot be reached: ECONNREFUSED',
    ],
    ['an empty key', [], '', 2, 'API key expected'],
    ['a key with spaces', [], 'lk_a b', 2, 'API key expected'],
    ['no URL', undefined, acmeKey, 2, 'give --url URL'],
    [
      'a URL with a password',
      ['--url', 'http://u:p@127.0.0.1:1'],
      acmeKey,
      2,
      'without user, query and fragment',
    ],
    ['a URL of another scheme', ['--url', 'ftp://127.0.0.1'], acmeKey, 2, 'must be an http or https URL'],
    ['a name of a profile with a slash', ['--profile', 'a/b'], acmeKey, 2, 'letters, digits'],
    ['a key as an argument', [acmeKey], '', 2, 'too many arguments'],
  ] as const)('latchkey login: refuses %s', async (_case, args, key, exitCode, text) => {
    const url = args === undefined ? [] : ['--url', lab.api.url]
    const { code, out, err } = await latchkey(['login', ...url, ...(args ?? [])], env, { text: key })
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(text)
    expect(() => stored()).toThrow()
  })
})

describe('profiles', () => {
  test('profiles: --profile takes precedence over the environment, which takes precedence over the active profile', async () => {
    await logIn(acmeKey, '--profile', 'acme')
    await logIn(dashboardKey('reader'))
    const tenantOf = async (args: readonly string[], more: Record<string, string> = {}) => {
      const { out } = await latchkey(['events', 'list', '--limit', '1', '--json', ...args], {
        ...env,
        ...more,
      })
      return JSON.parse(out)[0].tenantId
    }
    const { acme, reader, rival } = lab.seeded
    const rivalEnv = { LATCHKEY_API_KEY: dashboardKey('rival') }
    expect(await tenantOf([])).toBe(reader.tenantId)
    expect(await tenantOf([], { LATCHKEY_PROFILE: 'acme' })).toBe(acme.tenantId)
    expect(await tenantOf([], { LATCHKEY_PROFILE: 'acme', ...rivalEnv })).toBe(rival.tenantId)
    expect(await tenantOf(['--profile', 'acme'], rivalEnv)).toBe(acme.tenantId)
  })

  test('profiles: a stored key is never sent to another address', async () => {
    await logIn(acmeKey)
    let calls = 0
    using server = Bun.serve({ port: 0, fetch: () => new Response(String((calls += 1))) })
    const { code, err } = await latchkey(['usage'], {
      ...env,
      LATCHKEY_URL: `http://localhost:${server.port}`,
    })
    expect([code, calls]).toEqual([4, 0])
    expect(err).toContain('also set LATCHKEY_API_KEY, or unset LATCHKEY_URL')
  })

  test.each([
    [{}, [], 'The address of the service is unknown: run latchkey login --url URL', 4],
    [{ LATCHKEY_URL: 'http://127.0.0.1:9' }, [], 'There is no API key for http://127.0.0.1:9', 4],
    [
      { LATCHKEY_URL: 'http://u:p@127.0.0.1:9' },
      [],
      'LATCHKEY_URL must be a URL without user, query and fragment',
      2,
    ],
    [{}, ['--profile', 'none'], 'The profile none has no API key: run latchkey login --profile none', 4],
  ])('profiles: without a login, with %j and %j, commands say "%s"', async (more, args, text, exitCode) => {
    const { code, out, err } = await latchkey(['usage', ...args], { ...env, ...more })
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(err).toContain(text)
    expect(err).not.toContain('u:p')
  })

  test('profiles: the error for an invalid setting contains its name but not its value', async () => {
    const { code, err } = await latchkey(['usage'], { ...env, LATCHKEY_API_KEY: 'a b', LATCHKEY_URI: 'x' })
    expect(code).toBe(2)
    expect(err).toContain('LATCHKEY_API_KEY: expected printable ASCII')
    expect(err).toContain('LATCHKEY_URI is not a setting: did you mean LATCHKEY_URL?')
    expect(err).not.toContain('a b')
  })

  test('profiles: a key and a token can be read from files that other users cannot read', async () => {
    const [keyFile, tokenFile] = [join(lab.configFolder, 'key'), join(lab.configFolder, 'token')]
    writeFileSync(keyFile, `${acmeKey}\n`, { mode: 0o600 })
    writeFileSync(tokenFile, adminToken, { mode: 0o640 })
    const given = {
      LATCHKEY_URL: lab.api.url,
      LATCHKEY_API_KEY_FILE: keyFile,
      LATCHKEY_INTERNAL_URL: lab.backoffice.url,
      LATCHKEY_TOKEN_FILE: tokenFile,
    }
    for (const args of [['usage'], ['settings', 'list']])
      expect((await latchkey(args, { ...env, ...given })).code).toBe(0)
    chmodSync(keyFile, 0o644)
    const { code, err } = await latchkey(['usage'], { ...env, ...given })
    expect([code, err]).toEqual([2, expect.stringContaining('LATCHKEY_API_KEY_FILE: other users can read')])
  })

  test.each([0o640, 0o604, 0o620])('profiles: a file of mode %o is refused', async (mode) => {
    await logIn(acmeKey)
    chmodSync(path, mode)
    for (const args of [['usage'], ['logout']]) {
      const { code, err } = await latchkey(args, env)
      expect(code).toBe(1)
      expect(err).toContain(`run chmod 600 ${path}`)
    }
    expect((await logIn(acmeKey)).code).toBe(1)
  })

  test.each([['{'], ['[]'], ['{"profiles":{"default":{"public":{}}}}']])(
    'profiles: a file with %s is refused',
    async (text) => {
      writeFile(text)
      const { code, err } = await latchkey(['usage'], env)
      expect(code).toBe(1)
      expect(err).toContain('delete it and log in again')
    },
  )

  test('latchkey logout: removes one profile, and a repeat removes nothing', async () => {
    await logIn(acmeKey)
    await logIn(acmeKey, '--profile', 'other')
    expect((await latchkey(['logout'], env)).out).toBe('The profile default is removed\n')
    expect(Object.keys(stored())).toEqual(['other'])
    const again = await latchkey(['logout', '--json'], env)
    expect([again.code, JSON.parse(again.out)]).toEqual([0, { profile: 'default', existed: false }])
  })
})

test('latchkey login: does not show the key that is typed at a terminal', async () => {
  let shown = ''
  const child = Bun.spawn([compiledProgram(), 'login', '--url', lab.api.url], {
    env,
    terminal: {
      data(terminal, bytes) {
        shown += new TextDecoder().decode(bytes)
        if (shown.endsWith('API key: ')) terminal.write(`${acmeKey}\r`)
      },
    },
  })
  expect(await child.exited).toBe(0)
  expect(shown).toContain('as the profile default')
  expect(shown).not.toContain(acmeKey)
  expect(stored()['default'].public.credential).toBe(acmeKey)
})
