import pg from 'pg'
import { asTlsFailure, type StoreAddress, type StoreTls, TlsFailure, tlsReader } from '../tls.ts'

/** What a pool of connections is made with. Every wait in it has a bound. */
export interface PoolOptions extends StoreAddress {
  /** A `postgres://` URL; `?host=/dir` connects through a socket. With `tls` it says nothing of TLS that counts. */
  readonly url: string
  /** Shown in `pg_stat_activity`, so that a connection can be traced to its process. */
  readonly applicationName: string
  readonly connectionsMax: number
  /** Bound of one statement: the server ends it, and `clientGraceMs` later we stop waiting for the server. */
  readonly queryTimeoutMs: number
  /** Bound of waiting for a free connection and of making one. */
  readonly connectTimeoutMs: number
  /** A connection that is older is replaced when it is next idle, and with it the plans that its session remembers. Default never. */
  readonly lifetimeMsMax?: number
  /** Server settings of its sessions, such as `jit: 'off'`. Plain words only. */
  readonly sessionSettings?: Readonly<Record<string, string>>
  /** Told of connections that broke while idle; the pool has already dropped them. Must not throw. */
  readonly onIdleError?: (error: Error) => void
}

export type { Pool, PoolClient } from 'pg'

/** How much longer than the server's own time-out a client waits: then the network or the server is gone. */
const clientGraceMs = 250
const int8Oid = 20

/**
 * Makes a pool; connects nothing yet, so it does not fail when Postgres is away. `bigint` columns arrive as numbers, and a
 * value beyond 2^53 fails its query instead of being rounded. The caller ends the pool.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    Client: clientClass(options.tls),
    connectionString: options.tls === undefined ? options.url : withoutTlsOptions(options.url),
    application_name: options.applicationName,
    max: options.connectionsMax,
    connectionTimeoutMillis: options.connectTimeoutMs,
    statement_timeout: options.queryTimeoutMs,
    query_timeout: options.queryTimeoutMs + clientGraceMs,
    idle_in_transaction_session_timeout: Math.max(10_000, options.queryTimeoutMs * 2),
    idleTimeoutMillis: 30_000,
    ...(options.lifetimeMsMax !== undefined && {
      maxLifetimeSeconds: Math.ceil(options.lifetimeMsMax / 1_000),
    }),
    ...(options.sessionSettings && { options: commandLine(options.sessionSettings) }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: { getTypeParser: typeParser },
  })
  // Without a listener an idle connection's end would be an uncaught exception.
  pool.on('error', (error) => options.onIdleError?.(error))
  return pool
}

/**
 * The class of a pool's clients, of which each is one connection: it reads the TLS files when it is made, and names a TLS failure
 * as such. `pg` sends the URL's host as server name (SNI); what is verified is `tls.serverName`, or that host.
 */
function clientClass(tls: StoreTls | undefined): typeof pg.Client {
  const read = tls && tlsReader(tls)
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      let host = ''
      super(read === undefined || typeof config !== 'object' ? config : { ...config, ssl: read(() => host) })
      host = this.host
    }

    override connect(): Promise<pg.Client>
    override connect(callback: OnConnected): void
    override connect(callback?: OnConnected): Promise<pg.Client> | void {
      if (callback === undefined) return super.connect()
      super.connect((error: Error) => Reflect.apply(callback, undefined, [namedTls(error)]))
    }
  }
}

type OnConnected = ((error: Error) => void) | ((error: null, client: pg.Client) => void)

/** Errors of `pg` itself that have no code: https://github.com/brianc/node-postgres/blob/master/packages/pg/lib/connection.js (2026-11) */
const withoutTls: ReadonlySet<string> = new Set([
  'The server does not support SSL connections',
  'There was an error establishing an SSL connection',
])

function namedTls(error: Error): Error {
  // `pg` calls back with null for success, whatever its types say.
  if (error instanceof Error && withoutTls.has(error.message))
    return new TlsFailure('the server does not offer it', 'NO_TLS', error)
  return asTlsFailure(error)
}

/** Removes what would count in place of `tls`: `pg` prefers what the URL says. */
function withoutTlsOptions(url: string): string {
  const start = url.indexOf('?')
  if (start < 0) return url
  const query = new URLSearchParams(url.slice(start + 1))
  for (const name of ['sslmode', 'ssl']) query.delete(name)
  return query.size === 0 ? url.slice(0, start) : `${url.slice(0, start)}?${query}`
}

/** The startup parameter `options`: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNECT-OPTIONS (read 2026-11). */
function commandLine(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')
}

/** The signature `pg` asks for is overloaded per type id and format; only text `bigint` differs from its own parsers. */
const typeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') => {
  if (oid === int8Oid && format !== 'binary') return safeInteger
  return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a bigint of the database is beyond 2^53')
  return value
}
