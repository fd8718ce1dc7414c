import { invalid, ok, type ValueKind } from './value-kind.ts'

// An `@` after the first one is refused in every URL: it shows a password that was not encoded, which would be printed as path.

/** An `http://` or `https://` address. */
export const httpUrl: ValueKind<string> = {
  name: 'http or https URL',
  parse(value) {
    const url = /^https?:\/\/(?:[^@/?#\s]*@)?[^@\s]*$/.test(value) ? URL.parse(value) : null
    return url ? ok(value) : invalid('an http:// or https:// URL, user and password percent-encoded')
  },
  print: withoutPassword,
}

const postgresPattern = /^postgres(?:ql)?:\/\/(?:[^@/?#\s]*@)?([^/?#\s]*)(?:\/[^@?#\s]*)?(?:\?([^@#\s]*))?$/

/** A `postgres://` address; `?host=/dir` connects through a socket. */
export const postgresUrl: ValueKind<string> = {
  name: 'postgres URL',
  parse(value) {
    const match = postgresPattern.exec(value)
    const hasHost = match && (match[1] !== '' || new URLSearchParams(match[2] ?? '').has('host'))
    return hasHost ? ok(value) : invalid('postgres://user:password@host:5432/database, percent-encoded')
  },
  print: withoutPassword,
}

const redisPattern =
  /^rediss?(?:\+(sentinel|cluster))?:\/\/(?:[^@/?\s]*@)?([^@/?\s]+)(?:\/([^@/?\s]*))?(?:\?[^@\s]*)?$/
const nodePattern = /^(?:\[[0-9a-fA-F:.]+\]|[^:[\]\s]+)(?::\d{1,5})?$/

/**
 * The four forms of Redis: one server, `rediss://` for TLS, `redis+sentinel://h1,h2/<master-name>`, `redis+cluster://h1,h2`.
 * Only the form is checked here; the storage room reads the parts.
 */
export const redisUrl: ValueKind<string> = {
  name: 'redis URL',
  parse(value) {
    const [matched, mode, hosts = '', path = ''] = redisPattern.exec(value) ?? []
    if (matched === undefined)
      return invalid(
        'redis://host:6379, rediss://…, redis+sentinel://host:26379/master-name or redis+cluster://host:6379',
      )
    const nodes = hosts.split(',')
    if (!nodes.every((node) => nodePattern.test(node))) return invalid('hosts of the form host:port')
    if (mode === undefined && nodes.length > 1)
      return invalid('one host, or redis+sentinel:// or redis+cluster:// for several')
    if (mode === 'sentinel' && path === '') return invalid("the master's name as path of redis+sentinel://")
    if (mode === 'cluster' && path !== '' && path !== '0') return invalid('database 0 of a cluster')
    return ok(value)
  },
  print: withoutPassword,
}

/** The URL with its password, and every query value that may be one, replaced. */
export function withoutPassword(url: string): string {
  return url
    .replace(/^([a-z0-9+.-]+:\/\/)([^@/?#]*)@/i, (_all, scheme: string, credentials: string) => {
      const colon = credentials.indexOf(':')
      // Without a colon the one part may be a token, as in redis://token@host.
      return colon < 0 ? `${scheme}[redacted]@` : `${scheme}${credentials.slice(0, colon)}:[redacted]@`
    })
    .replace(/([?&][^=&#]*(?:pass|pwd|secret|token|key)[^=&#]*=)[^&#]*/gi, '$1[redacted]')
}
