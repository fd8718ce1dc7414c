import { constants } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type Config, type Environment, isCredential } from '#internal/config/index.ts'
import { type ApiName, type Connection, parseJson } from './api-client.ts'
import { exitCodes, type Problem } from './cli.ts'

const StoredConnection = Type.Object({ url: Type.String(), credential: Type.String() })
const Profile = Type.Object({
  public: Type.Optional(StoredConnection),
  internal: Type.Optional(StoredConnection),
})
const ProfilesFile = Type.Object({ profiles: Type.Record(Type.String(), Profile) })

/** Addresses and credentials by profile. */
export type Profiles = Readonly<Record<string, Static<typeof Profile>>>

const fileBytesMax = 1024 * 1024
/** Permission bits of group and others. */
const othersMode = 0o077

/** Returns the path of the file with the profiles, as the XDG Base Directory Specification defines it. */
export function profilesPath(env: Environment): string {
  const configured = env['XDG_CONFIG_HOME'] ?? ''
  const folder = isAbsolute(configured) ? configured : join(env['HOME'] || homedir(), '.config')
  return join(folder, 'latchkey', 'profiles.json')
}

/** Returns no profiles without the file. Refuses a file that other users can read or write, because its keys are then known. */
export async function readProfiles(path: string): Promise<{ readonly profiles: Profiles } | Problem> {
  const file = await open(path, constants.O_RDONLY).catch(unlessMissing)
  if (file === undefined) return { profiles: {} }
  try {
    const { mode, size } = await file.stat()
    if ((mode & othersMode) !== 0)
      return {
        problem: `Other users can read or write ${path} (mode ${(mode & 0o777).toString(8)}): run chmod 600 ${path}, and replace the keys in it if others could have read them`,
      }
    const value = size > fileBytesMax ? undefined : parseJson(await file.readFile('utf8'))
    if (Value.Check(ProfilesFile, value)) return { profiles: value.profiles }
    return { problem: `${path} is not a file of latchkey login: delete it and log in again` }
  } finally {
    await file.close()
  }
}

/** Writes the profiles to a file that only its owner can read. */
export async function writeProfiles(path: string, profiles: Profiles): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await replaceFile(path, `${JSON.stringify({ profiles }, null, 2)}\n`, 0o600)
}

/**
 * Replaces a file atomically, so that no reader sees a part of it. Owner and group stay, so that a service which could read the file still
 * can. @throws if that needs another user; the file is unchanged then
 */
export async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  const part = `${path}.${process.pid}`
  await rm(part, { force: true })
  const before = await stat(path).catch(() => undefined)
  const file = await open(part, 'wx', mode)
  try {
    if (before) await file.chown(before.uid, before.gid)
    await file.writeFile(text)
    await rename(part, path)
  } finally {
    await file.close()
    await rm(part, { force: true })
  }
}

const sources = {
  public: {
    name: 'API key',
    urlEnv: 'LATCHKEY_URL',
    credentialEnv: 'LATCHKEY_API_KEY',
    login: 'latchkey login',
  },
  internal: {
    name: 'token',
    urlEnv: 'LATCHKEY_INTERNAL_URL',
    credentialEnv: 'LATCHKEY_TOKEN',
    login: 'latchkey login --internal',
  },
} as const

export function environmentOf(config: Config<'latchkey'>, api: ApiName): Partial<Connection> {
  const [url, credential] =
    api === 'public' ? [config.url, config.apiKey] : [config.internalUrl, config.token]
  return { ...(url !== undefined && { url }), ...(credential !== undefined && { credential }) }
}

/**
 * Prefers the internal API if the profile that an option names has a token; otherwise decides by the environment, then by the current
 * profile.
 */
export function chooseApi(
  config: Config<'latchkey'>,
  { named, profiles }: { readonly named: string | undefined; readonly profiles: Profiles },
): ApiName {
  if (named === undefined && config.token !== undefined) return 'internal'
  if (named === undefined && config.apiKey !== undefined) return 'public'
  const profile = named ?? config.profile
  const { internal } = (Object.hasOwn(profiles, profile) && profiles[profile]) || {}
  return internal === undefined ? 'public' : 'internal'
}

/** Uses the named profile, else the environment, else the current profile. A stored credential is sent to its stored address only. */
export function chooseConnection(
  api: ApiName,
  {
    named,
    given,
    name,
    profiles,
  }: {
    readonly named: string | undefined
    readonly given: Partial<Connection>
    /** Name of the profile to use without `--profile`. */
    readonly name: string
    readonly profiles: Profiles
  },
): Connection | Problem {
  const { name: what, urlEnv, credentialEnv, login } = sources[api]
  const profile = named ?? name
  const stored = Object.hasOwn(profiles, profile) ? profiles[profile]?.[api] : undefined
  if (named !== undefined)
    return stored ?? refused(`The profile ${named} has no ${what}: run ${login} --profile ${named} --url URL`)
  const url = given.url ?? stored?.url
  if (url === undefined)
    return refused(
      `The address of the service is unknown: run ${login} --url URL, or set ${urlEnv} and ${credentialEnv}; for npm run dev with a data folder of its own, set the same LATCHKEY_DATA_DIR`,
    )
  if (!isBaseUrl(url))
    return {
      problem: `${urlEnv} must be a URL without user, query and fragment`,
      exitCode: exitCodes.misused,
    }
  if (given.credential !== undefined) return { url, credential: given.credential }
  if (stored === undefined)
    return refused(`There is no ${what} for ${url}: run ${login} --url ${url}, or set ${credentialEnv}`)
  return stored.url === url
    ? stored
    : refused(
        `The ${what} of the profile ${profile} is for ${stored.url}, not for ${url} of ${urlEnv}: also set ${credentialEnv}, or unset ${urlEnv}`,
      )
}

/** Returns whether a text is a base URL. A password is refused, because messages would show it. */
export function isBaseUrl(text: string): boolean {
  const url = /^https?:/i.test(text) ? URL.parse(text) : null
  return url !== null && [url.username, url.password, url.search, url.hash].every((part) => part === '')
}

/** Parses a credential, which may end in a line feed. */
export function parseCredential(text: string): string | undefined {
  const trimmed = text.trim()
  return isCredential(trimmed) ? trimmed : undefined
}

function refused(problem: string): Problem {
  return { problem, exitCode: exitCodes.refused }
}

function unlessMissing(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
