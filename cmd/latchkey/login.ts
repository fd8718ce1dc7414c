import type { Config } from '#internal/config/index.ts'
import { ApiClient, type ApiName, type Connection } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Problem, type Program, type Result } from './cli.ts'
import { configOf } from './connect.ts'
import { environmentOf, parseCredential, profilesPath, readProfiles, writeProfiles } from './profiles.ts'
import { parseBaseUrl, parseProfile } from './values.ts'

const afterHelp = `
Reads the API key from LATCHKEY_API_KEY (with --internal, the token from LATCHKEY_TOKEN), from a
prompt that does not show it, or from standard input, calls the service with it, and keeps it in
profiles.json under $XDG_CONFIG_HOME/latchkey (~/.config/latchkey), which only you can read.`

export function addLoginCommands(program: Program, cli: Cli): void {
  program
    .command('login')
    .description('checks an API key and stores it for the other commands')
    .addHelpText('after', afterHelp)
    .option('--url <url>', 'base URL of the API; default: LATCHKEY_URL, or that of the profile', parseBaseUrl)
    .option('--internal', 'stores the URL of the back office and a token for the internal API instead')
    .option(
      '--profile <name>',
      'profile to store it in; default: LATCHKEY_PROFILE, or "default"',
      parseProfile,
    )
    .option(...jsonOption)
    .action(
      cli.action(async ({ url, internal, profile, json }) => {
        const config = configOf(cli)
        if (config === undefined) return exitCodes.misused
        const api = internal ? 'internal' : 'public'
        const request = { api, url, profile: profile ?? config.profile, config } as const
        return cli.answer(await logIn(cli, request), { json })
      }),
    )
  program
    .command('logout')
    .description('removes a profile with its keys')
    .option('--profile <name>', 'profile to remove; default: LATCHKEY_PROFILE, or "default"', parseProfile)
    .option(...jsonOption)
    .action(
      cli.action(async ({ profile, json }) => {
        const config = configOf(cli)
        if (config === undefined) return exitCodes.misused
        return cli.answer(await logOut(profilesPath(cli.terminal.env), profile ?? config.profile), { json })
      }),
    )
}

async function logIn(
  cli: Cli,
  {
    api,
    url: wanted,
    profile,
    config,
  }: {
    readonly api: ApiName
    readonly url: string | undefined
    readonly profile: string
    readonly config: Config<'latchkey'>
  },
): Promise<Result> {
  const path = profilesPath(cli.terminal.env)
  const read = await readProfiles(path)
  if ('problem' in read) return read
  const { profiles } = read
  const given = environmentOf(config, api)
  const kept = Object.hasOwn(profiles, profile) ? profiles[profile] : undefined
  const url = wanted ?? given.url ?? kept?.[api]?.url
  if (url === undefined)
    return { problem: 'The address of the service is missing: give --url URL', exitCode: exitCodes.misused }
  const credential = given.credential ?? (await readCredential(cli, api))
  if (typeof credential !== 'string') return credential
  const refused = await check(api, { url, credential })
  if (refused !== undefined && !refused.isKnown) return refused
  if (isExposed(url))
    cli.terminal.complain(
      `Warning: ${url} is not encrypted, so others on the network can read the key: use https`,
    )
  await writeProfiles(path, { ...profiles, [profile]: { ...kept, [api]: { url, credential } } })
  const note = refused === undefined ? '' : `\nNot every command can use it: ${refused.problem}`
  return { text: `Logged in to ${url} as the profile ${profile}${note}`, json: { profile, api, url } }
}

async function readCredential({ terminal }: Cli, api: ApiName): Promise<string | Problem> {
  const what = api === 'public' ? 'API key' : 'Token'
  const text = await (terminal.ask ? terminal.ask({ text: `${what}: `, isSecret: true }) : terminal.read())
  const credential = text === undefined ? undefined : parseCredential(text)
  return (
    credential ?? {
      problem: `${what} expected, in one line of printable ASCII characters without spaces. Nothing was stored`,
      exitCode: exitCodes.misused,
    }
  )
}

/** Calls the service once. Returns undefined on success, or the problem and whether the service nevertheless knows the credential. */
async function check(
  api: ApiName,
  connection: Connection,
): Promise<(Problem & { isKnown: boolean }) | undefined> {
  const query = { limit: 1 }
  const reply =
    api === 'public'
      ? await new ApiClient('public', connection).call('listEvents', { query })
      : await new ApiClient('internal', connection).call('listTenants', { query })
  if (reply.kind === 'ok') return undefined
  return { ...reply, isKnown: reply.code === 'api_key_scope' || reply.code === 'forbidden' }
}

function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}

async function logOut(path: string, profile: string): Promise<Result> {
  const read = await readProfiles(path)
  if ('problem' in read) return read
  const { profiles } = read
  const isKept = Object.hasOwn(profiles, profile)
  const { [profile]: _removed, ...others } = profiles
  if (isKept) await writeProfiles(path, others)
  const text = isKept
    ? `The profile ${profile} is removed`
    : `There is no profile ${profile}: nothing was removed`
  return { text, json: { profile, existed: isKept } }
}
