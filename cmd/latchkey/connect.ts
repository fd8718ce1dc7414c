import { type Config, readConfig } from '#internal/config/index.ts'
import { ApiClient, type ApiName } from './api-client.ts'
import { type Cli, type ExitCode, exitCodes, type JsonOption, type Result } from './cli.ts'
import { chooseConnection, environmentOf, profilesPath, readProfiles } from './profiles.ts'

/** Flags and description of the option that chooses a profile. */
export const profileOption = [
  '--profile <name>',
  'profile of latchkey login; default: the environment, then the profile in force',
] as const

/** Options of every command that calls the service. */
export interface ClientOptions extends JsonOption {
  readonly profile?: string | undefined
}

/** Runs a use case with the client of an API, and prints its result. Returns exit code 2 for invalid settings. */
export async function withApi<Name extends ApiName>(
  cli: Cli,
  api: Name,
  options: ClientOptions,
  use: (client: ApiClient<Name>, config: Config<'latchkey'>) => Promise<Result>,
): Promise<ExitCode> {
  const config = configOf(cli)
  if (config === undefined) return exitCodes.misused
  const given = environmentOf(config, api)
  const isComplete =
    options.profile === undefined && given.url !== undefined && given.credential !== undefined
  const read = isComplete ? { profiles: {} } : await readProfiles(profilesPath(cli.terminal.env))
  if ('problem' in read) return cli.answer(read, options)
  const connection = chooseConnection(api, { named: options.profile, given, name: config.profile, ...read })
  if ('problem' in connection) return cli.answer(connection, options)
  return cli.answer(await use(new ApiClient(api, connection), config), options)
}

/** Reads the configuration. Prints its problems and returns undefined if it is invalid. */
export function configOf({ terminal }: Cli): Config<'latchkey'> | undefined {
  const read = readConfig(terminal.env, { process: 'latchkey' })
  if (read.kind === 'ok') return read.config
  for (const problem of read.problems) terminal.complain(problem)
  return undefined
}
