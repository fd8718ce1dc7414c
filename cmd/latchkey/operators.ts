import { readFile, stat } from 'node:fs/promises'
import { Option } from '@commander-js/extra-typings'
import { stringify } from 'yaml'
import {
  type OperatorEntry,
  operatorNamePattern,
  operatorRoleNames,
  parseOperators,
  tokenDigest,
} from '#internal/access/index.ts'
import { randomToken } from '#internal/base/index.ts'
import { type Cli, exitCodes, type JsonOption, jsonOption, type Problem, type Program } from './cli.ts'
import { configOf } from './connect.ts'
import { replaceFile } from './profiles.ts'
import type { Columns } from './tables.ts'
import { parseMoment } from './values.ts'

interface FileOptions extends JsonOption {
  readonly file?: string | undefined
}

interface AddOptions extends FileOptions {
  readonly role: readonly string[]
  readonly namespace?: readonly string[] | undefined
  readonly expires?: string | undefined
}

const fileOption = [
  '--file <path>',
  'file of operators; default: LATCHKEY_OPERATORS_FILE, then /etc/latchkey/operators.yaml',
] as const
const fileDefault = '/etc/latchkey/operators.yaml'

/** Adds the commands that edit the file of the operators of `latchkey run`. */
export function addOperatorsCommand(program: Program, cli: Cli): void {
  const operators = program
    .command('operators')
    .description('the people and services that sign in to the dashboard of `latchkey run`')
  operators
    .command('add')
    .description(
      'adds an operator, and prints the token once; replaces the token of an operator with this name',
    )
    .argument('<name>', 'name in the audit log')
    .addOption(
      new Option('--role <role...>', 'what the operator may do')
        .choices(operatorRoleNames)
        .makeOptionMandatory(),
    )
    .option('--namespace <name...>', 'namespace of the tenants that the operator sees; default: all')
    .option(
      '--expires <time>',
      'expiry of the token, such as 2027-01-31T00:00:00Z; default: none',
      parseMoment,
    )
    .option(...fileOption)
    .option(...jsonOption)
    .action(cli.action(async (name, options) => cli.answer(await add(cli, name, options), options)))
  operators
    .command('list')
    .description('lists the operators')
    .option(...fileOption)
    .option(...jsonOption)
    .action(cli.action(async (options) => cli.answer(await list(cli, options), options)))
  operators
    .command('remove')
    .description('removes an operator; the token and sessions end within seconds')
    .argument('<name>', 'name in the audit log')
    .option(...fileOption)
    .option(...jsonOption)
    .action(cli.action(async (name, options) => cli.answer(await remove(cli, name, options), options)))
}

async function add(cli: Cli, name: string, { role, namespace, expires, ...options }: AddOptions) {
  if (!operatorNamePattern.test(name))
    return { problem: 'A name has at most 100 letters, digits and ._@-', exitCode: exitCodes.misused }
  const opened = await open(cli, options)
  if ('problem' in opened) return opened
  const token = `lo_${randomToken(32)}`
  const tokenSha256 = Buffer.from(tokenDigest(token), 'base64').toString('hex')
  const entry = {
    name,
    roles: role,
    tokenSha256,
    ...(namespace && { namespaces: namespace }),
    ...(expires !== undefined && { expiresAt: expires }),
  }
  const entries = [...opened.entries.filter((each) => each.name !== name), entry]
  const problem = await write(opened.path, entries)
  if (problem) return problem
  return {
    text: token,
    json: { name, token },
    note: `The token is shown only once. ${opened.path} contains its hash; the service reads the file within seconds`,
  }
}

async function list(cli: Cli, options: FileOptions) {
  const opened = await open(cli, options)
  if ('problem' in opened) return opened
  const columns: Columns<OperatorEntry> = {
    NAME: 'name',
    ROLES: ({ roles }) => roles.join(', '),
    NAMESPACES: ({ namespaces }) => namespaces?.join(', ') ?? 'all',
    'EXPIRES AT': ({ expiresAt }) => expiresAt ?? '',
  }
  return {
    text: cli.tables.list(opened.entries, columns, 'No operators'),
    json: opened.entries.map(({ tokenSha256: _hash, ...rest }) => rest),
  }
}

async function remove(cli: Cli, name: string, options: FileOptions) {
  const opened = await open(cli, options)
  if ('problem' in opened) return opened
  const entries = opened.entries.filter((each) => each.name !== name)
  if (entries.length === opened.entries.length)
    return { problem: `${opened.path} has no operator ${name}`, exitCode: exitCodes.notFound }
  return (await write(opened.path, entries)) ?? { text: `The operator ${name} is removed`, json: { name } }
}

async function open(
  cli: Cli,
  { file }: FileOptions,
): Promise<
  | {
      readonly path: string
      readonly entries: readonly OperatorEntry[]
    }
  | Problem
> {
  const config = configOf(cli)
  if (config === undefined) return { problem: 'The settings are invalid', exitCode: exitCodes.misused }
  const path = file ?? config.operatorsFile ?? fileDefault
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return ''
    throw error
  })
  const parsed = parseOperators(text)
  return parsed.kind === 'ok' ? { path, entries: parsed.entries } : { problem: `${path} ${parsed.problem}` }
}

/** Replaces the file atomically. Returns a problem if the operators are invalid, and undefined otherwise. */
async function write(path: string, operators: readonly object[]): Promise<Problem | undefined> {
  const text = stringify({ operators })
  const parsed = parseOperators(text)
  if (parsed.kind === 'invalid')
    return { problem: `The operator is invalid: ${parsed.problem}`, exitCode: exitCodes.misused }
  const mode = await stat(path).then(
    (before) => before.mode & 0o755,
    // Every user can read the file: the service may run as another user, and the file has only hashes of random tokens.
    () => 0o644,
  )
  await replaceFile(path, text, mode)
  return undefined
}
