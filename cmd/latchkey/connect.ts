import { type Config, readConfig } from '#internal/config/index.ts'
import { ApiClient, type ApiName } from './api-client.ts'
import { type Cli, type ExitCode, exitCodes, type JsonOption, type Result } from './cli.ts'
import {
  chooseApi,
  chooseConnection,
  environmentOf,
  type Profiles,
  profilesPath,
  readProfiles,
} from './profiles.ts'

export const profileOption = [
  '--profile <name>',
  'profile of latchkey login; default: the environment, then the profile in force',
] as const

export interface ConnectOptions extends JsonOption {
  readonly profile?: string | undefined
}

type Use<Name extends ApiName> = (client: ApiClient<Name>, config: Config<'latchkey'>) => Promise<Result>

/** Runs a use case with the client of an API, and prints its result. Returns exit code 2 for invalid settings. */
export async function withApi<Name extends ApiName>(
  cli: Cli,
  api: Name,
  options: ConnectOptions,
  use: Use<Name>,
): Promise<ExitCode> {
  const config = configOf(cli)
  if (config === undefined) return exitCodes.misused
  const given = environmentOf(config, api)
  const isComplete =
    options.profile === undefined && given.url !== undefined && given.credential !== undefined
  const read = isComplete ? { profiles: {} } : await readProfiles(profilesPath(cli.terminal.env))
  if ('problem' in read) return cli.answer(read, options)
  return answerFrom(cli, api, options, { config, ...read, use })
}

/** Runs a use case as `withApi` does, with the internal API if there is a token for it, and otherwise with the public API. */
export async function withEitherApi(
  cli: Cli,
  options: ConnectOptions,
  uses: { readonly [Name in ApiName]: Use<Name> },
): Promise<ExitCode> {
  const config = configOf(cli)
  if (config === undefined) return exitCodes.misused
  const read = await readProfiles(profilesPath(cli.terminal.env))
  if ('problem' in read) return cli.answer(read, options)
  const api = chooseApi(config, { named: options.profile, ...read })
  return api === 'internal'
    ? answerFrom(cli, api, options, { config, ...read, use: uses.internal })
    : answerFrom(cli, api, options, { config, ...read, use: uses.public })
}

async function answerFrom<Name extends ApiName>(
  cli: Cli,
  api: Name,
  options: ConnectOptions,
  {
    config,
    profiles,
    use,
  }: { readonly config: Config<'latchkey'>; readonly profiles: Profiles; readonly use: Use<Name> },
): Promise<ExitCode> {
  const connection = chooseConnection(api, {
    named: options.profile,
    given: environmentOf(config, api),
    name: config.profile,
    profiles,
  })
  if ('problem' in connection) return cli.answer(connection, options)
  return cli.answer(await use(new ApiClient(api, connection), config), options)
}

/** Reads the configuration of the command line. Prints its problems and returns undefined if it is invalid. */
export function configOf({ terminal }: Cli): Config<'latchkey'> | undefined {
  const read = readConfig(terminal.env, { process: 'latchkey' })
  if (read.kind === 'ok') return read.config
  for (const problem of read.problems) terminal.complain(problem)
  return undefined
}
