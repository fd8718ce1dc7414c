import { settings } from './settings.ts'
import { isKeyOf } from './value-kinds.ts'

/** TLS settings and URL of one store. */
interface StoreSettings {
  readonly url: 'databaseUrl' | 'redisUrl'
  readonly ca: TlsField
  readonly cert: TlsField
  readonly key: TlsField
  readonly serverName: TlsField
  /** Returns why a connection with this URL would not use verified TLS, or undefined. */
  readonly plainBecause: (url: string) => string | undefined
}

type TlsField = Extract<keyof typeof settings, `${'database' | 'redis'}Tls${string}`>

const stores: readonly StoreSettings[] = [
  {
    url: 'databaseUrl',
    ca: 'databaseTlsCaFile',
    cert: 'databaseTlsCertFile',
    key: 'databaseTlsKeyFile',
    serverName: 'databaseTlsServerName',
    plainBecause: plainPostgres,
  },
  {
    url: 'redisUrl',
    ca: 'redisTlsCaFile',
    cert: 'redisTlsCertFile',
    key: 'redisTlsKeyFile',
    serverName: 'redisTlsServerName',
    plainBecause: (url) =>
      url.startsWith('rediss')
        ? undefined
        : 'it is plain text: begin it with rediss:// (rediss+sentinel://, …)',
  },
]

/**
 * Returns contradictions among the TLS settings of the stores and their URLs, so that configured TLS is never silently skipped.
 * `config` holds what could be read of one process' settings.
 */
export function storeTlsProblems(config: Readonly<Record<string, unknown>>): string[] {
  return stores.flatMap((store) => {
    const { ca, cert, key, serverName } = store
    const first = [ca, cert, key, serverName].find((field) => config[field] !== undefined)
    if (first === undefined) return []
    return [...urlProblems(store, first, config[store.url]), ...pairProblems(store, config)]
  })
}

function urlProblems(store: StoreSettings, set: TlsField, url: unknown): string[] {
  const { env } = settings[store.url]
  if (typeof url !== 'string') return [`${settings[set].env} needs ${env}`]
  const plain = store.plainBecause(url)
  return plain === undefined ? [] : [`${settings[set].env} contradicts ${env}: ${plain}`]
}

function pairProblems({ cert, key }: StoreSettings, config: Readonly<Record<string, unknown>>): string[] {
  const [certPath, keyPath] = [config[cert], config[key]]
  const names = [settings[cert].env, settings[key].env] as const
  if (typeof certPath !== 'string' && typeof keyPath !== 'string') return []
  if (typeof certPath !== 'string') return [`${names[1]} needs ${names[0]}`]
  if (typeof keyPath !== 'string') return [`${names[0]} needs ${names[1]}`]
  return isKeyOf(keyPath, certPath) ? [] : [`${names[1]} does not belong to ${names[0]}`]
}

const verifiedModes = ['require', 'verify-ca', 'verify-full']
const ownFiles = ['sslrootcert', 'sslcert', 'sslkey', 'uselibpqcompat']

/** All that libpq or `pg` would read from the URL to weaken or replace the settings: https://www.postgresql.org/docs/17/libpq-ssl.html (2026-11) */
function plainPostgres(url: string): string | undefined {
  const query = new URLSearchParams(/\?(.*)$/.exec(url)?.[1] ?? '')
  const mode = query.get('sslmode')
  if (mode !== null && !verifiedModes.includes(mode))
    return `its sslmode does not verify: remove it, or use sslmode=verify-full`
  const ssl = query.get('ssl')
  if (ssl !== null && ssl !== 'true' && ssl !== '1') return 'ssl in it does not verify: remove it'
  const file = ownFiles.find((name) => query.has(name))
  if (file !== undefined) return `${file} in it is another source of the same: remove it`
  return query.get('host')?.startsWith('/') ? 'a Unix socket has no TLS' : undefined
}
