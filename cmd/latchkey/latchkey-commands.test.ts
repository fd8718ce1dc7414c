import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { systemClock } from '#internal/base/index.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { until } from '#test/support/until.ts'
import { Cli, exitCodes } from './cli.ts'
import { createProgram } from './run-latchkey.ts'

interface Leaf {
  readonly path: readonly string[]
  readonly command: Command
}

/** Returns the commands that do something, without the help and what completion scripts call. */
function leavesOf(command: Command, path: readonly string[] = []): Leaf[] {
  const own = command.commands.filter((each) => each.name() !== 'complete')
  if (own.length === 0) return [{ path, command }]
  return own.flatMap((each) => leavesOf(each as Command, [...path, each.name()]))
}

const program = await createProgram(
  new Cli(
    {
      env: {},
      isColoured: false,
      say: () => undefined,
      complain: () => undefined,
      read: () => Promise.resolve(''),
    },
    systemClock,
  ),
)
const leaves = leavesOf(program).map((leaf) => [leaf.path.join(' '), leaf] as const)
const groups = [...new Set(leaves.flatMap(([, { path }]) => (path.length > 1 ? [path[0] ?? ''] : [])))]

/** Reasons why a command has no option `--json`. */
const withoutJson: Readonly<Record<string, string>> = {
  api: 'its log has JSON lines',
  forwarder: 'its log has JSON lines',
  operator: 'its log has JSON lines',
  backoffice: 'its log has JSON lines',
  run: 'its log has JSON lines',
  migrate: 'its log has JSON lines',
  completion: 'it prints a script of a shell',
}

test('commands: each command supports --json or is listed with a reason for not supporting it', () => {
  const without = leaves.filter(([, { command }]) => !command.options.some(({ long }) => long === '--json'))
  expect(without.map(([path]) => path).toSorted()).toEqual(Object.keys(withoutJson).toSorted())
})

test.each(leaves)(
  'latchkey %s: the help text names the command and describes each argument and option',
  async (name, { path, command }) => {
    const { code, out, err } = await latchkey([...path, '--help'], {})
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toStartWith(`Usage: latchkey ${name} `)
    for (const { description } of [...command.options, ...command.registeredArguments])
      expect(description).not.toBe('')
    expect(command.description()).toMatch(/[^.]$/)
  },
)

/** Values of options without which a command does nothing. */
const required: Readonly<Record<string, string>> = {
  '--forward-to': 'localhost:1',
  '--from': '1h',
  '--role': 'viewer',
}

test.each(leaves)(
  'latchkey %s: for a misspelled option, suggests the correct option and ends with exit code 2',
  async (_name, { path, command }) => {
    const given = command.options.flatMap(({ long, mandatory }) =>
      mandatory ? [long ?? '', required[long ?? ''] ?? ''] : [],
    )
    const { long = '--help' } = command.options.at(-1) ?? {}
    const misspelt = `${long?.slice(0, -2)}${long?.at(-1)}${long?.at(-2)}`
    const { code, out, err } = await latchkey([...path, ...given, misspelt], {})
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(`error: unknown option '${misspelt}'\n(Did you mean ${long}?)`)
    expect(err).toContain(`See: latchkey ${path.join(' ')} --help`)
  },
)

test.each(leaves)(
  'latchkey %s: is suggested for a misspelled command name, which ends with exit code 2',
  async (_name, { path }) => {
    const last = path.at(-1) ?? ''
    const misspelt = `${last[1]}${last[0]}${last.slice(2)}`
    const { code, out, err } = await latchkey([...path.slice(0, -1), misspelt], {})
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(new RegExp(`unknown command '${misspelt}'\n\\(Did you mean .*\\b${last}\\b`))
  },
)

test.each(groups)(
  'latchkey %s: without a subcommand prints its help to standard error, and ends with exit code 2',
  async (group) => {
    const { code, out, err } = await latchkey([group], {})
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toStartWith(`Usage: latchkey ${group} `)
  },
)

test('commands: the documentation lists all exit codes and command groups', () => {
  const text = readFileSync(`${import.meta.dir}/../../docs/reference/cli.md`, 'utf8')
  const documented = [...text.matchAll(/^\| (\d) \|/gm)].map(([, code]) => Number(code))
  expect(documented).toEqual(Object.values(exitCodes))
  const [, table = ''] = /\| Commands \|.*\n([^]*?)\n\n/.exec(text) ?? []
  const ofApi = leaves.filter(([, { command }]) => command.options.some(({ long }) => long === '--profile'))
  const missing = ofApi.filter(([path]) => !['login', 'logout'].includes(path))
  for (const [, { path }] of missing) expect(table).toContain(`\`${path[0]}`)
})

describe('commands on the service', () => {
  let lab: CommandLab
  beforeAll(async () => {
    lab = await startCommandLab()
  }, 30_000)
  afterAll(() => lab.close())

  test.each([
    ['events list'],
    ['refused'],
    ['subscriptions list'],
    ['tenants list'],
    ['settings list'],
    ['replay list'],
    ['audit'],
  ])('latchkey %s --json: prints an array', async (name) => {
    expect(await lab.json(...name.split(' '))).toBeArray()
  })

  const unknownId = 'evt_06gw979vs1d9q6mddfvvx375s4'
  test.each<[keyof typeof exitCodes, string, readonly string[], Readonly<Record<string, string>>]>([
    ['ok', 'an operation that succeeds', ['events', 'list'], {}],
    ['failed', 'a value that the service refuses', ['settings', 'set', 'log.sampling', 'half'], {}],
    ['misused', 'an operation without its tenant', ['replay', 'start', '--from', '1h'], {}],
    ['notFound', 'an unknown event', ['events', 'get', unknownId], {}],
    ['refused', 'an unknown key', ['usage'], { LATCHKEY_API_KEY: 'lk_unknown_0123456789abcdef' }],
    ['unavailable', 'a service that does not listen', ['usage'], { LATCHKEY_URL: 'http://127.0.0.1:9' }],
  ])(
    'exit code of "%s": is as documented for %s, also with --json, which prints one document',
    async (name, _case, args, more) => {
      const env = { ...lab.env(), ...more }
      expect((await latchkey(args, env)).code).toBe(exitCodes[name])
      const { code, out, err } = await latchkey([...args, '--json'], env)
      expect([code, err]).toEqual([exitCodes[name], ''])
      expect(() => JSON.parse(out)).not.toThrow()
    },
  )
})

describe('colours', () => {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-colours-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'operators.yaml')
  const args = ['operators', 'list', '--file', path]
  beforeAll(async () => {
    await latchkey(['operators', 'add', 'ada', '--role', 'viewer', '--file', path], {})
  })

  test.each([
    ['a terminal: are used', {}, true],
    ['a terminal with NO_COLOR: are not used', { NO_COLOR: '1' }, false],
    ['a terminal that has none: are not used', { TERM: 'dumb' }, false],
  ])('colours on %s', async (_case, more, isColoured) => {
    let shown = ''
    const env = { TERM: 'xterm', ...more }
    const data = (_terminal: unknown, bytes: Uint8Array) => void (shown += new TextDecoder().decode(bytes))
    const child = Bun.spawn([compiledProgram(), ...args], { env, terminal: { data } })
    expect(await child.exited).toBe(0)
    await until('the list', () => shown.includes('ada'))
    expect(shown.includes('\u001b[1mNAME')).toBe(isColoured)
  })

  test('colours: are not used in a pipe', () => {
    const child = Bun.spawnSync([compiledProgram(), ...args], { env: { TERM: 'xterm' } })
    expect(child.stdout.toString()).toMatch(/^NAME +ROLES/)
  })
})
