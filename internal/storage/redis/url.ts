export interface RedisNode {
  readonly host: string
  readonly port: number
}

/** Address parsed from `LATCHKEY_REDIS_URL`. */
export interface RedisAddress {
  readonly mode: 'standalone' | 'sentinel' | 'cluster'
  readonly tls: boolean
  /** One server, the Sentinels, or any nodes of a Cluster. */
  readonly nodes: readonly RedisNode[]
  readonly username?: string
  readonly password?: string
  readonly sentinelUsername?: string
  readonly sentinelPassword?: string
  readonly masterName?: string
  readonly database: number
}

const pattern = /^(redis|rediss)(?:\+(sentinel|cluster))?:\/\/(?:([^@]*)@)?([^/?]+)(?:\/([^?]*))?(?:\?(.*))?$/
const nodesMax = 32

/**
 * Parses `redis://user:pass@host:6379/0`, `redis+sentinel://user:pass@h1:26379,h2:26379/mymaster?database=0&sentinelPassword=…`, or
 * `redis+cluster://user:pass@h1:6379,h2:6379`. With `rediss` instead of `redis`, each form uses TLS. User and password are percent-encoded.
 * @throws RangeError; its text never contains the URL, because a URL contains the password
 */
export function parseRedisUrl(url: string): RedisAddress {
  const match = pattern.exec(url)
  if (!match)
    throw new RangeError(
      'the Redis URL must start with redis://, rediss://, redis+sentinel:// or redis+cluster://',
    )
  const [, scheme, kind, credentials, hosts = '', path = '', query = ''] = match
  const mode = kind === 'sentinel' || kind === 'cluster' ? kind : 'standalone'
  const nodes = parseNodes(hosts, mode === 'sentinel' ? 26_379 : 6379)
  if (mode === 'standalone' && nodes.length > 1)
    throw new RangeError('a redis:// URL accepts only one host; use redis+cluster:// or redis+sentinel://')
  const options = new URLSearchParams(query)
  const databaseText = options.get('database') ?? (mode === 'standalone' && path !== '' ? path : '0')
  const database = Number(databaseText)
  if (!/^\d{1,4}$/.test(databaseText)) throw new RangeError('the database of a Redis URL must be a number')
  if (mode === 'cluster' && database !== 0) throw new RangeError('a Redis Cluster has only database 0')
  if (mode === 'sentinel' && path === '')
    throw new RangeError("redis+sentinel:// needs the master's name as path")
  return {
    mode,
    tls: scheme === 'rediss',
    nodes,
    database,
    ...parseCredentials(credentials),
    ...(mode === 'sentinel' && { masterName: decode(path) }),
    ...optional('sentinelUsername', options.get('sentinelUsername')),
    ...optional('sentinelPassword', options.get('sentinelPassword')),
  }
}

function parseNodes(hosts: string, defaultPort: number): RedisNode[] {
  const parts = hosts.split(',')
  if (parts.length > nodesMax) throw new RangeError(`a Redis URL accepts at most ${nodesMax} hosts`)
  return parts.map((part) => {
    const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/.exec(part)
    const port = Number(match?.[2] ?? defaultPort)
    if (!match?.[1] || port < 1 || port > 65_535)
      throw new RangeError('each host of a Redis URL must have the form host or host:port')
    return { host: match[1].replace(/^\[|\]$/g, ''), port }
  })
}

function parseCredentials(text: string | undefined): { username?: string; password?: string } {
  if (text === undefined || text === '') return {}
  const colon = text.indexOf(':')
  const username = decode(colon < 0 ? text : text.slice(0, colon))
  const password = colon < 0 ? '' : decode(text.slice(colon + 1))
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) }
}

function optional<Name extends string>(name: Name, value: string | null): { [K in Name]?: string } {
  return value === null || value === '' ? {} : ({ [name]: value } as { [K in Name]?: string })
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new RangeError('user, password and master name of a Redis URL must be percent-encoded')
  }
}
