import { settings } from './settings.ts'
import { isKeyOf } from './value-kinds.ts'

type Store = 'database' | 'redis'

/** Functions that return the reason why a connection to a store's URL would not use verified TLS, or undefined if it would. */
const plainBecause: Readonly<Record<Store, (url: string) => string | undefined>> = {
  database: plainPostgres,
  redis: (url) =>
    url.startsWith('rediss')
      ? undefined
      : 'its connection is not encrypted: begin it with rediss:// (rediss+sentinel://, …)',
}

/** Returns problems of settings that would silently skip configured TLS. `config` contains the valid settings of one process. */
export function storeTlsProblems(config: Readonly<Record<string, unknown>>): string[] {
  return (['database', 'redis'] as const).flatMap((store) => {
    const fields = ['CaFile', 'CertFile', 'KeyFile', 'ServerName'] as const
    const first = fields.find((field) => config[`${store}Tls${field}`] !== undefined)
    if (first === undefined) return []
    const set = settings[`${store}Tls${first}`].env
    return [...urlProblems(store, set, config[`${store}Url`]), ...pairProblems(store, config)]
  })
}

function urlProblems(store: Store, set: string, url: unknown): string[] {
  const { env } = settings[`${store}Url`]
  if (typeof url !== 'string') return [`${set} needs ${env}`]
  const plain = plainBecause[store](url)
  return plain === undefined ? [] : [`${set} contradicts ${env}: ${plain}`]
}

function pairProblems(store: Store, config: Readonly<Record<string, unknown>>): string[] {
  const certName = settings[`${store}TlsCertFile`].env
  const keyName = settings[`${store}TlsKeyFile`].env
  const [certPath, keyPath] = [config[`${store}TlsCertFile`], config[`${store}TlsKeyFile`]]
  if (typeof certPath !== 'string') return keyPath === undefined ? [] : [`${keyName} needs ${certName}`]
  if (typeof keyPath !== 'string') return [`${certName} needs ${keyName}`]
  return isKeyOf(keyPath, certPath) ? [] : [`${keyName} does not belong to ${certName}`]
}

const verifiedModes = ['require', 'verify-ca', 'verify-full']
const ownFiles = ['sslrootcert', 'sslcert', 'sslkey', 'uselibpqcompat']

/**
 * Finds URL options through which libpq or `pg` would weaken or replace the TLS settings: https://www.postgresql.org/docs/17/libpq-ssl.html
 * (2026-11)
 */
function plainPostgres(url: string): string | undefined {
  const query = new URLSearchParams(/\?(.*)$/.exec(url)?.[1] ?? '')
  const mode = query.get('sslmode')
  if (mode !== null && !verifiedModes.includes(mode))
    return `its sslmode does not verify the server: remove it, or use sslmode=verify-full`
  const ssl = query.get('ssl')
  if (ssl !== null && ssl !== 'true' && ssl !== '1')
    return 'its parameter ssl does not verify the server: remove it'
  const file = ownFiles.find((name) => query.has(name))
  if (file !== undefined) return `its parameter ${file} sets the same: remove it`
  return query.get('host')?.startsWith('/')
    ? 'TLS does not apply to a Unix socket: use a host, or unset the TLS settings'
    : undefined
}
